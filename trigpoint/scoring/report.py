"""Score a submission and say so: numbers with their n, what was selected, what was wrong, what blindness earns.

Not here: what a number means (`trigpoint.scoring.metrics`), reading files (`trigpoint.scoring.predictions`), several submissions
(`trigpoint.scoring.comparison`), laying out (`trigpoint.scoring.pages`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from rich.console import Group

from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.release.reader import InstanceRow, Release
from trigpoint.scoring.failures import FAILURES
from trigpoint.scoring.forms import FORM_METRICS, TARGETS, by_form
from trigpoint.scoring.members import members_of_all
from trigpoint.scoring.metrics import (
    BOX_MODALITIES,
    MASK_FORMS,
    METRICS,
    Outcome,
    compute_scores,
    outcome_of,
    put_boxes,
    put_paraphrases,
    put_same_answers,
)
from trigpoint.scoring.pages import Sheet, group_reasons, keep_defined, number, percent, to_console, to_markdown, turn
from trigpoint.scoring.predictions import Prediction, Predictions, Problem
from trigpoint.scoring.references import reference_outcomes
from trigpoint.scoring.strata import AREAS, by_category, by_hardness, form_contrasts

HEADLINE = {
    "eqs": "EQS", **{f"eqs_l{k}": f"L{k}" for k in range(1, 6)}, "eqs_answerable": "ans.", "ma_iou": "maIoU", "mi_iou": "miIoU",
    "rejection_accuracy": "rej.",
}  # fmt: skip
"""Metric → heading in the table that a paper would show."""

CORRELATIONS = ("presence_mcc",)
"""Metrics that are no share."""

FORM_COUNTS = {"queries": "n", "answerable": "n_answerable", "annotations": "n_annotations"}
"""What is counted per form: heading → key."""

MOST_PROBLEMS = 10
"""Problems of a file that the terminal shows."""


class Selection(NamedTuple):
    """Which queries were scored, and by which sentence.

    Attributes:
        protocol, split, kind: As asked for; None is all.
        n_queries, n_answerable, n_scenes: What that selects.
        left_out: Query form → number of queries that have other scores.
    """

    protocol: str | None
    split: str | None
    kind: str | None
    n_queries: int
    n_answerable: int
    n_scenes: int
    left_out: dict[str, int]

    def __str__(self) -> str:
        chosen = [f"protocol {self.protocol}, split {self.split}" if self.protocol else "all splits"]
        chosen.append(f"kind {self.kind}" if self.kind else "all kinds")
        chosen.append(f"{self.n_queries} queries ({self.n_answerable} answerable) in {self.n_scenes} scenes, sentence 0")
        return ", ".join(chosen)


class Ground(NamedTuple):
    """What all submissions on one selection of a release share.

    Attributes:
        queries: Those scored. members: Query id → instances of its category. category_ids: The same as ids.
        references: Name → metric id → value. reference_errors: Name → kind of mistake → number of queries.
    """

    release: Release
    selection: Selection
    queries: list[Query]
    members: dict[str, list[InstanceRow]]
    category_ids: dict[str, AbstractSet[str]]
    references: dict[str, dict[str, float | None]]
    reference_errors: dict[str, dict[str, int]]


class ScoreReport(NamedTuple):
    """The scores of one submission on one selection of one release.

    Attributes:
        release: Name and version. submission: name, modalities, space.
        metrics: Id → value, None where undefined. n: Id → queries behind it. reasons: Id → why undefined or incomplete.
        counts: Name → cells of a table of decisions (boxes, presence).
        errors: Kind of mistake → failed queries. failures: Query id → kind, of every failed query.
        forms: Query form → its scores, see `trigpoint.scoring.forms`.
        categories, hardness, contrasts: See `trigpoint.scoring.strata`.
        problems: Everything wrong in the file. unparsed: Reason code → selected queries. missing: Selected queries without a record.
        references: Name → metric id → value. reference_errors: Name → kind of mistake → failed queries.
        eqs: Query id → answered exactly, of the queries for which it can be said.
    """

    release: str
    submission: dict[str, Any]
    selection: Selection
    metrics: dict[str, float | None]
    n: dict[str, int]
    reasons: dict[str, str]
    counts: dict[str, dict[str, int]]
    errors: dict[str, int]
    failures: dict[str, str]
    forms: dict[str, dict[str, Any]]
    categories: dict[str, dict[str, Any]]
    hardness: dict[str, Any]
    contrasts: list[dict[str, Any]]
    problems: list[Problem]
    unparsed: dict[str, int]
    missing: int
    references: dict[str, dict[str, float | None]]
    reference_errors: dict[str, dict[str, int]]
    eqs: dict[str, bool]

    @property
    def name(self) -> str:
        """The submission's own name."""
        return str(self.submission["name"])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values; shares are in [0, 1], undefined is null."""
        return {
            "release": self.release,
            "submission": self.submission,
            "selection": self.selection._asdict(),
            "metrics": self.metrics,
            "n": self.n,
            "reasons": self.reasons,
            "counts": self.counts,
            "errors": self.errors,
            "failures": self.failures,
            "forms": self.forms,
            "categories": self.categories,
            "hardness": self.hardness,
            "contrasts": self.contrasts,
            "problems": [problem._asdict() for problem in self.problems],
            "unparsed": self.unparsed,
            "missing": self.missing,
            "references": self.references,
            "reference_errors": self.reference_errors,
        }

    def to_markdown(self) -> str:
        """Return the report as a Markdown page."""
        return to_markdown(f"{self.name} on {self.release}", [f"Selection: {self.selection}."], [*self._sheets(), definitions()])

    def to_table(self) -> Group:
        """Return the report for the terminal: the same without the meanings, and with the first problems alone."""
        scores, errors, *others = self._sheets(MOST_PROBLEMS)
        lead = [f"{self.name} on {self.release}", f"selection: {self.selection}"]
        return to_console(lead, [turn(scores), turn(errors), *others])

    def _sheets(self, most_problems: int | None = None) -> list[Sheet]:
        rows = {self.name: self.metrics, **{f"({name})": values for name, values in self.references.items()}}
        errors = {self.name: self.errors, **{f"({name})": found for name, found in self.reference_errors.items()}}
        sheets = [
            headline_sheet("Scores", rows),
            errors_sheet(errors),
            self._metric_sheet(),
            *self._form_sheets(),
            self._hardness_sheet(),
            self._category_sheet(),
        ]
        sheets += [self._contrast_sheet()] if self.contrasts else []
        incomplete = group_reasons(self.reasons.items())
        if self.missing:
            n = f"{self.missing} of {self.selection.n_queries}"
            incomplete = (f"{n} queries have no record: each counts as an empty prediction", *incomplete)
        sheets += [Sheet("Undefined or incomplete", notes=incomplete)] if incomplete else []
        return [*sheets, *([problem_sheet("Problems in the file", self.problems, most_problems)] if self.problems else [])]

    def _metric_sheet(self) -> Sheet:
        rows = [
            (m.metric_id, print_metric(m.metric_id, self.metrics[m.metric_id]), str(self.n[m.metric_id]))
            for m in METRICS
            if self.metrics[m.metric_id] is not None
        ]
        notes = [f"{name}: {', '.join(f'{cell} {n}' for cell, n in cells.items())}" for name, cells in self.counts.items()]
        return Sheet("All metrics that are defined (per cent; MCC -1 to 1)", ("metric", "value", "n"), tuple(rows), notes=tuple(notes))

    def _form_sheets(self) -> list[Sheet]:
        """Lay out the scores per form, unless programs are all there is."""
        if set(self.forms) <= {"program"}:
            return []
        rows = [
            (name, *(print_metric(name, found["metrics"][name]) for found in self.forms.values()))
            for name in FORM_METRICS
            if any(found["metrics"][name] is not None for found in self.forms.values())
        ]
        counts = [(what, *(str(found[key]) for found in self.forms.values())) for what, key in FORM_COUNTS.items()]
        left_out = [
            (f"{form}, {kind.upper()}", found["reasons"][name])
            for form, found in self.forms.items()
            for kind in BOX_MODALITIES
            if (name := f"{kind}_f1_50_maxcard") in found["reasons"] and found["metrics"][name] is not None
        ]
        targets = tuple(
            (form, target.replace("_", " "), str(found["n"]), str(found["n_annotations"]), percent(found["iou"]))
            for form, scores in self.forms.items()
            for target in TARGETS
            if (found := scores["targets"].get(target)) is not None
        )
        columns = ("form", "target", "n", "annotations", "mean IoU")
        return [
            Sheet("By query form, per cent (MCC -1 to 1)", ("", *self.forms), (*counts, *rows), notes=group_reasons(left_out)),
            Sheet("Targets that come in instances and those that do not, per cent", columns, targets, n_left=2),
        ]

    def _hardness_sheet(self) -> Sheet:
        rows: list[tuple[str, ...]] = []
        for row in self.hardness["rows"]:
            low, high = row["candidates"]
            cells = [f"{percent(row[name]['eqs'])} ({row[name]['n']})" for name in ("all", *AREAS)]
            if row["all"]["n"]:
                rows.append((f"{low} and more" if high is None else f"{low}–{high}" if low else f"up to {high}", *cells))
        limits = self.hardness["area_limits"]
        notes = () if limits is None else (f"terciles end at {100 * limits[0]:.2g} % and {100 * limits[1]:.2g} % of the scene's pixels",)
        title = "EQS of answerable queries by candidates and answer area, per cent (n)"
        columns = ("instances of the category", "all", *(f"{area} answers" for area in AREAS))
        return Sheet(title, columns, tuple(rows), notes=notes if rows else ("the selection has no answerable query to score",))

    def _category_sheet(self) -> Sheet:
        rows = tuple(
            (name, str(found["n"]), percent(found["eqs"]), str(found["n_answerable"]), percent(found["iou"]))
            for name, found in self.categories.items()
        )
        columns = ("category", "n", "EQS", "n answ.", "mean IoU")
        return Sheet("By category, per cent", columns, rows, is_long=True, notes=() if rows else ("no query to score names a category",))

    def _contrast_sheet(self) -> Sheet:
        rows = tuple(
            (" – ".join(c["forms"]), str(c["n_annotations"]), *(percent(v) for v in (*c["iou"], c["iou"][0] - c["iou"][1], *c["eqs"])))
            for c in self.contrasts
        )
        columns = ("forms", "annotations", "IoU 1st", "IoU 2nd", "difference", "EQS 1st", "EQS 2nd")
        return Sheet("Query forms on the annotations they share, per cent", columns, rows)


def headline_sheet(title: str, rows: Mapping[str, Mapping[str, float | None]]) -> Sheet:
    """Lay out the table of a paper: submissions, and references in brackets."""
    listed = [(name, *(percent(values[metric_id]) for metric_id in HEADLINE)) for name, values in rows.items()]
    columns, kept = keep_defined(("", *HEADLINE.values()), listed)
    notes = (
        "L1 to L5: EQS by level; ans.: EQS of answerable queries; rej.: rejection accuracy; rows in brackets: relation-blind references,"
        " which look at the category alone",
    )
    return Sheet(f"{title}, per cent", columns, kept, notes=notes)


def errors_sheet(errors: Mapping[str, Mapping[str, int]]) -> Sheet:
    """Lay out kinds of mistakes as shares of the failed queries."""
    rows: list[tuple[str, ...]] = []
    for name, found in errors.items():
        failed = sum(found.values())
        rows.append((name, str(failed), *(percent(found[kind] / failed if failed else None) for kind in FAILURES)))
    columns = ("", "failed", *(kind.replace("_", " ") for kind in FAILURES))
    return Sheet("Failed queries by kind of mistake, per cent of the failed", columns, tuple(rows))


def problem_sheet(title: str, problems: Sequence[Problem], most: int | None) -> Sheet:
    """List what is wrong in a file."""
    shown = problems if most is None else problems[:most]
    notes = [f"{p.where}, {p.query_id}: {p.code}, {p.detail}" for p in shown]
    notes += [f"… and {len(problems) - len(shown)} more (see the JSON report)"] if len(shown) < len(problems) else []
    return Sheet(f"{title} ({len(problems)})", notes=tuple(notes))


def definitions() -> Sheet:
    """List what every metric and every kind of mistake means."""
    rows = tuple((m.metric_id, m.matcher or "", m.description) for m in METRICS)
    notes = tuple(f"{kind.replace('_', ' ')}: {meaning}" for kind, meaning in FAILURES.items())
    return Sheet("What the metrics and kinds of mistakes mean", ("metric", "matcher", "meaning"), rows, n_left=3, notes=notes, is_long=True)


def print_metric(metric_id: str, value: float | None) -> str:
    """Print a metric's value: a share in per cent, a correlation as it is."""
    return number(value, 3) if metric_id in CORRELATIONS else percent(value)


def prepare_ground(release: Release, protocol: str | None = None, split: str | None = None, kind: str | None = None) -> Ground:
    """Select queries and score the references on them, once for all submissions.

    Args:
        release: The release. Its masks are read once and kept, so that further submissions are scored faster.
        protocol: Name of a split protocol; needs `split`. None selects all scenes.
        split: `train`, `val`, `test`, …; needs `protocol`.
        kind: `answerable`, `category_absent`, …; None selects all.

    Raises:
        InputError: protocol, split or kind is not in the release; lists those that are.
        ReleaseError: a part of the release cannot be read.
    """
    chosen = select_queries(release, protocol, split, kind)
    queries = [query for query in chosen if query.form in MASK_FORMS]
    selection = Selection(
        protocol,
        split,
        kind,
        len(queries),
        sum(query.answerable for query in queries),
        len({query.scene_id for query in queries}),
        dict(sorted(Counter(query.form for query in chosen if query.form not in MASK_FORMS).items())),
    )
    members = members_of_all(release, queries)
    blind = reference_outcomes(release, queries, members)
    references: dict[str, dict[str, float | None]] = {}
    for name, outcomes in blind.items():
        scores = compute_scores(queries, outcomes, ("masks",))
        references[name] = _ordered(scores.values)
    return Ground(
        release,
        selection,
        queries,
        members,
        {query_id: frozenset(row.instance_id for row in rows) for query_id, rows in members.items()},
        references,
        {name: _count_errors(outcomes) for name, outcomes in blind.items()},
    )


def score_release(
    release: Release, predictions: Predictions, protocol: str | None = None, split: str | None = None, kind: str | None = None
) -> ScoreReport:
    """Score one submission on a release; see `prepare_ground` and `score_on`."""
    return score_on(prepare_ground(release, protocol, split, kind), predictions)


def score_on(ground: Ground, predictions: Predictions) -> ScoreReport:
    """Score a submission, from `read_predictions` on the same release.

    Raises:
        ReleaseError: a part of the release cannot be read.
    """
    release, queries = ground.release, ground.queries
    modalities = predictions.submission.modalities
    outcomes, found = outcomes_of(ground, predictions)
    scores = compute_scores(queries, outcomes, modalities)
    put_boxes(scores, release, queries, found, modalities)
    put_same_answers(scores, release, queries, found, modalities)
    put_paraphrases(scores, queries, outcomes, _further_outcomes(ground, predictions), predictions.records.keys())
    unparsed = Counter(record.unparsed.partition(":")[0] for record in found.values() if record.unparsed is not None)
    return ScoreReport(
        release=release.name,
        submission=predictions.submission.to_json()["submission"],
        selection=ground.selection,
        metrics=_ordered(scores.values),
        n={metric.metric_id: scores.n[metric.metric_id] for metric in METRICS},
        reasons={metric.metric_id: scores.reasons[metric.metric_id] for metric in METRICS if metric.metric_id in scores.reasons},
        counts=scores.counts,
        errors=_count_errors(outcomes),
        failures={query_id: outcome.failure for query_id, outcome in outcomes.items() if outcome.failure is not None},
        forms=by_form(release, queries, outcomes, found, modalities),
        categories=by_category(queries, outcomes),
        hardness=by_hardness(release, queries, outcomes, ground.members),
        contrasts=form_contrasts(queries, outcomes),
        problems=predictions.problems,
        unparsed=dict(sorted(unparsed.items())),
        missing=len(queries) - len(found),
        references=ground.references,
        reference_errors=ground.reference_errors,
        eqs={query_id: outcome.eqs for query_id, outcome in outcomes.items() if outcome.eqs is not None},
    )


def outcomes_of(ground: Ground, predictions: Predictions) -> tuple[dict[str, Outcome], dict[str, Prediction]]:
    """Judge the scored sentence of every query; returns query id → outcome, and query id → record of those that have one."""
    release, modalities = ground.release, predictions.submission.modalities
    found = {q.query_id: record for q in ground.queries if (record := predictions.records.get((q.query_id, 0))) is not None}
    outcomes = {
        q.query_id: outcome_of(release, q, found.get(q.query_id), modalities, ground.category_ids[q.query_id]) for q in ground.queries
    }
    return outcomes, found


def _count_errors(outcomes: Mapping[str, Outcome]) -> dict[str, int]:
    found = Counter(outcome.failure for outcome in outcomes.values() if outcome.failure is not None)
    return {kind: found[kind] for kind in FAILURES}


def _ordered(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {metric.metric_id: values[metric.metric_id] for metric in METRICS if metric.metric_id in values}


def _further_outcomes(ground: Ground, predictions: Predictions) -> dict[tuple[str, int], Outcome]:
    """Return the outcome of every further sentence, missing ones included; nothing when the submission has none at all."""
    if not any(sentence > 0 and query_id in ground.members for query_id, sentence in predictions.records):
        return {}
    modalities = predictions.submission.modalities
    return {
        (q.query_id, k): outcome_of(
            ground.release, q, predictions.records.get((q.query_id, k)), modalities, ground.category_ids[q.query_id]
        )
        for q in ground.queries
        for k in range(1, len(q.sentences))
    }


def select_queries(release: Release, protocol: str | None = None, split: str | None = None, kind: str | None = None) -> list[Query]:
    """Return the queries of a split and a kind, in file order.

    Raises:
        InputError: one of the names is not in the release, or protocol and split do not come together; lists what there is.
    """
    queries = release.queries
    if (protocol is None) != (split is None):
        given, wanted = ("protocol", "split") if split is None else ("split", "protocol")
        raise InputError(f"a {given} needs a {wanted}; release {release.name} has {release.known_splits}")
    if protocol is not None and split is not None:
        queries = release.queries_of(protocol, split)
    if kind is not None:
        kinds = sorted({query.kind for query in release.queries})
        if kind not in kinds:
            raise InputError(f"kind {kind!r} is not in release {release.name}, which has {', '.join(kinds) or 'none'}")
        queries = [query for query in queries if query.kind == kind]
    return queries
