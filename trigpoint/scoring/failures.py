"""What kind of mistake a failed query is: exactly one of `FAILURES`, by which instances the prediction points at.

Not here: whether a query failed (`trigpoint.scoring.metrics`).

Source: the kinds follow GeoRefer-Bench (arXiv 2609.29541, section 7.7), which shows but does not define them; the definitions are ours.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigpoint.masks.rle import Rle, iou

Failure = Literal[
    "unparsed", "false_alarm", "empty", "boundary_drift", "whole_category", "subset", "superset", "sibling", "other"
]  # fmt: skip

FAILURES: Mapping[Failure, str] = {
    "unparsed": "the record cannot be read",
    "false_alarm": "something predicted for an unanswerable query",
    "empty": "nothing predicted for an answerable query",
    "boundary_drift": "points at the answer's instances and no others; their masks do not pass",
    "whole_category": "points at all instances of the category, and the answer is fewer",
    "subset": "points at some of the answer's instances and nothing else",
    "superset": "points at all of the answer's instances and at something else",
    "sibling": "points at as many instances of the category as the answer has, but at wrong ones",
    "other": "none of these",
}
"""Kind → when; the first that holds, in this order."""


def kind_of_choice(chosen: AbstractSet[str], answer: AbstractSet[str], category: AbstractSet[str]) -> Failure:
    """Name the mistake of a failed, answerable query with a non-empty prediction.

    Args:
        chosen: What the prediction points at: instance ids, and one name that is no instance's per mask on nothing.
        answer: Instance ids of the answer; not empty.
        category: Instance ids that are surely of the query's category.

    >>> kind_of_choice({"a", "c"}, {"a", "b"}, {"a", "b", "c", "d"}), kind_of_choice({"x"}, {"a"}, {"a", "b"})
    ('sibling', 'other')
    """
    if chosen == answer:
        return "boundary_drift"
    if chosen and chosen == category:
        return "whole_category"
    if chosen and chosen < answer:
        return "subset"
    if chosen > answer:
        return "superset"
    return "sibling" if len(chosen) == len(answer) and chosen <= category else "other"


def chosen_by_masks(masks: Sequence[Rle], instances: Mapping[str, Rle], share: float) -> set[str]:
    """Return what instance masks point at.

    A mask points at every instance of which it covers at least `share`; if it covers none so far, at the one that holds at least
    `share` of its own pixels (it is much too small); else at nothing, which is returned as `mask 0`, `mask 1`, …

    Args:
        masks: Predicted masks, none empty.
        instances: Instance id → mask, all of the scene that may be pointed at; none empty.
        share: `rules.coverage_share`.
    """
    ids = list(instances)
    areas = np.array([rle.area_px for rle in instances.values()], dtype=np.float64)
    own = np.array([rle.area_px for rle in masks], dtype=np.float64)
    shared = _shared_px(iou(masks, list(instances.values())), own, areas)
    chosen: set[str] = set()
    for k in range(len(masks)):
        found = [ids[j] for j in np.flatnonzero(shared[k] >= share * areas)]
        if not found and ids and shared[k].max() >= share * own[k]:
            found = [ids[int(shared[k].argmax())]]
        chosen.update(found or [f"mask {k}"])
    return chosen


def _shared_px(overlap: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the whole numbers of shared pixels behind an IoU matrix and the areas of its rows and columns."""
    return np.rint(overlap * (first[:, None] + second[None, :]) / (1 + overlap))


def is_drift_of_cover(covered: Mapping[str, float], answer: AbstractSet[str], share: float) -> bool:
    """Whether one mask without instances is right but for its outline.

    It is when some read-out threshold half-way down to 0 or half-way up to 1 from `share` would return exactly the answer.

    Args:
        covered: Instance id → covered share of its pixels, of all instances that may be returned.
        answer: Instance ids of the answer, all in `covered`.
        share: `rules.coverage_share`.

    >>> is_drift_of_cover({"a": 0.4, "b": 0.0}, {"a"}, 0.5), is_drift_of_cover({"a": 0.9, "b": 0.8}, {"a"}, 0.5)
    (True, False)
    """
    lowest = min(covered[instance_id] for instance_id in answer)
    highest = max((value for instance_id, value in covered.items() if instance_id not in answer), default=0.0)
    return lowest >= share / 2 and highest < min(lowest, (1 + share) / 2)
