"""The scores: what each means, and how single outcomes become numbers.

A number that is not defined is None with a reason, never 0. Not here: reading predictions, choosing queries, printing.

Source: EQS (exact query success) and the masked means follow GeoRefer-Bench (arXiv 2609.29541). Differs: EQS asks for a perfect
matching instead of a Hungarian one cut at the threshold, which can miss a matching that exists (`eqs_hungarian` is that one).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from trigpoint.masks.rle import Rle, covered_share, intersection_px, iou, true_runs, union
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.boxes import hbb_iou, obb_iou
from trigpoint.scoring.failures import Failure, chosen_by_masks, is_drift_of_cover, kind_of_choice
from trigpoint.scoring.matching import count_matches, greedy, has_perfect_matching, hungarian_then_threshold
from trigpoint.scoring.predictions import Prediction
from trigpoint.scoring.statistics import matthews_correlation

FloatArray = NDArray[np.float64]
T = TypeVar("T")

BOX_THRESHOLDS = tuple(k / 20 for k in range(10, 20))
"""IoU 0.50, 0.55, … 0.95. Source: COCO's ten thresholds."""

MASK_FORMS = ("program", "vocabulary", "referring", "reasoning")
"""Query forms whose answer is instances; choice and text queries have other scores."""

MASK_MODALITIES = ("masks", "mask")
BOX_MODALITIES = {"hbb": "boxes", "obb": "obbs"}


BOX_MATCHERS = {"maxcard": "maximum_cardinality", "hungarian": "hungarian_then_threshold", "greedy": "greedy"}
"""Last part of a box metric's id → its function in `trigpoint.scoring.matching`."""

DISTANCE_BY_SCENE = ("near", "far")
"""Relations whose threshold depends on the size of the scene; `eqs_without_near_far` leaves out their queries."""


class Metric(NamedTuple):
    """What a metric id means.

    Attributes:
        matcher: The function of `trigpoint.scoring.matching` behind it; None where nothing is matched.
        best: What an errorless submission scores. Not all metrics rise: 0 is best where a share of something bad is counted.
    """

    metric_id: str
    description: str
    matcher: str | None = None
    best: float = 1.0


_EQS = "share of queries answered exactly: instance masks one to one with the answer at IoU ≥ rules.eqs_iou, none missing, none extra"
_PERFECT = "has_perfect_matching"


def _box_metrics() -> list[Metric]:
    metrics: list[Metric] = []
    for kind, what in (("hbb", "horizontal boxes"), ("obb", "oriented boxes")):
        where = f"of {what}, answerable queries pooled"
        metrics += [
            Metric(f"{kind}_p50_maxcard", f"precision at IoU 0.5 {where}; no predicted box is 0", BOX_MATCHERS["maxcard"]),
            Metric(f"{kind}_r50_maxcard", f"recall at IoU 0.5 {where}", BOX_MATCHERS["maxcard"]),
            *(Metric(f"{kind}_f1_50_{name}", f"F1 at IoU 0.5 {where}", matcher) for name, matcher in BOX_MATCHERS.items()),
            Metric(f"{kind}_f1_50_95_maxcard", f"mean F1 over IoU 0.50, 0.55, … 0.95 {where}", BOX_MATCHERS["maxcard"]),
        ]
    return metrics


METRICS = (
    Metric("eqs", _EQS, _PERFECT),
    Metric("eqs_hungarian", f"{_EQS}; as other benchmarks match; the same as eqs where answers share no pixel", "hungarian_then_threshold"),
    Metric("eqs_answerable", "eqs over answerable queries", _PERFECT),
    Metric("eqs_unanswerable", "eqs over unanswerable queries: no mask predicted", _PERFECT),
    *(Metric(f"eqs_l{k}", f"eqs over queries of level {k}", _PERFECT) for k in range(1, 6)),
    *(Metric(f"eqs_{t}", f"eqs over {t} queries", _PERFECT) for t in ("easy", "medium", "hard")),
    Metric("eqs_category_macro", "mean over categories of their eqs", _PERFECT),
    Metric("eqs_without_near_far", "eqs over queries whose program has neither near nor far, which depend on the scene's size", _PERFECT),
    Metric("ma_iou", "mean over answerable queries of the IoU of the union of predicted masks with the union of answer masks"),
    Metric("ma_p", "mean over answerable queries of the share of predicted pixels that are right; nothing predicted is 0"),
    Metric("ma_r", "mean over answerable queries of the share of answer pixels that are predicted"),
    Metric("mi_iou", "intersection over union of all pixels of all answerable queries together"),
    Metric("annotation_macro_iou", "mean over annotations of the mean IoU of their answerable queries"),
    Metric("category_macro_iou", "mean over categories of the mean IoU of their answerable queries"),
    Metric("rejection_accuracy", "share of unanswerable queries with nothing predicted in any declared modality"),
    Metric("presence_mcc", "Matthews correlation over vocabulary queries of what is there with what is predicted in any declared modality"),
    Metric("unparsed_rate", "share of queries whose record is unparsed, by the system's word or because it breaks the format", best=0.0),
    *_box_metrics(),
    Metric("counterfactual_consistency", "share of counterfactual pairs with both queries answered exactly (eqs)", _PERFECT),
    Metric(
        "counterfactual_same_answer",
        "share of counterfactual pairs given the same answer twice (masks one to one at IoU ≥ rules.eqs_iou, or nothing twice);"
        " no pair has the same right answer",
        _PERFECT,
        best=0.0,
    ),
    Metric("eqs_paraphrases", "eqs over all further sentences of the queries", _PERFECT),
    Metric("paraphrase_consistency", "share of queries, all of whose several sentences have a record, with one eqs for all", _PERFECT),
    Metric("paraphrase_all_right", "share of the same queries with all sentences answered exactly", _PERFECT),
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
        failure: What kind of mistake; None unless `eqs` is False.
    """

    eqs: bool | None
    eqs_hungarian: bool | None
    overlap: Overlap | None
    is_empty: bool
    is_unparsed: bool
    failure: Failure | None


class Scores(NamedTuple):
    """Metric id → value (None: undefined), number of queries behind it, and the reason where something is missing.

    Attributes:
        counts: Name of a table of decisions → its cells, for those metrics that come from one.
    """

    values: dict[str, float | None]
    n: dict[str, int]
    reasons: dict[str, str]
    counts: dict[str, dict[str, int]]


def outcome_of(
    release: Release, query: Query, prediction: Prediction | None, modalities: Sequence[str], category: AbstractSet[str]
) -> Outcome:
    """Judge one record; None stands for a missing one, which is an empty prediction.

    A record that is unparsed fails its query, unanswerable ones too.

    Args:
        release: The release.
        query: One of its queries.
        prediction: The record.
        modalities: What the submission declares.
        category: Ids of the instances that are surely of the query's category; for naming mistakes alone.
    """
    is_unparsed = prediction is not None and prediction.unparsed is not None
    is_empty = prediction is None or (prediction.is_empty and not is_unparsed)
    answers = release.answer_masks(query)
    if answers is None or not set(MASK_MODALITIES) & set(modalities):
        return Outcome(None, None, None, is_empty, is_unparsed, None)
    masks: Sequence[Rle] = () if prediction is None or prediction.masks is None else prediction.masks
    one_mask = None if prediction is None else prediction.mask
    covered: dict[str, float] = {}
    if is_unparsed:
        exact = hungarian = False
    elif one_mask is not None:
        covered = _covered_shares(release, query, one_mask)
        returned = {instance_id for instance_id, share in covered.items() if share >= release.rules.coverage_share}
        # any foreground fails an unanswerable query, even where it returns nothing
        exact = hungarian = bool(query.answer_ids) and returned == set(query.answer_ids)
    else:
        exact, hungarian = _match_masks(masks, answers, release.rules.eqs_iou)
    failure: Failure | None = None
    if not exact:
        if is_unparsed:
            failure = "unparsed"
        elif not query.answer_ids:
            failure = "false_alarm"
        elif one_mask is None and not masks:
            failure = "empty"
        else:
            failure = _failure_of(release, query, masks if one_mask is None else [one_mask], covered, category)
    overlap = None
    if query.answerable:
        answer = release.answer_union(query)
        assert answer is not None  # all answers have masks
        predicted = one_mask if one_mask is not None else union(masks, release.scene(query.scene_id).size) if masks else None
        if predicted is None or is_unparsed:
            overlap = Overlap(0, 0, answer.area_px)
        else:
            overlap = Overlap(intersection_px(predicted, answer), predicted.area_px, answer.area_px)
    return Outcome(exact, hungarian, overlap, is_empty, is_unparsed, failure)


def _match_masks(masks: Sequence[Rle], answers: Sequence[Rle], threshold: float) -> tuple[bool, bool]:
    """Return (perfect matching exists, Hungarian pairs all reach the threshold); both need the same number of masks."""
    if len(masks) != len(answers):
        return (False, False)
    matrix = iou(masks, answers)
    if not has_perfect_matching(matrix, threshold):
        return (False, False)
    return (True, len(hungarian_then_threshold(matrix, threshold)) == len(answers))


def _covered_shares(release: Release, query: Query, mask: Rle) -> dict[str, float]:
    """The coverage read-out of a mask without instances: instance id → share of its pixels that the mask holds.

    Of all countable instances of the scene, and of the regions of the answer.
    """
    ids, runs = release.countable_runs(query.scene_id)
    covered = dict(zip(ids, covered_share(runs, mask).tolist(), strict=True))
    regions = sorted(set(query.answer_ids) - set(ids))
    if regions:
        masks = release.masks_of_scene(query.scene_id)
        shares = covered_share(true_runs([masks[instance_id] for instance_id in regions]), mask)
        covered.update(zip(regions, shares.tolist(), strict=True))
    return covered


def _failure_of(release: Release, query: Query, masks: Sequence[Rle], covered: Mapping[str, float], category: AbstractSet[str]) -> Failure:
    """Name the mistake of an answerable query for which something was predicted.

    Regions can be pointed at only where the answer holds one, and then those of the category alone.
    """
    answer, share = set(query.answer_ids), release.rules.coverage_share
    if covered and is_drift_of_cover(covered, answer, share):
        return "boundary_drift"
    scene_masks, countable = release.masks_of_scene(query.scene_id), set(release.countable_runs(query.scene_id).instance_ids)
    known = countable if answer <= countable else countable | set(category) | answer
    instances = {instance_id: rle for instance_id, rle in scene_masks.items() if instance_id in known}
    return kind_of_choice(chosen_by_masks(masks, instances, share), answer, set(category) & set(instances))


def compute_scores(queries: Sequence[Query], outcomes: Mapping[str, Outcome], modalities: Sequence[str]) -> Scores:
    """Turn the outcomes of the scored sentences into numbers (all but boxes and paraphrases).

    Args:
        queries: The selection.
        outcomes: Query id → outcome; one for every query.
        modalities: What the submission declares.
    """
    scores = Scores({}, {}, {}, {})
    no_masks = None if set(MASK_MODALITIES) & set(modalities) else "the submission declares neither masks nor mask"
    lost = sum(outcomes[q.query_id].eqs is None for q in queries)
    note = f"{lost} of {len(queries)} queries left out: the release has no masks for their answers" if lost and no_masks is None else None
    usable = [q for q in queries if outcomes[q.query_id].eqs is not None]
    positive = [q for q in usable if q.answerable]
    negative = [q for q in queries if not q.answerable]

    def put_eqs(metric_id: str, chosen: list[Query], what: str, is_hungarian: bool = False) -> None:
        found = [outcomes[q.query_id].eqs_hungarian if is_hungarian else outcomes[q.query_id].eqs for q in chosen]
        put(scores, metric_id, found, no_masks or "; ".join(filter(None, [f"the selection has no {what} to score", note])))

    exact = programs_of(usable)
    put_eqs("eqs", exact, "query")
    put_eqs("eqs_hungarian", exact, "query", True)
    put_eqs("eqs_answerable", [q for q in exact if q.answerable], "answerable query")
    put_eqs("eqs_unanswerable", [q for q in exact if not q.answerable], "unanswerable query")
    for level in range(1, 6):
        put_eqs(f"eqs_l{level}", [q for q in exact if q.level == level], f"query of level {level}")
    for tier in ("easy", "medium", "hard"):
        put_eqs(f"eqs_{tier}", [q for q in exact if q.difficulty == tier], f"{tier} query")
    per_category = group(exact, category_of, lambda q: float(bool(outcomes[q.query_id].eqs)))
    missing_eqs = no_masks or "; ".join(filter(None, ["the selection has no query of a category to score", note]))
    put(scores, "eqs_category_macro", [mean(values) for values in per_category.values()], missing_eqs)
    scores.n["eqs_category_macro"] = sum(map(len, per_category.values()))
    put_eqs("eqs_without_near_far", [q for q in exact if not has_relation(q.program, DISTANCE_BY_SCENE)], "query without near and far")

    overlaps = [overlap for q in positive if (overlap := outcomes[q.query_id].overlap) is not None]
    missing = no_masks or note or "the selection has no answerable query"
    put(scores, "ma_iou", [o.iou for o in overlaps], missing)
    put(scores, "ma_p", [o.precision for o in overlaps], missing)
    put(scores, "ma_r", [o.recall for o in overlaps], missing)
    shared = sum(o.shared_px for o in overlaps)
    whole = sum(o.predicted_px + o.answer_px - o.shared_px for o in overlaps)
    put(scores, "mi_iou", [shared / whole] if whole else [], missing)
    scores.n["mi_iou"] = len(overlaps)
    for metric_id, key, what in (
        ("annotation_macro_iou", lambda q: q.annotation_id, "an annotation"),
        ("category_macro_iou", category_of, "a category"),
    ):
        groups = group(positive, key, lambda q: cast(Overlap, outcomes[q.query_id].overlap).iou)
        put(scores, metric_id, [mean(values) for values in groups.values()], no_masks or f"no answerable query to score names {what}")
        scores.n[metric_id] = sum(map(len, groups.values()))
    if note and no_masks is None:
        scores.reasons.update(dict.fromkeys(("eqs", "eqs_hungarian", "ma_iou", "ma_p", "ma_r", "mi_iou"), note))
    rejected = [outcomes[q.query_id].is_empty and not outcomes[q.query_id].is_unparsed for q in programs_of(negative)]
    put(scores, "rejection_accuracy", rejected, "the selection has no unanswerable query")
    put(scores, "unparsed_rate", [outcomes[q.query_id].is_unparsed for q in queries], "the selection has no query")
    _put_presence(scores, [q for q in queries if q.form == "vocabulary"], outcomes)

    pairs = counterfactual_pairs(usable)
    both = [bool(outcomes[a].eqs and outcomes[b].eqs) for a, b in pairs]
    put(scores, "counterfactual_consistency", both, no_masks or "the selection has no counterfactual pair")
    return scores


def programs_of(queries: list[Query]) -> list[Query]:
    """Return the queries that have programs, all of them where none has: an exact set is asked by programs, a name's mask is not one."""
    return [query for query in queries if query.form == "program"] or queries


def put(scores: Scores, metric_id: str, values: Sequence[float | bool | None], reason: str) -> None:
    """Enter the mean of `values`, or None with a reason when there are none."""
    found = [float(v) for v in values if v is not None]
    scores.values[metric_id] = mean(found) if found else None
    scores.n[metric_id] = len(found)
    if not found:
        scores.reasons[metric_id] = reason


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number; of equal numbers exactly that number."""
    return math.fsum(values) / len(values)


def category_of(query: Query) -> str | None:
    """Name the category that a query asks for, all axes as one; None where it names none."""
    return " + ".join(query.category) or None


def group(queries: Iterable[Query], key: Callable[[Query], str | None], value: Callable[[Query], T]) -> dict[str, list[T]]:
    """Collect a value per query under a key, keys sorted; queries without a key are left out."""
    found: dict[str, list[T]] = defaultdict(list)
    for query in queries:
        name = key(query)
        if name is not None:
            found[name].append(value(query))
    return dict(sorted(found.items()))


def has_relation(program: Any, relations: Sequence[str]) -> bool:
    """Whether a program tree holds one of some relations, at any depth; False without a program.

    >>> has_relation({"op": "rel", "relation": "near", "of": {"op": "cat"}, "anchor": {"op": "cat"}}, ["near", "far"])
    True
    """
    if isinstance(program, dict):
        node = cast(dict[str, Any], program)
        return node.get("relation") in relations or any(has_relation(part, relations) for part in node.values())
    return isinstance(program, list) and any(has_relation(part, relations) for part in cast(list[Any], program))


def _put_presence(scores: Scores, queries: Sequence[Query], outcomes: Mapping[str, Outcome]) -> None:
    """Enter the correlation of presence over vocabulary queries; an unparsed record is the wrong answer, whatever the right one is."""
    counts = {"tp": 0, "fp": 0, "fn": 0, "tn": 0}
    for query in queries:
        outcome, is_there = outcomes[query.query_id], query.polarity == "positive"
        is_right = not outcome.is_unparsed and is_there != outcome.is_empty
        counts["tp" if is_there and is_right else "fn" if is_there else "tn" if is_right else "fp"] += 1
    value = matthews_correlation(**counts)
    absent = "the selection has no vocabulary query"
    put(scores, "presence_mcc", [value], "undefined: all is present, or all absent, as asked or as answered" if queries else absent)
    scores.n["presence_mcc"] = len(queries)
    if queries:
        scores.counts["presence"] = counts


def counterfactual_pairs(queries: Iterable[Query]) -> list[tuple[str, str]]:
    """Return the ids of the counterfactual pairs of which both queries are among those given, sorted."""
    ids = {q.query_id for q in queries}
    pairs = {
        (min(q.query_id, q.counterfactual_of), max(q.query_id, q.counterfactual_of))
        for q in queries
        if q.counterfactual_of is not None and q.counterfactual_of in ids
    }
    return sorted(pairs)


def put_same_answers(
    scores: Scores, release: Release, queries: Sequence[Query], predictions: Mapping[str, Prediction], modalities: Sequence[str]
) -> None:
    """Enter how often both queries of a counterfactual pair are given one answer. An unparsed record is no answer."""
    if not set(MASK_MODALITIES) & set(modalities):
        put(scores, "counterfactual_same_answer", [], "the submission declares neither masks nor mask")
        return
    same: list[bool] = []
    for first, second in counterfactual_pairs(queries):
        given = [predictions.get(query_id) for query_id in (first, second)]
        is_readable = all(record is None or record.unparsed is None for record in given)
        is_one_scene = release.query(first).scene_id == release.query(second).scene_id
        masks, others = (_all_masks(record) for record in given)
        same.append(is_readable and is_one_scene and has_perfect_matching(iou(masks, others), release.rules.eqs_iou))
    put(scores, "counterfactual_same_answer", same, "the selection has no counterfactual pair")


def _all_masks(prediction: Prediction | None) -> list[Rle]:
    if prediction is None:
        return []
    return [prediction.mask] if prediction.mask is not None else list(prediction.masks or ())


def put_paraphrases(
    scores: Scores,
    queries: Sequence[Query],
    canonical: Mapping[str, Outcome],
    further: Mapping[tuple[str, int], Outcome],
    given: AbstractSet[tuple[str, int]],
) -> None:
    """Enter the scores over further sentences.

    Args:
        scores: Where to enter them.
        queries: The selection.
        canonical: Query id → outcome of sentence 0.
        further: (query id, sentence ≥ 1) → outcome, for every further sentence; empty when the submission has none of them.
        given: (query id, sentence) of the submission's records. Agreement is asked only of queries that have all of theirs.
    """
    if not further:
        has_any = any(len(q.sentences) > 1 for q in queries)
        reason = "the submission has no record for a further sentence" if has_any else "no query of the selection has a further sentence"
        for metric_id in ("eqs_paraphrases", "paraphrase_consistency", "paraphrase_all_right"):
            put(scores, metric_id, [], reason)
        return
    put(scores, "eqs_paraphrases", [outcome.eqs for outcome in further.values()], "no eqs for these queries")
    verdicts: list[set[bool]] = []
    for query in queries:
        keys = [(query.query_id, k) for k in range(len(query.sentences))]
        if len(keys) > 1 and all(key in given for key in keys):
            found = {canonical[query.query_id].eqs, *(further[key].eqs for key in keys[1:])}
            if None not in found:
                verdicts.append(cast(set[bool], found))
    reason = "no query to score has a record for every one of its several sentences"
    put(scores, "paraphrase_consistency", [len(found) == 1 for found in verdicts], reason)
    put(scores, "paraphrase_all_right", [found == {True} for found in verdicts], reason)


def put_boxes(
    scores: Scores, release: Release, queries: Sequence[Query], predictions: Mapping[str, Prediction], modalities: Sequence[str]
) -> None:
    """Enter precision, recall and F1 of horizontal and oriented boxes over answerable queries, pooled.

    Every threshold has its own matching. Without any predicted box precision and F1 are 0.
    """
    for kind, modality in BOX_MODALITIES.items():
        ids = [metric.metric_id for metric in METRICS if metric.metric_id.startswith(f"{kind}_")]
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
        tables = _pool(pairs, hbb_iou if kind == "hbb" else obb_iou)
        scores.counts.update({f"{kind}_50_{name}": table._asdict() for name, table in tables.at_50.items()})
        best = tables.at_50["maxcard"]
        put(scores, f"{kind}_p50_maxcard", [_share(best.tp, best.tp + best.fp)], "")
        put(scores, f"{kind}_r50_maxcard", [_share(best.tp, best.tp + best.fn)], "")
        for name, table in tables.at_50.items():
            put(scores, f"{kind}_f1_50_{name}", [table.f1], "")
        put(scores, f"{kind}_f1_50_95_maxcard", [mean([table.f1 for table in tables.by_threshold])], "")
        left_out = len(positive) - len(pairs)
        for metric_id in ids:
            scores.n[metric_id] = len(pairs)
            if left_out:
                scores.reasons[metric_id] = f"{left_out} of {len(positive)} queries left out: no {modality} for their answers"


def _answer_boxes(release: Release, query: Query, kind: str) -> FloatArray | None:
    rows = [release.instance_by_id.get(instance_id) for instance_id in query.answer_ids]
    boxes = [None if row is None else row.hbb_px if kind == "hbb" else row.obb_px for row in rows]
    return None if any(box is None for box in boxes) else np.array(boxes, dtype=np.float64)


def _predicted_boxes(prediction: Prediction | None, kind: str) -> FloatArray:
    found = None if prediction is None or prediction.unparsed is not None else prediction.boxes if kind == "hbb" else prediction.obbs
    return np.zeros((0, 4 if kind == "hbb" else 8)) if found is None else found


class Detections(NamedTuple):
    """Boxes found, found in vain, and missed."""

    tp: int
    fp: int
    fn: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 without a hit."""
        return _share(2 * self.tp, 2 * self.tp + self.fp + self.fn)


class _Tables(NamedTuple):
    """Pooled counts: per matcher at IoU 0.5, and by maximum cardinality per threshold."""

    at_50: dict[str, Detections]
    by_threshold: list[Detections]


def _pool(pairs: list[tuple[FloatArray, FloatArray]], measure: Callable[[FloatArray, FloatArray], FloatArray]) -> _Tables:
    """Count hits of all queries together; for maximum cardinality they form one graph, block by block."""
    edges: list[tuple[NDArray[np.int64], NDArray[np.int64], FloatArray]] = []
    n_predicted = n_answers = n_hungarian = n_greedy = 0
    lowest = BOX_THRESHOLDS[0]
    for predicted, answers in pairs:
        matrix = measure(predicted, answers)
        rows, cols = np.nonzero(matrix >= lowest)
        edges.append((rows + n_predicted, cols + n_answers, matrix[rows, cols]))
        n_predicted, n_answers = n_predicted + len(predicted), n_answers + len(answers)
        n_hungarian += len(hungarian_then_threshold(matrix, lowest))
        n_greedy += len(greedy(matrix, lowest))
    rows, cols, values = (np.concatenate(part) for part in zip(*edges, strict=True))

    def table(hits: int) -> Detections:
        return Detections(hits, n_predicted - hits, n_answers - hits)

    kept = [values >= threshold for threshold in BOX_THRESHOLDS]
    tables = [table(count_matches(rows[some], cols[some], n_predicted, n_answers)) for some in kept]
    return _Tables({"maxcard": tables[0], "hungarian": table(n_hungarian), "greedy": table(n_greedy)}, tables)
