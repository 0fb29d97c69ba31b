"""Questions to an Overpass server: made from tag expressions, asked politely, answers kept only when they are whole.

Source: Overpass API language guide (tag filters, global bbox, recursion). Not here: reading an answer (`storage.osm`).
"""

import json
from collections.abc import Sequence
from typing import Any

from storage.osm import check_overpass
from storage.remote import Snapshot, Snapshots, Web
from trigpoint.categories import TagExpression
from trigpoint.errors import FetchError, OsmError
from trigpoint.imagery.bbox import LonLatBox, parts_of_box

_SPECIAL = set(r".^$*+?()[]{}|\\")


def query_of(expressions: Sequence[TagExpression], box: LonLatBox, timeout_s: int, date: str | None = None) -> str:
    """Write a question for everything that any of the expressions finds in a box; a box over the antimeridian is asked in halves.

    A value such as `soccer;tennis` is found by each of its parts. The answer holds every element once, with its tags and all
    nodes that its geometry needs.

    >>> from trigpoint.categories import parse_tag_expression
    >>> print(query_of([parse_tag_expression("building & amenity=school|college & !ruins")], (8.0, 50.0, 8.1, 50.1), 60))
    [out:json][timeout:60];
    (
      nwr["amenity"~"^(.*; *)?(college|school)( *;.*)?$"]["building"][!"ruins"](50.0,8.0,50.1,8.1);
    );
    (._;>;);
    out body qt;
    """
    filters = sorted({_filters_of(expression) for expression in expressions})
    head = f"[out:json][timeout:{timeout_s}]" + (f'[date:"{date}"]' if date else "") + ";"
    lines = [f"  nwr{text}({south},{west},{north},{east});" for text in filters for west, south, east, north in parts_of_box(box)]
    return "\n".join([head, "(", *lines, ");", "(._;>;);", "out body qt;"])


def _filters_of(expression: TagExpression) -> str:
    return "".join(sorted((_filter_of(*term) for term in expression.terms), key=lambda text: text.replace("!", "~")))


def _filter_of(key: str, values: frozenset[str], is_negated: bool) -> str:
    name = _quoted(key)
    if not values:
        return f"[!{name}]" if is_negated else f"[{name}]"
    pattern = "|".join("".join(f"\\{c}" if c in _SPECIAL else c for c in value) for value in sorted(values))
    return f"[{name}{'!~' if is_negated else '~'}{_quoted(f'^(.*; *)?({pattern})( *;.*)?$')}]"


def _quoted(text: str) -> str:
    """Quote a text of a taxonomy: none of it can leave its quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def request_of(url: str, query: str) -> dict[str, Any]:
    """Return what identifies a question."""
    return {"kind": "overpass", "url": url, "query": query}


def ask_overpass(web: Web, snapshots: Snapshots, url: str, query: str, timeout_s: int) -> Snapshot:
    """Return the answer to a question: the snapshot when there is one, else what the server says now.

    Raises:
        FetchError: the server is away, busy or refuses; or its answer is incomplete or none. Nothing is kept then.
    """
    request = request_of(url, query)
    known = snapshots.find(request)
    if known is not None:
        return known
    answer = web.post(url, form={"data": query}, extra_s=timeout_s)
    try:
        document = check_overpass(answer.content, f"of {url}")
    except OsmError as error:
        raise FetchError(f"{error} (the server sent {answer.content[:120]!r})") from error
    base = document.get("osm3s")
    facts = {"osm_base": base.get("timestamp_osm_base")} if isinstance(base, dict) else {}
    return snapshots.save(request, answer.content, ".json", json.loads(json.dumps(facts)))
