"""Targets with small pictures of their own, for tests of the two language stages."""

import io
from typing import Any

import numpy as np
from PIL import Image

from trigpoint.identity import seeded_generator
from trigpoint.language.provider import TargetRequest


def png(*content: Any) -> bytes:
    rows = (seeded_generator(0, *content).random((6, 9, 3)) * 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(rows).save(buffer, "PNG")
    return buffer.getvalue()


def target(category: str, candidates: tuple[str, ...] = ()) -> TargetRequest:
    pictures = {"outlined_png": png(category, "outlined"), "raw_png": png(category)}
    return TargetRequest(target_id=f"a-{category}", category=category, candidates=candidates, **pictures)


def targets(n: int) -> list[TargetRequest]:
    return [target(f"school {k}") for k in range(n)]
