"""publish: everything approved → a staging folder; audit: the folder → findings, then renamed into place."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from tasks.calls import prompt_files
from tasks.language import released_language
from tasks.scenes import collected_scenes, results_by_item
from tasks.steps import Done, Item, Made
from tasks.tables import all_rows, item_records, item_table
from tasks.workspace import Workspace
from trigpoint.config import licensed_inputs
from trigpoint.errors import ArtefactError, InputError, UndecidedError
from trigpoint.identity import digest_bytes, digest_file, digest_json
from trigpoint.language.items import language_queries, rates_of, states_of
from trigpoint.language.offline import NAME
from trigpoint.licences import licences_file
from trigpoint.records.language import LanguageItem
from trigpoint.records.proposal import InferenceRecord, MaskProposal
from trigpoint.records.review import Decision
from trigpoint.records.scene import Scene
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult
from trigpoint.records.tables import INSTANCE_SCHEMA, SCENE_SCHEMA, SOURCE_FILE_SCHEMA
from trigpoint.release.content import ReleaseContent, write_json
from trigpoint.release.proposals import ProposalDocument, proposal_document
from trigpoint.release.reviews import ReviewDocument, review_document
from trigpoint.release.writer import write_release
from trigpoint.review.apply import WAITS
from trigpoint.review.ledger import item_from_json
from trigpoint.scene_graph.graph import EDGE_SCHEMA


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item: every result of every stage before; none when the selection or the split was quarantined."""
    if not done["selection"] or not done["split"]:
        return []
    annotated, boxes, graphs = (results_by_item(done, step) for step in ("annotate", "boxes", "graph"))
    proposed = results_by_item(done, "propose")
    scenes = [
        {
            "scene": entry.scene.to_json(),
            "image": entry.image.to_json(),
            "annotate": annotated[entry.scene.scene_id].to_json(),
            "boxes": boxes[entry.scene.scene_id].to_json(),
            "graph": graphs[entry.scene.scene_id].to_json(),
            "propose": proposed[entry.scene.scene_id].to_json() if entry.scene.scene_id in proposed else None,
        }
        for entry in collected_scenes(workspace, done)
        if entry.scene.scene_id in graphs
    ]
    steps = ("collect", "propose", "annotate", "boxes", "graph", "candidates", "selection", "calls", "language", "review", "split")
    inputs = [f"{step}:{result.item_id}:{result.content_sha256}" for step in steps for result in done[step]]
    drops = [drop.to_json() for step in steps for result in done[step] for drop in result.drops]
    vectors = _vector_files(workspace, {result.item_id for result in done["collect"]})
    payload = {
        "vectors": vectors,
        "scenes": scenes,
        "collect": [result.to_json() for result in done["collect"]],
        "candidates": [result.to_json() for result in done["candidates"]],
        "selection": [result.to_json() for result in done["selection"]],
        "review": [result.to_json() for result in done["review"]],
        "split": [result.to_json() for result in done["split"]],
        "drops": drops,
    }
    return [Item(item_id="all", inputs=(*inputs, digest_json([drops, vectors])), payload=payload)]


def _vector_files(workspace: Workspace, collected: set[str]) -> list[dict[str, str | None]]:
    """The footprints and annotations of the sources that were collected, as rows of the manifest."""
    parts = [
        (source.name, kind, part)
        for source in workspace.config.sources
        if source.name in collected
        for kind, listed in (("footprints", source.footprints), ("annotations", source.annotations))
        for part in listed
    ]
    return [
        {"source": name, "kind": kind, "origin": part.path.name, "date": None, "sha256": workspace.digest(part.path)}
        for name, kind, part in parts
    ]


def staging_folder(workspace: Workspace) -> Path:
    """Where a release is written before it is audited."""
    return workspace.work / "staging"


def make(workspace: Workspace, item: Item) -> Made:
    """Write the release into the staging folder."""
    folder = staging_folder(workspace)
    if folder.exists():
        shutil.rmtree(folder)
    content = gather_content(workspace, item.payload)
    if content.scenes.num_rows == 0:
        waiting = [drop for drop in content.drops if drop.reason_code == WAITS and drop.stage == "annotate"]
        if waiting:
            raise UndecidedError(f"the release has no scene yet: {len(waiting)} wait for people ({waiting[0].detail})")
        raise InputError("the release has no scene: every one was dropped or quarantined; see `trigpoint runs` for the reasons")
    manifest = write_release(folder, content)
    text = (folder / "manifest.json").read_bytes()
    return Made(
        {"release": pa.table({"manifest_sha256": [digest_bytes(text)]})},
        {"manifest": workspace.store.put_bytes(text, ".json")},
        n_in=len(item.payload["scenes"]),
        n_out=len(manifest["files"]),
    )


def gather_content(workspace: Workspace, payload: dict[str, Any]) -> ReleaseContent:
    """Read everything of a release from the store."""
    config = workspace.config
    results = {name: [ItemResult.model_validate(entry[name]) for entry in payload["scenes"]] for name in ("annotate", "boxes", "graph")}
    scene_ids = [entry["scene"]["scene_id"] for entry in payload["scenes"]]
    rasters: dict[str, Path] = {}
    has_regions: set[str] = set()
    for entry, annotated in zip(payload["scenes"], results["annotate"], strict=True):
        scene = Scene.model_validate(entry["scene"])
        name = f"{scene.scene_id}.tif"
        rasters[f"scenes/{name}"] = workspace.store.local_path(ArtefactRef.model_validate(entry["image"]))
        rasters[f"masks/{name}"] = workspace.store.local_path(annotated.files["labels"])
        if "planes" in annotated.files:
            rasters[f"regions/{name}"] = workspace.store.local_path(annotated.files["planes"])
            has_regions.add(scene.scene_id)
    selection = ItemResult.model_validate(payload["selection"][0])
    split = ItemResult.model_validate(payload["split"][0])
    targets, items = released_language(workspace, [ItemResult.model_validate(value) for value in payload["review"]])
    left_out = item_table(workspace, split, "split_left_out").to_pylist()
    review = _review(workspace, [*results["annotate"], *(ItemResult.model_validate(value) for value in payload["review"])])
    instances = _instance_table(workspace, results["boxes"])
    _check_drawn(workspace, payload, instances)
    machines = _proposals(workspace, [entry["propose"] for entry in payload["scenes"]], instances)
    return ReleaseContent(
        identity={"name": config.name, "version": config.version, "title": config.title, "description": config.description},
        config_sha256=config.sha256(),
        rules=config.rules,
        scenes=_scene_table(workspace, payload, scene_ids, has_regions, item_table(workspace, split, "outside").to_pylist()),
        instances=instances,
        relations=all_rows(workspace, results["graph"], "relation") or EDGE_SCHEMA.empty_table(),
        queries=sorted(
            [*_queries(workspace, selection), *language_queries(targets, items)], key=lambda query: (query["scene_id"], query["query_id"])
        ),
        splits={row["protocol"]: json.loads(row["document"]) for row in item_table(workspace, split, "split").to_pylist()},
        protocols_left_out={row["protocol"]: row["reason"] for row in left_out},
        rasters=rasters,
        taxonomy=workspace.taxonomy,
        taxonomy_file=config.taxonomy,
        licences_file=licences_file(),
        prompts=_prompts(workspace),
        sources=_source_files(workspace, payload),
        licences=licences(workspace),
        declared_licences={str(layer): licence for layer, licence in config.licences.declared().items()},
        review=review.block,
        reviews=review.lines,
        proposers=machines.block,
        proposals=machines.lines,
        unknown_is_other=dict(config.unknown_is_other),
        certificate=_certificate(workspace, payload),
        targets=targets,
        language_items=items,
        language=_language(workspace, items),
        drops=[Drop.model_validate(value) for value in payload["drops"]],
        notes=[*item_table(workspace, selection, "note").column("text").to_pylist(), *_complete_maps(workspace)],
    )


def _check_drawn(workspace: Workspace, payload: dict[str, Any], instances: pa.Table) -> None:
    """Refuse what people drew in a source of whose annotations no licence is known.

    Raises:
        InputError: names the sources.
    """
    licensed = {row["source"] for row in licences(workspace) if row["layer"] == "annotations"}
    source_of = {entry["scene"]["scene_id"]: entry["scene"]["source"] for entry in payload["scenes"]}
    scene_ids, sources = (instances.column(name).to_pylist() for name in ("scene_id", "source_ids"))
    drawn = {source_of[scene_id] for scene_id, ids in zip(scene_ids, sources, strict=True) if ids[0].startswith("review/")}
    if drawn - licensed:
        raise InputError(
            f"people drew masks in {', '.join(sorted(drawn - licensed))}, of whose annotations no licence is known; give review.drawn "
            "its licence and attribution"
        )


def _complete_maps(workspace: Workspace) -> list[str]:
    """Lines of the card on maps whose silence counts as absence in negatives."""
    if not workspace.config.language.forms:
        return []
    return [
        f"negatives of {source.name}: what the map lacks is taken as absent: {part.complete}"
        for source in workspace.config.sources
        for part in source.pois
        if part.complete
    ]


def _review(workspace: Workspace, results: list[ItemResult]) -> ReviewDocument:
    """Who decided what about the masks and sentences of the scenes."""
    items = [item_from_json(record) for result in results for record in item_records(workspace, result, "review_item")]
    decisions = [Decision.model_validate(record) for result in results for record in item_records(workspace, result, "decision")]
    return review_document(items, decisions, workspace.config.review, workspace.config.seed)


def _proposals(workspace: Workspace, entries: list[dict[str, Any] | None], instances: pa.Table) -> ProposalDocument:
    """What machines proposed in the scenes."""
    results = [ItemResult.model_validate(entry) for entry in entries if entry is not None]
    proposals = [MaskProposal.model_validate(record) for result in results for record in item_records(workspace, result, "proposal")]
    inferences = [InferenceRecord.model_validate(record) for result in results for record in item_records(workspace, result, "inference")]
    ids, sources = (instances.column(name).to_pylist() for name in ("instance_id", "source_ids"))
    return proposal_document(proposals, inferences, dict(zip(ids, sources, strict=True)))


def _source_files(workspace: Workspace, payload: dict[str, Any]) -> list[dict[str, str | None]]:
    """The manifest's rows of all files that the build was made from, each once, sorted."""
    table = all_rows(workspace, [ItemResult.model_validate(value) for value in payload["collect"]], "source_file")
    read: list[dict[str, str | None]] = table.select(SOURCE_FILE_SCHEMA.names).to_pylist() if table is not None else []
    rows = {tuple(row[name] or "" for name in SOURCE_FILE_SCHEMA.names): row for row in (*read, *payload["vectors"])}
    return [rows[key] for key in sorted(rows)]


def _prompt_row(path: Path) -> dict[str, Any]:
    name, _, version = path.stem.rpartition(".v")
    return {"name": name, "version": int(version), "sha256": digest_file(path)}


def _prompts(workspace: Workspace) -> list[Path]:
    config = workspace.config.language
    return prompt_files() if config.forms and config.provider != NAME else []


def _language(workspace: Workspace, items: list[LanguageItem]) -> dict[str, Any] | None:
    """The manifest's block on free language; None in a release without."""
    config = workspace.config.language
    if not config.forms:
        return None
    return {
        "provider": config.provider,
        "model": config.model if config.provider != NAME else None,
        "prompts": [_prompt_row(path) for path in _prompts(workspace)],
        "items": states_of(items),
        "rates": rates_of(items),
    }


def _certificate(workspace: Workspace, payload: dict[str, Any]) -> dict[str, Any]:
    """The manifest's block on stability: what was tried in all scenes, by level."""
    levels: dict[str, Counter[str]] = {}
    for value in payload["candidates"]:
        for row in item_table(workspace, ItemResult.model_validate(value), "certificate").to_pylist():
            levels.setdefault(str(row.pop("level")), Counter()).update(row)
    config = workspace.config
    return {
        "jitters": config.query.certificate_jitters,
        "seed": config.seed,
        "levels": {level: dict(counts) for level, counts in sorted(levels.items())},
    }


def _scene_table(
    workspace: Workspace, payload: dict[str, Any], scene_ids: list[str], has_regions: set[str], outside: list[dict[str, Any]]
) -> pa.Table:
    table = all_rows(workspace, [ItemResult.model_validate(value) for value in payload["collect"]], "scene")
    rows = {row["scene_id"]: row for row in (table.to_pylist() if table is not None else [])}
    for scene_id in has_regions:
        rows[scene_id]["region_path"] = f"regions/{scene_id}.tif"
    for row in outside:
        rows[row["scene_id"]]["outside"] = row["outside"]
    return pa.Table.from_pylist([rows[scene_id] for scene_id in sorted(scene_ids)], schema=SCENE_SCHEMA)


def _instance_table(workspace: Workspace, boxes: list[ItemResult]) -> pa.Table:
    table = all_rows(workspace, boxes, "instance")
    if table is None:
        return INSTANCE_SCHEMA.empty_table()
    order = [("scene_id", "ascending"), ("countable", "descending"), ("label", "ascending"), ("plane", "ascending")]
    return table.sort_by(order).combine_chunks()


def _queries(workspace: Workspace, selection: ItemResult) -> list[dict[str, Any]]:
    sentences: dict[str, list[str]] = {}
    for row in item_table(workspace, selection, "sentence").sort_by("position").to_pylist():
        sentences.setdefault(row["query_id"], []).append(row["text"])
    rows = item_table(workspace, selection, "program").sort_by([("scene_id", "ascending"), ("query_id", "ascending")]).to_pylist()
    return [
        {
            **row,
            "program": json.loads(row["program"]),
            "sentences": sentences[row["query_id"]],
            "form": "program",
            "polarity": "positive" if row["answerable"] else "negative",
            "annotation_id": None,
        }
        for row in rows
    ]


def licences(workspace: Workspace) -> list[dict[str, str | None]]:
    """Return one row per source, layer and licence."""
    rows: dict[tuple[str, str, str, str], dict[str, str | None]] = {}
    for source, (_, layer, licence), part in licensed_inputs(workspace.config):
        rows[source, layer, licence, part.attribution] = {
            "source": source,
            "layer": layer,
            "licence": licence,
            "attribution": part.attribution,
            "url": part.url,
        }
    return [rows[key] for key in sorted(rows)]


# audit, and into place


def plan_audit(workspace: Workspace, done: Done) -> list[Item]:
    """One item: the manifest of the release that was written, if one was."""
    if not done["publish"]:
        return []
    result = done["publish"][0]
    return [Item(item_id="all", inputs=(result.content_sha256,), payload={"manifest": result.files["manifest"].to_json()})]


def make_audit(workspace: Workspace, item: Item) -> Made:
    """Audit the staged (or published) release; rename it into place, or keep it as rejected with its findings."""
    from trigpoint.audit import audit_release  # half a second to import, and planning needs none of it

    manifest = ArtefactRef.model_validate(item.payload["manifest"])
    folder = _folder_with(workspace, manifest.sha256)
    if folder is None:
        raise ArtefactError(f"no folder holds the release of manifest {manifest.sha256[:12]}; run `trigpoint build` again")
    report = audit_release(folder).to_json()
    write_json(folder / "audit.json", report)
    output = workspace.config.run.output
    target = output if not report["findings"] else rejected_folder(output)
    if folder != target:
        _replace(folder, target)
    text = (target / "audit.json").read_bytes()
    return Made(
        {"finding": pa.table({"text": pa.array([json.dumps(f, sort_keys=True) for f in report["findings"]], pa.string())})},
        {"audit": workspace.store.put_bytes(text, ".json")},
        n_in=sum(report["checks"].values()) if isinstance(report["checks"], dict) else len(report["checks"]),
        n_out=len(report["findings"]),
    )


def rejected_folder(output: Path) -> Path:
    """Where a release with findings is kept."""
    return output.with_name(output.name + ".rejected")


def _replace(folder: Path, target: Path) -> None:
    """Rename a folder into place; an older release there is replaced, anything else is left alone with an error."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.with_name(target.name + ".old")
    if old.exists():  # left by a build that was killed between two renames
        shutil.rmtree(old)
    if target.exists():
        is_ours = target.is_dir() and ((target / "manifest.json").is_file() or not any(target.iterdir()))
        if not is_ours:
            raise InputError(f"{target} exists and is no release (it has no manifest.json); move it away or change run.output")
        target.rename(old)
        folder.rename(target)
        shutil.rmtree(old)
    else:
        folder.rename(target)


def _folder_with(workspace: Workspace, manifest_sha256: str) -> Path | None:
    """The folder whose files are exactly those of a manifest: staging, output or rejected."""
    output = workspace.config.run.output
    for folder in (staging_folder(workspace), output, rejected_folder(output)):
        if _why_not_whole(folder, manifest_sha256) is None:
            return folder
    return None


def _why_not_whole(folder: Path, manifest_sha256: str) -> str | None:
    """Say why a folder is not the whole release of a manifest, or None."""
    path = folder / "manifest.json"
    if not path.is_file():
        return f"{folder.name} is not there"
    if digest_file(path) != manifest_sha256:
        return f"{folder.name}/manifest.json is of another release"
    for row in json.loads(path.read_text(encoding="utf-8"))["files"]:
        file = folder / row["path"]
        if not file.is_file() or file.stat().st_size != row["bytes"] or digest_file(file) != row["sha256"]:
            return f"{folder.name}/{row['path']} is missing or changed"
    return None


def why_unpublished(workspace: Workspace, result: ItemResult) -> str | None:
    """Say why a known publish result must be made again: no folder holds it whole."""
    if _folder_with(workspace, result.files["manifest"].sha256) is not None:
        return None
    return _why_not_whole(workspace.config.run.output, result.files["manifest"].sha256)


def why_unaudited(workspace: Workspace, result: ItemResult) -> str | None:
    """Say why a known audit must be made again: its folder is not in place with that audit.json."""
    output = workspace.config.run.output
    for folder in (output, rejected_folder(output)):
        path = folder / "audit.json"
        if path.is_file() and digest_file(path) == result.files["audit"].sha256:
            manifest_sha256 = json.loads(path.read_text(encoding="utf-8"))["manifest_sha256"]
            return _why_not_whole(folder, manifest_sha256)
    return "the release is not in place"
