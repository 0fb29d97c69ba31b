"""Scenes, items and masks for the tests of the exchange."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.unit.review._decisions import decide
from trigpoint.categories import Taxonomy
from trigpoint.exchange.coco import from_coco, to_coco
from trigpoint.exchange.cvat import from_cvat, to_cvat
from trigpoint.exchange.geopackage import MASKS, from_geopackage, to_geopackage
from trigpoint.exchange.items import Document, ExchangeScene, Form, list_of_export
from trigpoint.exchange.label_studio import from_label_studio, to_label_studio
from trigpoint.masks.crops import record_of_mask
from trigpoint.records.review import MaskValue
from trigpoint.review.ledger import ItemState, Ledger, ReviewItem

RELEASE = "made-up"
TAXONOMY = Taxonomy.model_validate(
    {
        "name": "made",
        "version": 1,
        "axes": [{"id": "kind"}, {"id": "roof", "of": "hut"}],
        "categories": [
            {"id": "hut", "axis": "kind", "noun": "hut", "plural": "huts"},
            {"id": "pond", "axis": "kind", "noun": "pond", "plural": "ponds"},
            {"id": "tin", "axis": "roof", "noun": "tin roof", "plural": "tin roofs", "phrase": "with a tin roof"},
        ],
    }
)
FIRST = ExchangeScene("s-00000000000000a1", 30, 20, "EPSG:32633", (0.5, 0.0, 412_345.5, 0.0, -0.5, 5_300_000.25))
TURNED = ExchangeScene("s-00000000000000b2", 7, 10, "EPSG:32633", (0.26, 0.15, 412_900.1, 0.15, -0.26, 5_300_100.7))
DEGREES = ExchangeScene("s-00000000000000c3", 9, 6, "EPSG:4326", (1.1e-5, 0.0, 8.1, 0.0, -0.9e-5, 47.3))
SCENES = {scene.scene_id: scene for scene in (FIRST, TURNED, DEGREES)}
COUPLE = ("hut", "tin")


def an_item(
    mask: np.ndarray, scene: ExchangeScene = FIRST, number: int = 1, category: tuple[str, ...] = ("hut",), separable: bool = True
) -> ReviewItem:
    value = MaskValue(mask=record_of_mask(mask), category=category, separable=separable)
    return ReviewItem(f"i-{number:016x}", "mask", scene.scene_id, value)


def filled(scene: ExchangeScene, x: int, y: int, width: int, height: int) -> np.ndarray:
    mask = np.zeros((scene.height, scene.width), dtype=bool)
    mask[y : y + height, x : x + width] = True
    return mask


def states_of(*items: ReviewItem, ledger: Ledger | None = None) -> dict[str, ItemState]:
    return (ledger or Ledger()).states(items)


def masks(scene: ExchangeScene) -> st.SearchStrategy[np.ndarray]:
    """Any mask with a pixel: holes, parts, corners that only touch."""
    return hnp.arrays(np.bool_, (scene.height, scene.width)).filter(lambda mask: bool(mask.any()))


def through_gpkg(states: Mapping[str, ItemState], _form: Form = "mask") -> Document:
    layers = [layer for layer in to_geopackage(SCENES.values(), states) if layer.name.startswith(MASKS)]
    numbered = [layer._replace(ids=tuple(range(1, 1 + len(layer.rows)))) for layer in layers]
    return from_geopackage(numbered, list_of_export(RELEASE, "gpkg", SCENES.values(), states), SCENES, TAXONOMY)


def through_coco(states: Mapping[str, ItemState], _form: Form = "mask") -> Document:
    return from_coco(to_coco(RELEASE, SCENES.values(), states, TAXONOMY), SCENES, TAXONOMY)


def through_label_studio(states: Mapping[str, ItemState], form: Form = "mask") -> Document:
    return from_label_studio(to_label_studio(RELEASE, SCENES.values(), states, form), SCENES, TAXONOMY)


def through_cvat(states: Mapping[str, ItemState], form: Form = "mask") -> Document:
    document = from_cvat(to_cvat(SCENES.values(), states, form), SCENES, TAXONOMY)
    return document._replace(export=list_of_export(RELEASE, "cvat", SCENES.values(), states, form))


WAYS: dict[str, Callable[..., Document]] = {
    "gpkg": through_gpkg,
    "coco": through_coco,
    "label-studio": through_label_studio,
    "cvat": through_cvat,
}


def value_of(state: ItemState) -> MaskValue:
    return cast(MaskValue, state.value)


def decided(item: ReviewItem, *steps: tuple[str, dict[str, Any]]) -> Ledger:
    ledger = Ledger()
    for action, more in steps:
        decide(ledger, item, action, **more)
    return ledger
