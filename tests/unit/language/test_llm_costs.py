"""Costs per target from lines of the record alone."""

from typing import Any

from trigpoint.identity import digest_json
from trigpoint.language.llm_costs import target_costs
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked

GOOD = (
    '{"positive_ovs_phrases":["school","school area"],"positive_res_phrases":["the school in the north","the school by the road"],'
    '"positive_reasoning_phrases":["where people learn","a place of lessons"],"negative_candidates":["airport","stadium","harbour"]}'
)


def asked(call: str, ask: str, budget: str = "r-1", model: str = "m", **more: Any) -> CallAsked:
    given: dict[str, Any] = {"inputs": {"category": "school", "candidates": []}, "target_id": "a-1", "scene_id": "s-1", **more}
    return CallAsked(
        key=digest_json(call), ask_id=ask, budget_id=budget, model=model, prompt="generate.v1", prompt_sha256=digest_json("p"),
        answer="Generated", images=(), parameters={}, tokens=500, cost=0.5, **given,
    )  # fmt: skip


def answered(call: str, ask: str, text: str = GOOD, budget: str = "r-1", **more: Any) -> CallAnswered:
    given: dict[str, Any] = {"outcome": "answered", "finish": "stop", "tokens_in": 100, "tokens_out": 10, "cost": 0.25, **more}
    return CallAnswered(key=digest_json(call), ask_id=ask, budget_id=budget, text=text, attempts=1, **given)


def failed(call: str, ask: str) -> CallAnswered:
    return CallAnswered(key=digest_json(call), ask_id=ask, budget_id="r-1", outcome="failed", error="HTTP 500", attempts=5)


def test_a_target_is_the_sum_of_its_calls_and_ends_as_its_repeat_does() -> None:
    repeat = {"of": digest_json("one"), "reason": "not JSON"}

    [cost] = target_costs([asked("one", "1"), answered("one", "1", "{"), asked("two", "2", inputs=repeat), answered("two", "2")], "r-1")

    assert (cost.scene_id, cost.target_id, cost.category, cost.model) == ("s-1", "a-1", "school", "m")
    assert (cost.generated, cost.verified, cost.n_calls, cost.tokens_in, cost.tokens_out, cost.cost) == ("ok", "not asked", 2, 200, 20, 0.5)


def test_what_is_not_answered_is_unsettled_until_the_same_call_is() -> None:
    killed, again = asked("one", "1"), asked("one", "2")

    [before] = target_costs([killed, again], "r-1")
    [after] = target_costs([killed, again, answered("one", "2")], "r-1")

    assert (before.generated, before.n_unsettled, before.cost) == ("unanswered", 2, 0)
    assert (after.generated, after.n_unsettled, after.cost) == ("ok", 0, 0.25)


def test_a_failure_costs_nothing_and_leaves_the_state_to_a_later_answer() -> None:
    [lost] = target_costs([asked("one", "1"), failed("one", "1")], "r-1")
    [found] = target_costs([asked("one", "1"), failed("one", "1"), asked("one", "2"), answered("one", "2")], "r-1")

    assert (lost.generated, lost.n_calls, lost.cost, lost.n_unsettled) == ("failed", 0, 0, 0)
    assert (found.generated, found.n_calls, found.n_unsettled) == ("ok", 1, 0)


def test_an_answer_that_was_paid_twice_counts_twice() -> None:
    [cost] = target_costs([asked("one", "1"), asked("one", "2"), answered("one", "1"), answered("one", "2", "{")], "r-1")

    assert (cost.generated, cost.n_calls, cost.cost) == ("ok", 2, 0.5)


def test_other_budgets_are_left_out_and_models_are_told_apart() -> None:
    other = [asked("zero", "0", budget="r-0"), answered("zero", "0", budget="r-0")]
    lines = [*other, asked("one", "1"), answered("one", "1", cost=None), asked("two", "2", model="n"), answered("two", "2")]

    found = target_costs([*lines, BatchNoted(token="t", state="planned", endpoint="/v1/responses", asks={})], "r-1")

    assert [(cost.model, cost.cost) for cost in found] == [("m", None), ("n", 0.25)]


def test_no_lines_no_targets() -> None:
    assert target_costs([], "r-1") == []
