"""OpenStreetMap files in: tagged nodes, areas and lines of `.osm.pbf`, `.osm`, `.osm.bz2`, `.osm.gz`, and Overpass JSON.

Areas (closed ways and multipolygon relations) are assembled by osmium. Coordinates are WGS 84, longitude first; ids are exact
64-bit numbers. Not here: which tags mean what (taxonomy).
"""

import bz2
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast
from xml.sax.saxutils import quoteattr

import numpy as np
import osmium
import osmium.filter
import osmium.geom
import osmium.io
import shapely

from trigpoint.errors import OsmError
from trigpoint.geometry.places import representative_points
from trigpoint.geometry.repair import split_at_antimeridian

OsmType = Literal["node", "way", "relation"]

ANNOTATION_KEYS = frozenset(
    {"type", "source", "name", "note", "fixme", "created_by", "description", "wikidata", "wikipedia", "layer", "area"}
)
"""Keys that describe an element but do not say what it is: two elements that share them alone are not the same thing."""

_XML_ENDINGS = {".osm": "osm", ".xml": "osm", ".osm.bz2": "osm.bz2", ".osm.gz": "osm.gz"}
_SCAN_BYTES = 1 << 20
_REMARK = re.compile(rb"<remark>(.*?)(?:</remark>|$)", re.DOTALL)


class OsmFeature(NamedTuple):
    """One tagged element.

    Attributes:
        osm_type, osm_id: As in OpenStreetMap; an area made of a relation has the relation's.
        tags: Byte for byte, sorted by key.
        lon, lat: A point of it: the node, a point inside the area, the middle of the line. WGS 84 degrees.
        wkb: Geometry (Point, Polygon or MultiPolygon, LineString; a MultiLineString where it crosses 180°), WGS 84, longitude first.
    """

    osm_type: OsmType
    osm_id: int
    tags: dict[str, str]
    lon: float
    lat: float
    wkb: bytes


class OsmFeatures(NamedTuple):
    """What is in a file, each list sorted by type and id.

    Attributes:
        nodes: Tagged nodes.
        areas: Tagged closed ways (unless `area=no`) and multipolygon or boundary relations that could be assembled. A closed
            way that is also a line in reality (a roundabout) is here too: its tags decide. What an Overpass answer gives as
            its middle alone (`out center`) is here with that point.
        lines: Tagged open ways, and closed ones with `area=no`.
        covered: (way id, relation id) of outer ways that say what their relation says: they are in `areas` once, as the relation.
        without_geometry: (type, id) of tagged elements that have none: members or nodes are missing, rings do not close, or a relation
            is of a type that makes no area (a site).
    """

    nodes: tuple[OsmFeature, ...]
    areas: tuple[OsmFeature, ...]
    lines: tuple[OsmFeature, ...]
    covered: tuple[tuple[int, int], ...]
    without_geometry: tuple[tuple[OsmType, int], ...]


class _Found(NamedTuple):
    osm_type: OsmType
    osm_id: int
    tags: dict[str, str]
    wkb: bytes


def read_osm(path: str | Path, keep: Callable[[dict[str, str]], bool] = bool) -> OsmFeatures:
    """Read the tagged elements of an OpenStreetMap file.

    What is not kept costs no geometry: a large extract is mostly ways that nobody asked for.

    Args:
        path: `.osm.pbf`, `.osm`, `.xml`, `.osm.bz2`, `.osm.gz` or an Overpass answer in `.json`.
        keep: Told the tags of each tagged element, says whether it is wanted. Elements that are not are in none of the lists.

    Raises:
        OsmError: the file is missing, of another kind, damaged or cut short; it is XML with a DOCTYPE (entities are never
            expanded) or not in UTF-8; or it is an Overpass answer that says it is incomplete.
    """
    path = Path(path)
    name = repr(str(path))
    source: osmium.io.File | osmium.io.FileBuffer
    if not path.is_file():
        raise OsmError(f"OpenStreetMap file {name} is not there or no file; check the path in the configuration")
    if path.stat().st_size == 0:
        raise OsmError(f"OpenStreetMap file {name} is empty; copy it again")
    file_name = path.name.lower()
    centred: list[_Found] = []
    if file_name.endswith(".json"):
        elements = check_overpass(path.read_bytes(), name)["elements"]
        try:
            source = osmium.io.FileBuffer(_xml_of_overpass([*_inline_elements(elements), *elements]), "osm")
            centred = _centred_elements(elements)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise OsmError(f"Overpass answer {name} has a broken element ({error!r}); save the answer again, with 'out body'") from error
    elif (ending := next((each for each in _XML_ENDINGS if file_name.endswith(each)), None)) is not None:
        _check_xml(path, name)
        source = osmium.io.File(str(path.resolve()), _XML_ENDINGS[ending])
    elif file_name.endswith(".pbf"):
        source = osmium.io.File(str(path.resolve()), "pbf")
    else:
        raise OsmError(
            f"OpenStreetMap file {name} has another extension, expected .osm.pbf, .osm, .osm.bz2, .osm.gz, .xml or .json; rename it"
        )
    try:
        return _with_centred(_read(source, keep), [each for each in centred if keep(each.tags)])
    except (RuntimeError, ValueError) as error:
        raise OsmError(f"OpenStreetMap file {name} cannot be read: {error}; the file is damaged or cut short: copy it again") from error


def _with_centred(found: OsmFeatures, centred: list[_Found]) -> OsmFeatures:
    if not centred:
        return found
    ids = {(each.osm_type, each.osm_id) for each in centred}
    areas = sorted((*found.areas, *_features(centred)), key=lambda each: (each.osm_type, each.osm_id))
    return found._replace(areas=tuple(areas), without_geometry=tuple(each for each in found.without_geometry if each not in ids))


def _read(source: osmium.io.File | osmium.io.FileBuffer, keep: Callable[[dict[str, str]], bool]) -> OsmFeatures:
    factory = osmium.geom.WKBFactory()
    nodes: list[_Found] = []
    areas: list[_Found] = []
    lines: list[_Found] = []
    without: set[tuple[OsmType, int]] = set()
    closed: set[int] = set()
    outers: dict[int, list[int]] = {}
    elements = cast("Iterable[Any]", osmium.FileProcessor(source).with_areas().with_filter(osmium.filter.EmptyTagFilter()))
    for element in elements:
        tags = _tags_of(element)
        if not keep(tags):
            continue
        if element.is_relation():
            if tags.get("type") in ("multipolygon", "boundary"):
                outers[element.id] = [member.ref for member in element.members if member.type == "w" and member.role in ("outer", "")]
            else:
                without.add(("relation", element.id))
            continue
        if element.is_way() and element.is_closed() and tags.get("area") != "no":
            closed.add(element.id)
        kind, osm_id, target, make = _role_of(element, factory, nodes, areas, lines)
        if element.is_way() and not len(element.nodes):
            without.add((kind, osm_id))
        if make is None:
            continue
        try:
            wkb = bytes.fromhex(make(element))
        except (RuntimeError, osmium.InvalidLocationError):  # a location is missing, or no ring closes: this element alone has no geometry
            without.add((kind, osm_id))
        else:
            target.append(_Found(kind, osm_id, tags, wkb))
    assembled = {area.osm_id for area in areas if area.osm_type == "relation"}
    without |= {("relation", relation_id) for relation_id in outers.keys() - assembled}
    without |= {("way", way_id) for way_id in closed - {area.osm_id for area in areas if area.osm_type == "way"}}
    covered = _covered_ways(areas, outers)
    once = [area for area in areas if area.osm_type == "relation" or area.osm_id not in covered]
    return OsmFeatures(
        nodes=_features(nodes),
        areas=_features(once),
        lines=_features(lines),
        covered=tuple(sorted(covered.items())),
        without_geometry=tuple(sorted(without)),
    )


def _role_of(
    element: Any, factory: osmium.geom.WKBFactory, nodes: list[_Found], areas: list[_Found], lines: list[_Found]
) -> tuple[OsmType, int, list[_Found], Callable[[Any], str] | None]:
    """Say what an element is: its type, its id, the list it belongs to, and what makes its geometry (None: nothing does)."""
    if element.is_node():
        return "node", element.id, nodes, factory.create_point
    if element.is_area():
        return "way" if element.from_way() else "relation", element.orig_id(), areas, factory.create_multipolygon
    is_line = len(element.nodes) >= 2 and (not element.is_closed() or element.tags.get("area") == "no")
    return "way", element.id, lines, factory.create_linestring if is_line else None


def _tags_of(element: Any) -> dict[str, str]:
    return dict(sorted((tag.k, tag.v) for tag in element.tags))


def _covered_ways(areas: list[_Found], outers: dict[int, list[int]]) -> dict[int, int]:
    """Return way id → relation id of outer ways that say the same thing as their assembled relation."""
    ways = {area.osm_id: _meaning(area.tags) for area in areas if area.osm_type == "way"}
    covered: dict[int, int] = {}
    for area in areas:
        if area.osm_type == "relation":
            meaning = _meaning(area.tags)
            for way_id in outers.get(area.osm_id, []):
                if ways.get(way_id, frozenset()) & meaning:
                    covered.setdefault(way_id, area.osm_id)
    return covered


def _meaning(tags: dict[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (k, v) for k, v in tags.items() if k not in ANNOTATION_KEYS and not k.startswith(("source:", "name:", "note:", "addr:"))
    )


def _features(found: list[_Found]) -> tuple[OsmFeature, ...]:
    """Add a point to each element, and sort."""
    if not found:
        return ()
    found = sorted(found, key=lambda each: (each.osm_type, each.osm_id))
    geometries = shapely.from_wkb([each.wkb for each in found])
    west, _, east, _ = shapely.bounds(geometries).T
    for k in np.flatnonzero(east - west > 180.0):
        geometries[k] = split_at_antimeridian(geometries[k])
        found[k] = found[k]._replace(wkb=shapely.to_wkb(geometries[k]))
    points = representative_points(geometries).tolist()
    return tuple(
        OsmFeature(each.osm_type, each.osm_id, each.tags, lon, lat, each.wkb) for each, (lon, lat) in zip(found, points, strict=True)
    )


def _check_xml(path: Path, name: str) -> None:
    """Refuse a DOCTYPE before any parser sees it, other encodings that could hide one, and incomplete Overpass answers."""
    opener = {".bz2": bz2.open, ".gz": gzip.open}.get(path.suffix.lower(), open)
    in_prolog, tail = True, b""
    try:
        with opener(path, "rb") as file:
            for block in _blocks(cast("IO[bytes]", file)):
                text = tail + block
                if in_prolog:
                    if b"\0" in text or text.startswith((b"\xfe\xff", b"\xff\xfe")):
                        raise OsmError(f"OpenStreetMap file {name} is not in UTF-8; convert it")
                    if re.search(rb"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
                        raise OsmError(
                            f"OpenStreetMap file {name} has a DOCTYPE, which may define entities; remove it, the format has none"
                        )
                    in_prolog = re.search(rb"<(osm|osmChange)[\s>/]", text) is None
                remark = _REMARK.search(text)
                if remark:
                    raise OsmError(_incomplete(name, remark[1].decode("utf-8", "replace")))
                tail = text[-(1 << 12) :]
    except (OSError, EOFError, zlib.error) as error:
        raise OsmError(f"OpenStreetMap file {name} cannot be read: {error}; the file is damaged or cut short: copy it again") from error


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_SCAN_BYTES):
        yield block


def _incomplete(name: str, remark: str) -> str:
    return f"Overpass answer {name} is incomplete: {remark.strip()!r}; ask again for a smaller area or with a longer timeout"


def check_overpass(data: bytes, name: str) -> dict[str, Any]:
    """Return an Overpass answer that says it is whole.

    Raises:
        OsmError: it is no Overpass answer, or says that it is incomplete.
    """
    try:
        answer = json.loads(data)
        is_answer = isinstance(answer["elements"], list)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise OsmError(
            f"file {name} is no Overpass answer ({error!r}), expected an object with 'elements'; save the answer again"
        ) from error
    if answer.get("remark"):
        raise OsmError(_incomplete(name, str(answer["remark"])))
    if not is_answer:
        raise OsmError(f"file {name} is no Overpass answer ('elements' is no list); save the answer again")
    return answer


def is_overpass(path: Path) -> bool:
    """Whether a JSON file is an Overpass answer and not, say, GeoJSON: told by its members."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "elements" in document and "features" not in document


def _centred_elements(elements: list[dict[str, Any]]) -> list[_Found]:
    """Tagged ways and relations of an answer that were asked for as points alone (`out center`)."""
    found: list[_Found] = []
    for element in elements:
        kind, centre, tags = element.get("type"), element.get("center"), element.get("tags")
        if kind in ("way", "relation") and centre and tags and not element.get("nodes") and not element.get("members"):
            point = shapely.Point(float(centre["lon"]), float(centre["lat"]))
            found.append(_Found(kind, int(element["id"]), dict(sorted((str(k), str(v)) for k, v in tags.items())), shapely.to_wkb(point)))
    return found


_INVENTED_ID = 1 << 62
"""From here on ids of nodes are ours: places of an answer that have none."""


def _inline_elements(elements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the nodes and member ways that an answer with `out geom` gives as mere places; what is cut off (null) is left out."""
    ids: dict[tuple[float, float], int] = {}
    found: list[dict[str, Any]] = []

    def refs_of(part: dict[str, Any]) -> list[int]:
        places = [(float(place["lat"]), float(place["lon"])) if place else None for place in part["geometry"]]
        given = part.get("nodes") or []
        named = len(given) == len(places)
        refs = [int(given[k]) if named else ids.setdefault(place, _INVENTED_ID + len(ids)) for k, place in enumerate(places) if place]
        whole = [place for place in places if place]
        found.extend({"type": "node", "id": ref, "lat": lat, "lon": lon} for ref, (lat, lon) in zip(refs, whole, strict=True))
        return refs if len(whole) == len(places) else []

    for element in elements:
        if element.get("type") == "way" and element.get("geometry"):
            refs = refs_of(element)
            if not element.get("nodes"):
                found.append({"type": "way", "id": element["id"], "nodes": refs})
        for member in element.get("members") or []:
            if member.get("type") == "way" and member.get("geometry"):
                found.append({"type": "way", "id": member["ref"], "nodes": refs_of(member)})
    return found


def _xml_of_overpass(elements: list[dict[str, Any]]) -> bytes:
    """Turn the elements of an Overpass answer into OSM XML, sorted as osmium wants it; ids and texts stay exact.

    An element that comes twice (once with tags, once as a part of another) is merged.
    """
    rank = {"node": 0, "way": 1, "relation": 2}
    lines = ["<?xml version='1.0' encoding='UTF-8'?>", "<osm version='0.6'>"]
    unique: dict[tuple[int, int], dict[str, Any]] = {}
    for element in elements:
        if element["type"] in rank:
            key = (rank[element["type"]], int(element["id"]))
            unique[key] = {**unique.get(key, {}), **element}
    lines += [_xml_of_element(element) for _, element in sorted(unique.items(), key=lambda item: item[0])]
    return "\n".join([*lines, "</osm>"]).encode()


def _xml_of_element(element: dict[str, Any]) -> str:
    kind = element["type"]
    place = f" lat='{float(element['lat']):.7f}' lon='{float(element['lon']):.7f}'" if kind == "node" else ""
    inner = "".join(f"<nd ref='{int(ref)}'/>" for ref in element.get("nodes", []))
    inner += "".join(
        f"<member type={quoteattr(member['type'])} ref='{int(member['ref'])}' role={quoteattr(member['role'])}/>"
        for member in element.get("members", [])
    )
    inner += "".join(f"<tag k={_attribute(k)} v={_attribute(v)}/>" for k, v in element.get("tags", {}).items())
    return f"<{kind} id='{int(element['id'])}' version='1'{place}>{inner}</{kind}>"


def _attribute(text: str) -> str:
    return quoteattr(str(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
