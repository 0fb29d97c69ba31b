"""How far rankings agree: of many at once, under part of the categories, under resampling. Numbers alone.

What is not defined is None (or NaN inside an array), never 0. Not here: where scores come from (`trigpoint.analysis.material`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from trigpoint.identity import seeded_generator

FloatArray = NDArray[np.float64]

BAND = (2.5, 50.0, 97.5)
"""Percentiles of a band: low, median, high. Source: OVEarth-Bench (arXiv 2607.27278), figure 6."""

_ROUNDING = 12


class Band(NamedTuple):
    """Median and 2.5th to 97.5th percentile over draws; None where no draw has the value.

    Attributes:
        n: Draws that have it.
    """

    median: float | None
    low: float | None
    high: float | None
    n: int


def band(values: FloatArray) -> Band:
    """Sum up draws; NaN are draws without the value.

    >>> band(np.array([0.0, 1.0, np.nan]))
    Band(median=0.5, low=0.025, high=0.975, n=2)
    """
    known = values[~np.isnan(values)]
    if not known.size:
        return Band(None, None, None, 0)
    low, median, high = (round(float(v), _ROUNDING) for v in np.percentile(known, BAND))
    return Band(median, low, high, int(known.size))


def spearman_rows(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return Spearman's rho of every row of one matrix with the same row of another (or with one row for all); NaN where one is constant.

    Args:
        first: (n_rows, n_models) scores.
        second: The same shape, or (1, n_models).

    Source: Pearson's correlation of average ranks, as scipy's `spearmanr`, for many rows at once.

    >>> spearman_rows(np.array([[1.0, 2, 3], [3, 2, 1], [1, 1, 1]]), np.array([[5.0, 6, 7]])).tolist()
    [1.0, -1.0, nan]
    """
    a, b = (stats.rankdata(matrix, axis=1) for matrix in (first, second))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    below: Any = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore"):
        return np.round((a * b).sum(axis=1) / np.where(below > 0, below, np.nan), _ROUNDING)


def top(scores: FloatArray, k: int) -> NDArray[np.bool_]:
    """Mark the k highest of every row; of equals the first.

    >>> top(np.array([[1.0, 3, 3, 2]]), 1).tolist()
    [[False, True, False, False]]
    """
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    marked = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(marked, order, True, axis=1)
    return marked


class Sums(NamedTuple):
    """Scores by group (category or scene), so that the mean over any choice of groups is a division.

    Attributes:
        groups: Names. models: Names.
        totals: (n_groups, n_models) sums of scores. n: (n_groups,) queries.
    """

    groups: tuple[str, ...]
    models: tuple[str, ...]
    totals: FloatArray
    n: FloatArray

    @property
    def full(self) -> FloatArray:
        """(1, n_models): the mean over all queries."""
        return self.totals.sum(axis=0, keepdims=True) / self.n.sum()

    def means(self, weights: FloatArray) -> FloatArray:
        """(n_draws, n_models): the means when groups count `weights` (n_draws, n_groups) times; NaN where no query is left."""
        n = weights @ self.n
        return (weights @ self.totals) / np.where(n > 0, n, np.nan)[:, None]


class Stability(NamedTuple):
    """How well rankings of part of the queries agree with the ranking of all.

    Attributes:
        size: Groups per draw. rho: Spearman over all models. recovery: Share of the full ranking's best that are among the draw's best.
    """

    size: int
    rho: Band
    recovery: Band


def subset_stability(sums: Sums, sizes: Sequence[int], draws: int, best: int, seed: int) -> list[Stability]:
    """Rank models on random subsets of groups and compare with the ranking on all.

    Args:
        sums: Scores by group.
        sizes: Groups per subset, each at most their number.
        draws: Subsets per size, drawn uniformly without replacement.
        best: How many models are the best.
        seed: The same seed gives the same subsets.

    Source: OVEarth-Bench (arXiv 2607.27278), appendix D.
    """
    random = seeded_generator(seed, "category subsets", list(sums.groups), draws)
    keys = random.random((draws, len(sums.groups)))
    order = np.argsort(keys, axis=1)
    found: list[Stability] = []
    for size in sizes:
        weights = np.zeros(keys.shape)
        np.put_along_axis(weights, order[:, :size], 1.0, axis=1)
        found.append(_compare(size, sums, weights, best))
    return found


def scene_stability(sums: Sums, draws: int, best: int, seed: int) -> Stability:
    """Rank models on scenes drawn with replacement, as many as there are, and compare with the ranking on all."""
    return _compare(len(sums.groups), sums, draw_with_replacement(len(sums.groups), draws, seed, "scenes"), best)


def draw_with_replacement(n: int, draws: int, seed: int, what: str) -> FloatArray:
    """Return how often each of n things is drawn, (draws, n)."""
    drawn = (seeded_generator(seed, what, n, draws).random((draws, n)) * n).astype(np.int64)
    times = np.bincount((drawn + np.arange(draws)[:, None] * n).ravel(), minlength=draws * n)
    return times.reshape(draws, n).astype(np.float64)


def _compare(size: int, sums: Sums, weights: FloatArray, best: int) -> Stability:
    scores = sums.means(weights)
    scores = scores[~np.isnan(scores).any(axis=1)]
    if not len(scores):
        return Stability(size, band(np.zeros(0)), band(np.zeros(0)))
    recovery = (top(scores, best) & top(sums.full, best)).sum(axis=1) / best
    return Stability(size, band(spearman_rows(scores, sums.full)), band(recovery))


def bootstrap_rho(first: Sequence[float], second: Sequence[float], resamples: int, seed: int) -> Band:
    """Resample models with replacement and return the band of Spearman's rho; resamples of one score alone have none.

    The interval says what other models of the same kind might have given; it is wide for few models.
    """
    n = len(first)
    drawn = (seeded_generator(seed, "models", n, resamples).random((resamples, n)) * n).astype(np.int64)
    return band(spearman_rows(np.asarray(first, dtype=np.float64)[drawn], np.asarray(second, dtype=np.float64)[drawn]))
