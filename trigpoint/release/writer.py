"""Write a release folder, file by file, the same bytes for the same content. Format: docs/release-format.md.

The caller hands over tables and rasters; nothing is computed here but counts, exports and the card. Not here: deciding what is released.
"""

import json
import platform
import shutil
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import trigpoint
from trigpoint.boxes.conventions import dota_line
from trigpoint.identity import digest_file
from trigpoint.imagery.bbox import box_of
from trigpoint.language.items import RELEASED, query_of
from trigpoint.records.stage import Drop
from trigpoint.release.card import write_card
from trigpoint.release.content import ReleaseContent, write_json, write_json_lines
from trigpoint.release.stac import write_stac
from trigpoint.splits.membership import SPLITS, query_ids_of
from trigpoint.versions import library_versions

FORMAT_VERSION = 1
"""Version of docs/release-format.md that this module writes."""

PROGRAM_SCHEMA_FILE = "program.v1.schema.json"
"""JSON Schema of a query's program, copied into every release."""

UNLISTED = ("manifest.json", "audit.json")
"""The two files that the manifest's list does not name."""


def write_geoparquet(path: Path, table: pa.Table) -> None:
    """Write a table whose column `geometry` is WKB in OGC:CRS84 as GeoParquet 1.1.

    Source: GeoParquet specification 1.1.0 (an absent `crs` means OGC:CRS84; `bbox` as in RFC 7946, west beyond east over the antimeridian).
    """
    geometries = shapely.from_wkb(table.column("geometry").to_numpy(zero_copy_only=False))
    geometry_types = sorted({geometry.geom_type for geometry in geometries})
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": geometry_types, "orientation": "counterclockwise"}
    if len(geometries):
        column["bbox"] = list(box_of(geometries))
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
    metadata = {**(table.schema.metadata or {}), b"geo": json.dumps(geo, sort_keys=True).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")


def write_release(folder: Path, content: ReleaseContent) -> dict[str, Any]:
    """Write a release into an empty folder; returns the manifest.

    `audit.json` is not written here: the auditor reads the folder first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in sorted(content.rasters.items()):
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
    write_geoparquet(folder / "scenes.parquet", content.scenes)
    write_geoparquet(folder / "instances.parquet", content.instances)
    dictionary = ["scene_id", "subject_id", "anchor_id", "relation", "verdict", "unit"]
    pq.write_table(content.relations, folder / "relations.parquet", compression="zstd", use_dictionary=dictionary)  # pyright: ignore[reportArgumentType]
    write_json_lines(folder / "queries.jsonl", content.queries)
    if content.language is not None:
        write_json_lines(folder / "annotations.jsonl", [target.to_json() for target in content.targets])
        write_json_lines(folder / "language.jsonl", language_lines(content))
    if content.proposals:
        write_json_lines(folder / "proposals.jsonl", content.proposals)
    if content.reviews:
        write_json_lines(folder / "reviews.jsonl", content.reviews)
    for protocol, document in sorted(content.splits.items()):
        write_json(folder / "splits" / f"{protocol}.json", document)
    write_inputs(folder / "inputs", content)
    write_exports(folder / "exports", content)
    (folder / "taxonomy").mkdir(exist_ok=True)
    for file in (content.taxonomy_file, content.licences_file):
        shutil.copyfile(file, folder / "taxonomy" / file.name)
    for prompt in content.prompts:
        (folder / "prompts").mkdir(exist_ok=True)
        shutil.copyfile(prompt, folder / "prompts" / prompt.name)
    (folder / "schemas").mkdir(exist_ok=True)
    (folder / "schemas" / PROGRAM_SCHEMA_FILE).write_bytes(files("trigpoint.programs").joinpath(PROGRAM_SCHEMA_FILE).read_bytes())
    write_stac(folder, content)
    write_manifest(folder, content)
    write_card(folder, content)
    return write_manifest(folder, content)


def write_inputs(folder: Path, content: ReleaseContent) -> None:
    """Write what a model may see, per protocol and split; nothing of the program, level, kind or answer."""
    scenes = {row["scene_id"]: row for row in content.scenes.drop_columns(["geometry"]).to_pylist()}
    scene_of = {query["query_id"]: query["scene_id"] for query in content.queries}
    for protocol, document in sorted(content.splits.items()):
        for name in SPLITS:
            chosen = query_ids_of(document, name, scene_of.items())
            rows = [
                {
                    "query_id": query["query_id"],
                    "sentence": query["sentences"][0],
                    "image": scenes[query["scene_id"]]["path"],
                    "gsd_m": scenes[query["scene_id"]]["gsd_m"],
                    "crs": scenes[query["scene_id"]]["crs"],
                    "north": scenes[query["scene_id"]]["image_up_deg"],
                }
                for query in content.queries
                if query["query_id"] in chosen
            ]
            write_json_lines(folder / f"{protocol}-{name}.jsonl", sorted(rows, key=lambda row: row["query_id"]))


def write_exports(folder: Path, content: ReleaseContent) -> None:
    """Write COCO (RLE) and DOTA text of the discrete instances."""
    scenes = content.scenes.drop_columns(["geometry"]).to_pylist()
    instances = [row for row in content.instances.drop_columns(["geometry"]).to_pylist() if row["countable"]]
    names = sorted({row["category"][0] for row in instances})
    category_id = {name: k for k, name in enumerate(names, start=1)}
    image_id = {row["scene_id"]: k for k, row in enumerate(scenes, start=1)}
    size = {row["scene_id"]: [row["height"], row["width"]] for row in scenes}
    annotations = []
    for k, row in enumerate(instances, start=1):
        box = row["hbb_px"]
        annotation = {
            "id": k,
            "image_id": image_id[row["scene_id"]],
            "category_id": category_id[row["category"][0]],
            "segmentation": {"size": size[row["scene_id"]], "counts": row["rle"]},
            "area": row["area_px"],
            "iscrowd": 0,
            "instance_id": row["instance_id"],
        }
        if box is not None:
            annotation["bbox"] = [box[0], box[1], box[2] - box[0], box[3] - box[1]]
        annotations.append(annotation)
    coco = {
        "info": {"description": content.identity["title"], "version": content.identity["version"]},
        "licenses": [{"id": k, "name": row["licence"]} for k, row in enumerate(content.licences, start=1)],
        "images": [
            {"id": image_id[row["scene_id"]], "file_name": row["path"], "width": row["width"], "height": row["height"]} for row in scenes
        ],
        "annotations": annotations,
        "categories": [{"id": k, "name": name, "supercategory": content.taxonomy.ancestors(name)[-1]} for name, k in category_id.items()],
    }
    write_json(folder / "coco.json", coco)
    (folder / "dota").mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {row["scene_id"]: [] for row in scenes}
    for row in instances:
        if row["obb_px"] is not None:
            corners = np.array(row["obb_px"]).reshape(4, 2)
            lines[row["scene_id"]].append(dota_line(corners, row["category"][0], row["cut"]))
    for scene_id, found in lines.items():
        (folder / "dota" / f"{scene_id}.txt").write_text("".join(f"{line}\n" for line in found), encoding="utf-8")


def language_lines(content: ReleaseContent) -> list[dict[str, Any]]:
    """Return the lines of language.jsonl: every item, with the query that asks it when it is released."""
    by_id = {target.annotation_id: target for target in content.targets}
    return [
        {**item.to_json(), "query_id": query_of(item, by_id[item.annotation_id])["query_id"] if item.state in RELEASED else None}
        for item in content.language_items
    ]


def counts_of(content: ReleaseContent) -> dict[str, Any]:
    """Count what a release holds."""
    countable = content.instances.column("countable").to_pylist()
    programs = [query for query in content.queries if query["form"] == "program"]
    answerable = sum(query["answerable"] for query in programs)
    forms: dict[str, Counter[str]] = {}
    for query in content.queries:
        if query["form"] != "program":
            forms.setdefault(query["form"], Counter())[query["polarity"]] += 1
    return {
        "scenes": content.scenes.num_rows,
        "instances": sum(countable),
        "regions": len(countable) - sum(countable),
        "relations": content.relations.num_rows,
        "queries": len(programs),
        "answerable": answerable,
        "unanswerable": len(programs) - answerable,
        "counterfactual_pairs": sum(query["counterfactual_of"] is not None for query in programs) // 2,
        "levels": {str(k): n for k, n in sorted(Counter(query["level"] for query in programs).items())},
        "language": {form: dict(sorted(counts.items())) for form, counts in sorted(forms.items())},
        "drops": _drop_counts(content.drops),
    }


def _drop_counts(drops: list[Drop]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for drop in drops:
        counts[f"{drop.stage}.{drop.reason_code}"] += drop.n
    return dict(sorted(counts.items()))


def write_manifest(folder: Path, content: ReleaseContent) -> dict[str, Any]:
    """Write manifest.json over the files that are in the folder now; returns it."""
    listed = [
        {"path": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": digest_file(path)}
        for path in sorted(p for p in folder.rglob("*") if p.is_file())
        if path.relative_to(folder).as_posix() not in UNLISTED
    ]
    listed.sort(key=lambda row: str(row["path"]))
    states = Counter(content.instances.column("review_state").to_pylist())
    manifest = {
        **content.identity,
        "format_version": FORMAT_VERSION,
        "rules": content.rules.to_json(),
        "config_sha256": content.config_sha256,
        "versions": {"trigpoint": trigpoint.__version__, "python": platform.python_version(), **library_versions()},
        "counts": counts_of(content),
        "files": listed,
        "sources": content.sources,
        "licences": content.licences,
        "declared_licences": content.declared_licences,
        "review": {**content.review, "states": dict(sorted(states.items()))},
        "proposers": content.proposers,
        "unknown_is_other": content.unknown_is_other,
        "certificate": content.certificate,
        "language": content.language,
        "protocols_left_out": content.protocols_left_out,
    }
    write_json(folder / "manifest.json", manifest)
    return manifest
