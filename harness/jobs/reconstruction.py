"""One gradient inversion: choose members, share their gradients, reconstruct them, compare the images.

The attack gets the gradients and the model they belong to; the originals stay here.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor

from harness.attacks.base import Bools, Evidence
from harness.attacks.parts.inversion import (
    Intercepted,
    Inversion,
    InversionParams,
    Pixels,
    Reconstructions,
    explain_no_images,
)
from harness.attacks.parts.picture_metrics import compare, summarise
from harness.jobs.train import Made
from harness.store.outcomes import Reconstruction
from workloads.base import Records
from workloads.errors import BenchError

Rows = NDArray[np.int64]


def invert(attacker: Inversion, evidence: Evidence, params: InversionParams) -> Made:
    """Reconstruct members of every model of the cell from shared gradients, and judge the images."""
    own = evidence.members.shape[1] - evidence.canaries
    require_images(evidence.pool)
    pool = evidence.pool.take(torch.arange(own)) if evidence.canaries else evidence.pool
    pixels = Pixels.of(pool)
    stream = torch.Generator().manual_seed(params.seed)
    chosen = choose(evidence.included[:, :own], params.images, params.seed)
    victims, found = [], []
    for model, rows in enumerate(chosen):
        if len(rows):
            victims.append(pool.take(torch.from_numpy(rows)))
            found.append(
                attacker.rebuild(intercept(evidence, model, victims[-1], params, pixels), params, stream)
            )
    originals = Records(torch.cat([each.x for each in victims]), torch.cat([each.y for each in victims]))
    rebuilt = Reconstructions(
        torch.cat([each.x for each in found]), torch.cat([each.labels for each in found])
    )
    return judged(originals, rebuilt, pixels, chosen)


def require_images(pool: Records) -> None:
    """BenchError unless the records are images."""
    shape = tuple(pool.take(torch.arange(1)).x.shape[1:])
    if why := explain_no_images(shape):
        raise BenchError(why, field="records", value=shape)


def choose(members: Bools, images: int, seed: int) -> list[Rows]:
    """Choose equally many members of each model; the same for every method on a workload."""
    models = len(members)
    counts = [images // models + (model < images % models) for model in range(models)]
    return [
        np.random.default_rng([seed, model]).permutation(np.flatnonzero(members[model]))[:count]
        for model, count in enumerate(counts)
    ]


def intercept(
    evidence: Evidence, model: int, victims: Records, params: InversionParams, pixels: Pixels
) -> Intercepted:
    """The gradients shared by the victims, each in a separate step."""
    shared = [
        evidence.shared(model, victims.take(torch.tensor([row])), params.when) for row in range(len(victims))
    ]
    gradients = [torch.stack(each) for each in zip(*(one.gradients for one in shared), strict=True)]
    broken = [row for row in range(len(victims)) if not all(bool(g[row].isfinite().all()) for g in gradients)]
    if broken:
        raise BenchError(
            f"{len(broken)} of {len(victims)} shared gradients of model {model} are not finite and cannot be "
            "inverted: check for a diverged training, or attack with when = start",
            field="gradients",
            value=len(broken),
            allowed=0,
        )
    labels = victims.y if params.label == "known" else None
    return Intercepted(shared[0].model, gradients, labels, victims.x.shape[1:], pixels)


def judged(originals: Records, rebuilt: Reconstructions, pixels: Pixels, chosen: list[Rows]) -> Made:
    """The figures over all images, and an artefact with every image and its own figures."""
    if not bool(rebuilt.x.isfinite().all()):
        raise BenchError("the attack returned images with NaN or infinite pixels")
    wanted, given = pixels.unit(originals.x), pixels.unit(rebuilt.x)
    likeness = compare(wanted, given, pixels.deviation / (pixels.high - pixels.low))
    models = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])
    figures = summarise(likeness, rebuilt.labels == originals.y, models)
    kept: dict[str, Tensor] = {
        "originals": (wanted * 255).round().to(torch.uint8),
        "rebuilt": (given * 255).round().to(torch.uint8),
        **{name: torch.from_numpy(each) for name, each in likeness.arrays().items()},
        "labels": originals.y,
        "rebuilt_labels": rebuilt.labels,
        "records": torch.from_numpy(np.concatenate(chosen)),
        "models": torch.from_numpy(models),
    }
    artefact = save({name: each.contiguous() for name, each in kept.items()})
    return Made(Reconstruction(reconstruction=figures.asdict()), {"pictures.safetensors": artefact})
