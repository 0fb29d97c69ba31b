"""COCO run-length masks: exact, checked before native code sees them, decoded only on request.

An RLE counts pixels down the columns, zeros first; its size is [height, width]. pycocotools does the work, but it trusts what it
is given: counts that overrun the mask write over the process's memory. So everything from outside passes `check_rle` or
`check_rles`, and only the `Rle` that these return goes on. Not here: polygons of masks (`trigpoint.geometry`), index maps.

Source: the format of cocoapi's maskApi.c (rleToString, rleFrString), as read by pycocotools.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import shapely
from numpy.typing import NDArray
from pycocotools import mask as pycocotools_mask

from trigpoint.errors import InputError
from trigpoint.masks.rasterise import crop_mask

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

native: Any = pycocotools_mask
"""pycocotools without its stubs, which know neither bytes nor lists of counts."""

MAX_PIXELS = 1 << 29
"""Largest mask, pixels (exclusive): with six characters per number, maskApi.c stays inside its 32-bit shifts."""

_MAX_CHARACTERS = 6
_CHUNK_CHARACTERS = 1 << 20
_FIRST_CHARACTER, _LAST_CHARACTER = 48, 111


class Rle(NamedTuple):
    """A mask whose counts have been checked.

    Attributes:
        height, width: Size in pixels.
        counts: Compressed counts, ASCII.
        area_px: Number of true pixels.
    """

    height: int
    width: int
    counts: bytes
    area_px: int

    @property
    def text(self) -> str:
        """The counts as a string, as releases and predictions store them."""
        return self.counts.decode("ascii")

    def to_coco(self) -> dict[str, Any]:
        """Return `{"size", "counts"}` as pycocotools takes it (counts in bytes)."""
        return {"size": [self.height, self.width], "counts": self.counts}

    def to_json(self) -> dict[str, Any]:
        """Return `{"size", "counts"}` as JSON holds it."""
        return {"size": [self.height, self.width], "counts": self.text}


class RleRequest(NamedTuple):
    """Something that claims to be an RLE.

    Attributes:
        item: What to call it in an error.
        value: `{"size", "counts"}`, or the counts alone: compressed (str, bytes) or a list of runs.
        size: (height, width) that it must have, pixels.
    """

    item: str
    value: Any
    size: tuple[int, int]


def encode_mask(mask: BoolArray) -> str:
    """Encode a mask as compressed counts.

    Args:
        mask: (height, width) bool; True is the instance. All False is allowed.

    Raises:
        InputError: not two-dimensional, not bool, without a pixel, or 2^29 pixels and more.

    >>> encode_mask(np.array([[0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], dtype=bool))
    '31200020'
    """
    return _encode(mask).text


def encode_labels(labels: NDArray[Any]) -> dict[int, str]:
    """Encode every value of an index map in one pass over it.

    Args:
        labels: (height, width) integer array, 0 = nothing.

    Returns:
        Value → compressed counts of the mask `labels == value`; sorted by value.

    >>> encode_labels(np.array([[0, 1], [2, 1]], dtype=np.uint16))
    {1: '22', 2: '112'}
    """
    height, width = labels.shape
    _check_pixels("labels", (height, width))
    flat = np.asfortranarray(labels).ravel(order="F")
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1]).astype(np.int64)
    stops = np.append(starts[1:], height * width)
    values = flat[starts].astype(np.int64)
    order = np.argsort(values, kind="stable")
    order = order[values[order] != 0]
    if not order.size:
        return {}
    found, first = np.unique(values[order], return_index=True)
    encoded: dict[int, str] = {}
    for value, members in zip(found.tolist(), np.split(order, first[1:]), strict=True):
        changes = np.column_stack([starts[members], stops[members]]).ravel()
        ends = changes if changes[-1] == height * width else np.append(changes, height * width)
        encoded[value] = _from_runs(np.diff(ends, prepend=0), height, width).text
    return encoded


def _encode(mask: BoolArray) -> Rle:
    if mask.ndim != 2 or mask.dtype != np.bool_:
        raise InputError(f"mask: expected a two-dimensional bool array, found {mask.ndim} dimensions of {mask.dtype}; use mask != 0")
    height, width = mask.shape
    _check_pixels("mask", (height, width))
    return _from_runs(_runs_of(mask), height, width)


def _runs_of(mask: BoolArray) -> IntArray:
    """Return the column-major runs of a mask, zeros first, looking closely at the rows and columns that hold it alone."""
    height, width = mask.shape
    rows = np.flatnonzero(mask.any(axis=1))
    if rows.size == 0:
        return np.array([height * width], dtype=np.int64)
    row0, row1 = int(rows[0]), int(rows[-1]) + 1
    cols = np.flatnonzero(mask[row0:row1].any(axis=0))
    col0, col1 = int(cols[0]), int(cols[-1]) + 1
    # one row per column of the mask, with a False at either end, so that every run starts and stops inside its row
    padded = np.zeros((col1 - col0, row1 - row0 + 2), dtype=np.int8)
    padded[:, 1:-1] = mask[row0:row1, col0:col1].T
    column, at = np.nonzero(padded[:, 1:] != padded[:, :-1])
    edges = (column + col0).astype(np.int64) * height + row0 + at
    # a run that reaches the foot of one column and goes on at the head of the next is one run
    starts, stops = edges[0::2], edges[1::2]
    is_gap = stops[:-1] != starts[1:]
    starts, stops = starts[np.concatenate([[True], is_gap])], stops[np.concatenate([is_gap, [True]])]
    changes = np.empty(2 * len(starts), dtype=np.int64)
    changes[0::2], changes[1::2] = starts, stops
    total = height * width
    ends = changes if changes[-1] == total else np.append(changes, total)
    return np.diff(ends, prepend=0)


def _from_runs(runs: IntArray, height: int, width: int) -> Rle:
    """Compress runs that are known to be right."""
    coco = native.frPyObjects({"size": [height, width], "counts": runs.tolist()}, height, width)
    return Rle(height, width, bytes(coco["counts"]), int(runs[1::2].sum()))


def _check_pixels(item: str, size: tuple[int, int]) -> None:
    if size[0] < 1 or size[1] < 1 or size[0] * size[1] >= MAX_PIXELS:
        raise InputError(f"{item}: size {list(size)} is not usable, expected [height, width] from 1 pixel to below 2^29 pixels")


def check_rle(value: Any, size: tuple[int, int], item: str = "rle") -> Rle:
    """Check one RLE; see `check_rles`.

    Raises:
        InputError: it is not a mask of that size; the message names `item` and what is wrong.

    >>> check_rle([5, 3, 16], (4, 6)).area_px
    3
    >>> check_rle([5, 3, 160], (4, 6), "annotation 3")
    Traceback (most recent call last):
    trigpoint.errors.InputError: annotation 3: runs sum to 168, expected 24 = 4 × 6 pixels
    """
    checked = check_rles([RleRequest(item, value, size)])[0]
    if isinstance(checked, InputError):
        raise checked
    return checked


def check_rles(requests: Sequence[RleRequest]) -> list[Rle | InputError]:
    """Check many RLEs in one pass, before any native code sees them.

    Runs must be whole numbers, none negative, and sum to height × width; a size that is given must be the expected one.
    Empty runs inside are allowed and taken out. Nothing is decoded.

    Returns:
        Per request the checked mask, or the error that says what is wrong with it.
    """
    results: list[Rle | InputError | None] = [None] * len(requests)
    texts: list[tuple[int, bytes]] = []
    for k, (item, value, size) in enumerate(requests):
        try:
            _check_pixels(item, size)
            counts = _counts_of(item, value, size)
            if isinstance(counts, bytes):
                texts.append((k, counts))
            else:
                results[k] = _from_runs(_tidy(_check_runs(item, counts, size)), *size)
        except InputError as error:
            results[k] = error
    _check_texts(requests, texts, results)
    return cast(list[Rle | InputError], results)


def _counts_of(item: str, value: Any, size: tuple[int, int]) -> bytes | list[Any]:
    if isinstance(value, dict):
        given = cast(dict[str, Any], value)
        if set(given) != {"size", "counts"}:
            raise InputError(f"{item}: an RLE has the keys size and counts, found {sorted(map(str, given))}")
        found = given["size"]
        if not isinstance(found, list | tuple) or [type(n) for n in cast(list[Any], found)] != [int, int]:
            raise InputError(f"{item}: size is {found!r}, expected two whole numbers [height, width] = {list(size)}")
        if tuple(cast(list[int], found)) != size:
            hint = "; height comes first" if tuple(cast(list[int], found)) == size[::-1] else ""
            raise InputError(f"{item}: size is {list(cast(list[int], found))}, expected [height, width] = {list(size)}{hint}")
        value = given["counts"]
    if isinstance(value, str):
        try:
            return value.encode("ascii")
        except UnicodeEncodeError as error:
            raise InputError(f"{item}: counts hold {value[error.start]!r}, which no COCO RLE has") from error
    if isinstance(value, bytes):
        return value
    if isinstance(value, list | tuple):
        return list(cast(list[Any], value))
    raise InputError(f"{item}: counts are {type(value).__name__}, expected a compressed string or a list of runs")


def _check_runs(item: str, counts: list[Any], size: tuple[int, int]) -> IntArray:
    for run in counts:
        if isinstance(run, bool) or not isinstance(run, int):
            raise InputError(f"{item}: run {run!r} is not a whole number")
        if run < 0:
            raise InputError(f"{item}: run {run} is negative")
    total = sum(counts)
    if total != size[0] * size[1]:
        raise InputError(f"{item}: runs sum to {total}, expected {size[0] * size[1]} = {size[0]} × {size[1]} pixels")
    return np.array(counts, dtype=np.int64)


def _tidy(runs: IntArray) -> IntArray:
    """Take out empty runs (but a first one), so that each string means one mask and native loops do not stop at them."""
    if not (runs[1:] == 0).any():
        return runs
    ends = np.cumsum(runs)
    is_one = np.arange(len(runs)) % 2 == 1
    kept, value = ends[runs > 0], is_one[runs > 0]
    if not kept.size:
        return runs[:1]
    is_last = np.append(value[1:] != value[:-1], True)
    merged = np.diff(kept[is_last], prepend=0)
    return np.concatenate([[0], merged]) if value[0] else merged


def _check_texts(requests: Sequence[RleRequest], texts: list[tuple[int, bytes]], results: list[Rle | InputError | None]) -> None:
    """Check compressed strings: characters and endings first, then the numbers of many good strings at once."""
    good: list[tuple[int, bytes]] = []
    for k, text in texts:
        item = requests[k].item
        codes = np.frombuffer(text, dtype=np.uint8)
        is_bad = (codes < _FIRST_CHARACTER) | (codes > _LAST_CHARACTER)
        if not text:
            results[k] = InputError(f"{item}: counts are empty")
        elif is_bad.any():
            at = int(np.flatnonzero(is_bad)[0])
            results[k] = InputError(f"{item}: counts hold {text[at : at + 1].decode('latin-1')!r} at {at}, which no COCO RLE has")
        elif (int(codes[-1]) - _FIRST_CHARACTER) & 0x20:
            results[k] = InputError(f"{item}: counts end in the middle of a number; the string was cut off")
        else:
            good.append((k, text))
    chunk = np.cumsum([len(text) for _, text in good]) // _CHUNK_CHARACTERS
    for number in np.unique(chunk):
        _check_numbers(requests, [good[i] for i in np.flatnonzero(chunk == number)], results)


def _check_numbers(requests: Sequence[RleRequest], good: list[tuple[int, bytes]], results: list[Rle | InputError | None]) -> None:
    runs, position, starts, stops, is_long = _parse([text for _, text in good])
    is_negative = np.logical_or.reduceat(runs < 0, starts)
    is_too_long = np.logical_or.reduceat(is_long, starts)
    has_empty = np.logical_or.reduceat((runs == 0) & (position > 0), starts)
    totals = np.add.reduceat(runs, starts)
    areas = np.add.reduceat(np.where(position % 2 == 1, runs, 0), starts)
    for i, (k, text) in enumerate(good):
        item, _, (height, width) = requests[k]
        if is_too_long[i]:
            results[k] = InputError(f"{item}: a number takes more than {_MAX_CHARACTERS} characters, so it is no run of this mask")
        elif is_negative[i]:
            results[k] = InputError(f"{item}: run {int(runs[starts[i] : stops[i]].min())} is negative")
        elif totals[i] != height * width:
            results[k] = InputError(f"{item}: runs sum to {totals[i]}, expected {height * width} = {height} × {width} pixels")
        elif has_empty[i]:
            results[k] = _from_runs(_tidy(runs[starts[i] : stops[i]]), height, width)
        else:
            results[k] = Rle(height, width, text, int(areas[i]))


class _Parsed(NamedTuple):
    """The runs of several strings, one after the other."""

    runs: IntArray
    position: IntArray
    starts: IntArray
    stops: IntArray
    is_long: BoolArray


def _parse(texts: list[bytes]) -> _Parsed:
    """Read compressed strings whose characters and endings are good. Numbers from the fourth on are differences to the last but one."""
    codes = np.frombuffer(b"".join(texts), dtype=np.uint8).astype(np.int64) - _FIRST_CHARACTER
    last = np.flatnonzero((codes & 0x20) == 0)
    first = np.concatenate([[0], last[:-1] + 1])
    characters = last - first + 1
    within = np.arange(len(codes)) - np.repeat(first, characters)
    is_long = characters > _MAX_CHARACTERS
    numbers = np.add.reduceat((codes & 0x1F) << (5 * np.minimum(within, _MAX_CHARACTERS)), first)
    numbers -= np.where((codes[last] & 0x10) > 0, np.int64(1) << (5 * np.minimum(characters, _MAX_CHARACTERS)), 0)

    stops = np.searchsorted(last, np.cumsum([len(text) for text in texts]) - 1) + 1
    starts = np.concatenate([[0], stops[:-1]])
    position = np.arange(len(numbers)) - np.repeat(starts, stops - starts)
    owner = np.repeat(np.arange(len(texts)), stops - starts)
    runs = numbers.copy()
    for chain in ((position % 2 == 1), (position % 2 == 0) & (position > 0)):
        runs[chain] = _cumulate(numbers[chain], owner[chain])
    return _Parsed(runs, position, starts, stops, is_long)


def _cumulate(values: IntArray, owner: IntArray) -> IntArray:
    """Return running sums that start anew with every owner."""
    if not values.size:
        return values
    sums = np.cumsum(values)
    first = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    before = sums[first] - values[first]
    return sums - np.repeat(before, np.diff(np.append(first, len(values))))


def decode_rle(counts: Any, size: tuple[int, int], item: str = "rle") -> BoolArray:
    """Decode counts to a mask (height, width), bool.

    Raises:
        InputError: the counts are not a mask of `size`.
    """
    return decode(check_rle(counts, size, item))


def decode(rle: Rle) -> BoolArray:
    """Decode a checked mask to (height, width) bool, column-major in memory."""
    runs = _parse([rle.counts]).runs
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(rle.width, rle.height).T


def rle_area(counts: Any, size: tuple[int, int], item: str = "rle") -> int:
    """Count the pixels of a mask without decoding it.

    Raises:
        InputError: the counts are not a mask of `size`.
    """
    return check_rle(counts, size, item).area_px


def rle_bbox(counts: Any, size: tuple[int, int], item: str = "rle") -> tuple[int, int, int, int] | None:
    """Return the pixel-edge box (x_min, y_min, x_max, y_max) of a mask, image coordinates; None of an empty one.

    Raises:
        InputError: the counts are not a mask of `size`.

    >>> rle_bbox([3, 1, 2, 1, 2, 1, 4, 1], (3, 5))
    (1, 0, 5, 3)
    """
    return bbox(check_rle(counts, size, item))


def bbox(rle: Rle) -> tuple[int, int, int, int] | None:
    """Return the pixel-edge box (x_min, y_min, x_max, y_max) of a checked mask; None of an empty one."""
    if rle.area_px == 0:
        return None
    x, y, width, height = (int(v) for v in native.toBbox(rle.to_coco()))
    return (x, y, x + width, y + height)


def rle_iou(first: Sequence[Any], second: Sequence[Any], size: tuple[int, int]) -> NDArray[np.float64]:
    """Return the IoU of every mask of one list with every mask of another, (len(first), len(second)).

    Two empty masks have the IoU 0.

    Raises:
        InputError: some counts are not a mask of `size`; names the list and the place in it.
    """
    return iou(
        [check_rle(value, size, f"first[{k}]") for k, value in enumerate(first)],
        [check_rle(value, size, f"second[{k}]") for k, value in enumerate(second)],
    )


def iou(first: Sequence[Rle], second: Sequence[Rle]) -> NDArray[np.float64]:
    """Return the IoU matrix (len(first), len(second)) of checked masks of one size; of two empty masks 0."""
    if not first or not second:
        return np.zeros((len(first), len(second)))
    found = native.iou([rle.to_coco() for rle in first], [rle.to_coco() for rle in second], [0] * len(second))
    return np.asarray(found, dtype=np.float64)


class MaskRuns(NamedTuple):
    """The true runs of several masks of one size, ready to be counted against another mask.

    Attributes:
        starts, stops: (n_runs,) places in the column-major pixels; a run is [start, stop).
        owner: (n_runs,) mask that a run belongs to.
        areas: (n_masks,) pixels of each mask.
    """

    starts: IntArray
    stops: IntArray
    owner: IntArray
    areas: IntArray


def true_runs(masks: Sequence[Rle]) -> MaskRuns:
    """List the true runs of checked masks of one size."""
    if not masks:
        return MaskRuns(*(np.zeros(0, dtype=np.int64) for _ in range(4)))
    parsed = _parse([rle.counts for rle in masks])
    owner = np.repeat(np.arange(len(masks)), parsed.stops - parsed.starts)
    stops = _cumulate(parsed.runs, owner)
    is_true = parsed.position % 2 == 1
    areas = np.array([rle.area_px for rle in masks], dtype=np.int64)
    return MaskRuns((stops - parsed.runs)[is_true], stops[is_true], owner[is_true], areas)


def covered_share(masks: MaskRuns, cover: Rle) -> NDArray[np.float64]:
    """Return, per mask, the share of its pixels that `cover` holds, in [0, 1]; of an empty mask 0. All of one size."""
    over = true_runs([cover])
    if not len(over.starts) or not len(masks.starts):
        return np.zeros(len(masks.areas))
    lengths = over.stops - over.starts
    before = np.cumsum(lengths) - lengths

    def count_until(places: IntArray) -> IntArray:
        """Pixels of `cover` before each place."""
        run = np.searchsorted(over.starts, places, side="right") - 1
        held = before[run] + np.minimum(places - over.starts[run], lengths[run])
        return np.where(run >= 0, held, 0)

    shared = np.bincount(masks.owner, weights=count_until(masks.stops) - count_until(masks.starts), minlength=len(masks.areas))
    return shared / np.maximum(masks.areas, 1)


def union(masks: Sequence[Rle], size: tuple[int, int]) -> Rle:
    """Return the union of checked masks of one size; of none the empty mask."""
    filled = [rle for rle in masks if rle.area_px]
    if not filled:
        return _from_runs(np.array([size[0] * size[1]], dtype=np.int64), *size)
    if len(filled) == 1:
        return filled[0]
    return _wrap(native.merge([rle.to_coco() for rle in filled]), size)


def intersection_px(first: Rle, second: Rle) -> int:
    """Count the pixels that two checked masks of one size share."""
    if first.area_px == 0 or second.area_px == 0:
        return 0
    if first.counts == second.counts:
        return first.area_px
    return int(native.area(native.merge([first.to_coco(), second.to_coco()], intersect=True)))


def _wrap(coco: dict[str, Any], size: tuple[int, int]) -> Rle:
    return Rle(size[0], size[1], bytes(coco["counts"]), int(native.area(coco)))


def rle_from_polygons(polygons: Any, size: tuple[int, int], item: str = "polygons") -> Rle:
    """Rasterise one instance given as COCO polygons: rings `[x1, y1, x2, y2, …]` whose union is meant.

    Rings cannot say that they are holes: an instance with a hole must be given as an RLE.

    Args:
        polygons: List of flat rings, image coordinates (pixel edges, x right, y down); may reach over the scene's edge.
        size: (height, width) of the scene, pixels.
        item: What to call it in an error.

    Raises:
        InputError: not such a list; a ring has fewer than three points, an odd or non-finite number, or crosses itself.

    Source: GDAL's pixel-centre rule, as everywhere in trigpoint. Differs: cocoapi's rleFrPoly rounds on a grid of a fifth of a pixel.

    >>> rle_from_polygons([[1, 1, 4, 1, 4, 3, 1, 3]], (8, 8)).area_px
    6
    """
    _check_pixels(item, size)
    if not isinstance(polygons, list) or not polygons:
        raise InputError(f"{item}: expected a list of rings [x1, y1, x2, y2, …], found {polygons!r}")
    shapes: list[shapely.Polygon] = []
    for k, ring in enumerate(cast(list[Any], polygons)):
        points = flat_numbers(ring)
        if points is None or len(points) < 6 or len(points) % 2:
            raise InputError(f"{item}: ring {k} is not a list of at least three points [x1, y1, x2, y2, …]")
        shape = shapely.Polygon(points.reshape(-1, 2))
        if not shape.is_valid:
            raise InputError(f"{item}: ring {k} is not a simple polygon ({shapely.is_valid_reason(shape)}); give an RLE instead")
        shapes.append(shape)
    height, width = size
    crop = crop_mask(shapely.union_all(shapes), height, width)
    mask = np.zeros(size, dtype=bool)
    mask[crop.slices] = crop.mask
    return _encode(mask)


def flat_numbers(value: Any) -> NDArray[np.float64] | None:
    """Return a list of finite numbers as an array (n,), or None when it is anything else (booleans are no numbers)."""
    if not isinstance(value, list | tuple):
        return None
    numbers = cast(list[Any], value)
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in numbers):
        return None
    try:
        array = np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None
    return array if np.isfinite(array).all() else None
