"""The global, deterministic selection: which candidates of all scenes are released.

Does not depend on the order of candidates or on sharding: ties go to the smaller query id. Greedy for variety: the candidate whose
category, relation, anchor and answer size have been used least comes next.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from trigpoint.programs.generate import Candidate


class Quota(NamedTuple):
    """What to select.

    Attributes:
        per_scene: Level → answerable queries per scene at most.
        unanswerable_share: Share of the whole release.
        max_per_answer: Programs of one scene that may share an answer.
    """

    per_scene: dict[int, int]
    unanswerable_share: float
    max_per_answer: int


class Selection(NamedTuple):
    """The selected candidates, sorted by (scene, query id), and what fell short."""

    chosen: list[Candidate]
    shortfalls: list[str]


def select_queries(candidates: Iterable[Candidate], quota: Quota) -> Selection:
    """Select queries of all scenes; says so where the scenes cannot supply a quota."""
    by_scene: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_scene[candidate.scene_id].append(candidate)
    used: Counter[tuple[str, object]] = Counter()
    chosen: list[Candidate] = []
    shortfalls: list[str] = []
    for scene_id in sorted(by_scene):
        answerable = [c for c in by_scene[scene_id] if c.kind == "answerable"]
        answers: Counter[tuple[str, ...]] = Counter()
        for level in sorted(quota.per_scene):
            pool = sorted((c for c in answerable if c.level == level), key=lambda c: c.query_id)
            taken = _most_varied(pool, quota.per_scene[level], used, answers, quota.max_per_answer)
            chosen += taken
            if len(taken) < quota.per_scene[level]:
                shortfalls.append(f"scene {scene_id}: level {level} has {len(taken)} of {quota.per_scene[level]} queries")
    share = quota.unanswerable_share
    n_unanswerable = math.floor(len(chosen) * share / (1 - share) + 0.5)
    chosen += _unanswerable(by_scene, n_unanswerable, used, shortfalls)
    return Selection(sorted(chosen, key=lambda c: (c.scene_id, c.query_id)), shortfalls)


def _features(candidate: Candidate) -> list[tuple[str, object]]:
    size = len(candidate.answer_ids)
    return [
        ("category", candidate.category),
        ("relation", candidate.relations),
        ("anchor", candidate.anchor_ids),
        ("size", 0 if size == 0 else 1 + int(math.log2(size))),
    ]


def _most_varied(
    pool: list[Candidate], n: int, used: Counter[tuple[str, object]], answers: Counter[tuple[str, ...]], max_per_answer: int
) -> list[Candidate]:
    taken: list[Candidate] = []
    left = list(pool)
    while left and len(taken) < n:
        best = min(left, key=lambda c: (sum(used[f] for f in _features(c)), c.query_id))
        left.remove(best)
        if answers[best.answer_ids] >= max_per_answer:
            continue
        taken.append(best)
        answers[best.answer_ids] += 1
        used.update(_features(best))
    return taken


def _unanswerable(
    by_scene: dict[str, list[Candidate]], n: int, used: Counter[tuple[str, object]], shortfalls: list[str]
) -> list[Candidate]:
    """Take unanswerable queries scene by scene in turn, until there are `n`."""
    pools = {scene: sorted((c for c in found if c.kind != "answerable"), key=lambda c: c.query_id) for scene, found in by_scene.items()}
    taken: list[Candidate] = []
    while len(taken) < n:
        before = len(taken)
        for scene in sorted(pools):
            if len(taken) < n:
                one = _most_varied(pools[scene], 1, used, Counter(), 1)
                taken += one
                for candidate in one:
                    pools[scene].remove(candidate)
        if len(taken) == before:
            shortfalls.append(f"release: {len(taken)} unanswerable queries of {n}; the scenes supply no more")
            break
    return taken
