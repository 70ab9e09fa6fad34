"""What an engine links: the installed headers, libraries, CMake package and pkg-config file, used outside the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import c_library
import exported_symbols
from c_library import installed
from kvopt import _core, config

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "linking"
HEADERS = ROOT / "csrc" / "include"
HEADER = (HEADERS / "kvopt" / "kvopt.h").read_text()
WARNINGS = "-Wall -Wextra -Wpedantic -Werror"


def tool(*names: str) -> str:
    """A program of this environment, else of the system."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = [path for name in names if (path := shutil.which(name, path=folders)) is not None]
    if not found:
        pytest.skip(f"there is no {' or '.join(names)}: install one")
    return found[0]


def run(*command: object, cwd: Path | None = None, code: int = 0, **environment: str) -> str:
    """What a command prints; it must end with this code."""
    result = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == code, result.stdout
    return result.stdout


def cmake(source: Path, build: Path, *options: str, code: int = 0) -> str:
    tool("c++", "g++", "clang++")
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    package = installed(config.cmake_dir())
    return run(tool("cmake"), *generator, "-S", source, "-B", build, f"-Dkvopt_DIR={package}", *options, code=code)


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "source")
    examples = tmp_path / "build"
    cmake(tmp_path / "source", examples, f"-DCMAKE_C_FLAGS={WARNINGS}", f"-DCMAKE_CXX_FLAGS={WARNINGS}")
    run(tool("cmake"), "--build", examples)
    said = run(examples / "own_policy")
    assert re.search(r"^lru: +4 of 40 blocks hit$", said, re.MULTILINE)
    assert re.search(r"^fewest hits: 40 of 40 blocks hit$", said, re.MULTILINE)
    assert "as expected: no policy is called 'fewest-hits'" in said
    said = run(examples / "from_c")
    assert "turn 4: 4 of 4 blocks hit" in said
    assert "0 invariants are broken" in said
    assert re.search(r"^as expected: handle \d+ is no live block pool$", said, re.MULTILINE)
    cached = {}
    for policy in ("priority", "lru", "cost-aware"):
        said = run(examples / "engine_loop", policy)
        found = re.fullmatch(r"\d+ requests in [\d.]+ s, ([\d.]+)% of their blocks were cached, \d+ .+\n", said)
        assert found, said
        cached[policy] = float(found[1])
    assert cached["priority"] > cached["lru"] > 0
    assert "did you mean 'lru'" in run(examples / "engine_loop", "lur", code=1)
    # What links the static library shows nothing of it.
    assert [name for name in exported_symbols.exported(examples / "own_policy") if "kvopt" in name] == []
    assert "libkvopt" not in run(tool("readelf"), "-d", examples / "own_policy")
    assert "libkvopt.so" in run(tool("readelf"), "-d", examples / "from_c")


@pytest.mark.parametrize(
    ("find", "linked"),
    [
        ("find_package(kvopt CONFIG REQUIRED)", "kvopt::kvopt_static"),
        ("find_package(kvopt 0.1 CONFIG REQUIRED COMPONENTS static)", "kvopt::kvopt_static"),
        ("find_package(kvopt CONFIG REQUIRED COMPONENTS shared)", "kvopt::kvopt_shared"),
    ],
)
def test_a_project_chooses_static_or_shared(tmp_path: Path, find: str, linked: str) -> None:
    said = cmake(written(tmp_path, find), tmp_path / "build")
    assert f"linked: {linked}\n" in said


@pytest.mark.parametrize(
    ("find", "why"),
    [
        ("find_package(kvopt CONFIG REQUIRED COMPONENTS dynamic)", "components 'static' and 'shared', not 'dynamic'"),
        ("find_package(kvopt CONFIG REQUIRED COMPONENTS static shared)", "name 'static' or 'shared'"),
        ("find_package(kvopt 9.0 CONFIG REQUIRED)", "compatible with requested version"),
        (
            "find_package(kvopt CONFIG REQUIRED)\nfind_package(kvopt CONFIG REQUIRED COMPONENTS shared)",
            "was found before in this project as kvopt::kvopt_static",
        ),
    ],
)
def test_a_choice_that_there_is_none_of_is_refused(tmp_path: Path, find: str, why: str) -> None:
    assert why in " ".join(cmake(written(tmp_path, find), tmp_path / "build", code=1).split())


def written(folder: Path, find: str) -> Path:
    """A project that looks for KVopt and prints what it would link; no language, so nothing is compiled."""
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\n"
        "project(choice LANGUAGES NONE)\n"
        "set(CMAKE_SIZEOF_VOID_P 8)\n"
        f"{find}\n"
        "get_target_property(linked kvopt::kvopt INTERFACE_LINK_LIBRARIES)\n"
        'message(STATUS "linked: ${linked}")\n'
    )
    return folder


@pytest.mark.parametrize("by", ["pkg-config", "config"])
def test_a_c_program_is_compiled_with_one_command(tmp_path: Path, by: str) -> None:
    compiler = tool("cc", "gcc", "clang")
    if by == "pkg-config":
        path = str(installed(config.pkgconfig_dir()))
        options = run(tool("pkg-config"), "--cflags", "--libs", "kvopt", PKG_CONFIG_PATH=path).split()
    else:
        answers = run(sys.executable, "-m", "kvopt.config", "--include-dir", "--libs").splitlines()
        options = [f"-I{answers[0]}", *answers[1].split()]
    library = installed(config.library_dir())
    run(compiler, "-std=c99", *WARNINGS.split(), EXAMPLES / "from_c.c", *options, "-o", tmp_path / "from_c")
    path = str(library) if by == "pkg-config" else ""
    assert "0 invariants are broken" in run(tmp_path / "from_c", LD_LIBRARY_PATH=path)


def test_the_folders_are_said_and_exist() -> None:
    said = run(sys.executable, "-m", "kvopt.config", "--cmake-dir", "--pkgconfig-dir", "--include-dir").splitlines()
    assert said == [str(config.cmake_dir()), str(config.pkgconfig_dir()), str(config.include_dir())]
    assert installed(config.cmake_dir() / "kvopt-config.cmake").is_file()
    assert installed(config.pkgconfig_dir() / "kvopt.pc").is_file()
    assert installed(config.library_dir() / "libkvopt.a").is_file()
    assert "name at least one of --include-dir" in run(sys.executable, "-m", "kvopt.config", code=2)


def test_nothing_that_is_installed_names_the_folder_where_it_was_built() -> None:
    package = installed(config.cmake_dir())
    files = [*package.iterdir(), *config.pkgconfig_dir().iterdir()]
    assert len(files) >= 5
    assert [path.name for path in files if str(ROOT) in path.read_text()] == []


def test_the_libraries_are_not_large() -> None:
    """A wheel holds the core three times: they must stay a few megabytes, without debugging or link-time code."""
    folder = installed(config.library_dir())
    assert (folder / "libkvopt.so").stat().st_size < 3_000_000
    assert (folder / "libkvopt.a").stat().st_size < 6_000_000
    assert b".gnu.lto_" not in (folder / "libkvopt.a").read_bytes()


def test_the_shared_library_shows_what_is_listed() -> None:
    library = installed(config.library_dir() / "libkvopt.so")
    shown = {name for name in exported_symbols.exported(library) if not exported_symbols.is_type_table(name)}
    listed = {line.split()[0] for line in exported_symbols.LIST.read_text().splitlines()}
    assert (sorted(shown - listed), sorted(listed - shown)) == ([], []), exported_symbols.__doc__


def test_the_docs_are_true(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "linking.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    source = tmp_path / "docs.c"
    source.write_text(f"#include <kvopt/kvopt.h>\n#include <stdio.h>\nint main(void) {{\n{code}return 0;\n}}\n")
    run(tool("cc", "gcc", "clang"), "-std=c99", *WARNINGS.split(), "-fsyntax-only", f"-I{HEADERS}", source)
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert targets
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
    assert set(re.findall(r"python -m kvopt.config (--[a-z-]+)", text)) == set(config.ANSWERS)


def test_the_c_functions_are_those_of_the_header() -> None:
    declared = set(re.findall(r"^KVOPT_API [^;(]*?(kvopt_\w+)\(", HEADER, re.MULTILINE))
    listed = {name for name in exported_symbols.LIST.read_text().split() if name.startswith("kvopt_")}
    assert declared == listed
    assert declared == {*c_library.functions(), "kvopt_last_error", "kvopt_version"}


def test_the_extension_shows_nothing_but_its_entry() -> None:
    assert exported_symbols.exported(Path(_core.__file__)) == ["PyInit__core"]
