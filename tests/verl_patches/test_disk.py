"""A disk that takes no more is recognised whatever wrote to it, and named with the file and the last checkpoint."""

import errno
import os

import pytest
import ray
from safetensors import SafetensorError

from tests.verl_patches.saved import checkpoint
from verl_patches.disk import DiskFull, disk_full, refusal, said_refusal, writing

# What was seen on a full disk. Not provoked on /dev/full: safetensors and pyarrow take the device itself away.
SEEN = {
    "plainly": OSError(errno.ENOSPC, "No space left on device"),
    "torch": RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598"),
    "torch, in a tensor": RuntimeError(
        "[enforce fail at inline_container.cc:858] . PytorchStreamWriter failed writing file data/0: file write failed"
    ),
    "safetensors": SafetensorError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    ),
    "parquet": OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"),
}


@pytest.mark.parametrize("library", SEEN)
def test_whatever_writes_is_told_in_one_line(library, tmp_path):
    checkpoint(tmp_path, 2)
    with pytest.raises(DiskFull) as caught, writing(tmp_path / "global_step_4"):
        raise SEEN[library]
    line = disk_full(caught.value, tmp_path)
    assert "\n" not in line
    assert "while writing " in line
    assert "MiB free" in line
    assert line.endswith("last complete checkpoint: step 2; free space and start the same command again")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_the_file_of_the_error_goes_before_the_folder_around_it(number, tmp_path):
    with pytest.raises(DiskFull, match=rf"while writing a.json in {tmp_path} "), writing(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "a.json"))
    assert "last complete checkpoint: none" in disk_full(OSError(number, "x"), tmp_path)


def test_it_is_found_behind_other_errors(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    carried = ray.exceptions.RayTaskError("save", "a long traceback", full).as_instanceof_cause()
    said = ray.exceptions.RayTaskError("step", "a long traceback", DiskFull("disk full: while writing x"))
    for error in (carried, said.as_instanceof_cause(), ExceptionGroup("tasks", [KeyError(1), full])):
        assert "\n" not in disk_full(error, tmp_path)
    assert disk_full(said.as_instanceof_cause(), tmp_path).startswith("disk full: while writing x (")
    outer = ValueError("later")
    outer.__context__ = full
    assert refusal(outer) == "disk full"


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(PermissionError), writing(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert disk_full(ValueError("unexpected position"), tmp_path) is None
    assert said_refusal("the last lines:\nKeyError: 28") is None
