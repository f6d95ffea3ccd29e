"""The one exception of an experiment that is told to the user without a traceback."""

from __future__ import annotations


class ExperimentError(RuntimeError):
    """A protocol cannot be used, or an experiment cannot start or go on; the message says why and what to do."""
