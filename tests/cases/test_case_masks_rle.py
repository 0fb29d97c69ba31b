"""Known traps of run-length masks. Inputs and expectations are rebuilt here from the case descriptions."""

import numpy as np
import pytest

from trigpoint.errors import InputError
from trigpoint.masks.rle import RleRequest, check_rle, check_rles, decode_rle, encode_mask, rle_area, rle_bbox, rle_from_polygons

M01_COUNTS = [3, 1, 2, 1, 2, 1, 4, 1]

M02_ANNOTATIONS = {
    1: {"size": [4, 6], "counts": [5, 3, 16]},
    2: {"size": [4, 6], "counts": [5, 3]},
    3: {"size": [4, 6], "counts": [5, 3, 160]},
    4: {"size": [4, 6], "counts": [5, -3, 22]},
    5: {"size": [4, 6], "counts": [5.5, 2.5, 16]},
    6: {"size": [6, 4], "counts": [5, 3, 16]},
    7: {"size": [4, 6], "counts": "zz~~PP"},
    8: {"size": [4, 6], "counts": "52000000h1"},
}


def test_m01_counts_run_down_the_columns() -> None:
    """cocodataset/cocoapi#91, roboflow/supervision#2228: an RLE read row by row."""
    mask = np.zeros((3, 5), dtype=bool)
    mask[0, 1:4] = True
    mask[2, 4] = True

    assert np.array_equal(mask, decode_rle(M01_COUNTS, (3, 5)))
    assert check_rle(encode_mask(mask), (3, 5)) == check_rle(M01_COUNTS, (3, 5))
    assert rle_area(M01_COUNTS, (3, 5)) == 4
    # [1, 0, 4, 3] as x, y, width, height
    assert rle_bbox(M01_COUNTS, (3, 5)) == (1, 0, 5, 3)


def test_m02_bad_rle_is_refused_by_name_before_native_code_sees_it() -> None:
    """MiXaiLL76/faster_coco_eval#88, ppwwyyxx/cocoapi#12: counts that overrun the mask crash the process."""
    checked = check_rles([RleRequest(f"annotation {k}", value, (4, 6)) for k, value in M02_ANNOTATIONS.items()])

    errors = {k: error for k, error in zip(M02_ANNOTATIONS, checked, strict=True) if isinstance(error, InputError)}
    assert not isinstance(checked[0], InputError)
    assert checked[0].area_px == 3
    assert list(errors) == [2, 3, 4, 5, 6, 7, 8]
    assert all(str(error).startswith(f"annotation {k}: ") for k, error in errors.items())


@pytest.mark.parametrize("annotation", [2, 3, 4, 5, 6, 7, 8])
def test_m02_single_bad_rle_raises(annotation: int) -> None:
    with pytest.raises(InputError, match=f"annotation {annotation}: "):
        check_rle(M02_ANNOTATIONS[annotation], (4, 6), f"annotation {annotation}")


def test_m05_rle_keeps_the_hole_that_coco_polygons_lose() -> None:
    """cocodataset/cocoapi#153, facebookresearch/detectron2#489: holes filled."""
    donut = np.zeros((40, 64), dtype=bool)
    donut[10:30, 20:40] = True
    donut[15:25, 25:35] = False

    counts = encode_mask(donut)

    assert rle_area(counts, (40, 64)) == 300
    assert np.array_equal(donut, decode_rle(counts, (40, 64)))
    assert rle_bbox(counts, (40, 64)) == (20, 10, 40, 30)
    # rings are united, never subtracted: an instance with a hole has to be given as an RLE, and the docstring says so
    rings = [[20, 10, 40, 10, 40, 30, 20, 30], [25, 15, 35, 15, 35, 25, 25, 25]]
    assert rle_from_polygons(rings, (40, 64)).area_px == 400
