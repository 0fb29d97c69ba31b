"""What every target has cost and how its stages ended, read from the record of calls alone, also while calls are under way.

Not here: how lines are kept (`storage.calls`), what a budget allows (`llm_ledger`).
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from trigpoint.language.llm_ledger import reply_of
from trigpoint.language.llm_reply import Judged, Reading, better_reading, read_reply
from trigpoint.language.llm_stages import judge_generated, judge_verified
from trigpoint.records.base import Record
from trigpoint.records.calls import BatchNoted, CallAnswered, CallAsked
from trigpoint.records.language import Generated, Outcome, Verified

StageState = Outcome | Literal["unanswered", "not asked"]
"""How a stage of a target stands; `unanswered`: under way, or its process died before the answer."""


class TargetCost(Record):
    """One target, as far as it was asked about with one model.

    Attributes:
        target_id, scene_id: Empty for calls that were recorded without them.
        generated, verified: Stage 1 and stage 2.
        n_calls: Answers that were paid for, repeats included.
        tokens_in, tokens_out, cost: Of those; cost is None without a price.
        n_unsettled: Calls without a recorded answer: the server may bill them.
    """

    target_id: str
    scene_id: str
    category: str
    model: str
    generated: StageState
    verified: StageState
    n_calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    n_unsettled: int


class _Stage(NamedTuple):
    form: type[BaseModel]
    judge: Callable[[dict[str, Any]], Callable[[Any], Judged]]


_STAGES = {
    "Generated": _Stage(Generated, lambda inputs: judge_generated(inputs["category"])),
    "Verified": _Stage(Verified, lambda inputs: judge_verified(inputs["category"], inputs["negatives"], inputs["referring"])),
}


class _Ledger:
    """The lines of one budget, by call."""

    def __init__(self, lines: Iterable[CallAsked | CallAnswered | BatchNoted], budget_id: str) -> None:
        self.asked: dict[str, CallAsked] = {}
        self.answers: dict[str, CallAnswered] = {}
        self.paid: list[CallAnswered] = []
        self.open: dict[str, str] = {}
        """Ask id → key of the calls without an answer."""
        asks_of: dict[str, list[str]] = {}
        for line in lines:
            if isinstance(line, BatchNoted):
                continue
            is_own = line.budget_id == budget_id
            known = self.answers.get(line.key)
            is_answered = known is not None and known.outcome == "answered"
            if isinstance(line, CallAsked):
                if is_own:
                    self.asked[line.key] = line
                    if not is_answered:
                        self.open[line.ask_id] = line.key
                        asks_of.setdefault(line.key, []).append(line.ask_id)
                continue
            if is_own:
                self.paid.append(line)
            self.open.pop(line.ask_id, None)
            for ask_id in asks_of.pop(line.key, []) if line.outcome == "answered" else ():
                self.open.pop(ask_id, None)
            if not is_answered:
                self.answers[line.key] = line
        self.repeats = {str(asked.inputs["of"]): key for key, asked in self.asked.items() if "of" in asked.inputs}

    def original(self, key: str) -> CallAsked:
        """The call that a repeat repeats; any other call is its own."""
        asked = self.asked[key]
        return self.asked.get(str(asked.inputs.get("of")), asked)

    def state(self, asked: CallAsked) -> StageState:
        """How a stage ended that began with this call, read as the provider reads it."""
        stage = _STAGES[asked.answer]
        judge = stage.judge(asked.inputs)

        def read(key: str) -> Reading[Any] | None:
            line = self.answers.get(key)
            return None if line is None else read_reply(reply_of(line), stage.form, judge)

        first = read(asked.key)
        if first is None:
            return "unanswered"
        repeat = self.repeats.get(asked.key)
        if repeat is None:
            return first.outcome
        second = read(repeat)
        return "unanswered" if second is None else better_reading(first, second).outcome


def target_costs(lines: Iterable[CallAsked | CallAnswered | BatchNoted], budget_id: str) -> list[TargetCost]:
    """Return what each target has cost a budget, sorted by scene, category and model.

    Args:
        lines: Of the record, in the order of writing.
        budget_id: Calls of other budgets are left out; an answer that another one paid for costs nothing here.
    """
    ledger = _Ledger(lines, budget_id)
    stages: dict[tuple[str, str, str, str], dict[str, CallAsked]] = {}
    for key, asked in ledger.asked.items():
        if ledger.original(key) is asked:
            # of several wordings of a prompt the last one counts
            stages.setdefault(_target_of(asked), {})[asked.answer] = asked
    paid: dict[tuple[str, str, str, str], list[CallAnswered]] = {}
    for line in ledger.paid:
        if line.key in ledger.asked and line.outcome == "answered":
            paid.setdefault(_target_of(ledger.original(line.key)), []).append(line)
    n_open: dict[tuple[str, str, str, str], int] = {}
    for key in ledger.open.values():
        target = _target_of(ledger.original(key))
        n_open[target] = n_open.get(target, 0) + 1
    found: list[TargetCost] = []
    for target, by_form in sorted(stages.items()):
        scene_id, category, target_id, model = target
        answered = paid.get(target, [])
        costs = [line.cost for line in answered]
        found.append(
            TargetCost(
                target_id=target_id,
                scene_id=scene_id,
                category=category,
                model=model,
                generated=ledger.state(by_form["Generated"]) if "Generated" in by_form else "not asked",
                verified=ledger.state(by_form["Verified"]) if "Verified" in by_form else "not asked",
                n_calls=len(answered),
                tokens_in=sum(line.tokens_in for line in answered),
                tokens_out=sum(line.tokens_out for line in answered),
                cost=None if None in costs else round(sum(cost or 0.0 for cost in costs), 9),
                n_unsettled=n_open.get(target, 0),
            )
        )
    return found


def _target_of(asked: CallAsked) -> tuple[str, str, str, str]:
    return asked.scene_id, str(asked.inputs.get("category", "")), asked.target_id, asked.model
