import io
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from tests.toy_release import RECTANGLES, toy_mask, write_toy_release
from trigpoint.cli import app
from trigpoint.errors import InputError
from trigpoint.release.reader import Release
from trigpoint.release.show import contact_sheet, draw_query, draw_relation, draw_scene, png_bytes
from trigpoint.release.show_canvas import ANCHOR, ANSWER, ARROW, UNSURE
from trigpoint.scene_graph.graph import EDGE_SCHEMA


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return Release.open(write_toy_release(tmp_path_factory.mktemp("toy")))


def share_of(image: Image.Image, colour: tuple[int, int, int]) -> float:
    return float((np.abs(np.asarray(image, dtype=int) - colour).max(axis=2) < 12).mean())


def test_pictures_are_the_same_bytes_every_time(release: Release) -> None:
    again = Release.open(release.folder)

    for draw, item in ((draw_scene, "s-a"), (draw_query, "q-1")):
        assert png_bytes(draw(release, item)) == png_bytes(draw(again, item))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png_bytes(draw_scene(release, "s-b"))))), np.asarray(draw_scene(release, "s-b")))


def test_the_answer_is_marked_and_an_unanswerable_query_marks_nothing(release: Release) -> None:
    marked, unmarked = draw_query(release, "q-1"), draw_query(release, "q-3")

    # the legend's swatch is the only such colour of a query without an answer
    assert share_of(marked, ANSWER) > 10 * share_of(unmarked, ANSWER)


def test_the_answer_lies_where_its_mask_lies(release: Release) -> None:
    """q-8 is the school, rows 20-30 and columns 30-50 of 40 x 60; the scene is drawn 8 times as large between margins of 10."""
    image = np.asarray(draw_query(release, "q-8"), dtype=int)

    rows, cols = np.nonzero(np.abs(image - ANSWER).max(axis=2) < 12)
    is_swatch = rows > rows.min() + 10 * 8 + 2
    top = int(rows.min())

    assert (cols[~is_swatch].min(), cols[~is_swatch].max()) == pytest.approx((10 + 30 * 8, 10 + 50 * 8 - 1), abs=2)
    assert rows[~is_swatch].max() - top == pytest.approx(10 * 8 - 1, abs=3)
    assert toy_mask("s-a", (20, 30, 30, 50)).sum() == 200


def test_large_scenes_are_reduced_to_the_side_asked_for(release: Release) -> None:
    small = draw_scene(release, "s-a", max_side_px=30)
    large = draw_scene(release, "s-a", max_side_px=960)

    # 30 x 20 and 480 x 320 pixels of scene in frames alike
    assert large.height - small.height == 320 - 20
    assert large.width == 480 + 20


def test_a_region_answer_is_drawn_from_its_rle(tmp_path: Path) -> None:
    from tests.toy_release import toy_query

    release = Release.open(write_toy_release(tmp_path, [toy_query(1, "s-a", None, "road", ["i-9"], ["the road"], form="referring")]))

    assert share_of(draw_query(release, "q-1"), ANSWER) > 0.005


def test_true_north_turns_with_the_image(tmp_path: Path) -> None:
    release = Release.open(write_toy_release(tmp_path))
    turned = Release.open(release.folder)
    turned.__dict__["scene_by_id"] = {key: row._replace(image_up_deg=90.0) for key, row in release.scene_by_id.items()}

    first, second = (np.asarray(draw_scene(r, "s-b")) for r in (release, turned))

    assert first.shape == second.shape
    rows = np.flatnonzero((first != second).any(axis=(1, 2)))
    assert 0 < np.ptp(rows) < 42, "nothing but the arrow differs"


@pytest.mark.parametrize(("draw", "item"), [(draw_scene, "s-z"), (draw_query, "q-z")])
def test_unknown_items_are_named_with_some_that_exist(release: Release, draw: object, item: str) -> None:
    with pytest.raises(InputError, match=f"{item}.*it has"):
        draw(release, item)  # type: ignore[operator]


def test_a_contact_sheet_holds_every_picture_in_order() -> None:
    pictures = [Image.new("RGB", (20, 10), colour) for colour in ("red", "green", "blue")]

    sheet = contact_sheet(pictures, columns=2, cell_width_px=20, gap_px=4)

    assert sheet.size == (52, 32)
    assert [sheet.getpixel(at) for at in ((10, 8), (34, 8), (10, 22), (34, 22))] == [(255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 255)]


@pytest.fixture(scope="module")
def related(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The toy release with representative points and five edges of scene s-a."""
    folder = write_toy_release(tmp_path_factory.mktemp("related"))
    instances = pq.read_table(folder / "instances.parquet")
    ids = instances.column("instance_id").to_pylist()
    middles = {k: ((r[2] + r[3]) / 2, (r[0] + r[1]) / 2) for k, (_, _, r) in RECTANGLES.items()}
    more = {
        "point_x_px": [middles[k][0] for k in ids],
        "point_y_px": [middles[k][1] for k in ids],
        "cut": [False] * len(ids),
        **{name: [1.0] * len(ids) for name in ("area_m2", "perimeter_m", "length_m")},
    }
    for name, column in more.items():
        instances = instances.append_column(name, pa.array(column))
    pq.write_table(instances, folder / "instances.parquet")
    edges = [
        ("i-1", "i-3", "north_of", "TRUE", 320.0, "deg", 10.0),
        ("i-2", "i-3", "north_of", "UNDECIDED", 305.0, "deg", 10.0),
        ("i-4", "i-3", "north_of", "TRUE", 30.0, "deg", 10.0),
        ("i-1", "i-9", "near", "TRUE", 4.0, "m", 3.0),
        ("i-3", "i-9", "north_of", "UNDECIDED", None, "deg", 10.0),
    ]
    rows = [dict(zip(EDGE_SCHEMA.names, ("s-a", *edge), strict=True)) for edge in edges]
    pq.write_table(pa.Table.from_pylist(rows, schema=EDGE_SCHEMA), folder / "relations.parquet")
    return Release.open(folder)


def marked(image: Image.Image, colour: tuple[int, int, int], row: int, col: int) -> bool:
    """Whether something of a colour lies in a native pixel of scene s-a: 8 picture pixels a side, below a title of varying height."""
    pixels = np.asarray(image, dtype=int)
    foot = image.height - (52 + 10) - 40 * 8
    cell = pixels[foot + row * 8 : foot + (row + 1) * 8, 10 + col * 8 : 10 + (col + 1) * 8]
    return bool((np.abs(cell - colour).max(axis=2) < 40).any())


def test_a_relation_marks_anchor_true_and_undecided_subjects_and_points_at_the_true_ones(related: Release) -> None:
    image = draw_relation(related, "s-a", "north_of", "i-3")

    assert marked(image, ANCHOR, 25, 30) and not marked(image, ANCHOR, 4, 3)
    assert marked(image, ANSWER, 4, 3) and marked(image, ANSWER, 4, 50)
    assert marked(image, UNSURE, 12, 3) and not marked(image, ANSWER, 12, 3)
    # halfway from the school's middle (40, 25) to the house's (8, 5) and to the pond's (52.5, 4)
    assert marked(image, ARROW, 15, 24) and marked(image, ARROW, 14, 46)
    assert not marked(image, ARROW, 18, 20), "no arrow to what is undecided"
    assert png_bytes(image) == png_bytes(draw_relation(related, "s-a", "north_of", "i-3"))


def test_an_arrow_from_a_region_starts_at_its_nearest_point(related: Release) -> None:
    image = draw_relation(related, "s-a", "near", "i-9")

    # straight up from the road's upper edge (row 16) to the house's middle (8, 5); the road's own middle is at column 30
    assert marked(image, ARROW, 12, 8) or marked(image, ARROW, 12, 7)
    assert not any(marked(image, ARROW, 12, col) for col in range(12, 60))


def test_an_anchor_of_another_scene_is_refused(related: Release) -> None:
    with pytest.raises(InputError, match="'i-5' is not in scene 's-a'"):
        draw_relation(related, "s-a", "north_of", "i-5")


def test_the_graph_command_sums_up_lists_and_writes(related: Release, tmp_path: Path) -> None:
    def run(*args: str | Path) -> str:
        result = CliRunner().invoke(app, ["graph", str(related.folder), "s-a", *(str(arg) for arg in args)])
        assert result.exit_code == 0, result.output
        return result.stdout

    summary = json.loads(run("--json"))
    assert summary["nodes"] == {"discrete": 4, "regions": 1}
    assert summary["edges"]["north_of"] == {"TRUE": 2, "UNDECIDED": 2}
    assert "4 discrete instances, 1 regions, 5 edges" in run()

    sure, all_of_it = (json.loads(run("--relation", "north_of", "--json", *more)) for more in ((), ("--undecided",)))
    assert [edge["subject_id"] for edge in sure["edges"]] == ["i-1", "i-4"]
    assert all_of_it["n_edges"] == 4
    listed = run("--anchor", "i-3", "--subject", "i-1")
    assert "320 deg (± 10)" in listed and "house" in listed
    one = CliRunner().invoke(app, ["graph", str(related.folder), "s-a", "--relation", "north_of", "--limit", "1"])
    assert "1 more edges" in one.stderr

    run("--anchor", "i-3", "--relation", "north_of", "--graphml", tmp_path / "g.graphml", "--draw", tmp_path / "g.png")
    assert nx.read_graphml(tmp_path / "g.graphml", force_multigraph=True).number_of_edges() == 2
    with Image.open(tmp_path / "g.png") as drawn:
        assert np.array_equal(np.asarray(drawn), np.asarray(draw_relation(related, "s-a", "north_of", "i-3")))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("s-c",), "there is no scene 's-c' here; the nearest are s-b, s-a"),
        (("s-a", "--relation", "north"), "there is no relation 'north' here; the nearest are north_of"),
        (("s-a", "--anchor", "i-5"), "there is no anchor 'i-5' here"),
        (("s-a", "--subject", "i-77"), "there is no subject 'i-77' here"),
        (("s-a", "--relation", "near", "--draw", "x.png"), "needs --relation and --anchor"),
        (("s-a", "--relation", "near", "--anchor", "i-3", "--draw", "x.jpg"), "ends in .png"),
    ],
    ids=["scene", "relation", "anchor of another scene", "subject", "draw without anchor", "draw as jpg"],
)
def test_the_graph_command_names_what_it_does_not_know(related: Release, args: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["graph", str(related.folder), *args])

    assert result.exit_code == 2
    assert said in result.stderr
