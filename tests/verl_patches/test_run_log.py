"""The run folder: one JSON object per step, also after a kill and a resume."""

import json

import numpy as np
import pytest
import torch

from mempo.memory_scores import TurnScore
from mempo.probe import ANSWER_TAG
from mempo.task import Reference
from mempo.trajectory import Trajectory
from verl_patches.records import SessionRecord
from verl_patches.run_log import RunLog, spread


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_numbers_become_plain_json(tmp_path):
    RunLog(tmp_path).metrics(
        1, {"a": np.float32(0.5), "b": 2, "nan": float("nan"), "text": "x", "array": np.ones(2)}
    )
    assert lines(tmp_path) == [{"step": 1, "a": 0.5, "b": 2, "nan": None}]


def test_a_resumed_run_takes_back_what_it_repeats(tmp_path):
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.metrics(step, {"a": step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "a"')  # killed while writing
    RunLog(tmp_path, resumed_step=2).metrics(3, {"a": 30})
    assert [(line["step"], line["a"]) for line in lines(tmp_path)] == [(1, 1), (2, 2), (3, 30)]


async def test_a_sample_can_be_read_by_people_and_by_programs(tmp_path, roll, tokens):
    record = SessionRecord("a_0", await roll(), Reference([["rome"]]), ANSWER_TAG, 1.0, {"acc": 1.0}, 2, {})
    rows = [
        torch.full((len(row.response_ids),), float(index))
        for index, row in enumerate(record.trajectory.rows())
    ]
    scores = {"a_0": [TurnScore(1, "scored", 0.5, 0.25, 3)]}
    RunLog(tmp_path).trajectories(4, [record], scores, {"a_0": rows}, tokens)
    line = json.loads((tmp_path / "trajectories" / "step_4.jsonl").read_text())
    assert "<search>\nrome\n</search>" in line["text"]
    assert line["memory"][0]["reward"] == 0.25
    assert line["reward"] == 1.0
    assert Trajectory.from_record(line["trajectory"]) == record.trajectory
    assert ["".join(turn["text"]) for turn in line["tokens"]] == [
        tokens.decode(turn.written_ids) for turn in record.trajectory.turns
    ]


@pytest.mark.parametrize(("count", "chosen"), [(0, []), (2, [0, 2]), (9, [0, 1, 2, 3])])
def test_samples_are_spread_over_the_batch(count, chosen):
    assert spread([0, 1, 2, 3], count) == chosen
