"""Statistics of scores, from numbers alone: correlation of decisions, resampling of scenes, many comparisons, agreement of rankings.

What is not defined is None, never 0 and never NaN. Not here: which queries and submissions the numbers come from
(`trigpoint.scoring.comparison`).
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from trigpoint.identity import seeded_generator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_CHUNK_DRAWS = 1 << 22


def matthews_correlation(tp: int, fp: int, fn: int, tn: int) -> float | None:
    """Return the Matthews correlation coefficient of a table of yes/no decisions, in [-1, 1].

    Returns:
        None when a margin is zero: one class alone, asked or answered, correlates with nothing (all right included).

    Source: Matthews 1975. Differs: scikit-learn says 0 for a zero margin. Counts are whole numbers of any size.

    >>> matthews_correlation(50, 0, 0, 50), matthews_correlation(1, 1, 1, 1), matthews_correlation(4, 0, 0, 0)
    (1.0, 0.0, None)
    """
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return None if margins == 0 else (tp * tn - fp * fn) / math.sqrt(margins)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, in the order given; at most 1.

    Source: Holm 1979, step-down: the k-th smallest of m is multiplied by m - k + 1 and is never below the one before it.

    >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for position, k in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - position) * p_values[k]))
        adjusted[k] = highest
    return adjusted


def bootstrap_shares(hits: IntArray, n: IntArray, resamples: int, seed: int) -> FloatArray:
    """Resample scenes with replacement and return the share of hits of every column in every resample.

    All columns share the draws, so that differences between them are paired.

    Args:
        hits: (n_scenes, n_columns) hits per scene.
        n: (n_scenes,) tries per scene, each at least 1.
        resamples: Number of resamples.
        seed: The same seed gives the same draws.

    Returns:
        (resamples, n_columns) shares in [0, 1]; a scene with many tries weighs more, as in the share itself.

    Source: cluster bootstrap (Davison & Hinkley 1997, section 3.8), the scene as the unit.
    """
    random, n_scenes = seeded_generator(seed, "bootstrap", resamples), len(n)
    shares = np.empty((resamples, hits.shape[1]))
    step = max(1, _CHUNK_DRAWS // n_scenes)
    for first in range(0, resamples, step):
        size = min(step, resamples - first)
        drawn = (random.random((size, n_scenes)) * n_scenes).astype(np.int64)
        times = np.bincount((drawn + np.arange(size)[:, None] * n_scenes).ravel(), minlength=size * n_scenes).reshape(size, n_scenes)
        shares[first : first + size] = (times @ hits) / (times @ n)[:, None]
    return shares


def two_sided_p(differences: FloatArray) -> float:
    """Return the bootstrap p-value of "no difference" from resampled differences (n,).

    Twice the smaller share of resamples on either side of 0 (0 itself counts on both), with one added above and below so that it is
    never 0; at most 1. The smallest possible value is 2 / (n + 1).

    Source: Davison & Hinkley 1997, section 4.2.1 (the added one).

    >>> two_sided_p(np.array([0.1, 0.2, 0.3])), two_sided_p(np.zeros(3))
    (0.5, 1.0)
    """
    fewer = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (fewer + 1) / (len(differences) + 1))


class RankAgreement(NamedTuple):
    """How far two scores rank the same things alike.

    Attributes:
        kendall_tau: Tau-b, in [-1, 1]; None where undefined. spearman: Likewise.
        n: Things ranked by both.
        reason: Why undefined, or None.
    """

    kendall_tau: float | None
    spearman: float | None
    n: int
    reason: str | None


def rank_agreement(first: Sequence[float | None], second: Sequence[float | None]) -> RankAgreement:
    """Compare the rankings that two scores give; things that lack one of them are left out.

    Source: scipy's `kendalltau` (tau-b, made for ties) and `spearmanr`. Differs: where scipy says NaN, None and the reason.

    >>> rank_agreement([0.9, 0.5, 0.1], [0.8, 0.6, 0.2])
    RankAgreement(kendall_tau=1.0, spearman=1.0, n=3, reason=None)
    >>> rank_agreement([0.9, 0.5], [0.3, 0.3]).reason
    'one of the scores is the same for all'
    """
    # rounded: means that are equal as fractions differ in their last bit, and would be no tie
    both = [(round(a, 12), round(b, 12)) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if len(both) < 2:
        return RankAgreement(None, None, len(both), f"{len(both)} submission(s) have both scores, a ranking needs two")
    x, y = (list(column) for column in zip(*both, strict=True))
    if len(set(x)) == 1 or len(set(y)) == 1:
        return RankAgreement(None, None, len(both), "one of the scores is the same for all")
    tau, rho = cast(Any, stats.kendalltau(x, y)), cast(Any, stats.spearmanr(x, y))
    # scipy's sums end a bit beside whole numbers
    return RankAgreement(round(float(tau.statistic), 12), round(float(rho.statistic), 12), len(both), None)
