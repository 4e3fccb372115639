"""A training to audit: `privbench audit examples/train_to_audit.py --models 16 --canaries 100`.

Or run it as a script: `python examples/train_to_audit.py STORE [MODELS]` writes the page into ./audit.
"""

import sys
from typing import Any

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import privbench

Arrays = tuple[Any, Any, Any, Any]


def data() -> Arrays:
    """The pool, from which members are drawn, and records that are never members."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    return x[:1200], y[:1200], x[1200:], y[1200:]


def train(x: Any, y: Any, seed: int) -> MLPClassifier:
    """Train one model on its members, with all randomness from the seed."""
    return MLPClassifier(hidden_layer_sizes=(32,), max_iter=60, tol=0, random_state=seed).fit(x, y)


if __name__ == "__main__":
    models = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    audit = privbench.audit(train, data, models=models, canaries=100, store=sys.argv[1])
    print(audit.meaning)
    for name, bound in audit.canary_audits.items():
        print(f"{name}: epsilon is at least {bound.epsilon:.2f}")
    for file in privbench.write_audit_page(audit, "audit"):
        print(file)
