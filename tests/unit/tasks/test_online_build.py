"""A whole build from the web, played by a server on 127.0.0.1: Overpass, a STAC API with a remote GeoTIFF, tiles of a map."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import rasterio
import rasterio.shutil
import shapely
import yaml
from PIL import Image
from pyproj import Transformer

from storage.tiles import tile_range
from tasks.builds import conclude, run_stage
from tasks.engine import Silent, start_build
from tasks.stages import STAGES
from tasks.workspace import Workspace
from tests.tiny_project import LEFT, ROOT, TOP, make_project, tree_digest
from tests.web_server import Reply, Served, serving
from trigpoint.audit import audit_release
from trigpoint.imagery.bbox import LonLatBox
from trigpoint.release.reader import Release

OWN = {"licence": "CC0-1.0", "attribution": "made for the tests"}
TO_LONLAT = Transformer.from_crs(32645, 4326, always_xy=True)
ZOOM = 18
SECRET = "tiles-secret-7c1"


class Listener(Silent):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


class Online(NamedTuple):
    """The project, its server, and what the first build said."""

    config: Path
    server: Served
    said: list[str]
    state: str


def build(config: Path, progress: Any = None, **overrides: Any) -> Any:
    run = start_build(Workspace(config, overrides), "test", progress=progress)
    for stage in STAGES:
        run_stage(run, stage)
    return conclude(run)


def box_of(left: float, width_m: float, height_m: float) -> LonLatBox:
    west, south = TO_LONLAT.transform(left, TOP - height_m)
    east, north = TO_LONLAT.transform(left + width_m, TOP)
    return (west, south, east, north)


def overpass_answer(footprints: Path) -> bytes:
    """Nodes in the middle of all footprints, in the form that Overpass answers in."""
    elements = []
    for feature in json.loads(footprints.read_text())["features"]:
        point = shapely.geometry.shape(feature["geometry"]).representative_point()
        tags = {"building": feature["properties"]["building"]}
        elements.append({"type": "node", "id": feature["properties"]["osm_id"], "lon": point.x, "lat": point.y, "tags": tags})
    return json.dumps({"osm3s": {"timestamp_osm_base": "2026-02-03T04:05:06Z"}, "elements": elements}).encode()


def serve(server: Served, folder: Path) -> None:
    """Put the answers of all four services."""
    server.put("/api", Reply(overpass_answer(folder / "a.geojson")))
    with rasterio.open(folder / "a.tif") as raster:
        rasterio.shutil.copy(raster, folder / "cog.tif", driver="GTiff", tiled=True, blockxsize=128, blockysize=128)
    server.put("/a.tif", Reply((folder / "cog.tif").read_bytes(), headers={"ETag": '"v1"'}))
    item = {
        "type": "Feature", "stac_version": "1.0.0", "id": "scene-1", "bbox": [85, 27, 86, 28], "links": [], "geometry": None,
        "properties": {"datetime": "2025-06-01T02:03:04Z", "license": "CC0-1.0"}, "assets": {"visual": {"href": f"{server.url}/a.tif"}},
    }  # fmt: skip
    server.put("/search", Reply(json.dumps({"type": "FeatureCollection", "features": [item], "links": []}).encode()))
    tiles = tile_range(box_of(LEFT + 5000, 240, 150), ZOOM)
    random = np.random.default_rng(5)
    for x in range(tiles.x0, tiles.x0 + tiles.n_cols):
        for y in range(tiles.y0, tiles.y0 + tiles.n_rows):
            sink = io.BytesIO()
            Image.fromarray(random.integers(1, 250, (256, 256, 3), dtype=np.uint8)).save(sink, "PNG")
            server.put(f"/tiles/{ZOOM}/{x}/{y}.png", Reply(sink.getvalue()))


def online_project(folder: Path, server: Served) -> Path:
    """The tiny project whose POIs and rasters are on the web; footprints stay files."""
    path = make_project(folder, language={"forms": ["vocabulary", "referring", "reasoning"]})
    serve(server, folder)
    document = yaml.safe_load(path.read_text())
    first, second = document["sources"]
    first["imagery"] = {"stac": {"url": f"{server.url}/search"}, "bbox": list(box_of(LEFT, 240, 150)), **OWN}
    asked = {"url": f"{server.url}/api", "categories": ["school"]}
    first["pois"] = [{"overpass": asked, "bbox": list(box_of(LEFT - 500, 1500, 1500)), **OWN, "licence": "ODbL-1.0"}]
    first["scenes"] |= {"max_blank_share": 0.9, "max_bright_share": 0.9}
    url = server.url + "/tiles/{z}/{x}/{y}.png?key=${TILE_KEY}"
    second["imagery"] = {"tiles": {"url": url, "zoom": ZOOM}, "acquired": "2024-05", "bbox": list(box_of(LEFT + 5000, 240, 150)), **OWN}
    second["scenes"] = {"grid": {"sizes_px": [256]}}
    document["sources"][0]["footprints"][0]["licence"] = document["sources"][1]["footprints"][0]["licence"] = "ODbL-1.0"
    document["licences"] = {"annotations": "ODbL-1.0"}
    document["run"]["snapshots"] = "kept"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    return path


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            patch.delenv(name, raising=False)
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("TILE_KEY", SECRET)
        yield


@pytest.fixture(scope="module")
def online(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Online]:
    with serving() as server:
        config = online_project(tmp_path_factory.mktemp("online"), server)
        listener = Listener()
        report = build(config, listener)
        assert report.findings == []
        yield Online(config, server, listener.said, report.state)


def tiles_asked(server: Served) -> Counter[str]:
    return Counter(asked.path.split("?")[0] for asked in server.asked if asked.path.startswith("/tiles/"))


def test_it_builds_and_audits_clean(online: Online) -> None:
    release = Release.open(online.config.parent / "release")
    scenes = release.scenes.drop_columns(["geometry"]).to_pylist()

    assert online.state == "done"
    assert list(audit_release(release.folder, sources=online.config.parent / "kept").findings) == []
    assert {(row["source"], row["crs"], row["acquired"]) for row in scenes} == {
        ("a", "EPSG:32645", "2025-06-01"), ("b", "EPSG:3857", "2024-05"),
    }  # fmt: skip
    assert {row["poi_id"] for row in scenes if row["how"] == "poi"} <= {"osm/node/1007", "osm/node/1023"}
    assert any(row["how"] == "poi" for row in scenes)
    assert all((row["blank_share"] is None) == (row["source"] == "b") for row in scenes)
    assert len(release.queries) > 50


def test_the_manifest_pins_what_was_fetched(online: Online) -> None:
    folder = online.config.parent
    rows = json.loads((folder / "release" / "manifest.json").read_text())["sources"]
    place = {(row["source"], row["kind"]): (row["origin"].replace(online.server.url, "SERVER"), row["date"]) for row in rows}

    assert place == {
        ("a", "annotations"): ("drawn.gpkg", None),
        ("a", "footprints"): ("a.geojson", None),
        ("a", "imagery"): ("SERVER/a.tif", "2025-06-01"),
        ("a", "pois"): ("SERVER/api", "2026-02-03"),
        ("b", "footprints"): ("b.geojson", None),
        ("b", "imagery"): ("SERVER/tiles/{z}/{x}/{y}.png", "2024-05"),
    }
    kept = {path.stem for path in (folder / "kept").iterdir()}
    assert {row["sha256"] for row in rows if "://" in row["origin"]} <= kept


def test_parts_came_by_ranges_and_everything_once(online: Online) -> None:
    asked = [each for each in online.server.asked if each.path == "/a.tif"]

    assert asked and all("range" in each.headers for each in asked)
    assert Counter(each.path for each in online.server.asked if each.method == "POST") == {"/api": 1, "/search": 1}
    assert set(tiles_asked(online.server).values()) == {1}
    assert all(f"key={SECRET}" in each.path for each in online.server.asked if each.path.startswith("/tiles/"))


def test_who_watches_is_told_what_is_fetched(online: Online) -> None:
    said = [re.sub(r"\b[0-9a-f]{12}…|[\d.]+ MB", "…", text.replace(online.server.url, "SERVER")) for text in online.said]
    n_tiles = len(tiles_asked(online.server))

    assert "sources.a.pois.0: fetching from SERVER/api" in said
    assert "sources.a.pois.0: kept as … after 1 request, …" in said
    assert "sources.b.imagery: fetching from SERVER/tiles/{z}/{x}/{y}.png" in said
    assert f"sources.b.imagery: kept as … after {n_tiles} requests, …" in said


def test_a_key_of_a_url_is_nowhere(online: Online) -> None:
    files = [path for path in online.config.parent.rglob("*") if path.is_file()]

    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert not any(SECRET in text for text in online.said)


def test_a_second_build_asks_nothing_and_gives_the_same_bytes(online: Online) -> None:
    before, n = tree_digest(online.config.parent / "release"), len(online.server.asked)
    listener = Listener()

    again = build(online.config, listener)

    assert all(summary.n_reused == summary.n_items for summary in again.summaries)
    assert (len(online.server.asked), listener.said) == (n, [])
    assert tree_digest(online.config.parent / "release") == before


def test_the_card_shows_statistics_and_plots_of_the_release(online: Online) -> None:
    folder = online.config.parent / "release"
    card = (folder / "README.md").read_text(encoding="utf-8")
    listed = {row["path"] for row in json.loads((folder / "manifest.json").read_text())["files"]}
    figures = sorted(path.relative_to(folder).as_posix() for path in (folder / "figures").iterdir())

    assert figures == [f"figures/{name}.png" for name in ("annotations", "images", "language", "regions")]
    assert set(figures) <= listed and all(f"]({name})" in card for name in figures)
    assert sum((folder / name).stat().st_size for name in figures) < 400_000
    n_scenes = Release.open(folder).scenes.num_rows
    assert f"| Asia | {n_scenes} | 100.0 |" in card
    assert re.search(r"^\| OVEarth-Bench \| 172 \| 1,346 \|", card, re.MULTILINE)
    assert re.search(r"^\| tiny 0\.1\.0 \| \d+ \| \d+ \| – \| yes \| yes \| yes \| yes \|$", card, re.MULTILINE)


def test_with_the_server_away_a_rebuild_works_from_the_snapshots(environment: None, tmp_path: Path) -> None:
    with serving() as server:
        config = online_project(tmp_path / "p", server)
        build(config)

    again = build(config, work=tmp_path / "work", output=tmp_path / "release")

    assert again.state == "done" and all(summary.n_reused == 0 for summary in again.summaries)
    assert tree_digest(tmp_path / "release") == tree_digest(tmp_path / "p" / "release")


def test_a_build_killed_while_it_fetches_goes_on_where_it_was(environment: None, tmp_path: Path) -> None:
    with serving() as server:
        config = online_project(tmp_path / "p", server)
        answer = server.reply_to

        def slowly(path: str) -> Reply:
            if path.startswith("/tiles/"):
                time.sleep(0.3)
            return answer(path)

        server.reply_to = slowly  # type: ignore[method-assign]
        code = "import sys; from pathlib import Path; from tests.unit.tasks.test_online_build import build; build(Path(sys.argv[1]))"
        process = subprocess.Popen([sys.executable, "-c", code, str(config)], cwd=ROOT)
        end = time.monotonic() + 60
        while len(tiles_asked(server)) < 3 and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(tiles_asked(server)) == 3, "killed in the middle of the tiles"
        others = Counter(asked.path for asked in server.asked if not asked.path.startswith("/tiles/"))
        server.reply_to = answer  # type: ignore[method-assign]

        report = build(config)

        assert report.state == "done"
        assert Counter(asked.path for asked in server.asked if not asked.path.startswith("/tiles/")) == others
        tiles = tiles_asked(server)
        assert sum(tiles.values()) <= len(tiles) + 1, "the one that was under way alone is asked again"
        assert len(tiles) > 4
