"""What every proposer is: it sees a picture and prompts, and answers with masks. Not here: tiles, cleaning, records of inferences."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trigpoint.masks.rasterise import CropMask
from trigpoint.records.proposal import Prompt, ProposerIdentity
from trigpoint.records.scene import Window

RgbArray = NDArray[np.uint8]


class Answer(NamedTuple):
    """One mask of a picture.

    Attributes:
        prompt: Place of its prompt in the list that was given.
        crop: The mask in its window of the picture; at least one pixel.
        score: The proposer's own estimate of the mask's IoU, or None.
    """

    prompt: int
    crop: CropMask
    score: float | None


class Proposer(Protocol):
    """Proposes masks for prompts; adapters import their library when they are made."""

    @property
    def identity(self) -> ProposerIdentity:
        """Who this is."""
        ...

    @property
    def parameters(self) -> dict[str, Any]:
        """What decides its answers beside picture, prompts and weights, as plain JSON."""
        ...

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that compute."""
        ...

    def propose(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        """Answer all prompts about one picture.

        Args:
            image_rgb: (height, width, 3) uint8.
            prompts: In the picture's pixels.

        Returns:
            At most one answer per prompt, and any number for an automatic one; in the order of the prompts. No answer is an empty mask.

        Raises:
            InputError: it cannot use a prompt of this kind.
            ModelError: the model failed.
        """
        ...


class Picture(Protocol):
    """A picture that is read window by window."""

    @property
    def size_px(self) -> tuple[int, int]:
        """Height and width."""
        ...

    def read(self, window: Window) -> RgbArray:
        """Return (height, width, 3) uint8 of a window that lies inside."""
        ...


class ArrayPicture:
    """A picture that is an array already; windows are views of it."""

    def __init__(self, rgb: RgbArray) -> None:
        self._rgb = rgb

    @property
    def size_px(self) -> tuple[int, int]:
        """Height and width."""
        return (self._rgb.shape[0], self._rgb.shape[1])

    def read(self, window: Window) -> RgbArray:
        """Return a view of a window."""
        return self._rgb[window.row_off : window.row_off + window.height, window.col_off : window.col_off + window.width]


def crop_of_window(mask: NDArray[np.bool_], row_off: int = 0, col_off: int = 0) -> CropMask | None:
    """Return a mask in its smallest window, or None when it has no pixel.

    Args:
        mask: (height, width) bool.
        row_off: Row of its top left pixel.
        col_off: Column of its top left pixel.
    """
    rows, cols = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if rows.size == 0:
        return None
    window = np.array(mask[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1], order="C")
    return CropMask(row_off + int(rows[0]), col_off + int(cols[0]), window)
