"""The proposer that believes: what is drawn in a vector file, rasterised by the one pixel rule, is the mask."""

from collections.abc import Sequence
from typing import Any

import trigpoint
from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record
from trigpoint.proposals.proposer import Answer, RgbArray
from trigpoint.records.proposal import MaskPrompt, Prompt, ProposerIdentity


class VectorProposer:
    """Gives every mask prompt back; `trigpoint.proposals.prompts` has rasterised it by the pixel-centre rule."""

    identity = ProposerIdentity(proposer="vector", model="pixel centres", version=f"trigpoint {trigpoint.__version__}")
    parameters: dict[str, Any] = {}
    versions: dict[str, str] = {"trigpoint": trigpoint.__version__}

    def propose(self, image_rgb: RgbArray, prompts: Sequence[Prompt]) -> list[Answer]:
        """Return the masks of the prompts.

        Raises:
            InputError: a prompt is not a mask.
        """
        height, width = image_rgb.shape[:2]
        answers: list[Answer] = []
        for k, prompt in enumerate(prompts):
            if not isinstance(prompt.shape, MaskPrompt):
                raise InputError(
                    f"prompt {prompt.source_id!r} is of kind {prompt.shape.kind!r}, and the proposer 'vector' takes masks alone"
                )
            answers.append(Answer(k, crop_of_record(prompt.shape.mask, height, width, prompt.source_id), None))
        return answers
