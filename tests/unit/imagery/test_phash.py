import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dct

from trigpoint.errors import InputError
from trigpoint.imagery.phash import grey_grid, grid_variants, hash_from_text, hash_text, variant_hashes


def picture(height: int, width: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def everything(height: int, width: int) -> np.ndarray:
    return np.ones((height, width), bool)


def test_cells_of_whole_pixels_are_their_mean_grey() -> None:
    pixels = picture(64, 96)
    grey = pixels @ np.array([0.299, 0.587, 0.114])

    assert grey_grid(pixels, everything(64, 96)) == pytest.approx(grey.reshape(32, 2, 32, 3).mean(axis=(1, 3)))


def test_pixels_that_straddle_cells_count_by_area() -> None:
    # 48 columns on 32 cells: cell 0 is column 0 and half of column 1
    pixels = np.zeros((32, 48, 3), np.uint8)
    pixels[:, 1] = 90

    assert grey_grid(pixels, everything(32, 48))[:, :3] == pytest.approx(np.tile([30.0, 30.0, 0.0], (32, 1)))


def test_a_picture_smaller_than_the_grid_is_stretched() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)[..., None].repeat(3, axis=2) * 10
    grid = grey_grid(pixels, everything(2, 3))

    assert grid[0, 0] == pytest.approx(0)
    assert grid[31, 31] == pytest.approx(50)
    assert grid.mean() == pytest.approx(25)


def test_invalid_pixels_count_nothing_and_empty_cells_are_the_mean() -> None:
    pixels = picture(64, 64)
    valid = everything(64, 64)
    valid[:2, :2], valid[10, 10] = False, False
    changed = pixels.copy()
    changed[~valid] = 255
    grid = grey_grid(pixels, valid)

    assert np.array_equal(grid, grey_grid(changed, valid))
    assert grid[0, 0] == pytest.approx(grid.ravel()[1:].mean())


def test_a_picture_without_valid_pixels_is_flat() -> None:
    assert not grey_grid(picture(40, 40), ~everything(40, 40)).any()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="do not fit"):
        grey_grid(picture(4, 5), everything(5, 4))


@given(st.integers(0, 10_000), st.sampled_from([(64, 64), (50, 77), (20, 33)]))
def test_a_turned_picture_has_the_variants_of_the_picture(seed: int, size: tuple[int, int]) -> None:
    pixels = picture(*size, seed)
    grid = grey_grid(pixels, everything(*size))

    for k, variant in enumerate(grid_variants(grid)):
        turned = np.rot90(pixels if k < 4 else pixels.transpose(1, 0, 2), k % 4)
        own = grey_grid(np.ascontiguousarray(turned), everything(*turned.shape[:2]))
        assert own == pytest.approx(variant)
        assert variant_hashes(own)[0] == variant_hashes(grid)[k]


def test_bits_are_the_signs_of_the_low_frequencies() -> None:
    grid = np.random.default_rng(3).random((32, 32))
    spectrum = np.array(dct(np.array(dct(grid, axis=0, norm="ortho")), axis=1, norm="ortho"))
    bits = "".join("1" if spectrum[u, v] > 0 and (u, v) != (0, 0) else "0" for u in range(8) for v in range(8))

    assert hash_text(variant_hashes(grid)[0]) == f"{int(bits, 2):016x}"


def test_brightness_and_contrast_change_no_bit() -> None:
    grid = np.random.default_rng(4).random((32, 32)) * 100

    assert np.array_equal(variant_hashes(grid), variant_hashes(0.7 * grid + 20))


def test_a_hash_is_read_as_it_is_written() -> None:
    assert hash_from_text(hash_text(2**64 - 5)) == 2**64 - 5


@pytest.mark.parametrize("text", ["", "12", "x" * 16, "0123456789abcde ", "0x23456789abcdef", "0123456789abcdef0"])
def test_what_is_no_hash_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected 16 hex digits"):
        hash_from_text(text)
