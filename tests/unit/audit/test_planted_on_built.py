"""Faults planted in a release that the pipeline built: each is named, also when the manifest's digests are made to agree with it."""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
import shapely

from tests.tiny_project import make_project
from tests.unit.audit._built_release import make_split_project
from tests.unit.tasks.test_build import build
from trigpoint.audit import audit_release
from trigpoint.audit.findings import Notebook
from trigpoint.audit.programs import canonical_json, parse_json
from trigpoint.audit.queries import query_id_of
from trigpoint.audit.reading import read_taxonomy
from trigpoint.audit.sentences import SentenceParser

Row = dict[str, Any]


class Fault(NamedTuple):
    """A change of a release, and the code that must name it.

    Attributes:
        item: A part of the item that must be named.
        needs_sources: Only the original rasters can show it once the digests agree.
    """

    plant: Callable[[Path], None]
    code: str
    item: str = ""
    needs_sources: bool = False


# tools


def edit_table(path: Path, change: Callable[[list[Row]], None]) -> None:
    """Change rows of a Parquet table; its schema and metadata stay."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


def edit_lines(path: Path, change: Callable[[list[Row]], None]) -> None:
    """Change rows of a JSONL file."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows), encoding="utf-8")


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refresh(release: Path) -> None:
    """Make the manifest's sizes and digests, and audit.json, agree with the files as they are."""

    def agree(manifest: Any) -> None:
        manifest["files"] = [row for row in manifest["files"] if (release / row["path"]).is_file()]
        for row in manifest["files"]:
            row["bytes"], row["sha256"] = (release / row["path"]).stat().st_size, digest(release / row["path"])

    edit_json(release / "manifest.json", agree)
    edit_json(release / "audit.json", lambda report: report.update(manifest_sha256=digest(release / "manifest.json")))


def findings(release: Path, sources: Path | None = None) -> set[tuple[str, str]]:
    """Code and item of all findings."""
    return {(finding.code, finding.item) for finding in audit_release(release, sources=sources).findings}


def edit_queries(release: Path, change: Callable[[list[Row]], None]) -> None:
    """Change queries, and make the input files agree with their sentences."""
    edit_lines(release / "queries.jsonl", change)
    rows = [json.loads(line) for line in (release / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    sentences = {row["query_id"]: row["sentences"][0] for row in rows}
    for path in (release / "inputs").iterdir():
        edit_lines(
            path, lambda lines: [line.update(sentence=sentences[line["query_id"]]) for line in lines if line["query_id"] in sentences]
        )


def edit_split(release: Path, protocol: str, change: Callable[[Any], None]) -> None:
    """Change a split file."""
    edit_json(release / "splits" / f"{protocol}.json", change)


def edit_band(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the first band of a raster."""
    with rasterio.open(path, "r+") as dataset:
        band = dataset.read(1)
        dataset.write(change(band).astype(band.dtype), 1)


def read_split(release: Path, protocol: str) -> Any:
    """Content of a split file."""
    return json.loads((release / "splits" / f"{protocol}.json").read_text(encoding="utf-8"))


# faults


def shift_hbb(release: Path) -> None:
    """One building's horizontal box lies one pixel further east."""

    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["hbb_px"])
        row["hbb_px"] = [row["hbb_px"][0] + 1, row["hbb_px"][1], row["hbb_px"][2] + 1, row["hbb_px"][3]]

    edit_table(release / "instances.parquet", change)


def move_obb_vertex(release: Path) -> None:
    """One corner of one oriented box lies half a pixel off."""

    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["obb_px"])
        row["obb_px"] = [row["obb_px"][0] + 0.5, *row["obb_px"][1:]]

    edit_table(release / "instances.parquet", change)


def swap_labels(release: Path) -> None:
    """Two buildings exchange their numbers in an index map."""
    with rasterio.open(sorted((release / "masks").iterdir())[0], "r+") as dataset:
        band = dataset.read(1)
        first, second = np.unique(band[band > 0])[:2]
        dataset.write(np.where(band == first, second, np.where(band == second, first, band)).astype(band.dtype), 1)


def _clear_edge(rows: list[Row]) -> Row:
    """A TRUE edge as far from its threshold as any."""
    return max((row for row in rows if row["relation"] == "far" and row["verdict"] == "TRUE"), key=lambda row: row["value"])


def flip_verdict(release: Path) -> None:
    """A clear TRUE is stored as UNDECIDED."""
    edit_table(release / "relations.parquet", lambda rows: _clear_edge(rows).update(verdict="UNDECIDED"))


def turn_relation(release: Path) -> None:
    """The two farthest things are stored as near."""
    edit_table(release / "relations.parquet", lambda rows: _clear_edge(rows).update(relation="near"))


def change_answer(release: Path) -> None:
    """A stored answer lacks one of its instances."""

    def change(rows: list[Row]) -> None:
        next(row for row in rows if len(row["answer_ids"]) > 2)["answer_ids"].pop()

    edit_lines(release / "queries.jsonl", change)


def exchange_sentences(release: Path) -> None:
    """Two queries of one scene bear each other's sentence."""

    def change(rows: list[Row]) -> None:
        first = next(row for row in rows if row["level"] == 3)
        second = next(row for row in rows if row["scene_id"] == first["scene_id"] and row["level"] == 1)
        first["sentences"], second["sentences"] = second["sentences"], first["sentences"]

    edit_lines(release / "queries.jsonl", change)


def put_scene_into_two_splits(release: Path) -> None:
    """A scene of training is also one of the test."""

    def change(split: Any) -> None:
        assignment = split["assignment"]
        assignment["test"] = sorted([*assignment["test"], assignment["train"][0]])

    edit_json(release / "splits" / "scene-disjoint.json", change)


def change_scene_byte(release: Path) -> None:
    """One byte in the middle of a scene's file is another."""
    path = sorted((release / "scenes").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def change_scene_pixel(release: Path) -> None:
    """One pixel of a scene is one grey value brighter or darker; the file is whole."""
    with rasterio.open(sorted((release / "scenes").iterdir())[0], "r+") as dataset:
        pixels = dataset.read()
        pixels[0, pixels.shape[1] // 2, pixels.shape[2] // 2] ^= 1
        dataset.write(pixels)


def remove_licence(release: Path) -> None:
    """A source's pixels have no licence."""

    def change(manifest: Any) -> None:
        manifest["licences"] = [row for row in manifest["licences"] if row["layer"] != "pixels" or row is manifest["licences"][-1]]

    edit_json(release / "manifest.json", change)


def add_file(release: Path) -> None:
    """A file that the manifest does not list."""
    (release / "notes.txt").write_text("who put me here?\n", encoding="utf-8")


def put_nominal_gsd(release: Path) -> None:
    """The pixel size of a scene is that of the projection, not of the ground."""

    def change(rows: list[Row]) -> None:
        row = max(rows, key=lambda row: abs(abs(row["transform"][0]) - row["gsd_m"]))
        row["gsd_m"] = abs(row["transform"][0])

    edit_table(release / "scenes.parquet", change)


def leak_level(release: Path) -> None:
    """What a model may see says how hard a question is."""
    edit_lines(release / "inputs" / "scene-disjoint-test.jsonl", lambda rows: rows[0].update(level=3))


def move_outline_vertex(release: Path) -> None:
    """One vertex of one stored outline lies elsewhere."""

    def change(rows: list[Row]) -> None:
        row = next(row for row in rows if row["countable"])
        ring = np.asarray(shapely.get_parts(shapely.from_wkb(row["geometry"]))[0].exterior.coords)[:-1]
        ring[2] += 0.3 * (ring[0] - ring[2])
        row["geometry"] = shapely.to_wkb(shapely.Polygon(ring))

    edit_table(release / "instances.parquet", change)


def take_pixels(release: Path) -> None:
    """A row of pixels of a building belongs to nobody."""
    edit_band(sorted((release / "masks").iterdir())[0], lambda band: np.where(np.cumsum(band == band.max(), axis=0) == 1, 0, band))


def turn_direction(release: Path) -> None:
    """A clear north of is stored as south of."""

    def change(rows: list[Row]) -> None:
        next(r for r in rows if r["relation"] == "north_of" and r["verdict"] == "TRUE" and r["margin"] == 10).update(relation="south_of")
        rows.sort(key=lambda r: (r["scene_id"], r["subject_id"], r["anchor_id"], r["relation"]))

    edit_table(release / "relations.parquet", change)


def drop_edge(release: Path) -> None:
    """The clearest far edge is gone."""
    edit_table(release / "relations.parquet", lambda rows: rows.remove(_clear_edge(rows)))


def lengthen_edge(release: Path) -> None:
    """A distance is 5 m too long."""

    def change(rows: list[Row]) -> None:
        row = _clear_edge(rows)
        row["value"] += 5

    edit_table(release / "relations.parquet", change)


def widen_margin(release: Path) -> None:
    """An undecided zone is twice as wide."""

    def change(rows: list[Row]) -> None:
        row = _clear_edge(rows)
        row["margin"] *= 2

    edit_table(release / "relations.parquet", change)


def bind_paraphrase(release: Path) -> None:
    """A query's third sentence is that of another program of its scene."""

    def change(rows: list[Row]) -> None:
        first = next(row for row in rows if row["level"] == 3)
        other = next(row for row in rows if row["scene_id"] == first["scene_id"] and row["level"] == 4)
        first["sentences"][2] = other["sentences"][2]

    edit_queries(release, change)


def drop_sentence(release: Path) -> None:
    """A query has two sentences."""
    edit_queries(release, lambda rows: rows[0]["sentences"].pop())


def mangle_sentence(release: Path) -> None:
    """A sentence that is no English of ours."""
    edit_queries(release, lambda rows: rows[0]["sentences"].__setitem__(1, "show me those things over there"))


def link_two_words_apart(release: Path) -> None:
    """Two queries of different relations and anchors name each other as a counterfactual pair."""

    def change(rows: list[Row]) -> None:
        free = [row for row in rows if row["counterfactual_of"] is None and row["level"] == 3]
        first = free[0]
        other = next(r for r in free[1:] if r["scene_id"] == first["scene_id"] and r["answer_ids"] != first["answer_ids"])
        first["counterfactual_of"], other["counterfactual_of"] = other["query_id"], first["query_id"]

    edit_queries(release, change)
    edit_json(release / "manifest.json", lambda m: m["counts"].update(counterfactual_pairs=m["counts"]["counterfactual_pairs"] + 1))


def cut_pair(release: Path) -> None:
    """One of a pair does not name the other."""
    edit_queries(release, lambda rows: next(row for row in rows if row["counterfactual_of"]).update(counterfactual_of=None))


def swap_program(release: Path) -> None:
    """A query has the program of another one of its level and scene, with its canonical form; its sentences and answers stay."""

    def change(rows: list[Row]) -> None:
        first = next(row for row in rows if row["level"] == 3)
        other = next(r for r in rows if r["level"] == 3 and r["scene_id"] == first["scene_id"] and r["answer_ids"] != first["answer_ids"])
        first["program"], first["canonical"] = other["program"], other["canonical"]

    edit_queries(release, change)


def hang_on_pixels(release: Path) -> None:
    """A query whose answers are partly within the margin alone, one of them on the wrong side of its middle; the graph says TRUE of all."""
    scenes = {row["scene_id"]: row for row in pq.read_table(release / "scenes.parquet").to_pylist()}
    instances = {row["instance_id"]: row for row in pq.read_table(release / "instances.parquet").to_pylist()}
    kinds = Counter((row["scene_id"], row["category"][0]) for row in instances.values())

    def shortfall_m(edge: Row) -> float:
        return 0.5 * scenes[edge["scene_id"]]["shorter_side_m"] - edge["value"]

    def plant(edges: list[Row]) -> None:
        edge = max(
            (
                e
                for e in edges
                if (e["relation"], e["verdict"]) == ("far", "UNDECIDED")
                and kinds[e["scene_id"], instances[e["anchor_id"]]["category"][0]] == 1
                and instances[e["subject_id"]]["countable"]
                and not instances[e["anchor_id"]]["cut"]
            ),
            key=shortfall_m,
        )
        anchor = edge["anchor_id"]
        for e in edges:
            if e["relation"] == "far" and anchor in (e["anchor_id"], e["subject_id"]):
                e["verdict"] = "TRUE"
        answer = [
            e["subject_id"] for e in edges if (e["relation"], e["anchor_id"]) == ("far", anchor) and instances[e["subject_id"]]["countable"]
        ]
        category = instances[anchor]["category"][0]
        program = {
            "op": "rel", "of": {"op": "cat", "category": "building"}, "relation": "far", "anchor": {"op": "cat", "category": category},
        }  # fmt: skip
        canonical = parse_json(program).canonical()
        edit_lines(
            release / "queries.jsonl",
            lambda rows: next(r for r in rows if r["scene_id"] == edge["scene_id"] and r["level"] == 3).update(
                program=program, canonical=canonical, query_id=query_id_of(edge["scene_id"], canonical), answer_ids=sorted(answer)
            ),
        )

    edit_table(release / "relations.parquet", plant)


def put_wrong_hash(release: Path) -> None:
    """One hash of a scene has three bits of another picture."""
    edit_table(release / "scenes.parquet", lambda rows: rows[0]["phash"].__setitem__(3, f"{int(rows[0]['phash'][3], 16) ^ 0b10011:016x}"))


def copy_picture(release: Path) -> None:
    """A scene shows what a scene of another split shows, with the hashes that belong to it: a near duplicate across splits."""
    assignment = read_split(release, "scene-disjoint")["assignment"]
    rows = {row["scene_id"]: row for row in pq.read_table(release / "scenes.parquet").to_pylist()}
    one, other = next(
        (a, b)
        for a in assignment["train"]
        for b in (*assignment["test"], *assignment["val"])
        if (rows[a]["width"], rows[a]["height"]) == (rows[b]["width"], rows[b]["height"])
    )
    with rasterio.open(release / "scenes" / f"{one}.tif") as dataset:
        pixels = dataset.read()
    with rasterio.open(release / "scenes" / f"{other}.tif", "r+") as dataset:
        dataset.write(pixels)

    def change(rows: list[Row]) -> None:
        by_id = {row["scene_id"]: row for row in rows}
        by_id[other].update(phash=by_id[one]["phash"], grey_sd=by_id[one]["grey_sd"])

    edit_table(release / "scenes.parquet", change)


def part_group(release: Path) -> None:
    """A scene of a group moves to another split."""

    def change(split: Any) -> None:
        group = next(group for group in split["groups"] if len(group["scenes"]) > 1)
        home = next(name for name, scenes in split["assignment"].items() if group["scenes"][0] in scenes)
        away = next(name for name in split["assignment"] if name != home)
        split["assignment"][home].remove(group["scenes"][0])
        split["assignment"][away] = sorted([*split["assignment"][away], group["scenes"][0]])

    edit_split(release, "scene-disjoint", change)


def hide_reason(release: Path) -> None:
    """A group gives no reason for itself."""
    edit_split(release, "scene-disjoint", lambda split: [group.update(reasons=[]) for group in split["groups"]])


def _move(split: Any, source: str, target: str) -> None:
    scene = split["assignment"][source].pop()
    split["assignment"][target] = sorted([*split["assignment"][target], scene])


def swap_level(release: Path) -> None:
    """The depth protocol trains on a query of level 4."""
    levels = {row["query_id"]: row for row in map(json.loads, (release / "queries.jsonl").read_text(encoding="utf-8").splitlines())}

    def change(split: Any) -> None:
        train = set(split["assignment"]["train"])
        query = next(q for q, row in levels.items() if row["level"] == 4 and row["scene_id"] in train)
        split["queries"]["train"] = sorted([*split["queries"]["train"], query])

    edit_split(release, "depth", change)


def train_on_held_out(release: Path) -> None:
    """A held-out pair is trained on: the list of pairs lacks it."""
    edit_split(release, "unseen-pair", lambda split: split["rule"]["held_out"].pop())


def forget_query(release: Path) -> None:
    """The test queries of unseen pairs lack one."""
    edit_split(release, "unseen-pair", lambda split: split["queries"]["test"].pop())


def change_proof(key: str, name: str, value: Any) -> Callable[[Path], None]:
    """A number of the proof of scene-disjoint is another."""
    return lambda release: edit_split(release, "scene-disjoint", lambda split: split["proof"][key].update({name: value}))


def forget_screening(release: Path) -> None:
    """A scene that meets a screening list does not say so."""
    edit_table(release / "scenes.parquet", lambda rows: [row.update(outside=[]) for row in rows])


def change_query(of_level: int, **values: Any) -> Callable[[Path], None]:
    """Change keys of the first answerable query of a level."""
    return lambda release: edit_queries(
        release, lambda rows: next(row for row in rows if row["level"] == of_level and row["answerable"]).update(values)
    )


def change_instance(**values: Any) -> Callable[[Path], None]:
    """Change columns of the first countable instance that is seen whole."""
    return lambda release: edit_table(
        release / "instances.parquet", lambda rows: next(row for row in rows if row["countable"] and not row["cut"]).update(values)
    )


def change_scene(**values: Any) -> Callable[[Path], None]:
    """Change columns of the first scene."""
    return lambda release: edit_table(release / "scenes.parquet", lambda rows: rows[0].update(values))


def change_manifest(change: Callable[[Any], None]) -> Callable[[Path], None]:
    """Change the manifest."""
    return lambda release: edit_json(release / "manifest.json", change)


def change_inputs(change: Callable[[list[Row]], Any]) -> Callable[[Path], None]:
    """Change the inputs of the test split."""
    return lambda release: edit_lines(release / "inputs" / "scene-disjoint-test.jsonl", change)


def borrow_input(release: Path) -> None:
    """A test input holds a query of training too."""
    other = json.loads((release / "inputs" / "scene-disjoint-train.jsonl").read_text(encoding="utf-8").splitlines()[0])
    edit_lines(
        release / "inputs" / "scene-disjoint-test.jsonl", lambda rows: (rows.append(other), rows.sort(key=lambda row: row["query_id"]))
    )


def remove(name: str) -> Callable[[Path], None]:
    """Remove a file."""
    return lambda release: (release / name).unlink()


def change_dota(release: Path) -> None:
    """A corner in a DOTA file lies 3 pixels off."""
    path = sorted((release / "exports" / "dota").iterdir())[0]
    words = path.read_text(encoding="utf-8").split(" ")
    path.write_text(" ".join([str(float(words[0]) + 3), *words[1:]]), encoding="utf-8")


def move_category(release: Path) -> None:
    """Schools are no buildings any more."""
    path = release / "taxonomy" / "settlement.v1.yaml"
    text = path.read_text(encoding="utf-8")
    moved = text.replace("id: school\n    axis: kind\n    parent: building", "id: school\n    axis: kind\n    parent: null")
    assert moved != text
    path.write_text(moved, encoding="utf-8")


def truncate(name: str) -> Callable[[Path], None]:
    """Cut a file in half."""
    return lambda release: (release / name).write_bytes((release / name).read_bytes()[: (release / name).stat().st_size // 2])


FAULTS = {
    "hbb shifted": Fault(shift_hbb, "hbb_wrong"),
    "obb vertex moved": Fault(move_obb_vertex, "obb_wrong"),
    "outline vertex moved": Fault(move_outline_vertex, "outline_wrong"),
    "labels swapped": Fault(swap_labels, "rle_wrong"),
    "pixels taken": Fault(take_pixels, "area_px_wrong"),
    "area nominal": Fault(change_instance(area_m2=1.0), "area_m2_wrong"),
    "cut not said": Fault(change_instance(cut=True), "cut_wrong"),
    "orientation turned": Fault(change_instance(orientation_deg=45.0), "orientation_wrong"),
    "category unknown": Fault(change_instance(category=["castle"]), "instance_value"),
    "review state changed": Fault(change_instance(review_state="accepted"), "review_wrong"),
    "NaN in a table": Fault(change_instance(perimeter_m=float("nan")), "perimeter_wrong"),
    "verdict flipped": Fault(flip_verdict, "edge_verdict"),
    "relation turned": Fault(turn_relation, "edge_opposite"),
    "direction turned": Fault(turn_direction, "edge_opposite", "south_of"),
    "edge dropped": Fault(drop_edge, "edge_opposite"),
    "edge lengthened": Fault(lengthen_edge, "edge_value"),
    "margin widened": Fault(widen_margin, "edge_margin"),
    "answer changed": Fault(change_answer, "answer_stale"),
    "program swapped": Fault(swap_program, "query_id_wrong"),
    "level changed": Fault(change_query(4, level=3), "level_wrong"),
    "difficulty changed": Fault(change_query(1, difficulty="unknown"), "difficulty_wrong"),
    "answerable denied": Fault(change_query(3, answerable=False), "answerable_wrong"),
    "canonical form changed": Fault(change_query(3, canonical="(cat building)"), "canonical_differs"),
    "sentences exchanged": Fault(exchange_sentences, "sentence_mismatch"),
    "paraphrase of another program": Fault(bind_paraphrase, "sentence_mismatch"),
    "sentence missing": Fault(drop_sentence, "sentence_missing"),
    "sentence of no grammar": Fault(mangle_sentence, "sentence_unparsed"),
    "pair two words apart": Fault(link_two_words_apart, "counterfactual_wrong"),
    "pair one way": Fault(cut_pair, "counterfactual_one_way"),
    "pairs miscounted": Fault(
        change_manifest(lambda m: m["counts"].update(counterfactual_pairs=99)), "count_wrong", "counterfactual_pairs"
    ),
    "certificate missing": Fault(change_manifest(lambda m: m.pop("certificate")), "certificate_missing"),
    "certificate does not add up": Fault(change_manifest(lambda m: m["certificate"]["levels"]["3"].update(answers=1)), "certificate_wrong"),
    "answer hangs on a few pixels": Fault(hang_on_pixels, "certificate_broken"),
    "hash wrong": Fault(put_wrong_hash, "phash_wrong"),
    "spread wrong": Fault(change_scene(grey_sd=1.0), "grey_sd_wrong"),
    "near duplicate across splits": Fault(copy_picture, "group_straddles"),
    "near duplicate without a reason": Fault(copy_picture, "group_reason_missing", "near_duplicate"),
    "group parted": Fault(part_group, "group_straddles"),
    "group without a reason": Fault(hide_reason, "group_reason_missing", "shared_pixels"),
    "scene in two splits": Fault(put_scene_into_two_splits, "scene_in_splits"),
    "level of training in depth": Fault(swap_level, "protocol_query_wrong"),
    "held-out pair trained on": Fault(train_on_held_out, "protocol_query_wrong"),
    "query of an unseen pair forgotten": Fault(forget_query, "protocol_query_wrong"),
    "region parted": Fault(lambda r: edit_split(r, "geographic", lambda s: _move(s, "test", "train")), "protocol_rule_wrong"),
    "scale mixed": Fault(lambda r: edit_split(r, "cross-scale", lambda s: _move(s, "test", "train")), "protocol_rule_wrong"),
    "proof of hashes": Fault(change_proof("smallest_hash_bits", "train-test", 0), "proof_wrong", "smallest_hash_bits"),
    "proof of distances": Fault(change_proof("smallest_distance_m", "train-test", 1e5), "proof_wrong", "smallest_distance_m"),
    "proof of levels": Fault(change_proof("levels", "test", {}), "proof_wrong", "levels"),
    "screening not said": Fault(forget_screening, "screening_wrong"),
    "level leaked": Fault(leak_level, "input_keys"),
    "input of another split": Fault(borrow_input, "input_foreign"),
    "input forgotten": Fault(change_inputs(lambda rows: rows.pop()), "input_missing"),
    "input with another sentence": Fault(change_inputs(lambda rows: rows[0].update(sentence="all trees")), "input_differs", "sentence"),
    "input north turned": Fault(change_inputs(lambda rows: rows[0].update(north=90.0)), "input_differs", "north"),
    "scene byte changed": Fault(change_scene_byte, "recut_differs", needs_sources=True),
    "scene pixel changed": Fault(change_scene_pixel, "recut_differs", needs_sources=True),
    "window moved": Fault(change_scene(window=[1, 1, 7, 9]), "scene_value", "window"),
    "gsd nominal": Fault(put_nominal_gsd, "gsd_nominal"),
    "metric frame wrong": Fault(change_scene(metric_crs="EPSG:3857"), "metric_crs"),
    "north not up": Fault(change_scene(north_up=False), "north_up_wrong"),
    "licence removed": Fault(remove_licence, "licence_missing"),
    "licence changed": Fault(change_scene(licence="CC-BY-SA-4.0"), "licence_differs"),
    "attribution changed": Fault(change_scene(attribution="somebody"), "scene_value", "attribution"),
    "count changed": Fault(change_manifest(lambda m: m["counts"].update(queries=1)), "count_wrong", "counts.queries"),
    "rule changed": Fault(change_manifest(lambda m: m["rules"].update(far_share=0.4)), "edge_opposite"),
    "rule removed": Fault(change_manifest(lambda m: m["rules"].pop("near_share")), "manifest_key", "near_share"),
    "file added": Fault(add_file, "file_unlisted", "notes.txt"),
    "card removed": Fault(remove("README.md"), "part_missing", "README.md"),
    "schema removed": Fault(remove("schemas/program.v1.schema.json"), "part_missing", "schemas"),
    "coco area changed": Fault(
        lambda r: edit_json(r / "exports" / "coco.json", lambda c: c["annotations"][0].update(area=1)), "coco_annotation", "area"
    ),
    "dota corner moved": Fault(change_dota, "dota_wrong"),
    "category moved": Fault(move_category, "answer_stale"),
    "table cut in half": Fault(truncate("relations.parquet"), "table_unreadable"),
    "queries cut in half": Fault(truncate("queries.jsonl"), "row_unreadable"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project with three sources and five protocols, built once."""
    config = make_split_project(tmp_path_factory.mktemp("planted"))
    build(config)
    return config.parent


@pytest.fixture
def release(project: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(project / "release", tmp_path / "release"))


def test_release_without_a_fault_has_no_finding(project: Path, release: Path) -> None:
    refresh(release)

    report = audit_release(release, project, certificate=True)

    assert report.findings == ()
    assert len(list((release / "splits").iterdir())) == 5
    manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    assert report.checks["certificate_answers"] == manifest["certificate"]["jitters"] * report.checks["answers"]


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named_when_the_digests_agree(project: Path, release: Path, name: str) -> None:
    fault = FAULTS[name]
    fault.plant(release)
    refresh(release)

    found = findings(release, project if fault.needs_sources else None)

    assert any(code == fault.code and fault.item in item for code, item in found), sorted(found)
    assert not {code for code, _ in found} & {"file_altered", "audit_stale", "check_failed"}


@pytest.mark.parametrize("name", ["hbb shifted", "scene byte changed", "level leaked"])
def test_planted_fault_is_a_changed_file_when_they_do_not(release: Path, name: str) -> None:
    FAULTS[name].plant(release)

    assert "file_altered" in {code for code, _ in findings(release)}


def test_release_of_winds_touches_and_distances_has_no_finding(tmp_path: Path) -> None:
    winds = [f"{wind}_of" for wind in ("north", "east", "south", "west", "northeast", "southeast", "southwest", "northwest")]
    names = [*winds, "near", "far", "touches", "inside", "contains", "outside", "overlaps"]
    build(make_project(tmp_path, rules={"min_instance_px": 60, "relations": names, "within_m": [25, 40]}))

    report = audit_release(tmp_path / "release")

    assert report.findings == ()
    rows = [json.loads(line) for line in (tmp_path / "release" / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {row["program"].get("relation") for row in rows}
    assert asked & {"within_25m", "within_40m"}
    assert asked & set(winds[4:])


def test_at_least_forty_kinds_of_damage_are_planted() -> None:
    kinds = {(fault.code, fault.item) for fault in FAULTS.values()}

    assert len(FAULTS) >= 70
    assert len(kinds) >= 60
    assert len({fault.code for fault in FAULTS.values()}) >= 45


def test_the_auditor_reads_every_sentence_of_a_build_as_its_program(project: Path) -> None:
    parser = SentenceParser(read_taxonomy(project / "release", Notebook()))
    rows = [json.loads(line) for line in (project / "release" / "queries.jsonl").read_text(encoding="utf-8").splitlines()]

    for row in rows:
        for sentence in row["sentences"]:
            assert [node.canonical() for node in parser.parse(sentence.upper() + " ")] == [parse_json(row["program"]).canonical()]
    assert len({canonical_json(row["program"]) for row in rows}) > 50
