"""Score a submission and say so: numbers with their n, what was selected, what was wrong, what blindness earns.

Not here: what a number means (`trigpoint.scoring.metrics`), reading files (`trigpoint.scoring.predictions`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.metrics import METRICS, Outcome, Scores, compute_scores, outcome_of, put_boxes, put_paraphrases
from trigpoint.scoring.predictions import Prediction, Predictions, Problem
from trigpoint.scoring.references import reference_outcomes

MASK_FORMS = ("program", "vocabulary", "referring", "reasoning")
"""Query forms whose answer is instances; choice and text queries have other scores."""

REFERENCE_METRICS = ("eqs", "eqs_answerable", "eqs_unanswerable", "ma_iou", "mi_iou", "rejection_accuracy")
"""What a table shows of the references; JSON holds everything."""

_MOST_PROBLEMS = 10


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


class ScoreReport(NamedTuple):
    """The scores of one submission on one selection of one release.

    Attributes:
        release: Name and version. submission: name, modalities, space.
        metrics: Id → value, None where undefined. n: Id → queries behind it. reasons: Id → why undefined or incomplete.
        problems: Everything wrong in the file. unparsed: Reason code → selected queries.
        references: Name → metric id → value.
    """

    release: str
    submission: dict[str, Any]
    selection: Selection
    metrics: dict[str, float | None]
    n: dict[str, int]
    reasons: dict[str, str]
    problems: list[Problem]
    unparsed: dict[str, int]
    references: dict[str, dict[str, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "release": self.release,
            "submission": self.submission,
            "selection": self.selection._asdict(),
            "metrics": self.metrics,
            "n": self.n,
            "reasons": self.reasons,
            "problems": [problem._asdict() for problem in self.problems],
            "unparsed": self.unparsed,
            "references": self.references,
        }

    def to_markdown(self) -> str:
        """Return the report as a Markdown page."""
        lines = [f"# {self.submission['name']} on {self.release}", "", f"Selection: {self.selection}.", ""]
        lines += ["| metric | value | n | matcher | meaning |", "|---|---|---|---|---|"]
        for metric in METRICS:
            value = _number(self.metrics[metric.metric_id])
            note = self.reasons.get(metric.metric_id)
            meaning = f"{metric.description}{f' ({note})' if note else ''}"
            lines.append(f"| `{metric.metric_id}` | {value} | {self.n[metric.metric_id]} | {metric.matcher or ''} | {meaning} |")
        lines += ["", "Relation-blind references on the same selection:", ""]
        lines += [f"| reference | {' | '.join(REFERENCE_METRICS)} |", f"|---|{'---|' * len(REFERENCE_METRICS)}"]
        for name, values in self.references.items():
            lines.append(f"| {name} | {' | '.join(_number(values[m]) for m in REFERENCE_METRICS)} |")
        if self.problems:
            lines += ["", f"Problems ({len(self.problems)}):", ""]
            lines += [f"- {problem.where}, `{problem.query_id}`: {problem.code}, {problem.detail}" for problem in self.problems]
        return "\n".join(lines) + "\n"

    def to_table(self) -> Group:
        """Return the report for the terminal: defined metrics, references, what is undefined and why, the first problems."""
        table = Table(
            title=f"{escape(self.submission['name'])} on {escape(self.release)}",
            caption=escape(str(self.selection)),
            box=SIMPLE_HEAD,
            title_justify="left",
        )
        table.caption_justify = "left"
        table.add_column("metric")
        table.add_column("value", justify="right")
        table.add_column("n", justify="right")
        for metric in METRICS:
            if self.metrics[metric.metric_id] is not None:
                table.add_row(metric.metric_id, _number(self.metrics[metric.metric_id]), str(self.n[metric.metric_id]))
        blind = Table(title="relation-blind references", box=SIMPLE_HEAD, title_justify="left")
        blind.add_column("reference")
        for metric_id in REFERENCE_METRICS:
            blind.add_column(metric_id, justify="right")
        for name, values in self.references.items():
            blind.add_row(name, *(_number(values[m]) for m in REFERENCE_METRICS))
        parts: list[Any] = [Text(f"selection: {self.selection}"), table, blind]
        by_reason: dict[str, list[str]] = {}
        for metric_id, reason in self.reasons.items():
            by_reason.setdefault(reason, []).append(metric_id)
        parts += [Text(f"{', '.join(ids)}: {reason}") for reason, ids in by_reason.items()]
        if self.problems:
            parts.append(Text(f"{len(self.problems)} problems in the file{', the first:' if len(self.problems) > _MOST_PROBLEMS else ':'}"))
            parts += [Text(f"  {p.where} {p.query_id}: {p.code}, {p.detail}") for p in self.problems[:_MOST_PROBLEMS]]
        return Group(*parts)


def _number(value: float | None) -> str:
    return "null" if value is None else f"{value:.4f}"


def score_release(
    release: Release, predictions: Predictions, protocol: str | None = None, split: str | None = None, kind: str | None = None
) -> ScoreReport:
    """Score a submission on a release.

    Args:
        release: The release. Its masks are read once and kept, so that further submissions are scored faster.
        predictions: From `read_predictions`.
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
    modalities = predictions.submission.modalities
    records = {query.query_id: predictions.records.get((query.query_id, 0)) for query in queries}
    outcomes = {query.query_id: outcome_of(release, query, records[query.query_id], modalities) for query in queries}
    found = {query_id: record for query_id, record in records.items() if record is not None}
    scores = _scores(release, queries, outcomes, found, modalities)
    put_paraphrases(scores, queries, outcomes, _further_outcomes(release, queries, predictions))
    references = {
        name: _ordered(_scores(release, queries, blind, {}, ("masks",)).values)
        for name, blind in reference_outcomes(release, queries).items()
    }
    unparsed = Counter(record.unparsed.partition(":")[0] for record in found.values() if record.unparsed is not None)
    return ScoreReport(
        release.name,
        predictions.submission.to_json()["submission"],
        selection,
        _ordered(scores.values),
        {metric.metric_id: scores.n[metric.metric_id] for metric in METRICS},
        {metric.metric_id: scores.reasons[metric.metric_id] for metric in METRICS if metric.metric_id in scores.reasons},
        predictions.problems,
        dict(sorted(unparsed.items())),
        references,
    )


def _scores(
    release: Release,
    queries: Sequence[Query],
    outcomes: Mapping[str, Outcome],
    records: Mapping[str, Prediction],
    modalities: Sequence[str],
) -> Scores:
    scores = compute_scores(queries, outcomes, modalities)
    put_boxes(scores, release, queries, records, modalities)
    return scores


def _ordered(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {metric.metric_id: values[metric.metric_id] for metric in METRICS if metric.metric_id in values}


def _further_outcomes(release: Release, queries: Sequence[Query], predictions: Predictions) -> dict[tuple[str, int], Outcome]:
    """Return the outcome of every further sentence, missing ones included; nothing when the submission has none at all."""
    ids = {query.query_id for query in queries}
    if not any(sentence > 0 and query_id in ids for query_id, sentence in predictions.records):
        return {}
    modalities = predictions.submission.modalities
    return {
        (query.query_id, k): outcome_of(release, query, predictions.records.get((query.query_id, k)), modalities)
        for query in queries
        for k in range(1, len(query.sentences))
    }


def select_queries(release: Release, protocol: str | None = None, split: str | None = None, kind: str | None = None) -> list[Query]:
    """Return the queries of a split and a kind, in file order.

    Raises:
        InputError: one of the names is not in the release, or protocol and split do not come together; lists what there is.
    """
    queries = release.queries
    if (protocol is None) != (split is None):
        given, wanted = ("protocol", "split") if split is None else ("split", "protocol")
        raise InputError(f"a {given} needs a {wanted}; release {release.name} has {_splits(release)}")
    if protocol is not None and split is not None:
        assignment: dict[str, list[str]] = release.splits.get(protocol, {}).get("assignment", {})
        if split not in assignment:
            raise InputError(f"protocol {protocol!r} with split {split!r} is not in release {release.name}, which has {_splits(release)}")
        scenes = set(assignment[split])
        queries = [query for query in queries if query.scene_id in scenes]
    if kind is not None:
        kinds = sorted({query.kind for query in release.queries})
        if kind not in kinds:
            raise InputError(f"kind {kind!r} is not in release {release.name}, which has {', '.join(kinds) or 'none'}")
        queries = [query for query in queries if query.kind == kind]
    return queries


def _splits(release: Release) -> str:
    known = [f"{protocol} ({', '.join(sorted(document.get('assignment', {})))})" for protocol, document in release.splits.items()]
    return "; ".join(known) or "no splits"
