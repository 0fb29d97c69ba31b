"""Overlapping tiles of a scene: who is asked where, and how the pieces of a thing that tiles cut become one again.

At no time is more than one tile of the picture, and the masks of one batch, in memory; answers are kept as run lengths. Not here: the
proposers, duplicates (`trigpoint.proposals.duplicates`).
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.imagery.tiling import windows_overlap
from trigpoint.masks.crops import record_of_mask
from trigpoint.masks.rasterise import CropMask
from trigpoint.proposals.masks import PieceMasks, overlap_of, union_crop
from trigpoint.proposals.prompts import prompt_bounds, prompt_in_tile
from trigpoint.proposals.proposer import Picture, Proposer, RgbArray
from trigpoint.records.proposal import AutomaticPrompt, Pass, Prompt, RawAnswer
from trigpoint.records.scene import Window

BoolArray = NDArray[np.bool_]

SEAM_AGREEMENT = 0.8
"""Share of a cut piece, where a neighbouring tile sees it too, that a mask of that tile must have in common with it to go on with it."""


class Tiling(NamedTuple):
    """How a scene is looked at.

    Attributes:
        tile_px: Side of a tile; scenes that fit into one are not cut.
        overlap_px: What neighbouring tiles share, less than half a tile.
        passes: `tiles` looks at native pixels tile by tile; `scene` at the whole scene at once, reduced to the size of a tile: large things
            are seen whole, small ones hardly.
    """

    tile_px: int = 1024
    overlap_px: int = 256
    passes: tuple[Pass, ...] = ("tiles",)


def tiles_of(height: int, width: int, tile_px: int, overlap_px: int) -> list[Window]:
    """Cover a scene with tiles of one size, row by row; the last ones are shifted inside, so that they overlap more.

    Raises:
        InputError: the overlap is less than a pixel, so that nothing could be joined, or half a tile and more.

    >>> [tile.as_tuple() for tile in tiles_of(8, 14, 8, 3)]
    [(0, 0, 8, 8), (5, 0, 8, 8), (6, 0, 8, 8)]
    """
    if not 0 < 2 * overlap_px < tile_px:
        raise InputError(f"tiles of {tile_px} px that overlap by {overlap_px} px; expected an overlap from 1 to below half a tile")
    rows, cols = (_starts(extent, tile_px, tile_px - overlap_px) for extent in (height, width))
    return [
        Window(col_off=col, row_off=row, width=min(tile_px, width - col), height=min(tile_px, height - row)) for row in rows for col in cols
    ]


def _starts(extent: int, tile_px: int, step: int) -> list[int]:
    last = max(0, extent - tile_px)
    return [*range(0, last, step), last]


def ask_scene(
    proposer: Proposer, picture: Picture, prompts: Sequence[Prompt], tiling: Tiling, said: Callable[[int, int], None] = lambda _k, _n: None
) -> list[RawAnswer]:
    """Ask a proposer about a whole scene, in the passes and tiles that `tiling` says.

    A prompt is asked in the one tile that holds it with the most around it; where no tile holds it whole, in a tile of its own around
    its middle; where it is larger than a tile, in every tile that it meets (its pieces are put together by `join_pieces`). An automatic
    prompt is asked in every tile.

    Args:
        proposer: Who is asked.
        picture: The scene.
        prompts: In scene coordinates.
        tiling: Passes and tiles.
        said: Told how many of how many windows are done.

    Returns:
        Raw answers in scene coordinates, in a fixed order.
    """
    height, width = picture.size_px
    work: list[tuple[Window, int, list[int]]] = []
    for each in tiling.passes:
        is_whole = max(height, width) <= tiling.tile_px
        if each == "scene" or is_whole:
            reduced_by = 1 if is_whole else -(-max(height, width) // tiling.tile_px)
            job = (Window(col_off=0, row_off=0, width=width, height=height), reduced_by, list(range(len(prompts))))
            work += [job] if job not in work else []
        else:
            work += [(tile, 1, places) for tile, places in _asked_where(prompts, height, width, tiling)]
    answers: list[RawAnswer] = []
    for k, (tile, reduced_by, places) in enumerate(work):
        seen = [(place, prompt_in_tile(prompts[place], tile, reduced_by)) for place in places]
        here = [(place, prompt) for place, prompt in seen if prompt is not None]
        if here:
            rgb = _reduced(picture, tile, reduced_by)
            for answer in proposer.propose(rgb, [prompt for _, prompt in here]):
                crop = _in_scene(answer.crop, tile, reduced_by)
                mask = record_of_mask(crop.mask, (crop.col_off, crop.row_off))
                place = here[answer.prompt][0]
                answers.append(RawAnswer(prompt=place, tile=tile, reduced_by=reduced_by, mask=mask, score=answer.score))
        said(k + 1, len(work))
    return answers


def _asked_where(prompts: Sequence[Prompt], height: int, width: int, tiling: Tiling) -> list[tuple[Window, list[int]]]:
    """Which prompts are asked in which tiles; tiles in their order, then the tiles of single prompts."""
    tiles = tiles_of(height, width, tiling.tile_px, tiling.overlap_px)
    of_tile: list[list[int]] = [[] for _ in tiles]
    own: list[tuple[Window, list[int]]] = []
    for place, prompt in enumerate(prompts):
        bounds = prompt_bounds(prompt.shape)
        if bounds is None:
            for each in of_tile:
                each.append(place)
            continue
        left, top, right, bottom = bounds
        left, top, right, bottom = max(0.0, left), max(0.0, top), min(float(width), right), min(float(height), bottom)
        room = [_room((left, top, right, bottom), tile, height, width) for tile in tiles]
        best = int(np.argmax(room))
        if room[best] >= 0:
            of_tile[best].append(place)
        elif max(right - left, bottom - top) <= tiling.tile_px:
            own.append((_tile_around((left + right) / 2, (top + bottom) / 2, height, width, tiling.tile_px), [place]))
        else:
            for k, tile in enumerate(tiles):
                if prompt_in_tile(prompt, tile) is not None:
                    of_tile[k].append(place)
    return [(tile, places) for tile, places in zip(tiles, of_tile, strict=True) if places] + own


def _room(bounds: tuple[float, float, float, float], tile: Window, height: int, width: int) -> float:
    """Pixels around a box up to the nearest edge of a tile beyond which there is more scene; below 0 when the tile cuts it."""
    left, top, right, bottom = bounds
    ahead = [
        left - tile.col_off if tile.col_off > 0 else np.inf,
        top - tile.row_off if tile.row_off > 0 else np.inf,
        tile.col_off + tile.width - right if tile.col_off + tile.width < width else np.inf,
        tile.row_off + tile.height - bottom if tile.row_off + tile.height < height else np.inf,
    ]
    return float(min(ahead))


def _tile_around(x: float, y: float, height: int, width: int, tile_px: int) -> Window:
    cols, rows = min(tile_px, width), min(tile_px, height)
    col, row = (min(max(0, round(middle - size / 2)), extent - size) for middle, size, extent in ((x, cols, width), (y, rows, height)))
    return Window(col_off=col, row_off=row, width=cols, height=rows)


def _reduced(picture: Picture, tile: Window, reduced_by: int) -> RgbArray:
    """Read a window, or its means over squares of pixels, strip by strip, so that no more than a tile is in memory."""
    if reduced_by == 1:
        return picture.read(tile)
    height, width = -(-tile.height // reduced_by), -(-tile.width // reduced_by)
    out = np.empty((height, width, 3), dtype=np.uint8)
    for k in range(height):
        rows = min(reduced_by, tile.height - k * reduced_by)
        strip = picture.read(Window(col_off=tile.col_off, row_off=tile.row_off + k * reduced_by, width=tile.width, height=rows))
        sums = np.add.reduceat(strip.sum(axis=0, dtype=np.int64), np.arange(0, tile.width, reduced_by), axis=0)
        counts = rows * np.minimum(reduced_by, tile.width - np.arange(0, tile.width, reduced_by))
        out[k] = np.rint(sums / counts[:, None]).astype(np.uint8)
    return out


def _in_scene(crop: CropMask, tile: Window, reduced_by: int) -> CropMask:
    """Move a mask from a tile's picture to the scene, every pixel of a reduced one as the square that it stands for."""
    mask = crop.mask
    row, col = crop.row_off * reduced_by, crop.col_off * reduced_by
    if reduced_by > 1:
        mask = mask.repeat(reduced_by, axis=0).repeat(reduced_by, axis=1)[: tile.height - row, : tile.width - col]
    return CropMask(tile.row_off + row, tile.col_off + col, mask)


class Joined(NamedTuple):
    """Answers put together; the mask is the union of theirs (`joined_crop`).

    Attributes:
        members: Places of the answers that it is made of, sorted.
        score: Mean of their scores by pixels; None when one has none.
        is_cut: A piece of it ends at the edge of its tile, inside the scene, and no other piece goes on there.
    """

    members: tuple[int, ...]
    score: float | None
    is_cut: bool


def join_pieces(answers: Sequence[RawAnswer], prompts: Sequence[Prompt], height: int, width: int) -> list[Joined]:
    """Put the pieces together that tiles made of one thing.

    Pieces of a prompt that was asked in several tiles belong together. Of automatic masks, one that is cut by an inner edge of its tile
    is joined to the mask of an overlapping tile that goes on with it: looked at is each connected part, in the overlap, of the cut mask
    that reaches its tile's edge; the mask of the other tile must have `SEAM_AGREEMENT` of it, and of several the one that agrees best
    with the cut mask over the whole overlap is taken. Masks that no tile cuts are left alone, however they overlap.

    For a proposer that marks the connected components of some property of pixels this gives back the components of the whole scene
    exactly, whatever their shape, with tiles that overlap by one pixel or more: a connected part of an overlap lies in one component of
    either tile, and every step of a path over a tile's edge lies wholly in another tile.

    Args:
        answers: Raw answers of one proposer about one scene.
        prompts: The prompts that they are to.
        height: Rows of the scene.
        width: Columns of the scene.
    """
    parent = list(range(len(answers)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    masks = PieceMasks([answer.mask for answer in answers])
    goes_on: set[tuple[int, str]] = set()
    by_tile: dict[Window, list[int]] = {}
    of_prompt: dict[tuple[int, bool], int] = {}
    for k, answer in enumerate(answers):
        if isinstance(prompts[answer.prompt].shape, AutomaticPrompt):
            if answer.reduced_by == 1:
                by_tile.setdefault(answer.tile, []).append(k)
        else:
            parent[root(k)] = root(of_prompt.setdefault((answer.prompt, answer.reduced_by > 1), k))
    for first, second in combinations(by_tile, 2):
        if windows_overlap(first, second):
            for here, there in ((first, second), (second, first)):
                for piece, side, other in _continued(by_tile[here], by_tile[there], here, there, masks, (height, width)):
                    parent[root(piece)] = root(other)
                    goes_on.add((piece, side))
    groups: dict[int, list[int]] = {}
    for k in range(len(answers)):
        groups.setdefault(root(k), []).append(k)
    joined: list[Joined] = []
    for members in sorted(groups.values()):
        areas = [masks.area(k) for k in members]
        scores = [answers[k].score for k in members]
        known = [score for score in scores if score is not None]
        score = float(np.average(known, weights=areas)) if len(known) == len(members) else None
        cut = [
            (k, side)
            for k in members
            if answers[k].reduced_by == 1 and isinstance(prompts[answers[k].prompt].shape, AutomaticPrompt)
            for side in _cut_sides(masks.crop(k), answers[k].tile, (height, width))
        ]
        joined.append(Joined(tuple(members), score, any(each not in goes_on for each in cut)))
    return joined


def joined_crop(joined: Joined, answers: Sequence[RawAnswer]) -> CropMask:
    """Return the mask of what was put together, in its window of the scene."""
    masks = PieceMasks([answers[k].mask for k in joined.members])
    return union_crop([masks.crop(k) for k in range(len(joined.members))])


_SIDES = ("left", "top", "right", "bottom")


def _cut_sides(crop: CropMask, tile: Window, size: tuple[int, int]) -> list[str]:
    """Sides of a tile, inside the scene, that a mask reaches."""
    height, width = crop.mask.shape
    reaches = {
        "left": tile.col_off > 0 and crop.col_off == tile.col_off,
        "top": tile.row_off > 0 and crop.row_off == tile.row_off,
        "right": tile.col_off + tile.width < size[1] and crop.col_off + width == tile.col_off + tile.width,
        "bottom": tile.row_off + tile.height < size[0] and crop.row_off + height == tile.row_off + tile.height,
    }
    return [side for side in _SIDES if reaches[side]]


def _edge_in(tile: Window, side: str, shared: Window, other: Window) -> tuple[slice, slice] | None:
    """Where an edge of a tile lies in the overlap, as slices of the overlap's array; None where the other tile does not look beyond it."""
    if side == "left" and other.col_off < tile.col_off == shared.col_off:
        return (slice(None), slice(0, 1))
    if side == "top" and other.row_off < tile.row_off == shared.row_off:
        return (slice(0, 1), slice(None))
    if side == "right" and other.col_off + other.width > tile.col_off + tile.width == shared.col_off + shared.width:
        return (slice(None), slice(-1, None))
    if side == "bottom" and other.row_off + other.height > tile.row_off + tile.height == shared.row_off + shared.height:
        return (slice(-1, None), slice(None))
    return None


def _continued(
    pieces: list[int], others: list[int], tile: Window, other_tile: Window, masks: PieceMasks, size: tuple[int, int]
) -> list[tuple[int, str, int]]:
    """Say which masks of another tile go on with the cut masks of a tile: (piece, side of its tile, mask of the other tile)."""
    from scipy import ndimage  # 0.2 s to import, and planning needs none of it

    label: Any = ndimage.label  # its stubs say that it may return a number
    shared = overlap_of(tile, other_tile)
    found: list[tuple[int, str, int]] = []
    near = [k for k in others if masks.meets(k, shared)]
    for piece in pieces:
        edges = {
            side: edge
            for side in _cut_sides(masks.crop(piece), tile, size)
            if (edge := _edge_in(tile, side, shared, other_tile)) is not None
        }
        if not edges or not masks.meets(piece, shared):
            continue
        here = masks.within(piece, shared)
        parts, _ = label(here)
        there = {k: masks.within(k, shared) for k in near if masks.boxes_meet(piece, k)}
        agreement = {k: np.count_nonzero(here & mask) / max(1, np.count_nonzero(here | mask)) for k, mask in there.items()}
        for side, edge in edges.items():
            for part in sorted({int(value) for value in np.unique(parts[edge])} - {0}):
                mask_of_part = parts == part
                n = np.count_nonzero(mask_of_part)
                fit = [k for k, mask in there.items() if np.count_nonzero(mask & mask_of_part) >= SEAM_AGREEMENT * n]
                if fit:
                    found.append((piece, side, max(fit, key=lambda k: (agreement[k], -k))))
    return found
