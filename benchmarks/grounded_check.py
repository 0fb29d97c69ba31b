"""The grounded check on planted spatial errors: free sentences about real scenes, true ones and false ones.

The sentences are written from the measured graph of the sample release: every template is filled once with what surely holds and once
with what surely does not. Caught: false sentences that are called contradicted. Wronged: true ones that are. Peer: a check of the words
alone, which can catch none, so the figures are absolute.

    python benchmarks/grounded_check.py [--config examples/banepa/release.yaml] [--seed 1]      (after `make demo`)
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tasks.engine import plan_step
from tasks.language import ground_scene
from tasks.scenes import scene_items
from tasks.stages import STEPS
from tasks.workspace import Workspace
from trigpoint.language.grounding import GroundedCheck
from trigpoint.language.referring import anchors_of_target
from trigpoint.language.sentences import describe
from trigpoint.language.targets import targets_of
from trigpoint.rules import COUNTERPART, DIRECTIONS

ROOT = Path(__file__).parents[1]
RELATED = (
    "the {target} located to the {wind} of {anchor}",
    "The {target} situated on the {wind}ern side of {anchor}.",
    "{target} found directly {wind} of {anchor}",
    "The {target}, which can be seen to the {wind} of {anchor}",
)
PLACED = (
    "the {target} in the {wind}ern part of the image",
    "{target} on the {wind} side of the scene",
    "the {target} at the {edge} of the picture",
)
EDGES = {"north": "top", "south": "bottom", "east": "right", "west": "left"}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


class Planted(NamedTuple):
    """A sentence, whether it is true, and what kind of claim it makes."""

    text: str
    is_true: bool
    kind: str


def done_of(workspace: Workspace) -> dict[str, Any]:
    """Results of a finished build, step by step."""
    done: dict[str, Any] = {}
    for name in ("collect", "annotate", "boxes", "graph"):
        planned = plan_step(workspace, STEPS[name], done)
        if planned.todo:
            raise SystemExit(f"{name} is not built: run `make demo` first")
        done[name] = [planned.known[item.key] for item in planned.items]
    return done


def sentences_of(check: GroundedCheck, random: np.random.Generator) -> Iterator[Planted]:
    """Sentences about one target: for what surely holds of all of it, one that says so and one that says the opposite."""
    resolver, target = check.scene.resolver, check.target
    taxonomy = resolver.taxonomy
    is_one = len(target.instance_ids) == 1
    name = taxonomy.singular_noun(target.category) if is_one else taxonomy.plural_noun(target.category)

    def pick(options: tuple[str, ...]) -> str:
        return options[int(random.integers(len(options)))]

    for anchor in anchors_of_target(resolver, check.bits):
        position = resolver.denoted(anchor)
        said = describe(anchor, taxonomy, int(random.integers(3)))
        for relation in DIRECTIONS:
            wind, wrong = relation.removesuffix("_of"), COUNTERPART[relation].removesuffix("_of")
            if not check.bits & ~resolver.edges_to(relation, position).sure:
                template = pick(RELATED)
                yield Planted(template.format(target=name, wind=wind, anchor=said), True, "direction")
                yield Planted(template.format(target=name, wind=wrong, anchor=said), False, "direction")
        for relation, phrase in (("near", "close to"), ("far", "far away from")):
            if not check.bits & ~resolver.edges_to(relation, position).sure:
                yield Planted(f"the {name} {phrase} {said}", True, "distance")
                other = "far away from" if relation == "near" else "adjacent to"
                yield Planted(f"the {name} {other} {said}", False, "distance")
    places = check.scene.centroid_share[[resolver.graph.index[i] for i in target.instance_ids]]
    for axis, winds in ((1, ("north", "south")), (0, ("east", "west"))):
        if (np.abs(places[:, axis]) > 0.08).all() and len(set(np.sign(places[:, axis]))) == 1:
            wind = winds[0] if places[0, axis] > 0 else winds[1]
            template = pick(PLACED)
            for said_wind, is_true in ((wind, True), (OPPOSITE[wind], False)):
                yield Planted(template.format(target=name, wind=said_wind, edge=EDGES[said_wind]), is_true, "place in the image")
    n = len(target.instance_ids)
    if 2 <= n <= 11:
        words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
        yield Planted(f"the {words[n]} {name} of the scene", True, "count")
        yield Planted(f"the {words[n + 1]} {name} of the scene", False, "count")


def main() -> None:
    """Print how many planted errors are caught and how many true sentences are wronged, by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "examples" / "banepa" / "release.yaml")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    workspace = Workspace(arguments.config)
    done = done_of(workspace)
    random = np.random.default_rng(arguments.seed)
    counts: Counter[tuple[str, bool, str]] = Counter()
    n_corrected = n_wrong_direction = 0
    for item in scene_items(workspace, done, ("boxes", "graph")):
        ground, boxable = ground_scene(workspace, item, frozenset())
        if ground is None:
            continue
        for target in targets_of(ground.resolver, boxable):
            check = GroundedCheck(ground, target)
            for planted in sentences_of(check, random):
                checked = check.check("referring", planted.text)
                counts[planted.kind, planted.is_true, checked.verdict] += 1
                if not planted.is_true and planted.kind == "direction":
                    n_wrong_direction += 1
                    n_corrected += checked.correction is not None
    print(f"{sum(counts.values())} sentences about {arguments.config}")
    print(f"{'claim':<20}{'false':>7}{'caught':>9}{'missed':>8}   {'true':>6}{'wronged':>9}{'supported':>11}")
    for kind in sorted({kind for kind, *_ in counts}):
        wrong = {verdict: counts[kind, False, verdict] for verdict in ("contradicted", "undecidable", "supported")}
        right = {verdict: counts[kind, True, verdict] for verdict in ("contradicted", "undecidable", "supported")}
        missed = wrong["undecidable"] + wrong["supported"]
        print(
            f"{kind:<20}{sum(wrong.values()):>7}{wrong['contradicted']:>9}{missed:>8}   {sum(right.values()):>6}{right['contradicted']:>9}"
            f"{right['supported']:>11}"
        )
    caught = sum(n for (_, is_true, verdict), n in counts.items() if not is_true and verdict == "contradicted")
    wronged = sum(n for (_, is_true, verdict), n in counts.items() if is_true and verdict == "contradicted")
    n_false = sum(n for (_, is_true, _), n in counts.items() if not is_true)
    print(f"recall {caught / n_false:.3f}, precision {caught / max(1, caught + wronged):.3f}")
    print(f"wrong directions put right: {n_corrected} of {n_wrong_direction}")


if __name__ == "__main__":
    main()
