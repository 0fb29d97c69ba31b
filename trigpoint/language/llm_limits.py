"""How fast a server is asked: requests and tokens per minute, pauses that it asks for, and how long to wait after a failure."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from trigpoint.identity import seeded_generator

WINDOW_S = 60.0


class RateLimiter:
    """Keeps the requests and tokens of any minute below limits, for all threads of a process.

    Args:
        requests: Requests per minute; None is no limit.
        tokens: Tokens per minute; None is no limit. A request that alone needs more waits for an empty minute.
        clock, sleep: For tests.
    """

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._requests, self._tokens = requests, tokens
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._sent: deque[list[float]] = deque()
        self._not_before = -math.inf

    def wait(self, tokens: int) -> list[float]:
        """Wait until a request of so many tokens may be sent; return its ticket for `settle`."""
        while True:
            with self._lock:
                delay = self._delay(tokens)
                if delay <= 0:
                    ticket = [self._clock(), float(tokens)]
                    self._sent.append(ticket)
                    return ticket
            self._sleep(delay)

    def settle(self, ticket: list[float], tokens: int) -> None:
        """Put what a request really took in the place of its estimate."""
        with self._lock:
            ticket[1] = float(tokens)

    def pause(self, seconds: float) -> None:
        """Let nobody send for so long."""
        with self._lock:
            self._not_before = max(self._not_before, self._clock() + seconds)

    def _delay(self, tokens: int) -> float:
        now = self._clock()
        while self._sent and self._sent[0][0] <= now - WINDOW_S:
            self._sent.popleft()
        free_at = self._not_before
        if self._requests is not None and len(self._sent) >= self._requests:
            free_at = max(free_at, self._sent[len(self._sent) - self._requests][0] + WINDOW_S)
        if self._tokens is not None:
            over = sum(used for _, used in self._sent) + min(tokens, self._tokens) - self._tokens
            for when, used in self._sent:
                if over <= 0:
                    break
                over -= used
                free_at = max(free_at, when + WINDOW_S)
        return free_at - now


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a server asks to wait, from `retry-after-ms` or `Retry-After` (seconds or a date); None if it asks nothing.

    >>> retry_after_s({"retry-after": "2"})
    2.0
    >>> retry_after_s({"retry-after": "soon"}) is None
    True
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        when = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def backoff_s(base_s: float, longest_s: float, seed: int, key: str, attempt: int) -> float:
    """Return how long to wait after the attempt (from 1) of a call failed: doubled each time, half to one and a half of it.

    The jitter is drawn from (seed, call, attempt), so that calls spread and a run can be told again.
    """
    jitter = 0.5 + float(seeded_generator(seed, "backoff", key, attempt).random())
    return min(longest_s, base_s * 2.0 ** (attempt - 1)) * jitter
