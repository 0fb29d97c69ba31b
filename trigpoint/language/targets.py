"""What language is about: everything of one category in one scene, one annotation each."""

from collections.abc import Sequence

from trigpoint.identity import make_id
from trigpoint.programs.language import Cat
from trigpoint.programs.resolver import Resolver
from trigpoint.records.language import LanguageTarget


def targets_of(resolver: Resolver, boxable: Sequence[bool]) -> list[LanguageTarget]:
    """Return the annotations of a scene, by category id: categories of the first axis that an instance has as its own value.

    A category with an instance that may or may not be of it has no annotation: nobody could say what all of it is.

    Args:
        resolver: On the scene's graph.
        boxable: Of every node, whether it gets boxes.
    """
    graph, taxonomy = resolver.graph, resolver.taxonomy
    first = taxonomy.axes[0].id
    present = sorted({value for values in graph.nodes.categories for value in values if taxonomy.get(value).axis == first})
    index = graph.index
    found: list[LanguageTarget] = []
    for name in present:
        members = resolver.execute(Cat(name))
        if not members.sure or not members.is_decided:
            continue
        category = taxonomy.get(name)
        ids = resolver.ids_of(members.sure)
        is_instanceable = category.countable and category.instanceable
        is_boxable = is_instanceable and all(boxable[index[instance_id]] for instance_id in ids)
        found.append(
            LanguageTarget(
                annotation_id=annotation_id(graph.scene_id, (name,)),
                scene_id=graph.scene_id,
                category=(name,),
                name=taxonomy.singular_noun((name,)),
                instance_ids=ids,
                boxable=is_boxable,
                why_no_boxes=None if is_boxable else "annotation" if is_instanceable else "category",
            )
        )
    return found


def annotation_id(scene_id: str, category: Sequence[str]) -> str:
    """Return the id of everything of one category in one scene."""
    return make_id("a", scene_id, sorted(category))
