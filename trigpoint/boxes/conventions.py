"""Other people's oriented boxes as exports of ours: four corners are the record, angles are not.

Corners are (4, 2) image coordinates, clockwise on screen. Angles turn clockwise on screen (y down), degrees.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Convention = Literal["le90", "le135", "opencv_0_90", "opencv_m90_0"]
"""le90: long side's angle in [-90, 90); le135: in [-45, 135); opencv_0_90: width side's angle in (0, 90] (OpenCV ≥ 4.5.1);
opencv_m90_0: in [-90, 0) (OpenCV before)."""

_RANGES = {"le90": (-90.0, 90.0), "le135": (-45.0, 135.0)}


class AngledBox(NamedTuple):
    """Centre, sides and angle of the first side: (cx, cy, width, height, angle_deg)."""

    cx: float
    cy: float
    width: float
    height: float
    angle_deg: float


def corners_from_angled_box(box: AngledBox) -> NDArray[np.float64]:
    """Return the four corners (4, 2), clockwise on screen, first the one of smallest y, then smallest x.

    >>> corners_from_angled_box(AngledBox(2, 1, 4, 2, 0.0)).tolist()
    [[0.0, 0.0], [4.0, 0.0], [4.0, 2.0], [0.0, 2.0]]
    """
    # halves of an exact quarter turn stay exact
    cos, sin = (
        (math.cos(math.radians(box.angle_deg)), math.sin(math.radians(box.angle_deg))) if box.angle_deg % 90 else _quarter(box.angle_deg)
    )
    u, v = np.array([cos, sin]) * box.width / 2, np.array([-sin, cos]) * box.height / 2
    centre = np.array([box.cx, box.cy])
    return first_corner_first(np.array([centre - u - v, centre + u - v, centre + u + v, centre - u + v]))


def _quarter(angle_deg: float) -> tuple[float, float]:
    return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(angle_deg // 90) % 4]


def first_corner_first(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Roll corners (4, 2) so that the one of smallest y, then smallest x (to 1e-9 px) comes first; the sense is kept."""
    first = min(range(4), key=lambda k: (round(float(corners[k, 1]), 9), round(float(corners[k, 0]), 9)))
    return np.roll(corners, -first, axis=0)


def angled_box_from_corners(corners: NDArray[np.float64], convention: Convention) -> AngledBox:
    """Express corners (4, 2) in another convention; see `Convention` for ranges."""
    centre = corners.mean(axis=0)
    side_a, side_b = corners[1] - corners[0], corners[2] - corners[1]
    length_a, length_b = float(np.hypot(*side_a)), float(np.hypot(*side_b))
    if convention in _RANGES:
        long = side_a if length_a >= length_b else side_b
        low, _ = _RANGES[convention]
        angle = (math.degrees(math.atan2(long[1], long[0])) - low) % 180.0 + low
        return AngledBox(float(centre[0]), float(centre[1]), max(length_a, length_b), min(length_a, length_b), angle)
    angle = math.degrees(math.atan2(side_a[1], side_a[0]))
    width, height = length_a, length_b
    in_range = (lambda a: 0.0 < a <= 90.0) if convention == "opencv_0_90" else (lambda a: -90.0 <= a < 0.0)
    # each quarter turn swaps the sides
    while not in_range(angle):
        angle += 90.0 if angle <= (0.0 if convention == "opencv_0_90" else -90.0) else -90.0
        width, height = height, width
    return AngledBox(float(centre[0]), float(centre[1]), width, height, angle)


class DotaObject(NamedTuple):
    """One line of a DOTA label file: corners (4, 2) as written, category as written, difficult flag."""

    corners: NDArray[np.float64]
    category: str
    is_difficult: bool


class DotaFile(NamedTuple):
    """What a DOTA label file says: its objects, its ground pixel in metres if stated, and its bad lines: number → problem."""

    objects: list[DotaObject]
    gsd_m: float | None
    problems: dict[int, str]


def parse_dota(text: str) -> DotaFile:
    r"""Read a DOTA label file; header lines are optional, categories may hold spaces, bad lines are named and do not stop the others.

    >>> parsed = parse_dota("gsd:0.15\n0 0 4 0 4 2 0 2 storage tank 1\n1 2 3 ship 0\n")
    >>> parsed.objects[0].category, parsed.gsd_m, parsed.problems
    ('storage tank', 0.15, {3: 'expected 8 numbers, a category and 0 or 1; found 3 numbers'})
    """
    objects: list[DotaObject] = []
    gsd_m: float | None = None
    problems: dict[int, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("imagesource:"):
            continue
        if words[0].startswith("gsd:"):
            stated = _number(words[0].removeprefix("gsd:"))
            gsd_m = stated if stated is not None and stated > 0 else None
            continue
        values = [value for value in map(_number, words[:8]) if value is not None]
        if len(values) < 8 or len(words) < 10:
            n_numbers = next((k for k, word in enumerate(words) if _number(word) is None), len(words))
            problems[number] = f"expected 8 numbers, a category and 0 or 1; found {n_numbers} numbers"
        elif words[-1] not in ("0", "1"):
            problems[number] = f"difficult is {words[-1]!r}, expected 0 or 1"
        else:
            objects.append(DotaObject(np.array(values).reshape(4, 2), " ".join(words[8:-1]), words[-1] == "1"))
    return DotaFile(objects, gsd_m, problems)


def _number(word: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def dota_line(corners: NDArray[np.float64], category: str, is_difficult: bool) -> str:
    """Write one DOTA label: eight coordinates, the category with `-` for spaces, the difficult flag.

    >>> dota_line(np.array([[0, 0], [4, 0], [4, 2], [0, 2]], dtype=float), "round tank", False)
    '0.000 0.000 4.000 0.000 4.000 2.000 0.000 2.000 round-tank 0'
    """
    numbers = " ".join(f"{value:.3f}" for value in corners.ravel())
    return f"{numbers} {category.replace(' ', '-')} {int(is_difficult)}"
