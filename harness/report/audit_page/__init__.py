"""The page of a leakage audit: audit.html, audit.pdf and audit.json, from one result.

statements.py   what the page says, as text
plots.py        its two figures
markup.py       audit.html, without scripts
sheets.py       audit.pdf, two sheets of A4
"""

from pathlib import Path

from harness.audit.leakage_audit import LeakageAudit

__all__ = ["write_audit_page"]


def write_audit_page(audit: LeakageAudit, out: Path | str) -> list[Path]:
    """Write audit.html, audit.pdf and audit.json into the folder `out`."""
    from harness.report.audit_page.markup import render
    from harness.report.audit_page.sheets import write_sheets

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    page, sheets, content = (folder / f"audit.{kind}" for kind in ("html", "pdf", "json"))
    page.write_text(render(audit), encoding="utf-8")
    write_sheets(audit, sheets)
    content.write_text(audit.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return [page, sheets, content]
