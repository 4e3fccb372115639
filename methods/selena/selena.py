"""selena: predictions of sub-models that did not see a record, distilled into one model."""

from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import cross_entropy

from methods.base import Count, Level, Problem, Released, Run
from methods.search import Search
from methods.selena.split_ai import SplitAi, draw_absences
from methods.training.descent import Descent, DescentParams, predict
from methods.training.sampling import HOST, refuse_larger_than
from workloads.base import Records


class SelenaParams(DescentParams):
    """Parameters of selena; K and L by the paper's names and with its values."""

    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps of every sub-model."
    )
    K: Annotated[Count, Level()] = Field(default=25, description="Sub-models (Tang et al. 2022: 25).")
    L: Annotated[Count, Level()] = Field(
        default=10,
        description="Sub-models that do not see a record and label it (Tang et al. 2022: 10).",
    )
    distil_steps: Annotated[Count | None, Search(choices=(1, 2), name="distil_share")] = Field(
        default=None, description="Training steps of the released model; none: as many as steps."
    )

    @model_validator(mode="after")
    def _every_record_is_trained_on(self) -> "SelenaParams":
        if self.L >= self.K:
            raise ValueError(
                f"L = {self.L} of K = {self.K} sub-models do not see a record, so none would be trained on "
                "it; give L < K"
            )
        return self


class Selena:
    """Split-AI and self-distillation (Tang et al. 2022).

    Each record is held out from L of K random sub-models. Their mean prediction, which does not depend on the
    record, is its soft label for the released model.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "SELENA: learns the predictions of sub-models that did not see the record"
    source: ClassVar[str] = (
        "Tang et al. 2022, Mitigating Membership Inference Attacks by Self-Distillation Through a Novel "
        "Ensemble Architecture (USENIX Security)"
    )
    guarantee: ClassVar[str] = "empirical"
    caveats: ClassVar[tuple[str, ...]] = (
        "no guarantee: the soft label of a record does not depend on the record, but those of all others do, "
        "and the released model learns them",
        "adaptive in its shadows, which are trained by selena too; non-adaptive otherwise: no attack here "
        "re-creates Split-AI from known members, as the authors' adaptive attack does",
        "Aerni, Zhang and Tramèr 2024 (arXiv:2404.17399) found far more leakage of the most vulnerable "
        "records than the paper reports: add canaries, and dp-sgd at a high epsilon as a baseline",
        "costs K + 1 trainings; a checkpoint holds all K sub-models",
        "releases the last iterate; the authors' code keeps the epoch with the best test accuracy",
    )
    Params: ClassVar[type[SelenaParams]] = SelenaParams

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Epochs of a sub-model, which does not see L / K of the members; distillation in multiples of it."""
        steps = max(1, round(values["steps"] * (1 - values["L"] / values["K"])))
        return {"steps": steps, "distil_steps": values["distil_steps"] * steps}

    def train(self, members: Records, problem: Problem, params: SelenaParams, run: Run) -> Released:
        """Train K sub-models, collect their predictions, and release the model distilled from them."""
        members = members.to(run.device)
        refuse_larger_than(len(members), params.batch_size)
        absent = draw_absences(len(members), params.K, params.L, run.generator("absences", HOST))
        soft_labels = label_members(members, absent, problem, params, run)

        labelled = Records(members.x, soft_labels)
        model = problem.model(run.seed("init"))
        student = Descent(model, labelled, soft_cross_entropy, params, run, "distil")
        released = student.descend("distil", params.distil_steps or params.steps)

        learnt, labels = predict(released, members).argmax(1), soft_labels.argmax(1)
        stats = {
            "split_ai_accuracy": float((labels == members.y).double().mean()),
            "distil_agreement": float((learnt == labels).double().mean()),
            "smallest_sub_model": float((~absent).sum(0).min()),
        }
        return Released(released, NonPrivateDpEvent(), stats)


def label_members(
    members: Records, absent: Tensor, problem: Problem, params: SelenaParams, run: Run
) -> Tensor:
    """(members, classes): soft labels, the mean probabilities of the sub-models that did not see a member."""
    sub_models = SplitAi(problem.model, members, absent, problem.loss, params, run)
    for step in run.steps("split-ai", params.steps, {"sub-models": sub_models}):
        run.observe(loss=sub_models.step(step, params.steps))

    soft_labels = torch.zeros(len(members), problem.classes, device=run.device)
    for group in run.steps("answers", len(sub_models.groups), {"answers": soft_labels}):
        sub_models.add_predictions(group, soft_labels)
    return soft_labels


def soft_cross_entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """-sum p log softmax(logits), one value per example."""
    return cross_entropy(logits, probabilities, reduction="none")


method = Selena()
