"""A statement is checked as a quoted literal: no text leaves its quotes, or is checked as another one."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.results.collect import collect
from harness.results.query import FileReader, _checked, _parsed, _quoted, _wall_in, query
from harness.spec import Json
from harness.store import Store
from workloads.errors import SpecError

TEXTS = (
    "it's",
    "''",
    "'; drop view frontier; --",
    "') ; copy (select 1) to 'out.csv'; select ('",
    "\\'; select 2; --",
    "\\",
    "a\\' or '1'='1",
    '"; select 2; --',
    "$$",
    "$tag$ ' $tag$",
    "/* ' */",
    "-- '\n",
    "\n'\r\n",
    "\u2019; select 2",
    "\uff07; select 2",
    "\u02bc; select 2",
    "\u00a0'\u2003'\u3000",
    "\u202e'reversed",
    "e\u0301'\U0001f600'",
    "\ufeff'",
    "\x01\x1a\x1b[31m'",
    "%s ? $1 :name {0}",
)
"""What ends literals in one dialect or another."""
SELECTS = (
    "select 'it''s'",
    "select $$it's$$",
    "select $a$ it's $$ $a$",
    "select e'it\\'s'",
    "select E'\\x27; drop view frontier; --'",
    "select 1 /* ' */",
    "select /* /* ' */ */ 1",
    "select 1 -- '; drop view frontier",
    "select 'a' -- '\n'b'",
    'select 1 as "it\'s ""quoted"""',
    "select\u00a01",
    "select '\u2019; drop view frontier'",
    "  select 1 ; ",
    ";;select 1;;",
)
PIECES = (*"'\"\\$/*-;1\n\r\u00a0", "select ", "explain ", "analyze ", "$a$", "e'", "--", "/*", "*/")
SECOND = (
    "select ''; drop view frontier; --'",
    "select $$ $$; drop view frontier; -- $$",
    "select 1 /* */; drop view frontier; /* */",
    "select 1 -- \n; drop view frontier",
    "select 1\r; drop view frontier",
    "select 1\u00a0; drop view frontier",
    "explain select 1; drop view frontier",
)
"""Two statements, however they are dressed up."""


@pytest.fixture(scope="module")
def parser() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        _wall_in(connection)
        yield connection


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("quoting") / "store", create=True)
    collect(store.path)
    return store.path


def by_parameter(parser: duckdb.DuckDBPyConnection, text: str) -> Json | None:
    """The tree of a text that was never quoted."""
    row = parser.execute("select json_serialize_sql(?::varchar)", [text]).fetchone()
    assert row is not None
    tree: Json = json.loads(row[0])
    return None if tree["error"] else tree


def literal(parser: duckdb.DuckDBPyConnection, text: str) -> object:
    (statement,) = parser.extract_statements(f"select {_quoted(text)}")
    row = parser.execute(statement).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("text", TEXTS)
def test_a_quoted_text_is_the_text(text: str, parser: duckdb.DuckDBPyConnection) -> None:
    assert literal(parser, text) == text


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@settings(max_examples=300, deadline=None)
def test_any_quoted_text_is_the_text(parser: duckdb.DuckDBPyConnection, text: str) -> None:
    assert literal(parser, text) == text


@given(
    pieces=st.lists(st.sampled_from([*"'\"\\$/*-;\n\r\u00a0", "select ", "1", "$a$", "e'", "--", "/*", "*/"]))
)
@settings(max_examples=300, deadline=None)
def test_any_statement_is_checked_as_it_is_written(
    parser: duckdb.DuckDBPyConnection, pieces: list[str]
) -> None:
    """Whatever DuckDB takes for a statement has the tree it has without our quotes."""
    try:
        statements = parser.extract_statements("".join(pieces))
    except duckdb.Error:
        return
    for each in statements:
        assert _parsed(parser, each) == by_parameter(parser, each.query)


@pytest.mark.parametrize("sql", SELECTS)
def test_the_tree_is_that_of_the_statement(sql: str, parser: duckdb.DuckDBPyConnection) -> None:
    (statement,) = parser.extract_statements(sql)
    found = _parsed(parser, statement)
    assert found is not None
    assert found == by_parameter(parser, statement.query)


@pytest.mark.parametrize("sql", SELECTS)
def test_a_select_with_quotes_answers_as_duckdb_does(sql: str, path: Path) -> None:
    with duckdb.connect() as plain:
        assert query(path, sql).rows == plain.execute(sql).fetchall()


@pytest.mark.parametrize("sql", SECOND)
def test_a_second_statement_is_refused(sql: str, parser: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(SpecError):
        _checked(parser, sql)


@pytest.mark.parametrize("sql", ["select 1\0", "select '\0'", "\0", "select 1\0; drop view frontier"])
def test_a_nul_is_refused_everywhere(sql: str, path: Path) -> None:
    """DuckDB takes it for the end of a statement, but not of a text: the two would be read differently."""
    with pytest.raises(SpecError) as refused:
        query(path, sql)
    assert refused.value.field == "query"
    with FileReader(path) as reader, pytest.raises(SpecError):
        reader.execute(sql)


@pytest.mark.parametrize("sql", ["select '\udcff'", "select 1 -- \ud800"])
def test_bytes_that_are_no_text_are_refused(sql: str, path: Path) -> None:
    with pytest.raises(SpecError):
        query(path, sql)
