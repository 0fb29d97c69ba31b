"""The scores: what each means, and how single outcomes become numbers.

A number that is not defined is None with a reason, never 0. Not here: reading predictions, choosing queries, printing.

Source: EQS (exact query success) and the masked means follow GeoRefer-Bench (arXiv 2609.29541). Differs: EQS asks for a perfect
matching instead of a Hungarian one cut at the threshold, which can miss a matching that exists (`eqs_hungarian` is that one).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.masks.rle import Rle, covered_share, intersection_px, iou, true_runs, union
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.boxes import hbb_iou, obb_iou
from trigpoint.scoring.matching import count_matches, has_perfect_matching, hungarian_then_threshold
from trigpoint.scoring.predictions import Prediction

FloatArray = NDArray[np.float64]

BOX_THRESHOLDS = tuple(k / 20 for k in range(10, 20))
"""IoU 0.50, 0.55, … 0.95. Source: COCO's ten thresholds."""

MASK_MODALITIES = ("masks", "mask")
BOX_MODALITIES = {"hbb": "boxes", "obb": "obbs"}


class Metric(NamedTuple):
    """What a metric id means.

    Attributes:
        matcher: The function of `trigpoint.scoring.matching` behind it; None where nothing is matched.
    """

    metric_id: str
    description: str
    matcher: str | None = None


_EQS = "share of queries answered exactly: instance masks one to one with the answer at IoU ≥ rules.eqs_iou, none missing, none extra"

METRICS = (
    Metric("eqs", _EQS, "maximum_cardinality (a perfect matching exists)"),
    Metric("eqs_hungarian", f"{_EQS}; as other benchmarks match; the same as eqs where answers share no pixel", "hungarian_then_threshold"),
    Metric("eqs_answerable", "eqs over answerable queries", "maximum_cardinality (a perfect matching exists)"),
    Metric("eqs_unanswerable", "eqs over unanswerable queries: no mask predicted", "maximum_cardinality (a perfect matching exists)"),
    *(Metric(f"eqs_l{k}", f"eqs over queries of level {k}", "maximum_cardinality (a perfect matching exists)") for k in range(1, 6)),
    *(Metric(f"eqs_{t}", f"eqs over {t} queries", "maximum_cardinality (a perfect matching exists)") for t in ("easy", "medium", "hard")),
    Metric("ma_iou", "mean over answerable queries of the IoU of the union of predicted masks with the union of answer masks"),
    Metric("ma_p", "mean over answerable queries of the share of predicted pixels that are right; nothing predicted is 0"),
    Metric("ma_r", "mean over answerable queries of the share of answer pixels that are predicted"),
    Metric("mi_iou", "intersection over union of all pixels of all answerable queries together"),
    Metric("rejection_accuracy", "share of unanswerable queries with nothing predicted in any declared modality"),
    Metric("unparsed_rate", "share of queries whose record is unparsed, by the system's word or because it breaks the format"),
    *(
        Metric(f"{kind}_{metric_id}", f"{name} of {what}, answerable queries pooled", "maximum_cardinality")
        for kind, what in (("hbb", "horizontal boxes"), ("obb", "oriented boxes"))
        for metric_id, name in (
            ("p50", "precision at IoU 0.5"),
            ("r50", "recall at IoU 0.5"),
            ("f1_50", "F1 at IoU 0.5"),
            ("f1_50_95", "mean F1 over IoU 0.50, 0.55, … 0.95"),
        )
    ),
    Metric("counterfactual_consistency", "share of counterfactual pairs with both queries answered exactly (eqs)"),
    Metric("eqs_paraphrases", "eqs over all further sentences of the queries", "maximum_cardinality (a perfect matching exists)"),
    Metric("paraphrase_consistency", "share of queries with several sentences whose eqs is the same for all of them, right or wrong"),
)
"""Every metric, in report order."""


class Overlap(NamedTuple):
    """Pixels of one answerable query."""

    shared_px: int
    predicted_px: int
    answer_px: int

    @property
    def iou(self) -> float:
        """Intersection over union; 0 of two empty masks."""
        return _share(self.shared_px, self.predicted_px + self.answer_px - self.shared_px)

    @property
    def precision(self) -> float:
        """Right share of the predicted pixels; 0 when there are none."""
        return _share(self.shared_px, self.predicted_px)

    @property
    def recall(self) -> float:
        """Found share of the answer's pixels."""
        return _share(self.shared_px, self.answer_px)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class Outcome(NamedTuple):
    """What became of one query (or one of its sentences).

    Attributes:
        eqs: Answered exactly; None where it cannot be said (no masks declared, or none in the release).
        eqs_hungarian: The same by the other matcher.
        overlap: Of answerable queries; None where it cannot be said.
        is_empty: Nothing predicted in any modality.
    """

    eqs: bool | None
    eqs_hungarian: bool | None
    overlap: Overlap | None
    is_empty: bool
    is_unparsed: bool


class Scores(NamedTuple):
    """Metric id → value (None: undefined), number of queries behind it, and the reason where something is missing."""

    values: dict[str, float | None]
    n: dict[str, int]
    reasons: dict[str, str]


def outcome_of(release: Release, query: Query, prediction: Prediction | None, modalities: Sequence[str]) -> Outcome:
    """Judge one record; None stands for a missing one, which is an empty prediction.

    A record that is unparsed fails its query, unanswerable ones too.
    """
    is_unparsed = prediction is not None and prediction.unparsed is not None
    is_empty = prediction is None or (prediction.is_empty and not is_unparsed)
    answers = release.answer_masks(query)
    if answers is None or not set(MASK_MODALITIES) & set(modalities):
        return Outcome(None, None, None, is_empty, is_unparsed)
    masks: Sequence[Rle] = () if prediction is None or prediction.masks is None else prediction.masks
    one_mask = None if prediction is None else prediction.mask
    if is_unparsed:
        exact = hungarian = False
    elif one_mask is not None:
        exact = hungarian = _is_covered_exactly(release, query, one_mask)
    else:
        exact, hungarian = _match_masks(masks, answers, release.rules.eqs_iou)
    overlap = None
    if query.answerable:
        answer = release.answer_union(query)
        assert answer is not None  # all answers have masks
        predicted = one_mask if one_mask is not None else union(masks, release.scene(query.scene_id).size) if masks else None
        if predicted is None or is_unparsed:
            overlap = Overlap(0, 0, answer.area_px)
        else:
            overlap = Overlap(intersection_px(predicted, answer), predicted.area_px, answer.area_px)
    return Outcome(exact, hungarian, overlap, is_empty, is_unparsed)


def _match_masks(masks: Sequence[Rle], answers: Sequence[Rle], threshold: float) -> tuple[bool, bool]:
    """Return (perfect matching exists, Hungarian pairs all reach the threshold); both need the same number of masks."""
    if len(masks) != len(answers):
        return (False, False)
    matrix = iou(masks, answers)
    if not has_perfect_matching(matrix, threshold):
        return (False, False)
    return (True, len(hungarian_then_threshold(matrix, threshold)) == len(answers))


def _is_covered_exactly(release: Release, query: Query, mask: Rle) -> bool:
    """The coverage read-out of a mask without instances: what it returns, compared with the answer.

    A countable instance of the scene is returned when at least `rules.coverage_share` of its pixels are predicted. Any
    foreground fails an unanswerable query, even where it returns nothing.
    """
    if not query.answer_ids:
        return False
    answer, (ids, runs) = set(query.answer_ids), release.countable_runs(query.scene_id)
    regions = sorted(answer - set(ids))
    share = covered_share(runs, mask)
    returned = {instance_id for instance_id, covered in zip(ids, share, strict=True) if covered >= release.rules.coverage_share}
    if regions:
        masks = release.masks_of_scene(query.scene_id)
        share = covered_share(true_runs([masks[instance_id] for instance_id in regions]), mask)
        returned |= {instance_id for instance_id, covered in zip(regions, share, strict=True) if covered >= release.rules.coverage_share}
    return returned == answer


def compute_scores(queries: Sequence[Query], outcomes: Mapping[str, Outcome], modalities: Sequence[str]) -> Scores:
    """Turn the outcomes of the scored sentences into numbers (all but boxes and paraphrases).

    Args:
        queries: The selection.
        outcomes: Query id → outcome; one for every query.
        modalities: What the submission declares.
    """
    scores = Scores({}, {}, {})
    no_masks = None if set(MASK_MODALITIES) & set(modalities) else "the submission declares neither masks nor mask"
    lost = sum(outcomes[q.query_id].eqs is None for q in queries)
    note = f"{lost} of {len(queries)} queries left out: the release has no masks for their answers" if lost and no_masks is None else None
    usable = [q for q in queries if outcomes[q.query_id].eqs is not None]
    positive = [q for q in usable if q.answerable]
    negative = [q for q in queries if not q.answerable]

    def put_eqs(metric_id: str, chosen: list[Query], what: str, is_hungarian: bool = False) -> None:
        found = [outcomes[q.query_id].eqs_hungarian if is_hungarian else outcomes[q.query_id].eqs for q in chosen]
        put(scores, metric_id, found, no_masks or "; ".join(filter(None, [f"the selection has no {what} to score", note])))

    put_eqs("eqs", usable, "query")
    put_eqs("eqs_hungarian", usable, "query", True)
    put_eqs("eqs_answerable", positive, "answerable query")
    put_eqs("eqs_unanswerable", [q for q in usable if not q.answerable], "unanswerable query")
    for level in range(1, 6):
        put_eqs(f"eqs_l{level}", [q for q in usable if q.level == level], f"query of level {level}")
    for tier in ("easy", "medium", "hard"):
        put_eqs(f"eqs_{tier}", [q for q in usable if q.difficulty == tier], f"{tier} query")

    overlaps = [overlap for q in positive if (overlap := outcomes[q.query_id].overlap) is not None]
    missing = no_masks or note or "the selection has no answerable query"
    put(scores, "ma_iou", [o.iou for o in overlaps], missing)
    put(scores, "ma_p", [o.precision for o in overlaps], missing)
    put(scores, "ma_r", [o.recall for o in overlaps], missing)
    shared = sum(o.shared_px for o in overlaps)
    whole = sum(o.predicted_px + o.answer_px - o.shared_px for o in overlaps)
    put(scores, "mi_iou", [shared / whole] if whole else [], missing)
    scores.n["mi_iou"] = len(overlaps)
    if note and no_masks is None:
        scores.reasons.update(dict.fromkeys(("eqs", "eqs_hungarian", "ma_iou", "ma_p", "ma_r", "mi_iou"), note))
    rejected = [outcomes[q.query_id].is_empty and not outcomes[q.query_id].is_unparsed for q in negative]
    put(scores, "rejection_accuracy", rejected, "the selection has no unanswerable query")
    put(scores, "unparsed_rate", [outcomes[q.query_id].is_unparsed for q in queries], "the selection has no query")

    pairs = _counterfactual_pairs(usable)
    both = [bool(outcomes[a].eqs and outcomes[b].eqs) for a, b in pairs]
    put(scores, "counterfactual_consistency", both, no_masks or "the selection has no counterfactual pair")
    return scores


def put(scores: Scores, metric_id: str, values: Sequence[float | bool | None], reason: str) -> None:
    """Enter the mean of `values`, or None with a reason when there are none."""
    found = [float(v) for v in values if v is not None]
    scores.values[metric_id] = math.fsum(found) / len(found) if found else None
    scores.n[metric_id] = len(found)
    if not found:
        scores.reasons[metric_id] = reason


def _counterfactual_pairs(queries: Iterable[Query]) -> list[tuple[str, str]]:
    ids = {q.query_id for q in queries}
    pairs = {
        (min(q.query_id, q.counterfactual_of), max(q.query_id, q.counterfactual_of))
        for q in queries
        if q.counterfactual_of is not None and q.counterfactual_of in ids
    }
    return sorted(pairs)


def put_paraphrases(
    scores: Scores, queries: Sequence[Query], canonical: Mapping[str, Outcome], further: Mapping[tuple[str, int], Outcome]
) -> None:
    """Enter the two scores over further sentences.

    Args:
        scores: Where to enter them.
        queries: The selection.
        canonical: Query id → outcome of sentence 0.
        further: (query id, sentence ≥ 1) → outcome, for every further sentence; empty when the submission has none of them.
    """
    if not further:
        has_any = any(len(q.sentences) > 1 for q in queries)
        reason = "the submission has no record for a further sentence" if has_any else "no query of the selection has a further sentence"
        put(scores, "eqs_paraphrases", [], reason)
        put(scores, "paraphrase_consistency", [], reason)
        return
    reason = "no eqs for these queries"
    put(scores, "eqs_paraphrases", [outcome.eqs for outcome in further.values()], reason)
    same: list[bool] = []
    for query in queries:
        verdicts = [canonical[query.query_id].eqs, *(further[query.query_id, k].eqs for k in range(1, len(query.sentences)))]
        if len(verdicts) > 1 and None not in verdicts:
            same.append(len(set(verdicts)) == 1)
    put(scores, "paraphrase_consistency", same, reason)


def put_boxes(
    scores: Scores, release: Release, queries: Sequence[Query], predictions: Mapping[str, Prediction], modalities: Sequence[str]
) -> None:
    """Enter precision, recall and F1 of horizontal and oriented boxes over answerable queries, pooled.

    Every threshold has its own maximum-cardinality matching. Without any predicted box precision and F1 are 0.
    """
    for kind, modality in BOX_MODALITIES.items():
        ids = [f"{kind}_{name}" for name in ("p50", "r50", "f1_50", "f1_50_95")]
        if modality not in modalities:
            for metric_id in ids:
                put(scores, metric_id, [], f"the submission declares no {modality}")
            continue
        positive = [q for q in queries if q.answerable]
        pairs: list[tuple[FloatArray, FloatArray]] = []
        for query in positive:
            boxes = _answer_boxes(release, query, kind)
            if boxes is not None:
                pairs.append((_predicted_boxes(predictions.get(query.query_id), kind), boxes))
        if not pairs:
            for metric_id in ids:
                put(scores, metric_id, [], f"no answerable query of the selection has {modality} for its answer")
            continue
        measured = _pool(pairs, hbb_iou if kind == "hbb" else obb_iou)
        for metric_id, value in zip(ids, measured, strict=True):
            put(scores, metric_id, [value], "")
            scores.n[metric_id] = len(pairs)
            if len(pairs) < len(positive):
                scores.reasons[metric_id] = (
                    f"{len(positive) - len(pairs)} of {len(positive)} queries left out: no {modality} for their answers"
                )


def _answer_boxes(release: Release, query: Query, kind: str) -> FloatArray | None:
    rows = [release.instance_by_id.get(instance_id) for instance_id in query.answer_ids]
    boxes = [None if row is None else row.hbb_px if kind == "hbb" else row.obb_px for row in rows]
    return None if any(box is None for box in boxes) else np.array(boxes, dtype=np.float64)


def _predicted_boxes(prediction: Prediction | None, kind: str) -> FloatArray:
    found = None if prediction is None or prediction.unparsed is not None else prediction.boxes if kind == "hbb" else prediction.obbs
    return np.zeros((0, 4 if kind == "hbb" else 8)) if found is None else found


def _pool(
    pairs: list[tuple[FloatArray, FloatArray]], measure: Callable[[FloatArray, FloatArray], FloatArray]
) -> tuple[float, float, float, float]:
    """Return precision, recall and F1 at 0.5 and the mean F1; all queries form one graph, block by block."""
    edges: list[tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]] = []
    n_predicted = n_answers = 0
    for predicted, answers in pairs:
        matrix = measure(predicted, answers)
        rows, cols = np.nonzero(matrix >= BOX_THRESHOLDS[0])
        edges.append((rows + n_predicted, cols + n_answers, matrix[rows, cols]))
        n_predicted, n_answers = n_predicted + len(predicted), n_answers + len(answers)
    rows, cols, values = (np.concatenate(part) for part in zip(*edges, strict=True))
    hits = [count_matches(rows[values >= t], cols[values >= t], n_predicted, n_answers) for t in BOX_THRESHOLDS]
    f1 = [2 * hit / (n_predicted + n_answers) for hit in hits]
    return (_share(hits[0], n_predicted), _share(hits[0], n_answers), f1[0], math.fsum(f1) / len(f1))
