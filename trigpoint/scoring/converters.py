"""Turn what detectors and other evaluators write into a submission: COCO results, and one JSON object per model.

A conversion loses nothing in silence. What belongs to no query of the release is a problem with its place and id; what belongs to a query
but cannot be read makes the record of that query unparsed, which fails it. docs/scores.md explains both formats. Not here: the format of
a submission (`trigpoint.scoring.predictions`).
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from trigpoint.categories import TRUE, Taxonomy
from trigpoint.errors import InputError, PredictionError, ReleaseError, TaxonomyError
from trigpoint.masks.rle import RleRequest, check_rles, flat_numbers, rle_from_polygons
from trigpoint.names import key_of
from trigpoint.records.query import Query
from trigpoint.release.reader import Release
from trigpoint.scoring.metrics import MASK_FORMS
from trigpoint.scoring.predictions import (
    MODALITIES,
    MODALITY_OF_KEY,
    SPACES,
    Prediction,
    Problem,
    Submission,
    check_predictions,
    shorten,
    write_predictions,
)

EXPORT = "exports/coco.json"
"""Where a release says which image id is which scene, and which category id which category."""


class Conversion(NamedTuple):
    """What became of a file.

    Attributes:
        n_records: Records written, one per query that the file can speak of. n_unparsed: Those of them that cannot be read.
        n_used, n_below: Results taken; results below the score threshold (COCO alone).
        problems: Everything that is wrong, in file order.
    """

    n_records: int
    n_unparsed: int
    n_used: int
    n_below: int
    problems: list[Problem]


def convert_coco(release: Release, results: Path | str, out: Path | str, score_threshold: float, name: str | None = None) -> Conversion:
    """Convert COCO results: `[{image_id, category_id, segmentation or bbox or both, score}, …]`.

    A detection of a category answers the queries of its scene that ask for that category or a broader one by name: positive vocabulary
    queries, programs of level 1, and negative vocabulary queries whose text is a name of the category or of something broader. Every
    such query of the release has a record, an empty one where nothing was detected. An empty list is a detector that found nothing: every
    record is empty, of masks and of boxes.

    Args:
        release: The release; its `exports/coco.json` says what the ids mean.
        results: The file. Masks are RLEs or polygons, boxes [x, y, width, height], native pixels.
        out: JSONL or Parquet to write.
        score_threshold: Results with a lower score are left out; there is no usual value, so it must be given.
        name: Of the submission; None is the file's name.

    Raises:
        PredictionError: the file is no JSON list of results or holds results but none with a mask or a box, the threshold is no number,
            or `out` has another ending.
        ReleaseError: the release has no readable `exports/coco.json`.
    """
    file = Path(results)
    if not math.isfinite(score_threshold):
        raise PredictionError(f"the score threshold is {score_threshold}, expected a finite number")
    rows = _read_json(file)
    if not isinstance(rows, list):
        raise PredictionError(f"results {file}: holds {_kind(rows)}, expected a list of results (not of annotations with their images)")
    listed = cast(list[Any], rows)
    modalities = [
        modality
        for modality, key in (("masks", "segmentation"), ("boxes", "bbox"))
        if not listed or any(isinstance(row, dict) and cast(dict[str, Any], row).get(key) is not None for row in listed)
    ]
    if not modalities:
        raise PredictionError(f"results {file}: none of {len(listed)} results has a segmentation or a bbox")
    scenes, categories = _export_names(release)
    detections = _Detections(release, scenes, categories, score_threshold, "masks" in modalities)
    for place, row in enumerate(listed):
        detections.take(place, row)
    asked = _queries_by_category(release, sorted(set(categories.values())))
    records: dict[str, dict[str, Any]] = {}
    for (scene_id, category), queries in asked.items():
        for query in queries:
            record = records.setdefault(query.query_id, {"query_id": query.query_id, **{modality: [] for modality in modalities}})
            found = detections.found.get((scene_id, category), [])
            for detection in found:
                if detection.fault is not None:
                    record["unparsed"] = detection.fault
                for modality in modalities:
                    value = detection.mask if modality == "masks" else detection.box
                    record[modality] += [] if value is None else [value]
    submission = Submission(name or file.stem, tuple(modalities), "pixel")
    return _write(release, submission, list(records.values()), file.parent, Path(out), detections.problems, detections)


def convert_json(release: Release, answers: Path | str, out: Path | str, space: str, name: str | None = None) -> Conversion:
    """Convert one JSON object per model: `{query_id: {"masks": […], "boxes": […], …}, …}`.

    A value has the keys of a record of a submission (without `query_id`), or is null or empty where nothing was found. Where all are, the
    model found nothing, in every modality.

    Args:
        release: The release.
        answers: The file; paths of label maps in it are relative to its folder.
        out: JSONL or Parquet to write, masks as RLEs, all in native pixels.
        space: Of polygons and boxes, one of `trigpoint.scoring.predictions.SPACES`; never guessed.
        name: Of the submission; None is the file's name.

    Raises:
        PredictionError: the file is no JSON object, or says something for some query, but of masks or boxes for none; the space is
            unknown; or `out` has another ending.
    """
    file = Path(answers)
    if space not in SPACES:
        raise PredictionError(f"space is {space!r}, expected one of {list(SPACES)}")
    pairs = _read_json(file)
    if not isinstance(pairs, _Pairs):
        raise PredictionError(f"answers {file}: holds {_kind(pairs)}, expected an object of query id → answer")
    used = {key for _, value in pairs.items if isinstance(value, dict) for key in cast(dict[str, Any], value)}
    is_silent = all(value in (None, [], {}) for _, value in pairs.items)
    modalities = tuple(m for m in MODALITIES if is_silent or any(MODALITY_OF_KEY.get(key) == m for key in used))
    if not modalities:
        raise PredictionError(f"answers {file}: no answer has one of {sorted(MODALITY_OF_KEY)}; it has {sorted(used) or 'no keys'}")
    records: list[dict[str, Any]] = []
    problems: list[Problem] = []
    places: list[int] = []
    for place, (query_id, value) in enumerate(pairs.items):
        query = release.query_by_id.get(query_id)
        if query is None or query.form not in MASK_FORMS:
            why = "has no such query" if query is None else f"asks for no masks there, it is a {query.form} query"
            problems.append(Problem("unknown_query", f"answer {place}", query_id, f"release {release.name} {why}"))
            continue
        record: dict[str, Any] = {"query_id": query_id}
        if isinstance(value, dict):
            record = {**cast(dict[str, Any], value), "query_id": query_id}
        elif value not in (None, []):
            record["unparsed"] = f"the answer is {shorten(value)}, expected an object"
        if "unparsed" in record:
            problems.append(Problem("bad_record", f"answer {place}", query_id, str(record["unparsed"])))
        records.append(record)
        places.append(place)
    submission = Submission(name or file.stem, modalities, space)
    return _write(release, submission, records, file.parent, Path(out), problems, None, places)


class _Pairs(NamedTuple):
    """A JSON object as it was written, keys given twice and all."""

    items: list[tuple[str, Any]]


def _kind(value: Any) -> str:
    return "an object" if isinstance(value, _Pairs) else f"a {type(value).__name__}"


class _Twice:
    """Stands for an object that gives a key twice, and for everything that holds one."""

    def __repr__(self) -> str:
        return "an object with a key given twice"


def _plain(value: Any) -> Any:
    """Turn pairs into dicts, or all of it into `_Twice`."""
    if isinstance(value, _Pairs):
        found = {key: _plain(part) for key, part in value.items}
        return _Twice() if len(found) < len(value.items) or any(isinstance(part, _Twice) for part in found.values()) else found
    if isinstance(value, list):
        parts = [_plain(part) for part in cast(list[Any], value)]
        return next((part for part in parts if isinstance(part, _Twice)), parts)
    return value


def _read_json(file: Path) -> Any:
    """Read JSON: a list of plain values, or the pairs of an object whose values are plain."""
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8-sig"), object_pairs_hook=_Pairs)
        if isinstance(value, _Pairs):
            return _Pairs([(key, _plain(part)) for key, part in value.items])
        return [_plain(part) for part in cast(list[Any], value)] if isinstance(value, list) else value
    except OSError as error:
        raise PredictionError(f"{file}: cannot be read ({error.strerror})") from error
    except RecursionError as error:
        raise PredictionError(f"{file}: is nested too deeply to be read") from error
    except ValueError as error:
        raise PredictionError(f"{file}: is not JSON ({error}); was the file cut off?") from error


def _write(
    release: Release,
    submission: Submission,
    records: list[dict[str, Any]],
    folder: Path,
    out: Path,
    problems: list[Problem],
    detections: "_Detections | None",
    places: Sequence[int] = (),
) -> Conversion:
    """Check the records as the scorer would, write them in pixels, and gather what is wrong."""
    if out.suffix not in (".jsonl", ".parquet"):
        raise PredictionError(f"predictions {out}: are written as .jsonl or .parquet; end the name so")
    where = [f"answer {place}" for place in places] or [f"record {k}" for k in range(len(records))]
    checked = check_predictions(submission, zip(where, records, strict=True), release, folder)
    predictions = list(checked.records.values())
    write_predictions(out, submission._replace(space="pixel"), (_record_of(p) for p in predictions))
    listed = sorted([*problems, *checked.problems], key=lambda problem: int(problem.where.rsplit(" ", 1)[-1]))
    n_unparsed = sum(p.unparsed is not None for p in predictions)
    n_used, n_below = (len(predictions), 0) if detections is None else (detections.n_used, detections.n_below)
    return Conversion(len(predictions), n_unparsed, n_used, n_below, listed)


def _record_of(prediction: Prediction) -> dict[str, Any]:
    """Write a checked record as a line of a submission."""
    record: dict[str, Any] = {"query_id": prediction.query_id}
    if prediction.sentence:
        record["sentence"] = prediction.sentence
    if prediction.unparsed is not None:
        return {**record, "unparsed": prediction.unparsed}
    if prediction.masks is not None:
        record["masks"] = [mask.to_json() for mask in prediction.masks]
    if prediction.mask is not None:
        record["mask"] = prediction.mask.to_json()
    for key, boxes in (("boxes", prediction.boxes), ("obbs", prediction.obbs)):
        if boxes is not None:
            record[key] = boxes.tolist()
    return record


def _export_names(release: Release) -> tuple[dict[int, str], dict[int, str]]:
    """Return image id → scene id and category id → category, as the release's COCO file has them."""
    path = release.folder / EXPORT
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        scene_of = {row.path: row.scene_id for row in release.scene_by_id.values()}
        images = {row["id"]: scene_of[row["file_name"]] for row in content["images"]}
        return images, {row["id"]: row["name"] for row in content["categories"]}
    except OSError as error:
        raise ReleaseError(f"release {release.folder}: {EXPORT} cannot be read ({error.strerror}); it says what the ids mean") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"release {release.folder}: {EXPORT} is not the release's own ({error!r}); run trigpoint audit") from error


class _Detection(NamedTuple):
    """One result above the threshold, or one that cannot be read."""

    mask: dict[str, Any] | None
    box: list[float] | None
    fault: str | None


class _Detections:
    """The usable results by scene and category, and what is wrong with the others."""

    def __init__(
        self, release: Release, scenes: Mapping[int, str], categories: Mapping[int, str], threshold: float, has_masks: bool
    ) -> None:
        self.release, self.scenes, self.categories = release, scenes, categories
        self.threshold, self.has_masks = threshold, has_masks
        self.found: dict[tuple[str, str], list[_Detection]] = defaultdict(list)
        self.problems: list[Problem] = []
        self.n_used = self.n_below = 0

    def take(self, place: int, row: Any) -> None:
        """Read one result."""
        where = f"result {place}"
        if not isinstance(row, dict):
            self._tell("bad_record", where, f"is {shorten(row)}, expected an object with every key once")
            return
        entry = cast(dict[str, Any], row)
        scene_id, category = (self._name(entry, key, names, where) for key, names in self._ids())
        if scene_id is None or category is None:
            return
        key, score = (scene_id, category), flat_numbers([entry.get("score")])
        if score is None:
            self._fail(key, where, f"score is {shorten(entry.get('score'))}, expected a finite number")
        elif score[0] < self.threshold:
            self.n_below += 1
        else:
            try:
                mask, box = self._mask(entry, scene_id), _box(entry)
                if mask is None and box is None:
                    raise InputError("it has neither a segmentation nor a bbox")
                if mask is None and self.has_masks:
                    raise InputError("it has no segmentation, others do")
            except InputError as error:
                self._fail(key, where, str(error))
                return
            self.n_used += 1
            self.found[key].append(_Detection(mask, box, None))

    def _ids(self) -> Iterator[tuple[str, Mapping[int, str]]]:
        yield "image_id", self.scenes
        yield "category_id", self.categories

    def _name(self, entry: dict[str, Any], key: str, names: Mapping[int, str], where: str) -> str | None:
        value = entry.get(key)
        if type(value) is int and value in names:
            return names[value]
        self._tell(f"unknown_{key}", where, f"{key} {shorten(value)} is not in {EXPORT}, which has {len(names)}")
        return None

    def _mask(self, entry: dict[str, Any], scene_id: str) -> dict[str, Any] | None:
        given, size = entry.get("segmentation"), self.release.scene(scene_id).size
        if given is None:
            return None
        if isinstance(given, list):
            return rle_from_polygons(given, size, "segmentation").to_json()
        checked = check_rles([RleRequest("segmentation", given, size)])[0]
        if isinstance(checked, InputError):
            raise checked
        return checked.to_json()

    def _fail(self, key: tuple[str, str], where: str, detail: str) -> None:
        self.found[key].append(_Detection(None, None, f"{where}: {detail}"))
        self._tell("bad_record", where, f"{detail}; the queries for {key[1]!r} in {key[0]!r} are unparsed")

    def _tell(self, code: str, where: str, detail: str) -> None:
        self.problems.append(Problem(code, where, "", detail))


def _box(entry: dict[str, Any]) -> list[float] | None:
    """Turn a COCO box [x, y, width, height] into corners.

    Raises:
        InputError: it is no list of four finite numbers with an area.
    """
    given = entry.get("bbox")
    if given is None:
        return None
    numbers = flat_numbers(given)
    if numbers is None or len(numbers) != 4:
        raise InputError(f"bbox is {shorten(given)}, expected [x, y, width, height]")
    x, y, width, height = numbers.tolist()
    if width <= 0 or height <= 0:
        raise InputError(f"bbox is {shorten(given)}, expected a width and a height above 0")
    return [x, y, x + width, y + height]


def _queries_by_category(release: Release, categories: Sequence[str]) -> dict[tuple[str, str], list[Query]]:
    """Return (scene id, category) → the queries that a detection of that category answers."""
    taxonomy = release.taxonomy
    closed = frozenset(release.manifest.get("unknown_is_other", {}))
    found: dict[tuple[str, str], list[Query]] = {}
    for query in release.queries:
        for category in categories:
            if _answers(taxonomy, closed, category, query):
                found.setdefault((query.scene_id, category), []).append(query)
    return found


_SAYS_IT = ("same", "synonym", "broader")
"""What a phrase can be to a category so that a thing of the category is what the phrase asks for."""


def _answers(taxonomy: Taxonomy | None, closed: frozenset[str], category: str, query: Query) -> bool:
    if query.form == "vocabulary" and query.polarity == "negative":
        if taxonomy is None or category not in taxonomy.by_id:
            return key_of(query.sentences[0]) == key_of(category.replace("_", " "))
        return taxonomy.name_relation(query.sentences[0], category) in _SAYS_IT
    is_by_name = query.form == "vocabulary" or (query.form == "program" and query.level == 1)
    if not is_by_name or not query.category:
        return False
    if taxonomy is None:
        return query.category == (category,)
    try:
        return all(taxonomy.membership((category,), asked, closed) == TRUE for asked in query.category)
    except TaxonomyError:
        return query.category == (category,)
