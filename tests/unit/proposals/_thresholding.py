"""A proposer whose answers are known: the 4-connected parts of what is bright."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from trigpoint.masks.rasterise import CropMask
from trigpoint.proposals.proposer import Answer, RgbArray, crop_of_window
from trigpoint.records.proposal import AutomaticPrompt, Prompt, ProposerIdentity

AUTOMATIC = [Prompt(shape=AutomaticPrompt(), origin="automatic", source_id="automatic")]


class Thresholding:
    """Automatic prompts: every bright part; all others: everything bright inside the picture."""

    identity = ProposerIdentity(proposer="classical", model="threshold", version="test 1")
    parameters: dict[str, Any] = {}
    versions: dict[str, str] = {}

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def propose(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        self.seen.append((image_rgb.shape[0], image_rgb.shape[1]))
        bright = image_rgb[..., 0] > 127
        parts, _ = ndimage.label(bright)
        answers: list[Answer] = []
        for k, prompt in enumerate(prompts):
            if prompt.shape.kind == "automatic":
                for part, (rows, cols) in enumerate(ndimage.find_objects(parts), start=1):
                    answers.append(Answer(k, CropMask(rows.start, cols.start, parts[rows, cols] == part), 0.5))
            elif (crop := crop_of_window(bright)) is not None:
                answers.append(Answer(k, crop, 0.5))
        return answers


def picture_of(mask: NDArray[np.bool_]) -> RgbArray:
    """Bright where the mask is."""
    return np.repeat(np.where(mask, np.uint8(250), np.uint8(5))[..., None], 3, axis=2)
