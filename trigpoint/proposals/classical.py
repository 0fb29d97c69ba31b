"""Masks without weights: seeds grow to the edges of the picture. Plumbing for people to correct, with no claim of quality.

`benchmarks/proposals.py` measures it beside the trivial baselines (a box shrunk, a square at a point); docs/proposals.md has the figures.
Needs scikit-image.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import shapely
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.proposals.proposer import Answer, RgbArray, crop_of_window
from trigpoint.records.proposal import BoxPrompt, ClassicalMethod, PointsPrompt, Prompt, ProposerIdentity

CORE_SHARE = 0.4
"""The core of a box that is taken to lie on the thing: an ellipse (of an oriented box, the box itself) of this share of its sides."""

POINT_CORE_SHARE = 0.2
"""Radius around a positive point that is taken to lie on the thing, as a share of its size; half of it around a negative one."""

POINT_REACH_SHARE = 0.75
"""How far from the positive points a thing may reach at most, as a share of its size."""

PAD_SHARE, PAD_MIN_PX = 0.35, 6
"""What is looked at around the prompt, as a share of its longer side and at least in pixels."""

_UNKNOWN, _BESIDE, _ON = 0, 1, 2


class ClassicalProposer:
    """Compact watershed or random walker from seeds that a box, an oriented box or points give.

    An answer depends on the pixels around its prompt alone (`PAD_SHARE`): a tile that holds these gives the answer of the whole scene.

    Args:
        method: `watershed` floods the gradient of the grey picture, `random_walker` weighs paths by differences of colour.

    Source: compact watershed, Neubert and Protzel 2014; random walker, Grady 2006, both as in scikit-image. Compactness,
    smoothing and beta are those that did best on tree crowns, within the noise.
    """

    def __init__(self, method: ClassicalMethod = "watershed") -> None:
        self._method: ClassicalMethod = method
        self.versions = {name: version(name) for name in ("scikit-image", "scipy", "numpy")}
        self.parameters: dict[str, Any] = {"method": method}
        self.identity = ProposerIdentity(proposer="classical", model=method, version=f"scikit-image {self.versions['scikit-image']}")

    def propose(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        """Answer box and point prompts, each by itself from the pixels around it; no scores.

        Raises:
            InputError: a prompt is a mask or automatic, or a point without a size.
        """
        answers: list[Answer] = []
        for k, prompt in enumerate(prompts):
            seeds = _seeds(prompt, (image_rgb.shape[0], image_rgb.shape[1]))
            if seeds is None:
                continue
            height, width = seeds.markers.shape
            rgb = image_rgb[seeds.row_off : seeds.row_off + height, seeds.col_off : seeds.col_off + width]
            crop = crop_of_window(_grow(rgb, seeds.markers, self._method), seeds.row_off, seeds.col_off)
            if crop is not None:
                answers.append(Answer(k, crop, None))
        return answers


class _Seeds(NamedTuple):
    row_off: int
    col_off: int
    markers: NDArray[np.int32]


def _seeds(prompt: Prompt, size: tuple[int, int]) -> _Seeds | None:
    """Seeds in the window around a prompt; None where no part of it is in the picture."""
    shape = prompt.shape
    if isinstance(shape, BoxPrompt):
        outer: Any = shapely.box(*shape.box_px)
    elif isinstance(shape, PointsPrompt) and shape.obb_px is not None:
        outer = shapely.Polygon(shape.obb_px)
    elif isinstance(shape, PointsPrompt):
        if shape.size_px is None:
            raise InputError(
                f"prompt {prompt.source_id!r}: nothing says how large the thing at this point is, and the proposer 'classical' needs that; "
                "set point_size_m"
            )
        on = [point for point, label in zip(shape.points_px, shape.labels, strict=True) if label]
        outer = shapely.box(*shapely.MultiPoint(on).buffer(POINT_REACH_SHARE * shape.size_px).bounds)
    else:
        raise InputError(
            f"prompt {prompt.source_id!r} is of kind {shape.kind!r}, and the proposer 'classical' takes boxes and points alone"
        )
    left, top, right, bottom = outer.bounds
    pad = max(PAD_MIN_PX, PAD_SHARE * max(right - left, bottom - top))
    row0, row1 = max(0, int(top - pad)), min(size[0], int(np.ceil(bottom + pad)))
    col0, col1 = max(0, int(left - pad)), min(size[1], int(np.ceil(right + pad)))
    if row1 <= row0 or col1 <= col0:
        return None
    y, x = np.mgrid[row0:row1, col0:col1] + 0.5
    markers = np.full(x.shape, _UNKNOWN, dtype=np.int32)
    markers[~shapely.contains_xy(outer, x, y)] = _BESIDE
    markers[_core(shape, x, y)] = _ON
    if isinstance(shape, PointsPrompt) and shape.size_px is not None:
        for (px, py), label in zip(shape.points_px, shape.labels, strict=True):
            if not label:
                markers[np.hypot(x - px, y - py) <= POINT_CORE_SHARE / 2 * shape.size_px] = _BESIDE
    return _Seeds(row0, col0, markers) if (markers == _ON).any() else None


def _core(shape: BoxPrompt | PointsPrompt, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Pixels that are taken to lie on the thing; at least the one nearest to the middle of the prompt."""
    if isinstance(shape, BoxPrompt):
        left, top, right, bottom = shape.box_px
        middle = ((left + right) / 2, (top + bottom) / 2)
        core = ((x - middle[0]) / (right - left)) ** 2 + ((y - middle[1]) / (bottom - top)) ** 2 <= (CORE_SHARE / 2) ** 2
    elif shape.obb_px is not None:
        corners = np.array(shape.obb_px)
        middle = tuple(corners.mean(axis=0))
        core = shapely.contains_xy(shapely.Polygon(corners.mean(axis=0) + CORE_SHARE * (corners - corners.mean(axis=0))), x, y)
    else:
        radius = POINT_CORE_SHARE * (shape.size_px or 0.0)
        on = [point for point, label in zip(shape.points_px, shape.labels, strict=True) if label]
        middle = on[0]
        core = np.zeros(x.shape, dtype=bool)
        for px, py in on:
            core |= np.hypot(x - px, y - py) <= radius
    away = np.hypot(x - middle[0], y - middle[1])
    return core | ((away == away.min()) & (away <= 1))


def _grow(rgb: RgbArray, markers: NDArray[np.int32], method: ClassicalMethod) -> NDArray[np.bool_]:
    from skimage import color, filters
    from skimage import segmentation as skimage_segmentation

    segmentation: Any = skimage_segmentation  # its stubs take whole numbers for compactness
    if not (markers == _UNKNOWN).any() or not (markers == _BESIDE).any():
        return markers == _ON
    if method == "watershed":
        gradient = filters.sobel(filters.gaussian(color.rgb2gray(rgb), 1.5))
        return segmentation.watershed(gradient, markers, compactness=1e-3) == _ON
    colours = filters.gaussian(color.rgb2lab(rgb) / 100, 1, channel_axis=-1)
    return segmentation.random_walker(colours, markers, beta=300, mode="cg_j", prob_tol=0.1, channel_axis=-1) == _ON
