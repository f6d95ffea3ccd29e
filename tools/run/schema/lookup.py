"""Reading a composed config key by key, whatever stands in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?([\w.]+)")


@dataclass(frozen=True)
class Found:
    """What stands at a key: a value of plain Python types, or why there is none.

    Attributes:
        at: the key, or the group above it that is missing or no group.
        why: `missing`, `no group` (`value` stands in the group's place), or what keeps it from being read.
    """

    at: str
    value: Any = None
    why: str = ""


class Lookup:
    """The keys of one config; groups are read once."""

    def __init__(self, config: DictConfig) -> None:
        self._nodes: dict[str, Any] = {"": config}

    def find(self, key: str) -> Found:
        """What stands at a dotted key; raises nothing."""
        node = self._node(key)
        return node if isinstance(node, Found) else Found(key, _plain(node))

    def references(self, key: str) -> list[str]:
        """The keys that the value of `key` is taken from, if it is written as an interpolation."""
        above, _, name = key.rpartition(".")
        group = self._node(above)
        if not isinstance(group, DictConfig) or name not in group.keys():  # noqa: SIM118 - `in` hides what cannot be read
            return []
        if not OmegaConf.is_interpolation(group, name):
            return []
        raw: Any = OmegaConf.to_container(group, resolve=False)
        named = [_absolute(found, above) for found in _REFERENCE.findall(str(raw[name]))]
        return [other for other in named if other != key]

    def _node(self, key: str) -> Any:
        if key not in self._nodes:
            self._nodes[key] = self._read(key)
        return self._nodes[key]

    def _read(self, key: str) -> Any:
        above, _, name = key.rpartition(".")
        group = self._node(above)
        if isinstance(group, Found):
            return group
        if not isinstance(group, DictConfig):
            return Found(above, _plain(group), "no group")
        try:
            return group[name]
        except (ConfigKeyError, MissingMandatoryValue):
            return Found(key, why="missing")
        except OmegaConfBaseException as error:
            return Found(key, why=str(error).splitlines()[0])


def _absolute(name: str, group: str) -> str:
    """A name as an interpolation in `group` writes it: `.x` is beside it, `..x` one level up."""
    key = name.lstrip(".")
    up = len(name) - len(key)
    return key if not up else ".".join([*group.split(".")[: len(group.split(".")) - up + 1], key])


def _plain(node: Any) -> Any:
    return OmegaConf.to_container(node) if OmegaConf.is_config(node) else node
