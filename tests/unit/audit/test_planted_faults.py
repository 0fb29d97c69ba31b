"""A good release passes with zero findings; each fault planted in it is found by its code."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import rasterio

from tests.unit.audit import _tiny_release as tiny
from trigpoint.audit import AuditError, audit_release


@pytest.fixture(scope="session")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    tiny.build(root / "release", root / "sources")
    return root


@pytest.fixture
def release(good, tmp_path):
    return Path(shutil.copytree(good / "release", tmp_path / "release"))


def edit_rows(folder, name, change):
    rows = pq.read_table(folder / name).to_pylist()
    rows = change(rows) or rows
    tiny.write_table(folder / name, rows)


def edit_row(folder, name, change, **where):
    def apply(rows):
        found = [row for row in rows if all(row[key] == value for key, value in where.items())]
        assert found, where
        for row in found:
            change(row)

    edit_rows(folder, name, apply)


def edit_query(folder, key, change, scene="s-utm"):
    rows = tiny.read_lines(folder / "queries.jsonl")
    canonical = next(entry[3] for entry in tiny.QUERIES if entry[0] == key)
    row = next(row for row in rows if row["scene_id"] == scene and row["canonical"] == canonical)
    change(row)
    tiny.write_lines(folder / "queries.jsonl", rows)


def edit_json(folder, name, change):
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(tiny.dump(content))


def edit_pixels(folder, name, change):
    with rasterio.open(folder / name, "r+") as dataset:
        band = dataset.read(1)
        change(band)
        dataset.write(band, 1)


def put(**values):
    return lambda row: row.update(values)


def instance(name, change, scene="s-utm"):
    return lambda folder: edit_row(folder, "instances.parquet", change, instance_id=f"{scene}/{name}")


def edge(s, relation, a, change):
    where = {"subject_id": f"s-utm/{s}", "relation": relation, "anchor_id": f"s-utm/{a}"}
    return lambda folder: edit_row(folder, "relations.parquet", change, **where)


def drop_edge(s, relation, a):
    def keep(rows):
        wanted = (f"s-utm/{s}", relation, f"s-utm/{a}")
        kept = [r for r in rows if (r["subject_id"], r["relation"], r["anchor_id"]) != wanted]
        assert len(kept) == len(rows) - 1
        return kept

    return lambda folder: edit_rows(folder, "relations.parquet", keep)


def scene(change, scene_id="s-merc"):
    return lambda folder: edit_row(folder, "scenes.parquet", change, scene_id=scene_id)


def query(key, change):
    return lambda folder: edit_query(folder, key, change)


def manifest(change):
    return lambda folder: edit_json(folder, "manifest.json", change)


def source_file(number, **values):
    return manifest(lambda m: m["sources"][number].update(values))


def second_raster(folder):
    row = {"source": "drone", "kind": "imagery", "origin": "b.tif", "date": None, "sha256": "3" * 64}
    manifest(lambda m: m["sources"].insert(0, row))(folder)


def one_series(rows):
    for row in rows:
        row["series_id"] = "series-01"


def one_source(rows):
    for row in rows:
        row.update(series_id="series-01", source="drone", geometry=rows[0]["geometry"])


def more_than_all_clouds(rows):
    for row, share in zip(rows, (1.5, None), strict=True):
        row["cloud_share"] = share


def licence_of(source, licence):
    return manifest(lambda m: [row.update(licence=licence) for row in m["licences"] if row["source"] == source])


def declared(**layers):
    return manifest(lambda m: m["declared_licences"].update(layers))


def attribution_dropped(folder):
    licence_of("drone", "CC-BY-4.0")(folder)
    declared(pixels="CC0-1.0")(folder)


def mixed(folder):
    licence_of("drone", "CC-BY-SA-4.0")(folder)
    licence_of("mosaic", "CC-BY-NC-4.0")(folder)


def split(change):
    return lambda folder: edit_json(folder, "splits/scene-disjoint.json", change)


def pixels(name, rows, cols, value):
    def change(band):
        band[rows, cols] = value

    return lambda folder: edit_pixels(folder, name, change)


def swap_owners(folder):
    def change(band):
        one, three = band == 1, band == 3
        band[one], band[three] = 3, 1

    edit_pixels(folder, "masks/s-utm.tif", change)


def leak(folder):
    path = folder / "inputs/scene-disjoint-test.jsonl"
    rows = tiny.read_lines(path)
    rows[0]["level"] = 3
    tiny.write_lines(path, rows)


def foreign_input(folder):
    path = folder / "inputs/scene-disjoint-test.jsonl"
    other = tiny.read_lines(folder / "inputs/scene-disjoint-train.jsonl")
    tiny.write_lines(path, sorted([*tiny.read_lines(path), other[0]], key=lambda r: r["query_id"]))


def wrong_sentence_input(folder):
    path = folder / "inputs/scene-disjoint-test.jsonl"
    rows = tiny.read_lines(path)
    rows[0]["sentence"] = rows[1]["sentence"]
    tiny.write_lines(path, rows)


def move_vertex(row):
    import shapely

    ring = np.asarray(shapely.from_wkb(row["geometry"]).exterior.coords)
    ring[2] += (ring[0] - ring[2]) * 0.2
    row["geometry"] = shapely.to_wkb(shapely.Polygon(ring))


def min_width_obb(row):
    """A rectangle of the right width around the mask, but longer than need be."""
    x0, y0, x1, y1 = row["hbb_px"]
    row["obb_px"] = [x0, y0, x1 + 4, y0, x1 + 4, y1, x0, y1]


def turn_corners(row):
    row["obb_px"] = row["obb_px"][2:] + row["obb_px"][:2]


def overlap_windows(folder):
    """Both scenes now name one source and share a corner of it, across splits."""

    def change(rows):
        rows[0]["source_sha256"] = rows[1]["source_sha256"]
        rows[0]["window"] = [100, 100, 160, 128]

    edit_rows(folder, "scenes.parquet", change)


def invert(row):
    row["verdict"] = "TRUE"


def stale_audit(folder):
    (folder / "audit.json").write_text(tiny.dump({"manifest_sha256": "0" * 64}))


def unbalance(folder):
    """Say that three in four queries should be unanswerable."""
    edit_json(folder, "manifest.json", lambda m: m["rules"].update(unanswerable_share=0.75))


def counterfactual_elsewhere(folder):
    """Each scene's `far` names the other scene's `near`, and the other way round."""
    for scene_id, elsewhere in (("s-utm", "s-merc"), ("s-merc", "s-utm")):
        for key, other in (("far", "near"), ("near", "far")):
            canonical = next(entry[3] for entry in tiny.QUERIES if entry[0] == other)
            edit_query(folder, key, put(counterfactual_of=tiny.query_id(elsewhere, canonical)), scene_id)


def hang_on_pixels(folder):
    """The homes far from the shop: one of them is so by less than a pixel, stored as if it were clear."""
    program, canonical = tiny.rel(tiny.HOMES, "far", tiny.SHOP), "(rel (cat apartment_house) far (cat shop_building))"
    edit_query(
        folder,
        "far",
        put(
            program=program,
            canonical=canonical,
            query_id=tiny.query_id("s-utm", canonical),
            answer_ids=["s-utm/B12", "s-utm/B4", "s-utm/B6"],
            sentences=[
                "all residential buildings that are far from the shop building",
                "the residential buildings that lie far away from the shop building",
                "any residential buildings located a long way from the shop building",
            ],
        ),
    )
    for s, a in (("B4", "B2"), ("B2", "B4")):
        edge(s, "far", a, put(verdict="TRUE"))(folder)


def certificate(change):
    return manifest(lambda m: change(m["certificate"]))


def level_three(**values):
    return lambda c: c["levels"]["3"].update(values)


def inputs(change):
    def plant(folder):
        path = folder / "inputs/scene-disjoint-test.jsonl"
        rows = tiny.read_lines(path)
        change(rows)
        tiny.write_lines(path, rows)

    return plant


def append(path, text):
    path.write_text(path.read_text() + text)


def repeat_query(folder):
    rows = tiny.read_lines(folder / "queries.jsonl")
    tiny.write_lines(folder / "queries.jsonl", [*rows, rows[0]])


def double_noun(folder):
    """Schools and temples bear one name."""
    path = folder / "taxonomy/tiny.v1.yaml"
    path.write_text(path.read_text().replace("noun: temple, plural: temples", "noun: school, plural: schools"))


def rewrite_mask(rows=tiny.HEIGHT, **profile):
    """Write the index map of s-utm with something else in its profile."""

    def plant(folder):
        path = folder / "masks/s-utm.tif"
        with rasterio.open(path) as dataset:
            band, wanted = dataset.read(1), dataset.profile | profile
        with rasterio.open(path, "w", **(wanted | {"height": rows})) as dataset:
            dataset.write(band[:rows].astype(wanted["dtype"]), 1)

    return plant


def rename_mask(folder):
    (folder / "masks/s-utm.tif").rename(folder / "masks/other.tif")
    scene(put(mask_path="masks/other.tif"), "s-utm")(folder)


def one_group(content):
    """Both scenes in one group that nothing joins."""
    content["groups"] = [{"group_id": "g-1", "scenes": ["s-merc", "s-utm"], "reasons": []}]


def group_for_nothing(content):
    """Both scenes in one group, for being close."""
    reason = {"scenes": ["s-merc", "s-utm"], "why": "buffer", "value": 3.0}
    content["groups"] = [{"group_id": "g-1", "scenes": ["s-merc", "s-utm"], "reasons": [reason]}]


LARGEST_OF_FAR = {"op": "attr", "of": tiny.rel(tiny.HOMES, "far", tiny.SCHOOL), "key": "area", "extreme": "most"}


FAULTS = [
    # code, item (a part of it), fault
    ("georeferencing: gsd is nominal", "gsd_nominal", "s-merc", scene(put(gsd_m=0.15))),
    ("georeferencing: gsd is neither", "gsd_wrong", "s-merc", scene(put(gsd_m=0.2))),
    ("georeferencing: Web Mercator kept as the metric frame", "metric_crs", "s-merc", scene(put(metric_crs="EPSG:3857"))),
    ("georeferencing: pixel area", "pixel_area_wrong", "s-utm", scene(put(pixel_area_m2=0.26), "s-utm")),
    (
        "georeferencing: convergence of the wrong sign",
        "convergence_wrong",
        "s-utm",
        scene(lambda r: r.update(convergence_deg=-r["convergence_deg"]), "s-utm"),
    ),
    ("georeferencing: scale", "scale_wrong", "s-utm", scene(put(scale_k=1.0), "s-utm")),
    ("georeferencing: image up", "image_up_wrong", "s-utm", scene(put(image_up_deg=0.0), "s-utm")),
    ("georeferencing: north up", "north_up_wrong", "s-utm", scene(put(north_up=False), "s-utm")),
    (
        "georeferencing: GDAL's order of the transform",
        "scene_transform",
        "s-utm",
        scene(lambda r: r.update(transform=[330000.0, 0.5, 0.0, 3060000.0, 0.0, -0.5]), "s-utm"),
    ),
    ("georeferencing: CRS", "scene_crs", "s-utm", scene(put(crs="EPSG:32644"), "s-utm")),
    ("georeferencing: size", "scene_size", "s-utm", scene(put(width=128, height=160), "s-utm")),
    ("georeferencing: valid share", "valid_share_wrong", "s-utm", scene(put(valid_share=0.9), "s-utm")),
    ("georeferencing: shorter side", "shorter_side_wrong", "s-merc", scene(put(shorter_side_m=128 * 0.15))),
    (
        "georeferencing: footprint of another scene",
        "footprint_wrong",
        "s-utm",
        lambda f: edit_rows(f, "scenes.parquet", lambda rows: rows[1].update(geometry=rows[0]["geometry"])),
    ),
    ("ownership: a pixel changes hands", "area_px_wrong", "s-utm/B1", pixels("masks/s-utm.tif", 15, 20, 0)),
    ("ownership: run lengths no longer fit", "rle_wrong", "s-utm/B1", pixels("masks/s-utm.tif", 15, 20, 0)),
    ("ownership: owners swapped", "rle_wrong", "s-utm/B3", swap_owners),
    ("ownership: a label of nobody", "label_without_instance", "s-utm", pixels("masks/s-utm.tif", slice(50, 52), slice(50, 52), 77)),
    (
        "ownership: an instance without pixels",
        "instance_without_pixels",
        "s-utm/B2",
        pixels("masks/s-utm.tif", slice(0, 22), slice(55, 90), 0),
    ),
    ("ownership: a plane of nobody", "plane_without_region", "s-utm", pixels("regions/s-utm.tif", 0, 0, 2)),
    ("ownership: two instances of one label", "label_twice", "label 2", instance("B1", put(label=2))),
    ("ownership: cut", "cut_wrong", "s-utm/B6", instance("B6", put(cut=False))),
    (
        "ownership: nominal square metres",
        "area_m2_wrong",
        "s-merc/B1",
        instance("B1", lambda r: r.update(area_m2=r["area_px"] * 0.0225), "s-merc"),
    ),
    ("ownership: a vertex moved", "outline_wrong", "s-utm/B5", instance("B5", move_vertex)),
    ("ownership: point outside", "point_outside", "s-utm/B5", instance("B5", put(point_x_px=1.0))),
    ("ownership: hostile run lengths", "rle_wrong", "s-utm/B5", instance("B5", put(rle="~~~~"))),
    ("boxes: hbb shifted by one", "hbb_wrong", "s-utm/B1", instance("B1", put(hbb_px=[10.0, 10.0, 33.0, 23.0]))),
    ("boxes: obb minimal in width alone", "obb_not_minimal", "s-utm/B2", instance("B2", min_width_obb)),
    ("boxes: obb starts elsewhere", "obb_corner_order", "s-utm/B2", instance("B2", turn_corners)),
    (
        "boxes: obb cuts the mask",
        "obb_not_enclosing",
        "s-utm/B2",
        instance("B2", put(obb_px=[60.0, 8.0, 79.0, 8.0, 79.0, 20.0, 60.0, 20.0])),
    ),
    ("boxes: a region with a box", "box_unwanted", "s-utm/R", instance("R", put(obb_px=[0.0] * 8))),
    ("boxes: length in pixels", "rectangle_wrong", "s-utm/B1", instance("B1", put(length_m=24.0))),
    (
        "boxes: orientation turned",
        "orientation_wrong",
        "s-utm/B1",
        instance("B1", lambda r: r.update(orientation_deg=(r["orientation_deg"] + 90) % 180)),
    ),
    (
        "boxes: perimeter of a staircase",
        "perimeter_wrong",
        "s-utm/B1",
        instance("B1", lambda r: r.update(perimeter_m=r["perimeter_m"] * 1.26)),
    ),
    ("boxes: centroid", "centroid_wrong", "s-utm/B1", instance("B1", put(centroid_x_m=0.0))),
    ("boxes: compactness", "compactness_wrong", "s-utm/B1", instance("B1", put(compactness=0.2))),
    ("boxes: elongation", "elongation_wrong", "s-utm/B1", instance("B1", put(elongation=9.0))),
    ("relations: flipped", "edge_opposite", "s-utm/B1 south_of s-utm/B3", edge("B1", "north_of", "B3", put(relation="south_of"))),
    (
        "relations: flipped, the right one gone",
        "edge_opposite",
        "s-utm/B1 north_of s-utm/B3",
        edge("B1", "north_of", "B3", put(relation="south_of")),
    ),
    ("relations: dropped", "edge_opposite", "s-utm/B7 near s-utm/B1", drop_edge("B7", "near", "B1")),
    ("relations: an undecided edge dropped", "edge_missing", "s-utm/B7 far s-utm/R", drop_edge("B7", "far", "R")),
    ("relations: TRUE turned UNDECIDED", "edge_verdict", "s-utm/B4 far s-utm/B1", edge("B4", "far", "B1", put(verdict="UNDECIDED"))),
    ("relations: value", "edge_value", "s-utm/B4 far s-utm/B1", edge("B4", "far", "B1", lambda r: r.update(value=r["value"] + 2))),
    ("relations: margin", "edge_margin", "s-utm/B4 far s-utm/B1", edge("B4", "far", "B1", put(margin=0.1))),
    ("relations: unit", "edge_unit", "s-utm/B4 far s-utm/B1", edge("B4", "far", "B1", put(unit="px"))),
    ("relations: symmetry", "algebra_symmetry", "s-utm/B4 far s-utm/B1", drop_edge("B1", "far", "B4")),
    ("relations: inverse", "algebra_inverse", "s-utm/B4 inside s-utm/R", drop_edge("R", "contains", "B4")),
    (
        "relations: disjoint",
        "algebra_disjoint",
        "s-utm/B4 inside s-utm/R",
        lambda f: edit_rows(
            f,
            "relations.parquet",
            lambda rows: [
                *rows,
                next(r for r in rows if r["subject_id"] == "s-utm/B3" and r["relation"] == "outside") | {"subject_id": "s-utm/B4"},
            ],
        ),
    ),
    ("relations: unknown", "relation_unknown", "beside", edge("B4", "far", "B1", put(relation="beside"))),
    ("relations: to nobody", "edge_unreadable", "s-utm/B99", edge("B4", "far", "B1", put(anchor_id="s-utm/B99"))),
    ("answers: stale", "answer_stale", "q-", query("far", put(answer_ids=["s-utm/B4"]))),
    ("answers: of another scene", "answer_unknown", "q-", query("near", put(answer_ids=["s-merc/B7"]))),
    ("answers: answerable without answer", "answerable_wrong", "q-", query("near", put(answer_ids=[]))),
    (
        "answers: undecided at the root",
        "answer_undecided",
        "q-",
        query("far", put(program=tiny.rel(tiny.cat("building"), "far", tiny.cat("open_ground")))),
    ),
    ("answers: anchor denotes several", "program_error", "q-", query("far", put(program=tiny.rel(tiny.HOMES, "far", tiny.cat("temple"))))),
    ("queries: level", "level_wrong", "q-", query("both", put(level=3))),
    ("queries: kind", "kind_wrong", "q-", query("none", put(kind="answerable"))),
    ("queries: absence that is none", "absence_wrong", "q-", query("none", put(kind="category_absent"))),
    ("queries: polarity", "polarity_wrong", "q-", query("none", put(polarity="positive"))),
    ("queries: canonical form", "canonical_differs", "q-", query("far", put(canonical="(cat tree)"))),
    ("queries: id of another program", "query_id_wrong", "q-", query("far", put(program=tiny.HOMES))),
    ("queries: no program", "program_malformed", "q-", query("far", put(program={"op": "eval", "code": "1"}))),
    ("queries: category", "category_wrong", "q-", query("far", put(category=["temple"]))),
    ("queries: difficulty", "difficulty_wrong", "q-", query("far", put(difficulty="hard"))),
    (
        "queries: counterfactual of an unrelated program",
        "counterfactual_wrong",
        "q-",
        query("far", lambda r: r.update(counterfactual_of=tiny.query_id("s-utm", "(cat apartment_house)"))),
    ),
    ("queries: a counterfactual that does not point back", "counterfactual_one_way", "q-", query("far", put(counterfactual_of=None))),
    (
        "queries: a counterfactual of the same answer",
        "counterfactual_same_answer",
        "q-",
        query("far", put(answer_ids=["s-utm/B11", "s-utm/B7"])),
    ),
    ("queries: a counterfactual of another scene", "counterfactual_wrong", "q-", counterfactual_elsewhere),
    (
        "queries: counterfactual pairs miscounted",
        "count_wrong",
        "counts.counterfactual_pairs",
        manifest(lambda m: m["counts"].update(counterfactual_pairs=5)),
    ),
    ("queries: share of unanswerables", "unanswerable_share", "", unbalance),
    (
        "sentences: of another query",
        "sentence_mismatch",
        "q-",
        query("far", put(sentences=["all residential buildings that are near the school"])),
    ),
    ("sentences: not in the grammar", "sentence_unparsed", "q-", query("far", put(sentences=["show me the far homes"]))),
    ("splits: a scene in two", "scene_in_splits", "s-utm", split(lambda s: s["assignment"]["test"].append("s-utm"))),
    ("splits: a scene in none", "scene_in_splits", "s-utm", split(lambda s: s["assignment"].update(train=[]))),
    ("splits: shared pixels across", "group_straddles", "s-merc s-utm", overlap_windows),
    (
        "splits: closer than the buffer",
        "group_straddles",
        "s-merc s-utm",
        split(lambda s: s["grouping"]["buffer_m"].update(other_source=1e6)),
    ),
    ("splits: proof", "proof_wrong", "queries", split(lambda s: s["proof"]["queries"].update(test=14))),
    (
        "splits: proof of distance",
        "proof_wrong",
        "smallest_distance_m train-test",
        split(lambda s: s["proof"]["smallest_distance_m"].update({"train-test": 1.0})),
    ),
    ("inputs: a key that leaks", "input_keys", "q-", leak),
    ("inputs: a query of another split", "input_foreign", "q-", foreign_input),
    ("inputs: the sentence of another query", "input_differs", "sentence", wrong_sentence_input),
    (
        "exports: coco area",
        "coco_annotation",
        "area",
        lambda f: edit_json(f, "exports/coco.json", lambda c: c["annotations"][0].update(area=1)),
    ),
    (
        "exports: coco ids twice",
        "coco_annotation",
        "7",
        lambda f: edit_json(f, "exports/coco.json", lambda c: [a.update(id=7) for a in c["annotations"][:2]]),
    ),
    (
        "exports: dota",
        "dota_wrong",
        "s-utm/B1",
        lambda f: (f / "exports/dota/s-utm.txt").write_text((f / "exports/dota/s-utm.txt").read_text().replace("34.0 10.0", "35.0 10.0")),
    ),
    ("manifest: a wrong count", "count_wrong", "counts.queries", manifest(lambda m: m["counts"].update(queries=27))),
    ("manifest: a key gone", "manifest_key", "versions", manifest(lambda m: m.pop("versions"))),
    ("manifest: a licence gone", "licence_missing", "drone", manifest(lambda m: m["licences"].pop(0))),
    ("manifest: a licence of annotations gone", "licence_missing", "osm/way/1", manifest(lambda m: m["licences"].pop(2))),
    ("manifest: a licence that differs", "licence_differs", "s-utm", scene(put(licence="CC-BY-4.0"), "s-utm")),
    ("sources: none", "manifest_key", "sources", manifest(lambda m: m.pop("sources"))),
    ("sources: a digest that is none", "source_file_wrong", "sources[0]", source_file(0, sha256="1" * 63)),
    ("sources: a kind that is none", "source_file_wrong", "sources[1]", source_file(1, kind="raster")),
    ("sources: a path of a machine", "source_file_wrong", "sources[2]", source_file(2, origin="/home/me/town.gpkg")),
    ("sources: a key in a URL", "source_file_wrong", "sources[2]", source_file(2, origin="https://osm.example/town.gpkg?key=1")),
    ("sources: a time of day", "source_file_wrong", "sources[2]", source_file(2, date="2026-01-02T03:04:05Z")),
    ("sources: one twice", "source_file_wrong", "sources", manifest(lambda m: m["sources"].append(m["sources"][2]))),
    ("sources: two rasters of one", "source_file_wrong", "sources", second_raster),
    ("sources: another raster", "scene_unpinned", "s-utm", source_file(0, sha256="2" * 64)),
    ("sources: a raster gone", "scene_unpinned", "s-merc", manifest(lambda m: m["sources"].pop(1))),
    ("sources: another date", "scene_value", "s-utm acquired", source_file(0, date="2026")),
    ("sources: unlicensed", "licence_missing", "osm imagery", source_file(2, kind="imagery")),
    ("series: of two places", "series_wrong", "series-01", lambda f: edit_rows(f, "scenes.parquet", one_series)),
    ("series: of one source", "series_wrong", "series-01", lambda f: edit_rows(f, "scenes.parquet", one_source)),
    ("series: an id that is none", "scene_value", "s-utm series_id", scene(put(series_id="winter"), "s-utm")),
    ("quality: blank", "quality_wrong", "s-merc blank_share", scene(put(blank_share=0.3))),
    ("quality: bright", "quality_wrong", "s-merc bright_share", scene(put(bright_share=0.3))),
    ("quality: clouds", "quality_wrong", "s-merc cloud_share", lambda f: edit_rows(f, "scenes.parquet", more_than_all_clouds)),
    ("licences: one that nobody knows", "licence_unknown", "osm (annotations)", licence_of("osm", "LicenseRef-mine")),
    ("licences: declared, and unknown", "licence_unknown", "declared_licences.annotations", declared(annotations="mine")),
    ("licences: a layer that is none", "manifest_value", "declared_licences.words", declared(words="CC0-1.0")),
    ("licences: share-alike released otherwise", "licence_incompatible", "osm (annotations)", declared(annotations="CC-BY-4.0")),
    ("licences: no derivatives", "licence_incompatible", "osm (annotations)", licence_of("osm", "CC-BY-ND-4.0")),
    ("licences: no redistribution", "licence_incompatible", "drone (pixels)", licence_of("drone", "LicenseRef-proprietary")),
    ("licences: attribution dropped", "licence_incompatible", "drone (pixels)", attribution_dropped),
    ("licences: two that do not mix", "licence_incompatible", "licences (pixels)", mixed),
    ("licences: terms gone", "licence_incompatible", "declared_licences", lambda f: (f / "taxonomy/licences.v1.yaml").unlink()),
    ("manifest: review states", "review_wrong", "review.states", instance("B1", put(review_state="accepted"))),
    ("files: audit of another manifest", "audit_stale", "manifest_sha256", stale_audit),
    ("files: a scene's raster gone", "scene_unreadable", "s-utm", lambda f: (f / "scenes/s-utm.tif").unlink()),
    (
        "files: a raster cut short",
        "mask_unreadable",
        "s-utm",
        lambda f: (f / "masks/s-utm.tif").write_bytes((f / "masks/s-utm.tif").read_bytes()[:200]),
    ),
    ("files: a table that is none", "table_unreadable", "", lambda f: (f / "relations.parquet").write_bytes(b"PAR1")),
    ("files: a card gone", "part_missing", "README.md", lambda f: (f / "README.md").unlink()),
    (
        "files: a column gone",
        "column_missing",
        "cut",
        lambda f: pq.write_table(pq.read_table(f / "instances.parquet").drop_columns(["cut"]), f / "instances.parquet"),
    ),
    ("certificate: gone", "certificate_missing", "certificate", manifest(lambda m: m.pop("certificate"))),
    ("certificate: no number", "certificate_wrong", "certificate.jitters", certificate(put(jitters="20"))),
    ("certificate: no seed", "certificate_wrong", "certificate", certificate(lambda c: c.pop("seed"))),
    ("certificate: a level left out", "certificate_wrong", "certificate.levels.5", certificate(lambda c: c["levels"].pop("5"))),
    ("certificate: answers that do not add up", "certificate_wrong", "certificate.levels.3", certificate(level_three(answers=40))),
    (
        "certificate: more released than tried",
        "certificate_wrong",
        "certificate.levels.3",
        certificate(level_three(programs=4, answers=80)),
    ),
    ("certificate: an answer that hangs on a pixel", "certificate_broken", "q-", hang_on_pixels),
    ("sentences: two only", "sentence_missing", "q-", query("far", lambda r: r["sentences"].pop())),
    (
        "sentences: two that differ in a full stop",
        "sentence_twice",
        "q-",
        query("far", lambda r: r["sentences"].append(r["sentences"][0] + ".")),
    ),
    ("sentences: a noun of two categories", "sentence_ambiguous", "q-", double_noun),
    ("queries: form", "form_wrong", "q-", query("far", put(form="choice"))),
    ("queries: a key gone", "query_key", "q-", query("far", lambda r: r.pop("annotation_id"))),
    ("queries: a line twice", "id_twice", "q-", repeat_query),
    ("queries: of a scene that is not there", "scene_unknown", "q-", query("far", put(scene_id="s-nowhere"))),
    ("queries: a line that is no object", "row_unreadable", "line 27", lambda f: append(f / "queries.jsonl", "[1]\n")),
    ("queries: unsorted answers", "answer_order", "q-", query("far", lambda r: r["answer_ids"].reverse())),
    ("queries: a region as an answer", "answer_not_countable", "q-", query("far", put(answer_ids=["s-utm/R"]))),
    ("queries: a structure of no level", "program_form", "q-", query("far", put(program=LARGEST_OF_FAR))),
    (
        "queries: a broader category that does as well",
        "part_unneeded",
        "q-",
        query("tin", put(program=tiny.rel(tiny.cat("school"), "far", tiny.cat("open_ground")))),
    ),
    (
        "queries: one of a category of one",
        "category_too_small",
        "q-",
        query("tin", put(program=tiny.rel(tiny.cat("school"), "far", tiny.cat("open_ground")))),
    ),
    ("queries: nearly the whole category", "answer_too_large", "q-", manifest(lambda m: m["rules"].update(answer_max_share=0.3))),
    (
        "queries: a simpler one has the answer",
        "lower_level_same_answer",
        "q-",
        query("east", put(level=3, answer_ids=["s-utm/B7"], program={"op": "nearest", "of": tiny.TILED, "anchor": tiny.SCHOOL})),
    ),
    (
        "queries: a countable thing as the anchor of inside",
        "topology_anchor",
        "q-",
        query("far", put(program=tiny.rel(tiny.HOMES, "inside", tiny.SCHOOL))),
    ),
    ("queries: a cut anchor", "anchor_cut", "q-", instance("B1", put(cut=True))),
    ("queries: a cut winner", "cut_winner", "q-", instance("B9", put(cut=True))),
    (
        "queries: an anchor that fills the scene",
        "anchor_dominates",
        "q-",
        manifest(lambda m: m["rules"].update(anchor_max_scene_share=0.01)),
    ),
    (
        "queries: an anchor with a simpler name",
        "anchor_directly_nameable",
        "q-",
        query("hops", put(program=tiny.rel(tiny.TILED, "west_of", tiny.rel(tiny.SHOP, "west_of", tiny.cat("tree"))))),
    ),
    ("queries: no room in the sector", "absence_trivial", "q-", manifest(lambda m: m["rules"].update(sector_min_share=0.9))),
    (
        "relations: FALSE stored as undecided",
        "edge_extra",
        "s-utm/B4 far s-utm/B9",
        edge("B4", "far", "B1", put(anchor_id="s-utm/B9", verdict="UNDECIDED")),
    ),
    (
        "relations: twice",
        "edge_twice",
        "s-utm/B4 far s-utm/B1",
        lambda f: edit_rows(
            f,
            "relations.parquet",
            lambda rows: [
                *rows,
                next(r for r in rows if r["subject_id"] == "s-utm/B4" and r["anchor_id"] == "s-utm/B1" and r["relation"] == "far"),
            ],
        ),
    ),
    ("relations: to itself", "edge_to_itself", "s-utm/B4 far s-utm/B4", edge("B4", "far", "B1", put(anchor_id="s-utm/B4"))),
    ("relations: unsorted", "order_wrong", "", lambda f: edit_rows(f, "relations.parquet", lambda rows: rows[::-1])),
    ("relations: of a scene that is not there", "scene_unknown", "s-nowhere", edge("B4", "far", "B1", put(scene_id="s-nowhere"))),
    ("ownership: label and plane", "label_wrong", "s-utm/B1", instance("B1", put(plane=3))),
    ("ownership: not compressed as it should be", "mask_compression", "s-utm", rewrite_mask(compress="deflate")),
    ("ownership: a mask of signed numbers", "mask_dtype", "s-utm", rewrite_mask(dtype="int32")),
    (
        "ownership: a mask of another place",
        "mask_transform",
        "s-utm",
        rewrite_mask(transform=rasterio.Affine(0.5, 0, 330001, 0, -0.5, 3060000)),
    ),
    ("ownership: a mask of another size", "mask_size", "s-utm", rewrite_mask(rows=100)),
    ("ownership: regions without a raster", "region_path_missing", "s-utm", scene(put(region_path=None), "s-utm")),
    ("ownership: an outline that is none", "outline_wrong", "s-utm/B5", instance("B5", put(geometry=b"no shape"))),
    ("instances: an unknown category", "instance_value", "s-utm/B5 category", instance("B5", put(category=["cathedral"]))),
    ("instances: two categories of one axis", "instance_value", "s-utm/B5 category", instance("B5", put(category=["temple", "school"]))),
    ("instances: too small", "instance_too_small", "s-utm/B4", manifest(lambda m: m["rules"].update(min_instance_px=110))),
    ("instances: an id twice", "id_twice", "s-utm/B1", instance("B2", put(instance_id="s-utm/B1"))),
    ("instances: no number where one should be", "perimeter_wrong", "s-utm/B1", instance("B1", put(perimeter_m=float("nan")))),
    ("boxes: no rectangle", "obb_wrong", "s-utm/B2", instance("B2", lambda r: r.update(obb_px=[r["obb_px"][0] + 1, *r["obb_px"][1:]]))),
    ("scenes: a file of another name", "scene_value", "s-utm mask_path", rename_mask),
    ("scenes: a window of another size", "scene_value", "s-utm window", scene(put(window=[20, 10, 159, 128]), "s-utm")),
    ("scenes: a date that is none", "scene_value", "s-utm acquired", scene(put(acquired="1 June"), "s-utm")),
    ("scenes: the attribution of another", "scene_value", "s-utm attribution", scene(put(attribution="somebody"), "s-utm")),
    ("scenes: no frame", "frame_underivable", "s-utm", scene(put(crs="EPSG:0"), "s-utm")),
    (
        "scenes: a hash of another picture",
        "phash_wrong",
        "s-utm phash[0]",
        scene(lambda r: r.update(phash=[f"{int(r['phash'][0], 16) ^ 7:016x}", *r["phash"][1:]]), "s-utm"),
    ),
    ("scenes: a hash that is none", "row_unreadable", "s-utm", scene(lambda r: r.update(phash=["?", *r["phash"][1:]]), "s-utm")),
    ("scenes: the spread of another picture", "grey_sd_wrong", "s-utm", scene(put(grey_sd=40.0), "s-utm")),
    ("scenes: met by a list that is not there", "screening_wrong", "s-utm", scene(put(outside=["landcover"]), "s-utm")),
    ("splits: a group of two for no reason", "group_wrong", "s-merc", split(one_group)),
    ("splits: a reason that does not hold", "group_reason_wrong", "s-merc s-utm", split(group_for_nothing)),
    ("splits: a reason that is not given", "group_reason_missing", "s-merc s-utm shared_pixels", overlap_windows),
    ("splits: no grouping", "split_unreadable", "", split(lambda s: s.pop("grouping"))),
    ("splits: a fourth split", "split_assignment", "splits", split(lambda s: s["assignment"].update(extra=[]))),
    ("splits: a rule that it has not", "protocol_rule_wrong", "rule", split(lambda s: s.update(rule={"by": "region"}))),
    (
        "splits: left out without need",
        "protocol_rule_wrong",
        "s-merc",
        split(lambda s: (s["assignment"].update(test=[]), s.update(left_out={"s-merc": "ugly"}))),
    ),
    (
        "splits: proof of hashes",
        "proof_wrong",
        "smallest_hash_bits train-test",
        split(lambda s: s["proof"]["smallest_hash_bits"].update({"train-test": 1})),
    ),
    ("splits: proof of levels", "proof_wrong", "levels", split(lambda s: s["proof"]["levels"]["test"].update({"1": 1}))),
    ("splits: proof of shares", "proof_wrong", "reached_share train", split(lambda s: s["proof"]["reached_share"].update(train=0.7))),
    ("splits: a list of screening without a policy", "split_unreadable", "screening", split(lambda s: s.update(screening={"lists": []}))),
    (
        "splits: a protocol of nobody",
        "protocol_wrong",
        "by-mood",
        lambda f: (f / "splits/scene-disjoint.json").rename(f / "splits/by-mood.json"),
    ),
    (
        "splits: there and left out",
        "protocol_wrong",
        "scene-disjoint",
        manifest(lambda m: m["protocols_left_out"].update({"scene-disjoint": "why not"})),
    ),
    ("inputs: a query left out", "input_missing", "q-", inputs(lambda rows: rows.pop())),
    ("inputs: a query twice", "input_twice", "q-", inputs(lambda rows: rows.append(rows[-1]))),
    ("inputs: no object", "input_unreadable", "line 14", lambda f: append(f / "inputs/scene-disjoint-test.jsonl", "7\n")),
    ("inputs: of a protocol of nobody", "input_unknown", "by-mood-test.jsonl", lambda f: (f / "inputs/by-mood-test.jsonl").write_text("")),
    ("inputs: none for an empty split", "part_missing", "scene-disjoint-val", lambda f: (f / "inputs/scene-disjoint-val.jsonl").unlink()),
    ("exports: coco without images", "coco_images", "images", lambda f: edit_json(f, "exports/coco.json", lambda c: c["images"].pop())),
    (
        "exports: coco categories twice",
        "coco_categories",
        "categories",
        lambda f: edit_json(f, "exports/coco.json", lambda c: c["categories"].append(c["categories"][0])),
    ),
    ("exports: coco is none", "coco_unreadable", "", lambda f: (f / "exports/coco.json").write_text("[]")),
    ("exports: dota gone", "dota_unreadable", "s-utm", lambda f: (f / "exports/dota/s-utm.txt").unlink()),
    (
        "exports: stac of another place",
        "stac_wrong",
        "s-utm geometry",
        lambda f: edit_json(f, "stac/s-utm.json", lambda c: c["geometry"].update(coordinates=[[[0, 0], [1, 0], [1, 1], [0, 0]]])),
    ),
    (
        "exports: stac of another picture",
        "stac_wrong",
        "s-utm image",
        lambda f: edit_json(f, "stac/s-utm.json", lambda c: c["assets"]["image"].update(href="../scenes/s-merc.tif")),
    ),
    ("exports: stac of another id", "stac_unreadable", "s-utm", lambda f: edit_json(f, "stac/s-utm.json", lambda c: c.update(id="s-merc"))),
    ("exports: stac without an item", "stac_wrong", "s-utm", lambda f: edit_json(f, "stac/catalog.json", lambda c: c["links"].pop())),
    ("manifest: an unknown format", "format_version", "format_version", manifest(lambda m: m.update(format_version=9))),
    ("manifest: a share above one", "manifest_value", "rules.near_share", manifest(lambda m: m["rules"].update(near_share=10))),
    ("manifest: an unknown relation", "manifest_value", "rules.relations", manifest(lambda m: m["rules"]["relations"].append("beside"))),
    ("manifest: distances as text", "manifest_value", "rules.within_m", manifest(lambda m: m["rules"].update(within_m=["25"]))),
    (
        "manifest: an axis of nobody",
        "manifest_value",
        "unknown_is_other.colour",
        manifest(lambda m: m["unknown_is_other"].update(colour="why")),
    ),
    (
        "manifest: drops below one",
        "manifest_value",
        "counts.drops.too_small",
        manifest(lambda m: m["counts"]["drops"].update(too_small=-1)),
    ),
    (
        "files: JSON with unsorted keys",
        "json_form",
        "stac/catalog.json",
        lambda f: (f / "stac/catalog.json").write_text('{"links": [], "id": "tiny"}'),
    ),
    (
        "files: JSON with NaN",
        "json_form",
        "exports/coco.json",
        lambda f: edit_json(f, "exports/coco.json", lambda c: c["annotations"][0].update(area=float("nan"))),
    ),
    ("files: one that the format does not know", "file_unknown", "keys.env", lambda f: (f / "keys.env").write_text("TOKEN=1")),
    (
        "files: no schema",
        "schema_wrong",
        "$defs",
        lambda f: edit_json(f, "schemas/program.v1.schema.json", lambda c: c["$defs"].pop("rel")),
    ),
    (
        "files: no GeoParquet",
        "geoparquet_wrong",
        "geo",
        lambda f: pq.write_table(pq.read_table(f / "scenes.parquet").replace_schema_metadata({}), f / "scenes.parquet"),
    ),
    ("files: a taxonomy of nothing", "taxonomy_unreadable", "", lambda f: (f / "taxonomy/tiny.v1.yaml").write_text("a: 1")),
]


def test_a_good_release_passes_with_no_finding(good):
    report = audit_release(good / "release", good / "sources")

    assert report.findings == ()
    assert report.checks["relation_verdicts"] == 2 * 13 * 12 * 10
    assert report.checks["recut"] == 2


@pytest.mark.parametrize(("code", "item", "plant"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_planted_fault_is_found_by_its_code(release, code, item, plant):
    plant(release)
    tiny.seal(release)

    report = audit_release(release)

    found = [(finding.code, finding.item) for finding in report.findings]
    assert any(c == code and item in i for c, i in found), found


def test_a_changed_byte_is_found_by_the_digest_alone(release):
    data = bytearray((release / "sample.png").read_bytes())
    data[3] ^= 1
    (release / "sample.png").write_bytes(data)

    report = audit_release(release)

    assert [(f.code, f.file) for f in report.findings] == [("file_altered", "sample.png")]


def test_a_link_and_an_escaping_path_are_found(release, tmp_path):
    (tmp_path / "elsewhere.txt").write_text("not ours")
    (release / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    manifest(lambda m: m["files"].append({"path": "../elsewhere.txt", "bytes": 8, "sha256": "0" * 64}))(release)

    codes = {(f.code, f.item) for f in audit_release(release).findings}

    assert {("symlink", "link.txt"), ("path_escapes", "../elsewhere.txt"), ("file_unlisted", "link.txt")} <= codes


def test_recutting_finds_a_window_that_is_off_by_one(good, release):
    scene(lambda r: r.update(window={**r["window"], "col_off": 21} if isinstance(r["window"], dict) else [21, 10, 160, 128]), "s-utm")(
        release
    )
    tiny.seal(release)

    report = audit_release(release, good / "sources")

    assert [(f.code, f.item) for f in report.findings] == [("recut_differs", "s-utm")]


def test_sources_that_are_not_there_are_named(release, tmp_path):
    (tmp_path / "empty").mkdir()

    report = audit_release(release, tmp_path / "empty")

    assert [(f.code, f.item) for f in report.findings] == [("source_not_found", "s-merc"), ("source_not_found", "s-utm")]


def test_without_sources_the_report_says_that_nothing_was_recut(good):
    report = audit_release(good / "release")

    assert any("not re-cut" in line for line in report.not_certified)
    assert any("names" in line for line in report.not_certified)


def test_only_the_first_jitters_are_repeated_unless_all_are_asked_for(good):
    few, all_of_them = audit_release(good / "release"), audit_release(good / "release", certificate=True)

    assert (few.checks["certificate_answers"], all_of_them.checks["certificate_answers"]) == (2 * 26, 20 * 26)
    assert all_of_them.findings == ()
    assert [any("jitters" in line for line in report.not_certified) for report in (few, all_of_them)] == [True, False]


def test_the_report_is_the_same_twice_and_names_no_path_of_this_machine(release):
    (release / "masks/s-utm.tif").unlink()
    (release / "queries.jsonl").write_bytes(b"\xff\n")

    one, two = audit_release(release).to_text(), audit_release(release).to_text()

    assert one == two
    assert str(release) not in one
    assert sorted(json.loads(one)) == ["audit_version", "checks", "findings", "manifest_sha256", "not_certified"]


@pytest.mark.parametrize("content", [None, b"{", b"[]"], ids=["missing", "no json", "no object"])
def test_a_release_without_a_readable_manifest_cannot_be_audited(release, content):
    (release / "manifest.json").unlink()
    if content is not None:
        (release / "manifest.json").write_bytes(content)

    with pytest.raises(AuditError, match=r"manifest\.json"):
        audit_release(release)


@pytest.mark.parametrize("name", ["scenes.parquet", "instances.parquet", "relations.parquet", "queries.jsonl", "exports/coco.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "garbage"])
def test_any_damaged_file_gives_findings_and_no_traceback(release, name, damage):
    if damage == "gone":
        (release / name).unlink()
    else:
        (release / name).write_bytes(b"" if damage == "empty" else b"\x00\xff garbage\n" * 9)

    report = audit_release(release)

    assert any(finding.file == name for finding in report.findings)


def test_manifest_values_of_the_wrong_type_give_findings_and_no_traceback(release):
    manifest(lambda m: m.update(rules=[1], counts=3, files="none", licences=None, review="?", unknown_is_other=7))(release)

    report = audit_release(release)

    assert {"count_wrong", "licence_missing", "manifest_key"} <= {finding.code for finding in report.findings}


def test_progress_is_told_from_start_to_end(good):
    steps = []

    audit_release(good / "release", progress=lambda step, done, total: steps.append((step, done, total)))

    assert steps[0] == ("files", 0, 1)
    assert steps[-1][0] == "done"
    assert steps[-1][1] == steps[-1][2]


def test_a_pipe_or_a_link_in_the_place_of_a_file_is_not_opened(release, tmp_path):
    import os

    (release / "queries.jsonl").unlink()
    os.mkfifo(release / "queries.jsonl")
    (tmp_path / "taken.tif").write_bytes((release / "scenes/s-utm.tif").read_bytes())
    (release / "scenes/s-utm.tif").unlink()
    (release / "scenes/s-utm.tif").symlink_to(tmp_path / "taken.tif")

    codes = {(f.code, f.file) for f in audit_release(release).findings}

    assert {("symlink", "queries.jsonl"), ("table_unreadable", "queries.jsonl"), ("scene_unreadable", "scenes/s-utm.tif")} <= codes


@pytest.mark.parametrize("path", ["../outside.tif", "/etc/hostname", "scenes/picture.vrt"])
def test_a_scene_path_that_is_no_geotiff_of_the_release_is_refused(release, tmp_path, path):
    shutil.copy(release / "scenes/s-utm.tif", tmp_path / "outside.tif")
    (release / "scenes/picture.vrt").write_text("<VRTDataset rasterXSize='160' rasterYSize='128'/>")
    scene(put(path=path), "s-utm")(release)
    tiny.seal(release)

    assert ("scene_unreadable", "s-utm") in {(f.code, f.item) for f in audit_release(release).findings}


def test_a_scene_of_absurd_size_is_refused_before_any_memory_is_taken(release):
    scene(put(width=10**6, height=10**6), "s-utm")(release)

    assert ("row_unreadable", "s-utm") in {(f.code, f.item) for f in audit_release(release).findings}
