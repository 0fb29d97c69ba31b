"""Style of the layer of masks and a project for QGIS, as text; the project points to its files relatively.

Source: what QGIS 3.22 writes; read back with its Python library. Not here: the files (`storage.geopackages`).
"""

import colorsys
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from trigpoint.exchange.geopackage import CATEGORY_KEY, MASKS
from trigpoint.exchange.items import ITEM_KEY, SEEN_KEY, SEPARABLE_KEY, ExchangeScene

VERSION = "3.22.0"

_TURN = 0.618034
"""Golden section: colours of neighbours in the list lie far apart on the circle of hues."""


class ProjectLayer(NamedTuple):
    """A layer of the project.

    Attributes:
        source: Path relative to the project, with `|layername=` for vector layers.
        bounds: Left, bottom, right, top in `crs`.
        is_vector: A layer of polygons; else a raster.
    """

    name: str
    source: str
    crs: str
    bounds: tuple[float, float, float, float]
    is_vector: bool


def mask_style(categories: Sequence[str]) -> str:
    """Write the style (QML) of a layer of masks: a colour per category, a list to choose it from, ids that nobody edits by mistake."""
    root = Element("qgis", version=VERSION, styleCategories="Symbology|Fields|Forms")
    _add_style(root, categories)
    ElementTree.indent(root)
    return f"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_style(root: Element, categories: Sequence[str]) -> None:
    renderer = SubElement(
        root, "renderer-v2", type="categorizedSymbol", attr=CATEGORY_KEY, enableorderby="0", forceraster="0", symbollevels="0"
    )
    entries, symbols = SubElement(renderer, "categories"), SubElement(renderer, "symbols")
    for k, category in enumerate([*categories, ""]):
        SubElement(entries, "category", value=category, label=category or "(no category)", symbol=str(k), render="true")
        _add_symbol(symbols, str(k), colour_of(k))
    fields = SubElement(root, "fieldConfiguration")
    _add_choice(fields, CATEGORY_KEY, categories)
    _add_choice(fields, SEPARABLE_KEY, ("yes", "no"))
    editable = SubElement(root, "editable")
    for name in (ITEM_KEY, SEEN_KEY):
        SubElement(editable, "field", name=name, editable="0")


def _add_choice(fields: Element, name: str, values: Sequence[str]) -> None:
    widget = SubElement(SubElement(fields, "field", name=name), "editWidget", type="ValueMap")
    choices = SubElement(SubElement(SubElement(widget, "config"), "Option", type="Map"), "Option", name="map", type="List")
    for value in values:
        SubElement(SubElement(choices, "Option", type="Map"), "Option", name=value, type="QString", value=value)


def _add_symbol(symbols: Element, name: str, rgb: tuple[int, int, int], fill_style: str = "solid") -> None:
    red, green, blue = rgb
    symbol = SubElement(symbols, "symbol", type="fill", name=name, alpha="1", clip_to_extent="1", force_rhr="0")
    fill = SubElement(symbol, "layer", {"class": "SimpleFill", "enabled": "1", "locked": "0", "pass": "0"})
    for key, value in (
        ("color", f"{red},{green},{blue},60"),
        ("style", fill_style),
        ("outline_color", f"{red},{green},{blue},255"),
        ("outline_style", "solid"),
        ("outline_width", "0.4"),
        ("outline_width_unit", "MM"),
        ("joinstyle", "miter"),
    ):
        SubElement(fill, "prop", k=key, v=value)


def colour_of(k: int) -> tuple[int, int, int]:
    """Return the colour of the k-th category, 0 to 255 each."""
    red, green, blue = colorsys.hsv_to_rgb(k * _TURN % 1.0, 0.85, 1.0 if k % 2 else 0.8)
    return round(255 * red), round(255 * green), round(255 * blue)


def scene_bounds(scene: ExchangeScene) -> tuple[float, float, float, float]:
    """Return left, bottom, right, top of a scene in its CRS, of all four corners."""
    a, b, c, d, e, f = scene.transform
    corners = [(a * x + b * y + c, d * x + e * y + f) for x in (0, scene.width) for y in (0, scene.height)]
    xs, ys = zip(*corners, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def project_text(title: str, layers: Iterable[ProjectLayer], categories: Sequence[str]) -> str:
    """Write a project (.qgs).

    Args:
        title: Of the project.
        layers: From the top of the list to the bottom.
        categories: For the style of the layers of masks.
    """
    listed = list(layers)
    root = Element("qgis", version=VERSION, projectname=title)
    SubElement(root, "title").text = title
    if listed:
        _add_crs(SubElement(root, "projectCrs"), listed[0].crs)
    tree = SubElement(root, "layer-tree-group")
    found = SubElement(root, "projectlayers")
    order = SubElement(root, "layerorder")
    for k, layer in enumerate(listed):
        layer_id, provider = f"layer_{k:012d}", "ogr" if layer.is_vector else "gdal"  # QGIS passes over ids of 10 characters and less
        shown = {"id": layer_id, "name": layer.name, "source": layer.source, "providerKey": provider}
        SubElement(tree, "layer-tree-layer", shown, checked="Qt::Checked", expanded="0")
        SubElement(order, "layer", id=layer_id)
        about = {"type": "vector", "geometry": "Polygon"} if layer.is_vector else {"type": "raster"}
        entry = SubElement(found, "maplayer", about)
        _add_extent(entry, layer.bounds)
        SubElement(entry, "id").text = layer_id
        SubElement(entry, "datasource").text = layer.source
        SubElement(entry, "layername").text = layer.name
        _add_crs(SubElement(entry, "srs"), layer.crs)
        SubElement(entry, "provider", {"encoding": "UTF-8"} if layer.is_vector else {}).text = provider
        if layer.is_vector and layer.name.startswith(MASKS):
            _add_style(entry, categories)
        elif layer.is_vector:
            renderer = SubElement(entry, "renderer-v2", type="singleSymbol", enableorderby="0", forceraster="0", symbollevels="0")
            _add_symbol(SubElement(renderer, "symbols"), "0", (255, 255, 255), "no")
    if listed:
        canvas = SubElement(root, "mapcanvas", name="theMapCanvas")
        same = [layer.bounds for layer in listed if layer.crs == listed[0].crs]
        _add_extent(canvas, (min(b[0] for b in same), min(b[1] for b in same), max(b[2] for b in same), max(b[3] for b in same)))
        _add_crs(SubElement(canvas, "destinationsrs"), listed[0].crs)
    properties = SubElement(root, "properties")
    SubElement(SubElement(properties, "Paths"), "Absolute", type="bool").text = "false"
    ElementTree.indent(root)
    return f"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_extent(parent: Element, bounds: tuple[float, float, float, float]) -> None:
    extent = SubElement(parent, "extent")
    for name, value in zip(("xmin", "ymin", "xmax", "ymax"), bounds, strict=True):
        SubElement(extent, name).text = repr(float(value))


def _add_crs(parent: Element, crs: str) -> None:
    system = SubElement(parent, "spatialrefsys")
    if ":" in crs and len(crs) < 40:
        SubElement(system, "authid").text = crs
    else:
        SubElement(system, "wkt").text = crs
