import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trigpoint.errors import InputError
from trigpoint.masks.crops import crop_of_record, polygon_of_record, record_of_mask, record_of_polygon


@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))).filter(lambda mask: mask.any()))
def test_a_mask_comes_back_bit_for_bit_from_record_and_polygon(mask: np.ndarray) -> None:
    record = record_of_mask(mask)
    back = np.zeros(mask.shape, dtype=bool)
    crop = crop_of_record(record, *mask.shape)
    back[crop.slices] = crop.mask
    assert np.array_equal(back, mask)
    assert record_of_polygon(polygon_of_record(record), *mask.shape) == record


def test_equal_masks_have_equal_records_whatever_window_they_came_in() -> None:
    mask = np.zeros((9, 9), dtype=bool)
    mask[3:5, 4:7] = True
    assert record_of_mask(mask) == record_of_mask(mask[2:, 3:], origin_px=(3, 2))


def test_an_empty_mask_is_refused() -> None:
    with pytest.raises(InputError, match="no pixel"):
        record_of_mask(np.zeros((3, 3), dtype=bool))
    with pytest.raises(InputError, match="no pixel"):
        record_of_polygon(shapely.box(0.6, 0.6, 0.9, 0.9), 3, 3)


def test_a_record_of_another_scene_or_with_other_counts_is_refused() -> None:
    record = record_of_mask(np.ones((4, 4), dtype=bool), origin_px=(2, 2))
    with pytest.raises(InputError, match="outside the scene of 5 × 5 px"):
        crop_of_record(record, 5, 5)
    with pytest.raises(InputError, match="i-1"):
        crop_of_record(record.model_copy(update={"size_px": (3, 3)}), 9, 9, "i-1")
