"""The configuration of a release: one YAML file, one frozen tree; unknown keys are refused with the nearest known name.

Relative paths are relative to the file. The `run` block (places, workers, chunks) enters no digest and no release.
Environment variables are for secrets and places only.
"""

import difflib
import os.path
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pyproj import CRS
from pyproj.exceptions import CRSError

from trigpoint.categories import load_taxonomy
from trigpoint.documents import place_of, read_yaml, told
from trigpoint.errors import ConfigError
from trigpoint.identity import digest_file, digest_json
from trigpoint.imagery.bbox import box_around, check_box
from trigpoint.licences import LAYERS, Layer, LicensedPart, known_licences, licence_problems
from trigpoint.proposals.settings import SAM2_PLACES, ProposalsConfig, with_places
from trigpoint.records.language import LanguageForm
from trigpoint.rules import Rules


class ConfigPart(BaseModel):
    """A block of the configuration: frozen, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Licensed(ConfigPart):
    """What every input must say of itself."""

    licence: str = Field(min_length=1, description="SPDX id of the licence, such as CC-BY-4.0 or ODbL-1.0")
    attribution: str = Field(min_length=1, description="The text that the licence asks to be shown")
    url: str | None = Field(default=None, description="Where it comes from")


Box = tuple[float, float, float, float]
WebUrl = Annotated[str, Field(pattern=r"^https?://[^\s@]+$", max_length=2000)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _known_crs(text: str) -> str:
    try:
        CRS.from_user_input(text)
    except CRSError as error:
        raise ValueError(f"{text!r} is no coordinate system; use a code such as 'EPSG:32633' or WKT") from error
    return text


def _text_of_date(value: Any) -> Any:
    """YAML reads 2025-06-01 as a date and 2025 as a number, unless they stand in quotes."""
    is_date = type(value) in (date, int)
    return str(value) if is_date else value


CrsText = Annotated[str, AfterValidator(_known_crs)]
DateText = Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$"), BeforeValidator(_text_of_date)]


def _checked_box(value: Box | None) -> Box | None:
    if value is not None:
        check_box(value)
    return value


class StacConfig(ConfigPart):
    """One asset of one STAC item: of a saved item or item collection, or of a search, which is saved once."""

    path: Path | None = Field(default=None, description="Saved item or item collection (JSON)")
    url: WebUrl | None = Field(default=None, description="Search endpoint of a STAC API (…/search); it is asked once")
    collections: tuple[str, ...] = ()
    datetime: str | None = Field(default=None, max_length=100, description="Date or interval of a search, RFC 3339")
    bbox: Box | None = Field(default=None, description="West, south, east, north of a search; west > east crosses the antimeridian")
    item: str | None = Field(default=None, description="Id of the item; needed when there are several")
    asset: str = Field(default="visual", min_length=1, description="Key of the asset, a raster")
    hosts: tuple[str, ...] = Field(default=(), description="Hosts that assets may come from, beside the one of `url`")
    limit: int = Field(default=100, ge=1, le=1000, description="Items of a search at most")

    @field_validator("bbox")
    @classmethod
    def _box(cls, value: Box | None) -> Box | None:
        return _checked_box(value)

    @model_validator(mode="after")
    def _one(self) -> "StacConfig":
        if (self.path is None) == (self.url is None):
            raise ValueError("needs either path (a saved item or item collection) or url (a search)")
        return self


class TilesConfig(ConfigPart):
    """Tiles of one zoom of a web map, put together without resampling in EPSG:3857."""

    url: WebUrl = Field(description="With {z}, {x} and {y} (counted from the top), or {-y} (from the bottom)")
    zoom: int = Field(ge=0, le=23)
    tile_px: Literal[256, 512] = 256

    @field_validator("url")
    @classmethod
    def _template(cls, value: str) -> str:
        if not ("{z}" in value and "{x}" in value and ("{y}" in value) != ("{-y}" in value)):
            raise ValueError("url needs {z}, {x} and either {y} or {-y}, such as https://tiles.example/{z}/{x}/{y}.png")
        return value


class PlaceConfig(ConfigPart):
    """A square around a point."""

    lon: float = Field(ge=-180, le=180)
    lat: float = Field(ge=-85, le=85)
    size_m: float = Field(gt=0, le=1_000_000, description="Side on the ground")


class CloudConfig(ConfigPart):
    """Which pixels a given mask calls clouds; nothing here guesses."""

    path: Path | None = Field(default=None, description="Raster on the same grid; else a band of the imagery itself")
    band: int = Field(default=1, ge=1, description="Band, from 1")
    values: tuple[int, ...] = Field(min_length=1, description="Values that mean cloud")


class ImageryConfig(Licensed):
    """One georeferenced raster: a file, or exactly one of `cog`, `stac` and `tiles`, which are fetched once and kept."""

    path: Path | None = Field(default=None, description="GeoTIFF, JPEG, PNG, JPEG 2000 or VRT")
    cog: WebUrl | None = Field(default=None, description="URL of a cloud-optimised GeoTIFF; only the pixels of `bbox` are fetched")
    stac: StacConfig | None = None
    tiles: TilesConfig | None = None
    bbox: Box | None = Field(
        default=None, description="West, south, east, north: the part that is fetched; west > east crosses the antimeridian (tiles only)"
    )
    around: PlaceConfig | None = Field(default=None, description="Instead of bbox: a square around a point, such as a POI")
    sha256: Digest | None = Field(default=None, description="The file, or what was fetched, must have this digest")
    clouds: CloudConfig | None = None
    crs: CrsText | None = Field(default=None, description="CRS to use when the file has none; recorded in the release")
    acquired: DateText | None = Field(default=None, description="Date of acquisition: year, month or day, ISO")

    @field_validator("acquired")
    @classmethod
    def _real_date(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                date.fromisoformat({4: f"{value}-01-01", 7: f"{value}-01"}.get(len(value), value))
            except ValueError as error:
                raise ValueError(
                    f"{value!r} is no date ({error}); give a year, month or day such as 2025, 2025-06 or 2025-06-01"
                ) from error
        return value

    @field_validator("bbox")
    @classmethod
    def _box(cls, value: Box | None) -> Box | None:
        return _checked_box(value)

    @model_validator(mode="after")
    def _one_place(self) -> "ImageryConfig":
        given = [name for name in ("path", "cog", "stac", "tiles") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of path, cog, stac and tiles, has {given or 'none'}")
        if self.bbox is not None and self.around is not None:
            raise ValueError("needs one of bbox and around at most")
        part = self.part
        if self.tiles is not None and (self.acquired is None or part is None):
            raise ValueError("tiles need acquired (the date of the pictures, which tiles do not say) and bbox or around")
        if self.tiles is None and part is not None and part[0] > part[2]:
            raise ValueError("bbox crosses the antimeridian, which only tiles can: use two sources")
        if self.path is not None and part is not None:
            raise ValueError("bbox is for what is fetched (cog, stac, tiles); cut a file with scenes.windows")
        return self

    @property
    def part(self) -> Box | None:
        """The box of what is fetched; None: all of it."""
        return self.bbox if self.around is None else box_around(self.around.lon, self.around.lat, self.around.size_m)

    @property
    def is_fetched(self) -> bool:
        """Whether a snapshot is made of it (what is on the web, and what is put together of several files)."""
        return self.path is None or self.path.suffix.lower() == ".vrt"


class FeatureConfig(Licensed):
    """What identifies features, wherever they come from."""

    sha256: Digest | None = Field(default=None, description="The file, or what was fetched, must have this digest")
    layer: str | None = Field(default=None, description="Layer of a GeoPackage")
    crs: CrsText | None = Field(default=None, description="CRS to use when the file has none")
    id_property: str | None = Field(default=None, description="Property that identifies a feature; else its geometry does")
    id_prefix: str = Field(default="", description="Put before the id, such as osm/way/")


class VectorConfig(FeatureConfig):
    """Features from a vector or OSM file."""

    path: Path


class OverpassConfig(ConfigPart):
    """A question to an Overpass server: asked once, its answer kept."""

    url: WebUrl = "https://overpass-api.de/api/interpreter"
    query: str | None = Field(
        default=None, max_length=100_000, description="Overpass QL with [out:json]; else made of the tag expressions of `categories`"
    )
    categories: tuple[str, ...] = Field(default=(), description="Categories to ask for; none: all that have tag expressions")
    date: str | None = Field(
        default=None, pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$", description="State of the map, where the server keeps history"
    )
    timeout_s: int = Field(default=180, ge=1, le=900, description="What the server may take")

    @model_validator(mode="after")
    def _query(self) -> "OverpassConfig":
        if self.query is not None and "[out:json]" not in self.query.replace(" ", ""):
            raise ValueError("query needs the setting [out:json]")
        if self.query is not None and (self.categories or self.date):
            raise ValueError("query says everything itself: leave categories and date out")
        return self


class PoiConfig(FeatureConfig):
    """Points of interest: a vector or OSM file, a saved Overpass answer, or a question to an Overpass server."""

    path: Path | None = Field(
        default=None, description="OSM (.osm.pbf, .osm, .bz2, .gz, Overpass .json), GeoPackage, GeoJSON, CSV, GeoParquet"
    )
    overpass: OverpassConfig | None = None
    bbox: Box | None = Field(
        default=None, description="West, south, east, north: POIs that reach into it; west > east crosses the antimeridian"
    )

    complete: str | None = Field(
        default=None,
        min_length=1,
        description="Why this holds everything that is on the ground there, such as a survey: only then does what it lacks count as absent",
    )

    @field_validator("bbox")
    @classmethod
    def _box(cls, value: Box | None) -> Box | None:
        return _checked_box(value)

    @model_validator(mode="after")
    def _one_place(self) -> "PoiConfig":
        if (self.path is None) == (self.overpass is None):
            raise ValueError("needs either path or overpass")
        if self.overpass is not None and self.overpass.query is None and self.bbox is None:
            raise ValueError("overpass without a query needs bbox")
        return self


class AnnotationConfig(VectorConfig):
    """Polygons that a person drew."""

    category_property: str = Field(default="category", description="Property that holds a taxonomy category (or several, joined by +)")
    separable_property: str = Field(
        default="separable",
        description="False where things cannot be told apart at this resolution: their category gets no boxes in that scene",
    )


class GridConfig(ConfigPart):
    """Scenes on a grid from the top left corner; each further size fills what the ones before left."""

    sizes_px: tuple[Annotated[int, Field(gt=0)], ...] = Field(min_length=1, description="Sides of square scenes, largest first")


class AroundPoisConfig(ConfigPart):
    """Scenes around points of interest, shifted inside the raster where they would reach over its edge.

    Which of them is decided by the seed and the POIs' ids alone; rare categories choose first.
    """

    categories: tuple[str, ...] = Field(default=(), description="Categories to choose from; those of `quota` when none are given")
    size_px: int | None = Field(default=None, gt=0, description="Side of a scene in native pixels")
    size_m: float | None = Field(default=None, gt=0, description="Side of a scene on the ground; rounded up to whole native pixels")
    limit: int | None = Field(default=None, ge=0, description="Scenes in all; 1 when there is no quota")
    quota: dict[str, Annotated[int, Field(ge=0)]] = Field(default={}, description="Category → scenes at most")
    per_region: int | None = Field(default=None, ge=1, description="Scenes of a category in one region at most")
    region_km: float = Field(default=1.0, gt=0, description="Side of a region")
    min_spacing_m: float = Field(default=0.0, ge=0, description="Smallest distance between two chosen POIs")
    check_gsd: bool = Field(default=True, description="Leave out POIs whose every category needs finer pixels (coarsest_gsd_m)")

    @model_validator(mode="after")
    def _sizes(self) -> "AroundPoisConfig":
        if (self.size_px is None) == (self.size_m is None):
            raise ValueError("needs either size_px or size_m")
        if not self.categories and not self.quota:
            raise ValueError("needs categories or quota")
        stray = sorted(set(self.quota) - set(self.categories)) if self.categories else []
        if stray:
            raise ValueError(f"quota names {stray}, which categories do not list")
        return self

    @property
    def wanted(self) -> tuple[str, ...]:
        """The categories to choose from."""
        return self.categories or tuple(self.quota)


class ScenesConfig(ConfigPart):
    """Which windows of a raster become scenes."""

    windows: tuple[tuple[int, int, Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]], ...] = Field(
        default=(), description="col_off, row_off, width, height"
    )
    grid: GridConfig | None = None
    around_pois: AroundPoisConfig | None = None
    same_as: str | None = Field(
        default=None, description="Name of the source of another date: scenes on the footprints of its scenes, one series per footprint"
    )
    min_valid_share: float = Field(default=0.9, gt=0, le=1, description="Scenes with a smaller share of valid pixels are dropped")
    max_gsd_m: float | None = Field(default=None, gt=0, description="Scenes with a larger true pixel are dropped")
    min_gsd_m: float | None = Field(default=None, gt=0, description="Scenes with a smaller true pixel are dropped")
    max_blank_share: float = Field(
        default=1.0, gt=0, le=1, description="Scenes in which more of the valid pixels have one and the same value are dropped"
    )
    max_bright_share: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Scenes in which more of the valid pixels are saturated in the picture (250 of 255) are dropped",
    )
    max_cloud_share: float | None = Field(default=None, ge=0, le=1, description="By the mask of imagery.clouds, which it needs")

    @model_validator(mode="after")
    def _one_way(self) -> "ScenesConfig":
        own = bool(self.windows or self.grid or self.around_pois)
        if self.same_as is not None and own:
            raise ValueError("same_as takes the footprints of another source: leave windows, grid and around_pois out")
        if self.same_as is None and not own:
            raise ValueError("says of no scene where it is: give windows, grid, around_pois or same_as")
        return self


class SourceConfig(ConfigPart):
    """One place: imagery, points of interest, footprints and annotations of it."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    imagery: ImageryConfig
    pois: tuple[PoiConfig, ...] = ()
    footprints: tuple[VectorConfig, ...] = ()
    annotations: tuple[AnnotationConfig, ...] = ()
    proposals: tuple[ProposalsConfig, ...] = ()
    scenes: ScenesConfig

    @model_validator(mode="after")
    def _clouds(self) -> "SourceConfig":
        if self.scenes.max_cloud_share is not None and self.imagery.clouds is None:
            raise ValueError("scenes.max_cloud_share needs imagery.clouds: the mask that says where clouds are")
        if self.scenes.around_pois is not None and not self.pois:
            raise ValueError("scenes.around_pois needs pois: the points that scenes are put around")
        return self

    @model_validator(mode="after")
    def _prompted(self) -> "SourceConfig":
        for name in ("pois", "footprints"):
            if any(part.prompts == name for part in self.proposals) and not getattr(self, name):
                raise ValueError(f"proposals are prompted by {name}, and the source has none")
        return self

    @property
    def drawn_prompts(self) -> tuple[AnnotationConfig, ...]:
        """The files of what was drawn for proposers."""
        return tuple(AnnotationConfig.model_validate(part.drawn.model_dump()) for part in self.proposals if part.drawn is not None)

    @property
    def traced(self) -> tuple[ImageryConfig, ...]:
        """The imagery, where machines trace masks from it: its licence is also that of the masks."""
        return (self.imagery,) if any(part.proposer != "vector" for part in self.proposals) else ()


class QueryConfig(ConfigPart):
    """How many queries of which level."""

    per_scene: dict[int, Annotated[int, Field(ge=0)]] = Field(
        default={1: 4, 2: 8, 3: 30, 4: 30, 5: 30}, description="Level → answerable queries per scene at most"
    )
    max_per_answer: int = Field(default=3, ge=1, description="Programs of one scene that may share an answer")
    max_per_category: int | None = Field(default=None, ge=1, description="Queries of one scene about one category; no limit when null")
    max_per_scene: int | None = Field(default=None, ge=1, description="Queries of one scene; no limit when null")
    paired_share: float = Field(default=0.24, ge=0, le=1, description="Share of the queries that are half of a counterfactual pair")
    category_absent_per_scene: int = Field(default=2, ge=0)
    certificate_jitters: int = Field(
        default=20, ge=0, le=100, description="Jittered copies of each scene on which every answer must stay; 0: answers are not certified"
    )
    paraphrases: tuple[Path, ...] = Field(
        default=(),
        description="JSON Lines of {query_id, sentence}: further sentences, taken when they parse to exactly their program",
    )

    @model_validator(mode="after")
    def _levels(self) -> "QueryConfig":
        if not set(self.per_scene) <= {1, 2, 3, 4, 5}:
            raise ValueError(f"per_scene has levels {sorted(self.per_scene)}, expected some of 1 to 5")
        return self


SplitName = Literal["train", "val", "test"]
Protocol = Literal["scene-disjoint", "geographic", "cross-scale", "depth", "unseen-pair"]


class NearDuplicateConfig(ConfigPart):
    """When two pictures count as copies of each other; measured by `benchmarks/near_duplicates.py`."""

    max_bits: int = Field(default=10, ge=0, le=32, description="Bits of 64 by which the hashes of copies differ at most")
    min_correlation: float = Field(default=0.9, ge=-1, le=1, description="Correlation of the 32 × 32 grey grids of copies, at least")
    low_information_sd: float = Field(
        default=2.0, ge=0, description="Grey levels; a picture that varies less (water, snow) is never a copy by its hash"
    )


class GeographicConfig(ConfigPart):
    """What the geographic protocol leaves out of training."""

    by: Literal["region", "source", "density"] = "region"
    region_km: float = Field(default=10.0, gt=0, description="Scenes closer than this are one region")
    sources: dict[SplitName, tuple[str, ...]] = Field(default={}, description="by source: the names of the sources of each split")
    density_per_km2: float | None = Field(
        default=None, gt=0, description="by density: instances per km² from which a group is urban; else the largest gap decides"
    )

    @model_validator(mode="after")
    def _sources(self) -> "GeographicConfig":
        names = [name for sources in self.sources.values() for name in sources]
        if (self.by == "source") != bool(names) or len(set(names)) != len(names):
            raise ValueError(f"by is {self.by!r} and sources are {names}; name each source once with by: source, and only with it")
        return self


class CrossScaleConfig(ConfigPart):
    """How scenes are told apart by ground pixel."""

    threshold_m: float | None = Field(
        default=None, gt=0, description="Ground pixel below which a scene is fine; else the largest gap decides"
    )
    train: Literal["larger", "fine", "coarse"] = Field(default="larger", description="The class to train on; larger: with more queries")


class ScreenConfig(ConfigPart):
    """A list of what other data sets hold: their footprints, or hashes of their images."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    footprints: Path | None = Field(default=None, description="GeoJSON, GeoPackage, GeoParquet, ...")
    hashes: Path | None = Field(default=None, description=".txt (one hash a line), .jsonl or .csv (phash)")
    layer: str | None = None
    crs: CrsText | None = Field(default=None, description="CRS of the footprints when the file has none")

    @model_validator(mode="after")
    def _one_file(self) -> "ScreenConfig":
        if (self.footprints is None) == (self.hashes is None):
            raise ValueError("needs either footprints or hashes")
        return self

    @property
    def kind(self) -> Literal["footprints", "hashes"]:
        """Which of the two it is."""
        return "hashes" if self.footprints is None else "footprints"

    @property
    def path(self) -> Path:
        """Its file."""
        path = self.footprints or self.hashes
        assert path is not None
        return path


class SplitConfig(ConfigPart):
    """How scenes are grouped and groups are divided."""

    protocols: tuple[Protocol, ...] = Field(default=("scene-disjoint", "geographic", "cross-scale", "depth", "unseen-pair"), min_length=1)
    shares: dict[SplitName, Annotated[float, Field(ge=0)]] = Field(default={"train": 0.6, "val": 0.2, "test": 0.2})
    buffer_m_same_source: float = Field(default=0.0, ge=0)
    buffer_m_other_source: float = Field(default=100.0, ge=0)
    same_place_share: float = Field(
        default=0.001, gt=0, lt=1, description="Footprints of two sources that share more of the smaller one are one place"
    )
    near_duplicate: NearDuplicateConfig = NearDuplicateConfig()
    geographic: GeographicConfig = GeographicConfig()
    cross_scale: CrossScaleConfig = CrossScaleConfig()
    unseen_pair_share: float = Field(
        default=0.25, gt=0, le=1, description="Share of the queries of the test scenes that have a held-out pair, at least"
    )
    screen: tuple[ScreenConfig, ...] = ()
    screen_policy: Literal["mark", "train_only", "drop"] = "mark"
    screen_max_bits: int = Field(default=6, ge=0, le=32, description="Bits of 64 by which a scene's hash and a listed one differ at most")

    @model_validator(mode="after")
    def _sum(self) -> "SplitConfig":
        if abs(sum(self.shares.values()) - 1.0) > 1e-9:
            raise ValueError(f"shares sum to {sum(self.shares.values()):g}, expected 1")
        names = [screen.name for screen in self.screen]
        if len(set(names)) != len(names):
            raise ValueError(f"screen has the names {names}, expected each once")
        if len(set(self.protocols)) != len(self.protocols):
            raise ValueError(f"protocols are {list(self.protocols)}, expected each once")
        return self


class PriceConfig(ConfigPart):
    """What a model costs, per million tokens, in one currency for all models."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0, description="Input that the server had in its cache; else as input")
    batch_share: float = Field(default=0.5, ge=0, le=1, description="Share of these prices that a call in a batch costs")


class LanguageConfig(ConfigPart):
    """Who writes the sentences, and what that may cost.

    The keys in `LANGUAGE_PLACES` say how a server is reached and paid: they enter no digest and no release.
    """

    forms: tuple[LanguageForm, ...] = Field(default=(), description="Forms that are asked beside programs; none: no free language")
    provider: Literal["offline", "openai"] = Field(default="offline", description="openai: any server that speaks its API")
    model: str = Field(default="gpt-5-mini", min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2, description="Sent only when given: some models take none")
    seed: int | None = Field(default=None, description="Sent only when given: some servers take none")
    max_output_tokens: int = Field(default=8000, ge=1, description="Per call, with the tokens that a model thinks in")
    api: Literal["responses", "chat"] = "responses"
    base_url: str = Field(default="https://api.openai.com/v1", pattern=r"^https?://[^\s@?#]+$", description="Without user, key or query")
    key_variable: str | None = Field(
        default="OPENAI_API_KEY",
        pattern=r"^[A-Z_][A-Z0-9_]*$",
        description="Environment variable that holds the key; null: the server needs none",
    )
    mode: Literal["live", "replay", "batch"] = Field(
        default="live", description="replay: recorded answers alone, no network; batch: cheaper, within a day"
    )
    concurrency: int = Field(default=4, ge=1, le=256, description="Calls under way at once, per process")
    requests_per_minute: int | None = Field(default=None, ge=1, description="Per process")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="Per process")
    max_tokens: int | None = Field(
        default=None, ge=0, description="Tokens in and out that this version of the release may take, over all runs"
    )
    max_cost: float | None = Field(default=None, ge=0, description="What this version of the release may cost, over all runs")
    prices: dict[str, PriceConfig] = {}
    timeout_s: float = Field(default=120.0, gt=0, description="Per attempt")
    attempts: int = Field(default=5, ge=1, le=20, description="How often a call is sent when the server is busy, broken or away")
    backoff_s: float = Field(default=1.0, ge=0, description="Wait after the first failure; doubled each time")
    max_wait_s: float = Field(default=120.0, ge=0, description="Longest wait between attempts, also when the server asks for more")
    batch_poll_s: float = Field(default=60.0, gt=0)
    batch_wait_s: float = Field(default=90000.0, gt=0, description="How long a run waits for its batches; a later run takes them up")

    @model_validator(mode="after")
    def _price(self) -> "LanguageConfig":
        if self.max_cost is not None and self.model not in self.prices:
            raise ValueError(f"max_cost needs the price of the model: give prices.{self.model} (input and output per million tokens)")
        return self


LANGUAGE_PLACES = (
    "api", "base_url", "key_variable", "mode", "concurrency", "requests_per_minute", "tokens_per_minute", "max_tokens", "max_cost",
    "prices", "timeout_s", "attempts", "backoff_s", "max_wait_s", "batch_poll_s", "batch_wait_s",
)  # fmt: skip
"""Keys of `language` that decide no answer: a release is the same whether its answers were asked for, replayed or sent in batches."""


class LicencesConfig(ConfigPart):
    """The one licence of each layer of the release; where none is declared, sources keep their own, and must go together."""

    pixels: str | None = Field(default=None, description="Licence of the scenes, such as CC-BY-4.0; known ones: taxonomy/licences.v1.yaml")
    annotations: str | None = Field(default=None, description="Licence of masks, boxes, relations and queries")

    def declared(self) -> dict[Layer, str]:
        """The licence of each layer that has one."""
        found = {"pixels": self.pixels, "annotations": self.annotations}
        return {layer: licence for layer in LAYERS if (licence := found[layer]) is not None}


Policy = Literal["none", "single", "annotator+manager", "unanimous"]


class ReviewRule(ConfigPart):
    """What people must have decided about an item before it is released."""

    policy: Policy = Field(
        default="none",
        description="none: releases what no human has reviewed, and the card says so; single: one person accepts; annotator+manager: two "
        "people do, one as each; unanimous: every member of a group does, in every round",
    )
    groups: tuple[tuple[str, ...], ...] = Field(default=(), description="unanimous: who decides; round 1 is the first group's, and so on")
    rounds: int = Field(default=0, ge=0, le=100, description="unanimous: rounds; 0: one per group")
    sample_share: float = Field(
        default=1.0, gt=0, le=1, description="Share of the items that people must see, drawn by the seed; the others pass unseen"
    )

    @model_validator(mode="after")
    def _groups(self) -> "ReviewRule":
        if (self.policy == "unanimous") != bool(self.groups):
            raise ValueError(f"policy is {self.policy!r} and groups are {[list(group) for group in self.groups]}: unanimous needs groups")
        if any(not group or len(set(group)) != len(group) for group in self.groups):
            raise ValueError("groups: each needs at least one member, and each member once")
        return self

    @property
    def n_rounds(self) -> int:
        """Rounds of `unanimous`."""
        return self.rounds or len(self.groups)


class ReviewConfig(ReviewRule):
    """Policies of review; the keys at the top are for masks, and for sentences too unless `sentences` says otherwise."""

    sentences: ReviewRule | None = Field(default=None, description="The policy for sentences, where it is another")
    drawn: Licensed | None = Field(
        default=None, description="Terms of what people draw and write in review; needed where they draw in a source without annotations"
    )
    publish_names: bool = Field(default=False, description="Whether a release names the people who decided; else they are numbered")
    note: str = Field(default="", description="What the card says of the review")

    @property
    def rule_for_sentences(self) -> ReviewRule:
        """What sentences need."""
        return self.sentences or self


class QuarantineConfig(ConfigPart):
    """How much may be lost before a build counts as failed."""

    allowed_share: float = Field(default=0.0, ge=0, le=1, description="Share of items per stage that may be quarantined")


class NetworkConfig(ConfigPart):
    """Manners on the web: one request at a time, waits that servers ask for, limits of time and size."""

    user_agent: str = Field(default="trigpoint/0.1 (dataset builder; one request at a time)", min_length=1, max_length=200)
    timeout_s: float = Field(default=60.0, gt=0, description="Per read; an Overpass question may take its own timeout_s more")
    attempts: int = Field(default=4, ge=1, le=20, description="How often a request is sent when the server is busy or away")
    backoff_s: float = Field(default=5.0, ge=0, description="Wait after the first failure; doubled each time")
    max_wait_s: float = Field(default=120.0, ge=0, description="Longest wait; a server that asks for more is left alone")
    interval_s: float = Field(default=0.0, ge=0, description="Shortest time between two requests")
    max_bytes: int = Field(default=512 << 20, ge=1, description="Largest answer")
    max_px: int = Field(default=1 << 28, ge=1, description="Most pixels of one raster that are fetched or put together")
    max_tiles: int = Field(default=4096, ge=1, description="Most tiles of one source")


class RunConfig(ConfigPart):
    """Places and workers: changes nothing in the release."""

    output: Path = Path("build/release")
    work: Path = Path("build/work")
    store: str | None = Field(default=None, description="Artefact store: a folder or fsspec URL; default <work>/store")
    reviews: Path | None = Field(
        default=None,
        description="Local folder of the ledger of review; default <store>/reviews, needed when the store is a URL and a policy asks for "
        "people. What is in it cannot be made again: keep it, under version control say",
    )
    calls: Path | None = Field(
        default=None,
        description="Local folder of what language models answered; keep it, and nothing is paid twice; default <store>/calls",
    )
    workers: int = Field(default=2, ge=1, description="Processes that work inside a task")
    chunk_size: int = Field(default=8, ge=1, description="Scenes per task run and per shard")
    catalogue_wait_s: float = Field(default=30.0, gt=0)
    snapshots: Path = Field(default=Path("build/snapshots"), description="Folder of what was fetched; keep it, and nothing is asked again")
    network: NetworkConfig = NetworkConfig()


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
    language: LanguageConfig = LanguageConfig()
    licences: LicencesConfig = LicencesConfig()
    review: ReviewConfig = ReviewConfig()
    quarantine: QuarantineConfig = QuarantineConfig()
    run: RunConfig = RunConfig()

    @model_validator(mode="after")
    def _names(self) -> "ReleaseConfig":
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError(f"sources have names {names}, expected each once")
        return self

    @model_validator(mode="after")
    def _calls(self) -> "ReleaseConfig":
        store = (self.run.store or "").removeprefix("file://")
        if self.language.forms and self.language.provider != "offline" and self.run.calls is None and "://" in store:
            raise ValueError(
                f"run.calls: run.store {self.run.store!r} is no local folder, and the record of paid answers is kept in one, on the machine"
                " that builds; give run.calls a folder that is kept from run to run"
            )
        return self

    @model_validator(mode="after")
    def _reviews(self) -> "ReleaseConfig":
        policies = {self.review.policy, self.review.rule_for_sentences.policy}
        if policies != {"none"} and self.run.reviews is None and "://" in (self.run.store or "").removeprefix("file://"):
            raise ValueError(
                f"run.reviews: run.store {self.run.store!r} is no local folder, and people's decisions are kept in one; give run.reviews a"
                " folder that is kept from run to run"
            )
        return self

    def sha256(self) -> str:
        """Digest of everything but the `run` block and `LANGUAGE_PLACES`; paths count by file name, since content has its own digests."""
        return digest_json(self.without_places())

    def without_places(self) -> dict[str, Any]:
        """Return the configuration as JSON without the `run` block and `LANGUAGE_PLACES`, paths reduced to file names."""
        device: Any = {"__all__": {"proposals": {"__all__": {"sam2": set(SAM2_PLACES)}}}}
        return _file_names(self.model_dump(mode="json", exclude={"run": True, "language": set(LANGUAGE_PLACES), "sources": device}))


_PATH_KEYS = ("path", "taxonomy", "footprints", "hashes", "paraphrases", "checkpoint", "config_file")
"""Keys that hold a path, where they hold a text."""


def _file_names(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {str(k): _file_names(v, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_file_names(v, key) for v in value]
    return Path(value).name if key in _PATH_KEYS and isinstance(value, str) else value


def load_config(path: Path) -> ReleaseConfig:
    """Read a release configuration; relative paths become absolute, from the file's folder.

    Raises:
        ConfigError: the file is missing, no YAML, or has a wrong or unknown key; every problem is listed with its place.
    """
    data = read_yaml(path, "configuration", ConfigError, "`trigpoint config example` prints one")
    if not isinstance(data, dict):
        raise ConfigError(f"configuration {path}: expected a mapping with name, version, taxonomy and sources, found {type(data).__name__}")
    try:
        config = ReleaseConfig.model_validate(data)
    except ValidationError as error:
        # a list whose only entry is wrong also counts as too short: that says nothing more
        problems = [
            e
            for e in error.errors()
            if not (e["type"] == "too_short" and any(o["loc"][: len(e["loc"])] == e["loc"] != o["loc"] for o in error.errors()))
        ]
        lines = [f"  {place_of(e) or 'top level'}: {_problem(e)}" for e in problems]
        raise ConfigError(f"configuration {path} has {len(lines)} problem(s):\n" + "\n".join(lines)) from error
    base = path.resolve().parent
    return config.model_copy(
        update={
            "taxonomy": _absolute(base, config.taxonomy),
            "query": config.query.model_copy(update={"paraphrases": tuple(_absolute(base, path) for path in config.query.paraphrases)}),
            "sources": tuple(_source_from(base, source) for source in config.sources),
            "split": config.split.model_copy(update={"screen": tuple(_screen_from(base, screen) for screen in config.split.screen)}),
            "run": config.run.model_copy(
                update={
                    "output": _absolute(base, config.run.output),
                    "work": _absolute(base, config.run.work),
                    "store": _store_from(base, config.run.store),
                    "calls": None if config.run.calls is None else _absolute(base, config.run.calls),
                    "reviews": None if config.run.reviews is None else _absolute(base, config.run.reviews),
                    "snapshots": _absolute(base, config.run.snapshots),
                }
            ),
        }
    )


def _problem(error: ErrorDetails) -> str:
    """Say what is wrong in words; an unknown key is told with the nearest known name of its block."""
    if error["type"] != "extra_forbidden":
        return told(error)
    location = error["loc"]
    block: Any = ReleaseConfig
    for part in location[:-1]:
        # other parts are places in a list, or keys of a mapping whose values are blocks
        if isinstance(part, str) and part in block.model_fields:
            block = _block_of(block.model_fields[part].annotation)
    key, known = str(location[-1]), sorted(block.model_fields)
    near = difflib.get_close_matches(key, known, n=1)
    return f"unknown key {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}")


def _block_of(annotation: Any) -> Any:
    """The model in an annotation such as `tuple[SourceConfig, ...]` or `GridConfig | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _block_of(part)) is not None), None)


def _source_from(base: Path, source: SourceConfig) -> SourceConfig:
    def placed(part: Any) -> Any:
        return part if part is None or part.path is None else part.model_copy(update={"path": _absolute(base, part.path)})

    imagery = placed(source.imagery)
    return source.model_copy(
        update={
            "imagery": imagery.model_copy(update={"stac": placed(imagery.stac), "clouds": placed(imagery.clouds)}),
            **{name: tuple(placed(part) for part in getattr(source, name)) for name in ("pois", "footprints", "annotations")},
            "proposals": tuple(with_places(part, lambda path: _absolute(base, path)) for part in source.proposals),
        }
    )


def _screen_from(base: Path, screen: ScreenConfig) -> ScreenConfig:
    return screen.model_copy(update={screen.kind: _absolute(base, screen.path)})


def _store_from(base: Path, store: str | None) -> str | None:
    return store if store is None or "://" in store else str(_absolute(base, Path(store)))


def _absolute(base: Path, path: Path) -> Path:
    """Join and take out `..`, so that messages show the path as people write it."""
    return Path(os.path.normpath(base / path))


def check_names(config: ReleaseConfig) -> list[str]:
    """Return one line per axis, category or source that a configuration names and that does not exist.

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
    names = [source.name for source in config.sources]
    for split, listed in config.split.geographic.sources.items():
        problems += [
            f"split.geographic.sources.{split}: {name!r} is no source; they are {', '.join(names)}" for name in listed if name not in names
        ]
    for source in config.sources:
        around = source.scenes.around_pois
        key = "categories" if around is not None and around.categories else "quota"
        named = [(f"scenes.around_pois.{key}", category) for category in (around.wanted if around is not None else ())]
        named += [
            (f"pois.{k}.overpass.categories", c) for k, part in enumerate(source.pois) if part.overpass for c in part.overpass.categories
        ]
        named += [(f"proposals.{k}.categories", c) for k, part in enumerate(source.proposals) for c in part.categories]
        named += [(f"proposals.{k}.category", part.category) for k, part in enumerate(source.proposals) if part.category is not None]
        for place, category in named:
            if category not in taxonomy.by_id:
                near = ", ".join(difflib.get_close_matches(category, list(taxonomy.by_id), n=3) or sorted(taxonomy.by_id)[:8])
                problems.append(f"sources.{source.name}.{place}: {category!r} is not in taxonomy {config.taxonomy.name}; nearest: {near}")
    return problems + _series_problems(config)


def _series_problems(config: ReleaseConfig) -> list[str]:
    """One line per `same_as` that names no source, a follower, or a source of the same date."""
    by_name = {source.name: source for source in config.sources}
    problems: list[str] = []
    for source in config.sources:
        first = source.scenes.same_as
        place = f"sources.{source.name}.scenes.same_as"
        if first is None:
            continue
        if first not in by_name or first == source.name:
            problems.append(f"{place}: {first!r} is no other source; they are {', '.join(by_name)}")
        elif by_name[first].scenes.same_as is not None:
            problems.append(f"{place}: {first!r} itself follows {by_name[first].scenes.same_as!r}; name that one")
        elif any(by_name[name].imagery.acquired is None and by_name[name].imagery.stac is None for name in (first, source.name)):
            problems.append(f"{place}: a series needs imagery.acquired of both {first!r} and {source.name!r}")
        elif source.imagery.stac is None and source.imagery.acquired == by_name[first].imagery.acquired:
            problems.append(f"{place}: {first!r} and {source.name!r} are of the same date {source.imagery.acquired}; a series has several")
    return problems


def licensed_inputs(config: ReleaseConfig) -> list[tuple[str, LicensedPart, Licensed]]:
    """Return every input with the name of its source and the layer of a release that it goes into."""
    found: list[tuple[str, LicensedPart, Licensed]] = []
    for source in config.sources:
        layers: tuple[tuple[str, Layer, Sequence[Licensed]], ...] = (
            ("imagery", "pixels", (source.imagery,)),
            ("pois", "annotations", source.pois),
            ("footprints", "annotations", source.footprints),
            ("annotations", "annotations", source.annotations),
            ("proposals.drawn", "annotations", source.drawn_prompts),
            ("proposals", "annotations", source.traced),
        )
        for name, layer, parts in layers:
            found += [(source.name, LicensedPart(f"sources.{source.name}.{name}", layer, part.licence), part) for part in parts]
        if config.review.drawn is not None:
            found.append((source.name, LicensedPart("review.drawn", "annotations", config.review.drawn.licence), config.review.drawn))
    return found


def check_licences(config: ReleaseConfig) -> list[str]:
    """Return one line per input whose licence is unknown or does not allow the release, and per layer whose licences do not go together."""
    return licence_problems([part for _, part, _ in licensed_inputs(config)], config.licences.declared(), known_licences())


def check_files(config: ReleaseConfig) -> list[str]:
    """Return one line per input file of a configuration that is not there or has another digest than its `sha256`."""
    paths: list[tuple[str, Path | None, str | None]] = [("taxonomy", config.taxonomy, None)]
    for source in config.sources:
        imagery = source.imagery
        is_file = not imagery.is_fetched
        paths.append((f"sources.{source.name}.imagery", imagery.path, imagery.sha256 if is_file else None))
        paths += [(f"sources.{source.name}.imagery.stac", part.path, None) for part in (imagery.stac,) if part is not None]
        paths += [(f"sources.{source.name}.imagery.clouds", part.path, None) for part in (imagery.clouds,) if part is not None]
        for name in ("pois", "footprints", "annotations"):
            paths += [(f"sources.{source.name}.{name}", part.path, part.sha256) for part in getattr(source, name)]
        paths += [(f"sources.{source.name}.proposals.drawn", part.path, part.sha256) for part in source.drawn_prompts]
    paths += [("query.paraphrases", path, None) for path in config.query.paraphrases]
    paths += [(f"split.screen.{screen.name}", screen.path, None) for screen in config.split.screen]
    problems: list[str] = []
    for place, path, expected in paths:
        if path is None:
            continue
        if not path.is_file():
            problems.append(f"{place}: {path} does not exist")
        elif expected is not None and (found := digest_file(path)) != expected:
            problems.append(f"{place}: {path} has the SHA-256 {found}, expected {expected} (key sha256); it is another version of the file")
    return problems
