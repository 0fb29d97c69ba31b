"""Statistics of the toy release, counted by hand."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from typer.testing import CliRunner

from tests.toy_release import LANGUAGE, QUERIES, TAXONOMY, write_toy_release
from trigpoint.analysis.plots import draw_statistics
from trigpoint.analysis.statistics import ReleaseStatistics, region_of, release_statistics
from trigpoint.cli import app
from trigpoint.release.reader import Release


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_toy_release(tmp_path_factory.mktemp("language"), [*LANGUAGE, *QUERIES])
    scenes = pq.read_table(folder / "scenes.parquet")
    footprints = shapely.to_wkb([shapely.box(85.5, 27.6, 85.6, 27.7), shapely.box(-3.8, 40.3, -3.6, 40.5)]).tolist()
    pq.write_table(scenes.append_column("geometry", pa.array(footprints, pa.binary())), folder / "scenes.parquet")
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> ReleaseStatistics:
    return release_statistics(Release.open(folder))


def rows(found: ReleaseStatistics, name: str) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in found.page.table(name).rows}


def test_images_and_instances(found: ReleaseStatistics, folder: Path) -> None:
    assert rows(found, "images")["image width, px"] == (2, 20.0, 40.0, 40.0, 60.0)
    assert rows(found, "images")["image height, px"] == (2, 24.0, 32.0, 32.0, 40.0)
    assert rows(found, "images")["instances per image"] == (2, 2.0, 3.0, 3.0, 4.0)
    sizes = [(folder / "scenes" / f"{scene}.tif").stat().st_size / 1e6 for scene in ("s-a", "s-b")]
    assert rows(found, "images")["file size, MB"][4] == max(sizes)


def test_queries_by_form(found: ReleaseStatistics) -> None:
    by_form = rows(found, "queries")

    # queries, positive, negative, sentences, unique, categories, words
    assert by_form["vocabulary"][:6] == (8, 5, 3, 8, 7, 3)
    assert by_form["referring"] == (3, 3, 0, 3, 3, 2, 5.0, pytest.approx((5 + 6 + 3) / 3), 6.0)
    assert by_form["program"][:4] == (8, 6, 2, 10)
    assert rows(found, "vocabulary")["unique phrases"] == (4, 3, 0, 7)


def test_annotations_and_their_forms(found: ReleaseStatistics) -> None:
    assert rows(found, "coverage") == {
        "vocabulary + referring": (2, 50.0),
        "vocabulary + reasoning": (1, 25.0),
        "vocabulary + referring + reasoning": (1, 25.0),
    }
    # houses of s-a 2, school 1, houses of s-b 2; the road has none
    assert rows(found, "annotations")["boxes per annotation that has any"] == (3, 1.0, 2.0, pytest.approx(5 / 3), 2.0)
    assert "1 annotation(s) without a box" in found.page.table("annotations").notes


def test_without_annotation_ids_an_annotation_is_a_category_in_an_image(tmp_path: Path) -> None:
    found = release_statistics(Release.open(write_toy_release(tmp_path)))

    # house, school, pond and road of s-a, house of s-b
    assert rows(found, "annotations")["instances per annotation"][0] == 5
    assert found.page.table("coverage").rows == ()
    assert found.page.table("regions").notes == ("no footprints",)


def test_boxes_by_their_share_of_the_image(found: ReleaseStatistics) -> None:
    # of 2400 px: 60, 20, 200, 20; of 480 px: 16, 18
    assert rows(found, "scales") == {
        "below 1% of the image": (2, pytest.approx(100 / 3)),
        "between": (4, pytest.approx(200 / 3)),
        "above 50%": (0, 0.0),
    }
    assert found.samples.obb_angles_deg == [0.0] * 6, "all rectangles are wider than high, or square"


def test_domains_are_the_broadest_categories(found: ReleaseStatistics) -> None:
    assert found.domains == [("building", 5), ("pond", 1), ("road", 1)]
    # instances, per cent, images, queries
    assert rows(found, "categories")["house"] == (4, pytest.approx(400 / 7), 2, 13)
    assert rows(found, "domains")["building"] == (5, pytest.approx(500 / 7), 2, 17)


def test_a_taxonomy_may_name_the_domain(tmp_path: Path) -> None:
    folder = write_toy_release(tmp_path)
    taxonomy = TAXONOMY.replace("id: building, axis: kind,", "id: building, axis: kind, domain: Settlement,")
    (folder / "taxonomy" / "toy.yaml").write_text(taxonomy)

    assert release_statistics(Release.open(folder)).domains == [("Settlement", 5), ("pond", 1), ("road", 1)]


def test_the_release_stands_beside_the_data_sets_of_the_paper(found: ReleaseStatistics) -> None:
    beside = rows(found, "comparison")

    assert beside["OVEarth-Bench"] == (172, 1346, True, True, True, True, True)
    assert beside["toy 1"] == (4, 7, None, True, True, True, True)


@pytest.mark.parametrize(
    ("place", "region"),
    [
        pytest.param((85.5, 27.6), "Asia", id="Banepa"),
        pytest.param((-3.7, 40.4), "Europe", id="Madrid"),
        pytest.param((36.8, -1.3), "Africa", id="Nairobi"),
        pytest.param((-46.6, -23.5), "South America", id="Sao-Paulo"),
        pytest.param((-84.1, 9.9), "North America", id="San-Jose"),
        pytest.param((174.8, -36.9), "Oceania", id="Auckland"),
        pytest.param((103.8, 1.35), "Asia", id="Singapore-an-island-too-small-for-the-map"),
        pytest.param((-140.0, 0.0), "sea", id="Pacific"),
    ],
)
def test_places_lie_in_regions(place: tuple[float, float], region: str) -> None:
    assert region_of(*place) == region


def test_regions_are_counted(found: ReleaseStatistics) -> None:
    assert rows(found, "regions") == {"Asia": (1, 50.0), "Europe": (1, 50.0)}


def test_plots_have_the_same_bytes_every_time(found: ReleaseStatistics, tmp_path: Path) -> None:
    first, second = (draw_statistics(found, tmp_path / name) for name in ("first", "second"))

    assert [path.stem for path in first] == ["images", "annotations", "language", "regions"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_command_line_prints_tables_or_json(folder: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["statistics", str(folder), "--csv", str(tmp_path)])
    as_json = CliRunner().invoke(app, ["statistics", str(folder), "--json"])

    assert told.exit_code == 0, told.output
    assert "Beside other data sets" in told.stdout
    assert json.loads(as_json.stdout)["queries"]["rows"][0]["form"] == "program"
    assert (tmp_path / "regions.csv").read_text() == "region,images,percent\nAsia,1,50.0\nEurope,1,50.0\n"
