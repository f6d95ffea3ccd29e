"""A protocol says everything that is wrong with it, one line each, and its hash is of what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tools.experiment.support import RAW, small
from tools.experiment.errors import ExperimentError
from tools.experiment.protocol import protocol_of, read_protocol


def faults(**changes: Any) -> list[str]:
    with pytest.raises(ExperimentError) as error:
        protocol_of(RAW | changes, "p.yaml")
    head, *lines = str(error.value).splitlines()
    assert head == f"p.yaml: {len(lines)} fault(s) in the protocol:"
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"armz": {}}, "armz: unknown key; known are name, recipe"),
        ({"name": "a b"}, 'name: "a b" is not letters'),
        ({"arms": {"a": "x=1", "b": []}}, 'arms: {"a": "x=1", "b": []} is not names'),
        ({"arms": {"grpo": [], True: []}}, "is not names (text"),
        ({"arms": {"grpo": []}}, "arms: there must be two or more"),
        (
            {"arms": {"grpo": [], "b": ["memory.weight"]}},
            "arms.b: 'memory.weight' has not the form key=value",
        ),
        ({"arms": {"grpo": [], "b": ["seed=3"]}}, "arms.b: 'seed=3': the experiment sets seed for each run"),
        ({"overrides": ["+run.name=x"]}, "overrides: '+run.name=x': the experiment sets run.name"),
        ({"control": "none"}, "control: 'none' is none of the arms (grpo, ours)"),
        ({"seeds": []}, "seeds: [] is not a list of different whole numbers"),
        ({"seeds": [1, 1]}, "seeds: [1, 1] is not a list of different whole numbers"),
        ({"seeds": [1.5]}, "seeds: [1.5] is not"),
        ({"seeds": [True]}, "seeds: [true] is not"),
        ({"seeds": 8}, "seeds: 8 is not"),
        ({"margin": -0.1}, "margin: -0.1 is not a number from 0"),
        ({"margin": float("nan")}, "margin: NaN is not"),
        ({"margin": True}, "margin: true is not"),
        ({"fewer_seeds": {"ours": [9]}}, "fewer_seeds: ours: 9 not among seeds"),
        ({"fewer_seeds": {"grpo": [1]}}, "fewer_seeds: 'grpo' is the control, which every seed needs"),
        ({"fewer_seeds": {"x": [1]}}, "fewer_seeds: 'x' is none of the arms"),
        ({"contexts": ["window"]}, "contexts: "),
        ({"contexts": ["history"]}, "primary: 'eval.after.window1.em': no evaluation in mode 'window1'"),
        ({"primary": "em"}, "primary: 'em' is no outcome: write train.reward.area or eval.after.MODE.KEY"),
        ({"primary": "eval.after.window1.turns"}, "'turns' is none of em, f1, format_share"),
        ({"secondary": [RAW["primary"]]}, "secondary: eval.after.window1.em is the primary outcome"),
        (
            {"may_differ": ["seed"]},
            'may_differ: ["seed"] is not a list of data, model, questions, evaluation',
        ),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], expected: str) -> None:
    lines = faults(**changes)
    assert len(lines) == 1 and expected in lines[0], lines


def test_all_faults_are_told_at_once() -> None:
    assert len(faults(margin="x", seeds=None, color="red")) == 3
    assert len(faults(control="x", primary="y", fewer_seeds={"z": [1]})) == 3


def test_what_is_missing_is_told_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: x\n")
    with pytest.raises(ExperimentError, match=r"control: missing; write the name of an arm") as error:
        read_protocol(tmp_path / "p.yaml")
    assert str(error.value).count(": missing; write ") == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arms:\n  a: []\n  a: [x=1]\n", "duplicate key"),
        ("a: [", "cannot be read as YAML"),
        ("- a\n", "a protocol is a mapping"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ExperimentError, match=expected):
        read_protocol(tmp_path / "p.yaml")
    with pytest.raises(ExperimentError, match="cannot be read"):
        read_protocol(tmp_path / "none.yaml")


def test_the_hash_is_of_what_the_protocol_says() -> None:
    protocol = small()
    assert protocol.sha256 == small(arms=dict(reversed(RAW["arms"].items()))).sha256, (
        "the order of keys says nothing"
    )
    assert protocol.sha256 == protocol_of(protocol.record, "again").sha256, (
        "defaults written out say the same"
    )
    changed = [small(margin=0.06), small(seeds=[2, 1]), small(notes=["x"]), small(overrides=["a=1"])]
    assert len({protocol.sha256, *(other.sha256 for other in changed)}) == 5


def test_secondary_outcomes_default_to_what_else_is_known() -> None:
    assert small().secondary == ["eval.after.history.em", "train.reward.area"]
    assert small(contexts=["window:1"]).secondary == ["train.reward.area"]
    assert small(secondary=[]).secondary == []
