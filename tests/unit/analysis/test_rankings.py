"""Agreement of many rankings at once, by hand and beside scipy."""

import numpy as np
import pytest
from scipy import stats

from trigpoint.analysis.rankings import Sums, bootstrap_rho, scene_stability, spearman_rows, subset_stability

# three categories with 1, 2 and 1 queries; model b is best by category one alone
SUMS = Sums(("one", "two", "three"), ("a", "b", "c"), np.array([[0.1, 0.9, 0.5], [1.6, 0.4, 1.0], [0.9, 0.1, 0.5]]), np.array([1.0, 2, 1]))


def test_spearman_of_rows_is_scipys() -> None:
    random = np.random.default_rng(3)
    first, second = random.integers(0, 5, (40, 9)).astype(float), random.random((40, 9))

    expected = [stats.spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]

    assert spearman_rows(first, second) == pytest.approx(expected)


def test_subsets_of_one_category_give_its_ranking() -> None:
    (found,) = subset_stability(SUMS, [1], 3_000, 1, 0)

    # all categories: a 0.65, b 0.35, c 0.5; category one alone turns the ranking round
    assert SUMS.full[0] == pytest.approx([0.65, 0.35, 0.5])
    assert (found.rho.median, found.rho.low, found.rho.high, found.rho.n) == (1.0, -1.0, 1.0, 3_000)
    assert (found.recovery.median, found.recovery.low) == (1.0, 0.0)


def test_subsets_weigh_queries_not_categories() -> None:
    (found,) = subset_stability(SUMS, [2], 500, 1, 0)

    # one and two: a 1.7, b 1.3, c 1.5 of three queries: the full order, which the mean of the two categories' means would turn round
    assert found.rho.median == 1.0
    assert found.recovery.median == 1.0


def test_all_categories_reproduce_the_ranking() -> None:
    (found,) = subset_stability(SUMS, [3], 10, 2, 0)

    assert (found.rho.low, found.recovery.low) == (1.0, 1.0)


def test_the_same_seed_gives_the_same_draws() -> None:
    assert subset_stability(SUMS, [1, 2], 50, 1, 7) == subset_stability(SUMS, [1, 2], 50, 1, 7)
    assert scene_stability(SUMS, 50, 1, 7) == scene_stability(SUMS, 50, 1, 7)
    assert bootstrap_rho([1, 2, 3, 4], [1, 3, 2, 4], 100, 7) == bootstrap_rho([1, 2, 3, 4], [1, 3, 2, 4], 100, 7)


def test_equal_models_have_no_correlation() -> None:
    equal = SUMS._replace(totals=np.ones((3, 3)))

    (found,) = subset_stability(equal, [2], 10, 1, 0)

    assert (found.rho.median, found.rho.n) == (None, 0)
