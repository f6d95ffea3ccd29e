"""What the encyclopedia says about each kind of entity."""

from __future__ import annotations

# kind -> {relation: kind of its value}. A relation belongs to one kind only, so a chain of relations is unambiguous.
RELATIONS: dict[str, dict[str, str]] = {
    "film": {"director": "person", "setting": "town"},
    "novel": {"author": "person", "publisher": "company"},
    "person": {"birthplace": "town", "employer": "company"},
    "town": {"mayor": "person", "newspaper": "company"},
    "company": {"founder": "person", "seat": "town"},
}

KINDS = tuple(RELATIONS)

VALUE_KIND: dict[str, str] = {
    name: value for relations in RELATIONS.values() for name, value in relations.items()
}


def chains(hops: int) -> list[tuple[str, tuple[str, ...]]]:
    """Every (start kind, relations) of that length in which no relation comes twice."""
    found: list[tuple[str, tuple[str, ...]]] = [(kind, ()) for kind in KINDS]
    for _ in range(hops):
        found = [
            (start, (*path, relation))
            for start, path in found
            for relation in RELATIONS[VALUE_KIND[path[-1]] if path else start]
            if relation not in path
        ]
    return found
