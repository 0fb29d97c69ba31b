"""SAM 2 by the official package: boxes, points and masks in batches, and everything in sight.

The package is asked for masks alone; its box NMS is switched off, since duplicates are told by masks (`trigpoint.proposals.duplicates`).
Needs the extra `sam2` and a checkpoint; docs/proposals.md says where the official ones come from.
"""

import contextlib
import logging
import warnings
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import ConfigError, ModelError
from trigpoint.identity import digest_json
from trigpoint.masks.crops import crop_of_record
from trigpoint.proposals.masks import part_in
from trigpoint.proposals.proposer import Answer, RgbArray, crop_of_window
from trigpoint.proposals.settings import Sam2Settings
from trigpoint.records.proposal import BoxPrompt, DeviceClass, MaskPrompt, PointsPrompt, Prompt, ProposerIdentity
from trigpoint.records.scene import Window

INPUT_PX = 256
"""Side of a mask prompt as the model takes it."""

MASK_LOGIT = 10.0
"""Logit of a pixel of a mask prompt, and with a minus of one beside it: as sure as the model itself gets of clear pixels."""

NO_BOX_NMS = 2.0
"""A box IoU that no pair of boxes reaches."""

WHERE_CHECKPOINTS_ARE = (
    "the official ones are listed in the README of github.com/facebookresearch/sam2 and at huggingface.co/facebook, such as "
    "https://dl.fbaipublicfiles.com/segment_anything_2/092824/sam2.1_hiera_large.pt for config: sam2.1_hiera_l"
)
"""For messages."""

INSTALL = "pip install 'trigpoint[sam2]'"
"""For messages."""

_PACKAGES = ("torch", "torchvision", "sam2")
_log = logging.getLogger(__name__)


def missing_packages() -> list[str]:
    """Return the packages of the extra that are not installed, without importing any."""
    return [name for name in (*_PACKAGES, "hydra") if find_spec(name) is None]


def model_name(settings: Sam2Settings) -> str:
    """Return what the model is called: the package's name of its configuration, or the stem of the own file."""
    return settings.config if settings.config is not None else str(settings.config_file and settings.config_file.stem)


def model_digest(weights_sha256: str, config_sha256: str | None) -> str:
    """Return the digest of a model: its weights, with its configuration where that is a file of its own."""
    return weights_sha256 if config_sha256 is None else digest_json([weights_sha256, config_sha256])


def sam2_parameters(settings: Sam2Settings) -> dict[str, Any]:
    """Return what decides the answers of a model beside picture, prompts and weights."""
    return settings.model_dump(mode="json", include={"points_per_side", "min_predicted_iou", "min_stability"})


class Sam2Proposer:
    """A model with its weights in memory.

    Boxes, masks and several points are answered with one mask each. A single point is ambiguous: of the three masks that the model offers
    the one that it rates best is taken. A mask prompt is shown together with its box, which the model needs to find it.

    Answers depend on the batch size only by the rounding of sums: logits differ by about 1e-7, so that a pixel whose logit is that close
    to 0 may change sides. Two runs agree to a mask IoU of 0.999 and a score within 1e-4 (tested).

    Args:
        settings: Which model.
        weights_sha256: Digest of the checkpoint.

    Raises:
        ConfigError: the extra is not installed, the checkpoint or the configuration is not there or does not fit, or there is no such
            device.
    """

    def __init__(self, settings: Sam2Settings, weights_sha256: str) -> None:
        missing = missing_packages()
        if missing:
            raise ConfigError(f"proposer 'sam2' needs packages that are not installed ({', '.join(missing)}): {INSTALL}")
        self._settings = settings
        self._device = _device_of(settings)
        self._predictor: Any = _load(settings, self._device)
        self.versions = {name: version(name) for name in (*_PACKAGES, "numpy")}
        self.parameters = sam2_parameters(settings)
        self.identity = ProposerIdentity(
            proposer="sam2",
            model=model_name(settings),
            version=f"sam2 {self.versions['sam2']}",
            weights_sha256=weights_sha256,
            device=self._device,
        )

    def propose(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        """Answer prompts of any kind; masks at the size of the picture.

        Raises:
            ModelError: the model failed, such as for want of memory.
        """
        try:
            with _package("torch").inference_mode():
                return self._answers(image_rgb, prompts)
        except (RuntimeError, AssertionError) as error:  # what torch raises of everything, running out of memory included
            raise ModelError(
                f"model {self.identity.model!r} failed on a picture of {image_rgb.shape[1]} × {image_rgb.shape[0]} px with {len(prompts)} "
                f"prompts: {type(error).__name__}: {error}; where memory is short lower sam2.batch_size or tile_px"
            ) from error

    def _answers(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        answers: list[Answer] = []
        kinds = [_kind(prompt) for prompt in prompts]
        order = sorted((k for k in range(len(prompts)) if kinds[k][0] != "automatic"), key=lambda k: (kinds[k], k))
        if order:
            self._predictor.set_image(np.ascontiguousarray(image_rgb))
        # prompts of one kind and number of points alone: filling up with points that are none would change the answers
        for _, group in groupby(order, key=lambda k: kinds[k]):
            places = list(group)
            for first in range(0, len(places), self._settings.batch_size):
                batch = places[first : first + self._settings.batch_size]
                answers += self._batch([prompts[k] for k in batch], batch, image_rgb.shape[:2])
        for k in range(len(prompts)):
            if kinds[k][0] == "automatic":
                answers += self._automatic(image_rgb, k)
        self._predictor.reset_predictor()
        return sorted(answers, key=lambda answer: answer.prompt)

    def _batch(self, prompts: list[Prompt], places: list[int], size: tuple[int, ...]) -> list[Answer]:
        shapes = [prompt.shape for prompt in prompts]
        asked: dict[str, Any] = {"multimask_output": False}
        if isinstance(shapes[0], BoxPrompt):
            asked["box"] = np.array([shape.box_px for shape in shapes if isinstance(shape, BoxPrompt)])
        elif isinstance(shapes[0], PointsPrompt):
            points = [shape for shape in shapes if isinstance(shape, PointsPrompt)]
            asked["point_coords"] = np.array([shape.points_px for shape in points])
            asked["point_labels"] = np.array([shape.labels for shape in points])
            asked["multimask_output"] = len(points[0].points_px) == 1
        else:
            masks = [shape for shape in shapes if isinstance(shape, MaskPrompt)]
            asked["box"] = np.array([_box_of(shape) for shape in masks])
            asked["mask_input"] = np.stack([_logits_of(shape, (size[0], size[1])) for shape in masks])[:, None]
        found, scores, _ = self._predictor.predict(**asked)
        found = found.reshape(len(prompts), -1, *size) > 0
        scores = scores.reshape(len(prompts), -1)
        answers: list[Answer] = []
        for k, place in enumerate(places):
            best = int(np.argmax(scores[k]))
            crop = crop_of_window(found[k, best])
            if crop is not None:
                answers.append(Answer(place, crop, float(scores[k, best])))
        return answers

    def _automatic(self, image_rgb: RgbArray, place: int) -> list[Answer]:
        settings = self._settings
        with _quietly():
            generator: Any = _package("sam2.automatic_mask_generator").SAM2AutomaticMaskGenerator(
                self._predictor.model,
                points_per_side=settings.points_per_side,
                points_per_batch=settings.batch_size,
                pred_iou_thresh=settings.min_predicted_iou,
                stability_score_thresh=settings.min_stability,
                box_nms_thresh=NO_BOX_NMS,
                output_mode="uncompressed_rle",
            )
        found = generator.generate(np.ascontiguousarray(image_rgb))
        _log.info("%s: %d masks in a picture of %d × %d px", self.identity.model, len(found), image_rgb.shape[1], image_rgb.shape[0])
        answers: list[Answer] = []
        for each in found:
            crop = crop_of_window(_decoded(each["segmentation"]))
            if crop is not None:
                answers.append(Answer(place, crop, float(each["predicted_iou"])))
        return answers


def _kind(prompt: Prompt) -> tuple[str, int]:
    shape = prompt.shape
    return (shape.kind, len(shape.points_px) if isinstance(shape, PointsPrompt) else 0)


def _box_of(shape: MaskPrompt) -> tuple[float, float, float, float]:
    (col, row), (height, width) = shape.mask.origin_px, shape.mask.size_px
    return (col, row, col + width, row + height)


def _logits_of(shape: MaskPrompt, size: tuple[int, int]) -> NDArray[np.float32]:
    """A mask prompt as the model takes it: logits at the middles of the cells of its coarse grid, (256, 256)."""
    height, width = size
    full = part_in(crop_of_record(shape.mask, height, width, "mask prompt"), Window(col_off=0, row_off=0, width=width, height=height))
    rows = (np.arange(INPUT_PX) + 0.5) * height / INPUT_PX
    cols = (np.arange(INPUT_PX) + 0.5) * width / INPUT_PX
    coarse = full[np.ix_(rows.astype(int), cols.astype(int))]
    return np.where(coarse, MASK_LOGIT, -MASK_LOGIT).astype(np.float32)


def _decoded(rle: dict[str, Any]) -> NDArray[np.bool_]:
    height, width = rle["size"]
    counts = np.array(rle["counts"])
    return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape(width, height).T


def _device_of(settings: Sam2Settings) -> DeviceClass:
    has_gpu = bool(_package("torch").cuda.is_available())
    if settings.device == "cuda" and not has_gpu:
        raise ConfigError("sam2.device is 'cuda', and torch sees no such GPU here; say auto or cpu")
    return "cuda" if settings.device == "cuda" or (settings.device == "auto" and has_gpu) else "cpu"


@contextlib.contextmanager
def _quietly() -> Generator[None]:
    """Without a note of the package's own that nobody here can act on: torch.jit.script is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.script.*")
        yield


def _load(settings: Sam2Settings, device: DeviceClass) -> Any:
    """Build the official predictor with its weights."""
    for path, what in ((settings.checkpoint, "checkpoint"), (settings.config_file, "config_file")):
        if path is not None and not path.is_file():
            hint = WHERE_CHECKPOINTS_ARE if what == "checkpoint" else "give a YAML file of the package's form, or one of its own by config"
            raise ConfigError(f"sam2.{what}: {path} does not exist; {hint}")
    with _quietly():
        build, predictor = _package("sam2.build_sam"), _package("sam2.sam2_image_predictor")
    try:
        with _quietly(), _hydra_at(settings.config_file) as name_of:
            model = build.build_sam2(name_of(settings.config), str(settings.checkpoint), device=device)
            return predictor.SAM2ImagePredictor(model)
    except Exception as error:  # hydra, omegaconf, pickle and torch each have their own
        raise ConfigError(
            f"model {model_name(settings)!r} cannot be built from {settings.checkpoint}: {type(error).__name__}: {error}; "
            "is this the checkpoint of this configuration?"
        ) from error


@contextlib.contextmanager
def _hydra_at(config_file: Path | None) -> Generator[Callable[[str | None], str]]:
    """Point hydra at the configurations of the package, or at the folder of a file of one's own, and back to those of the package."""
    hydra = _package("hydra")
    state = _package("hydra.core.global_hydra").GlobalHydra.instance()
    state.clear()
    try:
        if config_file is None:
            with hydra.initialize_config_module("sam2", version_base="1.2"):
                yield lambda name: f"configs/{str(name).partition('_')[0]}/{name}.yaml"
        else:
            with hydra.initialize_config_dir(str(config_file.parent.resolve()), version_base="1.2"):
                yield lambda _name: config_file.name
    finally:
        state.clear()
        hydra.initialize_config_module("sam2", version_base="1.2")


def _package(name: str) -> Any:
    """Import a module of the extra, which is not there to be looked at where the extra is not installed."""
    return import_module(name)
