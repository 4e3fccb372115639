"""Records set aside: what a defence takes for non-members, since a method sees members only."""

import torch

from workloads.base import Records
from workloads.errors import SpecError


def hold_out(members: Records, share: float, generator: torch.Generator) -> tuple[Records, Records]:
    """The members split at random: those that train, and a share (at least one of them) that does not."""
    aside = max(1, round(share * len(members)))
    if aside >= len(members):
        raise SpecError(
            f"setting aside a share of {share:g} leaves none of {len(members)} members to train on; "
            "give a smaller share, or more members"
        )
    order = torch.randperm(len(members), generator=generator, device=generator.device)
    return members.take(order[aside:]), members.take(order[:aside])
