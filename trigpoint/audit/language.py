"""Queries in free language: their annotations, answers and words, and the record of every sentence that was written.

Written from docs/release-format.md ("Language queries"). Not here: what names a category (`phrases.py`), and whether a text reads well.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from trigpoint.audit.files import digest
from trigpoint.audit.findings import Notebook
from trigpoint.audit.phrases import Lexicon, holds, is_same
from trigpoint.audit.programs import ProgramError, Verdicts, World, canonical_json
from trigpoint.audit.reading import ANNOTATIONS, ITEMS, LANGUAGE_FORMS, Annotation, Item, LanguageQuery, Release, find_file
from trigpoint.audit.relations import FALSE, TRUE, UNDECIDED
from trigpoint.audit.sentences import SentenceParser, words_of

FILE, MANIFEST = "queries.jsonl", "manifest.json"
KEYS = ("items", "model", "prompts", "provider", "rates")
POLARITIES = ("positive", "negative")
STATES = ("accepted", "corrected", "edited", "review", "dropped")
RELEASED = ("accepted", "corrected", "edited")
VERDICTS = ("supported", "contradicted", "undecidable")
SECOND_STAGE = {"referring": ("valid", "corrected"), "negative": ("ABSENT", "PRESENT")}
"""What the second stage may say, by what it was asked about."""

RATE_SLACK = 1e-6
"""Rates may be rounded to six digits."""


def _short_hash(*values: object) -> str:
    return hashlib.sha256(canonical_json(list(values)).encode()).hexdigest()[:16]


def annotation_id_of(scene_id: str, category: tuple[str, ...]) -> str:
    """Return the id of an annotation: everything of one category in one scene.

    >>> annotation_id_of("s-1", ("b", "a")) == annotation_id_of("s-1", ("a", "b"))
    True
    """
    return f"a-{_short_hash(scene_id, sorted(category))}"


def language_id_of(prefix: str, annotation_id: str, form: str, polarity: str, text: str) -> str:
    """Return the id of a query (`q`, of its text) or of an item (`t`, of the text as it was first written)."""
    return f"{prefix}-{_short_hash(annotation_id, form, polarity, text)}"


def _is_pair(form: str, polarity: str) -> bool:
    return form in LANGUAGE_FORMS and polarity in (POLARITIES if form == "vocabulary" else POLARITIES[:1])


# queries, without their scene


def check_language_queries(release: Release, lexicon: Lexicon, notes: Notebook) -> None:
    """Check what needs no scene of every language query: id, annotation, polarity, answer ids, and whether it names its category."""
    spoken: dict[tuple[str, str, str, tuple[str, ...]], str] = {}
    by_people = {item.query_id for item in release.items.values() if item.people and item.verdict == "undecidable"}
    for query in release.language_queries.values():
        notes.count("language_queries")
        item = query.query_id
        with notes.guard("query_unreadable", FILE, item):
            _check_query(release, query, notes)
            if len(query.sentences) != 1 or not words_of(query.sentences[0]):
                notes.add("language_query_wrong", FILE, f"{item} sentences", "one text", list(query.sentences))
                continue
            text = query.sentences[0]
            right = language_id_of("q", query.annotation_id, query.form, query.polarity, text)
            if item != right:
                notes.add("query_id_wrong", FILE, item, right, item)
            first = spoken.setdefault((query.annotation_id, query.form, query.polarity, words_of(text)), item)
            if first != item:
                notes.add("text_twice", FILE, item, "a text of its own", f"{text!r} also of {first}")
            if set(query.category) <= set(release.taxonomy.categories):
                _check_names(query, text, lexicon.names_of_all(query.category), item in by_people, notes)


def _check_query(release: Release, query: LanguageQuery, notes: Notebook) -> None:
    item, is_positive = query.query_id, query.polarity == "positive"
    if query.scene_id not in release.scenes:
        notes.add("scene_unknown", FILE, item, "a scene of scenes.parquet", query.scene_id)
    if not _is_pair(query.form, query.polarity):
        notes.add("polarity_wrong", FILE, item, "positive, or a negative vocabulary query", f"{query.polarity} {query.form}")
    if query.kind != ("answerable" if is_positive else "concept_absent"):
        notes.add("kind_wrong", FILE, item, "answerable" if is_positive else "concept_absent", query.kind)
    if query.answerable != is_positive or bool(query.answer_ids) != is_positive:
        found = f"answerable {query.answerable}, {len(query.answer_ids)} answers"
        notes.add("answerable_wrong", FILE, item, "an answer" if is_positive else "no answer", found)
    if list(query.answer_ids) != sorted(set(query.answer_ids)):
        notes.add("answer_order", FILE, item, "sorted, each once", list(query.answer_ids))
    for answer in query.answer_ids:
        owner = release.instances.get(answer)
        if owner is None or owner.scene_id != query.scene_id:
            notes.add("answer_unknown", FILE, item, f"an instance of {query.scene_id}", answer)
    annotation = release.annotations.get(query.annotation_id)
    if annotation is None:
        notes.add("annotation_unknown", FILE, item, "an annotation of annotations.jsonl", query.annotation_id)
    elif annotation.scene_id != query.scene_id:
        notes.add("annotation_unknown", FILE, item, f"an annotation of {query.scene_id}", f"{query.annotation_id}, {annotation.scene_id}")
    elif sorted(annotation.category) != sorted(query.category):
        notes.add("category_wrong", FILE, item, list(annotation.category), list(query.category))


def _check_names(query: LanguageQuery, text: str, names: list[str], is_by_people: bool, notes: Notebook) -> None:
    """A positive vocabulary text is a name of the category, a referring text holds one, a reasoning text holds none.

    A name that no one listed may stand where people accepted it.
    """
    held = [name for name in names if holds(text, name)]
    if query.polarity != "positive":
        return
    notes.count("language_names")
    if query.form == "vocabulary" and not is_by_people and not any(is_same(text, name) for name in names):
        notes.add("text_not_a_name", FILE, query.query_id, f"a name: {', '.join(names)}", text)
    if query.form == "referring" and not is_by_people and not held:
        notes.add("category_not_named", FILE, query.query_id, f"one of {', '.join(names)} in the text", text)
    if query.form == "reasoning" and held:
        notes.add("category_named", FILE, query.query_id, f"not {held[0]!r}", text)


# queries and annotations in their scene


def check_language_scene(
    release: Release, scene_id: str, world: World | None, lexicon: Lexicon, parser: SentenceParser, notes: Notebook
) -> None:
    """Check annotations and answers of a scene against its instances, negatives against what is there, referring texts by their reading.

    Args:
        release: The release.
        scene_id: The scene.
        world: The scene to execute in; None where it has no instances.
        lexicon: Names of categories.
        parser: Of the scene (words of the screen).
        notes: Where findings go.
    """
    for annotation in release.annotations.values():
        if annotation.scene_id == scene_id:
            with notes.guard("annotation_wrong", ANNOTATIONS, annotation.annotation_id):
                _check_members(release, annotation, world, notes)
    queries = [query for query in release.language_queries.values() if query.scene_id == scene_id]
    present = _present(release, world) if any(query.polarity == "negative" for query in queries) else {}
    for query in queries:
        with notes.guard("query_unreadable", FILE, query.query_id):
            if query.polarity == "positive":
                _check_target(query, world, notes)
            if query.polarity == "negative" and query.sentences:
                _check_absent(query, present, lexicon, notes)
            if query.form == "referring" and query.sentences and world is not None:
                _check_reading(query, world, parser, notes)


def _members(category: tuple[str, ...], world: World | None) -> Verdicts:
    """Return who is of all categories.

    Raises:
        ProgramError: the taxonomy has no such category.
    """
    if world is None:
        return np.zeros(0, dtype=np.int8)
    if not category:
        raise ProgramError("no category")
    return np.minimum.reduce([world.members(name) for name in category])


def _ids(world: World | None, rows: Any) -> list[str]:
    return [] if world is None else sorted(world.measures.instances[int(row)].instance_id for row in np.flatnonzero(rows))


def _check_members(release: Release, annotation: Annotation, world: World | None, notes: Notebook) -> None:
    """Check that an annotation holds every instance that surely is of its category, and says rightly whether these get boxes."""
    notes.count("annotations")
    item = annotation.annotation_id
    verdicts = _members(annotation.category, world)
    if (verdicts == UNDECIDED).any():
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} instance_ids", "nothing undecided", _ids(world, verdicts == UNDECIDED))
    right = _ids(world, verdicts == TRUE)
    if list(annotation.instance_ids) != right or not right:
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} instance_ids", right or "an instance", list(annotation.instance_ids))
    first = next(iter(release.taxonomy.axes))
    kinds = [release.taxonomy.categories[name] for name in annotation.category if release.taxonomy.categories[name].axis == first]
    reason: str | None = None
    if any(not kind.instanceable for kind in kinds):
        reason = "category"
    elif any(not release.instances[one].boxable for one in right if one in release.instances):
        reason = "annotation"
    if (annotation.boxable, annotation.why_no_boxes) != (reason is None, reason):
        found = f"boxable {annotation.boxable}, why_no_boxes {annotation.why_no_boxes}"
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} boxable", f"boxable {reason is None}, why_no_boxes {reason}", found)


def _check_target(query: LanguageQuery, world: World | None, notes: Notebook) -> None:
    """Check that the answer is every instance that surely is of the category, and that nothing is undecided."""
    notes.count("language_answers")
    try:
        verdicts = _members(query.category, world)
    except ProgramError as problem:
        notes.add("category_wrong", FILE, query.query_id, "categories of the taxonomy", str(problem))
        return
    if (verdicts == UNDECIDED).any():
        notes.add("answer_undecided", FILE, query.query_id, "nothing undecided", _ids(world, verdicts == UNDECIDED))
    right = _ids(world, verdicts == TRUE)
    if sorted(query.answer_ids) != right:
        notes.add("answer_stale", FILE, query.query_id, right, list(query.answer_ids))


def _present(release: Release, world: World | None) -> dict[str, bool]:
    """Return the categories that have an instance: True where one surely is of it, False where it is undecided."""
    if world is None:
        return {}
    best = {name: int(world.members(name).max(initial=FALSE)) for name in release.taxonomy.categories}
    return {name: code == TRUE for name, code in best.items() if code > FALSE}


def _check_absent(query: LanguageQuery, present: dict[str, bool], lexicon: Lexicon, notes: Notebook) -> None:
    """Check that a negative text is no name of what is or may be there, and no broader word, kind or part of what surely is."""
    notes.count("language_negatives")
    text = query.sentences[0]
    for category, surely in present.items():
        what = lexicon.relation(text, category)
        if what is not None and (surely or what == "a name"):
            notes.add("concept_present", FILE, query.query_id, "a name of nothing in the scene", f"{text!r}: {what} of {category}")
            return


def _check_reading(query: LanguageQuery, world: World, parser: SentenceParser, notes: Notebook) -> None:
    """Check that a referring text that the grammar reads in one way denotes exactly the answer."""
    readings = parser.parse_any(query.sentences[0])
    if len(readings) != 1:
        return
    notes.count("language_readings")
    meaning = readings[0].meaning()
    try:
        verdicts = world.execute(readings[0])
    except ProgramError as problem:
        notes.add("referring_elsewhere", FILE, query.query_id, "a text that denotes the answer", f"{meaning}: {problem}")
        return
    found, unsure = _ids(world, verdicts == TRUE), _ids(world, verdicts == UNDECIDED)
    if found != sorted(query.answer_ids) or unsure:
        seen = f"{meaning}: {found}, undecided {unsure}"
        notes.add("referring_elsewhere", FILE, query.query_id, sorted(query.answer_ids), seen)


# files


def check_language(release: Release, lexicon: Lexicon, notes: Notebook) -> None:
    """Check annotations.jsonl and language.jsonl on their own and against the queries, and what the manifest says of them."""
    stored: Any = release.manifest.get("language")
    for name in (ANNOTATIONS, ITEMS):
        notes.count("language_files")
        if (release.folder / name).exists() != (stored is not None):
            expected, found = ("the file", "none") if stored is not None else ("no such file: no language in the manifest", "the file")
            notes.add("part_missing" if stored is not None else "language_wrong", name, name, expected, found)
    if stored is None and release.language_queries:
        notes.add("language_wrong", MANIFEST, "language", "an object, as there are language queries", "null")
    for annotation in release.annotations.values():
        with notes.guard("annotation_wrong", ANNOTATIONS, annotation.annotation_id):
            _check_annotation(release, annotation, lexicon, notes)
    for item in release.items.values():
        with notes.guard("item_wrong", ITEMS, item.item_id):
            _check_item(release, item, notes)
    _check_queries_and_items(release, notes)
    with notes.guard("language_wrong", MANIFEST, "counts.language"):
        _check_counts(release, notes)
    if stored is not None:
        with notes.guard("language_wrong", MANIFEST, "language", f"{{{', '.join(KEYS)}}}"):
            _check_manifest(release, cast("dict[str, Any]", stored), notes)


def _check_annotation(release: Release, annotation: Annotation, lexicon: Lexicon, notes: Notebook) -> None:
    item = annotation.annotation_id
    right = annotation_id_of(annotation.scene_id, annotation.category)
    if item != right:
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} annotation_id", right, item)
    if annotation.scene_id not in release.scenes:
        notes.add("scene_unknown", ANNOTATIONS, item, "a scene of scenes.parquet", annotation.scene_id)
    if not annotation.category or set(annotation.category) - set(release.taxonomy.categories):
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} category", "categories of the taxonomy", list(annotation.category))
        return
    names = lexicon.names_of_all(annotation.category)
    if not any(is_same(annotation.name, name) for name in names):
        notes.add("annotation_wrong", ANNOTATIONS, f"{item} name", f"one of {', '.join(names)}", annotation.name)


def _check_item(release: Release, item: Item, notes: Notebook) -> None:
    """Check one sentence that was written: id, words for what was found, and its query."""
    notes.count("language_items")

    def expect(what: str, holds_true: bool, expected: object, found: object) -> None:
        if not holds_true:
            notes.add("item_wrong", ITEMS, f"{item.item_id} {what}", expected, found)

    right = language_id_of("t", item.annotation_id, item.form, item.polarity, item.original)
    expect("item_id", item.item_id == right, right, item.item_id)
    expect("form", _is_pair(item.form, item.polarity), "positive, or negative vocabulary", f"{item.polarity} {item.form}")
    annotation = release.annotations.get(item.annotation_id)
    if item.state in RELEASED and annotation is None:
        notes.add("annotation_unknown", ITEMS, item.item_id, "an annotation of annotations.jsonl", item.annotation_id)
    elif annotation is not None:
        expect("scene_id", annotation.scene_id == item.scene_id, annotation.scene_id, item.scene_id)
    expect("provider", bool(item.provider), "a provider", item.provider)
    expect("state", item.state in STATES, " or ".join(STATES), item.state)
    expect("verdict", {item.verdict, *item.claims} <= set(VERDICTS), " or ".join(VERDICTS), [item.verdict, *item.claims])
    words = SECOND_STAGE.get("negative" if item.polarity == "negative" else item.form, ())
    expect("stage2", item.stage2 is None or item.stage2 in words, f"null{''.join(f' or {word}' for word in words)}", item.stage2)
    if item.state in ("accepted", "edited"):
        expect("verdict", item.verdict != "contradicted", "nothing contradicted in what people or the ground accept", item.verdict)
    changed = item.text != item.original
    expect("text", changed or item.state != "corrected", "another text than the original, as it was corrected", item.text)
    unchanged = not changed or item.state != "accepted" or item.stage2 is not None
    expect("text", unchanged, f"{item.original!r}, as nobody corrected it", item.text)


def _check_queries_and_items(release: Release, notes: Notebook) -> None:
    """Every accepted or corrected item has its query, no other has one; every language query has its item, and one only."""
    owners: dict[str, list[str]] = defaultdict(list)
    for item in release.items.values():
        right = language_id_of("q", item.annotation_id, item.form, item.polarity, item.text) if item.state in RELEASED else None
        if item.query_id != right:
            notes.add("item_wrong", ITEMS, f"{item.item_id} query_id", "null" if right is None else right, item.query_id)
        elif right is not None:
            owners[right].append(item.item_id)
            if right not in release.language_queries:
                notes.add("item_without_query", ITEMS, item.item_id, f"query {right}", "none")
    for query, items in owners.items():
        if len(items) > 1:
            notes.add("item_wrong", ITEMS, f"{items[1]} query_id", "a query of its own", f"{query} also of {items[0]}")
    for query in release.language_queries:
        if query not in owners:
            notes.add("query_without_item", FILE, query, "an accepted or corrected item of language.jsonl", "none")


def _check_counts(release: Release, notes: Notebook) -> None:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (form, polarity), n in Counter((query.form, query.polarity) for query in release.language_queries.values()).items():
        found[form][polarity] = n
    _compare_counts("counts.language", dict(found), release.manifest.get("counts", {}).get("language") or {}, notes)


def _compare_counts(item: str, right: dict[str, dict[str, int]], stored: dict[str, dict[str, int]], notes: Notebook) -> None:
    """Compare numbers by two keys; what is 0 may be left out."""
    notes.count("language_counts")
    clean = {key: {name: n for name, n in row.items() if n} for key, row in stored.items()}
    if {key: row for key, row in clean.items() if row} != right:
        notes.add("count_wrong" if item.startswith("counts") else "language_wrong", MANIFEST, item, right, stored)


def _check_manifest(release: Release, stored: dict[str, Any], notes: Notebook) -> None:
    """Recompute what `manifest.language` says from language.jsonl, and find the prompts it names in the release."""
    if sorted(stored) != list(KEYS):
        notes.add("language_wrong", MANIFEST, "language", list(KEYS), sorted(stored))
    provider, model, prompts = stored["provider"], stored["model"], cast("list[dict[str, Any]]", stored["prompts"])
    is_offline = provider == "offline"
    if not isinstance(provider, str) or not provider or (model is None) != is_offline or (is_offline and prompts):
        notes.add("language_wrong", MANIFEST, "language.provider", "offline without model and prompts, or a provider and its model",
                  {"provider": provider, "model": model, "prompts": len(prompts)})  # fmt: skip
    if is_offline:
        for other in sorted({item.provider for item in release.items.values()} - {"offline"}):
            notes.add("language_wrong", MANIFEST, "language.provider", "items by nobody else", other)
    for prompt in prompts:
        file = f"prompts/{prompt['name']}.v{prompt['version']}.md"
        with notes.guard("language_wrong", MANIFEST, f"language.prompts {prompt['name']}", file):
            found = digest(find_file(release.folder, file))
            if found != prompt["sha256"]:
                notes.add("language_wrong", MANIFEST, f"language.prompts {prompt['name']}", found, prompt["sha256"])
    items = list(release.items.values())
    states: dict[str, dict[str, int]] = defaultdict(dict)
    for (form, state), n in Counter(("negative" if item.polarity == "negative" else item.form, item.state) for item in items).items():
        states[form][state] = n
    _compare_counts("language.items", dict(states), stored["items"], notes)
    rates = cast("dict[str, Any]", stored["rates"])
    right = rates_of(items)
    if sorted(rates) != sorted(right):
        notes.add("language_wrong", MANIFEST, "language.rates", sorted(right), sorted(rates))
    for name, value in right.items():
        notes.count("language_rates")
        found = rates.get(name)
        if (value is None) != (found is None) or (value is not None and not abs(value - float(found or 0)) <= RATE_SLACK):
            notes.add("language_wrong", MANIFEST, f"language.rates.{name}", "null" if value is None else value, found)


def rates_of(items: list[Item]) -> dict[str, float | None]:
    """Return the rates of the two checks: shares of what each looked at, null where that was nothing."""

    def share(looked_at: list[Item], objected: Callable[[Item], bool]) -> float | None:
        return sum(map(objected, looked_at)) / len(looked_at) if looked_at else None

    negatives = [item for item in items if item.polarity == "negative"]
    referring = [item for item in items if item.form == "referring"]
    return {
        "negatives_present_stage2": share([one for one in negatives if one.stage2 is not None], lambda one: one.stage2 == "PRESENT"),
        "negatives_present_check": share(negatives, lambda one: one.verdict == "contradicted"),
        "referring_corrected_stage2": share([one for one in referring if one.stage2 is not None], lambda one: one.stage2 == "corrected"),
        "referring_contradicted_check": share(referring, lambda one: one.verdict == "contradicted" or one.state == "corrected"),
        "referring_corrected_check": share(referring, lambda one: one.state == "corrected"),
    }
