"""Keys that there are not: what they may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from tools.run.fingerprint import flatten
from tools.run.schema.lookup import Lookup
from tools.run.schema.our_keys import GROUPS, our_rules, own_agent, task_rules, tasks_with
from tools.run.schema.rule import Rule
from tools.run.schema.verl_keys import verl_rules


def known_keys() -> set[str]:
    """Every key that has a rule in some config."""
    return {key for task in task_rules() for key in our_rules(task, None, None)} | verl_rules().keys()


def unknown_keys(look: Lookup, rules: Mapping[str, Rule]) -> list[str]:
    """One line for each key in our groups that nothing reads.

    Nothing is said where that cannot be known: of an agent of one's own, and of a task without a name.
    """
    lines = []
    for group in GROUPS:
        tree = look.find(group).value
        if not isinstance(tree, dict):
            continue
        name = tree.get("name")
        if (group == "agent" and own_agent(name)) or (group == "task" and name not in list(task_rules())):
            continue
        lines += [
            unknown(key, rules, "remove it")
            for key in flatten({group: tree})
            if key not in rules and not any(_lies_in(key, name) or _lies_in(name, key) for name in rules)
        ]
    return lines


def unknown(key: str, known: Iterable[str], otherwise: str) -> str:
    """One line on a key that there is not, with what it may have been meant to be, or what to do `otherwise`."""
    if tasks := tasks_with(key):
        return f"{key} belongs to another task: choose it with task={' or task='.join(tasks)}"
    guess = nearest(key, known)
    return f"{key} is unknown: {f'did you mean {guess}?' if guess else otherwise}"


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that `key` may be a slip of: in the same group, or of the same name in another."""
    group, _, name = key.rpartition(".")
    split = [other.rpartition(".") for other in known]
    found = get_close_matches(name, [last for above, _, last in split if above == group], 1, 0.7)
    if found:
        return f"{group}.{found[0]}" if group else found[0]
    elsewhere = get_close_matches(group, [above for above, _, last in split if above and last == name], 1, 0)
    return f"{elsewhere[0]}.{name}" if elsewhere else None


def _lies_in(key: str, group: str) -> bool:
    return key.startswith(f"{group}.")
