"""What holds for the source tree as a whole: one version, quick imports, layers, no leftovers."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvopt

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "kvopt"

# The floors, lowest first: a package imports packages of lower floors only, and what stands in kvopt itself.
FLOORS = [
    {"policies", "cost", "scoring"},
    {"cache"},
    {"workload", "scheduler", "metrics"},
    {"continuum"},
    {"simulator"},
    {"cli"},
]
GROUND = {"", "_core", "errors", "output_file"}
MAY_IMPORT = {
    package: set().union(GROUND, {package}, *FLOORS[:floor])
    for floor, packages in enumerate(FLOORS)
    for package in packages
}
MAY_IMPORT["vllm"] = GROUND | {"vllm", "policies", "cache", "cost", "workload", "continuum", "metrics"}
MAY_IMPORT["cli"] |= {"vllm"}
MAY_IMPORT["__main__"] = GROUND | {"cli"}
MAY_IMPORT["config"] = GROUND
MAY_IMPORT["errors"] = set()
MAY_IMPORT["output_file"] = {"errors"}

HEAVY = {"click", "matplotlib", "msgspec", "pyarrow", "rich", "torch", "vllm"}
SOURCES = {".c", ".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".in", ".map", ".py", ".pyi", ".toml", ".txt", ".md"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, module_level: bool = False) -> Iterator[tuple[int, str]]:
    """Line and full module name of each import; `from a import b` counts as a.b, so that b may be a module."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(), str(path))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{name.name}") for name in node.names)
        elif not (module_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            waiting.extend(ast.iter_child_nodes(node))


def test_version_is_the_same_everywhere() -> None:
    header = (ROOT / "csrc/include/kvopt/version.hpp").read_text()
    (version,) = re.findall(r'#define KVOPT_VERSION "(.+)"', header)
    assert importlib.metadata.version("kvopt") == version
    assert kvopt.__version__ == version
    assert kvopt.build_info()["version"] == version


def test_changelog_has_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == kvopt.__version__
    assert kvopt.__version__ in headings


def test_import_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import json, sys, time\n"
        "begin = time.process_time()\n"
        "import kvopt\n"
        "seconds = time.process_time() - begin\n"
        "print(json.dumps([seconds, sorted({name.partition('.')[0] for name in sys.modules})]))\n"
    )
    seconds = []
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
        elapsed, loaded = json.loads(run.stdout)
        seconds.append(elapsed)
        assert HEAVY.isdisjoint(loaded)
    assert min(seconds) < 0.15


# kvopt/__init__.py may name anything; the test above bounds what it loads.
@pytest.mark.parametrize(
    "path", [p for p in modules() if p != PACKAGE / "__init__.py"], ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_packages_import_downwards_only(path: Path) -> None:
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert package in MAY_IMPORT, "give this module of kvopt a floor"
    allowed = MAY_IMPORT[package]
    known = MAY_IMPORT.keys() | GROUND
    upward = []
    for line, name in imports(path):
        first, _, rest = name.partition(".")
        if first == "kvopt":
            target = rest.partition(".")[0]
            if (target if target in known else "") not in allowed:
                upward.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert upward == []


def test_every_package_has_a_floor() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= MAY_IMPORT.keys()


@pytest.mark.parametrize("foreign", ["torch", "vllm"])
def test_foreign_engines_are_not_imported_at_import_time(foreign: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules()
        if not (foreign == "vllm" and "vllm" in path.relative_to(PACKAGE).parts)
        for line, name in imports(path, module_level=foreign == "torch")
        if name.partition(".")[0] == foreign
    ]
    assert found == []


def test_no_leftovers() -> None:
    pattern = re.compile(r"\b(?:" + "TO" "DO|FIX" "ME|XX" r"X)\b")
    folders = ("csrc", "cuda", "cmake", "python", "tests", "bench", "docs", "examples")
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in SOURCES]
    files += [p for p in ROOT.iterdir() if p.suffix in SOURCES or p.name == "Makefile"]
    assert len(files) > 10
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []
