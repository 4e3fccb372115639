"""dpsgd-ts: DP-SGD with tempered sigmoids instead of the model's activations."""

import logging
from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import DpEvent
from pydantic import Field
from torch import Tensor, nn

from methods.base import Problem, Rate, Released, Run
from methods.dp_sgd import DpSgdParams, planned_ledger, train_model
from methods.search import Fixed, Search
from workloads.base import Records

log = logging.getLogger(__name__)

ACTIVATIONS = (
    nn.ReLU,
    nn.ReLU6,
    nn.LeakyReLU,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.Softplus,
    nn.Sigmoid,
    nn.Tanh,
)
"""Activations that are replaced: element-wise functions without weights."""


class DpsgdTsParams(DpSgdParams):
    """Parameters of dpsgd-ts: those of dp-sgd, and the shape of the activation."""

    scale: Annotated[Rate, Search(1, 4)] = Field(
        default=2.0, description="s of s * sigmoid(T x) - o (Papernot et al. 2021); 2, 2, 1 is tanh."
    )
    temperature: Annotated[Rate, Search(0.5, 4)] = Field(
        default=2.0, description="T: the slope at 0 is s T / 4."
    )
    offset: Annotated[float, Fixed()] = Field(
        default=1.0, allow_inf_nan=False, description="o: values lie between -o and s - o."
    )


class DpsgdTs:
    """DP-SGD with bounded activations (Papernot et al. 2021). The guarantee is that of dp-sgd."""

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "DP-SGD with tempered sigmoids instead of the model's activations"
    source: ClassVar[str] = (
        "Papernot et al. 2021, Tempered Sigmoid Activations for Deep Learning with Differential Privacy "
        "(AAAI)"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "activations that are modules are replaced; those that a model calls as functions (WRN), or that are "
        "inside recurrent layers, stay",
        "a model without activations (digits-linear) is trained as dp-sgd trains it",
        "the workloads *-cnn already have tanh, which is the default here; *-cnn-relu have ReLU instead",
        "the caveats of dp-sgd on adjacency, generators and stats apply",
    )
    Params: ClassVar[type[DpsgdTsParams]] = DpsgdTsParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "noise_multiplier"

    def planned(self, params: DpsgdTsParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members."""
        return planned_ledger(params, n_train)

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """The offset that makes the activation odd."""
        return {"offset": values["scale"] / 2}

    def train(self, members: Records, problem: Problem, params: DpsgdTsParams, run: Run) -> Released:
        """Replace the activations, train for `params.steps` steps and release the model."""
        model = tempered_model(problem, params, run.seed("init"))
        return train_model(model, members, problem, params, run)

    def skeleton(self, problem: Problem, params: DpsgdTsParams) -> nn.Module:
        """The workload's model with its activations replaced, which saved weights do not record."""
        return tempered_model(problem, params, 0)


def tempered_model(problem: Problem, params: DpsgdTsParams, seed: int) -> nn.Module:
    """A fresh model with tempered sigmoids."""
    model = problem.model(seed)
    if temper(model, params.scale, params.temperature, params.offset) == 0:
        log.warning("the model has no activation to replace: this is dp-sgd")
    return model


class TemperedSigmoid(nn.Module):
    """scale * sigmoid(temperature * x) - offset, entry by entry (Papernot et al. 2021); (2, 2, 1) is tanh."""

    def __init__(self, scale: float, temperature: float, offset: float) -> None:
        super().__init__()
        self.scale, self.temperature, self.offset = scale, temperature, offset

    def forward(self, x: Tensor) -> Tensor:
        """Apply element-wise."""
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset

    def extra_repr(self) -> str:
        """The three constants."""
        return f"scale={self.scale:g}, temperature={self.temperature:g}, offset={self.offset:g}"


def temper(model: nn.Module, scale: float, temperature: float, offset: float) -> int:
    """Replace every activation of the model by a tempered sigmoid; return their number.

    Only modules are found: functions called in `forward`, or inside a recurrent layer, stay. Weights and
    their names stay, too.
    """
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, ACTIVATIONS)
    ]
    for parent, name in places:
        setattr(parent, name, TemperedSigmoid(scale, temperature, offset))
    return len(places)


method = DpsgdTs()
