"""Read and write submissions: JSON Lines, or the same records as Parquet.

First line `{"submission": {"name", "modalities", "space"}}`, then one record per query and sentence:
`{"query_id", "sentence": 0, "masks" | "polygons" | "label_map" | "mask" | "mask_file" | "boxes" | "obbs" | "unparsed"}`. In Parquet
the keys are columns and the submission is JSON under the schema metadata key `submission`. docs/scores.md explains every key.

A record that breaks its contract is never dropped and never read as "nothing found": it becomes unparsed, which fails its query,
and its reason is listed. A missing record, and one without a prediction, is an empty prediction. Not here: scoring.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from trigpoint.errors import InputError, PredictionError
from trigpoint.identity import canonical_json
from trigpoint.masks.rle import Rle, RleRequest, check_rles, encode_labels, encode_mask, flat_numbers, rle_from_polygons
from trigpoint.release.reader import Release
from trigpoint.scoring.label_maps import read_label_map

FloatArray = NDArray[np.float64]

SPACES: Mapping[str, float | None] = {"pixel": None, "normalised": 1.0, "per_mille": 1000.0}
"""Coordinate spaces of polygons and boxes, and what the image's width and height are in them; x right, y down, from the top left corner
of the image. `pixel` = native pixels of the released image, pixel edges. Masks and label maps are always native pixels."""

_FARTHEST = 1.0
"""Numbers of a space that is not `pixel` may lie this many image sides outside the image; farther is another space."""

MODALITIES = ("masks", "mask", "boxes", "obbs")
"""What a submission may declare: instance masks (RLE, polygons or a label map), one mask without instances, HBBs, OBBs."""

MODALITY_OF_KEY = {
    "masks": "masks", "polygons": "masks", "label_map": "masks", "mask": "mask", "mask_file": "mask", "boxes": "boxes", "obbs": "obbs"
}  # fmt: skip
"""Key of a record → the modality that it gives."""
_MASK_KEYS = tuple(key for key, modality in MODALITY_OF_KEY.items() if modality in ("masks", "mask"))
_KEYS = (*MODALITY_OF_KEY, "query_id", "sentence", "unparsed")


class Submission(NamedTuple):
    """What a submission says of itself.

    Attributes:
        name: For people. modalities: Some of `MODALITIES`. space: One of `SPACES`.
    """

    name: str
    modalities: tuple[str, ...]
    space: str

    def to_json(self) -> dict[str, Any]:
        """Return the first line's object."""
        return {"submission": {"name": self.name, "modalities": list(self.modalities), "space": self.space}}


class Prediction(NamedTuple):
    """One checked record. Empty masks are taken out; None where a modality was not given.

    Attributes:
        masks: Instance masks. mask: The one mask of a mask-only system.
        boxes: (n, 4) x_min, y_min, x_max, y_max. obbs: (n, 8) corners; native pixels, whatever the submission's space.
        unparsed: Why nothing in this record counts, or None.
    """

    query_id: str
    sentence: int
    masks: tuple[Rle, ...] | None = None
    mask: Rle | None = None
    boxes: FloatArray | None = None
    obbs: FloatArray | None = None
    unparsed: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is predicted in any modality."""
        return not (self.masks or self.mask or (self.boxes is not None and len(self.boxes)) or (self.obbs is not None and len(self.obbs)))


class Problem(NamedTuple):
    """Something wrong in a submission.

    Attributes:
        code: `unknown_query`, `unknown_sentence`, `duplicate`, `bad_mask`, `bad_box`, `bad_record`, `undeclared_modality`, `unknown_key`.
        where: Line or row. detail: What was expected and found.
    """

    code: str
    where: str
    query_id: str
    detail: str


class Predictions(NamedTuple):
    """A submission that has been read and checked against a release.

    Attributes:
        records: (query id, sentence) → record.
        problems: In file order.
    """

    submission: Submission
    records: dict[tuple[str, int], Prediction]
    problems: list[Problem]


def read_predictions(path: Path | str, release: Release) -> Predictions:
    """Read a submission (`.parquet`, else JSON Lines) and check every record against the release.

    Raises:
        PredictionError: the file cannot be read, has no submission line, declares an unknown modality or space, or has a line
            that names no query (it could not be charged to any).
    """
    file = Path(path)
    header, rows = _read_parquet(file) if file.suffix == ".parquet" else _read_lines(file)
    return check_predictions(_submission(file, header), rows, release, file.parent)


def check_predictions(
    submission: Submission, rows: Iterable[tuple[str, dict[str, Any]]], release: Release, folder: Path | None = None
) -> Predictions:
    """Check records, each with its place in the file, against a release; see `read_predictions`.

    Args:
        submission: What they say of themselves.
        rows: (place, record).
        release: The release.
        folder: Where `label_map` and `mask_file` lie; None when there is no such place.

    Raises:
        PredictionError: a record has no query_id.
    """
    drafts: list[_Draft] = []
    problems: list[Problem] = []
    seen: dict[tuple[str, int], _Draft] = {}
    for where, row in rows:
        query_id, sentence = row.get("query_id"), row.get("sentence", 0)
        if not isinstance(query_id, str):
            raise PredictionError(
                f"predictions {where}: query_id is {query_id!r}, expected a query id as text; the record belongs to no query"
            )
        query = release.query_by_id.get(query_id)
        if query is None:
            problems.append(Problem("unknown_query", where, query_id, f"release {release.name} has no such query"))
            continue
        if isinstance(sentence, bool) or not isinstance(sentence, int) or not 0 <= sentence < max(1, len(query.sentences)):
            detail = f"sentence is {sentence!r}, expected 0 to {len(query.sentences) - 1}; its place in the query's sentences"
            problems.append(Problem("unknown_sentence", where, query_id, detail))
            continue
        key = (query_id, sentence)
        if key in seen:
            detail = f"query {query_id!r} sentence {sentence} was given before, in {seen[key].where}; neither counts"
            seen[key].fail("duplicate", detail)
            problems.append(Problem("duplicate", where, query_id, detail))
            continue
        draft = _Draft(where, query_id, sentence, release.scene(query.scene_id).size, submission.space, folder)
        draft.read(row, submission, problems)
        seen[key] = draft
        drafts.append(draft)
    _check_masks(drafts)
    for draft in drafts:
        if draft.problem is not None and draft.problem.code not in ("duplicate", "unparsed"):
            problems.append(draft.problem)
    problems.sort(key=lambda problem: _number(problem.where))
    return Predictions(submission, {key: draft.finish() for key, draft in seen.items()}, problems)


def _number(where: str) -> int:
    return int(where.rsplit(" ", 1)[-1])


class _Draft:
    """A record on its way: everything but its RLEs is checked at once, these in one pass over the file."""

    def __init__(self, where: str, query_id: str, sentence: int, size: tuple[int, int], space: str, folder: Path | None) -> None:
        self.where = where
        self.query_id = query_id
        self.sentence = sentence
        self.size = size
        self.space = space
        self.folder = folder
        self.problem: Problem | None = None
        self.requests: list[RleRequest] = []
        self.masks: list[Rle] | None = None
        self.mask: Rle | None = None
        self.is_one_mask = False
        self.boxes: FloatArray | None = None
        self.obbs: FloatArray | None = None

    def fail(self, code: str, detail: str) -> None:
        """Make the record unparsed; the first reason stands."""
        if self.problem is None:
            self.problem = Problem(code, self.where, self.query_id, detail)

    def read(self, row: dict[str, Any], submission: Submission, problems: list[Problem]) -> None:
        given = {key: value for key, value in row.items() if value is not None}
        if "unparsed" in given:
            self.fail("unparsed", "the system could not read its own reply")
            return
        usable = [key for key in given if key in MODALITY_OF_KEY and MODALITY_OF_KEY[key] in submission.modalities]
        for key in given:
            if key in MODALITY_OF_KEY and key not in usable:
                detail = f"{key} is not among the declared modalities {list(submission.modalities)}"
                self._refuse("undeclared_modality", detail, bool(usable), problems)
            elif key not in _KEYS:
                near = difflib.get_close_matches(key, _KEYS, n=1)
                detail = f"key {key!r} is not known{f', nearest is {near[0]!r}' if near else ''}"
                self._refuse("unknown_key", detail, bool(usable), problems)
        several = [key for key in _MASK_KEYS if key in usable]
        if len(several) > 1:
            self.fail("bad_record", f"more than one of {list(_MASK_KEYS)}: {several}; give one")
        for key in usable:
            if self.problem is None:
                getattr(self, f"_read_{key}")(given[key])

    def _refuse(self, code: str, detail: str, has_more: bool, problems: list[Problem]) -> None:
        """A key that cannot be used fails the record, unless another key says what is predicted."""
        if has_more:
            problems.append(Problem(code, self.where, self.query_id, f"{detail}; ignored"))
        else:
            self.fail(code, detail)

    def _list(self, key: str, value: Any) -> list[Any]:
        if isinstance(value, list):
            return cast(list[Any], value)
        self.fail("bad_record", f"{key} is a {type(value).__name__}, expected a list")
        return []

    def _read_masks(self, value: Any) -> None:
        masks = self._list("masks", value)
        self.masks = []
        self.requests = [RleRequest(f"masks[{k}]", mask, self.size) for k, mask in enumerate(masks)]

    def _read_mask(self, value: Any) -> None:
        self.is_one_mask = True
        self.requests = [RleRequest("mask", value, self.size)]

    def _read_label_map(self, value: Any) -> None:
        self.masks = []
        labels = self._raster("label_map", value)
        found = {} if labels is None else encode_labels(labels)
        self.requests = [RleRequest(f"label_map value {label}", counts, self.size) for label, counts in found.items()]

    def _read_mask_file(self, value: Any) -> None:
        self.is_one_mask = True
        labels = self._raster("mask_file", value)
        self.requests = [] if labels is None else [RleRequest("mask_file", encode_mask(labels != 0), self.size)]

    def _raster(self, key: str, value: Any) -> NDArray[Any] | None:
        try:
            return read_label_map(self.folder, value, self.size, key)
        except InputError as error:
            self.fail("bad_mask", str(error))
            return None

    def _read_polygons(self, value: Any) -> None:
        self.masks = []
        for k, instance in enumerate(self._list("polygons", value)):
            item = f"polygons[{k}]"
            rings: Any = [instance] if flat_numbers(instance) is not None and instance else instance
            try:
                if self.space != "pixel" and isinstance(rings, list):
                    rings = [self._pixels(item, ring) for ring in cast(list[Any], rings)]
                self.masks.append(rle_from_polygons(rings, self.size, item))
            except InputError as error:
                self.fail("bad_mask", str(error))

    def _pixels(self, item: str, value: Any) -> Any:
        """Turn x, y, x, y, … of the declared space into pixels; what is no such list is left as it is, for its own check.

        Raises:
            InputError: a number lies so far outside the image that it must be of another space.
        """
        side, numbers = SPACES[self.space], flat_numbers(value)
        if side is None or numbers is None:
            return value
        if numbers.size and (numbers.min() < -_FARTHEST * side or numbers.max() > (1 + _FARTHEST) * side):
            raise InputError(
                f"{item} is {shorten(value)}, far outside the image, which is 0 to {side:g} in the declared space {self.space!r}"
            )
        height, width = self.size
        return (numbers / side * np.where(np.arange(len(numbers)) % 2 == 0, width, height)).tolist()

    def _read_boxes(self, value: Any) -> None:
        self.boxes = self._numbers("boxes", value, 4)
        for k, (x0, y0, x1, y1) in enumerate(self.boxes.tolist()):
            if not (x0 < x1 and y0 < y1):
                self.fail("bad_box", f"boxes[{k}] is {[x0, y0, x1, y1]}, expected x_min < x_max and y_min < y_max (corners, not a width)")

    def _read_obbs(self, value: Any) -> None:
        self.obbs = self._numbers("obbs", value, 8)
        for k, corners in enumerate(self.obbs):
            shape = shapely.Polygon(corners.reshape(4, 2))
            if not shape.is_valid or shape.area <= 0:
                self.fail("bad_box", f"obbs[{k}] is {corners.tolist()}, expected four corners in ring order around an area")

    def _numbers(self, key: str, value: Any, n: int) -> FloatArray:
        rows: list[FloatArray] = []
        for k, item in enumerate(self._list(key, value)):
            try:
                numbers = flat_numbers(self._pixels(f"{key}[{k}]", item))
            except InputError as error:
                self.fail("bad_box", str(error))
                continue
            if numbers is None or len(numbers) != n:
                self.fail("bad_box", f"{key}[{k}] is {shorten(item)}, expected {n} finite numbers")
            else:
                rows.append(numbers)
        return np.array(rows, dtype=np.float64).reshape(-1, n)

    def finish(self) -> Prediction:
        if self.problem is not None:
            return Prediction(self.query_id, self.sentence, unparsed=f"{self.problem.code}: {self.problem.detail}")
        masks = None if self.masks is None else tuple(rle for rle in self.masks if rle.area_px)
        mask = self.mask if self.mask is not None and self.mask.area_px else None
        return Prediction(self.query_id, self.sentence, masks, mask, self.boxes, self.obbs)


def _check_masks(drafts: list[_Draft]) -> None:
    waiting = [draft for draft in drafts if draft.requests and draft.problem is None]
    checked = iter(check_rles([request for draft in waiting for request in draft.requests]))
    for draft in waiting:
        for _ in draft.requests:
            found = next(checked)
            if isinstance(found, InputError):
                draft.fail("bad_mask", str(found))
            elif draft.is_one_mask:
                draft.mask = found
            else:
                assert draft.masks is not None  # set together with the requests
                draft.masks.append(found)


def shorten(value: Any, most: int = 80) -> str:
    """Return a value as Python writes it, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _submission(file: Path, header: Any) -> Submission:
    said = cast(dict[str, Any], header).get("submission") if isinstance(header, dict) else None
    if not isinstance(said, dict):
        raise PredictionError(
            f'predictions {file}: the first line is {shorten(header)}, expected {{"submission": {{"name", "modalities", "space"}}}}'
        )
    fields = cast(dict[str, Any], said)
    name, modalities, space = fields.get("name"), fields.get("modalities"), fields.get("space")
    if not isinstance(name, str) or not name:
        raise PredictionError(f"predictions {file}: submission name is {name!r}, expected text")
    if not isinstance(space, str) or space not in SPACES:
        raise PredictionError(
            f"predictions {file}: submission space is {space!r}, expected one of {list(SPACES)} (pixel: native pixels of the image);"
            " convert and declare it"
        )
    if not isinstance(modalities, list) or not modalities or not all(m in MODALITIES for m in cast(list[Any], modalities)):
        raise PredictionError(f"predictions {file}: submission modalities are {modalities!r}, expected some of {list(MODALITIES)}")
    return Submission(name, tuple(cast(list[str], modalities)), space)


def _read_lines(file: Path) -> tuple[Any, Iterator[tuple[str, dict[str, Any]]]]:
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise PredictionError(f"predictions {file}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise PredictionError(f"predictions {file}: the file is empty, expected a submission line")
    return _parse_line(file, *first), ((f"line {number}", _parse_line(file, number, line)) for number, line in numbered)


def _parse_line(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise PredictionError(f"predictions {file}: line {number} is not JSON ({error}); was the file cut off?") from error
    if not isinstance(value, dict):
        raise PredictionError(f"predictions {file}: line {number} is a {type(value).__name__}, expected an object")
    return cast(dict[str, Any], value)


def _read_parquet(file: Path) -> tuple[Any, Iterator[tuple[str, dict[str, Any]]]]:
    try:
        table = pq.read_table(file)
        metadata: dict[bytes, bytes] = table.schema.metadata or {}
        header: Any = {"submission": json.loads(metadata[b"submission"])} if b"submission" in metadata else None
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PredictionError(f"predictions {file}: cannot be read as Parquet ({error})") from error
    if header is None:
        raise PredictionError(f"predictions {file}: the schema metadata has no key 'submission', expected JSON of name, modalities, space")
    rows = ((f"row {k}", {key: value for key, value in row.items() if value is not None}) for k, row in enumerate(table.to_pylist()))
    return header, rows


def write_predictions(path: Path | str, submission: Submission, records: Iterable[dict[str, Any]]) -> None:
    """Write a submission: JSON Lines, or Parquet when the name ends so. The same records give the same bytes."""
    file = Path(path)
    if file.suffix == ".parquet":
        said = canonical_json(submission.to_json()["submission"])
        table = pa.Table.from_pylist(list(records), schema=PARQUET_SCHEMA.with_metadata({"submission": said}))
        pq.write_table(table, file, compression="zstd")
        return
    with file.open("w", encoding="utf-8", newline="\n") as out:
        for row in (submission.to_json(), *records):
            out.write(f"{canonical_json(row)}\n")


_RLE = pa.struct([("size", pa.list_(pa.int64())), ("counts", pa.string())])

PARQUET_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("sentence", pa.int64()),
        ("masks", pa.list_(_RLE)),
        ("label_map", pa.string()),
        ("mask", _RLE),
        ("mask_file", pa.string()),
        ("boxes", pa.list_(pa.list_(pa.float64()))),
        ("obbs", pa.list_(pa.list_(pa.float64()))),
        ("unparsed", pa.string()),
    ]
)
"""Columns that `write_predictions` writes; a reader takes any of them, and `polygons`."""
