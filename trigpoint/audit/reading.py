"""Reading the tables of a release into plain rows, without believing them.

A row that cannot be read is a finding and is left out; the rest goes on. Not here: rasters (each check opens its own) and any
opinion about values.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from trigpoint.audit.findings import Notebook

T = TypeVar("T")

compute: Any = pyarrow.compute
"""Its functions are made at import time: checkers cannot see them."""

MAX_PIXELS = 1 << 30
"""A scene or raster with more pixels than this is not opened: a release is not trusted to be small."""

HASH = re.compile(r"[0-9a-f]{16}")
SCENE_COLUMNS = (
    "scene_id", "path", "mask_path", "region_path", "crs", "transform", "width", "height", "gsd_m", "pixel_area_m2", "metric_crs",
    "scale_k", "convergence_deg", "image_up_deg", "north_up", "valid_share", "shorter_side_m", "source", "source_sha256", "window",
    "licence", "attribution", "acquired", "how", "poi_id", "series_id", "blank_share", "bright_share", "cloud_share", "phash",
    "grey_sd", "outside", "geometry",
)  # fmt: skip
INSTANCE_COLUMNS = (
    "instance_id", "scene_id", "label", "plane", "category", "countable", "boxable", "cut", "area_px", "area_m2", "perimeter_m",
    "length_m", "width_m", "orientation_deg", "elongation", "compactness", "centroid_x_m", "centroid_y_m", "point_x_px", "point_y_px",
    "hbb_px", "obb_px", "rle", "moved_px", "source_ids", "proposal", "review_state", "geometry",
)  # fmt: skip
RELATION_COLUMNS = ("scene_id", "subject_id", "anchor_id", "relation", "verdict", "value", "unit", "margin")
NUMBERS = frozenset((
    "width", "height", "gsd_m", "pixel_area_m2", "scale_k", "convergence_deg", "image_up_deg", "valid_share", "shorter_side_m", "grey_sd",
    "blank_share", "bright_share", "cloud_share", "label", "plane", "area_px", "area_m2",
    "perimeter_m", "length_m", "width_m", "orientation_deg", "elongation", "compactness",
    "centroid_x_m", "centroid_y_m", "point_x_px", "point_y_px", "moved_px", "value", "margin",
))  # fmt: skip
YES_OR_NO = frozenset(("north_up", "countable", "boxable", "cut"))
LISTS = frozenset(("transform", "window", "phash", "outside", "category", "hbb_px", "obb_px", "source_ids"))
QUERY_KEYS = (
    "query_id", "scene_id", "form", "level", "program", "canonical", "answer_ids", "answerable", "kind", "polarity", "sentences",
    "counterfactual_of", "difficulty", "annotation_id", "category",
)  # fmt: skip
LANGUAGE_FORMS = ("vocabulary", "referring", "reasoning")
NULL_IN_LANGUAGE = ("level", "program", "canonical", "counterfactual_of", "difficulty")
"""Keys of a query that a language query has not."""

ANNOTATIONS, ITEMS = "annotations.jsonl", "language.jsonl"
ANNOTATION_KEYS = ("annotation_id", "scene_id", "category", "name", "instance_ids", "boxable", "why_no_boxes")
ITEM_KEYS = (
    "item_id", "annotation_id", "scene_id", "form", "polarity", "text", "original", "provider", "stage2", "verdict", "claims", "state",
    "reason", "people", "query_id",
)  # fmt: skip
WORDS = ("synonyms", "broader", "narrower", "parts", "look_alikes", "vocabulary")
"""Lists of words of a category."""

CLAIM_KEYS = ("kind", "measured", "text", "verdict")


@dataclass(frozen=True)
class Scene:
    """One row of scenes.parquet; names and units as in docs/release-format.md."""

    scene_id: str
    path: str
    mask_path: str
    region_path: str | None
    crs: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int
    gsd_m: float
    pixel_area_m2: float
    metric_crs: str
    scale_k: float
    convergence_deg: float
    image_up_deg: float
    north_up: bool
    valid_share: float
    shorter_side_m: float
    source: str
    source_sha256: str
    window: tuple[int, int, int, int]
    licence: str
    attribution: str
    acquired: str | None
    how: str
    poi_id: str | None
    series_id: str | None
    blank_share: float | None
    bright_share: float | None
    cloud_share: float | None
    phash: tuple[int, ...]
    grey_sd: float
    outside: tuple[str, ...]
    geometry: bytes


@dataclass(frozen=True)
class Instance:
    """One row of instances.parquet; names and units as in docs/release-format.md."""

    instance_id: str
    scene_id: str
    label: int | None
    plane: int | None
    category: tuple[str, ...]
    countable: bool
    boxable: bool
    cut: bool
    area_px: int
    area_m2: float
    perimeter_m: float
    length_m: float
    width_m: float
    orientation_deg: float
    elongation: float
    compactness: float
    centroid_m: tuple[float, float]
    point_px: tuple[float, float]
    hbb_px: tuple[float, ...] | None
    obb_px: tuple[float, ...] | None
    rle: str
    moved_px: int
    source_ids: tuple[str, ...]
    proposal: str
    review_state: str
    geometry: bytes


@dataclass(frozen=True)
class Query:
    """One line of queries.jsonl."""

    query_id: str
    scene_id: str
    form: str
    level: int
    program: Any
    canonical: str
    answer_ids: tuple[str, ...]
    answerable: bool
    kind: str
    polarity: str
    sentences: tuple[str, ...]
    counterfactual_of: str | None
    difficulty: str
    category: tuple[str, ...]


@dataclass(frozen=True)
class LanguageQuery:
    """One line of queries.jsonl with a form of free language."""

    query_id: str
    scene_id: str
    form: str
    answer_ids: tuple[str, ...]
    answerable: bool
    kind: str
    polarity: str
    sentences: tuple[str, ...]
    annotation_id: str
    category: tuple[str, ...]


@dataclass(frozen=True)
class Annotation:
    """One line of annotations.jsonl."""

    annotation_id: str
    scene_id: str
    category: tuple[str, ...]
    name: str
    instance_ids: tuple[str, ...]
    boxable: bool
    why_no_boxes: str | None


@dataclass(frozen=True)
class Item:
    """One line of language.jsonl; of the claims their verdicts."""

    item_id: str
    annotation_id: str
    scene_id: str
    form: str
    polarity: str
    text: str
    original: str
    provider: str
    stage2: str | None
    verdict: str
    claims: tuple[str, ...]
    state: str
    reason: str
    people: int
    query_id: str | None


@dataclass(frozen=True)
class Category:
    """One category of the taxonomy: `of` is the category that its axis is limited to."""

    category_id: str
    axis: str
    parent: str | None
    countable: bool
    noun: str | None
    plural: str | None
    phrase: str | None
    instanceable: bool = True
    synonyms: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    look_alikes: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()


@dataclass
class Taxonomy:
    """The category trees of a release. `axes`: axis → the category its things must be under, or None."""

    axes: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    categories: dict[str, Category] = field(default_factory=dict[str, Category])

    def lineage(self, category_id: str) -> tuple[str, ...]:
        """Return the category and everything above it in its tree, nearest first."""
        chain: list[str] = []
        current: str | None = category_id
        while current is not None and current not in chain:
            chain.append(current)
            current = self.categories[current].parent
        return tuple(chain)


@dataclass(frozen=True)
class Edges:
    """The stored edges of one scene as columns; subjects and anchors are row numbers of that scene's instances.

    `code` is 1 for UNDECIDED and 2 for TRUE; `value` and `margin` are NaN where null.
    """

    subject: NDArray[np.int64]
    anchor: NDArray[np.int64]
    relation: NDArray[np.str_]
    code: NDArray[np.int8]
    value: NDArray[np.float64]
    unit: NDArray[np.str_]
    margin: NDArray[np.float64]


@dataclass
class Release:
    """What could be read of a release. `queries` holds those with a program, `language_queries` the others, `query_order` all of them."""

    folder: Path
    manifest: dict[str, Any]
    scenes: dict[str, Scene] = field(default_factory=dict[str, Scene])
    instances: dict[str, Instance] = field(default_factory=dict[str, Instance])
    queries: dict[str, Query] = field(default_factory=dict[str, Query])
    language_queries: dict[str, LanguageQuery] = field(default_factory=dict[str, LanguageQuery])
    query_order: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    annotations: dict[str, Annotation] = field(default_factory=dict[str, Annotation])
    items: dict[str, Item] = field(default_factory=dict[str, Item])
    relations: pa.Table | None = None
    taxonomy: Taxonomy = field(default_factory=Taxonomy)

    @property
    def n_relations(self) -> int:
        """Number of rows of relations.parquet."""
        return 0 if self.relations is None else int(self.relations.num_rows)

    def rule(self, name: str, default: float) -> float:
        """Return a numeric rule of the manifest; `default` (docs/release-format.md) where it is missing or no number."""
        rules = self.manifest.get("rules")
        value = cast("dict[str, Any]", rules).get(name) if isinstance(rules, dict) else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    @property
    def outline_tolerance_px(self) -> float:
        """`rules.outline.tolerance_px`, 1 pixel where it is missing or no number."""
        rules = self.manifest.get("rules")
        outline = cast("dict[str, Any]", rules).get("outline") if isinstance(rules, dict) else None
        value = cast("dict[str, Any]", outline).get("tolerance_px") if isinstance(outline, dict) else None
        return float(value) if isinstance(value, int | float) else 1.0

    def any_query(self, query_id: str) -> "Query | LanguageQuery | None":
        """Return a query of any form."""
        return self.queries.get(query_id) or self.language_queries.get(query_id)

    @property
    def all_queries(self) -> "list[Query | LanguageQuery]":
        """The queries of all forms."""
        return [*self.queries.values(), *self.language_queries.values()]

    def instances_of(self, scene_id: str) -> list[Instance]:
        """Return the instances of one scene in table order."""
        return [instance for instance in self.instances.values() if instance.scene_id == scene_id]


def find_file(folder: Path, path: str) -> Path:
    """Return a regular file of the release: nothing outside it, no link, no pipe is ever opened.

    Raises:
        ValueError: it is none.
    """
    target = folder / path
    if not target.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path!r} leaves the release folder")
    if target.is_symlink() or not target.is_file():
        raise ValueError(f"{path!r} is no regular file of the release")
    return target


def read_json(folder: Path, path: str) -> Any:
    """Read a JSON file of the release."""
    return json.loads(find_file(folder, path).read_bytes())


def read_lines(folder: Path, path: str) -> list[str]:
    """Read the lines of a UTF-8 file of the release; only a line feed ends a line."""
    lines = find_file(folder, path).read_bytes().decode("utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_release(folder: Path, manifest: dict[str, Any], notes: Notebook) -> Release:
    """Read all tables; whatever cannot be read is noted and left out."""
    release = Release(folder, manifest)
    for row in _rows(folder, "scenes.parquet", SCENE_COLUMNS, notes):
        with notes.guard("row_unreadable", "scenes.parquet", row.get("scene_id")):
            scene = _scene(row)
            if scene.scene_id in release.scenes:
                notes.add("id_twice", "scenes.parquet", scene.scene_id, "one row", "several")
            release.scenes[scene.scene_id] = scene
    for row in _rows(folder, "instances.parquet", INSTANCE_COLUMNS, notes):
        with notes.guard("row_unreadable", "instances.parquet", row.get("instance_id")):
            instance = _instance(row)
            if instance.instance_id in release.instances:
                notes.add("id_twice", "instances.parquet", instance.instance_id, "one row", "several")
            if instance.scene_id not in release.scenes:
                notes.add("scene_unknown", "instances.parquet", instance.instance_id, "a scene of scenes.parquet", instance.scene_id)
            release.instances[instance.instance_id] = instance
    with notes.guard("table_unreadable", "relations.parquet"):
        table = pq.read_table(find_file(folder, "relations.parquet"))
        missing = [name for name in RELATION_COLUMNS if name not in table.column_names]
        for name in missing:
            notes.add("column_missing", "relations.parquet", name, "present", "missing")
        _check_types(table, "relations.parquet", notes)
        release.relations = None if missing else table
    with notes.guard("table_unreadable", "queries.jsonl"):
        for number, line in enumerate(read_lines(folder, "queries.jsonl"), start=1):
            with notes.guard("row_unreadable", "queries.jsonl", f"line {number}"):
                query = _query(json.loads(line), notes)
                if release.any_query(query.query_id) is not None:
                    notes.add("id_twice", "queries.jsonl", query.query_id, "one line", "several")
                if isinstance(query, Query):
                    release.queries[query.query_id] = query
                else:
                    release.language_queries[query.query_id] = query
                release.query_order.append((query.scene_id, query.query_id))
    for annotation in _lines(folder, ANNOTATIONS, ANNOTATION_KEYS, _annotation, "annotation_unreadable", notes):
        if annotation.annotation_id in release.annotations:
            notes.add("id_twice", ANNOTATIONS, annotation.annotation_id, "one line", "several")
        release.annotations[annotation.annotation_id] = annotation
    for item in _lines(folder, ITEMS, ITEM_KEYS, _item, "item_unreadable", notes):
        if item.item_id in release.items:
            notes.add("id_twice", ITEMS, item.item_id, "one line", "several")
        release.items[item.item_id] = item
    with notes.guard("taxonomy_unreadable", "taxonomy"):
        release.taxonomy = read_taxonomy(folder, notes)
    _check_order(release, notes)
    return release


def _rows(folder: Path, name: str, columns: tuple[str, ...], notes: Notebook) -> list[dict[str, Any]]:
    with notes.guard("table_unreadable", name):
        table = pq.read_table(find_file(folder, name))
        missing = [column for column in columns if column not in table.column_names]
        for column in missing:
            notes.add("column_missing", name, column, "present", "missing")
        _check_types(table, name, notes)
        if not missing:
            return table.select(list(columns)).to_pylist()
    return []


def _check_types(table: pa.Table, name: str, notes: Notebook) -> None:
    """Columns hold numbers, yes or no, lists, bytes or text, as the format says; a column of nulls may be of any type."""
    for column in table.schema:
        kind = column.type
        if column.name in NUMBERS:
            expected, fits = "numbers", pa.types.is_integer(kind) or pa.types.is_floating(kind)
        elif column.name in YES_OR_NO:
            expected, fits = "booleans", pa.types.is_boolean(kind)
        elif column.name in LISTS:
            expected, fits = "lists", pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_struct(kind)
        elif column.name == "geometry":
            expected, fits = "WKB", pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        elif column.name in (*SCENE_COLUMNS, *INSTANCE_COLUMNS, *RELATION_COLUMNS):
            values = kind.value_type if pa.types.is_dictionary(kind) else kind
            expected, fits = "text", pa.types.is_string(values) or pa.types.is_large_string(values)
        else:
            expected, fits = "no such column", False
        if not fits and not (pa.types.is_null(kind) and expected != "no such column"):
            notes.add("column_type", name, column.name, expected, str(kind))


def _scene(row: dict[str, Any]) -> Scene:
    a, b, c, d, e, f = (float(v) for v in row["transform"])
    raw: Any = row["window"]
    names = ("col_off", "row_off", "width", "height")
    col, line, width, height = (int(raw[n]) for n in names) if isinstance(raw, dict) else (int(v) for v in raw)
    if row["width"] < 1 or row["height"] < 1 or row["width"] * row["height"] > MAX_PIXELS:
        raise ValueError(f"size {row['width']} x {row['height']} px")
    values: dict[str, Any] = {n: row[n] for n in Scene.__dataclass_fields__}
    numbers = ("gsd_m", "pixel_area_m2", "scale_k", "convergence_deg", "image_up_deg", "valid_share", "shorter_side_m", "grey_sd")
    values.update({n: float(row[n]) for n in numbers})
    for text in ("scene_id", "path", "mask_path", "crs", "metric_crs", "source", "source_sha256", "licence", "attribution", "how"):
        _must_be(str, text, row[text])
    for text in ("acquired", "poi_id", "series_id"):
        if row[text] is not None:
            _must_be(str, text, row[text])
    _must_be(bool, "north_up", row["north_up"])
    values.update(transform=(a, b, c, d, e, f), window=(col, line, width, height), outside=tuple(str(v) for v in row["outside"] or ()))
    values["phash"] = tuple(_hash(text) for text in row["phash"])
    if len(values["phash"]) != 8:
        raise ValueError(f"{len(values['phash'])} hashes, expected 8")
    return Scene(**values)


def _hash(text: str) -> int:
    if not HASH.fullmatch(text):
        raise ValueError(f"hash {text!r} is not 16 lower-case hex digits")
    return int(text, 16)


def _instance(row: dict[str, Any]) -> Instance:
    values: dict[str, Any] = {n: row[n] for n in Instance.__dataclass_fields__ if n in row}
    numbers = ("area_m2", "perimeter_m", "length_m", "width_m", "orientation_deg", "elongation", "compactness")
    values.update({n: float(row[n]) for n in numbers})
    for name in ("hbb_px", "obb_px"):
        values[name] = None if row[name] is None else tuple(float(v) for v in row[name])
    if isinstance(row["rle"], bytes):
        values["rle"] = row["rle"].decode()
    for name in ("instance_id", "scene_id", "proposal", "review_state"):
        _must_be(str, name, row[name])
    _must_be(str, "rle", values["rle"])
    for name in ("countable", "boxable", "cut"):
        _must_be(bool, name, row[name])
    values.update(
        category=tuple(row["category"]),
        source_ids=tuple(row["source_ids"] or ()),
        area_px=int(row["area_px"]),
        centroid_m=(float(row["centroid_x_m"]), float(row["centroid_y_m"])),
        point_px=(float(row["point_x_px"]), float(row["point_y_px"])),
    )
    return Instance(**values)


def _query(row: dict[str, Any], notes: Notebook) -> Query | LanguageQuery:
    """Make a query of a line; raises when a value has another type than the format says."""
    for key in QUERY_KEYS:
        if key not in row:
            notes.add("query_key", "queries.jsonl", row.get("query_id"), f"key {key}", "missing")
    for key in sorted(set(row) - set(QUERY_KEYS)):
        notes.add("query_key", "queries.jsonl", row.get("query_id"), f"no key {key}", row[key])
    is_language = row.get("form") in LANGUAGE_FORMS
    if is_language:
        for key in NULL_IN_LANGUAGE:
            if row.get(key) is not None:
                notes.add("query_key", "queries.jsonl", row.get("query_id"), f"{key} null", row[key])
    elif row.get("annotation_id") is not None:
        notes.add("query_key", "queries.jsonl", row.get("query_id"), "annotation_id null", row["annotation_id"])
    values = {n: row.get(n) for n in (LanguageQuery if is_language else Query).__dataclass_fields__}
    for name in ("query_id", "scene_id", "form", "kind", "polarity", *(("annotation_id",) if is_language else ("canonical", "difficulty"))):
        _must_be(str, name, values[name])
    _must_be(bool, "answerable", values["answerable"])
    for name in ("answer_ids", "sentences", "category"):
        values[name] = _texts(name, values[name])
    if is_language:
        return LanguageQuery(**cast("dict[str, Any]", values))
    _must_be(int, "level", values["level"])
    if values["counterfactual_of"] is not None:
        _must_be(str, "counterfactual_of", values["counterfactual_of"])
    return Query(**cast("dict[str, Any]", values))


def _lines(folder: Path, file: str, keys: tuple[str, ...], make: Callable[[dict[str, Any]], T], code: str, notes: Notebook) -> list[T]:
    """Read the lines of a file that only releases with language have; what cannot be read is noted under `code` and left out."""
    if not (folder / file).exists():
        return []
    lines: list[str] = []
    with notes.guard("table_unreadable", file):
        lines = read_lines(folder, file)
    found: list[T] = []
    for number, line in enumerate(lines, start=1):
        with notes.guard(code, file, f"line {number}"):
            row = cast("dict[str, Any]", json.loads(line))
            if sorted(row) != sorted(keys):
                notes.add(code, file, f"line {number}", sorted(keys), sorted(row))
            found.append(make(row))
    return found


def _annotation(row: dict[str, Any]) -> Annotation:
    for name in ("annotation_id", "scene_id", "name"):
        _must_be(str, name, row[name])
    _must_be(bool, "boxable", row["boxable"])
    if row["why_no_boxes"] is not None:
        _must_be(str, "why_no_boxes", row["why_no_boxes"])
    values: dict[str, Any] = {name: row[name] for name in ANNOTATION_KEYS}
    for name in ("category", "instance_ids"):
        values[name] = _texts(name, row[name])
    return Annotation(**values)


def _item(row: dict[str, Any]) -> Item:
    for name in ("item_id", "annotation_id", "scene_id", "form", "polarity", "text", "original", "provider", "verdict", "state", "reason"):
        _must_be(str, name, row[name])
    for name in ("stage2", "query_id"):
        if row[name] is not None:
            _must_be(str, name, row[name])
    _must_be(int, "people", row["people"])
    _must_be(list, "claims", row["claims"])
    for claim in row["claims"]:
        if sorted(claim) != list(CLAIM_KEYS):
            raise ValueError(f"a claim has the keys {list(CLAIM_KEYS)}, found {sorted(claim)}")
        for name in CLAIM_KEYS:
            _must_be(str, name, claim[name])
    values: dict[str, Any] = {name: row[name] for name in ITEM_KEYS}
    values["claims"] = tuple(claim["verdict"] for claim in row["claims"])
    return Item(**values)


def _texts(name: str, value: object) -> tuple[str, ...]:
    _must_be(list, name, value)
    for entry in cast("list[Any]", value):
        _must_be(str, name, entry)
    return tuple(cast("list[str]", value))


def _must_be(kind: type, name: str, value: object) -> None:
    if type(value) is not kind:
        raise TypeError(f"{name} is {value!r}, expected {kind.__name__}")


def read_taxonomy(folder: Path, notes: Notebook) -> Taxonomy:
    """Join the category trees of all `taxonomy/*.yaml|yml|json` files that have axes and categories."""
    taxonomy = Taxonomy()
    for path in sorted((folder / "taxonomy").glob("*")):
        name = f"taxonomy/{path.name}"
        if path.suffix not in (".yaml", ".yml", ".json"):
            continue
        with notes.guard("taxonomy_unreadable", name):
            content: Any = yaml.safe_load(find_file(folder, name).read_bytes())
            if not isinstance(content, dict) or "axes" not in content or "categories" not in content:
                continue
            trees = cast("dict[str, Any]", content)
            for axis in trees["axes"]:
                taxonomy.axes[str(axis["id"])] = axis.get("of")
            for entry in trees["categories"]:
                known = Category(
                    category_id=str(entry["id"]),
                    axis=str(entry["axis"]),
                    parent=entry.get("parent"),
                    countable=bool(entry.get("countable", True)),
                    noun=entry.get("noun"),
                    plural=entry.get("plural"),
                    phrase=entry.get("phrase"),
                    instanceable=bool(entry.get("instanceable", entry.get("countable", True))),
                    **{name: tuple(str(word) for word in entry.get(name) or ()) for name in WORDS},
                )
                taxonomy.categories[known.category_id] = known
                notes.count("taxonomy")
    for category in taxonomy.categories.values():
        if category.parent is not None and category.parent not in taxonomy.categories:
            notes.add("taxonomy_unreadable", "taxonomy", category.category_id, "a parent that exists", category.parent)
            taxonomy.categories[category.category_id] = replace(category, parent=None)
    if not taxonomy.categories:
        notes.add("taxonomy_unreadable", "taxonomy", "", "a taxonomy with axes and categories", "none")
    return taxonomy


def scene_edges(release: Release, scene_id: str, ids: list[str], notes: Notebook) -> Edges:
    """Return the stored edges of one scene; edges that name no instance of it, or an unknown verdict, are findings and left out."""
    empty = np.empty(0)
    if release.relations is None:
        none = np.empty(0, dtype=np.int64)
        return Edges(none, none, np.empty(0, dtype=np.str_), np.empty(0, dtype=np.int8), empty, np.empty(0, dtype=np.str_), empty)
    table = release.relations.filter(compute.equal(release.relations["scene_id"], scene_id))
    known = pa.array(ids, type=pa.string())
    column: dict[str, NDArray[Any]] = {}
    for name in ("subject_id", "anchor_id"):
        index = compute.index_in(table[name].cast(pa.string()), value_set=known)
        column[name] = compute.fill_null(index, -1).to_numpy().astype(np.int64)
    for name in ("relation", "unit", "verdict"):
        column[name] = compute.fill_null(table[name].cast(pa.string()), "").to_numpy(zero_copy_only=False).astype(np.str_)
    for name in ("value", "margin"):
        column[name] = table[name].cast(pa.float64()).to_numpy().astype(np.float64)
    code = np.select([column["verdict"] == "UNDECIDED", column["verdict"] == "TRUE"], [1, 2], 0).astype(np.int8)
    good = (column["subject_id"] >= 0) & (column["anchor_id"] >= 0) & (code > 0)
    for row in np.flatnonzero(~good):
        entry = table.slice(int(row), 1).to_pylist()[0]
        item = f"{entry['subject_id']} {entry['relation']} {entry['anchor_id']}"
        notes.add("edge_unreadable", "relations.parquet", item, f"two instances of {scene_id}, TRUE or UNDECIDED", entry["verdict"])
    return Edges(
        column["subject_id"][good], column["anchor_id"][good], column["relation"][good], code[good], column["value"][good],
        column["unit"][good], column["margin"][good],
    )  # fmt: skip


def _check_order(release: Release, notes: Notebook) -> None:
    """Rows come in the order that the format fixes, so that equal releases have equal bytes."""
    instances = [(i.scene_id, not i.countable, i.label if i.countable else i.plane) for i in release.instances.values()]
    tables = (
        ("scenes.parquet", list(release.scenes)), ("instances.parquet", instances), ("queries.jsonl", release.query_order),
        (ANNOTATIONS, list(release.annotations)), (ITEMS, list(release.items)),
    )  # fmt: skip
    with notes.guard("order_wrong", "instances.parquet"):
        for file, keys in tables:
            notes.count("orders")
            if keys != sorted(cast("list[Any]", keys)):
                notes.add("order_wrong", file, "", "sorted as docs/release-format.md says", "another order")
