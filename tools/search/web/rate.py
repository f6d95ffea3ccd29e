"""A limit on requests per second."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """A bucket of one token: requests start at least `1 / per_s` seconds apart, in the order they are booked.

    It only tells how long to wait, so it belongs to no event loop. A moment booked by a task that is then cancelled
    stays unused.
    """

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that never go back."""
        self._gap = 1.0 / per_s
        self._clock = clock
        self._free_at = clock()

    def book(self, within_s: float) -> float | None:
        """Seconds to wait before the next request; None, with nothing booked, if that is more than `within_s`."""
        now = self._clock()
        start = max(now, self._free_at)
        if start - now > within_s:
            return None
        self._free_at = start + self._gap
        return start - now
