"""Records set aside: what a defence takes for non-members, since a method sees members only."""

import torch
from torch import Tensor

from workloads.errors import SpecError


def hold_out(members: int, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The row numbers of that many members, split at random: those that train, and a share that does not.

    At least one is held out. Where the released model never trains on them, `Released.set_aside` says so.
    """
    aside = max(1, round(share * members))
    if aside >= members:
        raise SpecError(
            f"setting aside a share of {share:g} leaves none of {members} members to train on; "
            "give a smaller share, or more members"
        )
    order = torch.randperm(members, generator=generator, device=generator.device)
    return order[aside:], order[:aside]
