"""Scores of parts of a selection: by category, by what makes a query hard, and query forms on the targets they share.

Not here: what a score means (`trigpoint.scoring.metrics`).
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release
from trigpoint.scoring.metrics import Outcome, Overlap, category_of, group, mean

CANDIDATE_BINS = ((0, 4), (5, 9), (10, 19), (20, 49), (50, None))
"""Numbers of instances of the query's category in its scene, from and to; None is no limit. 20 is where `rules.difficulty` cuts."""

AREAS = ("small", "medium", "large")
"""Terciles of the answer's share of the scene's pixels, over the answerable queries of the selection; a tie goes to the smaller."""


def by_category(queries: Sequence[Query], outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
    """Return per category `{n, eqs, n_answerable, iou}`; `iou` is None where no query of the category is answerable.

    Such a category is in no mean over categories: it is neither 0 nor 1.
    """
    usable = [query for query in queries if outcomes[query.query_id].eqs is not None]
    found: dict[str, dict[str, Any]] = {}
    for name, grouped in group(usable, category_of, lambda query: outcomes[query.query_id]).items():
        overlaps = [outcome.overlap.iou for outcome in grouped if outcome.overlap is not None]
        eqs = mean([float(bool(outcome.eqs)) for outcome in grouped])
        found[name] = {"n": len(grouped), "eqs": eqs, "n_answerable": len(overlaps), "iou": mean(overlaps) if overlaps else None}
    return found


def by_hardness(
    release: Release, queries: Sequence[Query], outcomes: Mapping[str, Outcome], members: Mapping[str, Sequence[InstanceRow]]
) -> dict[str, Any]:
    """Return EQS of answerable queries by number of candidates and tercile of answer area.

    Returns:
        `{"area_limits": [share, share] or None, "rows": [{"candidates": [from, to], "all" | "small" | "medium" | "large":
        {"n", "eqs"}}]}`. `area_limits` are the two shares of the scene's pixels between the terciles; `eqs` is None where n is 0.
    """
    chosen = [query for query in queries if query.answerable and outcomes[query.query_id].eqs is not None]
    areas = np.array([_area_share(release, query, outcomes[query.query_id]) for query in chosen])
    limits = np.quantile(areas, [1 / 3, 2 / 3]) if chosen else np.zeros(2)
    tercile = np.searchsorted(limits, areas, side="left")
    candidates = np.array([len(members[query.query_id]) for query in chosen], dtype=np.int64)
    is_right = np.array([bool(outcomes[query.query_id].eqs) for query in chosen], dtype=bool)

    def cell(is_in: Any) -> dict[str, Any]:
        n = int(is_in.sum())
        return {"n": n, "eqs": int((is_right & is_in).sum()) / n if n else None}

    rows: list[dict[str, Any]] = []
    for low, high in CANDIDATE_BINS:
        is_in = (candidates >= low) & (candidates <= (np.inf if high is None else high))
        cells = {name: cell(is_in & (tercile == k)) for k, name in enumerate(AREAS)}
        rows.append({"candidates": [low, high], "all": cell(is_in), **cells})
    return {"area_limits": limits.tolist() if chosen else None, "rows": rows}


def _area_share(release: Release, query: Query, outcome: Outcome) -> float:
    height, width = release.scene(query.scene_id).size
    return cast(Overlap, outcome.overlap).answer_px / (height * width)


def form_contrasts(queries: Sequence[Query], outcomes: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """Compare query forms on the annotations that both have answerable queries for.

    Per form the mean over its queries on the shared annotations: what is asked for is the same, only how differs.

    Returns:
        Per pair of forms that shares an annotation `{forms, n_annotations, iou: [first, second], eqs: [first, second]}`.

    Source: OVEarth-Bench (arXiv 2607.27278), appendix D.
    """
    usable = [query for query in queries if query.answerable and query.annotation_id and outcomes[query.query_id].eqs is not None]
    forms = {
        form: group([query for query in usable if query.form == form], lambda query: query.annotation_id, lambda q: outcomes[q.query_id])
        for form in sorted({query.form for query in usable})
    }
    contrasts: list[dict[str, Any]] = []
    for first, second in combinations(forms, 2):
        shared = sorted(set(forms[first]) & set(forms[second]))
        if shared:
            asked = [[outcome for annotation in shared for outcome in forms[form][annotation]] for form in (first, second)]
            iou = [mean([cast(Overlap, outcome.overlap).iou for outcome in found]) for found in asked]
            eqs = [mean([float(bool(outcome.eqs)) for outcome in found]) for found in asked]
            contrasts.append({"forms": [first, second], "n_annotations": len(shared), "iou": iou, "eqs": eqs})
    return contrasts
