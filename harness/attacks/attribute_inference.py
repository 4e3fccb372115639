"""Attribute inference: the value of a hidden column that makes the model most confident of the label."""

import warnings
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn.functional import one_hot

import methods.base
from harness.attacks.base import Evidence, Floats, rescaled_logit
from harness.attacks.parts.attribute_metrics import NOTHING_SENSITIVE, Guesses, Inference
from harness.attacks.parts.queries import blocks, predict
from workloads.base import Attribute, Records
from workloads.errors import BenchError

TIE = 1e-4
"""Weight of the prior where only the model counts: it breaks ties."""
PENALTY, STEPS = 0.1, 200
"""scikit-learn's C of the imputation and its maximum of steps: for a few hundred public records or more."""
LEAST = 1e-12
"""Every value is possible."""


class AttributeInferenceParams(methods.base.Params):
    """How the model's predictions are weighted."""

    variant: Literal["confidence", "yeom"] = Field(
        default="yeom",
        description="confidence: the value with the highest probability of the label; yeom: the value whose "
        "loss is most like a member's, weighted by the prior",
    )
    prior: Literal["marginal", "imputed"] = Field(
        default="marginal",
        description="For yeom: the frequency of a value, or its probability by imputation from the rest.",
    )


class AttributeInference:
    """Yeom et al. 2018 and Fredrikson et al. 2015: all but one column of a record are known, and its label.

    The model is queried with every possible value in the column. `confidence` takes the value with the
    highest probability of the label. `yeom` takes the highest prior times density of a member's loss: a
    normal fitted to the rescaled logits of the other models' members, since losses are far from normal.
    The imputation is a logistic regression on the population's records, without any model.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "infers a sensitive column from the rest of the record and the model's logits"
    source: ClassVar[str] = "Yeom et al. 2018, Privacy Risk in Machine Learning (arXiv:1709.01604)"
    caveats: ClassVar[tuple[str, ...]] = (
        "for workloads that declare a sensitive attribute",
        "only the gap between members and non-members is a leak of the members' records; the rest is learnt",
        "the imputation is a linear model on the test records: a better one would leave less advantage",
    )
    Params: ClassVar[type[methods.base.Params]] = AttributeInferenceParams
    shadows: ClassVar[int] = 1

    def guesses(self, evidence: Evidence, params: AttributeInferenceParams) -> Guesses:
        """The inferred value for every record and target."""
        attribute, public = _declared(evidence)
        truth = attribute.of(evidence.pool.x).numpy()
        common = np.bincount(attribute.of(public.x).numpy(), minlength=len(attribute.values)) + 1.0
        likely = impute(public, evidence.pool, attribute, evidence.logits.shape[2])
        prior = likely if params.prior == "imputed" and params.variant == "yeom" else common / common.sum()
        sure = np.stack([_confidence(evidence, m, attribute) for m in range(len(evidence.members))])
        if params.variant == "yeom":
            weights = np.stack([_member_density(evidence, m, each) for m, each in enumerate(sure)])
            guessed = (weights + np.log(prior)).argmax(axis=2)
        else:
            guessed = (sure + TIE * np.log(prior)).argmax(axis=2)
        share = float(common.max() / common.sum())
        return Guesses(attribute.name, truth, guessed, likely.argmax(axis=1), share)


def _declared(evidence: Evidence) -> tuple[Attribute, Records]:
    if evidence.sensitive is None or evidence.population is None:
        raise BenchError(NOTHING_SENSITIVE, field="sensitive")
    return evidence.sensitive, evidence.population


def _confidence(evidence: Evidence, model: int, attribute: Attribute) -> Floats:
    """(n, values): the rescaled logit of the label for every completion."""
    released, values = evidence.released(model), len(attribute.values)
    found = []
    for x, y in blocks(evidence.pool, values):
        logits = predict(released, attribute.completions(x).flatten(0, 1))
        labels = y.repeat_interleave(values)
        found.append(rescaled_logit(logits[None].float().numpy(), labels.numpy())[0].reshape(-1, values))
    return np.concatenate(found)


def _member_density(evidence: Evidence, target: int, sure: Floats) -> Floats:
    """(n, values): log density under a normal fitted to the members of the other models."""
    others = np.arange(len(evidence.members)) != target
    usual = evidence.phi[others][evidence.included[others]]
    if not len(usual):
        return sure
    return np.asarray(-0.5 * ((sure - usual.mean()) / max(float(usual.std()), 1e-6)) ** 2)


def impute(public: Records, asked: Records, attribute: Attribute, classes: int) -> Floats:
    """(n, values): the probability of each value, from the other columns and the label of public records."""
    # Imported here: listing attacks and planning need no scikit-learn.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    truth = attribute.of(public.x).numpy()
    chances = np.full((len(asked), len(attribute.values)), LEAST)
    if (truth == truth[0]).all():
        chances[:, truth[0]] = 1.0
        return chances
    regression = LogisticRegression(C=PENALTY, max_iter=STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping is intended
        regression.fit(_known(public, attribute, classes), truth)
    found = regression.predict_proba(_known(asked, attribute, classes))
    chances[:, regression.classes_] = np.maximum(found, LEAST)
    return chances


def _known(records: Records, attribute: Attribute, classes: int) -> NDArray[np.float32]:
    """(n, columns): the records without the attribute, and their labels as columns."""
    x = records.x.float().clone()
    x[:, attribute.column] = 0
    known: NDArray[np.float32] = torch.cat([x, one_hot(records.y, classes)], dim=1).numpy()
    return known


attack: Inference = AttributeInference()
