"""What is said of an item of a release, for the terminal and for the margin of its picture alike.

Not here: what a release knows of it (`trigpoint.release.show_documents`), pictures (`trigpoint.release.show`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

Tone = Literal["plain", "good", "bad", "open", "soft"]
"""What a line says: good, bad, undecided, or by the way."""

FEW = 5
"""Ids and sentences that are listed of many."""

_STYLES: dict[Tone, str] = {"plain": "", "good": "green", "bad": "red", "open": "yellow", "soft": "dim"}
_TONE_OF: dict[str, Tone] = {
    "supported": "good", "contradicted": "bad", "undecidable": "open", "accepted": "good", "corrected": "good", "edited": "good",
    "review": "open", "dropped": "soft", "accept": "good", "edit": "good", "reject": "bad", "return": "open", "comment": "soft",
}  # fmt: skip
_DONE = {
    "accept": "accepted", "reject": "rejected", "return": "returned", "edit": "edited", "add": "added", "split": "split", "merge": "merged",
    "undo": "undid a decision on", "comment": "commented on",
}  # fmt: skip
_OF_ITEM = ("Measured", "Made from", "Sentence", "Claims")
"""Sections of an item that stand on the card of a decision about it, too."""


class Line(NamedTuple):
    """A line of text, perhaps behind a label."""

    label: str
    text: str
    tone: Tone = "plain"


class Section(NamedTuple):
    """Lines below a heading."""

    heading: str
    lines: tuple[Line, ...]


class Card(NamedTuple):
    """What is said of an item: a title, facts in one line each, and sections (none is empty)."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]


def card_of(document: Mapping[str, Any]) -> Card:
    """Say in words what `trigpoint.release.show_documents.document_of` tells."""
    makers = {
        "scene": _scene, "query": _query, "instance": _instance, "annotation": _annotation, "sentence": _sentence, "decision": _decision,
    }  # fmt: skip
    card = makers[document["type"]](document)
    return card._replace(sections=tuple(section for section in card.sections if section.lines))


def card_to_text(card: Card) -> Any:
    """Lay out a card for a terminal (a rich renderable); nothing in it is read as markup."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(card.title, style="bold"), *(Text(fact, style="dim") for fact in card.facts)]
    width = max((len(line.label) for section in card.sections for line in section.lines), default=0)
    for section in card.sections:
        is_labelled = any(line.label for line in section.lines)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(min_width=width + 1 if is_labelled else 0, no_wrap=True)
        grid.add_column(overflow="fold")
        for line in section.lines:
            grid.add_row(Text(f" {line.label}" if is_labelled else "", style="dim"), Text(line.text, style=_STYLES[line.tone]))
        parts += [Text(""), Text(section.heading, style="bold"), grid]
    return Group(*parts)


def words_of_category(category: Sequence[str]) -> str:
    """Say the categories of an instance, one per axis, as words.

    >>> words_of_category(["some_kind", "some_roof"]), words_of_category([])
    ('some kind, some roof', 'unknown')
    """
    return ", ".join(name.replace("_", " ") for name in category) or "unknown"


def _scene(document: Mapping[str, Any]) -> Card:
    scene, queries = document["scene"], document["queries"]
    levels = ", ".join(f"{n} of level {level}" for level, n in sorted(queries["levels"].items()))
    made = (
        Line("source", str(scene.get("source") or "")),
        Line("acquired", str(scene.get("acquired") or "not known")),
        Line("licence", str(scene.get("licence") or "")),
        Line("CRS", str(scene.get("crs") or "")[:60]),
    )
    here = (
        *(Line(name.replace("_", " "), str(n)) for name, n in document["instances"].items()),
        *(Line(name.replace("_", " "), f"{n} (region)") for name, n in document["regions"].items()),
    )
    asked = tuple(Line(form, f"{n} ({levels})" if form == "program" and levels else str(n)) for form, n in queries["forms"].items())
    return Card(
        f"Scene {document['scene_id']}",
        (f"{scene['width']} × {scene['height']} pixels of {scene['gsd_m']:.3f} m", *_credit(scene)),
        (
            Section("Made from", made if "source" in scene else ()),
            Section("Instances", here),
            Section("Queries", asked),
            Section("Decisions", tuple(Line(action, str(n)) for action, n in document["decisions"].items())),
        ),
    )


def _query(document: Mapping[str, Any]) -> Card:
    query, explained = document["query"], document["explained"]
    n = len(query["answer_ids"])
    level = "" if query["level"] is None else f"level {query['level']}, "
    kind = query["kind"].replace("_", " ")
    facts = (f"{query['query_id']} in {query['scene_id']}: {level}{query['difficulty'] or query['form']}, {kind}",)
    sections = [Section("Answer", _answer(query, explained))]
    if explained is not None:
        sections.append(Section("Relations", tuple(_hop(hop, n) for hop in explained["hops"])))
    sections.append(Section("Also said as", tuple(Line("", text) for text in query["sentences"][1:])))
    sections.append(Section("Program", () if query["canonical"] is None else (Line("", query["canonical"], "soft"),)))
    if query["counterfactual_of"]:
        sections.append(Section("Counterfactual", (Line("of", query["counterfactual_of"]),)))
    if document["sentence"] is not None:
        sections += _checked(document["sentence"])
    sections.append(_history(document["history"]))
    return Card(query["sentences"][0] if query["sentences"] else query["canonical"] or query["query_id"], facts, tuple(sections))


def _answer(query: Mapping[str, Any], explained: Mapping[str, Any] | None) -> tuple[Line, ...]:
    n = len(query["answer_ids"])
    if not n:
        why = "what it names is not in the scene" if explained is None else explained["why_nothing"]
        return (Line("nothing", why or "", "open"),)
    chosen = f" of {len(explained['candidate_ids'])} {explained['chosen_from']}" if explained and explained["candidate_ids"] else ""
    return (Line("instances", f"{n}{chosen}", "good"), Line("ids", _few(query["answer_ids"])))


def _hop(hop: Mapping[str, Any], n_answers: int) -> Line:
    if hop["depth"]:
        return Line(hop["anchor_id"], f"{hop['anchor']}; {hop['subject_ids'][0]} is {hop['words']} it")
    asked = "asked to be" if not n_answers else "the answer is" if n_answers == 1 else "the answers are"
    return Line(hop["anchor_id"], f"{hop['anchor']}; {asked} {hop['words']} it")


def _instance(document: Mapping[str, Any]) -> Card:
    row, queries = document["instance"], document["queries"]
    kind = "instance" if row["countable"] else "region"
    marks = [text for name, text in (("cut", "cut by the scene's edge"),) if row.get(name)]
    marks += [] if row.get("boxable", True) or not row["countable"] else ["no boxes"]
    source = [Line("source", text) for text in (row.get("source_ids") or ())[:FEW]]
    source += [Line("outline from", row["proposal"])] if row.get("proposal") else []
    source += [Line("review", row["review_state"], _TONE_OF.get(row["review_state"], "open"))] if row.get("review_state") else []
    source += [Line("moved", f"{row['moved_px']} pixels went to another owner", "open")] if row.get("moved_px") else []
    asked = [_asked("answer of", queries["answer_of"]), _asked("anchor of", queries["anchor_of"])]
    return Card(
        f"{words_of_category(row['category']).capitalize()}: {row['instance_id']}",
        (", ".join((f"{kind} in {document['scene_id']}", *marks)),),
        (
            Section("Measured", _measures(row)),
            Section("Made from", tuple(source)),
            _history(document["history"]),
            Section("Asked for", tuple(line for lines in asked for line in lines)),
            _sentences(document["sentences"]),
        ),
    )


def _measures(row: Mapping[str, Any]) -> tuple[Line, ...]:
    def number(name: str, unit: str, form: str = ".1f") -> str | None:
        return None if row.get(name) is None else f"{row[name]:{form}}{unit}"

    told = {
        "area": number("area_m2", " m²"),
        "pixels": number("area_px", "", ","),
        "length": number("length_m", " m"),
        "width": number("width_m", " m"),
        "orientation": number("orientation_deg", "° from north"),
        "elongation": number("elongation", "", ".2f"),
        "perimeter": number("perimeter_m", " m"),
        "compactness": number("compactness", "", ".2f"),
    }
    lines = [Line(name, text) for name, text in told.items() if text is not None]
    if row.get("hbb_px") is not None:
        lines.append(Line("HBB (px)", ", ".join(f"{value:g}" for value in row["hbb_px"])))
    if row.get("obb_px") is not None:
        pairs = zip(row["obb_px"][::2], row["obb_px"][1::2], strict=True)
        lines.append(Line("OBB (px)", "  ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)))
    return tuple(lines)


def _asked(label: str, queries: Sequence[Mapping[str, Any]]) -> list[Line]:
    if not queries:
        return [Line(label, "no query", "soft")]
    counts = Counter(query["form"] if query["level"] is None else f"of level {query['level']}" for query in queries)
    counted = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    noun = "query" if len(queries) == 1 else "queries"
    chosen = sorted(queries, key=lambda query: (query["level"] or 9, query["query_id"]))[:2]
    return [
        Line(label, f"{len(queries)} {noun}: {counted}"),
        *(Line("", f"{query['query_id']} {query['sentence']}", "soft") for query in chosen),
    ]


def _annotation(document: Mapping[str, Any]) -> Card:
    annotation = document["annotation"]
    n = len(annotation["instance_ids"])
    boxes = "" if annotation["boxable"] else f", no boxes ({annotation['why_no_boxes']})"
    facts = f"annotation of {document['scene_id']}: {words_of_category(annotation['category'])}; {_counted(n, 'instance')}{boxes}"
    return Card(
        f"{annotation['name'].capitalize()}: {annotation['annotation_id']}",
        (facts,),
        (_sentences(document["sentences"], most=4 * FEW), _history(document["history"])),
    )


def _sentence(document: Mapping[str, Any]) -> Card:
    sentence, annotation = document["sentence"], document["annotation"]
    form = "negative" if sentence["polarity"] == "negative" else sentence["form"]
    about = "" if annotation is None else f" about {annotation['name']} ({_counted(len(annotation['instance_ids']), 'instance')})"
    return Card(
        f"“{sentence['text']}”",
        (f"{sentence['item_id']} in {document['scene_id']}: {form}{about}",),
        (*_checked(sentence), _history(document["history"])),
    )


def _checked(sentence: Mapping[str, Any]) -> list[Section]:
    """What became of a sentence, and what the ground says of it."""
    lines = [Line("state", sentence["state"], _TONE_OF.get(sentence["state"], "plain"))]
    if sentence.get("reason"):
        lines.append(Line("why", sentence["reason"]))
    if sentence["original"] != sentence["text"]:
        lines.append(Line("first written", sentence["original"], "soft"))
    lines.append(Line("written by", str(sentence.get("provider", "")) or "not known"))
    if sentence.get("stage2"):
        lines.append(Line("second stage", sentence["stage2"]))
    lines.append(Line("query", sentence["query_id"] or "not released", "plain" if sentence["query_id"] else "soft"))
    claims = [Line(claim["verdict"], _claim(claim), _TONE_OF[claim["verdict"]]) for claim in sentence["claims"]]
    return [Section("Sentence", tuple(lines)), Section("Claims", tuple(claims))]


def _claim(claim: Mapping[str, Any]) -> str:
    measured = f": {claim['measured']}" if claim["measured"] else ""
    return f"{claim['kind']} “{claim['text']}”{measured}"


def _decision(document: Mapping[str, Any]) -> Card:
    decision = document["decision"]
    about = document["about"]
    what = f"{decision['kind']} {decision['item_id']}"
    inner = None if about is None else card_of(about)
    gone = () if inner is not None else (f"{decision['item_id']} is not in the release",)
    return Card(
        f"{decision['who']} ({decision['role']}) {_DONE[decision['action']]} {what}",
        (f"{decision['decision_id']} in {document['scene_id']}, round {decision['round']}", *gone),
        (
            Section("Decision", _told(decision)),
            _history(document["history"], decision["decision_id"]),
            *(section for section in (() if inner is None else inner.sections) if section.heading in _OF_ITEM),
        ),
    )


def _told(decision: Mapping[str, Any]) -> tuple[Line, ...]:
    lines = [Line("action", decision["action"], _TONE_OF.get(decision["action"], "plain"))]
    if decision["reason"]:
        lines.append(Line("reason", decision["reason"]))
    lines += [Line("made", item) for item in decision["made"]]
    lines += [Line("merged", item) for item in decision["merged"]]
    lines += [Line("undoes", decision["undoes"])] if decision["undoes"] else []
    return tuple(lines)


def _history(history: Sequence[Mapping[str, Any]], marked: str | None = None) -> Section:
    lines: list[Line] = []
    for one in history:
        text = f"by {one['who']} ({one['role']}, round {one['round']})"
        if one["reason"]:
            text += f": {one['reason']}"
        text += " (undone)" if not one["counts"] and one["action"] != "undo" else ""
        here = " (this one)" if one["decision_id"] == marked else ""
        tone = _TONE_OF.get(one["action"], "plain") if one["counts"] else "soft"
        lines += [Line(_DONE[one["action"]].split()[0], text, tone), Line("", f"{one['decision_id']}{here}", "soft")]
    return Section("History", tuple(lines))


def _sentences(sentences: Sequence[Mapping[str, Any]], most: int = FEW) -> Section:
    released = [one for one in sentences if one["query_id"]]
    others = len(sentences) - len(released)
    lines = [Line("negative" if one["polarity"] == "negative" else one["form"], one["text"]) for one in released[:most]]
    if len(released) > most:
        lines.append(Line("", f"and {len(released) - most} more", "soft"))
    if others:
        lines.append(Line("", f"{others} more written, not released", "soft"))
    return Section("Sentences", tuple(lines))


def _credit(scene: Mapping[str, Any]) -> tuple[str, ...]:
    return (scene["attribution"],) if scene.get("attribution") else ()


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _few(ids: Sequence[str]) -> str:
    more = len(ids) - FEW
    return ", ".join(ids[:FEW]) + (f" and {more} more" if more > 0 else "")
