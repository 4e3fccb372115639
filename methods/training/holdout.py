"""Held-out members, which a defence uses as non-members, since a method sees only members."""

import torch
from torch import Tensor

from workloads.errors import SpecError


def hold_out(members: int, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Split the row numbers of members at random: those to train on, and a share to hold out.

    At least one is held out. If the released model is never trained on them, return them as
    `Released.set_aside`.
    """
    aside = max(1, round(share * members))
    if aside >= members:
        raise SpecError(
            f"holding out a share of {share:g} leaves none of {members} members to train on; "
            "give a smaller share, or more members",
            field="share",
            value=share,
            allowed=1 - 1 / members,
        )
    order = torch.randperm(members, generator=generator, device=generator.device)
    return order[aside:], order[:aside]
