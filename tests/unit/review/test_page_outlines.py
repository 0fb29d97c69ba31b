"""Masks to rings and back, drawings, splits: exact on any mask."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record, record_of_mask
from trigpoint.records.mask import MaskCrop
from trigpoint.review.page_outlines import Drawn, Runs, area_px_of, mask_of_drawn, rings_of, split_mask, union_of_masks, vertices_of

SIZE = (60, 70)
MASKS = hnp.arrays(bool, st.tuples(st.integers(1, 14), st.integers(1, 14))).filter(lambda mask: bool(mask.any()))


def points_of(ring: tuple[int, ...]) -> tuple[tuple[float, float], ...]:
    """As the page reads a ring: static/geometry.js."""
    x, y, *steps = ring
    points = [(float(x), float(y))]
    for k, step in enumerate(steps):
        x, y = (x + step, y) if k % 2 == 0 else (x, y + step)
        points.append((float(x), float(y)))
    return tuple(points)


def moved(record: MaskCrop) -> tuple[tuple[tuple[float, float], ...], ...]:
    return tuple(tuple((float(x), float(y)) for x, y in ring) for ring in vertices_of(record))


def pixels(record: MaskCrop) -> NDArray[np.bool_]:
    canvas = np.zeros(SIZE, dtype=bool)
    crop = crop_of_record(record, *SIZE)
    canvas[crop.slices] = crop.mask
    return canvas


@settings(max_examples=25)
@given(MASKS)
def test_rings_give_the_mask_back_bit_for_bit(mask: NDArray[np.bool_]) -> None:
    record = record_of_mask(mask, (7, 5))

    rings = tuple(points_of(ring) for ring in rings_of(record))

    assert mask_of_drawn(Drawn(after=rings), None, SIZE) == record
    assert area_px_of(record) == np.count_nonzero(mask)
    for ring in rings:
        for k, ((x0, y0), (x1, y1)) in enumerate(pairwise((*ring, ring[0]))):
            assert (x0 != x1, y0 != y1) == (k % 2 == 0, k % 2 == 1)


@settings(max_examples=25)
@given(MASKS)
def test_an_outline_that_nobody_moved_changes_no_pixel(mask: NDArray[np.bool_]) -> None:
    record = record_of_mask(mask, (7, 5))

    assert mask_of_drawn(Drawn(before=moved(record), after=moved(record)), record, SIZE) == record


@settings(max_examples=25)
@given(MASKS, st.integers(-4, 4), st.integers(-4, 4))
def test_a_moved_vertex_changes_pixels_only_between_both_outlines(mask: NDArray[np.bool_], dx: int, dy: int) -> None:
    record = record_of_mask(mask, (7, 5))
    before = moved(record)
    after = (((before[0][0][0] + dx, before[0][0][1] + dy), *before[0][1:]), *before[1:])
    try:
        made = pixels(mask_of_drawn(Drawn(before=before, after=after), record, SIZE))
    except InputError:
        return  # nothing was left

    def drawn(rings: tuple[tuple[tuple[float, float], ...], ...]) -> NDArray[np.bool_]:
        try:
            return pixels(mask_of_drawn(Drawn(after=rings), None, SIZE))
        except InputError:
            return np.zeros(SIZE, dtype=bool)

    same = drawn(before) == drawn(after)
    assert np.array_equal(made[same], pixels(record)[same])
    assert np.array_equal(made[~same], drawn(after)[~same])


@settings(max_examples=25)
@given(MASKS)
def test_a_brushed_mask_is_stored_as_it_is(mask: NDArray[np.bool_]) -> None:
    flat = mask.T.ravel()
    edges = [0, *(np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist(), flat.size]
    runs = [b - a for a, b in pairwise(edges)]
    runs = [0, *runs] if flat[0] else runs

    drawn = Drawn(mask=Runs(origin_px=(7, 5), size_px=(mask.shape[0], mask.shape[1]), runs=tuple(runs)))

    assert mask_of_drawn(drawn, None, SIZE) == record_of_mask(mask, (7, 5))


@settings(max_examples=25)
@given(MASKS, st.floats(4, 20), st.floats(4, 20))
def test_a_split_gives_every_pixel_to_exactly_one_piece(mask: NDArray[np.bool_], left: float, right: float) -> None:
    record = record_of_mask(mask, (7, 5))
    try:
        pieces = split_mask(record, [(0, left), (70, right)], SIZE)
    except InputError as error:
        assert "nothing to split" in str(error)
        return

    assert len(pieces) > 1
    assert np.array_equal(sum(pixels(piece).astype(int) for piece in pieces), pixels(record).astype(int))
    assert union_of_masks(pieces) == record


def test_a_mask_of_two_parts_splits_into_them_without_a_line() -> None:
    mask = np.zeros((6, 12), dtype=bool)
    mask[1:3, 1:4] = mask[2:5, 7:11] = True
    record = record_of_mask(mask, (0, 0))

    pieces = split_mask(record, [], SIZE)

    assert [area_px_of(piece) for piece in pieces] == [12, 6]
    with pytest.raises(InputError, match="of one part: nothing to split"):
        split_mask(pieces[0], [], SIZE)


def test_a_line_that_ends_inside_splits_nothing() -> None:
    record = record_of_mask(np.ones((20, 20), dtype=bool))

    with pytest.raises(InputError, match="does not cut the mask in two"):
        split_mask(record, [(-5, 10), (10, 10)], SIZE)


def test_a_ring_inside_is_a_hole_and_a_ring_inside_that_an_island() -> None:
    rings = tuple(((a, a), (b, a), (b, b), (a, b)) for a, b in ((0.0, 30.0), (5.0, 25.0), (10.0, 20.0)))

    record = mask_of_drawn(Drawn(after=rings), None, SIZE)

    assert area_px_of(record) == 900 - 400 + 100


def test_a_bow_tie_keeps_both_halves() -> None:
    record = mask_of_drawn(Drawn(after=(((0.0, 0.0), (20.0, 20.0), (0.0, 20.0), (20.0, 0.0)),)), None, SIZE)

    assert pixels(record)[2, 10]
    assert pixels(record)[17, 10]
    assert not pixels(record)[10, 2]
