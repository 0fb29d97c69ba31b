"""propose: what models and methods propose in one scene, from POIs, footprints, drawn boxes or by themselves.

Raw answers are recorded before anything uses them (`storage.proposals`) and read back ever after: a rebuild asks no model again, and needs
neither its weights nor its packages. What is made of the answers (seams, specks, duplicates) is worked out anew each time.
"""

import json
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from storage.digests import code_digest
from storage.proposals import ProposalRecord
from storage.rasters import read_scene_tif
from tasks.collect import source_config
from tasks.features import drawn_proposals, footprint_proposals
from tasks.scenes import collected_scenes, frame_of, scene_payload
from tasks.steps import Done, Item, Made, Preparation
from tasks.tables import item_records, item_table, record_table
from tasks.workspace import Workspace
from trigpoint.config import AnnotationConfig, SourceConfig
from trigpoint.errors import ConfigError
from trigpoint.geometry.repair import repair_polygon
from trigpoint.identity import digest_bytes, digest_json
from trigpoint.imagery.view import rgb_of_patch
from trigpoint.masks.annotate import Machine, Proposal, image_from, image_polygon
from trigpoint.proposals.classical import ClassicalProposer
from trigpoint.proposals.prompts import prompt_shape
from trigpoint.proposals.proposer import ArrayPicture, Proposer
from trigpoint.proposals.sam2 import Sam2Proposer, model_digest, model_name, sam2_parameters
from trigpoint.proposals.scene import Cleaning, settle_answers
from trigpoint.proposals.settings import ProposalsConfig, Sam2Settings
from trigpoint.proposals.tiles import Tiling, ask_scene
from trigpoint.proposals.vector import VectorProposer
from trigpoint.records.proposal import AutomaticPrompt, InferenceRecord, MaskProposal, PointsPrompt, Prompt, PromptOrigin, ProposalRequest
from trigpoint.records.scene import Scene
from trigpoint.records.stage import ArtefactRef, Drop, ItemResult

_AUTOMATIC_KEYS = ("points_per_side", "min_predicted_iou", "min_stability")
_log = logging.getLogger(__name__)


def plan(workspace: Workspace, done: Done) -> list[Item]:
    """One item per scene of a source that has `proposals`; its inputs are the scene, the prompts' files and POIs, settings and models."""
    pois = {result.item_id: result for result in done["collect"]}
    items: list[Item] = []
    for entry in collected_scenes(workspace, done):
        config = source_config(workspace, entry.scene.source)
        if not config.proposals:
            continue
        # the tables alone: a source may have thousands of scenes
        collected = pois[config.name].model_copy(update={"files": {}, "drops": ()})
        asked = {part.prompts for part in config.proposals}
        inputs = [
            entry.image.sha256,
            digest_json(entry.scene.to_json()),
            *(digest_json(_said(workspace, part)) for part in config.proposals),
        ]
        inputs += [workspace.digest(part.path) for part in config.footprints if "footprints" in asked]
        inputs += [workspace.digest(part.path) for part in config.drawn_prompts]
        if "pois" in asked:
            inputs.append(digest_json(_poi_rows(workspace, collected)))
        items.append(
            Item(
                item_id=entry.scene.scene_id,
                inputs=tuple(inputs),
                payload={**scene_payload(entry), "collect": collected.to_json()},
            )
        )
    return items


def _said(workspace: Workspace, part: ProposalsConfig) -> dict[str, Any]:
    """What the settings say, without folders, and which model that is."""
    said = part.model_dump(mode="json", exclude={"drawn": {"path"}, "sam2": {"checkpoint", "config_file", "batch_size"}})
    return {**said, "model": _model_sha256(workspace, part)}


def _poi_rows(workspace: Workspace, collected: ItemResult) -> list[dict[str, Any]]:
    return item_table(workspace, collected, "poi").select(["poi_id", "lon", "lat", "tags"]).to_pylist()


def prepare(workspace: Workspace, items: list[Item], progress: Preparation) -> None:
    """See to it that the answers about every scene are recorded, asking for those that are not.

    Raises:
        ConfigError: a model that must be asked is not here.
    """
    n_asked = 0
    for k, item in enumerate(items):
        try:
            n_asked += sum(answered.is_new for answered in _answer_all(workspace, item))
        except ConfigError:
            raise
        except Exception as error:  # of this scene alone: `make` fails on it again, and only it is lost
            progress.say(f"propose {item.item_id}: {type(error).__name__}: {error}")
        progress.prepared("proposals", k + 1, len(items), f"{n_asked} asked, the others were recorded before")


def make(workspace: Workspace, item: Item) -> Made:
    """Make the proposals of a scene of recorded answers.

    Raises:
        ConfigError: nothing is recorded, and the model is not here.
        ModelError: the model failed.
    """
    scene = Scene.model_validate(item.payload["scene"])
    rows: list[dict[str, Any]] = []
    records: list[InferenceRecord] = []
    drops: list[Drop] = []
    n_in = 0
    for answered in _answer_all(workspace, item):
        part, record = answered.part, answered.record
        n_in += len(answered.prompts)
        if record is None:
            continue
        records.append(record)
        cleaning = Cleaning(part.speck_px, part.min_px, part.duplicate_iou, part.min_score)
        answers = ProposalRecord(workspace.store).answers(record)
        settled = settle_answers(scene.scene_id, record.identity, answered.prompts, answers, (scene.height, scene.width), cleaning)
        drops += settled.drops
        rows += [{"replaces": part.replaces, "record": proposal.to_json()} for proposal in settled.proposals]
    unique = {row["record"]["proposal_id"]: row for row in rows}
    tables = {"proposal": _table([unique[name] for name in sorted(unique)]), "inference": record_table(r.to_json() for r in records)}
    return Made(tables, drops=drops, n_in=n_in, n_out=len(unique))


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    table = record_table(row["record"] for row in rows)
    return table.append_column("replaces", pa.array([row["replaces"] for row in rows], pa.bool_()))


def machine_masks(workspace: Workspace, result: ItemResult) -> list[Machine]:
    """Return what was proposed in a scene."""
    replaces = item_table(workspace, result, "proposal").column("replaces").to_pylist()
    records = item_records(workspace, result, "proposal")
    return [Machine(MaskProposal.model_validate(record), flag) for record, flag in zip(records, replaces, strict=True)]


class _Answered(NamedTuple):
    """The answers to one part of the configuration; `record` is None where there was nothing to ask."""

    part: ProposalsConfig
    prompts: list[Prompt]
    record: InferenceRecord | None
    is_new: bool


def _answer_all(workspace: Workspace, item: Item) -> list[_Answered]:
    """Find the recorded answers of every part of the configuration, or ask for them and record them."""
    scene = Scene.model_validate(item.payload["scene"])
    config = source_config(workspace, scene.source)
    patch = read_scene_tif(workspace.store.get_bytes(ArtefactRef.model_validate(item.payload["image"])))
    rgb = rgb_of_patch(patch).array
    image_sha256 = digest_bytes(str(rgb.shape).encode() + rgb.tobytes())
    found: list[_Answered] = []
    for position, part in enumerate(config.proposals):
        prompts = _prompts(workspace, config, part, scene, patch.valid, item)
        if not prompts:
            found.append(_Answered(part, [], None, False))
            continue
        request = ProposalRequest(
            proposer=part.proposer,
            model=_model_name(part),
            image_sha256=image_sha256,
            prompts_sha256=digest_json([prompt.to_json() for prompt in prompts]),
            n_prompts=len(prompts),
            parameters=_parameters(part),
        )
        model_sha256 = _model_sha256(workspace, part)
        device = part.sam2.device if part.sam2 is not None and part.sam2.device != "auto" else None
        record = ProposalRecord(workspace.store).find(request, model_sha256, device)
        is_new = record is None
        if record is None:
            try:
                proposer = _proposer(workspace, part)
            except ConfigError as error:
                raise ConfigError(
                    f"scene {scene.scene_id}: sources.{config.name}.proposals.{position} was never asked about it with these prompts and "
                    f"settings, and cannot be asked here: {error}"
                ) from error
            tiling = Tiling(part.tile_px, part.overlap_px, part.passes)
            answers = ask_scene(proposer, ArrayPicture(rgb), prompts, tiling, _logged(scene.scene_id))
            digest = model_sha256 or _model_sha256(workspace, part) or ""
            record = ProposalRecord(workspace.store).add(request, proposer.identity, digest, proposer.versions, prompts, answers)
        found.append(_Answered(part, prompts, record, is_new))
    return found


def _logged(scene_id: str) -> Callable[[int, int], None]:
    def say(k: int, n: int) -> None:
        if n > 1:
            _log.info("propose %s: tile %d of %d", scene_id, k, n)

    return say


def _parameters(part: ProposalsConfig) -> dict[str, Any]:
    """What decides raw answers beside the prompts; what is done with them afterwards is not part of it."""
    own: dict[str, Any] = {}
    if part.sam2 is not None and part.prompts == "automatic":
        own = sam2_parameters(part.sam2)
    if part.proposer == "classical":
        own = {"method": part.classical.method}
    return {"tile_px": part.tile_px, "overlap_px": part.overlap_px, "passes": list(part.passes), "edition": part.edition, **own}


def _model_name(part: ProposalsConfig) -> str:
    if part.sam2 is not None:
        return model_name(part.sam2)
    return part.classical.method if part.proposer == "classical" else VectorProposer.identity.model


def _model_sha256(workspace: Workspace, part: ProposalsConfig) -> str | None:
    """The digest of the weights (of a proposer without weights: of its code), or None where nothing here says it.

    Raises:
        ConfigError: the checkpoint has another digest than the configuration says.
    """
    if part.sam2 is None:
        return code_digest(f"trigpoint.proposals.{part.proposer}", [], ["scikit-image", "scipy"] if part.proposer == "classical" else [])
    weights = _weights_sha256(workspace, part.sam2)
    own = part.sam2.config_file
    if weights is None or (own is not None and not own.is_file()):
        return None
    return model_digest(weights, workspace.digest(own) if own is not None else None)


def _weights_sha256(workspace: Workspace, settings: Sam2Settings) -> str | None:
    if not settings.checkpoint.is_file():
        return settings.sha256
    found = workspace.digest(settings.checkpoint)
    if settings.sha256 not in (None, found):
        raise ConfigError(
            f"sam2.checkpoint: {settings.checkpoint} has the SHA-256 {found}, expected {settings.sha256} (key sha256); it is another file"
        )
    return found


def _proposer(workspace: Workspace, part: ProposalsConfig) -> Proposer:
    if part.sam2 is not None:
        return _sam2(part.sam2, _weights_sha256(workspace, part.sam2) or "")  # pyright: ignore[reportArgumentType]  frozen: hashable
    return ClassicalProposer(part.classical.method) if part.proposer == "classical" else VectorProposer()


@lru_cache(maxsize=1)
def _sam2(settings: Sam2Settings, weights_sha256: str) -> Sam2Proposer:
    """Load a model once per process."""
    return Sam2Proposer(settings, weights_sha256)


def _prompts(
    workspace: Workspace, config: SourceConfig, part: ProposalsConfig, scene: Scene, valid: NDArray[np.bool_], item: Item
) -> list[Prompt]:
    """What a proposer is asked about a scene, in an order that depends on the prompts alone."""
    if part.prompts == "automatic":
        said = workspace.taxonomy.one_per_axis([part.category]) if part.category is not None else ()
        return [Prompt(shape=AutomaticPrompt(), origin="automatic", source_id="automatic", categories=said)]
    if part.prompts == "pois":
        collected = ItemResult.model_validate(item.payload["collect"])
        found = _poi_prompts(workspace, part, scene, valid, _poi_rows(workspace, collected))
    elif part.prompts == "footprints":
        outlines = [each for file in config.footprints for each in footprint_proposals(file, workspace, scene.scene_id, [])]
        found = _outline_prompts(part, scene, outlines, "footprint")
    else:
        assert part.drawn is not None
        outlines = drawn_proposals(AnnotationConfig.model_validate(part.drawn.model_dump()), workspace)
        found = _outline_prompts(part, scene, outlines, "drawn")
    wanted = [prompt for prompt in found if _is_wanted(workspace, part, prompt.categories)]
    return sorted(wanted, key=lambda prompt: (prompt.source_id, digest_json(prompt.to_json())))


def _is_wanted(workspace: Workspace, part: ProposalsConfig, categories: Sequence[str]) -> bool:
    return not part.categories or any(workspace.taxonomy.is_within(value, name) for value in categories for name in part.categories)


def _outline_prompts(part: ProposalsConfig, scene: Scene, outlines: list[Proposal], origin: PromptOrigin) -> list[Prompt]:
    frame = frame_of(scene)
    found: list[Prompt] = []
    for outline in outlines:
        repaired = repair_polygon(outline.geometry).geometry
        polygon = None if repaired.is_empty else image_polygon(repaired, outline.crs, frame, (scene.width, scene.height))
        shape = None if polygon is None else prompt_shape(polygon, part.form, scene.height, scene.width)
        if isinstance(shape, PointsPrompt) and shape.obb_px is None and part.point_size_m is not None:
            shape = shape.model_copy(update={"size_px": part.point_size_m / scene.frame.gsd_m})
        if shape is not None:
            found.append(Prompt(shape=shape, origin=origin, source_id=outline.source_id, categories=outline.categories))
    return found


def _poi_prompts(
    workspace: Workspace, part: ProposalsConfig, scene: Scene, valid: NDArray[np.bool_], rows: list[dict[str, Any]]
) -> list[Prompt]:
    """POIs on valid pixels of a scene; the narrowest category that their tags name."""
    if not rows:
        return []
    points = image_from("OGC:CRS84", frame_of(scene))(np.array([(row["lon"], row["lat"]) for row in rows]))
    found: list[Prompt] = []
    for row, (x, y) in zip(rows, points.tolist(), strict=True):
        if not (0 <= x < scene.width and 0 <= y < scene.height and valid[int(y), int(x)]):
            continue
        categories, _ = workspace.taxonomy.values_from_tags(json.loads(row["tags"]))
        if categories:
            size_m = part.point_size_m or _typical_size_m(workspace, categories)
            shape = PointsPrompt(points_px=((x, y),), labels=(1,), size_px=size_m / scene.frame.gsd_m if size_m is not None else None)
            found.append(Prompt(shape=shape, origin="poi", source_id=row["poi_id"], categories=categories))
    return found


def _typical_size_m(workspace: Workspace, categories: Sequence[str]) -> float | None:
    """The geometric mean of the least and the most that the taxonomy gives for the longer side of a thing; None where it says nothing."""
    for name in categories:
        size = workspace.taxonomy.get(name).typical_size_m
        if size is not None:
            return float(np.sqrt(size[0] * size[1]))
    return None
