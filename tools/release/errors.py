"""The one exception of a release that is told to the user without a traceback."""

from __future__ import annotations


class ReleaseError(RuntimeError):
    """A release cannot be made, checked or sent; the message names the file or field and what to do."""
