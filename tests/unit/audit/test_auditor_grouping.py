"""Hashes of pictures and reasons to group scenes: by hand, by a second formula, and at every limit."""

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.enums import ColorInterp

from trigpoint.audit.findings import Notebook
from trigpoint.audit.grouping import Grouping, Look, Nearness, Pairs, check_groups, components, nearness, reasons_of
from trigpoint.audit.hashing import differing_bits, grey_grid, hash_of, picture_of, variants
from trigpoint.audit.reading import Release, Scene

LIMITS = Grouping(0.0, 100.0, 0.001, 10, 0.9, 2.0)
EVERYWHERE = np.ones((6, 5), dtype=bool)


def write(path, bands, colours=None, table=None):
    with rasterio.open(
        path, "w", driver="GTiff", width=bands.shape[2], height=bands.shape[1], count=bands.shape[0], dtype=bands.dtype.name,
        transform=rasterio.Affine(1, 0, 5, 0, -1, 9), crs="EPSG:32645",
    ) as target:  # fmt: skip
        target.write(bands)
        if colours:
            target.colorinterp = [ColorInterp[name] for name in colours]
        if table:
            target.write_colormap(1, table)
    return path


def picture(path, valid=EVERYWHERE):
    with rasterio.open(path) as dataset:
        return picture_of(dataset, valid)


def test_a_grid_is_the_mean_over_exact_shares_of_pixels():
    grey = np.arange(40 * 48, dtype=float).reshape(40, 48) % 251
    valid = np.random.Generator(np.random.PCG64(1)).random((40, 48)) < 0.7
    valid[:5, :4] = False

    grid = grey_grid([grey] * 3, valid)

    fine = np.repeat(np.repeat(np.where(valid, grey, np.nan), 32, axis=0), 32, axis=1)  # 32 x 32 parts of every pixel
    right = np.array(
        [[np.nanmean(cell) if np.isfinite(cell).any() else np.nan for cell in np.hsplit(row, 32)] for row in np.vsplit(fine, 32)]
    )
    right[np.isnan(right)] = np.nanmean(right)
    np.testing.assert_allclose(grid, right, rtol=1e-12)


def test_a_hash_is_the_signs_of_the_cosine_transform():
    grid = np.random.Generator(np.random.PCG64(2)).random((32, 32)) * 255
    u, x = np.arange(8)[:, None], np.arange(32)[None, :]
    cosines = np.cos(np.pi * (x + 0.5) * u / 32)

    signs = (cosines @ grid @ cosines.T > 0).ravel()

    assert f"{hash_of(grid):064b}" == "0" + "".join("01"[int(sign)] for sign in signs[1:])


def test_a_turned_picture_is_found_among_the_variants():
    grid = np.random.Generator(np.random.PCG64(3)).random((32, 32))
    hashes = [hash_of(variant) for variant in variants(grid)]

    assert len(set(hashes)) == 8
    for turned in (np.rot90(grid, 3), np.fliplr(grid), np.flipud(grid), grid.T):
        assert hash_of(turned) in hashes
    assert differing_bits(hashes[0], hashes[1]) > 10


def test_colours_are_found_by_their_interpretation(tmp_path):
    bands = np.stack([np.full((6, 5), value, dtype=np.uint8) for value in (10, 20, 30, 40)])

    rgb = picture(write(tmp_path / "a.tif", bands, ["blue", "green", "red", "alpha"]))
    unknown = picture(write(tmp_path / "b.tif", bands, ["gray", "undefined", "alpha", "undefined"]))
    two = picture(write(tmp_path / "c.tif", bands[:2], ["gray", "undefined"]))

    assert [band[0, 0] for band in rgb] == [30, 20, 10]
    assert [band[0, 0] for band in unknown] == [10, 20, 40]
    assert [band[0, 0] for band in two] == [10, 10, 10]


def test_a_palette_gives_its_colours(tmp_path):
    path = write(tmp_path / "a.tif", np.full((1, 6, 5), 7, dtype=np.uint8), table={7: (1, 2, 3, 255)})

    assert [band[0, 0] for band in picture(path)] == [1, 2, 3]


def test_other_bands_are_stretched_between_percentiles_of_the_valid_pixels(tmp_path):
    values = np.arange(30, dtype=np.float32).reshape(1, 6, 5) * 100
    values[0, 0, 0] = np.nan
    valid = EVERYWHERE.copy()
    valid[5, 4] = False

    band = picture(write(tmp_path / "a.tif", values), valid)[0]

    low, high = np.percentile(np.arange(1, 29) * 100.0, [2, 98])
    assert band[0, 0] == 0
    assert band[0, 1] == 0
    assert band[3, 0] == round(255 * (1500 - low) / (high - low))
    assert band[5, 4] == 255


@pytest.mark.parametrize(("values", "right"), [([5, 5, 5, 5], [128] * 4), ([5] * 97 + [5, 5, 9], [0] * 99 + [255])])
def test_flat_bands_are_stretched_by_their_extremes(tmp_path, values, right):
    band = np.array(values, dtype=np.uint16).reshape(1, 1, -1)

    assert picture(write(tmp_path / "a.tif", band), np.ones((1, len(values)), dtype=bool))[0][0].tolist() == right


def test_complex_values_count_in_decibels(tmp_path):
    values = np.array([[[1, 10j, 100, 0]]], dtype=np.complex64)

    band = picture(write(tmp_path / "a.tif", values), np.ones((1, 4), dtype=bool))[0][0]

    low, high = np.percentile([0, 20, 40, -120], [2, 98])
    assert band.tolist() == [round(255 * min(1, (v - low) / (high - low))) if v > low else 0 for v in (0, 20, 40, -120)]


def scene(name, **values):
    fields = dict.fromkeys(Scene.__dataclass_fields__) | {"scene_id": name, "source_sha256": name, "grey_sd": 40.0}
    return Scene(**(fields | values))


def two_scenes(near=None, looks=(), shared=0, same=False, **values):
    """The reasons that two scenes `a` and `b` give."""
    a, b = scene("a", **values), scene("b", **values)
    if same:
        b = scene("b", source_sha256="a", **values)
    release = Release(None, {}, scenes={"a": a, "b": b})
    pairs = Pairs(release, {("a", "b"): shared}, {("a", "b"): near or Nearness(1e6, 0.0)}, {("a", "b"): [Look(*look) for look in looks]})
    found = reasons_of(("a", "b"), pairs, LIMITS)
    return {why: ("must" if verdict.must else "may") for why, verdict in found.items() if verdict.may}


@pytest.mark.parametrize(
    ("case", "right"),
    [
        ({"shared": 1, "same": True, "near": Nearness(0, 0.5)}, {"shared_pixels": "must"}),
        ({"same": True, "near": Nearness(0, 0.0)}, {}),  # windows side by side: a buffer of 0 joins nothing
        ({"near": Nearness(0, 0.5)}, {"same_place": "must"}),
        ({"near": Nearness(0, 0.0015)}, {"same_place": "may", "buffer": "may"}),
        ({"near": Nearness(0, 0.0004)}, {"buffer": "must"}),
        ({"near": Nearness(99.7, 0)}, {"buffer": "may"}),
        ({"near": Nearness(100.4, 0)}, {"buffer": "may"}),
        ({"near": Nearness(101, 0)}, {}),
        ({"looks": [(8, 0.92)]}, {"near_duplicate": "must"}),
        ({"looks": [(30, 0.1), (8, 0.92)]}, {"near_duplicate": "must"}),
        ({"looks": [(12, 0.95)]}, {"near_duplicate": "may"}),
        ({"looks": [(3, 0.895)]}, {"near_duplicate": "may"}),
        ({"looks": [(3, 0.88)]}, {}),
        ({"looks": [(13, 0.99)]}, {}),
        ({"looks": [(3, 0.88), (20, 0.99)]}, {}),  # one look must have both
        ({"looks": [(0, 1.0)], "grey_sd": 1.9}, {}),
        ({"looks": [(0, 1.0)], "grey_sd": 2.005}, {"near_duplicate": "may"}),
    ],
)
def test_reasons_hold_beyond_what_is_left_open(case, right):
    assert two_scenes(**case) == right


def findings_of(groups, place, shared):
    release = Release(None, {}, scenes={name: scene(name, source_sha256="x") for name in "abc"})
    pairs = Pairs(release, {(a, b): shared.get(a + b, 0) for a, b in ("ab", "ac", "bc")})
    grouping = {
        "buffer_m": {"same_source": 0, "other_source": 100},
        "same_place_share": 0.001,
        "near_duplicate": {"max_bits": 10, "min_correlation": 0.9, "low_information_sd": 2.0},
    }
    notes = Notebook()
    check_groups(release, "f", {"grouping": grouping, "groups": groups}, place, pairs, notes)
    return sorted((finding.code, finding.item) for finding in notes.findings)


def group(name, *scenes, **reasons):
    rows = [{"scenes": list(pair), "why": "shared_pixels", "value": value} for pair, value in reasons.items()]
    return {"group_id": name, "scenes": list(scenes), "reasons": rows}


TRAIN = dict.fromkeys("abc", "train")


@pytest.mark.parametrize(
    ("groups", "place", "found"),
    [
        ([group("g1", "a", "b", ab=5), group("g2", "c")], TRAIN, []),
        ([group("g1", "a", "b", ab=6), group("g2", "c")], TRAIN, [("group_reason_wrong", "a b shared_pixels")]),
        ([group("g1", "a"), group("g2", "b"), group("g3", "c")], TRAIN, [("group_reason_missing", "a b shared_pixels")]),
        ([group("g1", "a", "b", ab=5), group("g2", "c")], TRAIN | {"b": "test"}, [("group_straddles", "a b"), ("group_straddles", "g1")]),
        ([group("g1", "a", "b", ab=5)], TRAIN, [("group_wrong", "c")]),
        ([group("g1", "a", "b", "c", ab=5)], TRAIN, [("group_wrong", "a b"), ("group_wrong", "c")]),
        (
            [group("g1", "a", "b", ab=5, ac=1), group("g2", "c")],
            TRAIN,
            [("group_reason_wrong", "a c shared_pixels"), ("group_wrong", "a b c")],
        ),
        ([group("g2", "a", "b", ab=5), group("g1", "c")], TRAIN, [("order_wrong", "groups")]),
        ([group("g1", "b", "a", ab=5), group("g2", "c")], TRAIN, [("order_wrong", "g1")]),
    ],
    ids=["good", "value", "missing", "straddles", "no group", "too large", "a reason too many", "order", "order within"],
)
def test_groups_are_exactly_what_their_reasons_join(groups, place, found):
    assert findings_of(groups, place, {"ab": 5}) == found


def test_components_pass_over_scenes_that_are_not_there():
    assert components(["a", "b"], [("a", "z"), ("b", "a")]) == {"a": "a", "b": "a"}


def test_overlap_is_a_share_of_the_smaller_footprint():
    small, large = shapely.box(85.00, 27.00, 85.01, 27.01), shapely.box(85.005, 26.99, 85.03, 27.02)

    found = nearness(small, large)

    assert found.distance_m == 0
    assert found.share == pytest.approx(0.5, rel=1e-3)
    assert nearness(small, shapely.box(85.02, 27.00, 85.03, 27.01)).share == 0
