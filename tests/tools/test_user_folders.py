"""HOME and TMPDIR: what cannot be written to is replaced aloud, what can stays."""

from __future__ import annotations

import os
import socket
import urllib.request
from pathlib import Path

import pytest

from tools import user_folders
from tools.user_folders import LONGEST_TMPDIR, FolderError, usable_folders

NOWHERE = "/proc/nowhere"  # cannot be made or written to, not by root either


@pytest.fixture
def good(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "TMPDIR": "/tmp"}


def short(tmp_path: Path) -> Path:
    return tmp_path


def test_folders_that_work_stay(good: dict[str, str], tmp_path: Path) -> None:
    changes = usable_folders(good, tmp_path / "spare", lambda: pytest.fail("no folder is needed"))
    assert (changes.variables, changes.notes) == ({}, [])


@pytest.mark.parametrize("home", [NOWHERE, "a file"])
def test_a_home_that_cannot_be_written_to_is_replaced_aloud(
    good: dict[str, str], tmp_path: Path, home: str
) -> None:
    (tmp_path / "a file").touch()
    changes = usable_folders(good | {"HOME": str(tmp_path / home)}, tmp_path / "spare", lambda: tmp_path)
    assert changes.variables == {"HOME": str(tmp_path / "spare" / "home")}
    assert Path(changes.variables["HOME"]).is_dir()
    assert home in changes.notes[0]


def test_models_and_credentials_of_a_read_only_home_are_still_read(
    good: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".cache" / "huggingface").mkdir(parents=True)
    (tmp_path / ".netrc").touch()
    real = user_folders.is_writable
    monkeypatch.setattr(user_folders, "is_writable", lambda folder: folder != tmp_path and real(folder))
    changes = usable_folders(good | {"NETRC": "/mine"}, tmp_path / "spare", lambda: tmp_path)
    assert changes.variables["HF_HOME"] == str(tmp_path / ".cache" / "huggingface")
    assert "NETRC" not in changes.variables  # what the user has set stays
    assert "RAY_AUTH_TOKEN_PATH" not in changes.variables


def test_a_read_only_folder_of_models_is_read_and_its_caches_go_elsewhere(
    good: dict[str, str], tmp_path: Path
) -> None:
    changes = usable_folders(good | {"HF_HOME": "/proc", "HF_XET_CACHE": "/mine"}, tmp_path, lambda: tmp_path)
    assert changes.variables == {
        name: str(tmp_path / "huggingface" / place)
        for name, place in (("HF_DATASETS_CACHE", "datasets"), ("HF_MODULES_CACHE", "modules"))
    }
    own = good | {"HF_HOME": str(tmp_path)}
    assert usable_folders(own, tmp_path, lambda: tmp_path).variables == {}


def test_no_writable_home_at_all_is_named(good: dict[str, str]) -> None:
    with pytest.raises(FolderError, match="set HOME"):
        usable_folders(good | {"HOME": NOWHERE}, Path(NOWHERE), lambda: Path("/tmp"))


def test_a_tmpdir_that_cannot_be_written_to_is_replaced_by_a_short_one(
    good: dict[str, str], tmp_path: Path
) -> None:
    changes = usable_folders(good | {"TMPDIR": NOWHERE}, tmp_path, lambda: Path("/tmp/short"))
    assert changes.variables == {"TMPDIR": "/tmp/short"}
    assert "TMPDIR" in changes.notes[0]


def test_a_tmpdir_that_no_socket_fits_in_gets_a_short_name_and_keeps_the_files(
    good: dict[str, str], tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    made = user_folders._short_folder()
    changes = usable_folders(good | {"TMPDIR": str(long)}, tmp_path, lambda: made)
    name = Path(changes.variables["TMPDIR"])
    assert len(str(name)) <= LONGEST_TMPDIR
    assert str(name) in changes.notes[0]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(name / "socket"))
    assert os.listdir(long) == ["socket"]
    user_folders._remove(made, os.getpid())
    assert os.listdir(long) == ["socket"], "only the name goes"


def test_the_longest_tmpdir_leaves_room_for_rays_sockets(tmp_path: Path) -> None:
    session = "ray/session_2026-12-01_01-50-11_383101_4194304/sockets/plasma_store"
    path = "x" * LONGEST_TMPDIR + "/" + session
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(FileNotFoundError):
        one.connect(path)  # no such file, but not "path too long"
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(OSError, match="too long"):
        one.connect("x" * 40 + path)


def test_the_short_folder_is_private() -> None:
    folder = user_folders._short_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder)) <= LONGEST_TMPDIR
    user_folders._remove(folder, os.getpid() + 1)
    assert folder.is_dir()
    user_folders._remove(folder, os.getpid())
    assert not folder.exists()


def test_proxies_never_take_calls_to_this_machine(good: dict[str, str], tmp_path: Path) -> None:
    given = good | {"HTTPS_PROXY": "http://127.0.0.1:9", "no_proxy": "example.org, localhost"}
    changes = usable_folders(given, tmp_path, lambda: tmp_path)
    assert changes.variables == {
        "no_proxy": "example.org,localhost,127.0.0.1,::1",
        "NO_PROXY": "example.org,localhost,127.0.0.1,::1",
    }
    assert (
        usable_folders(given | {"no_proxy": "*", "NO_PROXY": "*"}, tmp_path, lambda: tmp_path).variables == {}
    )


def test_hosts_without_a_proxy_stay_so_whichever_spelling_names_them(
    good: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    given = {"ALL_PROXY": "http://127.0.0.1:9", "NO_PROXY": "intra.example"}
    for name, value in (given | usable_folders(good | given, tmp_path, lambda: tmp_path).variables).items():
        monkeypatch.setenv(name, value)
    assert all(map(urllib.request.proxy_bypass, ("intra.example", "127.0.0.1", "localhost", "::1")))
    assert not urllib.request.proxy_bypass("api.example.org"), "others' servers keep the proxy"
