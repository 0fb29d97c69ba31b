"""S01: overlapping windows are grouped and share no pixel across splits. S02: copies are found, blank tiles are no copies."""

import io

import numpy as np
import pytest
import shapely
from PIL import Image, ImageFilter

from trigpoint.config import SplitConfig
from trigpoint.imagery.phash import grey_grid, variant_hashes
from trigpoint.records.scene import Window
from trigpoint.splits.groups import SceneSet, SplitScene, group_scenes
from trigpoint.splits.proof import split_document
from trigpoint.splits.protocols import Division, Material, SplitQuery, divide

PLACES = [("A", col, row) for row in (0, 128, 256) for col in range(0, 769, 128)] + [
    ("B", col, row) for row in (0, 256) for col in range(0, 1024, 256)
]
"""Source, column and row of windows of 256 pixels."""


def scene(name: str, source: str, col: int, row: int, grid: np.ndarray) -> SplitScene:
    west, north = (8.0 if source == "A" else 30.0) + col * 1e-6, 47.0 - row * 1e-6
    return SplitScene(
        scene_id=name,
        source=source,
        source_sha256=source * 64,
        window=Window(col_off=col, row_off=row, width=256, height=256),
        footprint=shapely.box(west, north - 256e-6, west + 256e-6, north),
        gsd_m=0.1,
        area_km2=0.0006,
        n_discrete=1,
        hashes=tuple(int(h) for h in variant_hashes(grid)),
        grid=grid,
        grey_sd=float(grid.std()),
    )


def test_case_s01_overlapping_windows_are_one_group_and_no_pixel_is_shared() -> None:
    rng = np.random.default_rng(1)
    scenes = [scene(f"w{k:02}", source, col, row, rng.random((32, 32)) * 200) for k, (source, col, row) in enumerate(PLACES)]
    scene_set, config = SceneSet(scenes), SplitConfig()
    groups = group_scenes(scene_set, config)
    queries = [SplitQuery(f"q{s.scene_id}{k}", s.scene_id, 1, True, None) for s in scenes for k in range(3)]
    material = Material(scene_set, groups, queries, config, 7)

    division = divide("scene-disjoint", material)

    assert len(scenes) == 29
    assert sum(reason.why == "shared_pixels" for group in groups for reason in group.reasons) == 56
    assert sorted(len(group.scenes) for group in groups) == [1] * 8 + [21]
    assert isinstance(division, Division)
    assert split_document("scene-disjoint", material, division, None)["proof"]["shared_pixels_between_splits"] == 0
    assert all(division.assignment.values())


def texture(seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 255, (64, 64, 3), dtype="uint8")
    return Image.fromarray(noise).resize((256, 256), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(6))


def half_bright(seed: int) -> Image.Image:
    pixels = np.asarray(texture(seed)).astype(int) // 12
    pixels[:, :128] += 200
    return Image.fromarray(pixels.astype("uint8"))


def through_jpeg(image: Image.Image) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=70)
    return Image.open(file).convert("RGB")


@pytest.fixture(scope="module")
def tiles() -> dict[str, SplitScene]:
    one = texture(1)
    images = {
        "black1": Image.new("RGB", (256, 256)),
        "black2": Image.new("RGB", (256, 256), (1, 1, 1)),
        "white": Image.new("RGB", (256, 256), (255, 255, 255)),
        "a": one,
        "b": texture(2),
        "half1": half_bright(3),
        "half2": half_bright(4),
        "a_jpg": through_jpeg(one),
        "a_rot90": one.transpose(Image.Transpose.ROTATE_90),
        "a_bright": Image.fromarray(np.minimum(np.asarray(one).astype(int) + 12, 255).astype("uint8")),
    }
    grids = {name: grey_grid(np.asarray(image), np.ones((256, 256), bool)) for name, image in images.items()}
    # far apart, so that nothing but the picture can join them
    return {name: scene(name, "A", 50_000 * k, 0, grid) for k, (name, grid) in enumerate(grids.items())}


def test_case_s02_turned_brightened_and_compressed_copies_are_one_group(tiles: dict[str, SplitScene]) -> None:
    groups = group_scenes(SceneSet(list(tiles.values())), SplitConfig())

    assert [group.scenes for group in groups if len(group.scenes) > 1] == [("a", "a_bright", "a_jpg", "a_rot90")]
    assert {reason.why for group in groups for reason in group.reasons} == {"near_duplicate"}


def test_case_s02_blank_tiles_are_low_in_information(tiles: dict[str, SplitScene]) -> None:
    informative = SceneSet(list(tiles.values())).informative(SplitConfig().near_duplicate)

    assert sorted(set(tiles) - {sorted(tiles)[k] for k in informative}) == ["black1", "black2", "white"]
