"""Which decisions are enough."""

import pytest
from pydantic import ValidationError

from tests.unit.review._decisions import decide, mask_item, sentence_item, square
from trigpoint.config import ReviewRule
from trigpoint.errors import InputError
from trigpoint.review.ledger import Ledger
from trigpoint.review.policy import is_sampled, judge, round_of

NONE, SINGLE, TWO = ReviewRule(), ReviewRule(policy="single"), ReviewRule(policy="annotator+manager")
GROUPS = (("ann", "bob"), ("cy", "dee"), ("eve", "fay"))
ALL = ReviewRule(policy="unanimous", groups=GROUPS)


def status(rule: ReviewRule, *decisions: tuple[str, str, str], rounds: tuple[int, ...] = ()) -> str:
    """Status of an item after (who, role, action) in order."""
    ledger, item = Ledger(), mask_item()
    for k, (who, role, action) in enumerate(decisions):
        more = {"after": square(1, k)} if action == "edit" else {}
        decide(ledger, item, action, who=who, role=role, round=rounds[k] if rounds else 1, **more)
    return judge(ledger.states([item])[item.item_id], rule, 0).status


def test_without_a_policy_all_pass_but_what_someone_rejects() -> None:
    assert status(NONE) == "approved"
    assert status(NONE, ("ada", "annotator", "reject")) == "rejected"
    assert status(NONE, ("ada", "annotator", "reject"), ("ada", "annotator", "accept")) == "approved"


def test_single_needs_anyone() -> None:
    assert status(SINGLE) == "waiting"
    assert status(SINGLE, ("ada", "annotator", "accept")) == "approved"
    assert status(SINGLE, ("ada", "annotator", "edit")) == "approved"
    assert status(SINGLE, ("ada", "annotator", "accept"), ("bo", "manager", "return")) == "returned"
    assert status(SINGLE, ("bo", "manager", "reject")) == "rejected"


def test_annotator_and_manager_are_two_people_of_one_mind() -> None:
    assert status(TWO) == "waiting"
    assert status(TWO, ("ada", "annotator", "accept")) == "waiting"
    assert status(TWO, ("ada", "annotator", "accept"), ("bo", "manager", "accept")) == "approved"
    assert status(TWO, ("ada", "annotator", "accept"), ("ada", "manager", "accept")) == "waiting"
    assert status(TWO, ("bo", "manager", "accept")) == "waiting"
    assert status(TWO, ("ada", "annotator", "accept"), ("bo", "manager", "return")) == "returned"
    answered = (("ada", "annotator", "accept"), ("bo", "manager", "return"), ("ada", "annotator", "edit"))
    assert status(TWO, *answered) == "waiting"
    assert status(TWO, *answered, ("bo", "manager", "accept")) == "approved"
    assert status(TWO, ("ada", "annotator", "reject")) == "waiting"
    assert status(TWO, ("ada", "annotator", "reject"), ("bo", "manager", "reject")) == "rejected"
    assert status(TWO, ("ada", "annotator", "accept"), ("bo", "manager", "accept"), ("ada", "annotator", "edit")) == "waiting"


def test_who_says_the_same_again_after_a_return_has_answered_it() -> None:
    again = (("ada", "annotator", "accept"), ("bo", "manager", "return"), ("ada", "annotator", "accept"))
    assert status(TWO, *again) == "waiting"
    assert status(TWO, *again, ("bo", "manager", "return")) == "returned"


def test_an_expert_keeps_back_what_two_accept_until_a_manager_decides_again() -> None:
    both = (("ada", "annotator", "accept"), ("bo", "manager", "accept"))
    assert status(TWO, *both, ("eve", "expert", "accept")) == "approved"
    for verdict in ("return", "reject"):
        assert status(TWO, *both, ("eve", "expert", verdict)) == "returned"
        assert status(TWO, *both, ("eve", "expert", verdict), ("eve", "expert", "accept")) == "approved"
        assert status(TWO, *both, ("eve", "expert", verdict), ("bo", "manager", "accept")) == "approved"
        assert status(TWO, both[0], ("eve", "expert", verdict), both[1]) == "approved"


def test_unanimous_is_every_member_in_every_round() -> None:
    votes = [(who, "expert", "accept") for group in GROUPS for who in group]
    rounds = (1, 1, 2, 2, 3, 3)
    assert status(ALL, *votes, rounds=rounds) == "approved"
    assert status(ALL, *votes[:5], rounds=rounds[:5]) == "waiting"
    assert status(ALL, ("ann", "expert", "accept"), ("bob", "expert", "reject"), rounds=(1, 1)) == "returned"
    assert status(ALL, ("ann", "expert", "reject"), ("bob", "expert", "reject"), rounds=(1, 1)) == "rejected"
    assert status(ALL, *[(who, "expert", "accept") for who in ("x", "y", "z")], rounds=(1, 2, 3)) == "waiting"  # no members


def test_who_is_waited_for_is_named() -> None:
    ledger, item = Ledger(), mask_item()
    decide(ledger, item, "accept", who="ann")
    assert judge(ledger.states([item])[item.item_id], ALL, 0).waits_for == ("bob (round 1)",)


def test_who_is_against_it_is_waited_for_in_that_round() -> None:
    ledger, item = Ledger(), mask_item()
    twice = ReviewRule(policy="unanimous", groups=(("ann", "bob"),), rounds=2)
    for number, who, action in ((1, "ann", "accept"), (1, "bob", "accept"), (2, "bob", "return")):
        decide(ledger, item, action, who=who, round=number)
    assert judge(ledger.states([item])[item.item_id], twice, 0).waits_for == ("ann (round 2)",)
    decide(ledger, item, "accept", who="ann", round=2)
    assert judge(ledger.states([item])[item.item_id], twice, 0).waits_for == ("bob (round 2)", "anyone")


def test_the_sample_is_drawn_by_seed_and_id_alone() -> None:
    rule = ReviewRule(policy="single", sample_share=0.3)
    drawn = [is_sampled(f"i-{k}", rule, 7) for k in range(2000)]
    assert 0.26 < sum(drawn) / 2000 < 0.34
    assert drawn == [is_sampled(f"i-{k}", rule, 7) for k in range(2000)]
    assert drawn != [is_sampled(f"i-{k}", rule, 8) for k in range(2000)]
    unseen = next(k for k in range(2000) if not drawn[k])
    item = sentence_item(f"i-{unseen}")
    assert judge(Ledger().states([item])[item.item_id], rule, 7).basis == "not sampled"
    for action, expected in (("accept", "approved"), ("return", "returned"), ("reject", "rejected")):
        ledger = Ledger()
        decide(ledger, item, action)
        assert judge(ledger.states([item])[item.item_id], rule, 7).status == expected  # somebody saw it after all


def test_a_policy_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValidationError, match="unanimous needs groups"):
        ReviewRule(policy="unanimous")
    with pytest.raises(ValidationError, match="unanimous needs groups"):
        ReviewRule(policy="single", groups=GROUPS)
    with pytest.raises(ValidationError, match="each member once"):
        ReviewRule(policy="unanimous", groups=(("a", "a"),))


def test_the_round_of_a_person_follows_from_their_group() -> None:
    assert round_of(SINGLE, "ann") == 1
    assert [round_of(ALL, who) for who in ("bob", "cy", "fay")] == [1, 2, 3]
    twice = ReviewRule(policy="unanimous", groups=GROUPS, rounds=6)
    assert round_of(twice, "cy", 5) == 5
    with pytest.raises(InputError, match="round 2, 5; say in which"):
        round_of(twice, "cy")
    with pytest.raises(InputError, match="3 is another's"):
        round_of(ALL, "cy", 3)
    with pytest.raises(InputError, match="in no group"):
        round_of(ALL, "gus")
