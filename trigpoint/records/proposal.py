"""What a proposer is asked and what it answers: prompts, raw answers, proposals, and the record that keeps an inference.

Image coordinates throughout: x right, y down, pixels, pixel edges at integers. Not here: making prompts and masks
(`trigpoint.proposals`), keeping records (`storage.proposals`).
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from trigpoint.records.base import Record, Sha256
from trigpoint.records.mask import MaskCrop
from trigpoint.records.scene import Window
from trigpoint.records.stage import ArtefactRef

ProposerName = Literal["vector", "classical", "sam2"]
PromptOrigin = Literal["poi", "footprint", "drawn", "automatic"]
DeviceClass = Literal["cpu", "cuda"]
PromptForm = Literal["box", "obb", "point", "mask"]
"""As what the outline of a thing is shown to a proposer."""

Pass = Literal["scene", "tiles"]
"""How a scene is looked at: as a whole, reduced to the size of a tile, or tile by tile in native pixels."""

ClassicalMethod = Literal["watershed", "random_walker"]
Point = tuple[float, float]


class BoxPrompt(Record):
    """An axis-aligned box (x_min, y_min, x_max, y_max)."""

    kind: Literal["box"] = "box"
    box_px: tuple[float, float, float, float]

    @model_validator(mode="after")
    def _has_area(self) -> "BoxPrompt":
        left, top, right, bottom = self.box_px
        if not (left < right and top < bottom):
            raise ValueError(f"box_px is {self.box_px}, expected x_min < x_max and y_min < y_max")
        return self


class PointsPrompt(Record):
    """Points with labels: 1 is on the thing, 0 is beside it.

    Attributes:
        obb_px: The oriented box that the points stand for, four corners in order; None where points were given as such.
        size_px: About how large the thing is, its longer side; None where nothing says it.
    """

    kind: Literal["points"] = "points"
    points_px: tuple[Point, ...] = Field(min_length=1)
    labels: tuple[Literal[0, 1], ...]
    obb_px: tuple[Point, Point, Point, Point] | None = None
    size_px: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _labelled(self) -> "PointsPrompt":
        if len(self.points_px) != len(self.labels) or 1 not in self.labels:
            raise ValueError(f"{len(self.points_px)} points have labels {self.labels}, expected one label each and at least one 1")
        return self


class MaskPrompt(Record):
    """A rough mask."""

    kind: Literal["mask"] = "mask"
    mask: MaskCrop


class AutomaticPrompt(Record):
    """Everything in sight: the proposer chooses."""

    kind: Literal["automatic"] = "automatic"


class Prompt(Record):
    """One question to a proposer, and whose it is.

    Attributes:
        shape: What is shown to it.
        origin: What the prompt was made from.
        source_id: Which POI, footprint or drawn box that is; `automatic` where there is none.
        categories: What the thing is, at most one taxonomy value per axis; empty where nothing says it.
    """

    shape: BoxPrompt | PointsPrompt | MaskPrompt | AutomaticPrompt = Field(discriminator="kind")
    origin: PromptOrigin
    source_id: str = Field(min_length=1)
    categories: tuple[str, ...] = ()


class ProposerIdentity(Record):
    """Who proposes.

    Attributes:
        proposer: Its name.
        model: The method or the model's configuration, such as `sam2.1_hiera_l`.
        version: Version of the package that computes, such as `sam2 1.1.0`.
        weights_sha256: Digest of the checkpoint; None without weights.
        device: Class of the device: results of one class agree closely, those of two need not.
    """

    proposer: ProposerName
    model: str
    version: str
    weights_sha256: Sha256 | None = None
    device: DeviceClass = "cpu"


class RawAnswer(Record):
    """A mask as a proposer gave it, before anything was cleaned, merged or left out.

    Attributes:
        prompt: Place of its prompt in the list of prompts.
        tile: The window of the scene that the proposer saw.
        reduced_by: How many scene pixels made one of the picture's pixels, along a side; 1 is the native picture.
        mask: In scene coordinates.
        score: The proposer's own estimate of the mask's IoU; None where it has none.
    """

    prompt: int = Field(ge=0)
    tile: Window
    reduced_by: int = Field(default=1, ge=1)
    mask: MaskCrop
    score: float | None = None


class MaskProposal(Record):
    """A mask that a machine proposes for one thing.

    Attributes:
        proposal_id: From scene, proposer and mask.
        mask: In scene coordinates; holes and parts as proposed.
        score: As of `RawAnswer`; where a mask was put together, the mean over its pieces by their pixels.
        prompt: What was asked.
        identity: Who proposed it.
        n_pieces: Answers from different tiles that it was put together from.
        specks_px: Pixels of small parts that were taken out of it.
        is_cut_by_tile: It ends at the edge of a tile, and no other tile goes on with it.
    """

    proposal_id: str
    scene_id: str
    mask: MaskCrop
    score: float | None = None
    prompt: Prompt
    identity: ProposerIdentity
    n_pieces: int = Field(default=1, ge=1)
    specks_px: int = Field(default=0, ge=0)
    is_cut_by_tile: bool = False


class ProposalRequest(Record):
    """What decides an inference, as far as the configuration and the inputs say it; a rebuild looks its record up by this.

    Attributes:
        image_sha256: The scene's pixels.
        prompts_sha256: All prompts, in order.
        parameters: What the proposer is told beside the prompts.
    """

    proposer: ProposerName
    model: str
    image_sha256: Sha256
    prompts_sha256: Sha256
    n_prompts: int = Field(ge=0)
    parameters: dict[str, Any] = {}


class InferenceRecord(Record):
    """That an inference was made, written before anything relies on it.

    Attributes:
        request: What was asked for.
        identity: Who answered, on which class of device.
        model_sha256: Digest of the weights with the model's configuration; of a proposer without weights, of its code.
        versions: Versions of the packages that computed.
        answers: Parquet artefact of the raw answers, with their prompts.
        n_answers: How many.
    """

    request: ProposalRequest
    identity: ProposerIdentity
    model_sha256: Sha256
    versions: dict[str, str]
    answers: ArtefactRef
    n_answers: int = Field(ge=0)
