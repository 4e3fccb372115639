"""`privbench report reproduce`: what the papers print beside what we have."""

from pathlib import Path

import typer

from harness import console


def reproduce(source: Path | str, table: str | None, where: str | None, out: Path, form: str) -> None:
    """Print the comparison in the form asked for and write it as Markdown, LaTeX and CSV."""
    from harness.collect import collect
    from harness.report.reproduce import compare
    from harness.report.tables import RENDER, write_table
    from harness.store import Store

    # Nothing was run: every published number is still to be shown.
    if isinstance(source, Path) and not Store(source).database.exists():
        collect(source)
    found = compare(source, table, where)
    files = write_table(found, out)
    if form in RENDER:
        typer.echo(RENDER[form](found), nl=False)
        return
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    console.out.print(console.table(rows, title=found.title))
    console.say(found.counts)
    for number, text in enumerate(found.remarks, 1):
        console.say(f"[{number}] {text}")
    for text in found.protocol:
        console.say(f"- {text}")
    for file in files:
        console.say(str(file))
