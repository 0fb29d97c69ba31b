import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trigpoint.scoring.statistics import bootstrap_shares, holm, matthews_correlation, rank_agreement, two_sided_p

P_VALUES = st.lists(st.integers(0, 40).map(lambda k: k / 40), max_size=8)


@given(P_VALUES, st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_what_stepping_down_rejects(p_values: list[float], level: float) -> None:
    """The procedure as Holm states it, without adjusted p-values."""
    rejected: set[int] = set()
    left = set(range(len(p_values)))
    while left:
        smallest = min(left, key=lambda k: p_values[k])
        if p_values[smallest] > level / len(left):
            break
        rejected.add(smallest)
        left.remove(smallest)

    adjusted = holm(p_values)

    # equal p-values are rejected together or not at all; 1e-12 is for p * m against level / m
    clear = [k for k in range(len(p_values)) if abs(adjusted[k] - level) > 1e-12]
    assert {k for k in clear if adjusted[k] <= level} == {k for k in clear if any(p_values[k] == p_values[r] for r in rejected)}


@given(P_VALUES)
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    for i, j in product(range(len(p_values)), repeat=2):
        assert p_values[i] > p_values[j] or adjusted[i] <= adjusted[j]


def test_holm_of_one_and_none() -> None:
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


SCENES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), min_size=2, max_size=6)


@given(SCENES, st.integers(0, 3))
@settings(deadline=None, max_examples=50)
def test_every_resample_is_the_share_over_scenes_drawn_with_replacement(scenes: list[tuple[int, int, int]], seed: int) -> None:
    hits = np.array([scene[:2] for scene in scenes])
    n = hits.max(axis=1) + 1 + np.array([scene[2] for scene in scenes])
    possible = {
        tuple((sum(hits[k] for k in drawn) / sum(n[k] for k in drawn)).tolist())
        for drawn in product(range(len(scenes)), repeat=len(scenes))
        if list(drawn) == sorted(drawn)
    }

    shares = bootstrap_shares(hits, n, 20, seed)

    for share in shares:
        assert min(math.dist(share, expected) for expected in possible) < 1e-12


def test_resampling_has_the_distribution_of_all_draws() -> None:
    hits, n = np.array([[9, 1], [3, 6], [0, 5], [8, 8], [2, 3]]), np.array([10, 8, 5, 9, 4])
    draws = [list(drawn) for drawn in product(range(5), repeat=5)]  # all 3125, equally likely
    exact = np.array([hits[drawn].sum(axis=0) / n[drawn].sum() for drawn in draws])

    shares = bootstrap_shares(hits, n, 10_000, 0)

    assert shares.mean(axis=0) == pytest.approx(exact.mean(axis=0), abs=0.01)
    for limit in (0.3, 0.45, 0.6, 0.7):
        assert (shares <= limit).mean(axis=0) == pytest.approx((exact <= limit).mean(axis=0), abs=0.02)
    is_better, is_better_exactly = shares[:, 0] < shares[:, 1], exact[:, 0] < exact[:, 1]
    assert is_better.mean() == pytest.approx(is_better_exactly.mean(), abs=0.02), "the columns share their draws"


def test_resampling_is_seeded_and_the_same_in_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    hits, n = np.array([[1, 0], [2, 2], [0, 1]]), np.array([2, 3, 1])
    whole = bootstrap_shares(hits, n, 100, 7)
    monkeypatch.setattr("trigpoint.scoring.statistics._CHUNK_DRAWS", 9)

    assert np.array_equal(whole, bootstrap_shares(hits, n, 100, 7))
    assert not np.array_equal(whole, bootstrap_shares(hits, n, 100, 8))


def test_p_value_counts_both_sides() -> None:
    differences = np.concatenate([np.full(97, 0.1), np.full(2, -0.1)])

    assert two_sided_p(differences) == two_sided_p(-differences) == 2 * 3 / 100
    assert two_sided_p(np.full(99, 0.1)) == 2 / 100


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8))
@settings(deadline=None)
def test_tau_b_is_that_of_its_definition(pairs: list[tuple[int, int]]) -> None:
    concordant = discordant = only_x = only_y = 0
    for k, (x0, y0) in enumerate(pairs):
        for x1, y1 in pairs[k + 1 :]:
            sign = (x0 - x1) * (y0 - y1)
            concordant, discordant = concordant + (sign > 0), discordant + (sign < 0)
            only_x, only_y = only_x + (x0 != x1 and y0 == y1), only_y + (x0 == x1 and y0 != y1)
    below = math.sqrt((concordant + discordant + only_x) * (concordant + discordant + only_y))

    found = rank_agreement([float(x) for x, _ in pairs], [float(y) for _, y in pairs])

    if below == 0:
        assert (found.kendall_tau, found.spearman) == (None, None)
        assert found.reason == "one of the scores is the same for all"
    else:
        assert found.kendall_tau == pytest.approx((concordant - discordant) / below)
        assert found.spearman is not None
        assert -1 <= found.spearman <= 1


def test_agreement_leaves_out_what_has_one_score_only() -> None:
    found = rank_agreement([0.9, None, 0.5, 0.1], [0.2, 0.5, 0.3, 0.4])

    assert (found.kendall_tau, found.spearman, found.n) == (-1.0, -1.0, 3)
    assert rank_agreement([0.9, None], [0.2, 0.5]).reason == "1 submission(s) have both scores, a ranking needs two"


def test_spearman_is_worked_out_by_hand() -> None:
    # ranks 1 2 3 4 against 2 1 4 3: 1 - 6 * 4 / (4 * 15)
    assert rank_agreement([1.0, 2.0, 3.0, 4.0], [20.0, 10.0, 40.0, 30.0]).spearman == pytest.approx(0.6)


@given(st.tuples(*[st.integers(0, 6)] * 4))
def test_matthews_is_the_correlation_of_two_yes_no_columns(table: tuple[int, int, int, int]) -> None:
    tp, fp, fn, tn = table
    asked, said = [1] * tp + [0] * fp + [1] * fn + [0] * tn, [1] * tp + [1] * fp + [0] * fn + [0] * tn
    is_defined = len(set(asked)) == len(set(said)) == 2

    value = matthews_correlation(tp, fp, fn, tn)

    assert value == (pytest.approx(np.corrcoef(asked, said)[0, 1]) if is_defined else None)


def test_means_equal_as_fractions_are_a_tie() -> None:
    first, second = math.fsum([0, 2 / 3, 2 / 10]) / 3, math.fsum([1 / 6, 0, 7 / 10]) / 3

    assert first != second
    assert rank_agreement([0.5, 0.5, 0.1], [first, second, 0.0]) == rank_agreement([0.5, 0.5, 0.1], [0.3, 0.3, 0.0])
