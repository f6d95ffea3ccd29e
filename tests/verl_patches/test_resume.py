"""A kill while verl writes its pointer does not lose the checkpoints."""

import pytest

from verl_patches.resume import TRACKER, repair_tracker


def checkpoint(folder, step, complete=True):
    path = folder / f"global_step_{step}"
    path.mkdir()
    if complete:
        (path / "data.pt").touch()


def test_a_good_pointer_stays(tmp_path):
    checkpoint(tmp_path, 1)
    checkpoint(tmp_path, 2)
    (tmp_path / TRACKER).write_text("1")
    assert repair_tracker(tmp_path) == 1


@pytest.mark.parametrize("torn", ["", "x"])
def test_a_torn_pointer_names_the_newest_complete_checkpoint(tmp_path, torn):
    checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11, complete=False)
    (tmp_path / TRACKER).write_text(torn)
    assert repair_tracker(tmp_path) == 10
    assert (tmp_path / TRACKER).read_text() == "10"


def test_without_a_checkpoint_there_is_nothing_to_repair(tmp_path):
    assert repair_tracker(tmp_path) is None
    checkpoint(tmp_path, 1)
    assert repair_tracker(tmp_path) is None, "verl had not pointed at it yet"
