"""The configuration of a release: one YAML file, one frozen tree; unknown keys are refused with the nearest known name.

Relative paths are relative to the file. The `run` block (places, workers, chunks) enters no digest and no release.
Environment variables are for secrets and places only.
"""

import difflib
import os.path
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from trigpoint.categories import load_taxonomy
from trigpoint.errors import ConfigError
from trigpoint.identity import digest_json
from trigpoint.rules import Rules


class ConfigPart(BaseModel):
    """A block of the configuration: frozen, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Licensed(ConfigPart):
    """What every input must say of itself."""

    licence: str = Field(min_length=1, description="SPDX id of the licence, such as CC-BY-4.0 or ODbL-1.0")
    attribution: str = Field(min_length=1, description="The text that the licence asks to be shown")
    url: str | None = Field(default=None, description="Where it comes from")


class ImageryConfig(Licensed):
    """One georeferenced raster."""

    path: Path
    crs: str | None = Field(default=None, description="CRS to use when the file has none; recorded in the release")
    acquired: str | None = Field(
        default=None, pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$", description="Date of acquisition: year, month or day, ISO"
    )

    @field_validator("acquired")
    @classmethod
    def _real_date(cls, value: str | None) -> str | None:
        if value is not None:
            date.fromisoformat({4: f"{value}-01-01", 7: f"{value}-01"}.get(len(value), value))
        return value


class VectorConfig(Licensed):
    """Features from a vector or OSM file."""

    path: Path
    layer: str | None = Field(default=None, description="Layer of a GeoPackage")
    crs: str | None = Field(default=None, description="CRS to use when the file has none")
    id_property: str | None = Field(default=None, description="Property that identifies a feature; else its geometry does")
    id_prefix: str = Field(default="", description="Put before the id, such as osm/way/")


class AnnotationConfig(VectorConfig):
    """Polygons that a person drew."""

    category_property: str = Field(default="category", description="Property that holds a taxonomy category (or several, joined by +)")


class GridConfig(ConfigPart):
    """Scenes on a grid from the top left corner; each further size fills what the ones before left."""

    sizes_px: tuple[Annotated[int, Field(gt=0)], ...] = Field(min_length=1, description="Sides of square scenes, largest first")


class AroundPoisConfig(ConfigPart):
    """Scenes around points of interest, shifted inside the raster where they would reach over its edge."""

    categories: tuple[str, ...] = Field(min_length=1)
    size_px: int = Field(gt=0)
    limit: int = Field(default=1, ge=0)
    min_spacing_m: float = Field(default=0.0, ge=0)


class ScenesConfig(ConfigPart):
    """Which windows of a raster become scenes."""

    windows: tuple[tuple[int, int, Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]], ...] = Field(
        default=(), description="col_off, row_off, width, height"
    )
    grid: GridConfig | None = None
    around_pois: AroundPoisConfig | None = None
    min_valid_share: float = Field(default=0.9, gt=0, le=1, description="Scenes with a smaller share of valid pixels are dropped")


class SourceConfig(ConfigPart):
    """One place: imagery, points of interest, footprints and annotations of it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    imagery: ImageryConfig
    pois: tuple[VectorConfig, ...] = ()
    footprints: tuple[VectorConfig, ...] = ()
    annotations: tuple[AnnotationConfig, ...] = ()
    scenes: ScenesConfig


class QueryConfig(ConfigPart):
    """How many queries of which level."""

    per_scene: dict[int, Annotated[int, Field(ge=0)]] = Field(
        default={1: 4, 2: 6, 3: 16, 4: 16, 5: 16}, description="Level → answerable queries per scene at most"
    )
    max_per_answer: int = Field(default=3, ge=1, description="Programs of one scene that may share an answer")
    category_absent_per_scene: int = Field(default=2, ge=0)

    @model_validator(mode="after")
    def _levels(self) -> "QueryConfig":
        if not set(self.per_scene) <= {1, 2, 3, 4, 5}:
            raise ValueError(f"per_scene has levels {sorted(self.per_scene)}, expected some of 1 to 5")
        return self


class SplitConfig(ConfigPart):
    """How groups of scenes are divided."""

    shares: dict[Literal["train", "val", "test"], Annotated[float, Field(ge=0)]] = Field(default={"train": 0.6, "val": 0.2, "test": 0.2})
    buffer_m_same_source: float = Field(default=0.0, ge=0)
    buffer_m_other_source: float = Field(default=100.0, ge=0)

    @model_validator(mode="after")
    def _sum(self) -> "SplitConfig":
        if abs(sum(self.shares.values()) - 1.0) > 1e-9:
            raise ValueError(f"shares sum to {sum(self.shares.values()):g}, expected 1")
        return self


class ReviewConfig(ConfigPart):
    """What a person must have seen before it is released."""

    policy: Literal["none"] = Field(default="none", description="none: releases what no human has reviewed; the card says so")
    note: str = ""


class QuarantineConfig(ConfigPart):
    """How much may be lost before a build counts as failed."""

    allowed_share: float = Field(default=0.0, ge=0, le=1, description="Share of items per stage that may be quarantined")


class RunConfig(ConfigPart):
    """Places and workers: changes nothing in the release."""

    output: Path = Path("build/release")
    work: Path = Path("build/work")
    store: str | None = Field(default=None, description="Artefact store: a folder or fsspec URL; default <work>/store")
    workers: int = Field(default=2, ge=1, description="Processes that work inside a task")
    chunk_size: int = Field(default=8, ge=1, description="Scenes per task run and per shard")
    catalogue_wait_s: float = Field(default=30.0, gt=0)


class ReleaseConfig(ConfigPart):
    """The whole configuration of one release."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$")
    title: str = ""
    description: str = ""
    seed: int = 0
    taxonomy: Path
    unknown_is_other: dict[str, str] = Field(
        default={}, description="Axis → reason: a missing value on this axis means 'none of its categories'; the card repeats the reason"
    )
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    rules: Rules = Rules()
    query: QueryConfig = QueryConfig()
    split: SplitConfig = SplitConfig()
    review: ReviewConfig = ReviewConfig()
    quarantine: QuarantineConfig = QuarantineConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _names(self) -> "ReleaseConfig":
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError(f"sources have names {names}, expected each once")
        return self

    def sha256(self) -> str:
        """Digest of everything but the `run` block; paths count by file name, since content has its own digests."""
        return digest_json(self.without_places())

    def without_places(self) -> dict[str, Any]:
        """Return the configuration as JSON without the `run` block, paths reduced to file names."""
        return _file_names(self.model_dump(mode="json", exclude={"run"}))


def _file_names(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {str(k): _file_names(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_file_names(v, key) for v in value]
    return Path(value).name if key in ("path", "taxonomy") and isinstance(value, str) else value


def load_config(path: Path) -> ReleaseConfig:
    """Read a release configuration; relative paths become absolute, from the file's folder.

    Raises:
        ConfigError: the file is missing, no YAML, or has a wrong or unknown key; every problem is listed with its place.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration {path}: cannot be read ({error.strerror}); `trigpoint config example` prints one") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"configuration {path}: not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"configuration {path}: expected a mapping with name, version, taxonomy and sources, found {type(data).__name__}")
    try:
        config = ReleaseConfig.model_validate(data)
    except ValidationError as error:
        # a list whose only entry is wrong also counts as too short: that says nothing more
        told = [
            e
            for e in error.errors()
            if not (e["type"] == "too_short" and any(o["loc"][: len(e["loc"])] == e["loc"] != o["loc"] for o in error.errors()))
        ]
        lines = [f"  {_place(e['loc'])}: {_problem(e['type'], e['loc'], e['msg'])}" for e in told]
        raise ConfigError(f"configuration {path} has {len(lines)} problem(s):\n" + "\n".join(lines)) from error
    base = path.resolve().parent
    return config.model_copy(
        update={
            "taxonomy": _absolute(base, config.taxonomy),
            "sources": tuple(_source_from(base, source) for source in config.sources),
            "run": config.run.model_copy(
                update={
                    "output": _absolute(base, config.run.output),
                    "work": _absolute(base, config.run.work),
                    "store": _store_from(base, config.run.store),
                }
            ),
        }
    )


def _problem(kind: str, location: tuple[int | str, ...], message: str) -> str:
    """Say what is wrong in words; an unknown key is told with the nearest known name of its block."""
    if kind != "extra_forbidden":
        return message.removeprefix("Value error, ")
    block: Any = ReleaseConfig
    for part in location[:-1]:
        if isinstance(part, str):
            block = _block_of(block.model_fields[part].annotation)
    key, known = str(location[-1]), sorted(block.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    return f"unknown key {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}")


def _block_of(annotation: Any) -> Any:
    """The model in an annotation such as `tuple[SourceConfig, ...]` or `GridConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _block_of(part)) is not None), None)


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in location) or "top level"


def _source_from(base: Path, source: SourceConfig) -> SourceConfig:
    def placed(part: Any) -> Any:
        return part.model_copy(update={"path": _absolute(base, part.path)})

    return source.model_copy(
        update={
            "imagery": placed(source.imagery),
            **{name: tuple(placed(part) for part in getattr(source, name)) for name in ("pois", "footprints", "annotations")},
        }
    )


def _store_from(base: Path, store: str | None) -> str | None:
    return store if store is None or "://" in store else str(_absolute(base, Path(store)))


def _absolute(base: Path, path: Path) -> Path:
    """Join and take out `..`, so that messages show the path as people write it."""
    return Path(os.path.normpath(base / path))


def check_names(config: ReleaseConfig) -> list[str]:
    """Return one line per axis or category that a configuration names and its taxonomy lacks.

    Raises:
        TaxonomyError: the taxonomy cannot be read.
    """
    taxonomy = load_taxonomy(config.taxonomy)
    axes = [axis.id for axis in taxonomy.axes]
    problems = [
        f"unknown_is_other: axis {axis!r} is not in taxonomy {config.taxonomy.name}; it has {', '.join(axes)}"
        for axis in config.unknown_is_other
        if axis not in axes
    ]
    for source in config.sources:
        around = source.scenes.around_pois
        for category in around.categories if around is not None else ():
            if category not in taxonomy.by_id:
                near = ", ".join(difflib.get_close_matches(category, list(taxonomy.by_id), n=3) or sorted(taxonomy.by_id)[:8])
                place = f"sources.{source.name}.scenes.around_pois.categories"
                problems.append(f"{place}: {category!r} is not in taxonomy {config.taxonomy.name}; nearest: {near}")
    return problems


def check_files(config: ReleaseConfig) -> list[str]:
    """Return one line per input file of a configuration that is not there."""
    paths = [("taxonomy", config.taxonomy)]
    for source in config.sources:
        paths.append((f"sources.{source.name}.imagery", source.imagery.path))
        for name in ("pois", "footprints", "annotations"):
            paths += [(f"sources.{source.name}.{name}", part.path) for part in getattr(source, name)]
    return [f"{place}: {path} does not exist" for place, path in paths if not path.is_file()]
