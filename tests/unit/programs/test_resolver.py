"""The resolver against a second implementation that is written naively, instance by instance, on random graphs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.programs._town import TAXONOMY, town
from trigpoint.categories import FALSE, TRUE, UNDECIDED
from trigpoint.errors import ProgramError
from trigpoint.programs.language import And, Attr, Cat, Farthest, Nearest, Node, Rel, parse
from trigpoint.programs.resolver import Resolver
from trigpoint.rules import RELATIONS, Rules
from trigpoint.scene_graph.graph import SceneGraph

RULES = Rules()


def naive(node: Node, graph: SceneGraph) -> list[int]:
    n, tau = len(graph.nodes), RULES.outline_tolerance_px * graph.gsd_m
    match node:
        case Cat(category):
            return [TAXONOMY.membership(values, category, frozenset({"kind"})) for values in graph.nodes.categories]
        case And(args):
            parts = [naive(arg, graph) for arg in args]
            return [FALSE if FALSE in column else UNDECIDED if UNDECIDED in column else TRUE for column in zip(*parts, strict=True)]
        case Rel(of, relation, anchor):
            position = naive_anchor(anchor, graph)
            out = []
            for k, member in enumerate(naive(of, graph)):
                edge = FALSE if k == position else int(graph.verdicts[relation][k, position])
                out.append(FALSE if FALSE in (member, edge) else UNDECIDED if UNDECIDED in (member, edge) else TRUE)
            return out
        case Attr(of, key, extreme):
            turn = math.radians(graph.convergence_deg)
            x, y = graph.nodes.centroid_m[:, 0], graph.nodes.centroid_m[:, 1]
            value = {
                "area": list(graph.nodes.area_m2),
                "length": list(graph.nodes.length_m),
                "north": [y[k] * math.cos(turn) - x[k] * math.sin(turn) for k in range(n)],
                "east": [x[k] * math.cos(turn) + y[k] * math.sin(turn) for k in range(n)],
            }[key]

            def close(best: int, other: int) -> bool:
                gap = (value[best] - value[other]) * (1 if extreme == "most" else -1)
                if key == "area":
                    blur = tau * (graph.nodes.perimeter_m[best] + graph.nodes.perimeter_m[other]) / value[best]
                    return gap <= max(0.05, blur) * value[best]
                if key == "length":
                    return gap <= max(0.05, 2 * tau / value[best]) * value[best]
                return gap <= 5 * graph.gsd_m

            return naive_winner(naive(of, graph), graph, [v if extreme == "most" else -v for v in value], close)
        case Nearest(of, anchor) | Farthest(of, anchor):
            position = naive_anchor(anchor, graph)
            members = naive(of, graph)
            members[position] = FALSE
            d = graph.distance_m[:, position]
            sign, share = (-1, 0.10) if isinstance(node, Nearest) else (1, 0.03)

            def near(best: int, other: int) -> bool:
                return (d[best] - d[other]) * sign <= max(share * d[best], 2 * tau)

            return naive_winner(members, graph, [sign * v for v in d], near)


def naive_winner(members: list[int], graph: SceneGraph, score: list[float], close) -> list[int]:  # type: ignore[no-untyped-def]
    sure = [k for k, m in enumerate(members) if m == TRUE and not graph.nodes.cut[k]]
    possible = [k for k, m in enumerate(members) if m != FALSE]
    if not sure:
        return [UNDECIDED if k in possible else FALSE for k in range(len(members))]
    best = max(sure, key=lambda k: score[k])
    rivals = [k for k in possible if k != best and close(best, k)]
    if not rivals:
        return [TRUE if k == best else FALSE for k in range(len(members))]
    return [UNDECIDED if k == best or k in rivals else FALSE for k in range(len(members))]


def naive_anchor(anchor: Node, graph: SceneGraph) -> int:
    verdicts = naive(anchor, graph)
    if verdicts.count(TRUE) != 1 or UNDECIDED in verdicts:
        raise ProgramError("anchor")
    return verdicts.index(TRUE)


SETS = st.sampled_from(
    ["(cat building)", "(cat school)", "(cat temple)", "(and (cat building) (cat tin_roof))", "(and (cat building) (cat tile_roof))"]
)
ANCHORS = st.one_of(
    st.sampled_from(["(cat road)", "(cat temple)"]),
    st.builds(lambda s, k: f"(attr {s} {k})", SETS, st.sampled_from(["area most", "north least", "east most", "length most"])),
)
SIMPLE = st.one_of(
    SETS,
    st.builds(lambda s, r, a: f"(rel {s} {r} {a})", SETS, st.sampled_from(RELATIONS), ANCHORS),
    st.builds(lambda f, s, a: f"({f} {s} {a})", st.sampled_from(["nearest", "farthest"]), SETS, ANCHORS),
    ANCHORS,
)
PROGRAMS = st.one_of(
    SIMPLE,
    st.builds(lambda a, b: f"(and {a} {b})", SIMPLE, SIMPLE),
    st.builds(lambda s, r, a: f"(rel {s} {r} {a})", SETS, st.sampled_from(RELATIONS), SIMPLE),
)


@settings(max_examples=400)
@given(PROGRAMS, st.integers(0, 50), st.integers(3, 9))
def test_resolver_agrees_with_the_naive_one_on_random_graphs(text: str, seed: int, n: int) -> None:
    graph, node = town(seed, n), parse(text)
    resolver = Resolver(graph, TAXONOMY, RULES, {"kind"})
    try:
        expected: list[int] | None = naive(node, graph)
    except ProgramError:
        expected = None

    if expected is None:
        with pytest.raises(ProgramError):
            resolver.execute(node)
    else:
        assert resolver.verdicts(node).tolist() == expected


def test_untagged_roofs_are_undecided_members_and_roads_have_no_roof() -> None:
    resolver = Resolver(town(), TAXONOMY, RULES, {"kind"})

    verdicts = resolver.verdicts(parse("(cat tin_roof)"))

    assert verdicts[1] == UNDECIDED  # a school without a roof value
    assert verdicts[-1] == FALSE  # the road


def test_a_cut_instance_never_wins() -> None:
    graph = town()
    last = 5
    graph.nodes.area_m2[:] = 50.0
    graph.nodes.area_m2[last] = 500.0  # cut
    graph.nodes.area_m2[0] = 300.0

    answer = Resolver(graph, TAXONOMY, RULES, {"kind"}).answer(parse("(attr (cat building) area most)"))

    assert answer.members == ()
    assert set(answer.undecided) == {"i-00", "i-05"}


def test_anchor_of_several_is_an_error_of_the_program() -> None:
    with pytest.raises(ProgramError, match="denotes 2 instances"):
        Resolver(town(), TAXONOMY, RULES, {"kind"}).answer(parse("(rel (cat building) near (cat school))"))


def test_empty_set_has_no_winner() -> None:
    graph = town(n_buildings=3)  # no temple

    assert Resolver(graph, TAXONOMY, RULES, {"kind"}).answer(parse("(attr (cat temple) area most)")) == ((), ())


def test_unknown_kind_makes_narrower_categories_undecided_unless_declared() -> None:
    graph = town()

    assert Resolver(graph, TAXONOMY, RULES).verdicts(parse("(cat temple)"))[0] == UNDECIDED
    assert Resolver(graph, TAXONOMY, RULES, {"kind"}).verdicts(parse("(cat temple)"))[0] == FALSE
    assert np.count_nonzero(Resolver(graph, TAXONOMY, RULES).verdicts(parse("(cat building)")) == TRUE) == 6
