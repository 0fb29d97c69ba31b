import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trigpoint.errors import RasterError
from trigpoint.imagery.patch import Colours
from trigpoint.imagery.view import rgb_view

ALL = np.ones((2, 3), bool)


def test_eight_bit_colours_stay_as_they_are_and_alpha_is_not_shown() -> None:
    pixels = np.arange(24, dtype="uint8").reshape(4, 2, 3)

    view = rgb_view(pixels, ALL, Colours(("red", "green", "blue", "alpha")))

    np.testing.assert_array_equal(view.array, np.moveaxis(pixels[:3], 0, -1))
    assert (view.bands, view.limits) == ((0, 1, 2), ((0.0, 255.0),) * 3)


def test_bands_are_chosen_by_name_before_place() -> None:
    pixels = np.arange(24, dtype="uint8").reshape(4, 2, 3)

    assert rgb_view(pixels, ALL, Colours(("blue", "green", "red", "undefined"))).bands == (2, 1, 0)
    assert rgb_view(pixels, ALL, Colours(("alpha", "gray", "undefined", "undefined"))).bands == (1, 2, 3)
    assert rgb_view(pixels[:2], ALL, Colours(("gray", "alpha"))).bands == (0, 0, 0)


def test_invalid_pixels_are_black() -> None:
    valid = ALL.copy()
    valid[1, 2] = False

    for dtype in ("uint8", "uint16", "float32", "complex64"):
        view = rgb_view(np.full((1, 2, 3), 200, dtype), valid, Colours(("gray",)))
        assert view.array[1, 2].tolist() == [0, 0, 0]
        assert (view.array[valid] > 0).all()


def test_palette_index_without_colour_is_black() -> None:
    pixels = np.array([[[0, 1, 7], [1, 0, 1]]], "uint8")

    view = rgb_view(pixels, ALL, Colours(("palette",), {0: (1, 2, 3, 255), 1: (4, 5, 6, 0)}))

    assert view.array[0].tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]


def test_nan_and_infinity_neither_show_nor_set_the_limits() -> None:
    values = np.linspace(0.0, 100.0, 101)
    pixels = np.concatenate([values, [np.nan, np.inf, -np.inf]]).reshape(1, 1, -1)

    view = rgb_view(pixels, np.ones((1, 104), bool), Colours(("gray",)))

    assert view.limits[0] == pytest.approx((2.0, 98.0))
    assert view.array[0, -3:, 0].tolist() == [0, 0, 0]
    assert view.array[0, 50, 0] == 128


def test_complex_pixels_are_shown_as_power_in_decibels() -> None:
    pixels = np.array([[[1 + 0j, 10j, 100 + 0j, -1000 + 0j]]], "complex64")

    view = rgb_view(pixels, np.ones((1, 4), bool), Colours(("gray",)))

    assert view.limits[0] == pytest.approx((1.2, 58.8))
    assert (np.diff(view.array[0, :, 0].astype(int)) > 0).all()


def test_constant_band_is_middle_grey_and_an_empty_patch_black() -> None:
    pixels = np.full((1, 2, 3), 7, "uint16")

    assert (rgb_view(pixels, ALL, Colours(("gray",))).array == 128).all()
    assert (rgb_view(pixels, ~ALL, Colours(("gray",))).array == 0).all()


def test_one_bright_pixel_in_a_constant_band_is_still_seen() -> None:
    pixels = np.full((1, 20, 20), 7, "uint16")
    pixels[0, 3, 4] = 9

    view = rgb_view(pixels, np.ones((20, 20), bool), Colours(("gray",)))

    assert (view.array[3, 4, 0], view.array[0, 0, 0]) == (255, 0)


@settings(max_examples=50, deadline=None)
@given(arrays(np.int32, (1, 4, 5), elements=st.integers(-(2**31), 2**31 - 1)))
def test_stretch_never_turns_the_order_of_two_pixels(pixels: np.ndarray) -> None:
    view = rgb_view(pixels, np.ones((4, 5), bool), Colours(("gray",)))

    order = np.argsort(pixels[0], axis=None, kind="stable")
    assert (np.diff(view.array[..., 0].ravel()[order].astype(int)) >= 0).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RasterError, match="do not fit"):
        rgb_view(np.zeros((2, 2, 3)), ALL, Colours(("gray",)))
    with pytest.raises(RasterError, match="hold no picture"):
        rgb_view(np.zeros((1, 2, 3)), ALL, Colours(("alpha",)))
