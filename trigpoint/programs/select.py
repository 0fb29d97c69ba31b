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
    short: Counter[int] = Counter()
    for scene_id in sorted(by_scene):
        answerable = [c for c in by_scene[scene_id] if c.kind == "answerable"]
        answers: Counter[tuple[str, ...]] = Counter()
        for level in sorted(quota.per_scene):
            taken = _most_varied((c for c in answerable if c.level == level), quota.per_scene[level], used, answers, quota.max_per_answer)
            chosen += taken
            short[level] += quota.per_scene[level] - len(taken)
    for level, missing in sorted(short.items()):
        if missing:
            asked = quota.per_scene[level] * len(by_scene)
            shortfalls.append(f"level {level}: {asked - missing} of {asked} queries that the quota asks for; the scenes supply no more")
    share = quota.unanswerable_share
    n_unanswerable = math.floor(len(chosen) * share / (1 - share) + 0.5)
    chosen += _unanswerable(by_scene, n_unanswerable, quota, used, shortfalls)
    return Selection(sorted(chosen, key=lambda c: (c.scene_id, c.query_id)), shortfalls)


def _features(candidate: Candidate) -> list[tuple[str, object]]:
    size = len(candidate.answer_ids)
    return [
        ("category", candidate.category),
        ("relation", candidate.relations),
        ("anchor", candidate.anchor_ids),
        ("size", 0 if size == 0 else 1 + int(math.log2(size))),
    ]


class _Pool:
    """Candidates to choose from; the least used features come first, ties go to the smaller query id."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._left = sorted(((c, _features(c)) for c in candidates), key=lambda pair: pair[0].query_id)

    def take(self, used: Counter[tuple[str, object]]) -> Candidate | None:
        """Remove and return the next candidate, or None when none is left."""
        if not self._left:
            return None
        position = min(range(len(self._left)), key=lambda k: sum(used[f] for f in self._left[k][1]))
        return self._left.pop(position)[0]


def _most_varied(
    candidates: Iterable[Candidate], n: int, used: Counter[tuple[str, object]], answers: Counter[tuple[str, ...]], max_per_answer: int
) -> list[Candidate]:
    pool = _Pool(candidates)
    taken: list[Candidate] = []
    while len(taken) < n and (best := pool.take(used)) is not None:
        if answers[best.answer_ids] < max_per_answer:
            taken.append(best)
            answers[best.answer_ids] += 1
            used.update(_features(best))
    return taken


def _unanswerable(
    by_scene: dict[str, list[Candidate]], n: int, quota: Quota, used: Counter[tuple[str, object]], shortfalls: list[str]
) -> list[Candidate]:
    """Take unanswerable queries in turn, one per scene and level that the quota asks for, until there are `n`."""
    levels = [level for level, most in sorted(quota.per_scene.items()) if most > 0]
    pools = [
        _Pool(c for c in by_scene[scene] if c.kind != "answerable" and c.level == level) for level in levels for scene in sorted(by_scene)
    ]
    taken: list[Candidate] = []
    while len(taken) < n:
        before = len(taken)
        for pool in pools:
            if len(taken) < n and (candidate := pool.take(used)) is not None:
                taken.append(candidate)
                used.update(_features(candidate))
        if len(taken) == before:
            shortfalls.append(f"release: {len(taken)} unanswerable queries of {n}; the scenes supply no more")
            break
    return taken
