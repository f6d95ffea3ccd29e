"""The parts of an experiment's report, from its results alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tools.experiment.outcome_sections import secondary_section, seeds_section, verdict_section
from tools.experiment.protocol import protocol_of
from tools.experiment.record_sections import protocol_section, runs_section
from tools.experiment.results import Run
from tools.experiment.training_sections import by_turn_section, costs_section, training_section

if TYPE_CHECKING:
    from eval.pages.section import Section


def sections(results: Mapping[str, Any]) -> list[Section]:
    """All parts, in the order of the page."""
    protocol = protocol_of(results["protocol"], "results")
    runs: list[Run] = results["runs"]
    parts = [
        verdict_section(protocol, results),
        secondary_section(protocol, results),
        seeds_section(protocol, runs),
        training_section(protocol, runs),
        by_turn_section(protocol, runs),
        costs_section(protocol, runs),
        protocol_section(protocol, results),
        runs_section(protocol, runs),
    ]
    return [part for part in parts if part is not None]
