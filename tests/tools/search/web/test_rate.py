"""The rate limit, by a clock that the test moves."""

from tools.search.web.rate import RateLimit


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_requests_are_spaced_and_idle_time_is_not_saved_up():
    clock = Clock()
    rate = RateLimit(4.0, clock)
    assert [rate.book(10.0) for _ in range(4)] == [0.0, 0.25, 0.5, 0.75]
    clock.now += 60.0
    assert [rate.book(10.0) for _ in range(3)] == [0.0, 0.25, 0.5]


def test_a_turn_that_comes_too_late_is_not_taken():
    clock = Clock()
    rate = RateLimit(1.0, clock)
    assert rate.book(0.5) == 0.0
    assert [rate.book(0.5), rate.book(0.5)] == [None, None]
    assert rate.book(1.0) == 1.0
