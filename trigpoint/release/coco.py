"""Reading COCO annotation files strictly: nothing is dropped in silence, nothing overwrites anything.

Every annotation of a known image is kept. An id that comes again gets a new one, category 0 is a category like any other, and whatever
cannot be kept is a problem with its id. Not here: writing a release's own `exports/coco.json`, and what its shapes mean.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from trigpoint.errors import ReleaseError

ProblemCode = Literal[
    "duplicate_id", "duplicate_image_id", "duplicate_category_id", "unknown_image_id", "unknown_category_id", "malformed"
]  # fmt: skip
"""`malformed`: a row that lacks a key or holds a wrong type; its value is the row's place in its list, from 0."""


@dataclass(frozen=True)
class CocoAnnotation:
    """One annotation.

    Attributes:
        annotation_id: Unique in the file: as given, or a new one behind the largest given where it came again.
        given_id: As the file has it.
        file_name: Of its image.
        category: Name of its category; category ids may be 0.
        bbox_px: (x, y, width, height), pixel edges.
        segmentation: Polygons or run lengths as the file has them; None where there are none.
        is_crowd: Whether it stands for many things.
    """

    annotation_id: int
    given_id: int
    image_id: int
    file_name: str
    category_id: int
    category: str
    bbox_px: tuple[float, float, float, float]
    segmentation: Any
    is_crowd: bool


@dataclass(frozen=True)
class CocoProblem:
    """What is wrong with one id (or place) of the file."""

    code: ProblemCode
    value: int


@dataclass(frozen=True)
class CocoFile:
    """Everything that could be kept, and everything that is wrong, in the order of the file."""

    annotations: tuple[CocoAnnotation, ...]
    problems: tuple[CocoProblem, ...]


def read_coco(path: Path) -> CocoFile:
    """Read a COCO instances file.

    Args:
        path: JSON with `images`, `annotations` and `categories`.

    Returns:
        Annotations of known images and categories, each with an id of its own, and all problems. Of images or categories that share an id
        the first counts.

    Raises:
        ReleaseError: `path` cannot be read, is no JSON, or lacks one of the three lists.

    Source: cocodataset/cocoapi#95, pedropro/TACO#46: readers that keep annotations by id lose all but the last of one id. Differs: all are
        kept.
    """
    try:
        content: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise ReleaseError(f"{path}: cannot be read as JSON: {problem}") from problem
    lists = ("images", "annotations", "categories")
    if not isinstance(content, dict) or not all(isinstance(cast("dict[str, Any]", content).get(name), list) for name in lists):
        raise ReleaseError(f"{path}: expected an object with the lists {', '.join(lists)}")
    problems: list[CocoProblem] = []
    images = _names(content["images"], "file_name", "duplicate_image_id", problems)
    categories = _names(content["categories"], "name", "duplicate_category_id", problems)
    kept: list[CocoAnnotation] = []
    rows = cast("list[Any]", content["annotations"])
    free = 1 + max((row["id"] for row in rows if isinstance(row, dict) and type(cast("dict[str, Any]", row).get("id")) is int), default=0)
    seen: set[int] = set()
    for place, row in enumerate(rows):
        given = _annotation(row)
        if given is None:
            problems.append(CocoProblem("malformed", place))
            continue
        annotation_id = given["id"]
        if annotation_id in seen:
            problems.append(CocoProblem("duplicate_id", annotation_id))
            annotation_id, free = free, free + 1
        seen.add(annotation_id)
        unknown: list[CocoProblem] = []
        if given["image_id"] not in images:
            unknown.append(CocoProblem("unknown_image_id", given["image_id"]))
        if given["category_id"] not in categories:
            unknown.append(CocoProblem("unknown_category_id", given["category_id"]))
        problems += unknown
        if not unknown:
            x, y, width, height = (float(v) for v in given["bbox"])
            kept.append(
                CocoAnnotation(
                    annotation_id=annotation_id,
                    given_id=given["id"],
                    image_id=given["image_id"],
                    file_name=images[given["image_id"]],
                    category_id=given["category_id"],
                    category=categories[given["category_id"]],
                    bbox_px=(x, y, width, height),
                    segmentation=given.get("segmentation"),
                    is_crowd=bool(given.get("iscrowd", 0)),
                )
            )
    return CocoFile(tuple(kept), tuple(problems))


def _names(rows: list[Any], key: str, code: ProblemCode, problems: list[CocoProblem]) -> dict[int, str]:
    """Return id → name of images or categories; the first of an id counts."""
    names: dict[int, str] = {}
    for place, row in enumerate(rows):
        entry = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        if type(entry.get("id")) is not int or not isinstance(entry.get(key), str):
            problems.append(CocoProblem("malformed", place))
        elif entry["id"] in names:
            problems.append(CocoProblem(code, entry["id"]))
        else:
            names[entry["id"]] = entry[key]
    return names


def _annotation(row: Any) -> dict[str, Any] | None:
    """Return an annotation whose ids are whole numbers and whose box holds four finite ones, else None."""
    if not isinstance(row, dict):
        return None
    entry = cast("dict[str, Any]", row)
    box = entry.get("bbox")
    if any(type(entry.get(key)) is not int for key in ("id", "image_id", "category_id")) or not isinstance(box, list):
        return None
    numbers = cast("list[Any]", box)
    if len(numbers) != 4 or not all(isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v) for v in numbers):
        return None
    return entry
