"""Which decisions are enough: from an item's votes to a verdict."""

from collections.abc import Iterable

from trigpoint.config import ReviewRule
from trigpoint.errors import InputError
from trigpoint.identity import seeded_generator
from trigpoint.records.review import Role, Verdict
from trigpoint.review.ledger import ItemState, Vote


def judge(state: ItemState, rule: ReviewRule, seed: int) -> Verdict:
    """Say whether an item may be released.

    Args:
        state: The item after its history; one that was split or merged away is rejected.
        rule: The policy. What somebody has decided about needs all of it, in the sample of a spot check or not.
        seed: Of the release: draws the sample of a spot check.
    """
    if state.fate != "here":
        return _verdict(state, "rejected", f"{state.fate} into others")
    if rule.policy == "none":
        rejected = _newest(state.votes, "reject")
        return _verdict(state, "rejected", f"rejected by {rejected.who}") if rejected else _verdict(state, "approved", "policy none")
    if not state.votes and not is_sampled(state.item.item_id, rule, seed):
        return _verdict(state, "approved", "not sampled")
    if rule.policy == "single":
        return _single(state)
    if rule.policy == "annotator+manager":
        return _annotator_and_manager(state)
    return _unanimous(state, rule)


def round_of(rule: ReviewRule, who: str, said: int | None = None) -> int:
    """Return the round in which a person decides; 1 but for the policy unanimous.

    Args:
        rule: The policy.
        who: The person.
        said: The round that was asked for, if one was.

    Raises:
        InputError: the person is in no group, not in that of the round, or in those of several rounds and none was asked for.
    """
    if rule.policy != "unanimous":
        return 1
    own = [number for number in range(1, rule.n_rounds + 1) if who in rule.groups[(number - 1) % len(rule.groups)]]
    if said in own or (said is None and len(own) == 1):
        return said or own[0]
    listed = ", ".join(str(number) for number in own)
    if not own:
        raise InputError(f"{who} is in no group of review.groups; sign with a name that is, or add it")
    raise InputError(f"{who} decides in round {listed}; " + (f"{said} is another's" if said is not None else "say in which (--round)"))


def is_sampled(item_id: str, rule: ReviewRule, seed: int) -> bool:
    """Whether an item is in the sample that people must see; drawn by the seed and the id alone."""
    return rule.sample_share >= 1 or float(seeded_generator(seed, "review", item_id).random()) < rule.sample_share


def _verdict(state: ItemState, status: str, basis: str, waits_for: Iterable[str] = ()) -> Verdict:
    return Verdict.model_validate(
        {
            "item_id": state.item.item_id,
            "kind": state.item.kind,
            "scene_id": state.item.scene_id,
            "status": status,
            "basis": basis,
            "waits_for": tuple(waits_for),
            "is_changed": state.is_changed,
        }
    )


def _newest(votes: Iterable[Vote], verdict: str) -> Vote | None:
    """The newest vote if it says `verdict`."""
    last = next(reversed(tuple(votes)), None)
    return last if last is not None and last.verdict == verdict else None


def _single(state: ItemState) -> Verdict:
    if not state.votes:
        return _verdict(state, "waiting", "nobody has decided", ("anyone",))
    last = state.votes[-1]
    if last.verdict == "return":
        return _verdict(state, "returned", f"returned by {last.who}: {last.reason}", ("anyone",))
    return _verdict(state, "approved" if last.verdict == "accept" else "rejected", f"{last.verdict}ed by {last.who}")


def _annotator_and_manager(state: ItemState) -> Verdict:
    said: dict[Role, Vote] = {}
    said_at: dict[Role, int] = {}
    accepted: dict[Role, dict[str, None]] = {"annotator": {}, "manager": {}, "expert": {}}
    for position, vote in enumerate(state.votes):
        said[vote.role], said_at[vote.role] = vote, position
        if vote.verdict == "accept":
            accepted[vote.role][vote.who] = None
        else:
            accepted[vote.role].pop(vote.who, None)
    annotator, manager, expert = said.get("annotator"), said.get("manager"), said.get("expert")
    if manager is not None and manager.verdict == "reject":
        return _verdict(state, "rejected", f"rejected by {manager.who}")
    if manager is not None and manager.verdict == "return":
        if annotator is None or said_at["annotator"] < said_at["manager"]:
            return _verdict(state, "returned", f"returned by {manager.who}: {manager.reason}", ("annotator",))
        return _verdict(state, "waiting", f"{annotator.who} answered {manager.who}", ("manager",))
    if expert is not None and expert.verdict != "accept" and (manager is None or said_at["manager"] < said_at["expert"]):
        return _verdict(state, "returned", f"{expert.who}, expert, would {expert.verdict} it: {expert.reason}", ("expert", "manager"))
    if annotator is None:
        return _verdict(state, "waiting", "no annotator has decided", ("annotator", "manager")[: 1 if manager else 2])
    if annotator.verdict != "accept":
        waits = "annotator" if manager is not None else "manager"
        return _verdict(state, "waiting" if manager is None else "returned", f"{annotator.who} would {annotator.verdict} it", (waits,))
    pairs = [(first, second) for first in accepted["annotator"] for second in accepted["manager"] if first != second]
    if pairs:
        return _verdict(state, "approved", f"accepted by {pairs[-1][0]}, approved by {pairs[-1][1]}")
    why = (
        f"accepted by {annotator.who}"
        if not accepted["manager"]
        else f"{annotator.who} is annotator and manager of it: another must approve"
    )
    return _verdict(state, "waiting", why, ("manager",))


def _unanimous(state: ItemState, rule: ReviewRule) -> Verdict:
    missing: list[str] = []
    for number in range(1, rule.n_rounds + 1):
        group = rule.groups[(number - 1) % len(rule.groups)]
        said = {vote.who: vote for vote in state.votes if vote.round == number and vote.who in group}
        against = [vote for vote in said.values() if vote.verdict != "accept"]
        if len(said) == len(group) and len(against) == len(group) and all(vote.verdict == "reject" for vote in against):
            return _verdict(state, "rejected", f"rejected by all of round {number}")
        if against:
            why = "; ".join(f"{vote.who}: {vote.reason}" for vote in against)
            silent = [f"{who} (round {number})" for who in group if who not in said]
            waits = silent or [*(f"{vote.who} (round {number})" for vote in against), "anyone"]
            return _verdict(state, "returned", f"not unanimous in round {number}: {why}", waits)
        if not missing:
            missing = [f"{who} (round {number})" for who in group if who not in said]
    if missing:
        return _verdict(state, "waiting", f"{len(missing)} of the round have not decided", missing)
    return _verdict(state, "approved", f"unanimous in {rule.n_rounds} rounds")
