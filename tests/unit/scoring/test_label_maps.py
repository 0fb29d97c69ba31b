from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from tests.toy_release import toy_instance_rle, toy_mask, toy_rle, write_lines, write_toy_release
from trigpoint.release.reader import Release
from trigpoint.scoring.predictions import Submission, check_predictions, read_predictions, write_predictions

I1, I2 = (2, 8, 3, 13), (10, 14, 3, 8)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


def write_raster(path: Path, values: np.ndarray, driver: str = "GTiff") -> None:
    bands = values if values.ndim == 3 else values[None]
    path.parent.mkdir(exist_ok=True)
    # a place on the ground, so that rasterio has nothing to warn of
    place = {"transform": rasterio.Affine(2, 0, 8, 0, -2, 8)} if driver == "GTiff" else {}
    with rasterio.open(
        path, "w", driver=driver, count=len(bands), height=bands.shape[1], width=bands.shape[2], dtype=values.dtype, **place
    ) as out:
        out.write(bands)


def labels(dtype: str = "uint16") -> np.ndarray:
    found = np.zeros((40, 60), dtype=dtype)
    found[toy_mask("s-a", I1)] = 7
    found[toy_mask("s-a", I2)] = 200
    return found


def read(release: Release, tmp_path: Path, **record: Any) -> Any:
    modality = "mask" if "mask_file" in record else "masks"
    file = write_lines(tmp_path / "p.jsonl", {"query_id": "q-1", **record}, modalities=(modality,))
    return read_predictions(file, release).records["q-1", 0]


@pytest.mark.parametrize("driver", ["GTiff", "PNG"])
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")  # of the test's own writing of a PNG
def test_every_value_of_a_label_map_is_an_instance(release: Release, tmp_path: Path, driver: str) -> None:
    write_raster(tmp_path / "maps" / "one", labels(), driver)

    found = read(release, tmp_path, label_map="maps/one")

    assert [mask.to_json() for mask in found.masks] == [toy_instance_rle("i-1"), toy_instance_rle("i-2")]


def test_a_map_without_a_place_is_read_without_a_warning(release: Release, tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(labels("uint8")).save(tmp_path / "one.png")

    assert len(read(release, tmp_path, label_map="one.png").masks) == 2


def test_a_mask_file_is_one_mask(release: Release, tmp_path: Path) -> None:
    write_raster(tmp_path / "one.tif", labels("uint8"))

    assert read(release, tmp_path, mask_file="one.tif").mask.to_json() == toy_rle("s-a", I1, I2)


@pytest.mark.parametrize("key", ["label_map", "mask_file"])
def test_an_empty_map_is_an_empty_prediction(release: Release, tmp_path: Path, key: str) -> None:
    write_raster(tmp_path / "one.tif", np.zeros((40, 60), dtype="uint8"))

    found = read(release, tmp_path, **{key: "one.tif"})

    assert found.is_empty
    assert found.unparsed is None


def test_label_maps_come_through_parquet(release: Release, tmp_path: Path) -> None:
    write_raster(tmp_path / "one.tif", labels())
    write_predictions(tmp_path / "p.parquet", Submission("x", ("masks",), "pixel"), [{"query_id": "q-1", "label_map": "one.tif"}])

    assert len(read_predictions(tmp_path / "p.parquet", release).records["q-1", 0].masks or ()) == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("../secret.tif", "leads out of the folder", id="up"),
        pytest.param("maps/../../secret.tif", "leads out of the folder", id="down-and-up"),
        pytest.param("{absolute}", "leads out of the folder", id="absolute"),
        pytest.param("link.tif", "leads out of the folder", id="link"),
        pytest.param("/vsicurl/http://localhost/x.tif", "leads out of the folder", id="gdal-url"),
        pytest.param("none.tif", "is no file", id="missing"),
        pytest.param(".", "is no file", id="folder"),
        pytest.param("", "expected the path", id="empty"),
        pytest.param(5, "expected the path", id="number"),
        pytest.param("a\0b", "expected the path", id="null"),
        pytest.param("text.tif", "cannot be read as TIFF or PNG", id="text"),
        pytest.param("far.vrt", "cannot be read as TIFF or PNG", id="vrt"),
        pytest.param("swapped.tif", r"\[60, 40\], expected the scene's \[40, 60\]", id="swapped"),
        pytest.param("two.tif", "2 bands", id="two-bands"),
        pytest.param("float.tif", "float32, expected whole numbers", id="float"),
        pytest.param("negative.tif", "holds -1", id="negative"),
    ],
)
def test_a_map_that_cannot_be_used_makes_the_record_unparsed(release: Release, tmp_path: Path, name: Any, message: str) -> None:
    folder = tmp_path / "inside"
    write_raster(tmp_path / "secret.tif", labels())
    write_raster(folder / "swapped.tif", labels().T)
    write_raster(folder / "two.tif", np.stack([labels(), labels()]))
    write_raster(folder / "float.tif", labels("float32"))
    write_raster(folder / "negative.tif", labels("int16") - 1)
    (folder / "link.tif").symlink_to(tmp_path / "secret.tif")
    (folder / "text.tif").write_text("no raster")
    (folder / "far.vrt").write_text(f'<VRTDataset rasterXSize="60" rasterYSize="40"><!-- {tmp_path / "secret.tif"} --></VRTDataset>')
    name = str(tmp_path / "secret.tif") if name == "{absolute}" else name

    found = read(release, folder, label_map=name)

    with pytest.raises(AssertionError, match=message):
        raise AssertionError(found.unparsed)
    assert found.unparsed.startswith("bad_mask: label_map")


def test_records_without_a_file_have_no_maps(release: Release) -> None:
    row = {"query_id": "q-1", "label_map": "one.tif"}

    found = check_predictions(Submission("x", ("masks",), "pixel"), [("line 2", row)], release)

    assert "come from no file" in str(found.records["q-1", 0].unparsed)
