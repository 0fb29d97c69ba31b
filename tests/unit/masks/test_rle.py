import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pycocotools import mask as pycocotools_mask

from trigpoint.errors import InputError
from trigpoint.masks.rle import (
    RleRequest,
    bbox,
    check_rle,
    check_rles,
    covered_share,
    decode,
    decode_rle,
    encode_labels,
    encode_mask,
    intersection_px,
    iou,
    rle_area,
    rle_bbox,
    rle_from_polygons,
    rle_iou,
    true_runs,
    union,
)

MASKS = hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12))


def runs_of(mask: np.ndarray) -> list[int]:
    """Column-major runs, pixel by pixel: the definition, not the implementation."""
    runs, value = [0], False
    for pixel in mask.flatten(order="F"):
        if bool(pixel) != value:
            runs.append(0)
            value = not value
        runs[-1] += 1
    return runs


@given(MASKS)
@settings(deadline=None)
def test_encoding_and_decoding_gives_the_mask_back(mask: np.ndarray) -> None:
    counts = encode_mask(mask)

    assert np.array_equal(mask, decode_rle(counts, mask.shape))
    assert int(mask.sum()) == rle_area(counts, mask.shape)


@given(MASKS)
@settings(deadline=None)
def test_encoding_gives_the_string_of_pycocotools(mask: np.ndarray) -> None:
    expected = pycocotools_mask.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"]

    assert expected.decode() == encode_mask(mask)


@given(MASKS)
@settings(deadline=None)
def test_lists_of_runs_and_compressed_strings_mean_the_same(mask: np.ndarray) -> None:
    assert check_rle(runs_of(mask), mask.shape) == check_rle(encode_mask(mask), mask.shape)


@given(st.lists(st.text(st.characters(min_codepoint=40, max_codepoint=120), max_size=12), min_size=1, max_size=6))
@settings(deadline=None, max_examples=300)
def test_any_string_is_refused_or_has_runs_that_fill_the_mask(texts: list[str]) -> None:
    for text, checked in zip(texts, check_rles([RleRequest(f"mask {k}", text, (5, 7)) for k, text in enumerate(texts)]), strict=True):
        if not isinstance(checked, InputError):
            assert decode(checked).sum() == checked.area_px, text


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12))
@settings(deadline=None)
def test_empty_runs_inside_are_taken_out_without_changing_the_mask(runs: list[int]) -> None:
    total = sum(runs)
    if total == 0:
        return
    pixels = np.concatenate([np.full(run, k % 2 == 1) for k, run in enumerate(runs)])

    checked = check_rle(runs, (total, 1))

    assert np.array_equal(pixels, decode(checked)[:, 0])
    assert encode_mask(pixels.reshape(-1, 1)) == checked.text


def test_empty_runs_inside_a_compressed_string_are_taken_out() -> None:
    # runs 2, 1, 0, 1, 4 of a 4 × 2 mask: two true pixels in a row
    untidy = "2100" + "4"  # the fourth number is stored as 1 - 1, the fifth as 4 - 0

    checked = check_rle(untidy, (4, 2))

    assert decode(checked)[:, 0].tolist() == [False, False, True, True]
    assert checked.text == encode_mask(decode(checked))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param("3", "sum to 3", id="short"),
        pytest.param("é", "which no COCO RLE has", id="not-ascii"),
        pytest.param("a b", "which no COCO RLE has", id="space"),
        pytest.param("1a", "cut off", id="cut-off"),
        pytest.param("PPPPPPPP0", "more than 6 characters", id="overlong"),
        pytest.param("O", "negative", id="negative"),
        pytest.param([True, 23], "not a whole number", id="bool"),
        pytest.param([float("nan")], "not a whole number", id="nan"),
        pytest.param([10**30, 1], "sum to", id="huge"),
        pytest.param(None, "NoneType", id="none"),
        pytest.param({"counts": "H1"}, "keys size and counts", id="no-size"),
        pytest.param({"size": [6, 4], "counts": [24]}, "height comes first", id="swapped"),
        pytest.param({"size": [4.0, 6], "counts": [24]}, "two whole numbers", id="float-size"),
        pytest.param({"size": "46", "counts": [24]}, "two whole numbers", id="text-size"),
    ],
)
def test_what_is_no_mask_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(InputError, match=f"(?s)query 'q-1' mask 2: .*{message}"):
        check_rle(value, (4, 6), "query 'q-1' mask 2")


def test_one_bad_mask_does_not_touch_the_others_of_its_batch() -> None:
    good = encode_mask(np.eye(4, dtype=bool))

    checked = check_rles([RleRequest(str(k), value, (4, 4)) for k, value in enumerate([good, "1a", good, "zz", [3], good])])

    assert [not isinstance(c, InputError) for c in checked] == [True, False, True, False, False, True]
    assert all(c.area_px == 4 for c in checked if not isinstance(c, InputError))


@given(hnp.arrays(bool, (3, 6, 5)), hnp.arrays(bool, (2, 6, 5)))
@settings(deadline=None)
def test_iou_union_and_intersection_are_those_of_the_pixels(first: np.ndarray, second: np.ndarray) -> None:
    a = [check_rle(encode_mask(m), (6, 5)) for m in first]
    b = [check_rle(encode_mask(m), (6, 5)) for m in second]

    matrix = iou(a, b)

    for i, x in enumerate(first):
        for j, y in enumerate(second):
            n_both, n_any = int((x & y).sum()), int((x | y).sum())
            assert matrix[i, j] == (n_both / n_any if n_any else 0.0)
            assert n_both == intersection_px(a[i], b[j])
    assert np.array_equal(first.any(axis=0), decode(union(a, (6, 5))))
    shares = [(x & second[0]).sum() / x.sum() if x.any() else 0.0 for x in first]
    assert shares == covered_share(true_runs(a), b[0]).tolist()


def test_iou_of_no_masks_keeps_its_shape() -> None:
    assert rle_iou([], [[24]], (4, 6)).shape == (0, 1)
    assert rle_iou([[24]], [], (4, 6)).shape == (1, 0)


def test_union_of_no_masks_is_empty() -> None:
    assert union([], (4, 6)).area_px == 0
    assert bbox(union([], (4, 6))) is None


@given(MASKS)
@settings(deadline=None)
def test_bbox_is_the_pixel_edge_envelope(mask: np.ndarray) -> None:
    rows, cols = np.nonzero(mask)

    found = rle_bbox(encode_mask(mask), mask.shape)

    expected = (cols.min(), rows.min(), cols.max() + 1, rows.max() + 1) if rows.size else None
    assert expected == found


@pytest.mark.parametrize("mask", [np.ones((2, 2), np.uint8), np.ones(4, bool), np.ones((0, 3), bool)], ids=["uint8", "flat", "no-pixel"])
def test_what_is_no_bool_image_is_not_encoded(mask: np.ndarray) -> None:
    with pytest.raises(InputError, match="mask"):
        encode_mask(mask)


def test_polygons_follow_the_pixel_centre_rule() -> None:
    # centres at .5: columns 1 and 2 lie in (0.6, 2.6), row 1 alone in (0.6, 1.6)
    assert decode(rle_from_polygons([[0.6, 0.6, 2.6, 0.6, 2.6, 1.6, 0.6, 1.6]], (3, 4))).tolist() == [
        [False] * 4,
        [False, True, True, False],
        [False] * 4,
    ]


def test_rings_of_one_instance_are_united() -> None:
    assert rle_from_polygons([[0, 0, 2, 0, 2, 2, 0, 2], [1, 0, 3, 0, 3, 2, 1, 2]], (4, 4)).area_px == 6


@pytest.mark.parametrize(
    "polygons",
    [[], [[0, 0, 1, 1]], [[0, 0, 1, 1, 2]], [[0, 0, "1", 1, 2, 2]], [[0, 0, 4, 4, 4, 0, 0, 4]], [[0, 0, float("inf"), 1, 2, 2]], "x", [3]],
    ids=["none", "two-points", "odd", "text", "bow-tie", "infinite", "string", "number"],
)
def test_what_is_no_polygon_is_refused(polygons: object) -> None:
    with pytest.raises(InputError, match="mask 0"):
        rle_from_polygons(polygons, (8, 8), "mask 0")


@given(hnp.arrays(np.uint16, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9), elements=st.integers(0, 4)))
def test_an_index_map_is_encoded_value_by_value_as_its_masks_are(labels: np.ndarray) -> None:
    expected = {int(v): encode_mask(labels == v) for v in np.unique(labels) if v}

    assert encode_labels(labels) == expected
