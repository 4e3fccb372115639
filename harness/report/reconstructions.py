"""The picture grid: members above their reconstructions from the gradients that each method shares."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from harness.report.figure.paper_sizes import SCREEN, Sheet, scaled, wrap
from harness.report.figure.style import empty_figure, house_style, new_figure, save, shorten
from harness.report.leakage import name_attack
from harness.report.metadata import Imprint
from harness.report.reading import PLAIN, Row, name_groups, read_pictures, rows_of_view
from harness.results.query import Source
from harness.store import Store

TITLE = "Members reconstructed from shared gradients"
VIEW = "reconstruction"
SHOWN, FEW = 14, 4
"""Pictures in a row; in one column of a paper."""
GAP = 2
"""White pixels between two pictures."""
MOMENTS = {"start": "gradients of the untrained model", "end": "gradients of the released model"}

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Gallery:
    """The reconstructions of one attack on one cell: pictures as (n, planes, height, width)."""

    row: Row
    originals: Bytes
    rebuilt: Bytes


def write_reconstructions(
    store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN, sweep: str | None = None
) -> list[Path]:
    """Write the pictures' figure into `out`; `where` is a condition on the view `reconstruction`."""
    galleries, sql = read_galleries(store, where, sweep)
    with house_style(sheet):
        figure = draw(galleries, sheet)
        return save(figure, out, "reconstructions", Imprint(TITLE, sql))


def read_galleries(
    store: Source, where: str | None = None, sweep: str | None = None
) -> tuple[list[Gallery], str]:
    """The rows of the view with their pictures, which are in the store, and the selection behind them."""
    plain = f"cell in (select key from cell where role = '{PLAIN}')"
    order = f"workload, attack, moment, not {plain}, method, epsilon desc nulls first, attack_task"
    rows, sql = rows_of_view(store, VIEW, order, where, sweep)
    name_groups(rows)
    # Imports have no pictures.
    return [_with_pictures(Store.open(store), row) for row in rows if not row["origin"]], sql


def _with_pictures(store: Store, row: Row) -> Gallery:
    found = read_pictures(store, row["attack_task"])
    return Gallery(row, found.originals, found.rebuilt)


def draw(galleries: Sequence[Gallery], sheet: Sheet = SCREEN) -> Figure:
    """A block for each attack on the same members: these, their mean colours, and a row for each cell."""
    if not galleries:
        command = (
            "privbench run --workload cifar10-lenet --method METHOD --models 1 --attack inverting-gradients"
        )
        return empty_figure(TITLE, f"No reconstruction yet.\nRun: {command}", sheet)
    blocks = group(galleries)
    width = sheet.inches(12)
    line = 0.72 if not sheet.printed else 0.52
    heights = [0.5 if not sheet.printed else 0.05, *(0.45 + line * (2 + len(block)) for block in blocks)]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    if not sheet.printed:
        parts[0].text(0.01, 0.5, TITLE, fontsize=scaled(14), weight="bold", va="center")
    rows = [gallery.row for gallery in galleries]
    for part, block in zip(parts[1:], blocks, strict=True):
        head = name_block(block, rows)
        part.suptitle(wrap(head, width, 10.5), x=0.01, ha="left", fontsize=scaled(10.5))
        _draw_block(part, block, FEW if sheet.across == 1 else SHOWN)
    return figure


def group(galleries: Sequence[Gallery]) -> list[list[Gallery]]:
    """Galleries of the same attack on the same pictures, together."""
    blocks: dict[tuple[Any, ...], list[Gallery]] = defaultdict(list)
    for gallery in galleries:
        row = gallery.row
        same = (row["group"], row["attack"], str(row["attack_params"]), gallery.originals.tobytes())
        blocks[same].append(gallery)
    return list(blocks.values())


def name_block(block: Sequence[Gallery], rows: Sequence[Row]) -> str:
    """The group, the attack, the moment and the number of pictures, among all shown rows."""
    row = block[0].row
    parts = (row["group"], name_attack(row, rows), MOMENTS[row["moment"]], f"{row['images']} pictures")
    return " · ".join(shorten(each, 60) for each in parts)


def lines_of(block: Sequence[Gallery], shown: int) -> list[tuple[str, Bytes]]:
    """A block's rows, each with its text: the members, their mean colours, then the reconstructions."""
    originals = block[0].originals[:shown]
    colours = originals.mean(axis=(2, 3), keepdims=True).round().astype(np.uint8)
    lines = [("members", originals)]
    baseline = block[0].row["mse_median_mean_colour"]
    lines += [(f"their mean colours\nMSE {baseline:.2g}", np.broadcast_to(colours, originals.shape))]
    return lines + [(describe(gallery.row), gallery.rebuilt[:shown]) for gallery in block]


def _draw_block(part: Any, block: Sequence[Gallery], shown: int) -> None:
    lines = lines_of(block, shown)
    ratios = [2.4, 9.6] if shown == SHOWN else [1.5, 1.8]
    places = part.subplots(len(lines), 2, squeeze=False, width_ratios=ratios)
    for (left, right), (text, pictures) in zip(places, lines, strict=True):
        left.text(1.0, 0.5, text, ha="right", va="center", fontsize=scaled(8))
        right.imshow(strip(pictures, shown), interpolation="nearest")
        left.axis("off")
        right.axis("off")


def describe(row: Row) -> str:
    """A cell's name, and how close its pictures are."""
    likeness = "" if row["ssim_mean"] is None else f", SSIM {row['ssim_mean']:.2f}"
    return (
        f"{shorten(row['label'])}\nMSE {row['mse_median']:.2g}{likeness}\n"
        f"{100 * row['beats_mean_colour']:.0f} % beat the mean colour"
    )


def strip(pictures: Bytes, shown: int = SHOWN) -> Bytes:
    """Pictures side by side as (height, width, 3), white between them and to the right of the last."""
    planes = pictures.shape[1]
    coloured = pictures if planes == 3 else np.repeat(pictures[:, :1], 3, axis=1)
    count, _, height, width = coloured.shape
    line = np.full((height, shown * (width + GAP), 3), 255, dtype=np.uint8)
    for place in range(count):
        left = place * (width + GAP)
        line[:, left : left + width] = coloured[place].transpose(1, 2, 0)
    return line
