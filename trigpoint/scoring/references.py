"""Five answers that look at no relation, so that every report shows what blindness earns.

They are computed from the release itself and use its own masks. Masks of countable instances share no pixel, so their scores
follow from the sets of instances and their areas; nothing is decoded or matched.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from trigpoint.identity import seeded_generator
from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release
from trigpoint.scoring.failures import Failure, kind_of_choice
from trigpoint.scoring.metrics import Outcome, Overlap, outcome_of
from trigpoint.scoring.predictions import Prediction

SEED = 0
"""Seed of `random_one`, with the query id."""


def _category_union(query: Query, members: list[InstanceRow]) -> list[InstanceRow]:
    return members


def _largest(query: Query, members: list[InstanceRow]) -> list[InstanceRow]:
    return sorted(members, key=lambda row: (-row.area_px, row.instance_id))[:1]


def _nearest_to_centre(query: Query, members: list[InstanceRow]) -> list[InstanceRow]:
    measured = [(math.hypot(*row.centroid_m), row.instance_id, row) for row in members if row.centroid_m is not None]
    return [row for _, _, row in sorted(measured)[:1]]


def _random_one(query: Query, members: list[InstanceRow]) -> list[InstanceRow]:
    if not members:
        return []
    ordered = sorted(members, key=lambda row: row.instance_id)
    return [ordered[int(seeded_generator(SEED, query.query_id).random() * len(ordered))]]


def _silent(query: Query, members: list[InstanceRow]) -> list[InstanceRow]:
    return []


REFERENCES: Mapping[str, Callable[[Query, list[InstanceRow]], list[InstanceRow]]] = {
    "category_union": _category_union,
    "largest": _largest,
    "nearest_to_centre": _nearest_to_centre,
    "random_one": _random_one,
    "silent": _silent,
}
"""Name → what it returns, given the query and the members of its category: all of them, the one of most pixels, the one whose
centroid is nearest to the scene's centre, one drawn by the query id, nothing."""


def reference_outcomes(
    release: Release, queries: Sequence[Query], members: Mapping[str, list[InstanceRow]]
) -> dict[str, dict[str, Outcome]]:
    """Return, per reference, the outcome of every query: name → query id → outcome.

    Args:
        release: The release.
        queries: Some of its queries.
        members: Query id → instances of its category, `trigpoint.scoring.members.members_of_all`; regions are never chosen.
    """
    outcomes: dict[str, dict[str, Outcome]] = {name: {} for name in REFERENCES}
    for query in queries:
        category = members[query.query_id]
        countable = [row for row in category if row.countable]
        for name, choose in REFERENCES.items():
            outcomes[name][query.query_id] = _outcome(release, query, choose(query, countable), category)
    return outcomes


def _outcome(release: Release, query: Query, chosen: list[InstanceRow], category: list[InstanceRow]) -> Outcome:
    masks = release.masks_of_scene(query.scene_id)
    chosen = [row for row in chosen if row.instance_id in masks]
    if any(instance_id not in masks for instance_id in query.answer_ids):
        return Outcome(None, None, None, not chosen, False, None)
    answers = [release.instance_by_id[instance_id] for instance_id in query.answer_ids]
    if not all(row.countable for row in answers):
        prediction = Prediction(query.query_id, 0, masks=tuple(masks[row.instance_id] for row in chosen))
        return outcome_of(release, query, prediction, ("masks",), {row.instance_id for row in category})
    returned, expected = {row.instance_id for row in chosen}, set(query.answer_ids)
    is_exact = returned == expected
    failure: Failure | None = None
    if not is_exact:
        if not expected:
            failure = "false_alarm"
        elif not returned:
            failure = "empty"
        else:
            failure = kind_of_choice(
                returned, expected, {row.instance_id for row in category if row.countable and row.instance_id in masks}
            )
    overlap = None
    if query.answerable:
        shared, predicted, answer = (sum(masks[i].area_px for i in ids) for ids in (returned & expected, returned, expected))
        overlap = Overlap(shared, predicted, answer)
    return Outcome(is_exact, is_exact, overlap, not chosen, False, failure)
