"""Several submissions side by side: which differences are real, and how far the ranking depends on what is counted.

Not here: scoring one submission (`trigpoint.scoring.report`), the statistics themselves (`trigpoint.scoring.statistics`).

Source: GeoRefer-Bench (arXiv 2609.29541, section 7.3): paired scene-level bootstrap with Holm correction over all pairs, Kendall's tau of
the ranking with re-weighted categories and without near and far. Differs: how it resamples is not said there; ours is defined in
`trigpoint.scoring.statistics`.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from rich.console import Group

from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.scoring.metrics import METRICS, category_of, programs_of
from trigpoint.scoring.pages import Sheet, group_reasons, keep_defined, number, percent, to_console, to_markdown
from trigpoint.scoring.report import MOST_PROBLEMS, ScoreReport, definitions, errors_sheet, headline_sheet, print_metric, problem_sheet
from trigpoint.scoring.statistics import RankAgreement, bootstrap_shares, holm, rank_agreement, two_sided_p

RANKED_WITH = ("ma_iou", "eqs_category_macro", "eqs_without_near_far")
"""Metrics whose ranking of the submissions is compared with that by `eqs`."""

FORM_HEADLINE = {
    "ma_p": "maP", "ma_r": "maR", "ma_iou": "maIoU", "mi_iou": "miIoU", "presence_mcc": "MCC", "hbb_f1_50_maxcard": "HBB F1",
    "hbb_f1_50_95_maxcard": "HBB F1 50–95", "obb_f1_50_maxcard": "OBB F1", "obb_f1_50_95_maxcard": "OBB F1 50–95",
}  # fmt: skip
"""Metric → heading in the tables per query form. Source: OVEarth-Bench's tables 2 to 5."""

_MOST_PAIRS = 15


class Settings(NamedTuple):
    """How differences are tested.

    Attributes:
        resamples: Bootstrap resamples of the scenes. significance: Level after Holm's correction; intervals cover 1 - significance.
        seed: Of the draws.
    """

    resamples: int = 10_000
    significance: float = 0.05
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be computed.

        Raises:
            InputError: fewer than 1 resample, or a significance that is not between 0 and 1.
        """
        if self.resamples < 1:
            raise InputError(f"resamples is {self.resamples}, expected 1 or more; 10000 is usual")
        if not 0 < self.significance < 1:
            raise InputError(f"significance is {self.significance}, expected between 0 and 1, such as 0.05")


class Standing(NamedTuple):
    """A submission's place.

    Attributes:
        label: Its name, made unique. rank: 1 is best; equals share the better rank.
        low, high: Bootstrap interval of `eqs`; None with fewer than two scenes.
    """

    label: str
    rank: int
    eqs: float
    low: float | None
    high: float | None


class PairTest(NamedTuple):
    """Whether two submissions differ in EQS.

    Attributes:
        first, second: Labels, the higher EQS first. difference: EQS of the first minus that of the second, in [0, 1].
        low, high: Bootstrap interval of the difference. p: Two-sided. p_holm: Corrected for all pairs.
        is_separated: `p_holm` is at most the level of significance.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float
    is_separated: bool


class CategoryStability(NamedTuple):
    """Kendall's tau-b between the ranking by EQS and the one without the queries of a category.

    Attributes:
        taus: Category → tau, None where one of the rankings is all ties or no query is left.
        lowest, mean: Over the defined ones; None without any.
        reason: Why none is defined, or None.
    """

    taus: dict[str, float | None]
    lowest: float | None
    mean: float | None
    reason: str | None


class Comparison(NamedTuple):
    """Submissions compared on one selection.

    Attributes:
        labels: One per report, in the order given.
        standings: By rank; submissions without an EQS are not among them. left_out: Label → why not.
        pairs: All n(n-1)/2 pairs of those ranked; empty, with `pairs_reason`, where no test is possible.
        n_separated: Pairs that remain after correction; None without pairs.
        largest_unseparated: Largest difference of a pair that is not separated: what the ranking cannot resolve. None when all are.
        agreement: Metric id → agreement of its ranking with that by EQS. stability: Leaving one category out.
        remarks: What a reader must know of these numbers.
    """

    reports: list[ScoreReport]
    labels: list[str]
    settings: Settings
    n_scenes: int
    standings: list[Standing]
    left_out: dict[str, str]
    pairs: list[PairTest]
    pairs_reason: str | None
    n_separated: int | None
    largest_unseparated: float | None
    agreement: dict[str, RankAgreement]
    stability: CategoryStability
    remarks: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison and its reports as plain JSON values."""
        return {
            "reports": [{"label": label, **report.to_json()} for label, report in zip(self.labels, self.reports, strict=True)],
            "comparison": {
                "settings": self.settings._asdict(),
                "n_scenes": self.n_scenes,
                "standings": [standing._asdict() for standing in self.standings],
                "left_out": self.left_out,
                "pairs": [pair._asdict() for pair in self.pairs],
                "pairs_reason": self.pairs_reason,
                "n_pairs": len(self.pairs),
                "n_separated": self.n_separated,
                "largest_unseparated": self.largest_unseparated,
                "agreement": {name: found._asdict() for name, found in self.agreement.items()},
                "stability": self.stability._asdict(),
                "remarks": self.remarks,
            },
        }

    def to_markdown(self) -> str:
        """Return the comparison as a Markdown page."""
        sheets = [*self._sheets(None, None), definitions()]
        return to_markdown(f"{len(self.reports)} submissions on {self.reports[0].release}", self._lead(), sheets)

    def to_table(self) -> Group:
        """Return the comparison for the terminal, long lists cut short."""
        return to_console(
            [f"{len(self.reports)} submissions on {self.reports[0].release}", *self._lead()], self._sheets(_MOST_PAIRS, MOST_PROBLEMS)
        )

    def _lead(self) -> list[str]:
        return [f"Selection: {self.reports[0].selection}."]

    def _by_rank(self) -> dict[str, ScoreReport]:
        reports = dict(zip(self.labels, self.reports, strict=True))
        return {label: reports[label] for label in [*(standing.label for standing in self.standings), *self.left_out]}

    def _sheets(self, most_pairs: int | None, most_problems: int | None) -> list[Sheet]:
        by_rank, first = self._by_rank(), self.reports[0]
        rows = {
            **{label: report.metrics for label, report in by_rank.items()},
            **{f"({name})": values for name, values in first.references.items()},
        }
        errors = {
            **{label: report.errors for label, report in by_rank.items()},
            **{f"({name})": found for name, found in first.reference_errors.items()},
        }
        sheets = [headline_sheet("Scores", rows), self._standing_sheet(), self._pair_sheet(most_pairs), self._agreement_sheet()]
        sheets += [*self._form_sheets(by_rank), errors_sheet(errors), self._metric_sheet(by_rank), self._stability_sheet()]
        reasons = [(name, why) for report in by_rank.values() for name, why in report.reasons.items()]
        notes = tuple(f"{line}{self._owners(line, by_rank)}" for line in group_reasons(reasons))
        sheets += [Sheet("Undefined or incomplete", notes=notes, is_long=True)] if notes else []
        return [
            *sheets,
            *(problem_sheet(f"Problems in {label}", r.problems, most_problems) for label, r in by_rank.items() if r.problems),
        ]

    @staticmethod
    def _owners(line: str, by_rank: Mapping[str, ScoreReport]) -> str:
        """Say of whom a reason is true, unless of all."""
        why = line.partition(": ")[2]
        owners = [label for label, report in by_rank.items() if why in report.reasons.values()]
        return "" if len(owners) == len(by_rank) else f" ({', '.join(owners)})"

    def _standing_sheet(self) -> Sheet:
        rows = tuple((str(s.rank), s.label, percent(s.eqs), _interval(s.low, s.high, percent)) for s in self.standings)
        title = f"Ranking by EQS, per cent, {self._interval_name()} over {self.n_scenes} scenes"
        notes = (*self.remarks, *(f"{label} is not ranked: {why}" for label, why in self.left_out.items()))
        return Sheet(title, ("rank", "submission", "EQS", "interval"), rows, n_left=2, notes=notes)

    def _interval_name(self) -> str:
        return f"{100 * (1 - self.settings.significance):g} % bootstrap interval"

    def _pair_sheet(self, most: int | None) -> Sheet:
        title = f"Differences in EQS, percentage points, paired scene-level bootstrap with {self.settings.resamples} resamples"
        if self.pairs_reason is not None:
            return Sheet(title, notes=(self.pairs_reason,))
        shown = self.pairs if most is None else sorted(self.pairs, key=lambda pair: -pair.p_holm)[:most]
        rows = tuple(
            (
                p.first,
                p.second,
                percent(p.difference),
                _interval(p.low, p.high, percent),
                _p(p.p),
                _p(p.p_holm),
                "yes" if p.is_separated else "no",
            )
            for p in shown
        )
        lines = [
            f"{self.n_separated} of {len(self.pairs)} pairs are separated at {self.settings.significance:g} after Holm's correction",
            "all differences are separated"
            if self.largest_unseparated is None
            else f"the largest difference that is not separated: {percent(self.largest_unseparated)} points",
        ]
        lines += [f"shown: the {most} pairs least separated"] if most is not None and len(self.pairs) > most else []
        columns = ("first", "second", "difference", "interval", "p", "p (Holm)", "separated")
        return Sheet(title, columns, rows, n_left=2, notes=tuple(lines))

    def _agreement_sheet(self) -> Sheet:
        rows = tuple((name, number(a.kendall_tau), number(a.spearman), str(a.n)) for name, a in self.agreement.items())
        notes = group_reasons((name, a.reason) for name, a in self.agreement.items() if a.reason is not None)
        columns = ("ranking by", "Kendall's tau-b", "Spearman's rho", "submissions")
        return Sheet("Agreement with the ranking by EQS", columns, rows, notes=notes)

    def _stability_sheet(self) -> Sheet:
        found = self.stability
        rows = tuple((name, number(tau)) for name, tau in found.taus.items())
        note = found.reason or f"tau-b without one category: lowest {number(found.lowest)}, mean {number(found.mean)}"
        return Sheet("Ranking by EQS without one category", ("left out", "Kendall's tau-b"), rows, notes=(note,), is_long=True)

    def _form_sheets(self, by_rank: Mapping[str, ScoreReport]) -> list[Sheet]:
        """Lay out one table per query form, unless programs are all there is."""
        forms = self.reports[0].forms
        if set(forms) <= {"program"}:
            return []
        sheets: list[Sheet] = []
        for form, about in forms.items():
            listed = [
                (label, *(print_metric(name, report.forms[form]["metrics"][name]) for name in FORM_HEADLINE))
                for label, report in by_rank.items()
            ]
            columns, rows = keep_defined(("", *FORM_HEADLINE.values()), listed)
            notes = (f"{about['n']} queries, {about['n_answerable']} of them answerable, of {about['n_annotations']} annotations",)
            sheets.append(Sheet(f"{form.capitalize()} queries, per cent (MCC -1 to 1)", columns, rows, notes=notes))
        return sheets

    def _metric_sheet(self, by_rank: Mapping[str, ScoreReport]) -> Sheet:
        rows = [
            (m.metric_id, *(print_metric(m.metric_id, report.metrics[m.metric_id]) for report in by_rank.values()))
            for m in METRICS
            if any(report.metrics[m.metric_id] is not None for report in by_rank.values())
        ]
        return Sheet("All metrics that are defined (per cent; MCC -1 to 1)", ("metric", *by_rank), tuple(rows), is_long=True)


def _interval(low: float | None, high: float | None, show: Any) -> str:
    return f"{show(low)} … {show(high)}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def compare_reports(reports: Sequence[ScoreReport], queries: Sequence[Query], labels: Sequence[str], settings: Settings) -> Comparison:
    """Compare reports on the same selection.

    Args:
        reports: One per submission.
        queries: The selection's queries.
        labels: What to call the submissions, all different.
        settings: Resamples, level and seed.

    Raises:
        InputError: the settings cannot be used.
    """
    settings.check()
    ranked = [k for k, report in enumerate(reports) if report.metrics["eqs"] is not None]
    left_out = {labels[k]: report.reasons["eqs"] for k, report in enumerate(reports) if k not in ranked}
    usable = programs_of([query for query in queries if ranked and query.query_id in reports[ranked[0]].eqs])
    right = np.array([[reports[k].eqs[query.query_id] for k in ranked] for query in usable], dtype=np.int64).reshape(
        len(usable), len(ranked)
    )
    eqs = [right[:, j].sum().item() / len(usable) for j in range(len(ranked))]

    scenes, scene = np.unique([query.scene_id for query in usable], return_inverse=True)
    names = [labels[k] for k in ranked]
    shares = None
    if len(scenes) > 1:
        hits = np.zeros((len(scenes), len(ranked)), dtype=np.int64)
        np.add.at(hits, scene, right)
        shares = bootstrap_shares(hits, np.bincount(scene), settings.resamples, settings.seed)
    pairs = [] if shares is None else _test_pairs(names, eqs, shares, settings)
    reason, remarks = None, []
    if len(ranked) < 2:
        reason = f"{len(ranked)} submission(s) have an EQS, a pair needs two"
    elif shares is None:
        reason = f"the scored queries lie in {len(scenes)} scene(s), resampling scenes needs two"
    elif 2 / (settings.resamples + 1) * len(pairs) > settings.significance:
        needed = int(np.ceil(2 * len(pairs) / settings.significance)) - 1
        remarks.append(
            f"{settings.resamples} resamples can separate none of {len(pairs)} pairs, their p-values are too coarse; give {needed} or more"
        )
    open_pairs = [pair.difference for pair in pairs if not pair.is_separated]
    return Comparison(
        reports=list(reports),
        labels=list(labels),
        settings=settings,
        n_scenes=len(scenes),
        standings=_standings(names, eqs, shares, settings),
        left_out=left_out,
        pairs=pairs,
        pairs_reason=reason,
        n_separated=None if reason else sum(pair.is_separated for pair in pairs),
        largest_unseparated=max(open_pairs, default=None),
        agreement={metric_id: rank_agreement(eqs, [reports[k].metrics[metric_id] for k in ranked]) for metric_id in RANKED_WITH},
        stability=_leave_one_category_out(eqs, right, [category_of(query) for query in usable]),
        remarks=remarks,
    )


def _standings(names: Sequence[str], eqs: Sequence[float], shares: Any, settings: Settings) -> list[Standing]:
    tails = (settings.significance / 2, 1 - settings.significance / 2)
    found: list[Standing] = []
    for j, name in enumerate(names):
        low, high = (None, None) if shares is None else (float(v) for v in np.quantile(shares[:, j], tails))
        found.append(Standing(name, 1 + sum(other > eqs[j] for other in eqs), eqs[j], low, high))
    return sorted(found, key=lambda standing: standing.rank)


def _test_pairs(names: Sequence[str], eqs: Sequence[float], shares: Any, settings: Settings) -> list[PairTest]:
    tails = (settings.significance / 2, 1 - settings.significance / 2)
    tests: list[PairTest] = []
    order = sorted(range(len(names)), key=lambda j: -eqs[j])
    for i, j in combinations(order, 2):
        differences = shares[:, i] - shares[:, j]
        low, high = (float(v) for v in np.quantile(differences, tails))
        tests.append(PairTest(names[i], names[j], eqs[i] - eqs[j], low, high, two_sided_p(differences), 1.0, False))
    corrected = holm([test.p for test in tests])
    return [test._replace(p_holm=p, is_separated=p <= settings.significance) for test, p in zip(tests, corrected, strict=True)]


def _leave_one_category_out(eqs: Sequence[float], right: Any, categories: Sequence[str | None]) -> CategoryStability:
    known = sorted({name for name in categories if name is not None})
    if len(known) < 2:
        return CategoryStability({}, None, None, f"the scored queries name {len(known)} category(ies), leaving one out needs two")
    taus: dict[str, float | None] = {}
    for name in known:
        kept = np.array([category != name for category in categories])
        taus[name] = rank_agreement(eqs, [float(v) for v in right[kept].mean(axis=0)]).kendall_tau
    defined = [tau for tau in taus.values() if tau is not None]
    if not defined:
        return CategoryStability(taus, None, None, rank_agreement(eqs, eqs).reason or "without any one category all submissions are equal")
    return CategoryStability(taus, min(defined), float(np.mean(defined)), None)
