"""The plain class behind one that verl decorated with `@ray.remote`, so that it can be subclassed."""

from __future__ import annotations

from typing import Any


def undecorated(remote_class: Any) -> Any:
    """The class as written. Ray keeps it inside a subclass of its own, which would hide ours from verl's workers."""
    modified = remote_class.__ray_metadata__.modified_class
    return getattr(modified, "__ray_actor_class__", modified)
