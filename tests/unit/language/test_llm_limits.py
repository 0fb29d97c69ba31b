"""How fast a server is asked, on a clock of our own."""

from datetime import UTC, datetime

import pytest

from trigpoint.language.llm_limits import RateLimiter, backoff_s, retry_after_s


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def sending_times(limiter: RateLimiter, clock: Clock, tokens: list[int]) -> list[float]:
    times: list[float] = []
    for n in tokens:
        limiter.wait(n)
        times.append(clock.now - 1000.0)
        clock.now += 1
    return times


def test_no_minute_has_more_requests_than_allowed() -> None:
    clock = Clock()

    times = sending_times(RateLimiter(3, None, clock, clock.sleep), clock, [1] * 8)

    assert times == [0, 1, 2, 60, 61, 62, 120, 121]


def test_no_minute_has_more_tokens_than_allowed() -> None:
    clock = Clock()

    times = sending_times(RateLimiter(None, 100, clock, clock.sleep), clock, [60, 40, 50, 60])

    # 50 fit when the 60 of second 0 are a minute old; the last 60 when the 40 of second 1 and the 50 are
    assert times == [0, 1, 60, 120]


def test_a_request_larger_than_a_minute_waits_for_an_empty_one() -> None:
    clock = Clock()

    assert sending_times(RateLimiter(None, 100, clock, clock.sleep), clock, [10, 500, 1]) == [0, 60, 120]


def test_what_a_request_really_took_frees_the_rest_of_its_estimate() -> None:
    clock = Clock()
    limiter = RateLimiter(None, 100, clock, clock.sleep)

    limiter.settle(limiter.wait(100), 10)
    limiter.wait(90)

    assert clock.now == 1000.0


def test_a_pause_holds_everybody_back_and_the_longest_counts() -> None:
    clock = Clock()
    limiter = RateLimiter(None, None, clock, clock.sleep)
    limiter.pause(7)
    limiter.pause(2)

    limiter.wait(1)

    assert clock.now == 1007.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 01 Jun 2026 10:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 01 Jun 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_what_a_server_asks_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers, datetime(2026, 6, 1, 10, tzinfo=UTC)) == expected


def test_waits_double_stay_bounded_and_differ_between_calls_but_not_between_runs() -> None:
    waits = [backoff_s(1.0, 20.0, 7, "a", attempt) for attempt in range(1, 8)]

    for wait, middle in zip(waits, [1, 2, 4, 8, 16, 20, 20], strict=True):
        assert 0.5 * middle <= wait <= 1.5 * middle
    assert waits == [backoff_s(1.0, 20.0, 7, "a", attempt) for attempt in range(1, 8)]
    assert backoff_s(1.0, 20.0, 7, "b", 1) != waits[0]
    assert backoff_s(1.0, 20.0, 8, "a", 1) != waits[0]
