"""Counts of clipped examples in a run."""

from typing import Any

import torch
from torch import Tensor

from methods.gradients.base import Clipped

# Steps between two reads of the counts: a read waits for the device.
LOOK_EVERY = 64


class Tally:
    """Counts of examples seen, clipped and left out. Part of the state of `run.steps`."""

    def __init__(self) -> None:
        self.examples = self.clipped = self.nonfinite = self.empty = 0
        self._steps = 0
        """Since the last look."""
        self._unseen: list[Tensor] = []
        self._uncompared: dict[float, list[Tensor]] = {}
        """Norms by their clip."""
        self._uncounted: list[Tensor] = []

    def add(self, step: Clipped) -> None:
        """Count one step."""
        examples = step.norms.shape[0]
        self.examples += examples
        self.empty += examples == 0
        if isinstance(step.nonfinite, Tensor):
            self._uncounted.append(step.nonfinite)
        else:
            self.nonfinite += step.nonfinite
        if isinstance(step.longer, Tensor):
            self._unseen.append(step.longer)
        else:
            self._uncompared.setdefault(step.longer, []).append(step.norms)
        self._steps += 1
        if self._steps == LOOK_EVERY:
            self._look()

    def stats(self, steps: int) -> dict[str, float]:
        """The counts of a run of `steps` steps as stats."""
        self._look()
        return {
            "clipped_share": self.clipped / max(self.examples, 1),
            "mean_batch": self.examples / steps,
            "empty_batches": float(self.empty),
            "nonfinite_gradients": float(self.nonfinite),
        }

    def state_dict(self) -> dict[str, Any]:
        """The counts."""
        self._look()
        names = ("examples", "clipped", "nonfinite", "empty")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore saved counts."""
        for name, value in state.items():
            setattr(self, name, int(value))
        self._forget()

    def _forget(self) -> None:
        self._steps = 0
        self._unseen.clear()
        self._uncompared.clear()
        self._uncounted.clear()

    def _look(self) -> None:
        for clip, norms in self._uncompared.items():
            self.clipped += int((torch.cat(norms) > clip).sum())
        if self._unseen:
            self.clipped += int(torch.cat(self._unseen).sum())
        if self._uncounted:
            self.nonfinite += int(torch.stack(self._uncounted).sum())
        self._forget()
