"""Exports say the same as the tables: coco.json and the DOTA text files.

Not here: STAC and the card, whose presence `files.py` checks.
"""

from collections import Counter
from typing import Any

import numpy as np

from trigpoint.audit.findings import Notebook
from trigpoint.audit.reading import Instance, Release, Taxonomy, read_json, read_lines

COCO = "exports/coco.json"
CORNER_SLACK_PX = 0.01
"""DOTA text is written with few decimals."""


def first_axis_value(instance: Instance, taxonomy: Taxonomy) -> str | None:
    """Return an instance's category on the first axis of the taxonomy; its first category where that is not known."""
    first = next(iter(taxonomy.axes), None)
    on_axis = [c for c in instance.category if c in taxonomy.categories and taxonomy.categories[c].axis == first]
    return on_axis[0] if on_axis else next(iter(instance.category), None)


def check_coco(release: Release, notes: Notebook) -> None:
    """Compare images, annotations and categories of coco.json with the tables; discrete instances only."""
    with notes.guard("coco_unreadable", COCO):
        content = read_json(release.folder, COCO)
        scenes = sorted(release.scenes)
        right = [(n, f"scenes/{s}.tif", release.scenes[s].width, release.scenes[s].height) for n, s in enumerate(scenes, start=1)]
        found = [(i["id"], i["file_name"], i["width"], i["height"]) for i in content["images"]]
        if found != right:
            notes.add("coco_images", COCO, "images", right, found)
        image_of = {s: n for n, s in enumerate(scenes, start=1)}
        names = {c["id"]: c["name"] for c in content["categories"]}
        if len(names) != len(content["categories"]):
            notes.add("coco_categories", COCO, "categories", "ids each once", "an id twice")
        for annotation_id, times in sorted(Counter(a["id"] for a in content["annotations"]).items()):
            if times > 1:
                notes.add("coco_annotation", COCO, annotation_id, "an id of its own", f"{times} annotations")
        seen = Counter(str(a.get("instance_id")) for a in content["annotations"])
        wanted = {i.instance_id for i in release.instances.values() if i.countable}
        for instance_id in sorted(wanted ^ set(seen)):
            notes.add("coco_annotation", COCO, instance_id, f"{int(instance_id in wanted)} annotation", seen[instance_id])
        for annotation in content["annotations"]:
            instance = release.instances.get(str(annotation.get("instance_id")))
            if instance is not None and instance.scene_id in release.scenes:
                notes.count("coco")
                with notes.guard("coco_annotation", COCO, instance.instance_id):
                    _check_annotation(release, instance, annotation, image_of, names, notes)


def _check_annotation(
    release: Release, instance: Instance, annotation: dict[str, Any], image_of: dict[str, int], names: dict[int, str], notes: Notebook
) -> None:
    scene = release.scenes[instance.scene_id]
    right: dict[str, Any] = {
        "image_id": image_of[instance.scene_id],
        "category": first_axis_value(instance, release.taxonomy),
        "size": [scene.height, scene.width],
        "counts": instance.rle,
        "area": instance.area_px,
        "iscrowd": 0,
    }
    found: dict[str, Any] = {
        "image_id": annotation["image_id"],
        "category": names.get(annotation["category_id"]),
        "size": list(annotation["segmentation"]["size"]),
        "counts": annotation["segmentation"]["counts"],
        "area": annotation["area"],
        "iscrowd": annotation["iscrowd"],
    }
    if instance.hbb_px is not None:
        x0, y0, x1, y1 = instance.hbb_px
        right["bbox"], found["bbox"] = [x0, y0, x1 - x0, y1 - y0], [float(v) for v in annotation["bbox"]]
    for key, value in right.items():
        if found[key] != value:
            notes.add("coco_annotation", COCO, f"{instance.instance_id} {key}", value, found[key])


def check_dota(release: Release, notes: Notebook) -> None:
    """Compare the DOTA text of each scene with the corners in instances.parquet; boxable instances only, in any order."""
    for scene_id in sorted(release.scenes):
        file = f"exports/dota/{scene_id}.txt"
        boxed = [i for i in release.instances_of(scene_id) if i.countable and i.boxable and i.obb_px is not None]
        with notes.guard("dota_unreadable", file, scene_id):
            lines = [line.split() for line in read_lines(release.folder, file) if line.strip()]
            rows = [(np.array([float(v) for v in line[:8]]), line[8], line[9]) for line in lines if len(line) == 10]
            if len(rows) != len(boxed) or len(rows) != len(lines):
                notes.add("dota_wrong", file, scene_id, f"{len(boxed)} boxes of ten words", f"{len(lines)} lines, {len(rows)} of ten words")
            for instance in boxed:
                notes.count("dota")
                name = str(first_axis_value(instance, release.taxonomy)).replace(" ", "-")
                corners = np.asarray(instance.obb_px)
                at = next((n for n, row in enumerate(rows) if np.allclose(row[0], corners, rtol=0, atol=CORNER_SLACK_PX)), None)
                if at is None:
                    notes.add("dota_wrong", file, instance.instance_id, corners.round(3).tolist(), "no such box")
                    continue
                found = rows.pop(at)
                if found[1:] != (name, str(int(instance.cut))):
                    notes.add("dota_wrong", file, instance.instance_id, f"{name} {int(instance.cut)}", " ".join(found[1:]))
