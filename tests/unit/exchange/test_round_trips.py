"""What goes out comes back bit for bit, or is named."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.exchange._made import (
    COUPLE,
    DEGREES,
    FIRST,
    RELEASE,
    SCENES,
    TURNED,
    WAYS,
    an_item,
    filled,
    masks,
    states_of,
    through_cvat,
    through_label_studio,
    value_of,
)
from trigpoint.exchange.brush import decode_brush, encode_brush
from trigpoint.exchange.cvat import mask_from_runs, runs_by_row
from trigpoint.exchange.items import Form
from trigpoint.exchange.merge import plan_import
from trigpoint.exchange.shapes import is_filled, is_plain_polygon

EXACT: list[tuple[str, Form]] = [
    ("gpkg", "polygon"), ("coco", "mask"), ("label-studio", "mask"), ("label-studio", "polygon"), ("cvat", "mask"), ("cvat", "polygon"),
]  # fmt: skip


@pytest.mark.parametrize(("way", "form"), EXACT)
@settings(max_examples=60)
@given(data=st.data())
def test_every_mask_comes_back_bit_for_bit(way: str, form: Form, data: st.DataObject) -> None:
    scene = data.draw(st.sampled_from([TURNED, DEGREES]))
    category = data.draw(st.sampled_from([("hut",), COUPLE, ("pond",)]))
    states = states_of(an_item(data.draw(masks(scene)), scene, 1, category), an_item(data.draw(masks(scene)), scene, 2))

    document = WAYS[way](states, form)

    assert document.problems == ()
    assert [(one.item_id, one.scene_id, one.value) for one in document.incoming] == [
        (state.item.item_id, scene.scene_id, value_of(state)) for state in states.values()
    ]
    assert all(one.notes == () for one in document.incoming)
    plan = plan_import(RELEASE, states, document, "ada", "annotator")
    assert plan.planned == plan.problems == plan.missing == ()
    assert set(plan.unchanged) == set(states)


@pytest.mark.parametrize("way", ["label-studio", "cvat"])
@settings(max_examples=60)
@given(data=st.data())
def test_boxes_come_back_as_unchanged_although_they_are_no_masks(way: str, data: st.DataObject) -> None:
    scene = data.draw(st.sampled_from([TURNED, DEGREES]))
    states = states_of(an_item(data.draw(masks(scene)), scene, 1, COUPLE))

    document = WAYS[way](states, "box")
    plan = plan_import(RELEASE, states, document, "ada", "annotator")

    assert plan.problems == plan.planned == ()
    assert plan.unchanged == tuple(states)
    assert "a box holds no outline" in document.incoming[0].notes[0]


def test_polygons_that_cannot_be_held_stay_masks() -> None:
    ring = filled(FIRST, 2, 2, 9, 9) & ~filled(FIRST, 4, 4, 3, 3)
    states = states_of(an_item(ring), an_item(filled(FIRST, 15, 2, 5, 5), number=2))

    for way in (through_label_studio, through_cvat):
        assert [one.form for one in way(states, "polygon").incoming] == ["mask", "polygon"]


@given(masks(TURNED))
def test_brush_and_row_runs_give_the_mask_back(mask: np.ndarray) -> None:
    assert np.array_equal(mask, decode_brush(json.loads(json.dumps(encode_brush(mask))), *mask.shape))
    runs = runs_by_row(mask)
    assert np.array_equal(mask, mask_from_runs(np.array(runs), *mask.shape))
    shorter = runs[:-1] if len(runs) % 2 else runs  # CVAT may leave the last zeros out
    assert np.array_equal(mask, mask_from_runs(np.array(shorter), *mask.shape))


def reference_encoding(values: list[int], sizes: tuple[int, ...] = (3, 4, 8, 16)) -> list[int]:
    """Label Studio's packing, bit by bit as its documents say, values one after the other where they differ."""
    bits = f"{len(values):032b}{7:05b}" + "".join(f"{size - 1:04b}" for size in sizes)
    at = 0
    while at < len(values):
        n = 1
        while at + n < len(values) and values[at + n] == values[at] and n < 1 << sizes[3]:
            n += 1
        if n == 1:
            while at + n < len(values) and n < 1 << sizes[0] and (at + n + 1 == len(values) or values[at + n] != values[at + n + 1]):
                n += 1
            bits += f"000{n - 1:0{sizes[0]}b}" + "".join(f"{value:08b}" for value in values[at : at + n])
        else:
            k = next(k for k, size in enumerate(sizes) if n <= 1 << size)
            bits += f"1{k:02b}{n - 1:0{sizes[k]}b}{values[at]:08b}"
        at += n
    bits += "0" * (-len(bits) % 8)
    return [int(bits[k : k + 8], 2) for k in range(0, len(bits), 8)]


@given(masks(TURNED), st.integers(1, 255), st.sampled_from([(3, 4, 8, 16), (2, 5, 9, 12)]))
def test_what_label_studio_itself_packs_is_read(mask: np.ndarray, opacity: int, sizes: tuple[int, ...]) -> None:
    values = [v for on in mask.ravel().tolist() for v in ([7, 9, 200, opacity] if on else [0, 0, 0, 0])]

    assert np.array_equal(mask, decode_brush(reference_encoding(values, sizes), *mask.shape))


def test_soft_edges_of_a_brush_count_from_half_its_strength() -> None:
    alphas = [0, 10, 49, 50, 99, 100]
    values = [v for alpha in alphas for v in (0, 0, 0, alpha)]

    assert decode_brush(reference_encoding(values), 1, 6).tolist() == [[False, False, False, True, True, True]]


def test_long_runs_are_cut_as_label_studio_cuts_them() -> None:
    mask = np.zeros((200, 301), dtype=bool)
    mask[100:] = True

    encoded = encode_brush(mask)

    values = np.repeat(np.where(mask.ravel(), 255, 0), 4).tolist()
    assert encoded == reference_encoding(values)
    assert np.array_equal(mask, decode_brush(encoded, 200, 301))


def test_a_hole_that_a_polygon_lost_is_no_edit() -> None:
    """A program that turns run lengths into polygons fills what it cannot hold."""
    ring = filled(FIRST, 2, 2, 9, 9) & ~filled(FIRST, 4, 4, 3, 3)
    states = states_of(an_item(ring))
    document = WAYS["coco"](states)
    shown = document.incoming[0]
    full = an_item(filled(FIRST, 2, 2, 9, 9)).value

    plan = plan_import(RELEASE, states, document._replace(incoming=(shown._replace(value=full, form="polygon"),)), "ada", "annotator")

    assert plan.planned == plan.problems == ()
    assert "holds no holes; those of the item are kept" in plan.remarks[0]


def test_what_is_plain_and_what_is_filled() -> None:
    ring = an_item(filled(FIRST, 2, 2, 9, 9) & ~filled(FIRST, 4, 4, 3, 3)).value
    full = an_item(filled(FIRST, 2, 2, 9, 9)).value
    apart = an_item(filled(FIRST, 0, 0, 1, 1) | filled(FIRST, 1, 1, 1, 1)).value

    masks: list[Any] = [ring.mask, full.mask, apart.mask]  # type: ignore[union-attr]
    assert [is_plain_polygon(mask) for mask in masks] == [False, True, False]
    assert (is_filled(masks[1], masks[0]), is_filled(masks[1], masks[1]), is_filled(masks[2], masks[0])) == (True, False, False)


def test_an_export_without_items_lists_its_scenes() -> None:
    for way in WAYS.values():
        document = way({})
        assert document.incoming == document.problems == ()
        assert document.scene_ids == (frozenset(SCENES))
