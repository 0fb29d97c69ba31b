"""Cameras' turn tags: pictures whose pixels are stored in one frame (raw) and shown in another.

trigpoint works in the raw frame, and nothing it writes has such a tag. Annotations made in a program that turned the picture are
brought back here. Source: Exif 2.32, tag 0x0112 Orientation. Not here: reading the tag (`storage.rasters.exif_orientation`).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import InputError

Size = tuple[int, int]
"""Width and height, pixels."""

PixelBox = tuple[float, float, float, float]
"""x, y, width, height at pixel edges, as COCO has them."""

TRANSPOSED = (5, 6, 7, 8)
"""Orientations that swap width and height."""


def shown_size(raw: Size, orientation: int) -> Size:
    """Return the size of a picture as it is shown.

    >>> shown_size((300, 200), 6)
    (200, 300)
    """
    _check(orientation)
    return (raw[1], raw[0]) if orientation in TRANSPOSED else raw


def shown_from_raw(points: NDArray[np.float64], orientation: int, raw: Size) -> NDArray[np.float64]:
    """Map image points (n, 2) at pixel edges from the raw frame to the shown one."""
    _check(orientation)
    x, y = points[:, 0], points[:, 1]
    w, h = raw
    mapped = {
        1: (x, y), 2: (w - x, y), 3: (w - x, h - y), 4: (x, h - y),
        5: (y, x), 6: (h - y, x), 7: (h - y, w - x), 8: (y, w - x),
    }[orientation]  # fmt: skip
    return np.column_stack(mapped)


def raw_from_shown(points: NDArray[np.float64], orientation: int, raw: Size) -> NDArray[np.float64]:
    """Map image points (n, 2) at pixel edges from the shown frame back to the raw one."""
    back = {6: 8, 8: 6}.get(orientation, orientation)
    return shown_from_raw(points, back, shown_size(raw, orientation))


def raw_box_from_shown(box: PixelBox, orientation: int, raw: Size) -> PixelBox:
    """Map a box from the shown frame back to the raw one.

    >>> raw_box_from_shown((140.0, 30.0, 40.0, 50.0), 6, (300, 200))
    (30.0, 20.0, 50.0, 40.0)
    """
    return _mapped(box, raw_from_shown(_corners(box), orientation, raw))


def shown_box_from_raw(box: PixelBox, orientation: int, raw: Size) -> PixelBox:
    """Map a box from the raw frame to the shown one."""
    return _mapped(box, shown_from_raw(_corners(box), orientation, raw))


def frame_of_size(said: Size, raw: Size, orientation: int) -> Literal["raw", "shown"]:
    """Say which frame annotations are in, by the size that their file says the picture has.

    Raises:
        InputError: the size is that of neither frame; or the picture is square and turned, so that nobody can say.
    """
    shown = shown_size(raw, orientation)
    if said == raw and (said != shown or orientation == 1):
        return "raw"
    if said == shown != raw:
        return "shown"
    if said == raw:
        raise InputError(
            f"annotations are of a picture of {said[0]} × {said[1]} pixels with orientation {orientation}, which has this size turned or "
            "not; save the picture without the tag, and annotate that"
        )
    raise InputError(
        f"annotations are of a picture of {said[0]} × {said[1]} pixels, but it has {raw[0]} × {raw[1]} (shown: {shown[0]} × {shown[1]}); "
        "use the annotations of this picture"
    )


def _check(orientation: int) -> None:
    if not 1 <= orientation <= 8:
        raise InputError(f"orientation is {orientation}, expected 1 to 8; remove the tag from the picture")


def _corners(box: PixelBox) -> NDArray[np.float64]:
    x, y, w, h = box
    return np.array([[x, y], [x + w, y + h]])


def _mapped(box: PixelBox, corners: NDArray[np.float64]) -> PixelBox:
    (left, top), (right, bottom) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return (left, top, right - left, bottom - top)
