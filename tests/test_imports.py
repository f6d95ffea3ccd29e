"""The edges between the rooms, held by reading the imports of every module: they point one way."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("mempo", "verl_patches", "tools", "eval")
OUTSIDE_OF_MEMPO = {"torch", "numpy", "tokenizers"}  # tokenizers: the interface of what a caller passes in
# The token tree runs inside a model, through the attention interface of transformers.
OUTSIDE_OF_SCORING = OUTSIDE_OF_MEMPO | {"transformers", "flash_attn"}
# Parts of tools that are programs over everything, and may import any room if they do so lazily.
PROGRAMS = ("tools.cli", "tools.experiment", "tools.run", "tools.release", "tools.view")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(module, line, whether at import time of this one) for every import of a file; relative ones made absolute."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    later: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if lazy or typing_only:
            later.update(ast.walk(node))
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, node not in later) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            # `from tools.search import client` names a module too
            names = [name, *(f"{name}.{alias.name}" for alias in node.names)]
            found += [(each, node.lineno, node not in later) for each in names]
    return found


FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def offences(allowed_by_room: dict[str, tuple[str, ...]], room: str) -> list[str]:
    wrong = []
    for path in FILES:
        name = module_name(path)
        if not inside(name, room):
            continue
        for target, line, _ in imports(path):
            crosses = target.split(".")[0] in ROOMS and not inside(target, room)
            # `from tools.search.client import SearchClient` also yields tools.search.client.SearchClient
            if crosses and not any(inside(target, allowed) for allowed in allowed_by_room[room]):
                wrong.append(f"{name}:{line} imports {target}")
    return wrong


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("mempo", ()),
        ("verl_patches", ("mempo", "tools.search.client")),
        ("eval", ("mempo", "tools.search.client")),
    ],
)
def test_a_room_imports_only_what_it_may(room: str, allowed: tuple[str, ...]) -> None:
    assert offences({room: allowed}, room) == []


def test_mempo_needs_little() -> None:
    wrong = [
        f"{module_name(path)}:{line} imports {target}"
        for path in FILES
        if inside(module_name(path), "mempo")
        for target, line, _ in imports(path)
        if (top := target.split(".")[0]) != "mempo"
        and top
        not in (OUTSIDE_OF_SCORING if inside(module_name(path), "mempo.scoring") else OUTSIDE_OF_MEMPO)
        and top not in sys.stdlib_module_names
    ]
    assert wrong == []


def test_the_search_client_brings_no_server_along() -> None:
    reached, waiting = set(), ["tools.search.client"]
    while waiting:
        name = waiting.pop()
        path = ROOT / Path(*name.split(".")).with_suffix(".py")
        if name in reached or not path.is_file():
            continue
        reached.add(name)
        waiting += [target for target, _, _ in imports(path) if inside(target, "tools")]
    assert all(inside(name, "tools.search") for name in reached)
    outside = {
        target.split(".")[0]
        for name in reached
        for target, _, _ in imports(ROOT / Path(*name.split(".")).with_suffix(".py"))
    }
    assert not outside & {"fastapi", "uvicorn", "bm25s", "Stemmer", "verl", "vllm", "ray"}


def test_no_python_of_ours_takes_packages_from_the_current_folder() -> None:
    """`-m` without `-P` puts the current folder first: a user's httpx.py would be taken for the package."""
    wrong = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = [ast.unparse(item) for item in node.elts] if isinstance(node, ast.List) else []
            if words[:1] == ["sys.executable"] and "'-m'" in words and words[1] != "'-P'":
                wrong.append(f"{module_name(path)}:{node.lineno}")
    assert wrong == []


def test_only_verl_patches_imports_verl() -> None:
    wrong = [
        f"{module_name(path)}:{line} imports {target}"
        for path in FILES
        if not inside(module_name(path), "verl_patches")
        for target, line, _ in imports(path)
        if inside(target, "verl")
    ]
    assert wrong == []


def test_programs_import_other_rooms_lazily() -> None:
    wrong = [
        f"{module_name(path)}:{line} imports {target}"
        for path in FILES
        if any(inside(module_name(path), program) for program in PROGRAMS)
        for target, line, at_import in imports(path)
        if at_import and target.split(".")[0] in ("verl_patches", "eval")
    ]
    assert wrong == []


def test_tools_other_than_programs_keep_to_themselves() -> None:
    wrong = [
        f"{module_name(path)}:{line} imports {target}"
        for path in FILES
        if inside(module_name(path), "tools")
        and not any(inside(module_name(path), program) for program in PROGRAMS)
        for target, line, _ in imports(path)
        if target.split(".")[0] in ("verl_patches", "eval")
    ]
    assert wrong == []


def test_our_own_tests_are_not_shadowed_by_those_that_verl_installs() -> None:
    import tests

    assert Path(str(tests.__file__)).parent == ROOT / "tests"
