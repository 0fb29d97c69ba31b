"""What the analyses start from: scores per model and query form, read from published tables or computed from prediction files.

All shares are per cent here, as papers print them. Not here: the analyses (`trigpoint.analysis.analyse`).
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from trigpoint.analysis.rankings import Sums
from trigpoint.errors import InputError
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.forms import TARGETS, by_form, target_of
from trigpoint.scoring.metrics import MASK_FORMS, Outcome, Overlap, category_of, mean
from trigpoint.scoring.predictions import read_predictions
from trigpoint.scoring.report import outcomes_of, prepare_ground

AGGREGATIONS = ("Q", "Ann", "Cat")
"""Mean IoU over queries, over annotations, over categories."""

_METRIC_OF = {
    "Q": "ma_iou", "Ann": "annotation_macro_iou", "Cat": "category_macro_iou", "miIoU": "mi_iou", "MCC": "presence_mcc",
    "HBB F1": "hbb_f1_50_maxcard", "OBB F1": "obb_f1_50_maxcard",
}  # fmt: skip
"""Score → metric id; MCC is no share and stays as it is."""

_NOT_SHARES = ("MCC",)
_SCORE_KEYS = ("model", "form")
_CONTRAST_KEYS = ("model", "first_form", "second_form", "first", "second")


class Contrast(NamedTuple):
    """Two query forms on the targets that they share.

    Attributes:
        n_annotations: Shared ones; None when a table does not say.
        scores: Model → (score of the first form, of the second), per cent.
    """

    first: str
    second: str
    n_annotations: int | None
    scores: dict[str, tuple[float, float]]


class Targets(NamedTuple):
    """Scores on one kind of targets. `scores`: model → mean IoU, per cent."""

    form: str
    target: str
    n: int
    n_annotations: int
    scores: dict[str, float]


class Material(NamedTuple):
    """Everything that the analyses look at.

    Attributes:
        source: Where it comes from.
        scores: Form → model → score name → value (per cent; MCC as it is; None where undefined).
        contrasts, targets: Of forms that share annotations; of kinds of targets.
        categories, scenes: Form → IoU sums by category, by scene. Empty for published tables, which have means alone.
        notes: What a reader must know.
    """

    source: str
    scores: dict[str, dict[str, dict[str, float | None]]]
    contrasts: list[Contrast]
    targets: list[Targets]
    categories: dict[str, Sums]
    scenes: dict[str, Sums]
    notes: list[str]


def read_tables(paths: Sequence[Path | str]) -> Material:
    """Read published per-model scores.

    A file of scores has the columns `model`, `form` (optional) and any scores, of which `Q`, `Ann` and `Cat` are the aggregations. A file
    of contrasts has `model`, `first_form`, `second_form`, `first`, `second`: scores on the annotations that both forms share; and
    `n_annotations` (optional).

    Raises:
        InputError: a file cannot be read, has neither set of columns, a value that is no number, or a model twice.
    """
    material = Material(", ".join(Path(path).name for path in paths), {}, [], [], {}, {}, [])
    for path in map(Path, paths):
        header, rows = _read_csv(path)
        if set(_CONTRAST_KEYS) <= set(header):
            _add_contrasts(material, path, rows)
        elif "model" in header and set(header) & set(AGGREGATIONS):
            _add_scores(material, path, rows)
        else:
            raise InputError(
                f"table {path}: has the columns {header}, expected model and some of {list(AGGREGATIONS)}, or {list(_CONTRAST_KEYS)}"
            )
    return material


def _read_csv(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey="", strict=True)
            rows, header = list(reader), [str(name) for name in reader.fieldnames or []]
    except OSError as error:
        raise InputError(f"table {path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"table {path}: is no CSV ({error})") from error
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(f"table {path}: has the columns {twice} more than once, expected each once")
    if header and not rows:
        raise InputError(f"table {path}: has columns but no line below them, expected one per model")
    for number, row in enumerate(rows, start=2):
        if "" in row or None in row.values():
            raise InputError(f"table {path}: line {number} has another number of cells than the first line's {len(header)}")
        if "model" in header and not row["model"]:
            raise InputError(f"table {path}: line {number} names no model")
    return header, rows


def _add_scores(material: Material, path: Path, rows: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rows, start=2):
        form, model = row.get("form") or "all queries", row["model"]
        models = material.scores.setdefault(form, {})
        if model in models:
            raise InputError(f"table {path}: line {number}: model {model!r} has scores for form {form!r} already")
        models[model] = {name: _number(path, number, name, text) for name, text in row.items() if name not in _SCORE_KEYS}


def _add_contrasts(material: Material, path: Path, rows: list[dict[str, Any]]) -> None:
    found: dict[tuple[str, str], Contrast] = {}
    for number, row in enumerate(rows, start=2):
        key = (row["first_form"], row["second_form"])
        said = _number(path, number, "n_annotations", row.get("n_annotations") or "")
        contrast = found.setdefault(key, Contrast(*key, None if said is None else int(said), {}))
        first, second = (_number(path, number, name, row[name]) for name in ("first", "second"))
        if row["model"] in contrast.scores:
            raise InputError(f"table {path}: line {number}: model {row['model']!r} is in contrast {key} already")
        if first is not None and second is not None:
            contrast.scores[row["model"]] = (first, second)
    material.contrasts.extend(found.values())


def _number(path: Path, line: int, column: str, text: str) -> float | None:
    """Read a number; an empty cell or a dash is None."""
    if text.strip() in ("", "-", "–"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"table {path}: line {line}: {column} is {text!r}, expected a number")
    if column in AGGREGATIONS and not 0 <= value <= 100:
        raise InputError(f"table {path}: line {line}: {column} is {text!r}, expected per cent, 0 to 100")
    return value


def from_predictions(release: Path | str, files: Sequence[Path | str], protocol: str | None = None, split: str | None = None) -> Material:
    """Score prediction files and gather what the analyses need.

    A model that has no record for any query of a form was not run on it: it is left out of that form and named in the notes. (The scorer
    itself counts a missing record as empty.)

    Raises:
        InputError: two submissions have one name; ReleaseError, PredictionError: a file cannot be read.
    """
    ground = prepare_ground(Release.open(release), protocol, split)
    outcomes: dict[str, dict[str, Outcome]] = {}
    scores: dict[str, dict[str, dict[str, float | None]]] = {form: {} for form in MASK_FORMS}
    notes: list[str] = []
    forms = {form: found for form in MASK_FORMS if (found := [query for query in ground.queries if query.form == form])}
    for file in files:
        predictions = read_predictions(file, ground.release)
        name = predictions.submission.name
        if name in outcomes:
            raise InputError(f"two prediction files are called {name!r}, the second is {file}; analyses need a name for each")
        outcomes[name], records = outcomes_of(ground, predictions)
        per_form = by_form(ground.release, ground.queries, outcomes[name], records, predictions.submission.modalities)
        given = {query_id for query_id, _ in predictions.records}
        for form, queries in forms.items():
            if not any(query.query_id in given for query in queries):
                notes.append(f"{name} has no record for any {form} query and is left out there")
            elif per_form[form]["metrics"]["ma_iou"] is None:
                notes.append(f"{name} has no mean IoU on {form} queries ({per_form[form]['reasons']['ma_iou']}) and is left out there")
            else:
                values = per_form[form]["metrics"]
                scores[form][name] = {key: _scaled(key, values[metric]) for key, metric in _METRIC_OF.items()}
    scores = {form: models for form, models in scores.items() if models}
    asked = {form: [q for q in queries if q.answerable] for form, queries in forms.items() if form in scores}
    by = _Gatherer(asked, outcomes, {form: tuple(models) for form, models in scores.items()})
    source = f"{ground.release.name}, {len(outcomes)} submission(s), {ground.selection}"
    return Material(
        source, scores, by.contrasts(), by.targets(ground.release), by.sums(category_of), by.sums(lambda query: query.scene_id), notes
    )


def _scaled(name: str, value: float | None) -> float | None:
    return value if value is None or name in _NOT_SHARES else 100 * value


class _Gatherer:
    """Mean IoU of models over choices of answerable queries, per cent."""

    def __init__(
        self,
        asked: Mapping[str, Sequence[Query]],
        outcomes: Mapping[str, Mapping[str, Outcome]],
        models: Mapping[str, tuple[str, ...]],
    ) -> None:
        # whether the release has masks for an answer is the same for all of a form's models
        self.asked = {form: [q for q in queries if outcomes[models[form][0]][q.query_id].overlap] for form, queries in asked.items()}
        self.outcomes, self.models = outcomes, models

    def iou(self, model: str, query: Query) -> float:
        return 100 * cast(Overlap, self.outcomes[model][query.query_id].overlap).iou

    def contrasts(self) -> list[Contrast]:
        found: list[Contrast] = []
        for first, second in combinations(sorted(self.asked), 2):
            shared = {q.annotation_id for q in self.asked[first]} & {q.annotation_id for q in self.asked[second]} - {None}
            models = [model for model in self.models[first] if model in self.models[second]]
            if shared and models:
                chosen = [[q for q in self.asked[form] if q.annotation_id in shared] for form in (first, second)]
                scores = {model: cast(Any, tuple(mean([self.iou(model, q) for q in part]) for part in chosen)) for model in models}
                found.append(Contrast(first, second, len(shared), scores))
        return found

    def targets(self, release: Release) -> list[Targets]:
        found: list[Targets] = []
        for form, queries in self.asked.items():
            kinds = {query.query_id: target_of(release, query) for query in queries}
            for target in TARGETS:
                chosen = [query for query in queries if kinds[query.query_id] == target]
                if chosen:
                    scores = {model: mean([self.iou(model, query) for query in chosen]) for model in self.models[form]}
                    n_annotations = len({query.annotation_id for query in chosen} - {None})
                    found.append(Targets(form, target, len(chosen), n_annotations, scores))
        return found

    def sums(self, key: Callable[[Query], str | None]) -> dict[str, Sums]:
        found: dict[str, Sums] = {}
        for form, queries in self.asked.items():
            named = [query for query in queries if key(query) is not None]
            groups = tuple(sorted({cast(str, key(query)) for query in named}))
            if not groups:
                continue
            place = {group: k for k, group in enumerate(groups)}
            at = np.array([place[cast(str, key(query))] for query in named])
            values = np.array([[self.iou(model, query) for model in self.models[form]] for query in named])
            totals = np.zeros((len(groups), len(self.models[form])))
            np.add.at(totals, at, values)
            found[form] = Sums(groups, self.models[form], totals, np.bincount(at, minlength=len(groups)).astype(np.float64))
        return found
