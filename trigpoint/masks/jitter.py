"""Slightly different masks of a scene: every instance grown, shrunk or left, and moved, by a pixel. For the certificate of answers.

Deterministic by content: what happens to an instance is read from a digest of seed, scene, jitter and instance, so that anyone can repeat
it. Definition: docs/release-format.md, "Certificate".
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Window = tuple[slice, slice]

REACH_PX = 2
"""How far a mask can come: one pixel of growth and one of shift."""


class Nudge(NamedTuple):
    """What happens to one instance: columns and rows it moves, and growth (-1, 0 or 1 pixel)."""

    d_col: int
    d_row: int
    growth: int


def nudge_of(seed: int, scene_id: str, jitter: int, instance_id: str) -> Nudge:
    """Return what a jitter does to an instance.

    >>> nudge_of(0, "s-1", 0, "i-1") == nudge_of(0, "s-1", 0, "i-1")
    True
    """
    digest = hashlib.sha256(f"{seed}/{scene_id}/{jitter}/{instance_id}".encode()).digest()
    return Nudge(digest[0] % 3 - 1, digest[1] % 3 - 1, digest[2] % 3 - 1)


def windows_of(labels: NDArray[np.uint16], label_of_node: NDArray[np.int64], planes: dict[int, BoolArray]) -> dict[int, Window]:
    """Return, per node, the part of the scene that its jittered masks can reach."""
    from scipy import ndimage  # 0.2 s to import, and planning needs none of it

    boxes = ndimage.find_objects(labels.astype(np.int32)) if labels.any() else []
    found = {int(k): boxes[int(label_of_node[k]) - 1] for k in np.flatnonzero(label_of_node)}
    found |= {k: ndimage.find_objects(plane.astype(np.uint8))[0] for k, plane in planes.items()}
    return {k: _around(box, labels.shape) for k, box in found.items()}


def jitter_masks(
    labels: NDArray[np.uint16],
    label_of_node: NDArray[np.int64],
    planes: dict[int, BoolArray],
    windows: dict[int, Window],
    area_px: NDArray[np.float64],
    instance_ids: Sequence[str],
    nudges: Sequence[Nudge],
    valid: BoolArray,
) -> tuple[NDArray[np.uint16], dict[int, BoolArray]]:
    """Return the index map and the planes of a jittered scene; labels and node positions stay.

    Args:
        labels: (height, width) index map.
        label_of_node: (n,) value in the map, 0 for regions.
        planes: Node of a region → (height, width) bool.
        windows: Node → where it is, from `windows_of`.
        area_px: (n,) pixels owned; the smaller instance owns what two cover.
        instance_ids: (n,) ids; of equal areas the smaller id owns.
        nudges: (n,) what happens to each.
        valid: (height, width) bool.
    """
    discrete = np.flatnonzero(label_of_node)
    before: dict[int, BoolArray] = {}
    painted = np.zeros_like(labels)
    by_id = sorted((int(k) for k in discrete), key=lambda k: instance_ids[k], reverse=True)
    for k in sorted(by_id, key=lambda k: -area_px[k]):  # stable: of equal areas the greater id stays first
        label = int(label_of_node[k])
        window = windows[k]
        mask = before[k] = labels[window] == label
        painted[window][_nudged(mask, nudges[k], valid[window])] = label
    while lost := _without_pixels(painted, label_of_node, by_id):
        for k in lost:  # what is painted again can cover what was there; masks of the release never cover each other
            painted[windows[k]][before[k]] = int(label_of_node[k])
    moved: dict[int, BoolArray] = {}
    for k, plane in planes.items():
        window = windows[k]
        moved[k] = np.zeros_like(plane)
        moved[k][window] = _nudged(plane[window], nudges[k], valid[window])
    return painted, moved


def _without_pixels(painted: NDArray[np.uint16], label_of_node: NDArray[np.int64], discrete: Sequence[int]) -> list[int]:
    """Nodes that own no pixel of an index map."""
    owned = np.bincount(painted.ravel(), minlength=int(label_of_node.max(initial=0)) + 1)
    return [k for k in discrete if not owned[label_of_node[k]]]


def _around(box: Window, shape: tuple[int, ...]) -> Window:
    """A box made larger by `REACH_PX`, inside the scene."""
    rows, cols = box
    return (
        slice(max(0, rows.start - REACH_PX), min(shape[0], rows.stop + REACH_PX)),
        slice(max(0, cols.start - REACH_PX), min(shape[1], cols.stop + REACH_PX)),
    )


def _nudged(mask: BoolArray, nudge: Nudge, valid: BoolArray) -> BoolArray:
    """Grow or shrink a mask by its 4-neighbours, move it, keep what is valid; what would be empty stays as it was.

    The mask keeps `REACH_PX` to the edges of its window, except where these are the scene's: what lies beyond continues the mask there.
    """
    grown = mask
    if nudge.growth:
        around = np.pad(mask, 1, mode="edge" if nudge.growth < 0 else "constant")
        neighbours = (around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:])
        join = np.logical_or if nudge.growth > 0 else np.logical_and
        for neighbour in neighbours:
            grown = join(grown, neighbour)
    (to_rows, from_rows), (to_cols, from_cols) = _shift(nudge.d_row), _shift(nudge.d_col)
    moved = np.zeros_like(mask)
    moved[to_rows, to_cols] = grown[from_rows, from_cols]
    moved &= valid
    return moved if moved.any() else mask


def _shift(by: int) -> tuple[slice, slice]:
    """Slices of target and source that move an axis by -1, 0 or 1."""
    if by == 0:
        return slice(None), slice(None)
    return (slice(1, None), slice(None, -1)) if by > 0 else (slice(None, -1), slice(1, None))
