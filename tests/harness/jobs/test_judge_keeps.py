"""From an attack's output to a result: scores are stored, and canaries are evaluated separately."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from sklearn.metrics import roc_auc_score

from harness.attacks.base import Evidence
from harness.attacks.loss import attack as loss
from harness.jobs.judge import judge
from harness.store.result import figures_of
from workloads.base import Records

MODELS, POOL, CANARIES = 4, 60, 20


def evidence(strength: float) -> Evidence:
    """Pool records that leak a little and canaries that leak by `strength`, under a model of two classes."""
    random = np.random.default_rng(0)
    members = random.random((MODELS, POOL + CANARIES)) < 0.5
    phi = random.standard_normal(members.shape)
    phi[:, :POOL] += 0.5 * members[:, :POOL]
    phi[:, POOL:] += strength * members[:, POOL:]
    logits = np.stack([np.zeros_like(phi), phi], axis=2).astype(np.float32)
    labels = np.ones(POOL + CANARIES, dtype=np.int64)
    pool = Records(torch.zeros(POOL + CANARIES, 1), torch.from_numpy(labels))
    return Evidence(logits, labels, members, logits[:, :1], labels[:1], pool, canaries=CANARIES)


def test_the_score_of_every_record_under_every_target_is_kept() -> None:
    """Any figure can be recomputed from what is stored: here the AUC, by independent code."""
    made = judge("loss", loss, evidence(0.0), loss.Params(), [])
    kept = load(made.artefacts["scores.safetensors"])
    assert kept["scores"].shape == kept["members"].shape == (MODELS, POOL + CANARIES)
    pairs = zip(kept["members"][:, :POOL], kept["scores"][:, :POOL], strict=True)
    aucs = [roc_auc_score(truth, scores) for truth, scores in pairs]
    assert figures_of(made.outcome)["metrics"]["auc"] == pytest.approx(np.mean(aucs))


def test_canaries_are_judged_apart_from_the_records_of_the_pool() -> None:
    mild, severe = (
        figures_of(judge("loss", loss, evidence(each), loss.Params(), []).outcome) for each in (0.0, 20.0)
    )
    assert mild["metrics"]["auc"] == severe["metrics"]["auc"] < 0.8
    assert mild["metrics"]["canaries"]["auc"] < 0.8
    assert severe["metrics"]["canaries"]["auc"] == 1.0
    without = evidence(0.0)
    without = replace(without, logits=without.logits[:, :POOL], members=without.members[:, :POOL], canaries=0)
    labelled = replace(without, labels=without.labels[:POOL])
    alone = figures_of(judge("loss", loss, labelled, loss.Params(), []).outcome)
    assert alone["metrics"]["auc"] == mild["metrics"]["auc"]
    assert alone["metrics"].get("canaries") is None
