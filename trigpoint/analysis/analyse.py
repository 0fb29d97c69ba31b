"""The analyses of a benchmark's results: do rankings depend on how scores are averaged, on the form of the query, on the categories?

Everything is computed from a `Material`; the same tables go to the terminal, JSON, Markdown and CSV. Not here: drawing
(`trigpoint.analysis.plots`), the scores themselves (`trigpoint.scoring`).

Source: OVEarth-Bench (arXiv 2607.27278), appendix D: tables 8 to 10, figures 6 and 11.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from trigpoint.analysis.material import AGGREGATIONS, Contrast, Material
from trigpoint.analysis.pages import DataTable, Page, columns
from trigpoint.analysis.rankings import Band, Stability, bootstrap_rho, scene_stability, subset_stability
from trigpoint.errors import InputError
from trigpoint.scoring.statistics import rank_agreement

CONTRAST_ORDER = ("program", "vocabulary", "referring", "reasoning")
"""Forms from the plainest to the least plain; a contrast is the later one minus the earlier."""


class AnalysisSettings(NamedTuple):
    """What is drawn and how often.

    Attributes:
        sizes: Categories per subset; those not smaller than the number of categories are left out.
        draws: Subsets per size, and draws of scenes. resamples: Of models, for intervals of rank correlations.
        top: Models whose agreement over aggregations is counted. best: Models whose recovery by subsets is counted.
        seed: Of all draws.

    Source: the sizes, 1,000 draws, top ten and top five of OVEarth-Bench's appendix D.
    """

    sizes: tuple[int, ...] = (5, 10, 20, 50, 100, 150)
    draws: int = 1_000
    resamples: int = 10_000
    top: int = 10
    best: int = 5
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be computed.

        Raises:
            InputError: a number below 1, or no size.
        """
        for name in ("draws", "resamples", "top", "best"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected 1 or more")
        if not self.sizes or min(self.sizes) < 1:
            raise InputError(f"subset sizes are {list(self.sizes)}, expected whole numbers from 1")


class Analysis(NamedTuple):
    """All analyses.

    Attributes:
        page: The tables. material: What they come from.
        stability: Form → agreement per number of categories. contrasts: Later form first.
    """

    page: Page
    material: Material
    stability: dict[str, list[Stability]]
    contrasts: list[Contrast]


def analyse(material: Material, settings: AnalysisSettings | None = None) -> Analysis:
    """Run every analysis that the material allows; what it does not allow is an empty table with the reason.

    Raises:
        InputError: the settings cannot be used.
    """
    settings = settings or AnalysisSettings()
    settings.check()
    stability, too_few = _subsets(material, settings)
    contrasts = [_ordered(contrast) for contrast in material.contrasts]
    tables = (
        _score_table(material),
        _aggregation_table(material, settings.top),
        _contrast_table(material, contrasts),
        _contrast_model_table(contrasts),
        _stability_table(stability, too_few, settings),
        _scene_table(material, settings),
        _target_table(material),
        _correlation_table(material, settings),
    )
    lead = (f"From {material.source}.", "Scores are per cent; MCC -1 to 1.", *material.notes)
    return Analysis(Page("Analyses", lead, tables), material, stability, contrasts)


def _score_table(material: Material) -> DataTable:
    names = list(dict.fromkeys(name for models in material.scores.values() for row in models.values() for name in row))
    names = [name for name in names if any(row.get(name) is not None for models in material.scores.values() for row in models.values())]
    rows = [
        (form, rank, model, *(row.get(name) for name in names))
        for form, models in material.scores.items()
        for rank, (model, row) in enumerate(sorted(models.items(), key=lambda item: -_rank_key(item[1].get("Q"))), start=1)
    ]
    title = "Scores by query form, best Q first"
    notes = ("Q: mean IoU over queries; Ann: over annotations; Cat: over categories",)
    said = columns(("form", "form"), ("place", "place"), ("model", "model"), *((name, name) for name in names))
    return DataTable("scores", title, said, tuple(rows), 3, notes, is_long=True)


def _rank_key(value: float | None) -> float:
    return float("-inf") if value is None else value


def _aggregation_table(material: Material, most: int) -> DataTable:
    rows: list[tuple[object, ...]] = []
    for form, models in material.scores.items():
        values = {name: [row.get(name) for row in models.values()] for name in AGGREGATIONS}
        annotations, categories = (rank_agreement(values["Q"], values[name]) for name in ("Ann", "Cat"))
        k = max(1, min(most, len(models) - 1))
        overlap = [_overlap(values["Q"], values[name], k) for name in ("Ann", "Cat")]
        rows.append((form, len(models), annotations.spearman, categories.spearman, k, *overlap))
    said = columns(
        ("form", "form"), ("n_models", "models"), ("rho_q_ann", "ρ Q–Ann", 3), ("rho_q_cat", "ρ Q–Cat", 3), ("top", "top"),
        ("overlap_q_ann", "shared Q–Ann"), ("overlap_q_cat", "shared Q–Cat"),
    )  # fmt: skip
    notes = (
        "ρ: Spearman between the rankings by mean IoU over queries (Q), annotations (Ann) and categories (Cat); shared: how many of the"
        " best by Q are among the best by the other",
    )
    return DataTable("aggregation", "Does the ranking depend on how queries are averaged?", said, tuple(rows), notes=notes)


def _overlap(first: Sequence[float | None], second: Sequence[float | None], k: int) -> int | None:
    both = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if not both:
        return None
    best = [set(sorted(range(len(both)), key=lambda j: -both[j][side])[:k]) for side in (0, 1)]
    return len(best[0] & best[1])


def _ordered(contrast: Contrast) -> Contrast:
    """Put the later form first."""

    def place(form: str) -> int:
        return CONTRAST_ORDER.index(form) if form in CONTRAST_ORDER else len(CONTRAST_ORDER)

    if place(contrast.first) >= place(contrast.second):
        return contrast
    swapped = {model: (second, first) for model, (first, second) in contrast.scores.items()}
    return contrast._replace(first=contrast.second, second=contrast.first, scores=swapped)


def _contrast_table(material: Material, contrasts: Sequence[Contrast]) -> DataTable:
    rows: list[tuple[object, ...]] = []
    reasons: list[str] = []
    for contrast in contrasts:
        models = list(contrast.scores)
        overall = [[material.scores.get(form, {}).get(m, {}).get("Q") for m in models] for form in (contrast.first, contrast.second)]
        agreement = rank_agreement(*overall)
        differences = [first - second for first, second in contrast.scores.values()]
        if agreement.reason is not None:
            reasons.append(f"{contrast.first} − {contrast.second}: no ρ, {agreement.reason}")
        higher, lower = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        mean = sum(differences) / len(differences) if differences else None
        rows.append((f"{contrast.first} − {contrast.second}", len(models), contrast.n_annotations, agreement.spearman, higher, lower, mean))
    said = columns(
        ("contrast", "contrast"), ("n_models", "models"), ("n_annotations", "annotations"), ("rho", "ρ"), ("first_higher", "first higher"),
        ("first_lower", "first lower"), ("mean_difference", "mean difference"),
    )  # fmt: skip
    notes = (
        "ρ: Spearman between the overall rankings (Q) of the models scored on both forms; higher and lower: models by their scores on the"
        " annotations that both forms share",
        *reasons,
    )
    empty = ("no two query forms share an annotation",)
    return DataTable("contrasts", "Query forms on the targets they share", said, tuple(rows), notes=notes if rows else empty)


def _contrast_model_table(contrasts: Sequence[Contrast]) -> DataTable:
    rows = tuple(
        (f"{contrast.first} − {contrast.second}", model, first, second, first - second)
        for contrast in contrasts
        for model, (first, second) in contrast.scores.items()
    )
    said = columns(("contrast", "contrast"), ("model", "model"), ("first", "first"), ("second", "second"), ("difference", "difference"))
    return DataTable("contrasts_by_model", "Query forms on the targets they share, by model", said, rows, 2, is_long=True)


def _best_of(n_models: int, best: int) -> int:
    return max(1, min(best, n_models - 1))


def _subsets(material: Material, settings: AnalysisSettings) -> tuple[dict[str, list[Stability]], list[str]]:
    found: dict[str, list[Stability]] = {}
    reasons: list[str] = [] if material.categories else ["published means cannot be split by category; give prediction files"]
    for form, sums in material.categories.items():
        sizes = sorted({size for size in settings.sizes if size < len(sums.groups)})
        if len(sums.models) < 2:
            reasons.append(f"{form}: {len(sums.models)} model, a ranking needs two")
        elif not sizes:
            reasons.append(f"{form}: {len(sums.groups)} categories, no smaller subset size in {list(settings.sizes)}")
        else:
            found[form] = subset_stability(sums, sizes, settings.draws, _best_of(len(sums.models), settings.best), settings.seed)
    return found, reasons


_BAND_COLUMNS = (
    ("rho", "ρ median"), ("rho_low", "2.5 %"), ("rho_high", "97.5 %"), ("recovery", "best found"), ("recovery_low", "2.5 %"),
    ("recovery_high", "97.5 %"),
)  # fmt: skip


def _stability_table(stability: Mapping[str, Sequence[Stability]], reasons: Sequence[str], settings: AnalysisSettings) -> DataTable:
    rows = tuple((form, one.size, *_numbers(one.rho), *_numbers(one.recovery)) for form, found in stability.items() for one in found)
    notes = (
        f"{settings.draws:,} subsets per size, drawn without replacement; best found: share of the {settings.best} best by all categories"
        " (fewer where there are no more models) that are among the best by the subset; percentiles over subsets, no confidence intervals",
        *reasons,
    )
    said = columns(("form", "form"), ("categories", "categories"), *_BAND_COLUMNS)
    title = "Does the ranking depend on which categories are asked for?"
    return DataTable("category_subsets", title, said, rows, notes=notes if rows else tuple(reasons))


def _scene_table(material: Material, settings: AnalysisSettings) -> DataTable:
    rows: list[tuple[object, ...]] = []
    for form, sums in material.scenes.items():
        if len(sums.groups) > 1 and len(sums.models) > 1:
            one = scene_stability(sums, settings.draws, _best_of(len(sums.models), settings.best), settings.seed)
            rows.append((form, one.size, *_numbers(one.rho), *_numbers(one.recovery)))
    notes = (f"{settings.draws:,} draws of as many scenes as there are, with replacement; ρ with the ranking on all scenes",)
    said = columns(("form", "form"), ("scenes", "scenes"), *_BAND_COLUMNS)
    empty = ("needs prediction files of two models, and two scenes",)
    return DataTable("scenes", "Does the ranking depend on which scenes are drawn?", said, tuple(rows), notes=notes if rows else empty)


def _numbers(found: Band) -> tuple[float | None, float | None, float | None]:
    return (found.median, found.low, found.high)


def _target_table(material: Material) -> DataTable:
    rows = tuple(
        (one.form, one.target.replace("_", " "), model, one.n, one.n_annotations, score)
        for one in material.targets
        for model, score in sorted(one.scores.items(), key=lambda item: -item[1])
    )
    said = columns(
        ("form", "form"), ("target", "target"), ("model", "model"), ("n_queries", "queries"), ("n_annotations", "annotations"), ("Q", "Q"),
    )  # fmt: skip
    notes = ("by the taxonomy's `instanceable` of the category asked for",) if rows else ("needs prediction files",)
    return DataTable("targets", "Targets that come in instances and those that do not", said, rows, 3, notes)


def _correlation_table(material: Material, settings: AnalysisSettings) -> DataTable:
    """Correlate Q with every other score of a form, and Q of every two forms."""
    pairs: list[tuple[str, str, list[float | None], list[float | None]]] = []
    for form, models in material.scores.items():
        names = [name for name in dict.fromkeys(name for row in models.values() for name in row) if name != "Q"]
        q = [row.get("Q") for row in models.values()]
        pairs += [(f"{form}: Q", f"{form}: {name}", q, [row.get(name) for row in models.values()]) for name in names]
    for first, second in combinations(material.scores, 2):
        shared = [model for model in material.scores[first] if model in material.scores[second]]
        a, b = ([material.scores[form][model].get("Q") for model in shared] for form in (first, second))
        pairs.append((f"{first}: Q", f"{second}: Q", a, b))
    rows: list[tuple[object, ...]] = []
    for first, second, a, b in pairs:
        agreement = rank_agreement(a, b)
        if agreement.spearman is None:
            continue
        known = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
        interval = bootstrap_rho([x for x, _ in known], [y for _, y in known], settings.resamples, settings.seed)
        rows.append((first, second, agreement.n, agreement.spearman, interval.low, interval.high, agreement.kendall_tau))
    said = columns(
        ("first", "first"), ("second", "second"), ("n_models", "models"), ("rho", "ρ", 3), ("rho_low", "2.5 %", 3),
        ("rho_high", "97.5 %", 3), ("tau", "τ-b", 3),
    )  # fmt: skip
    notes = (f"intervals: {settings.resamples:,} bootstrap resamples of the models",) if rows else ("needs two models with two scores",)
    return DataTable("correlations", "Rank correlations", said, tuple(rows), 2, notes)
