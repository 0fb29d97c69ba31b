import dataclasses
import itertools

import numpy as np
import pytest

from tests.unit.programs._town import TAXONOMY, town
from trigpoint.categories import UNDECIDED, Taxonomy
from trigpoint.programs.generate import Generated, Limits, generate_candidates
from trigpoint.programs.language import And, Attr, Cat, Rel, categories_of, flips_of, level_of, query_id, selected_category
from trigpoint.programs.resolver import Resolver
from trigpoint.rules import DIAGONALS, Rules

RULES = Rules()


def generated(seed: int, n: int = 8) -> tuple[Resolver, Generated]:
    resolver = Resolver(town(seed, n), TAXONOMY, RULES, {"kind"})
    return resolver, generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1)


@pytest.mark.parametrize("seed", range(6))
def test_every_candidate_keeps_the_release_rules(seed: int) -> None:
    resolver, made = generated(seed)
    n_of = {c.query_id: int(np.count_nonzero(resolver.verdicts(selected_category(c.node)))) for c in made.candidates}

    assert made.candidates
    for candidate in made.candidates:
        assert level_of(candidate.node) == candidate.level
        if candidate.kind == "category_absent":
            assert candidate.level == 1
            continue
        verdicts = resolver.verdicts(candidate.node)
        assert not (verdicts == UNDECIDED).any()
        assert resolver.answer(candidate.node).members == candidate.answer_ids
        if candidate.level >= 2:
            assert n_of[candidate.query_id] >= 2
        if candidate.level >= 3:
            assert len(candidate.answer_ids) <= 0.8 * n_of[candidate.query_id]
        assert (candidate.kind == "answerable") == bool(candidate.answer_ids)


@pytest.mark.parametrize("seed", range(4))
def test_no_lower_level_of_a_category_has_the_same_answer(seed: int) -> None:
    _, made = generated(seed)
    answerable = [c for c in made.candidates if c.kind == "answerable"]

    for a, b in itertools.combinations(answerable, 2):
        if a.category == b.category and a.level != b.level:
            assert a.answer_ids != b.answer_ids


def test_pairs_have_two_different_relations_and_not_two_distances() -> None:
    pairs = [c.node for seed in range(6) for c in generated(seed)[1].candidates if c.level == 4]

    assert pairs
    for node in pairs:
        assert isinstance(node, And)
        names = [arg.relation for arg in node.args if isinstance(arg, Rel)]
        assert len(set(names)) == 2
        assert set(names) != {"near", "far"}
        if node.args[0].anchor == node.args[1].anchor:  # type: ignore[union-attr]
            assert not set(names) <= {"north_of", "east_of", "south_of", "west_of"}
            assert set(names) != {"inside", "outside"}


def test_a_pair_never_names_one_anchor_in_two_ways() -> None:
    n_same = 0
    for seed in range(6):
        resolver, made = generated(seed, 12)
        for node in (c.node for c in made.candidates if c.level == 4):
            one, other = node.args  # type: ignore[union-attr]
            if resolver.denoted(one.anchor) == resolver.denoted(other.anchor):  # type: ignore[union-attr]
                n_same += 1
                assert one.anchor == other.anchor  # type: ignore[union-attr]

    assert n_same


def test_generation_is_the_same_every_time() -> None:
    assert generated(3)[1] == generated(3)[1]


def test_trivial_absence_is_not_asked() -> None:
    resolver = Resolver(town(2, 8), TAXONOMY, RULES, {"kind"})

    with_room = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1)
    without = generate_candidates(resolver, lambda *_, **__: 0.01, frozenset(), seed=1)

    def empty_directions(made: Generated) -> int:
        return sum(
            c.kind == "relation_unsatisfied" and isinstance(c.node, Rel) and c.node.relation.endswith("_of") for c in made.candidates
        )

    assert empty_directions(with_room) > 0
    assert empty_directions(without) == 0


def test_what_is_empty_by_its_words_is_not_asked() -> None:
    beyond = {("north", "most"): "north_of", ("north", "least"): "south_of", ("east", "most"): "east_of", ("east", "least"): "west_of"}
    n_other_extreme = 0
    for seed in range(12):
        for candidate in generated(seed, 12)[1].candidates:
            node = candidate.node
            if candidate.kind != "relation_unsatisfied" or not isinstance(node, Rel) or not isinstance(node.anchor, Attr):
                continue
            if node.relation == beyond.get((node.anchor.key, node.anchor.extreme)) and not isinstance(node.anchor.of, Rel):
                # "temples south of the southernmost temple" says it; "temples south of the southernmost school" does not
                wide, narrow = categories_of(node.anchor.of), candidate.category
                assert not all(any(TAXONOMY.is_within(name, broad) for name in narrow) for broad in wide), node.canonical()
                n_other_extreme += 1

    assert n_other_extreme


def test_a_category_with_regions_in_it_is_not_selected_from() -> None:
    data = TAXONOMY.to_json()
    data["categories"].append(
        {"id": "yard", "axis": "kind", "parent": "building", "countable": False, "instanceable": False, "noun": "yard", "plural": "yards"}
    )
    graph = town(1, 12)
    nodes = dataclasses.replace(graph.nodes, categories=(*graph.nodes.categories[:-1], ("yard",)))
    resolver = Resolver(dataclasses.replace(graph, nodes=nodes), Taxonomy.model_validate(data), RULES, {"kind"})

    made = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1).candidates

    assert {c.category[0] for c in made} == {"school", "temple"}
    assert not any(nodes.instance_ids[-1] in c.answer_ids for c in made)


def test_the_sector_of_a_wind_is_as_wide_as_the_rules_say() -> None:
    graph = town(2, 8)
    verdicts = {**graph.verdicts, **{name: graph.verdicts["near"].copy() for name in DIAGONALS}}
    rules = RULES.model_copy(update={"wind_half_angle_deg": 20.0})
    resolver = Resolver(dataclasses.replace(graph, verdicts=verdicts), TAXONOMY, rules, {"kind"})
    widths: set[tuple[bool, float]] = set()

    def share(anchor: int, centre_deg: float, half_angle_deg: float) -> float:
        widths.add((centre_deg % 90 == 45, half_angle_deg))
        return 0.25

    generate_candidates(resolver, share, frozenset(), seed=1)

    assert widths == {(False, 45.0), (True, 20.0)}


def test_absent_categories_are_asked_only_on_closed_axes_and_not_when_a_poi_names_them() -> None:
    graph = town(0, 3)  # no temple among them

    def absent(unknown: set[str], pois: frozenset[str]) -> list[str]:
        made = generate_candidates(Resolver(graph, TAXONOMY, RULES, unknown), lambda *_, **__: 0.25, pois, seed=1)
        return [c.node.category for c in made.candidates if c.kind == "category_absent" and isinstance(c.node, Cat)]

    assert absent({"kind"}, frozenset()) == ["temple"]
    assert absent({"kind"}, frozenset({"temple"})) == []
    assert absent(set(), frozenset()) == []


def test_subcategories_and_joined_axes_are_asked_with_one_and_with_two_relations() -> None:
    made = [c for seed in range(3) for c in generated(seed, 40)[1].candidates if c.kind == "answerable"]

    assert any(c.level == 4 and c.category == ("school",) for c in made)
    assert any(c.level == 3 and c.category == ("building", "tin_roof") for c in made)
    assert any(c.level == 4 and len(c.category) == 2 for c in made)


def test_no_answerable_program_has_a_part_that_is_not_needed() -> None:
    for seed in range(4):
        resolver, made = generated(seed, 10)
        for candidate in (c for c in made.candidates if c.kind == "answerable" and isinstance(c.node, And) and c.level == 4):
            for half in candidate.node.args:  # type: ignore[union-attr]
                answer = resolver.answer(half)
                assert answer.undecided or answer.members != candidate.answer_ids


def test_a_category_is_not_absent_when_a_poi_names_a_narrower_one() -> None:
    data = TAXONOMY.to_json()
    data["categories"].append({"id": "pagoda", "axis": "kind", "parent": "temple", "noun": "pagoda", "plural": "pagodas"})
    taxonomy = Taxonomy.model_validate(data)
    resolver = Resolver(town(0, 3), taxonomy, RULES, {"kind"})  # a school and no temple: the temple is an absent sibling

    def absent(pois: frozenset[str]) -> list[str]:
        made = generate_candidates(resolver, lambda *_, **__: 0.25, pois, seed=1)
        return [c.node.category for c in made.candidates if c.kind == "category_absent" and isinstance(c.node, Cat)]

    assert absent(frozenset()) == ["temple"]
    assert absent(frozenset({"pagoda"})) == []


def test_counterfactuals_are_linked_both_ways_and_answer_otherwise() -> None:
    linked = 0
    for seed in range(5):
        _, made = generated(seed, 12)
        by_id = {c.query_id: c for c in made.candidates}
        for candidate in made.candidates:
            flips = {query_id("s-town", flip) for flip in flips_of(candidate.node)}
            for other in candidate.flips:
                linked += 1
                assert other in flips
                assert candidate.query_id in by_id[other].flips
                assert by_id[other].answer_ids != candidate.answer_ids
                assert by_id[other].level == candidate.level

    assert linked > 50


def test_anchors_of_level_five_may_be_superlatives_of_what_a_relation_selects() -> None:
    made = [c for seed in range(4) for c in generated(seed, 12)[1].candidates if c.level == 5]

    assert any(isinstance(c.node, Rel) and isinstance(c.node.anchor, Attr) and isinstance(c.node.anchor.of, Rel) for c in made)


def test_limits_bound_what_is_handed_on_and_the_rest_is_counted() -> None:
    resolver = Resolver(town(3, 24), TAXONOMY, RULES, {"kind"})

    wide = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1)
    narrow = generate_candidates(resolver, lambda *_, **__: 0.25, frozenset(), seed=1, limits=Limits(per_level=12, per_answer=1))

    def at_level(made: Generated, level: int) -> int:
        return sum(c.level == level for c in made.candidates)

    assert at_level(narrow, 4) < at_level(wide, 4)
    assert at_level(narrow, 3) == at_level(wide, 3)
    assert narrow.rejected["enough_of_this_category"] > wide.rejected["enough_of_this_category"]
