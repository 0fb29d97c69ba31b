"""What a configuration says of proposals: who proposes, from which prompts, and what is left out. Imported by `trigpoint.config`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from trigpoint.records.base import Record, Sha256
from trigpoint.records.proposal import ClassicalMethod, DeviceClass, Pass, PromptForm, ProposerName

Share = Annotated[float, Field(ge=0, le=1)]
PromptsFrom = Literal["pois", "footprints", "drawn", "automatic"]

SAME_THING_IOU = 0.8
"""Two masks with this IoU or more are one thing, by default."""

OFFICIAL_CONFIGS = (
    "sam2_hiera_t", "sam2_hiera_s", "sam2_hiera_b+", "sam2_hiera_l",
    "sam2.1_hiera_t", "sam2.1_hiera_s", "sam2.1_hiera_b+", "sam2.1_hiera_l",
)  # fmt: skip
"""Configurations that come with the package sam2 1.1."""


SAM2_PLACES = ("device", "batch_size")
"""Keys of a block `sam2` that a release does not depend on: recorded answers say on which device they were made."""


class DrawnConfig(Record):
    """Boxes (or any outlines) that a person drew for a proposer, each with its category."""

    path: Path = Field(description="GeoJSON, GeoPackage, ...")
    licence: str = Field(min_length=1, description="SPDX id of the licence")
    attribution: str = Field(min_length=1, description="The text that the licence asks to be shown")
    url: str | None = None
    sha256: Sha256 | None = Field(default=None, description="The file must have this digest")
    layer: str | None = Field(default=None, description="Layer of a GeoPackage")
    crs: str | None = Field(default=None, description="CRS to use when the file has none")
    id_property: str | None = Field(default=None, description="Property that identifies a feature; else its geometry does")
    id_prefix: str = ""
    category_property: str = Field(default="category", description="Property that holds a taxonomy category (or several, joined by +)")


class ClassicalSettings(Record):
    """Masks without weights."""

    method: ClassicalMethod = Field(default="watershed", description="watershed: compact; random_walker: slower, for points")


class Sam2Settings(Record):
    """A SAM 2 model: the official package, and a checkpoint that you have."""

    checkpoint: Path = Field(description="The .pt file; docs/proposals.md says where the official ones come from")
    sha256: Sha256 | None = Field(
        default=None, description="The checkpoint must have this digest; with it recorded answers are found where the file is not"
    )
    config: str | None = Field(default=None, description=f"A configuration of the package: {', '.join(OFFICIAL_CONFIGS)}")
    config_file: Path | None = Field(default=None, description="A configuration of your own (YAML); it decides which code runs: trust it")
    device: Literal["auto"] | DeviceClass = Field(default="auto", description="auto: a GPU where there is one")
    batch_size: int = Field(default=16, ge=1, le=1024, description="Prompts at once; changes the memory needed, not the answers")
    points_per_side: int = Field(default=32, ge=1, le=256, description="automatic: points along a side of a tile")
    min_predicted_iou: Share = Field(default=0.8, description="automatic: masks that the model itself rates lower are left out")
    min_stability: Share = Field(default=0.95, description="automatic: masks that a slightly other threshold changes more are left out")

    @model_validator(mode="after")
    def _one_config(self) -> "Sam2Settings":
        if (self.config is None) == (self.config_file is None):
            raise ValueError("needs either config (of the package) or config_file (your own)")
        if self.config is not None and self.config not in OFFICIAL_CONFIGS:
            raise ValueError(f"config is {self.config!r}, expected one of {', '.join(OFFICIAL_CONFIGS)}; your own goes into config_file")
        return self


class ProposalsConfig(Record):
    """One proposer and its prompts. Its masks are instances that nobody has reviewed."""

    proposer: ProposerName = Field(description="sam2: a model; classical: no weights, plumbing; vector: outlines as they are")
    prompts: PromptsFrom = Field(description="What it is asked about; automatic: everything in sight")
    prompt_as: PromptForm | None = Field(
        default=None,
        description="How an outline is shown: box (the default), obb (points in and around its oriented box), point, mask; POIs are points",
    )
    drawn: DrawnConfig | None = Field(default=None, description="prompts: drawn: the file")
    categories: tuple[str, ...] = Field(default=(), description="Prompts of these categories and those below them alone; none: all")
    category: str | None = Field(default=None, description="automatic: what its masks are called until people say otherwise")
    point_size_m: float | None = Field(default=None, gt=0, description="About how large the thing at a POI is; else the taxonomy says it")
    replaces: bool = Field(default=False, description="footprints: a footprint with a proposal is a prompt alone, and no instance")
    tile_px: int = Field(default=1024, ge=64, le=8192, description="Side of the square that a proposer sees at once, native pixels")
    overlap_px: int = Field(
        default=256, ge=1, description="What neighbouring tiles share: more than most things measure, below half a tile"
    )
    passes: tuple[Pass, ...] = Field(default=("tiles",), min_length=1, description="tiles: native pixels; scene: reduced to one tile")
    speck_px: int = Field(default=25, ge=0, description="Parts of a mask with fewer pixels are taken out, and that is recorded")
    min_px: int = Field(default=100, ge=1, description="Masks with fewer pixels are dropped")
    min_score: float | None = Field(default=None, description="Masks with a lower score of the model's own are dropped")
    duplicate_iou: float = Field(default=SAME_THING_IOU, gt=0, le=1, description="Mask IoU from which two masks are one thing")
    edition: int = Field(
        default=1, ge=1, description="Raise it to have recorded answers made anew, with other libraries or on another device"
    )
    classical: ClassicalSettings = ClassicalSettings()
    sam2: Sam2Settings | None = Field(default=None, description="proposer: sam2: checkpoint and how it is asked")

    @model_validator(mode="after")
    def _fits(self) -> "ProposalsConfig":
        if (self.proposer == "sam2") != (self.sam2 is not None):
            raise ValueError(
                f"proposer is {self.proposer!r}; the block sam2 (checkpoint and config) goes with proposer: sam2, and only with it"
            )
        if (self.prompts == "drawn") != (self.drawn is not None):
            raise ValueError("the block drawn (a vector file) goes with prompts: drawn alone")
        if self.prompts in ("pois", "automatic") and self.prompt_as is not None:
            raise ValueError(f"prompt_as is for outlines, and prompts are {self.prompts!r}: leave it out")
        if self.prompts == "automatic" and self.categories:
            raise ValueError("categories chooses among prompts, and prompts: automatic has none; category says what its masks are")
        if self.category is not None and self.prompts != "automatic":
            raise ValueError("category is for prompts: automatic; all other prompts say what they are")
        if self.prompts == "automatic" and self.category is None and self.proposer != "classical":
            raise ValueError("prompts: automatic needs category: what its masks are called until people say otherwise in review")
        if self.proposer == "classical" and (self.prompts == "automatic" or self.prompt_as == "mask"):
            raise ValueError("proposer: classical takes boxes, oriented boxes and points alone")
        if self.proposer == "vector" and (self.prompts != "drawn" or self.prompt_as not in (None, "mask")):
            raise ValueError("proposer: vector takes outlines as they are: prompts: drawn, no prompt_as (footprints have their own key)")
        if self.replaces and self.prompts != "footprints":
            raise ValueError("replaces is for prompts: footprints")
        if 2 * self.overlap_px >= self.tile_px:
            raise ValueError(f"overlap_px is {self.overlap_px}, expected less than half of tile_px {self.tile_px}")
        if len(set(self.passes)) != len(self.passes):
            raise ValueError(f"passes are {list(self.passes)}, expected each once")
        return self

    @property
    def form(self) -> PromptForm:
        """As what an outline is shown."""
        return "mask" if self.proposer == "vector" else self.prompt_as or "box"


def with_places(config: ProposalsConfig, absolute: Callable[[Path], Path]) -> ProposalsConfig:
    """Return the settings with every path made absolute."""
    drawn, sam2 = config.drawn, config.sam2
    if drawn is not None:
        drawn = drawn.model_copy(update={"path": absolute(drawn.path)})
    if sam2 is not None:
        own = None if sam2.config_file is None else absolute(sam2.config_file)
        sam2 = sam2.model_copy(update={"checkpoint": absolute(sam2.checkpoint), "config_file": own})
    return config.model_copy(update={"drawn": drawn, "sam2": sam2})
