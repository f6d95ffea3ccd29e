"""The one exception of a run that is told to the user without a traceback."""

from __future__ import annotations


class RunError(RuntimeError):
    """A run cannot start or go on; the message says why and what to do."""
