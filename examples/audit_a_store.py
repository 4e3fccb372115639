"""What a store proves about the privacy of its models: `python examples/audit_a_store.py privbench-store`.

For every cell: the TPR at 1 % FPR of its strongest attack beside the highest that its guarantee allows, and
the epsilon that canaries prove beside the price. Exit code 1 where a measurement exceeds its bound: then the
method does not do what its ledger says, or the ledger is priced wrongly.
"""

import sys

import pandas as pd

import privbench

COLUMNS = ["workload", "label", "tpr", "ceiling", "epsilon", "audited", "verdict"]


def verdict(row: pd.Series) -> str:
    """In words; intervals decide, not means."""
    if row["tpr_at_1pct_low"] > row["ceiling_tpr_at_1pct"] or row["epsilon_audited"] > row["epsilon"]:
        return "ABOVE ITS BOUND"
    if pd.isna(row["tpr_at_1pct"]):
        return f"not resolved: {row['tpr_at_1pct_reason']}"
    return "leaks" if row["tpr_at_1pct_low"] > 0.01 else "no leak seen at 1 % FPR"


def audit(source: str) -> pd.DataFrame:
    """A row per cell of a store, by its strongest attack."""
    rows = privbench.open_store(source).frontier("attack = 'strongest' and valid")
    ends = rows[["tpr_at_1pct", "tpr_at_1pct_low", "tpr_at_1pct_high"]].to_numpy(dtype=float)
    rows["tpr"] = [f"{100 * at:.1f} % [{100 * low:.1f}, {100 * high:.1f}]" for at, low, high in ends]
    rows["ceiling"] = [f"{100 * each:.0f} %" if each < 1 else "-" for each in rows["ceiling_tpr_at_1pct"]]
    rows["audited"] = rows["epsilon_audited"]
    rows["verdict"] = rows.apply(verdict, axis=1)
    return rows[COLUMNS].sort_values(["workload", "label"])


if __name__ == "__main__":
    found = audit(sys.argv[1] if len(sys.argv) > 1 else "privbench-store")
    print(found.to_string(index=False, float_format="{:.2f}".format, na_rep="-"))
    sys.exit(int((found["verdict"] == "ABOVE ITS BOUND").any()))
