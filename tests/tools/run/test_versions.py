"""The installed set is compared with its lock; set-up installs what the locks say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools.run.versions import VersionMismatch, check_lock, differences, read_lock


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_locks_are_plain_pins_without_index_or_local_build(root: Path, name: str) -> None:
    path = root / "requirements" / f"{name}.lock"
    wanted = read_lock(path)
    assert len(wanted) > 100
    assert "://" not in path.read_text()
    assert not [version for version in wanted.values() if "+" in version]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_locks_lie_within_the_bounds_of_the_project(root: Path, name: str) -> None:
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {
        key.lower().replace("_", "-"): value
        for key, value in read_lock(root / "requirements" / f"{name}.lock").items()
    }
    for line in [*project["dependencies"], *extras[name], *extras["dev"]]:
        bound = Requirement(line)
        assert wanted[bound.name.lower().replace("_", "-")] in bound.specifier, line


def test_gpu_pins_are_those_of_verl(root: Path) -> None:
    wanted = read_lock(root / "requirements" / "gpu.lock")
    assert {name: wanted[name] for name in ("verl", "vllm", "torch", "transformers", "flash-attn")} == {
        "verl": "0.9.1",
        "vllm": "0.24.0",
        "torch": "2.11.0",
        "transformers": "5.9.0",
        "flash-attn": "2.8.3",
    }


def test_a_local_build_is_the_same_version() -> None:
    assert differences({"torch": "2.13.0"}, lambda name: "2.13.0+cpu") == []


def test_differences_name_package_and_both_versions(tmp_path: Path) -> None:
    found = differences({"torch": "2.13.0", "nothing": "1"}, {"torch": "2.12.0"}.get)
    assert [str(each) for each in found] == [
        "torch: the lock says 2.13.0, 2.12.0 is installed",
        "nothing: the lock says 1, it is not installed",
    ]
    lock = tmp_path / "x.lock"
    lock.write_text("# comment\npytest==0.0.1\n")
    with pytest.raises(VersionMismatch, match=r"pytest: the lock says 0\.0\.1.*\n.*setup\.sh"):
        check_lock(lock)


def test_a_line_that_is_no_pin_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "x.lock"
    lock.write_text("torch==1\nnumpy>=2\n")
    with pytest.raises(ValueError, match=r"x\.lock:2"):
        read_lock(lock)


def set_up(folder: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "setup.sh"), *arguments],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path, root: Path) -> Path:
    """A copy of what setup.sh reads, with locks of one package, and a PATH without pythons."""
    folder = tmp_path / "project"
    (folder / "requirements").mkdir(parents=True)
    for name in ("setup.sh", "pyproject.toml"):
        (folder / name).write_text((root / name).read_text())
    (folder / "setup.sh").chmod(0o755)
    for name in ("cpu", "gpu"):
        (folder / "requirements" / f"{name}.lock").write_text("torch==9.9.9\nother==1\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in (
        "bash",
        "dirname",
        "cat",
        "sha256sum",
        "cut",
        "grep",
        "touch",
        "mkdir",
        "rm",
        "flock",
        "env",
    ):
        for place in ("/usr/bin", "/bin"):
            if (Path(place) / name).exists():
                (tools / name).symlink_to(Path(place) / name)
                break
    return folder


def tool(folder: Path, name: str, text: str) -> None:
    path = folder.parent / "bin" / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def test_set_up_without_python_3_11_says_so(project: Path) -> None:
    tool(project, "python3", "exit 1")
    done = set_up(project, str(project.parent / "bin"))
    assert done.returncode == 1
    assert "Python 3.11 not found" in done.stderr
    assert not (project / ".venv").exists()


FAKE_PYTHON = """
if [[ "$*" == "-I -m venv "* ]]; then mkdir -p "$4/bin"; cat "$0" > "$4/bin/python"; /bin/chmod +x "$4/bin/python"; exit 0; fi
echo "$@" >> "${0%/*}/../calls"
[[ "$*" == *--editable* && -e "${0%/*}/../../../fail" ]] && exit 3
exit 0
"""


@pytest.mark.parametrize(
    ("listing", "kind"), [("GPU 0: NVIDIA H200", "gpu"), ("No devices were found", "cpu")]
)
def test_set_up_picks_by_what_the_machine_has_and_is_done_once(
    project: Path, listing: str, kind: str
) -> None:
    path = str(project.parent / "bin")
    tool(project, "python3.11", FAKE_PYTHON)
    tool(project, "nvidia-smi", f"echo '{listing}'")
    first = set_up(project, path)
    assert first.returncode == 0, first.stderr
    assert f"{kind} set" in first.stderr
    assert (project / ".venv" / "mempo-set-up").read_text().startswith(f"{kind} ")
    assert set_up(project, path).stderr == ""
    (project / "requirements" / f"{kind}.lock").write_text("torch==9.9.10\nother==1\n")
    assert "ready after" in set_up(project, path).stderr


def test_an_interrupted_set_up_begins_anew(project: Path) -> None:
    path = str(project.parent / "bin")
    tool(project, "python3.11", FAKE_PYTHON)
    (project.parent / "fail").touch()
    broken = set_up(project, path, "--cpu")
    assert broken.returncode == 1
    assert "failed: the project itself" in broken.stderr
    assert not (project / ".venv" / "mempo-set-up").exists()
    (project.parent / "fail").unlink()
    again = set_up(project, path, "--cpu")
    assert again.returncode == 0
    assert "interrupted: beginning anew" in again.stderr
    assert (project / ".venv" / "mempo-set-up").exists()


def test_the_other_set_by_hand_begins_anew_and_stays(project: Path) -> None:
    path = str(project.parent / "bin")
    tool(project, "python3.11", FAKE_PYTHON)
    assert set_up(project, path, "--cpu").returncode == 0
    assert "the other set" in set_up(project, path, "--gpu").stderr
    assert set_up(project, path).stderr == ""
