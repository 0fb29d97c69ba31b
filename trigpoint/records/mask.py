"""A mask on its way between people, proposers and the builder: exact, small, on its own."""

from typing import Annotated

from pydantic import Field

from trigpoint.records.base import Record

Pixels = Annotated[int, Field(ge=0, le=1 << 24)]
Side = Annotated[int, Field(ge=1, le=1 << 24)]


class MaskCrop(Record):
    """A mask in its smallest window of a scene: equal masks have equal records.

    Attributes:
        origin_px: Column and row of the window's top left pixel in the scene.
        size_px: Height and width of the window.
        counts: The window's mask as compressed COCO counts.
    """

    origin_px: tuple[Pixels, Pixels]
    size_px: tuple[Side, Side]
    counts: str = Field(min_length=1, max_length=1 << 24)
