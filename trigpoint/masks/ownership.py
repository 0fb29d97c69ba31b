"""Who owns a pixel: exclusive masks of discrete instances, decided once and stored as an index map."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.masks.rasterise import BoolArray, CropMask

MAX_LABELS = 65_535
"""Values that a uint16 index map can hold beside 0."""


class Claim(NamedTuple):
    """A discrete instance's claim to pixels.

    Attributes:
        instance_id: Its id; settles ties.
        whole_area_m2: Ground area of its whole polygon; the smaller owns what it shares.
        crop: The pixels that it covers, before ownership.
        min_px: Fewer owned pixels than this drop it.
        is_drawn: A person decided about its outline: it owns what it shares with those that nobody decided about.
    """

    instance_id: str
    whole_area_m2: float
    crop: CropMask
    min_px: int
    is_drawn: bool = False


class Ownership(NamedTuple):
    """The decision.

    Attributes:
        labels: (height, width) uint16 index map, 0 = nothing.
        label_of: instance id → value in the map, 1…n in order of id.
        owned_px: instance id → pixels owned.
        moved_px: instance id → pixels that it covers and another owns.
        dropped: instance id → pixels it would have owned, fewer than its minimum.
    """

    labels: NDArray[np.uint16]
    label_of: dict[str, int]
    owned_px: dict[str, int]
    moved_px: dict[str, int]
    dropped: dict[str, int]


def decide_ownership(claims: list[Claim], valid: BoolArray) -> Ownership:
    """Give every pixel to at most one instance: to what a person drew, then the smaller whole polygon, then the smaller id.

    An instance left with fewer pixels than its minimum is dropped and its pixels go to the others.

    Args:
        claims: Any order; the result does not depend on it.
        valid: (height, width) bool; invalid pixels belong to nobody.

    Raises:
        InputError: more than 65,535 instances.
    """
    # painted from the largest to the smallest, what people drew last; of equal areas the smaller id comes last
    alive = sorted(claims, key=lambda claim: claim.instance_id, reverse=True)
    alive.sort(key=lambda claim: (not claim.is_drawn, claim.whole_area_m2), reverse=True)
    if len(alive) > MAX_LABELS:
        raise InputError(f"{len(alive)} discrete instances in one scene, expected at most {MAX_LABELS}; cut smaller scenes")
    painted = np.zeros(valid.shape, dtype=np.int32)
    for position, claim in enumerate(alive, start=1):
        painted[claim.crop.slices][claim.crop.mask] = position
    painted[~valid] = 0
    counts = np.bincount(painted.ravel(), minlength=len(alive) + 1)
    dropped: dict[str, int] = {}
    # one at a time, the smallest whole polygon first: what it frees may save another
    while small := [k for k, claim in enumerate(alive, start=1) if claim.instance_id not in dropped and counts[k] < max(1, claim.min_px)]:
        gone = small[-1]
        dropped[alive[gone - 1].instance_id] = int(counts[gone])
        _hand_on(painted, counts, alive, gone, dropped)
    positions = [k for k, claim in enumerate(alive, start=1) if claim.instance_id not in dropped]
    label_of = {instance_id: label for label, instance_id in enumerate(sorted(alive[k - 1].instance_id for k in positions), start=1)}
    lookup = np.zeros(len(alive) + 1, dtype=np.uint16)
    owned: dict[str, int] = {}
    moved: dict[str, int] = {}
    for position in positions:
        claim = alive[position - 1]
        lookup[position] = label_of[claim.instance_id]
        owned[claim.instance_id] = int(counts[position])
        covered = int(np.count_nonzero(claim.crop.mask & valid[claim.crop.slices]))
        moved[claim.instance_id] = covered - int(counts[position])
    return Ownership(lookup[painted], label_of, owned, moved, dropped)


def _hand_on(painted: NDArray[np.int32], counts: NDArray[np.int64], claims: list[Claim], gone: int, dropped: dict[str, int]) -> None:
    """Give the pixels of claim `gone` (1…n, largest first) to whom they belong without it; changes `painted` and `counts`."""
    freed = painted == gone
    counts[gone] = 0
    painted[freed] = 0
    for position, claim in enumerate(claims, start=1):
        if position == gone or claim.instance_id in dropped:
            continue
        window = claim.crop.slices
        taken = claim.crop.mask & freed[window]
        if taken.any():
            counts -= np.bincount(painted[window][taken], minlength=len(counts))
            painted[window][taken] = position
            counts[position] += int(np.count_nonzero(taken))


def touches_edge(mask: BoolArray, valid: BoolArray) -> bool:
    """Whether a mask meets the border of the scene or its invalid area (4-neighbours): the instance is cut.

    Args:
        mask: (height, width) bool.
        valid: (height, width) bool.
    """
    if mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any():
        return True
    invalid = ~valid
    if not invalid.any():
        return False
    return bool(
        (mask[1:] & invalid[:-1]).any()
        or (mask[:-1] & invalid[1:]).any()
        or (mask[:, 1:] & invalid[:, :-1]).any()
        or (mask[:, :-1] & invalid[:, 1:]).any()
    )


def cut_labels(labels: NDArray[np.uint16], valid: BoolArray) -> set[int]:
    """Return the values of an index map that meet the scene's border or its invalid area."""
    invalid = ~valid
    found = [labels[0], labels[-1], labels[:, 0], labels[:, -1]]
    if invalid.any():
        found += [
            labels[1:][invalid[:-1]],
            labels[:-1][invalid[1:]],
            labels[:, 1:][invalid[:, :-1]],
            labels[:, :-1][invalid[:, 1:]],
        ]
    return {int(value) for value in np.unique(np.concatenate([part.ravel() for part in found]))} - {0}
