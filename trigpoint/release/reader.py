"""Read a release folder, file by file, when asked. Format: docs/release-format.md.

The reader believes what it reads once it has the right shape; whether it is true is the auditor's business (`trigpoint.audit`).
Not here: writing (`trigpoint.release.writer`), drawing (`trigpoint.release.show`), scoring (`trigpoint.scoring`).
"""

import json
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rasterio
from numpy.typing import NDArray
from pydantic import ValidationError
from rasterio.errors import RasterioIOError

from trigpoint.categories import Taxonomy, load_taxonomy
from trigpoint.errors import InputError, ReleaseError, TaxonomyError
from trigpoint.imagery.patch import Colours
from trigpoint.imagery.view import rgb_view
from trigpoint.masks.rle import MaskRuns, Rle, RleRequest, check_rles, true_runs, union
from trigpoint.records.query import Query
from trigpoint.rules import Rules
from trigpoint.splits.membership import query_ids_of

SUPPORTED_VERSIONS = (1,)
"""Format versions that this reader knows."""


class SceneRow(NamedTuple):
    """What scoring and drawing need of a scene.

    Attributes:
        height, width: Pixels. gsd_m: True ground metres per pixel. image_up_deg: True azimuth of the image's up.
        path, mask_path: Files, relative to the release folder; `mask_path` may be None.
    """

    scene_id: str
    path: str
    mask_path: str | None
    height: int
    width: int
    gsd_m: float
    image_up_deg: float

    @property
    def size(self) -> tuple[int, int]:
        """(height, width), pixels."""
        return (self.height, self.width)


class InstanceRow(NamedTuple):
    """What scoring and drawing need of an instance; names and units as in docs/release-format.md.

    Attributes:
        centroid_m: (x, y) in the local ground frame, whose origin is the scene's centre; None where it was not measured.
        hbb_px: Four pixel-edge numbers, or None. obb_px: Eight, or None.
        has_mask: Whether the release holds its RLE (some sources give boxes only).
    """

    instance_id: str
    scene_id: str
    label: int | None
    category: tuple[str, ...]
    countable: bool
    area_px: int
    centroid_m: tuple[float, float] | None
    hbb_px: tuple[float, ...] | None
    obb_px: tuple[float, ...] | None
    has_mask: bool


class CountableRuns(NamedTuple):
    """Instance ids of a scene's countable instances, and the runs of their masks in that order."""

    instance_ids: tuple[str, ...]
    runs: MaskRuns


class Release:
    """A release folder, read lazily; tables, queries and masks stay in memory once read.

    Every part raises `ReleaseError` on first use when its file is missing or has another shape; opening needs the manifest alone.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Take a folder and its manifest; use `Release.open`."""
        self.folder = folder
        self.manifest = manifest
        self._masks: dict[str, dict[str, Rle]] = {}
        self._unions: dict[str, Rle] = {}
        self._runs: dict[str, CountableRuns] = {}

    @classmethod
    def open(cls, folder: Path | str) -> "Release":
        """Open a release.

        Raises:
            ReleaseError: manifest.json is missing or not a JSON object, or the format version is not supported.
        """
        root = Path(folder)
        path = root / "manifest.json"
        try:
            manifest: Any = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ReleaseError(f"release {root}: manifest.json cannot be read ({error.strerror}); give the folder that holds it") from error
        except ValueError as error:
            raise ReleaseError(f"release {root}: manifest.json is not JSON ({error})") from error
        if not isinstance(manifest, dict):
            raise ReleaseError(f"release {root}: manifest.json is a {type(manifest).__name__}, expected an object")
        version = cast(dict[str, Any], manifest).get("format_version")
        if isinstance(version, bool) or version not in SUPPORTED_VERSIONS:
            known = ", ".join(map(str, SUPPORTED_VERSIONS))
            raise ReleaseError(f"release {root}: format_version is {version!r}, this trigpoint reads {known}; use another trigpoint")
        return cls(root, cast(dict[str, Any], manifest))

    @property
    def name(self) -> str:
        """Name and version, as people cite it."""
        return f"{self.manifest.get('name', self.folder.name)} {self.manifest.get('version', '')}".strip()

    @cached_property
    def rules(self) -> Rules:
        """The measuring rules that the release was built with."""
        try:
            return Rules.model_validate(self.manifest.get("rules", {}))
        except ValidationError as error:
            lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ReleaseError(f"release {self.folder}: rules of manifest.json: {lines}") from error

    @cached_property
    def scenes(self) -> pa.Table:
        """scenes.parquet."""
        return self._table("scenes.parquet", tuple(SceneRow._fields))

    @cached_property
    def instances(self) -> pa.Table:
        """instances.parquet."""
        columns = (
            "instance_id",
            "scene_id",
            "label",
            "category",
            "countable",
            "area_px",
            "centroid_x_m",
            "centroid_y_m",
            "hbb_px",
            "obb_px",
            "rle",
        )
        return self._table("instances.parquet", columns)

    @cached_property
    def relations(self) -> pa.Table:
        """relations.parquet."""
        return self._table("relations.parquet", ("scene_id", "subject_id", "anchor_id", "relation", "verdict"))

    @cached_property
    def queries(self) -> list[Query]:
        """queries.jsonl, in file order."""
        found: list[Query] = []
        for number, line in self._lines("queries.jsonl"):
            try:
                found.append(Query.model_validate_json(line))
            except ValidationError as error:
                what = error.errors()[0]
                where = ".".join(map(str, what["loc"]))
                raise ReleaseError(f"release {self.folder}: queries.jsonl line {number}: {where}: {what['msg']}") from error
        return found

    @cached_property
    def annotations(self) -> list[dict[str, Any]]:
        """annotations.jsonl, in file order; empty in a release without free language."""
        keys = ("annotation_id", "scene_id", "category", "name", "instance_ids", "boxable", "why_no_boxes")
        return self._objects("annotations.jsonl", keys)

    @cached_property
    def language(self) -> list[dict[str, Any]]:
        """language.jsonl, in file order: every sentence that was written, released or not; empty in a release without free language."""
        keys = ("item_id", "annotation_id", "scene_id", "form", "polarity", "text", "original", "claims", "state", "query_id")
        return self._objects("language.jsonl", keys)

    @cached_property
    def reviews(self) -> list[dict[str, Any]]:
        """reviews.jsonl, in order of writing within a scene; empty where nobody decided anything."""
        keys = ("decision_id", "item_id", "kind", "scene_id", "action", "who", "role", "round", "made", "merged", "undoes", "reason")
        return self._objects("reviews.jsonl", keys)

    @cached_property
    def query_by_id(self) -> dict[str, Query]:
        """Query by its id."""
        return {query.query_id: query for query in self.queries}

    @cached_property
    def splits(self) -> dict[str, dict[str, Any]]:
        """Protocol → splits/<protocol>.json."""
        documents: dict[str, dict[str, Any]] = {}
        for path in sorted((self.folder / "splits").glob("*.json")):
            try:
                document: Any = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise ReleaseError(f"release {self.folder}: splits/{path.name} cannot be read as JSON ({error})") from error
            if not isinstance(document, dict) or not isinstance(cast(dict[str, Any], document).get("assignment"), dict):
                raise ReleaseError(f"release {self.folder}: splits/{path.name} has no assignment of scenes to splits")
            documents[path.stem] = cast(dict[str, Any], document)
        return documents

    @property
    def known_splits(self) -> str:
        """Protocols and their splits, for messages."""
        return "; ".join(f"{name} ({', '.join(sorted(document['assignment']))})" for name, document in self.splits.items()) or "no splits"

    def queries_of(self, protocol: str, split: str) -> list[Query]:
        """Return the queries of a split of a protocol, in file order; some protocols take only part of the queries of their scenes.

        Raises:
            InputError: there is no such protocol or split; names those that there are.
        """
        document = self.splits.get(protocol, {"assignment": {}})
        if split not in document["assignment"]:
            raise InputError(f"protocol {protocol!r} with split {split!r} is not in release {self.name}, which has {self.known_splits}")
        chosen = query_ids_of(document, split, ((query.query_id, query.scene_id) for query in self.queries))
        return [query for query in self.queries if query.query_id in chosen]

    @cached_property
    def taxonomy(self) -> Taxonomy | None:
        """The taxonomy used, or None when the release holds none that can be read."""
        for path in sorted((self.folder / "taxonomy").glob("*")):
            try:
                return load_taxonomy(path)
            except TaxonomyError:
                continue
        return None

    @cached_property
    def scene_by_id(self) -> dict[str, SceneRow]:
        """Scene by its id, in file order."""
        rows = self.scenes.select(list(SceneRow._fields)).to_pylist()
        return {row["scene_id"]: SceneRow(**row) for row in rows}

    @cached_property
    def instance_by_id(self) -> dict[str, InstanceRow]:
        """Instance by its id, in file order."""
        table = self.instances
        columns: dict[str, list[Any]] = {
            name: table.column(name).to_pylist() for name in table.column_names if name not in ("geometry", "rle")
        }
        has_mask = table.column("rle").is_valid().to_pylist()
        found: dict[str, InstanceRow] = {}
        for k, instance_id in enumerate(columns["instance_id"]):
            hbb, obb = columns["hbb_px"][k], columns["obb_px"][k]
            centroid = (columns["centroid_x_m"][k], columns["centroid_y_m"][k])
            found[instance_id] = InstanceRow(
                instance_id=instance_id,
                scene_id=columns["scene_id"][k],
                label=columns["label"][k],
                category=tuple(columns["category"][k] or ()),
                countable=columns["countable"][k],
                area_px=columns["area_px"][k],
                centroid_m=None if None in centroid else centroid,
                hbb_px=None if hbb is None else tuple(hbb),
                obb_px=None if obb is None else tuple(obb),
                has_mask=has_mask[k],
            )
        return found

    @cached_property
    def instances_of_scene(self) -> dict[str, list[InstanceRow]]:
        """Scene id → its instances, in file order; empty for a scene without any."""
        found: dict[str, list[InstanceRow]] = defaultdict(list)
        for instance in self.instance_by_id.values():
            found[instance.scene_id].append(instance)
        return {scene_id: found.get(scene_id, []) for scene_id in self.scene_by_id}

    def scene(self, scene_id: str) -> SceneRow:
        """Return a scene.

        Raises:
            InputError: there is none of that id.
        """
        if scene_id not in self.scene_by_id:
            raise InputError(f"scene {scene_id!r} is not in release {self.name}; it has {_some(list(self.scene_by_id))}")
        return self.scene_by_id[scene_id]

    def query(self, query_id: str) -> Query:
        """Return a query.

        Raises:
            InputError: there is none of that id.
        """
        if query_id not in self.query_by_id:
            raise InputError(f"query {query_id!r} is not in release {self.name}; it has {_some(list(self.query_by_id))}")
        return self.query_by_id[query_id]

    def masks_of_scene(self, scene_id: str) -> dict[str, Rle]:
        """Return the checked masks of a scene's instances (regions too), by instance id; those without an RLE are left out.

        Raises:
            ReleaseError: an RLE is not a mask of the scene's size; names the instance.
        """
        if scene_id not in self._masks:
            size = self.scene(scene_id).size
            rows = [row for row in self.instances_of_scene[scene_id] if row.has_mask]
            checked = check_rles([RleRequest(f"instance {row.instance_id!r}", self._counts[row.instance_id], size) for row in rows])
            for found in checked:
                if isinstance(found, InputError):
                    raise ReleaseError(f"release {self.folder}: instances.parquet: {found}; run trigpoint audit on it") from found
            self._masks[scene_id] = {row.instance_id: cast(Rle, rle) for row, rle in zip(rows, checked, strict=True)}
        return self._masks[scene_id]

    def countable_runs(self, scene_id: str) -> CountableRuns:
        """Return the runs of all countable instances of a scene that have a mask, for the coverage read-out.

        Raises:
            ReleaseError: an RLE is not a mask of the scene's size.
        """
        if scene_id not in self._runs:
            masks = self.masks_of_scene(scene_id)
            ids = tuple(r.instance_id for r in self.instances_of_scene[scene_id] if r.countable and r.instance_id in masks)
            self._runs[scene_id] = CountableRuns(ids, true_runs([masks[instance_id] for instance_id in ids]))
        return self._runs[scene_id]

    def answer_masks(self, query: Query) -> list[Rle] | None:
        """Return the masks of a query's answer, in the order of `answer_ids`; None when one of them has no mask in the release."""
        masks = self.masks_of_scene(query.scene_id)
        if any(instance_id not in masks for instance_id in query.answer_ids):
            return None
        return [masks[instance_id] for instance_id in query.answer_ids]

    def answer_union(self, query: Query) -> Rle | None:
        """Return the union of a query's answer masks; None when one of them has no mask in the release."""
        if query.query_id not in self._unions:
            masks = self.answer_masks(query)
            if masks is None:
                return None
            self._unions[query.query_id] = union(masks, self.scene(query.scene_id).size)
        return self._unions[query.query_id]

    @cached_property
    def _counts(self) -> dict[str, str]:
        ids, counts = self.instances.column("instance_id").to_pylist(), self.instances.column("rle").to_pylist()
        return dict(zip(ids, counts, strict=True))

    def picture(self, scene_id: str) -> NDArray[np.uint8]:
        """Read a scene as a picture (height, width, 3) uint8; invalid pixels are black. See `trigpoint.imagery.view`.

        Raises:
            ReleaseError: the raster cannot be read.
        """
        with self._raster(self.scene(scene_id).path) as raster:
            palette = raster.colormap(1) if raster.colorinterp[0].name == "palette" else None
            colours = Colours(tuple(band.name for band in raster.colorinterp), palette)
            return rgb_view(raster.read(), raster.dataset_mask() > 0, colours).array

    def index_map(self, scene_id: str) -> NDArray[np.uint16]:
        """Read a scene's index map (height, width): `label` of the discrete instance that owns a pixel, 0 = nothing.

        Raises:
            ReleaseError: there is none, or it cannot be read.
        """
        path = self.scene(scene_id).mask_path
        if path is None:
            raise ReleaseError(f"release {self.folder}: scene {scene_id!r} has no index map")
        with self._raster(path) as raster:
            return raster.read(1)

    @contextmanager
    def _raster(self, name: str) -> Generator[Any]:
        try:
            with rasterio.open(self._path(name)) as raster:
                yield raster
        except RasterioIOError as error:
            raise ReleaseError(f"release {self.folder}: {name} cannot be read as a raster ({error})") from error

    def _path(self, name: str) -> Path:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ReleaseError(f"release {self.folder}: path {name!r} leads out of the folder")
        return path

    def _text(self, name: str) -> str:
        try:
            return self._path(name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ReleaseError(f"release {self.folder}: {name} cannot be read ({error})") from error

    def _lines(self, name: str) -> Generator[tuple[int, str]]:
        """Yield the lines of a file that hold something, numbered from 1."""
        for number, line in enumerate(self._text(name).split("\n"), start=1):
            if line.strip():
                yield number, line

    def _objects(self, name: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        """Read a JSON Lines file of objects that have at least some keys; none where there is no such file."""
        if not self._path(name).exists():
            return []
        found: list[dict[str, Any]] = []
        for number, line in self._lines(name):
            try:
                value: Any = json.loads(line)
            except ValueError as error:
                raise ReleaseError(f"release {self.folder}: {name} line {number} is not JSON ({error})") from error
            missing = [key for key in keys if not isinstance(value, dict) or key not in value]
            if missing:
                raise ReleaseError(f"release {self.folder}: {name} line {number} lacks {', '.join(missing)}; run trigpoint audit on it")
            found.append(value)
        return found

    def _table(self, name: str, columns: tuple[str, ...]) -> pa.Table:
        try:
            table = pq.read_table(self._path(name))
        except (OSError, pa.ArrowException) as error:
            raise ReleaseError(f"release {self.folder}: {name} cannot be read ({error})") from error
        missing = [column for column in columns if column not in table.column_names]
        if missing:
            raise ReleaseError(f"release {self.folder}: {name} lacks the columns {missing}; it has {table.column_names}")
        return table


def _some(names: list[str], most: int = 3) -> str:
    return f"{', '.join(names[:most])}{f', … ({len(names)} in all)' if len(names) > most else ''}" if names else "none"
