import numpy as np
import pytest

from trigpoint.errors import InputError
from trigpoint.imagery.patch import Colours, Patch
from trigpoint.imagery.quality import blank_share, bright_share, cloud_share
from trigpoint.records.scene import Window

RGBA = ("red", "green", "blue", "alpha")


def patch(pixels: np.ndarray, valid: np.ndarray | None = None, names: tuple[str, ...] | None = None) -> Patch:
    count, height, width = pixels.shape
    valid = np.ones((height, width), bool) if valid is None else valid
    window = Window(col_off=0, row_off=0, width=width, height=height)
    return Patch(pixels, valid, (1.0, 0.0, 0.0, 0.0, -1.0, 0.0), "EPSG:32633", window, Colours(names or ("undefined",) * count))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_blank_is_the_commonest_value_of_all_bands_together(dtype: str, count: int) -> None:
    pixels = np.arange(count * 100).reshape(count, 10, 10).astype(dtype)
    pixels[:, :3, :] = 7
    pixels[0, 3:, :] = 7  # one band alone is flat there: no blank when there are others

    assert blank_share(patch(pixels)) == (0.3 if count > 1 else 1.0)


def test_blank_counts_valid_pixels_and_no_alpha() -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (4, 10, 10), dtype=np.uint8)
    pixels[:3, :5] = 0
    valid = np.ones((10, 10), bool)
    valid[:4] = False

    assert blank_share(patch(pixels, valid, RGBA)) == pytest.approx(10 / 60)
    assert blank_share(patch(pixels, np.zeros((10, 10), bool), RGBA)) == 0.0


def test_bright_is_saturated_in_every_band_of_whole_numbers() -> None:
    pixels = np.zeros((3, 10, 10), np.uint8)
    pixels[:, :2] = 251
    pixels[0, 2:] = 255

    assert bright_share(patch(pixels)) == 0.2
    assert bright_share(patch(pixels.astype(np.uint16))) == 0.0
    with pytest.raises(InputError, match="float32 have no largest value"):
        bright_share(patch(pixels.astype(np.float32)))


def test_clouds_are_what_the_mask_says() -> None:
    mask = np.array([[3, 9, 0, 3]])

    assert cloud_share(mask, (3, 9), np.array([[True, True, True, False]])) == pytest.approx(2 / 3)
