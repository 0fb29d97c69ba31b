"""The global selection: shares, caps, pairs, variety, and independence of order."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigpoint.programs.generate import Candidate
from trigpoint.programs.language import Cat
from trigpoint.programs.select import Quota, Selection, select_queries


def candidate(k: int, level: int, kind: str, scene: str = "s-1", answer: tuple[str, ...] = (), flips: tuple[str, ...] = ()) -> Candidate:
    answer = answer or ((f"i-{k}",) if kind == "answerable" else ())
    return Candidate(
        f"q-{k:04d}", scene, level, Cat("building"), kind, answer, ("building",), (f"r{k % 3}",), (f"a{k % 5}",), 9, "easy", flips  # type: ignore[arg-type]
    )  # fmt: skip


def select(pool: Iterable[Candidate], quota: Quota) -> Selection:
    scenes: dict[str, list[Candidate]] = {}
    for one in pool:
        scenes.setdefault(one.scene_id, []).append(one)
    return select_queries([scenes[scene] for scene in sorted(scenes)], quota)


def paired_pool(n_scenes: int = 3) -> list[Candidate]:
    """Answerable ones, some of which are flips of the next or of an unanswerable one."""
    pool = [candidate(k, 1 + k % 5, "answerable", f"s-{k % n_scenes}") for k in range(300)]
    for k in range(0, 120, 2):
        scene, level = f"s-{k % n_scenes}", 3 + (k // 2) % 3
        other = "answerable" if k % 4 else "relation_unsatisfied"
        pool.append(candidate(2000 + k, level, "answerable", scene, flips=(f"q-{2001 + k}",)))
        pool.append(candidate(2001 + k, level, other, scene, flips=(f"q-{2000 + k}",)))
    return pool + [candidate(1000 + k, 3, "relation_unsatisfied", f"s-{k % n_scenes}") for k in range(300)]


QUOTA = Quota({1: 4, 2: 6, 3: 10, 4: 10, 5: 10}, 0.24, 0.3, 3)


def test_share_of_unanswerables_is_met_and_order_does_not_matter() -> None:
    pool = paired_pool()

    forward, backward = select(pool, QUOTA), select(pool[::-1], QUOTA)
    share = sum(c.kind != "answerable" for c in forward.chosen) / len(forward.chosen)

    assert forward == backward
    assert share == pytest.approx(0.24, abs=0.01)
    assert forward.shortfalls == []


def test_pairs_are_released_whole_linked_both_ways_and_as_many_as_asked() -> None:
    made = select(paired_pool(), QUOTA)
    by_id = {c.query_id: c for c in made.chosen}

    assert len(made.counterfactual_of) == pytest.approx(0.3 * len(made.chosen), abs=4)
    for one, other in made.counterfactual_of.items():
        assert made.counterfactual_of[other] == one
        assert other in by_id[one].flips
        assert by_id[one].answer_ids or by_id[other].answer_ids


def test_selection_caps_equal_answers_and_says_what_fell_short() -> None:
    pool = [candidate(k, 3, "answerable", answer=("i-1",)) for k in range(10)]

    made = select(pool, Quota({3: 5}, 0.24, 0.5, max_per_answer=2))

    assert len(made.chosen) == 2
    assert made.shortfalls == [
        "level 3: 2 of 5 queries that the quota asks for; the scenes supply no more",
        "release: 0 unanswerable queries of 1; the scenes supply no more",
    ]


def test_a_release_without_enough_pairs_says_so() -> None:
    pool = [candidate(k, 3, "answerable") for k in range(10)]

    made = select(pool, Quota({3: 5}, 0.0, 0.5, max_per_answer=2))

    assert made.shortfalls == ["release: 0 counterfactual pairs of 1; the scenes supply no more"]


@pytest.mark.parametrize("paired_share", [0.24, 1.0])
def test_pairs_with_an_unanswerable_half_do_not_exceed_its_share_where_answers_are_few(paired_share: float) -> None:
    pool: list[Candidate] = []
    for k in range(0, 400, 2):
        pool.append(candidate(k, 3, "answerable", answer=(f"i-{k % 3}",), flips=(f"q-{k + 1:04d}",)))
        pool.append(candidate(k + 1, 3, "relation_unsatisfied", flips=(f"q-{k:04d}",)))
    pool += [candidate(1000 + k, 4, "answerable") for k in range(50)]

    made = select(pool, Quota({3: 60, 4: 1}, 0.24, paired_share, 3))
    n_empty = sum(not c.answer_ids for c in made.chosen)

    assert len(made.chosen) - n_empty == 10
    assert n_empty == 3  # 24 % of 13
    assert set(made.counterfactual_of) <= {c.query_id for c in made.chosen}
    assert all(made.counterfactual_of[other] == one for one, other in made.counterfactual_of.items())


def test_a_large_quota_is_met_with_its_share_of_unanswerables() -> None:
    pool = [candidate(k, 3, "answerable") for k in range(400)] + [candidate(1000 + k, 3, "relation_unsatisfied") for k in range(400)]

    made = select(pool, Quota({3: 400}, 0.24, 0.0, 3))

    assert sum(not c.answer_ids for c in made.chosen) / len(made.chosen) == pytest.approx(0.24, abs=0.001)
    assert made.shortfalls == []


def test_a_scene_without_candidates_is_counted_as_short() -> None:
    made = select_queries([[], [candidate(1, 3, "answerable")]], Quota({3: 1}, 0.0, 0.0, 3))

    assert [c.query_id for c in made.chosen] == ["q-0001"]
    assert made.shortfalls == ["level 3: 1 of 2 queries that the quota asks for; the scenes supply no more"]


def test_caps_per_category_and_scene_hold() -> None:
    made = select(paired_pool(), QUOTA._replace(max_per_category=7, max_per_scene=9))

    assert sorted(Counter(c.scene_id for c in made.chosen).values()) == [6, 7, 7]


@pytest.mark.parametrize("caps", [{"max_per_category": 20}, {"max_per_scene": 20}])
def test_caps_leave_room_for_unanswerables(caps: dict[str, int]) -> None:
    pool = [candidate(k, 3, "answerable", f"s-{k % 3}") for k in range(300)]
    pool += [candidate(1000 + k, 3, "relation_unsatisfied", f"s-{k % 3}") for k in range(300)]

    made = select(pool, QUOTA._replace(per_scene={3: 30}, **caps))

    assert max(Counter(c.scene_id for c in made.chosen).values()) <= 20
    assert sum(not c.answer_ids for c in made.chosen) / len(made.chosen) == pytest.approx(0.24, abs=0.01)


def test_selection_prefers_what_was_used_least() -> None:
    pool = [candidate(k, 3, "answerable") for k in range(15)]

    made = select(pool, Quota({3: 3}, 0.0, 0.0, 9))

    assert len({c.relations for c in made.chosen}) == 3


@settings(max_examples=30)
@given(st.permutations(range(60)), st.integers(1, 4))
def test_any_order_of_candidates_gives_the_same_release(order: list[int], n_scenes: int) -> None:
    pool = paired_pool(n_scenes)[250:310] + paired_pool(n_scenes)[310:400]
    shuffled = [pool[k] for k in order] + pool[60:]

    assert select(shuffled, QUOTA) == select(pool, QUOTA)
