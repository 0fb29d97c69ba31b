"""Two masks of one thing: told by the IoU of the masks, never of their boxes.

A single stray pixel makes a box twice as large and leaves a mask what it is; boxes of two neighbours may be nearly the same while
their masks share nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import shapely

from trigpoint.masks.rasterise import CropMask
from trigpoint.proposals.masks import crop_iou
from trigpoint.proposals.settings import SAME_THING_IOU


class Pair(NamedTuple):
    """Two masks of one thing, by their places in a list, and their IoU."""

    first: int
    second: int
    iou: float


class SceneMasks(Protocol):
    """Masks of one scene by their places: `CropMasks`, or `PieceMasks` that are decoded when they are needed."""

    def __len__(self) -> int: ...

    def crop(self, k: int) -> CropMask:
        """The mask in its window of the scene."""
        ...

    def area(self, k: int) -> int:
        """Its pixels."""
        ...

    def box(self, k: int) -> tuple[int, int, int, int]:
        """Its pixel-edge box (x_min, y_min, x_max, y_max)."""
        ...


def same_things(masks: SceneMasks, threshold: float = SAME_THING_IOU) -> list[Pair]:
    """Return all pairs of masks of one scene whose IoU reaches a threshold, sorted; only masks whose boxes meet are compared.

    Args:
        masks: The masks.
        threshold: Above 0.
    """
    if len(masks) < 2:
        return []
    boxes = shapely.box(*np.array([masks.box(k) for k in range(len(masks))], dtype=float).T)
    first, second = shapely.STRtree(boxes).query(boxes)
    areas = np.array([masks.area(k) for k in range(len(masks))], dtype=float)
    small, large = np.minimum(areas[first], areas[second]), np.maximum(areas[first], areas[second])
    # the IoU of two masks is at most the ratio of their areas
    near = (first < second) & (small >= threshold * large) & (small > 0)
    found: list[Pair] = []
    for k, m in sorted(zip(first[near].tolist(), second[near].tolist(), strict=True)):
        iou = crop_iou(masks.crop(k), masks.crop(m))
        if iou >= threshold:
            found.append(Pair(k, m, iou))
    return found


class Kept(NamedTuple):
    """Which of several masks stay.

    Attributes:
        kept: Their places, sorted.
        instead_of: Place of a mask that goes → the pair that says of what it is a duplicate (`first` stays, `second` goes).
    """

    kept: list[int]
    instead_of: dict[int, Pair]


def drop_duplicates(pairs: Sequence[Pair], order: Sequence[int]) -> Kept:
    """Keep, of masks of one thing, the first in `order`; a mask goes only because of one that stays.

    Args:
        pairs: Which masks are one thing, from `same_things`.
        order: All places, the best first.
    """
    near: dict[int, list[tuple[int, float]]] = {}
    for k, m, iou in pairs:
        near.setdefault(k, []).append((m, iou))
        near.setdefault(m, []).append((k, iou))
    kept: set[int] = set()
    instead_of: dict[int, Pair] = {}
    for place in order:
        better = [(iou, -k) for k, iou in near.get(place, []) if k in kept]
        if better:
            iou, negative = max(better)
            instead_of[place] = Pair(-negative, place, iou)
        else:
            kept.add(place)
    return Kept(sorted(kept), instead_of)
