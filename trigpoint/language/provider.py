"""Who writes and checks sentences: the protocol of every provider, what goes in, what comes out, and both stages over many targets.

Not here: prompts, servers and records of calls (`prompts`, `openai_provider`, `llm_*`), the grounded check.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import Field

from trigpoint.errors import BudgetError
from trigpoint.records.base import Record
from trigpoint.records.language import Generated, Outcome, Verified

AnswerT = TypeVar("AnswerT")


class GenerationRequest(Record):
    """What stage 1 is asked.

    Attributes:
        category: Canonical name of the target's category; outside text.
        outlined_png: The scene with the target outlined in red, slightly outside its edge.
        candidates: Names of look-alikes, as hints for negatives; outside text.
        target_id, scene_id: Whom it is about, for the record of what it costs; decides no answer.
    """

    category: str = Field(min_length=1, max_length=200)
    outlined_png: bytes = Field(repr=False)
    candidates: tuple[str, ...] = Field(default=(), max_length=50)
    target_id: str = ""
    scene_id: str = ""


class VerificationRequest(Record):
    """What stage 2 is asked.

    Attributes:
        category: Canonical name of the target's category; outside text.
        raw_png: The scene as it is.
        negatives: The names that stage 1 takes for absent.
        referring: The referring expressions of stage 1.
        target_id, scene_id: As in `GenerationRequest`.
    """

    category: str = Field(min_length=1, max_length=200)
    raw_png: bytes = Field(repr=False)
    negatives: tuple[str, ...]
    referring: tuple[str, ...]
    target_id: str = ""
    scene_id: str = ""


class StageAnswer(Record, Generic[AnswerT]):
    """What came of one stage for one target.

    Attributes:
        outcome: How it ended; only `ok` has an answer.
        answer: The parsed answer.
        text: The reply as it came (the last one, if it was asked twice).
        reason: Why there is no answer.
        problems: What an answer lacks although it has the right form, such as the category's name in a referring expression.
        tokens_in, tokens_out, cost: Of every call that the stage took; cost is None without a price.
        model: Model, or `offline`.
        prompt: Name and version of the prompt, such as `generate.v1`.
        from_record: Nothing was asked: every call was answered before. Differs between runs, so it must reach no release.
    """

    outcome: Outcome
    answer: AnswerT | None = None
    text: str = ""
    reason: str = ""
    problems: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    model: str
    prompt: str
    from_record: bool = False


class LanguageProvider(Protocol):
    """Writes sentences about a target, and checks them against the scene. Both may be called from several threads."""

    @property
    def name(self) -> str:
        """What wrote the sentences: a model's name, or `offline`."""
        ...

    def generate(self, request: GenerationRequest) -> StageAnswer[Generated]:
        """Stage 1."""
        ...

    def verify(self, request: VerificationRequest) -> StageAnswer[Verified]:
        """Stage 2."""
        ...


class TargetRequest(Record):
    """One target on its way through both stages."""

    target_id: str
    scene_id: str = ""
    category: str = Field(min_length=1, max_length=200)
    outlined_png: bytes = Field(repr=False)
    raw_png: bytes = Field(repr=False)
    candidates: tuple[str, ...] = Field(default=(), max_length=50)


class TargetRequests(Protocol):
    """Targets to be asked about: a list, or something that makes each when it is its turn, so that not all pictures are held at once.

    May be iterated several times, always in the same order.
    """

    def __len__(self) -> int:
        """How many there are."""
        ...

    def __iter__(self) -> Iterator[TargetRequest]:
        """Yield them."""
        ...


class TargetAnswers(NamedTuple):
    """What both stages made of a target; stage 2 is None where stage 1 has no answer."""

    generated: StageAnswer[Generated]
    verified: StageAnswer[Verified] | None


class CallSummary(Record):
    """What a provider did since it was opened.

    Attributes:
        n_asked: Calls that were sent and answered. n_from_record: Calls whose answer was recorded before.
        n_resent: Attempts beyond the first, after a failure.
        outcomes: `<prompt>:<outcome>` → calls, asked or from the record.
        tokens_in, tokens_out, cost: Of the calls asked; cost is None if a model without a price was asked.
        n_unsettled: Calls that were under way when a process died, and that nobody has asked since: the server may have billed them.
    """

    n_asked: int = 0
    n_from_record: int = 0
    n_resent: int = 0
    outcomes: dict[str, int] = {}
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = 0.0
    n_unsettled: int = 0


class LanguageProgress(Protocol):
    """Who watches the stages; called from one thread."""

    def begin(self, n_targets: int) -> None:
        """Work on targets begins."""
        ...

    def advance(self, target_id: str, answers: TargetAnswers) -> None:
        """A target is through both stages."""
        ...

    def say(self, text: str) -> None:
        """Something worth knowing happened."""
        ...


class SilentProgress:
    """Nobody watches."""

    def begin(self, n_targets: int) -> None:
        """Say nothing."""

    def advance(self, target_id: str, answers: TargetAnswers) -> None:
        """Say nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


@runtime_checkable
class PreparesCalls(Protocol):
    """A provider that wants to know all targets first (to send batches), and that stands several at once."""

    concurrency: int

    def prepare(self, requests: TargetRequests, say: Callable[[str], None]) -> None:
        """See to it that as many answers as possible are recorded."""
        ...


def ask_target(provider: LanguageProvider, request: TargetRequest) -> TargetAnswers:
    """Take one target through both stages."""
    generated = provider.generate(
        GenerationRequest(
            category=request.category,
            outlined_png=request.outlined_png,
            candidates=request.candidates,
            target_id=request.target_id,
            scene_id=request.scene_id,
        )
    )
    if generated.answer is None:
        return TargetAnswers(generated, None)
    verified = provider.verify(
        VerificationRequest(
            category=request.category,
            raw_png=request.raw_png,
            negatives=generated.answer.negative_candidates,
            referring=generated.answer.positive_res_phrases,
            target_id=request.target_id,
            scene_id=request.scene_id,
        )
    )
    return TargetAnswers(generated, verified)


def ask_all(provider: LanguageProvider, requests: TargetRequests, progress: LanguageProgress | None = None) -> list[TargetAnswers]:
    """Take targets through both stages, several at once if the provider can, and return their answers in the same order.

    Raises:
        BudgetError: the budget does not allow what is left; what was under way is finished and recorded. Says how many targets
            remain and carries their ids; the same call with more budget goes on from there.
        CallMissingError: answers are replayed, and one is not recorded.
        ConfigError: the server accepts neither the key nor the model.
    """
    answers = dict(_answers(provider, requests, progress or SilentProgress()))
    return [answers[place] for place in range(len(answers))]


def record_all(provider: LanguageProvider, requests: TargetRequests, progress: LanguageProgress | None = None) -> None:
    """Take targets through both stages as `ask_all` does, for the record alone: no answer is kept in memory.

    Raises:
        BudgetError, CallMissingError, ConfigError: as `ask_all`.
    """
    for _ in _answers(provider, requests, progress or SilentProgress()):
        pass


def _answers(provider: LanguageProvider, requests: TargetRequests, watcher: LanguageProgress) -> Iterator[tuple[int, TargetAnswers]]:
    """Yield the place and the answers of every target as they come; a request is made when it is its turn and dropped after it."""
    watcher.begin(len(requests))
    workers = 1
    if isinstance(provider, PreparesCalls):
        provider.prepare(requests, watcher.say)
        workers = provider.concurrency
    left: dict[int, str] = {}
    stopped: BudgetError | None = None
    with ThreadPoolExecutor(workers, thread_name_prefix="language") as pool:
        waiting = iter(enumerate(requests))
        running: dict[Future[TargetAnswers], tuple[int, str]] = {}
        try:
            while True:
                while len(running) < 2 * workers and (following := next(waiting, None)) is not None:
                    place, request = following
                    running[pool.submit(ask_target, provider, request)] = place, request.target_id
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    place, target_id = running.pop(future)
                    try:
                        answers = future.result()
                    except BudgetError as error:
                        # the provider sends no more; targets whose answers are recorded still count as done
                        stopped = stopped or error
                        left[place] = target_id
                    else:
                        watcher.advance(target_id, answers)
                        yield place, answers
        finally:
            # after an error only the calls under way go on, to be recorded
            pool.shutdown(wait=True, cancel_futures=True)
    if stopped is not None:
        raise BudgetError(
            f"{stopped}; {len(left)} of {len(requests)} targets remain", tuple(left[place] for place in sorted(left))
        ) from None
