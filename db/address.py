"""The address of a database: a path, `duckdb:///PATH`, or `postgresql+psycopg://USER@HOST/NAME`.

SQLAlchemy parses URLs and is loaded for these only.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from db.errors import DatabaseError

if TYPE_CHECKING:
    import sqlalchemy as sa


def server_url(database: str | Path) -> "sa.URL | None":
    """The URL of a PostgreSQL database; None for a file."""
    if isinstance(database, Path) or "://" not in database:
        return None
    import sqlalchemy as sa

    try:
        url = sa.make_url(database)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise DatabaseError(
            "the database's URL cannot be parsed: write postgresql+psycopg://USER@HOST/NAME or duckdb:///PATH"
        ) from error
    return url if url.get_backend_name() in ("postgresql", "postgres") else None


def database_path(database: str | Path) -> Path:
    """The file a path or a `duckdb:///` URL names; DatabaseError for other kinds of database."""
    if isinstance(database, str) and "://" in database:
        from sqlalchemy import make_url

        url = make_url(database)
        if url.get_backend_name() != "duckdb" or not url.database or url.database == ":memory:":
            raise DatabaseError(
                f"'{shown(url)}' cannot hold results: give the path of a DuckDB file, "
                "duckdb:///PATH or postgresql+psycopg://USER@HOST/NAME"
            )
        return Path(url.database)
    return Path(database)


def database_name(database: str | Path) -> str:
    """The database's name for display, without a password."""
    url = server_url(database)
    return shown(url) if url is not None else str(database_path(database))


def shown(url: "sa.URL") -> str:
    """The URL for display, without its password."""
    return url.render_as_string(hide_password=True)
