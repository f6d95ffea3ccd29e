"""`mempo bench scoring` measures both sides on the same trajectories, and says under which settings."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from mempo.scoring.packing import schedule
from tests.mempo.scoring.models import build_model
from tools.bench.cli import app
from tools.bench.trajectories import FRAME, Shape, random_probes, random_trajectory


def bench(*words):
    return CliRunner().invoke(app, ["scoring", *words])


@pytest.fixture
def model(tmp_path):
    build_model("qwen3").save_pretrained(tmp_path)
    return tmp_path


def test_json_holds_one_object_per_number_of_turns(model):
    small = ["--turn", "40", "--memory", "8", "--answer", "3", "--repeats", "1", "--threads", "1"]
    finished = bench("--model", str(model), "--turns", "2", "--turns", "3", *small, "--json")
    assert finished.exit_code == 0, finished.output
    two, three = json.loads(finished.stdout)
    assert (two["turns"], three["turns"]) == (2, 3)
    # 2 turns: 200 + 3 of the first prompt, one turn, the next opening; two probes.
    history, memory, probe = 200 + 40 + 3, 200 + 3 + 8, sum(FRAME) + 3
    assert two["tokens_reference"] == history + memory + 2 * probe
    assert two["tokens_pass"] == 200 + 40 + 3 + 20
    assert two["max_abs_diff"] < 1e-4
    assert two["speedup"] == pytest.approx(two["seconds_reference"] / two["seconds_tree"], rel=0.05)
    assert two["share_of_logprob_pass"] == pytest.approx(two["seconds_tree"] / two["seconds_pass"], rel=0.05)
    assert two["settings"]["threads"] == 1 and two["settings"]["vocabulary"] == 97


def test_half_precision_tells_its_error(model):
    finished = bench("--model", str(model), "--turns", "2", "--turn", "40", "--memory", "8", "--repeats", "1",
                     "--dtype", "bfloat16", "--json")  # fmt: skip
    (result,) = json.loads(finished.stdout)
    assert 0 < result["max_abs_dp_to_fp32"] < 0.2


def test_a_folder_without_a_model_and_an_unknown_precision_are_named(tmp_path):
    assert "config.json" in bench("--model", str(tmp_path)).output
    assert "float8" in bench("--dtype", "float8").output


def test_the_trajectories_are_valid_and_the_tree_shares_their_histories():
    random = np.random.default_rng(0)
    trajectory = random_trajectory(Shape(4, turn=60, memory=10, answer=5), 97, random)
    assert len(trajectory.rows()) == 1  # raises for prompts that do not follow from the turns
    probes = random_probes(trajectory, 5, 97, random)
    assert len(probes) == 6
    assert schedule([probes], 10_000).tokens < len(max(probes, key=len)) + 6 * (10 + sum(FRAME) + 5)
