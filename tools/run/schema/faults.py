"""What is wrong with the values of a composed config: one line per fault, all of them at once."""

from __future__ import annotations

from omegaconf import DictConfig

from tools.run.schema.lookup import Found, Lookup
from tools.run.schema.our_keys import our_rules
from tools.run.schema.rule import Rule, shown
from tools.run.schema.unknown import unknown_keys
from tools.run.schema.verl_keys import verl_rules


def faults(config: DictConfig) -> list[str]:
    """Faults of a config as Hydra composed it, each naming its key and what to write; nothing is computed from a value."""
    look = Lookup(config)
    facts = [look.find(key).value for key in ("task.name", "agent.name", "run.cold_start")]
    rules = our_rules(*facts) | verl_rules()
    lines: dict[str, str] = {}
    for key, rule in rules.items():
        found = look.find(key)
        if line := _line(key, rule, found):
            lines.setdefault(found.at, line)
    # A value that is taken from a faulty key is no fault of its own.
    told = [line for at, line in lines.items() if not any(_within(key, lines) for key in look.references(at))]
    return told + unknown_keys(look, rules)


def _line(key: str, rule: Rule, found: Found) -> str | None:
    if found.why == "missing":
        group = f", and with it {key} and what else it holds" if found.at != key else ""
        return (
            f"{found.at} is not set{group}: write a value, or take back what removed it"
            if rule.needed
            else None
        )
    if found.why == "no group":
        return (
            f"{found.at} is {shown(found.value)}: it is a group of keys; write {key} and what else it holds"
        )
    if found.why:
        return f"{key} cannot be read: {found.why}"
    return rule.fault(key, found.value)


def _within(key: str, faulty: dict[str, str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in faulty)
