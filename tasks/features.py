"""Vector files as `annotate` and `propose` read them: footprints by their tags, drawn polygons by their category."""

from functools import lru_cache
from pathlib import Path

from storage.vectors import FeatureTable, read_features, tags_of
from tasks.collect import feature_id
from tasks.workspace import Workspace
from trigpoint.config import AnnotationConfig, VectorConfig
from trigpoint.errors import TaxonomyError
from trigpoint.masks.annotate import Proposal
from trigpoint.records.stage import Drop


@lru_cache(maxsize=16)
def _read(path: Path, layer: str | None, crs: str | None, _sha256: str) -> FeatureTable:
    return read_features(path, layer=layer, crs_override=crs)


def features_of(part: VectorConfig, workspace: Workspace) -> FeatureTable:
    """Read a vector file once per process and content."""
    return _read(part.path, part.layer, part.crs, workspace.digest(part.path))


def footprint_proposals(part: VectorConfig, workspace: Workspace, scene_id: str, drops: list[Drop]) -> list[Proposal]:
    """Footprints whose tags name a category; where two tags disagree the axis stays unknown and that is recorded."""
    table = features_of(part, workspace)
    found: list[Proposal] = []
    for geometry, properties in zip(table.geometries, table.properties, strict=True):
        categories, torn = workspace.taxonomy.values_from_tags(tags_of(properties))
        if not categories:
            continue
        source_id = feature_id(part, properties, geometry)
        if torn:
            drops.append(
                Drop(
                    stage="annotate",
                    scope_id=scene_id,
                    item_id=source_id,
                    reason_code="tags_disagree",
                    detail=f"its tags name several categories on {', '.join(torn)}; the broader one is taken",
                    remedy="mend the tags",
                )
            )
        found.append(Proposal(source_id, geometry, table.crs, categories, "vector"))
    return found


def drawn_proposals(part: AnnotationConfig, workspace: Workspace) -> list[Proposal]:
    """Polygons that a person drew, with their categories.

    Raises:
        TaxonomyError: a feature names no category, or one that the taxonomy does not have.
    """
    table = features_of(part, workspace)
    found: list[Proposal] = []
    for geometry, properties in zip(table.geometries, table.properties, strict=True):
        text = properties.get(part.category_property)
        if not text:
            raise TaxonomyError(f"{part.path}: a feature has no {part.category_property!r}; every drawn polygon needs its category")
        try:
            categories = workspace.taxonomy.one_per_axis([name.strip() for name in str(text).split("+")])
        except TaxonomyError as error:
            raise TaxonomyError(f"{part.path}: {part.category_property} {text!r}: {error}") from error
        is_separable = properties.get(part.separable_property) not in (False, 0, "false", "False", "no", "0")
        found.append(Proposal(feature_id(part, properties, geometry), geometry, table.crs, categories, "annotator", is_separable))
    return found
