"""Whether what a phrase names is absent from a scene: by its instances, by what taxonomies say of the words, and by what is mapped there.

A word that the release's taxonomy does not know is looked up in further taxonomies. It is shown to be absent only where something could
have shown it: it is annotated, or it is mapped and points of interest were collected. Not here: pictures.
"""

from collections.abc import Iterator

from trigpoint.categories import Taxonomy
from trigpoint.language.judging import GroundScene
from trigpoint.names import contains_name, key_of, visible, words_of
from trigpoint.programs.language import Cat
from trigpoint.records.language import Claim, Verdict

_TIED = ("same", "synonym", "broader", "narrower", "part")
"""What a negative must not be to anything that is present."""

_UNSAID = ("yes", "no", "unknown", "other")
"""Tag values that name nothing."""


def judge_absence(scene: GroundScene, text: str) -> list[Claim]:
    """Return what speaks against a phrase as a negative, or what shows that nothing does; never empty."""
    against = [*_in_the_release(scene, text), *_by_tags(scene, text), *_in_vocabularies(scene, text)]
    if against:
        return [_claim(text, "contradicted", said) for said in dict.fromkeys(against)]
    return [_claim(text, *_shown(scene, text))]


def _claim(text: str, verdict: Verdict, measured: str) -> Claim:
    return Claim(kind="absence", text=visible(text), verdict=verdict, measured=measured)


def present_categories(scene: GroundScene) -> dict[str, str]:
    """Return the categories of the first axis that are or may be in the scene, with what says so."""
    taxonomy = scene.taxonomy
    first = taxonomy.axes[0].id
    found: dict[str, str] = {}
    for category in (c for c in taxonomy.categories if c.axis == first):
        if scene.resolver.execute(Cat(category.id)).possible:
            found[category.id] = "instances"
        elif any(taxonomy.is_within(named, category.id) for named in scene.poi_categories):
            found[category.id] = "a POI's tags"
    return found


def _in_the_release(scene: GroundScene, text: str) -> Iterator[str]:
    for category, where in present_categories(scene).items():
        relation = scene.taxonomy.name_relation(text, category)
        if relation in _TIED:
            yield f"{relation} of {category}: {where}"


def _by_tags(scene: GroundScene, text: str) -> Iterator[str]:
    """Values and names of the scene's tags that say the phrase, or of which it is a kind."""
    words = words_of(text)
    for tags in scene.mapped_tags:
        for key, value in sorted(tags.items()):
            if key == "name" or key.startswith(("name:", "alt_name")):
                if contains_name(value, text):
                    yield f"in the name of what is mapped: {visible(value, 80)!r}"
                continue
            for one in value.split(";"):
                said = words_of(one.replace("_", " "))
                if said and one.strip() not in _UNSAID and (key_of(one.replace("_", " ")) == key_of(text) or words[-len(said) :] == said):
                    yield f"tag of what is mapped: {visible(key, 80)}={visible(one.strip(), 80)}"


def _in_vocabularies(scene: GroundScene, text: str) -> Iterator[str]:
    """What further taxonomies say of the phrase and of what is present."""
    names = [(name, where) for category, where in present_categories(scene).items() for name in _names(scene.taxonomy, category)]
    for taxonomy in scene.vocabularies:
        mapped = {name for tags in scene.mapped_tags for name in taxonomy.match_tags(dict(tags))}
        for category in sorted(mapped):
            relation = taxonomy.name_relation(text, category)
            if relation in _TIED:
                yield f"{relation} of {category} ({taxonomy.name}): mapped tags"
        meant = _meant(taxonomy, text)
        for name, where in names:
            present = taxonomy.categories_named(name)
            relations = {taxonomy.name_relation(text, category) for category in present}
            relations |= {taxonomy.name_relation(name, category) for category in meant}
            for relation in sorted(relations & set(_TIED)):
                yield f"{relation} of {name!r} or it of {text!r} ({taxonomy.name}): {where}"


def _names(taxonomy: Taxonomy, category_id: str) -> tuple[str, ...]:
    category = taxonomy.get(category_id)
    return (category.noun or category_id, *category.other_names)


def _meant(taxonomy: Taxonomy, text: str) -> list[str]:
    """The categories of a taxonomy that a phrase names, or is a kind of."""
    named = taxonomy.categories_named(text)
    if named:
        return list(named)
    return [c.id for c in taxonomy.categories if c.noun and taxonomy.name_relation(text, c.id) == "narrower"]


def _shown(scene: GroundScene, text: str) -> tuple[Verdict, str]:
    """Whether anything could have shown what a phrase names."""
    if scene.taxonomy.categories_named(text):
        return "supported", "no instance and no tag of it"
    known = [(taxonomy, category) for taxonomy in scene.vocabularies for category in _meant(taxonomy, text)]
    if not known:
        return "undecidable", f"{text!r} is no name of any taxonomy, and no tag or name of what is mapped: absence cannot be shown"
    said = ", ".join(sorted({f"{category} ({taxonomy.name})" for taxonomy, category in known}))
    if not any(taxonomy.get(category).osm for taxonomy, category in known):
        return "undecidable", f"{said}: neither annotated nor mapped, so nothing here could show it"
    if not scene.is_map_complete:
        return "undecidable", f"{said}: not annotated, and no complete map of the scene was read"
    return "supported", f"{said}: nothing that is mapped has its tags, no instance its name"
