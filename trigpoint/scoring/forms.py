"""Scores per query form, and per form of targets that come in instances and of those that do not.

Vocabulary, referring and reasoning queries are three tasks: their scores stand side by side and are never pooled here. Not here: what
a score means (`trigpoint.scoring.metrics`), forms on the targets they share (`trigpoint.scoring.strata`).

Source: OVEarth-Bench (arXiv 2607.27278), appendices C and D.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.metrics import MASK_FORMS, METRICS, Outcome, compute_scores, mean, put_boxes
from trigpoint.scoring.predictions import Prediction

FORM_METRICS = (
    "ma_p", "ma_r", "ma_iou", "mi_iou", "annotation_macro_iou", "category_macro_iou", "presence_mcc", "rejection_accuracy",
    *(m.metric_id for m in METRICS if m.matcher == "maximum_cardinality"),
)  # fmt: skip
"""Metrics that every form has of its own; presence is asked by vocabulary queries alone."""

TARGETS = ("instanceable", "not_instanceable", "unknown")
"""Kinds of targets, by the taxonomy's `instanceable` of the query's categories (all of them); unknown without a taxonomy that has them."""


def by_form(
    release: Release,
    queries: Sequence[Query],
    outcomes: Mapping[str, Outcome],
    predictions: Mapping[str, Prediction],
    modalities: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Return, per query form of the selection, its scores.

    Returns:
        Form → `{n, n_answerable, n_annotations, metrics, metric_n, reasons, counts, targets}`; `n_annotations` are those with an answerable
        query, `targets` as `by_target` has it.
    """
    found: dict[str, dict[str, Any]] = {}
    for form in MASK_FORMS:
        chosen = [query for query in queries if query.form == form]
        if not chosen:
            continue
        scores = compute_scores(chosen, outcomes, modalities)
        put_boxes(scores, release, chosen, predictions, modalities)
        answerable = [query for query in chosen if query.answerable]
        found[form] = {
            "n": len(chosen),
            "n_answerable": len(answerable),
            "n_annotations": _count_annotations(answerable),
            "metrics": {name: scores.values[name] for name in FORM_METRICS},
            "metric_n": {name: scores.n[name] for name in FORM_METRICS},
            "reasons": {name: scores.reasons[name] for name in FORM_METRICS if name in scores.reasons},
            "counts": scores.counts,
            "targets": by_target(release, answerable, outcomes),
        }
    return found


def by_target(release: Release, queries: Sequence[Query], outcomes: Mapping[str, Outcome]) -> dict[str, dict[str, Any]]:
    """Return `{n, n_annotations, iou}` of answerable queries per kind of target that there is; `iou` is the mean over queries."""
    found: dict[str, dict[str, Any]] = {}
    for target in TARGETS:
        chosen = [query for query in queries if target_of(release, query) == target]
        overlaps = [overlap.iou for query in chosen if (overlap := outcomes[query.query_id].overlap) is not None]
        if chosen:
            iou = mean(overlaps) if overlaps else None
            found[target] = {"n": len(overlaps), "n_annotations": _count_annotations(chosen), "iou": iou}
    return found


def target_of(release: Release, query: Query) -> str:
    """Name the kind of a query's target, one of `TARGETS`."""
    taxonomy = release.taxonomy
    kinds = [None if taxonomy is None else taxonomy.by_id.get(name) for name in query.category]
    if not kinds or any(kind is None for kind in kinds):
        return "unknown"
    return "instanceable" if all(kind is not None and kind.instanceable for kind in kinds) else "not_instanceable"


def _count_annotations(queries: Sequence[Query]) -> int:
    return len({query.annotation_id for query in queries} - {None})
