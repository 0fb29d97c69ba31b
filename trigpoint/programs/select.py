"""The global, deterministic selection: which candidates of all scenes are released, and which are counterfactuals of each other.

Does not depend on the order of candidates or on sharding: scenes come in the order of their ids, ties go to the smaller query id.
Greedy for variety: the candidate whose category, relation, anchor and answer size have been used least comes next. Scene by scene, so
that memory does not grow with the candidates of all scenes.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from trigpoint.programs.generate import Candidate

SPARE_PER_LEVEL = 40
"""Unanswerable candidates of a scene and level that are kept at hand, at least, until the share of the whole release is known."""


class Quota(NamedTuple):
    """What to select.

    Attributes:
        per_scene: Level → answerable queries per scene at most.
        unanswerable_share: Share of the whole release.
        paired_share: Share of the queries that are one half of a counterfactual pair.
        max_per_answer: Programs of one scene that may share an answer.
        max_per_category: Queries of one scene about one category; None for any number.
        max_per_scene: Queries of one scene; None for any number.
    """

    per_scene: dict[int, int]
    unanswerable_share: float
    paired_share: float
    max_per_answer: int
    max_per_category: int | None = None
    max_per_scene: int | None = None


class Selection(NamedTuple):
    """What is released.

    Attributes:
        chosen: Candidates, sorted by (scene, query id).
        counterfactual_of: Query id → query id of its other half, both ways.
        shortfalls: One sentence per quota that the scenes could not supply.
    """

    chosen: list[Candidate]
    counterfactual_of: dict[str, str]
    shortfalls: list[str]


Unit = tuple[Candidate, ...]
"""A candidate, or the two halves of a pair."""

Used = Counter[tuple[str, object]]


def select_queries(scenes: Iterable[Iterable[Candidate]], quota: Quota) -> Selection:
    """Select queries; says so where the scenes cannot supply a quota.

    Args:
        scenes: The candidates of every scene, a scene at a time, in the order of scene ids.
        quota: What to select.
    """
    selector = _Selector(quota)
    for candidates in scenes:
        selector.add_scene(list(candidates))
    return selector.finish()


class _Selector:
    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.used: Used = Counter()
        self.chosen: list[Candidate] = []
        self.partner: dict[str, str] = {}
        self.spare: dict[tuple[int, str], list[Candidate]] = {}
        self.room: dict[str, _SceneRoom] = {}
        self.short: Counter[int] = Counter()
        self.n_empty = self.n_scenes = 0
        self.pairs_wanted = self.unanswerable_wanted = 0.0

    def add_scene(self, candidates: list[Candidate]) -> None:
        """Choose the pairs and the answerable queries of a scene, and keep some unanswerable ones at hand."""
        self.n_scenes += 1
        if not candidates:
            for level, most in self.quota.per_scene.items():
                self.short[level] += most
            return
        room = self.room[candidates[0].scene_id] = _SceneRoom(self.quota)
        planned = self._planned(candidates)
        self.pairs_wanted += self.quota.paired_share * planned / 2
        unanswerable = self.quota.unanswerable_share * planned
        self.unanswerable_wanted += unanswerable
        self._choose_pairs(candidates, room)
        for level in sorted(self.quota.per_scene):
            units = ((c,) for c in candidates if c.level == level and c.answer_ids)
            for (candidate,) in _most_varied(units, self.used, room.admits):
                self._take((candidate,), room)
            self.short[level] += room.left[level]
        at_hand = max(SPARE_PER_LEVEL, math.ceil(unanswerable))
        for level in sorted(self.quota.per_scene):
            empty = (c for c in candidates if not c.answer_ids and c.level == level and c.query_id not in room.taken)
            self.spare[level, candidates[0].scene_id] = heapq.nsmallest(at_hand, empty, key=lambda c: c.query_id)

    def _planned(self, candidates: list[Candidate]) -> float:
        """Queries that a scene will give, unanswerable ones too, as far as levels, equal answers and caps tell."""
        quota, answerable = self.quota, [c for c in candidates if c.answer_ids]
        supply, equal = Counter(c.level for c in answerable), Counter(c.answer_ids for c in answerable)
        by_level = sum(min(most, supply[level]) for level, most in quota.per_scene.items())
        by_answer = sum(min(quota.max_per_answer, n) for n in equal.values())
        planned = min(by_level, by_answer) / (1 - quota.unanswerable_share)
        if quota.max_per_category is not None:
            planned = min(planned, quota.max_per_category * len({c.category for c in candidates}))
        return planned if quota.max_per_scene is None else min(planned, quota.max_per_scene)

    def _choose_pairs(self, candidates: list[Candidate], room: "_SceneRoom") -> None:
        by_id = {candidate.query_id: candidate for candidate in candidates}
        units = (
            (candidate, by_id[flip])
            for candidate in candidates
            for flip in candidate.flips
            if candidate.query_id < flip and (candidate.answer_ids or by_id[flip].answer_ids)
        )

        def admits(unit: Unit) -> bool:
            n_empty = sum(not c.answer_ids for c in unit)
            return room.admits(unit) and (n_empty == 0 or self.n_empty + n_empty <= self.unanswerable_wanted)

        if len(self.partner) // 2 + 1 > self.pairs_wanted:
            return
        for unit in _most_varied(units, self.used, admits):
            self._take(unit, room)
            self.partner |= {unit[0].query_id: unit[1].query_id, unit[1].query_id: unit[0].query_id}
            if len(self.partner) // 2 + 1 > self.pairs_wanted:
                return

    def _take(self, unit: Unit, room: "_SceneRoom") -> None:
        self.chosen += unit
        for candidate in unit:
            room.take(candidate)
            self.used.update(_features(candidate))
            self.n_empty += not candidate.answer_ids

    def finish(self) -> Selection:
        """Choose the unanswerable queries and say what fell short."""
        shortfalls = [
            f"level {level}: {most * self.n_scenes - self.short[level]} of {most * self.n_scenes} queries that the quota asks for;"
            " the scenes supply no more"
            for level, most in sorted(self.quota.per_scene.items())
            if self.short[level]
        ]
        share = self.quota.unanswerable_share
        wanted = math.floor((len(self.chosen) - self.n_empty) * share / (1 - share) + 0.5)
        self._give_back(self.n_empty - wanted)
        self._choose_unanswerable(wanted)
        if self.n_empty < wanted:
            shortfalls.append(f"release: {self.n_empty} unanswerable queries of {wanted}; the scenes supply no more")
        n_pairs, pairs_wanted = len(self.partner) // 2, math.floor(self.pairs_wanted)
        if n_pairs < pairs_wanted:
            shortfalls.append(f"release: {n_pairs} counterfactual pairs of {pairs_wanted}; the scenes supply no more")
        return Selection(sorted(self.chosen, key=lambda c: (c.scene_id, c.query_id)), self.partner, shortfalls)

    def _give_back(self, n: int) -> None:
        """Take the unanswerable halves of the `n` last pairs out again; their answerable halves stay, as no one's other half.

        Pairs are chosen before it is known how many answerable queries the scenes supply.
        """
        if n > 0:
            empty = [c.query_id for c in self.chosen if not c.answer_ids][-n:]
            for query_id in empty:
                del self.partner[self.partner.pop(query_id)]
            self.chosen = [c for c in self.chosen if c.query_id not in empty]
            self.n_empty -= n

    def _choose_unanswerable(self, wanted: int) -> None:
        """Take more until there are as many as wanted, in turn one per level and scene."""
        pools = [
            (_most_varied(((c,) for c in self.spare[level, scene]), self.used, self.room[scene].admits), self.room[scene])
            for level, scene in sorted(self.spare)
        ]
        while pools and self.n_empty < wanted:
            still: list[tuple[Iterator[Unit], _SceneRoom]] = []
            for pool, room in pools:
                unit = next(pool, None) if self.n_empty < wanted else None
                if unit is not None:
                    self._take(unit, room)
                    still.append((pool, room))
            pools = still


class _SceneRoom:
    """What one scene may still give."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.left = Counter(quota.per_scene)
        self.taken: set[str] = set()
        self.answers: Counter[tuple[str, ...]] = Counter()
        self.categories: Counter[tuple[str, ...]] = Counter()
        self.n_answerable = 0
        self.answerable: Counter[tuple[str, ...]] = Counter()

    def admits(self, unit: Unit) -> bool:
        """Whether all of a unit may be taken; once not, never again."""
        quota = self.quota
        levels = Counter(c.level for c in unit if c.answer_ids)
        return (
            not any(c.query_id in self.taken for c in unit)
            and all(self.quota.per_scene.get(c.level, 0) > 0 for c in unit)
            and all(self.left[level] >= asked for level, asked in levels.items())
            and all(not c.answer_ids or self.answers[c.answer_ids] < quota.max_per_answer for c in unit)
            and self._fits(quota.max_per_category, self.categories[unit[0].category], self.answerable[unit[0].category], unit)
            and self._fits(quota.max_per_scene, len(self.taken), self.n_answerable, unit)
        )

    def _fits(self, cap: int | None, n_taken: int, n_answerable: int, unit: Unit) -> bool:
        """Whether a cap leaves room for a unit; answerable queries leave unanswerable ones their share of it."""
        if cap is None:
            return True
        n = sum(bool(c.answer_ids) for c in unit)
        most = max(1, math.floor(cap * (1 - self.quota.unanswerable_share) + 0.5))
        return n_taken + len(unit) <= cap and (n == 0 or n_answerable + n <= most)

    def take(self, candidate: Candidate) -> None:
        """Count a candidate as taken."""
        self.taken.add(candidate.query_id)
        self.categories[candidate.category] += 1
        if candidate.answer_ids:
            self.left[candidate.level] -= 1
            self.answers[candidate.answer_ids] += 1
            self.answerable[candidate.category] += 1
            self.n_answerable += 1


def _features(candidate: Candidate) -> list[tuple[str, object]]:
    size = len(candidate.answer_ids)
    return [
        ("category", candidate.category),
        ("relation", candidate.relations),
        ("anchor", candidate.anchor_ids),
        ("size", 0 if size == 0 else 1 + int(math.log2(size))),
    ]


def _most_varied(units: Iterable[Unit], used: Used, admits: Callable[[Unit], bool]) -> Iterator[Unit]:
    """Yield admitted units, always the one whose features are used least now, of equals the smaller query ids.

    Counts only grow and what is not admitted never will be, so a heap whose top is weighed again suffices.
    """
    features = {unit: [f for c in unit for f in _features(c)] for unit in units}

    def weight(unit: Unit) -> float:
        return sum(used[f] for f in features[unit]) / len(unit)

    heap = [(weight(unit), tuple(c.query_id for c in unit), unit) for unit in features]
    heapq.heapify(heap)
    while heap:
        known, ids, unit = heapq.heappop(heap)
        if not admits(unit):
            continue
        now = weight(unit)
        if now > known:
            heapq.heappush(heap, (now, ids, unit))
            continue
        yield unit
