"""dpsgd-hf: DP-SGD on handcrafted features with private normalisation."""

from typing import Annotated, ClassVar, Literal

import torch
from dp_accounting import ComposedDpEvent, DpEvent, NonPrivateDpEvent
from pydantic import Field
from torch import nn

from methods.base import Count, Problem, Rate, Released, Run
from methods.dp_sgd import DpSgdParams, planned_ledger, train_model
from methods.dpsgd_hf.normalisation import (
    ChannelNormalised,
    GroupNormalised,
    estimate_moments,
    moments_event,
    refuse_unfit,
)
from methods.search import Fixed, Search
from workloads.base import Records


class DpsgdHfParams(DpSgdParams):
    """Parameters of dpsgd-hf: those of dp-sgd, and how features are normalised."""

    normalisation: Annotated[Literal["private", "group", "none"], Fixed()] = Field(
        default="private",
        description="By private statistics of every channel, by groups of a record's own channels, or none.",
    )
    groups: Annotated[Count, Fixed()] = Field(
        default=27, description="Groups of channels for normalisation = 'group'."
    )
    norm_noise: Annotated[Rate, Search(4, 32, when=("normalisation", "private"))] = Field(
        default=8.0,
        description="Noise of the private statistics: standard deviation over sensitivity.",
    )
    bound_epsilon: Annotated[Rate, Fixed()] = Field(
        default=0.05,
        description="Pure epsilon of each of the two clipping bounds of the statistics.",
    )


class DpsgdHf:
    """A head on normalised scattering features, trained by DP-SGD (Tramer and Boneh 2021).

    Scattering is part of the workload (mnist-scatter-linear and similar). On any other workload the raw
    records are normalised.
    """

    version: ClassVar[str] = "4"
    about: ClassVar[str] = "Handcrafted-DP: DP-SGD on normalised scattering features"
    source: ClassVar[str] = (
        "Tramer and Boneh 2021, Differentially Private Learning Needs Better Features (or Much More Data) "
        "(ICLR); code ftramer/Handcrafted-DP"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "private statistics cost epsilon 0.70 at delta 1e-5 before training begins (norm_noise = 8): smaller "
        "targets need more norm_noise, or normalisation = 'group', which is free",
        "the authors clip the statistics to exact medians of the data, which their epsilon does not cover; "
        "here the bounds are private quantiles, as high as can be estimated privately, and in the ledger",
        "the authors' batches are shuffled and accounted for as Poisson; here they are Poisson",
        "the authors' epsilon of 3 uses the classic Rényi conversion; it is 2.6 by the improved one and 2.4 "
        "by PLD",
        "the published hyper-parameters were tuned on the test set",
        "the features of scattering workloads are already normalised, by constants that use no data "
        "(docs/data.md); the private statistics are computed on top and give all maps the same weight",
        "the caveats of dp-sgd on adjacency, generators and stats apply",
    )
    Params: ClassVar[type[DpsgdHfParams]] = DpsgdHfParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "noise_multiplier"

    def planned(self, params: DpsgdHfParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members."""
        return with_statistics(planned_ledger(params, n_train), params)

    def train(self, members: Records, problem: Problem, params: DpsgdHfParams, run: Run) -> Released:
        """Estimate the normalisation, train for `params.steps` steps and release both together."""
        members = members.to(run.device)
        front = make_front(params)
        if not isinstance(front, nn.Identity):
            first = members.take(torch.zeros(1, dtype=torch.int64, device=run.device))
            refuse_unfit(first.x, params.groups if isinstance(front, GroupNormalised) else None)
        if isinstance(front, ChannelNormalised):
            measure(front, members, params, run)
        predictor = nn.Sequential(front, problem.model(run.seed("init")))
        return train_model(predictor, members, problem, params, run)

    def detached(self, params: DpsgdHfParams) -> str | None:
        """Normalisation hides which weight a gradient canary moves."""
        if params.normalisation == "none":
            return None
        return "records are normalised before the model reads them"

    def skeleton(self, problem: Problem, params: DpsgdHfParams) -> nn.Module:
        """A fresh model behind an empty normalisation."""
        return nn.Sequential(make_front(params), problem.model(0))


def make_front(params: DpsgdHfParams) -> nn.Module:
    """The normalisation in front of the model."""
    if params.normalisation == "private":
        return ChannelNormalised()
    return GroupNormalised(params.groups) if params.normalisation == "group" else nn.Identity()


def measure(front: ChannelNormalised, members: Records, params: DpsgdHfParams, run: Run) -> None:
    """Estimate the normalisation, in a phase of one step."""
    for _ in run.steps("normalise", 1, {"front": front}):
        front.fix(*estimate_moments(members, params.norm_noise, params.bound_epsilon, run))


def with_statistics(training: DpEvent, params: DpsgdHfParams) -> DpEvent:
    """The event of a training composed with that of its private statistics, if any."""
    if params.normalisation != "private" or isinstance(training, NonPrivateDpEvent):
        return training
    return ComposedDpEvent([*moments_event(params.norm_noise, params.bound_epsilon), training])


method = DpsgdHf()
