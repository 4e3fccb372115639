"""Label-only: the robustness of a record's label, from predicted labels only."""

from harness.attacks.label_only.label_only import attack

__all__ = ["attack"]
