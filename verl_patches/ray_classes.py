"""The classes behind Ray's actor classes, so that they can be subclassed. There are two, and verl needs both."""

from __future__ import annotations

from typing import Any


def written_class(remote_class: Any) -> Any:
    """The class as written, for one that has a name of its own beside its actor class (verl's training workers).

    verl takes it out of the actor class again; a subclass of Ray's subclass would lead it past ours.
    """
    return remote_class.__ray_metadata__.modified_class.__ray_actor_class__


def actor_base(remote_class: Any) -> Any:
    """Ray's subclass of it, for a class whose name was taken by `@ray.remote`.

    In another process such a class is pickled by value, and the class as written then fails in its own `super()`.
    """
    return remote_class.__ray_metadata__.modified_class
