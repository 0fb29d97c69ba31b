"""The auditor counts what people did as the builder does: both are held against each other on random histories."""

import json
import random
from types import SimpleNamespace

import pytest

from tests.unit.review._decisions import SCENE, accept_of, decide, mask_item, sentence_item, square
from trigpoint.audit.decisions import Policy, _decision, standings
from trigpoint.audit.findings import Notebook
from trigpoint.audit.review_figures import KINDS, check_figures
from trigpoint.config import ReviewConfig
from trigpoint.errors import InputError
from trigpoint.records.review import SentenceValue
from trigpoint.release.reviews import review_document
from trigpoint.review.ledger import Ledger, ReviewItem, instance_id_of, new_part
from trigpoint.review.policy import judge

PEOPLE = (("ada", "annotator"), ("bo", "manager"), ("cy", "expert"), ("ada", "manager"))


def made(draw, row):
    part = new_part(SCENE, square(draw.randint(0, 500), row, 2).mask, ["hut"])
    return part, ReviewItem(instance_id_of(SCENE, part), "mask", SCENE, part.value)


def step(draw, ledger, items, pool):
    """One random decision on one random item, or None where it does not fit."""
    item, (who, role) = draw.choice(pool), draw.choice(PEOPLE)
    states = ledger.states(items)
    if item.item_id not in states or states[item.item_id].fate != "here":
        return None
    state = states[item.item_id]
    of_masks = ["split", "merge", "add"] if item.kind == "mask" else []
    action = draw.choice(["accept", "accept", "reject", "return", "edit", "comment", "undo", *of_masks])
    more = {}
    if action == "edit":
        content = square(draw.randint(0, 3), 50) if item.kind == "mask" else SentenceValue(text=draw.choice("xy"))
        more = {"after": draw.choice([content, content, item.value])}
    elif action == "split":
        parts = [made(draw, row) for row in (60, 70)]
        more = {"parts": tuple(part for part, _ in parts)}
        pool += [new for _, new in parts]
    elif action == "merge":
        other = draw.choice([one for one in pool if one.kind == "mask"]).item_id
        if other == item.item_id or other not in states or states[other].fate != "here":
            return None
        more = {"after": square(draw.randint(0, 9), 90, 8), "merged": (other,)}
    elif action == "undo":
        mine = [one for one in state.decisions if one.who == who and one.item_id == item.item_id and one.action not in ("undo", "comment")]
        mine = [one for one in mine if one.decision_id not in state.undone]
        if not mine:
            return None
        more = {"undoes": mine[-1].decision_id}
    elif action == "add":
        part, new = made(draw, 99)
        decision = accept_of(new, action="add", parts=(part,), who=who, role=role)
        ledger.check(decision, {})
        ledger.add(decision)
        pool.append(new)
        return decision
    return decide(ledger, item, action, who, role, **more)


def random_review(seed):
    """Items, decisions and policy, all drawn."""
    draw = random.Random(seed)
    config = ReviewConfig(policy=draw.choice(["single", "annotator+manager"]), sample_share=draw.choice([0.5, 0.9, 1.0]))
    items = [*(mask_item(f"i-{k}", col=10 * k) for k in range(6)), *(sentence_item(f"t-{k:016x}", f"hut {k}") for k in range(4))]
    ledger, pool, said = Ledger(), list(items), []
    for _ in range(draw.randint(1, 40)):
        try:
            said.append(step(draw, ledger, items, pool))
        except InputError:  # somebody decided later, so that it cannot be undone
            continue
    return items, [one for one in said if one is not None], config


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_numbers_of_a_review_are_the_builders(first):
    n_decisions = 0
    for seed in range(first, first + 50):
        items, said, config = random_review(seed)
        n_decisions += len(said)
        document = review_document(items, said, config, seed)
        states = Ledger(said).states(items)
        verdicts = {item_id: judge(state, config, seed) for item_id, state in states.items()}
        released = {item_id for item_id, verdict in verdicts.items() if verdict.status == "approved"}
        sentences = {
            item_id: SimpleNamespace(polarity="positive", form="referring", state="accepted" if item_id in released else "dropped")
            for item_id, state in states.items()
            if state.item.kind != "mask"
        }
        release = SimpleNamespace(instances={one: None for one in released if states[one].item.kind == "mask"}, items=sentences)
        notes = Notebook()
        lines, block = json.loads(json.dumps([document.lines, document.block]))
        decisions = [_decision(line) for line in lines]
        policy = Policy(config.policy, (), 0, config.sample_share)

        check_figures(release, decisions, standings(decisions), block, dict.fromkeys(KINDS, policy), notes)

        is_held_back = any(verdict.kind == "mask" and verdict.status in ("waiting", "returned") for verdict in verdicts.values())
        found = [one for one in notes.findings if not (is_held_back and "spot_check.mask" in one.item)]  # such a scene is in no release
        assert found == [], seed
    assert n_decisions > 400
