"""The stages in order, as steps. Everything that is run, planned or listed comes from here."""

from pathlib import Path
from typing import Any

from tasks import annotate, boxes, calls, collect, graph, language, propose, publish, query, review, split
from tasks.language import VOCABULARIES
from tasks.steps import Step
from tasks.workspace import Workspace
from trigpoint.config import LANGUAGE_PLACES, ReviewRule
from trigpoint.licences import licences_file
from trigpoint.records.stage import StageName
from trigpoint.release.card import CARD_FILES

_GEOMETRY = ("numpy", "shapely", "pyproj", "pyarrow", "rasterio")


def _taxonomy(workspace: Workspace) -> list[Path]:
    return [workspace.config.taxonomy]


def _annotate(workspace: Workspace) -> dict[str, Any]:
    config = workspace.config
    sizes = config.rules.model_dump(mode="json", include={"min_instance_px", "min_drawn_instance_px"})
    return {**sizes, "review": _rule(config.review), "seed": config.seed}


def _rule(rule: ReviewRule) -> dict[str, Any]:
    return rule.model_dump(mode="json", include=set(ReviewRule.model_fields))


def _language(workspace: Workspace) -> dict[str, Any]:
    config = workspace.config
    return {
        "rules": config.rules.to_json(),
        "unknown_is_other": sorted(config.unknown_is_other),
        "complete": [[source.name, part.complete] for source in config.sources for part in source.pois],
        "language": config.language.model_dump(mode="json", exclude=set(LANGUAGE_PLACES)),
    }


_ALL: tuple[Step, ...] = (
    Step(
        name="collect",
        stage="collect",
        module="tasks.collect",
        plan=collect.plan,
        make=collect.make,
        settings=lambda w: {"seed": w.config.seed, "mapped": bool(w.config.language.forms)},
        data_files=_taxonomy,
        libraries=(*_GEOMETRY, "osmium", "pyogrio", "geopandas"),
        catalogue_tables=("poi", "scene"),
    ),
    Step(
        name="propose",
        stage="annotate",
        module="tasks.propose",
        plan=propose.plan,
        make=propose.make,
        settings=lambda _: {},
        data_files=_taxonomy,
        libraries=(*_GEOMETRY, "scipy", "scikit-image", "pyogrio", "geopandas"),
        is_parallel=False,
        prepare=propose.prepare,
    ),
    Step(
        name="annotate",
        stage="annotate",
        module="tasks.annotate",
        plan=annotate.plan,
        make=annotate.make,
        settings=_annotate,
        data_files=_taxonomy,
        libraries=(*_GEOMETRY, "pyogrio", "geopandas"),
    ),
    Step(
        name="boxes",
        stage="boxes",
        module="tasks.boxes",
        plan=boxes.plan,
        make=boxes.make,
        settings=lambda w: w.config.rules.model_dump(mode="json", include={"outline"}),
        libraries=(*_GEOMETRY, "pycocotools"),
        catalogue_tables=("instance",),
    ),
    Step(
        name="graph",
        stage="graph",
        module="tasks.graph",
        plan=graph.plan,
        make=graph.make,
        settings=lambda w: w.config.rules.to_json(),
        libraries=(*_GEOMETRY, "scipy"),
        catalogue_tables=("relation",),
    ),
    Step(
        name="candidates",
        stage="query",
        module="tasks.query",
        plan=query.plan_candidates,
        make=query.make_candidates,
        settings=lambda w: {
            "rules": w.config.rules.to_json(),
            "seed": w.config.seed,
            "unknown_is_other": sorted(w.config.unknown_is_other),
            "category_absent": w.config.query.category_absent_per_scene,
            "jitters": w.config.query.certificate_jitters,
        },
        data_files=_taxonomy,
        libraries=(*_GEOMETRY, "scipy"),
    ),
    Step(
        name="selection",
        stage="query",
        module="tasks.query",
        plan=query.plan_selection,
        make=query.make_selection,
        settings=lambda w: {"query": w.config.query.model_dump(mode="json"), "share": w.config.rules.unanswerable_share},
        data_files=lambda w: [w.config.taxonomy, *w.config.query.paraphrases],
        libraries=("pyarrow",),
        catalogue_tables=("program", "sentence"),
        is_parallel=False,
    ),
    Step(
        name="calls",
        stage="language",
        module="tasks.calls",
        plan=calls.plan,
        make=calls.make,
        settings=_language,
        data_files=lambda w: [w.config.taxonomy, *calls.prompt_files()],
        libraries=(*_GEOMETRY, "scipy", "pillow", "jinja2"),
        is_parallel=False,
        prepare=calls.prepare,
    ),
    Step(
        name="language",
        stage="language",
        module="tasks.language",
        plan=language.plan,
        make=language.make,
        settings=_language,
        data_files=lambda w: [w.config.taxonomy, *VOCABULARIES],
        libraries=_GEOMETRY,
    ),
    Step(
        name="review",
        stage="review",
        module="tasks.review",
        plan=review.plan,
        make=review.make,
        settings=lambda w: {**_language(w), "review": _rule(w.config.review.rule_for_sentences), "seed": w.config.seed},
        data_files=lambda w: [w.config.taxonomy, *VOCABULARIES],
        libraries=_GEOMETRY,
    ),
    Step(
        name="split",
        stage="split",
        module="tasks.split",
        plan=split.plan,
        make=split.make,
        settings=lambda w: {"split": w.config.without_places()["split"], "seed": w.config.seed},
        libraries=(*_GEOMETRY, "scipy", "pyogrio", "geopandas"),
        is_parallel=False,
    ),
    Step(
        name="publish",
        stage="publish",
        module="tasks.publish",
        plan=publish.plan,
        make=publish.make,
        settings=lambda w: w.config.without_places(),
        data_files=lambda w: [w.config.taxonomy, licences_file(), *CARD_FILES],
        libraries=(*_GEOMETRY, "pillow", "pystac", "pycocotools", "jinja2", "matplotlib"),
        is_parallel=False,
        why_stale=publish.why_unpublished,
    ),
    Step(
        name="audit",
        stage="audit",
        module="trigpoint.audit",
        plan=publish.plan_audit,
        make=publish.make_audit,
        settings=lambda _: {},
        libraries=(*_GEOMETRY, "scipy", "pycocotools"),
        is_parallel=False,
        why_stale=publish.why_unaudited,
    ),
)

STEPS: dict[str, Step] = {step.name: step for step in _ALL}
"""Step by name, in the order in which they run."""

STAGES: tuple[StageName, ...] = tuple(dict.fromkeys(step.stage for step in _ALL))
"""Stages in the order in which they run."""


def steps_of(stage: StageName) -> list[Step]:
    """Return the steps of a stage, in order."""
    return [step for step in _ALL if step.stage == stage]
