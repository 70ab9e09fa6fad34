"""_core.pyi says exactly what the binary has: names, kinds and properties by stubtest, argument names by docstring."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import kvopt
from kvopt import _core

PACKAGE = Path(kvopt.__file__).parent
STUB = PACKAGE / "_core.pyi"
ABSENT = re.compile("" if _core.build_info()["cuda"] else r"(kvopt\._core\.)?(Cuda|cuda_)\w+")
"""What a build without a CUDA compiler leaves out; in one with it, nothing."""
METACLASS = "is inconsistent, metaclass differs"  # pybind11's own, which a stub cannot name

MISSING = "is not present at runtime"

Functions = dict[str, list["Signature"]]  # overloads by "function" or "Class.method"


def is_absent(name: str) -> bool:
    return bool(ABSENT.pattern) and ABSENT.fullmatch(name) is not None


class Signature(NamedTuple):
    positional_only: tuple[str, ...]
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    variadic: tuple[str, ...]
    with_default: tuple[str, ...]


def signature_of(arguments: ast.arguments) -> Signature:
    """The names of the arguments, without self, and which of them have a default."""
    ordered = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    defaults = ordered[len(ordered) - len(arguments.defaults) :]
    defaults += [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return Signature(
        tuple(a.arg for a in arguments.posonlyargs if a.arg != "self"),
        tuple(a.arg for a in arguments.args if a.arg != "self"),
        tuple(a.arg for a in arguments.kwonlyargs),
        tuple(a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None),
        tuple(defaults),
    )


def functions_of_stub() -> Functions:
    found: Functions = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                decorators = {ast.unparse(d) for d in node.decorator_list}
                if not any(d == "property" or d.endswith(".setter") for d in decorators):
                    found.setdefault(prefix + node.name, []).append(signature_of(node.args))

    collect(ast.parse(STUB.read_text()).body, "")
    return found


def signatures_in(docstring: str, name: str) -> list[Signature]:
    """What pybind11 writes at the top of a docstring: one signature, or a numbered list of overloads."""
    lines = docstring.splitlines()
    if lines[0] == f"{name}(*args, **kwargs)" and lines[1:2] == ["Overloaded function."]:
        lines = [m[1] for line in lines if (m := re.fullmatch(rf"\d+\. ({re.escape(name)}\(.*)", line))]
    else:
        lines = lines[:1]
    parsed = []
    for line in lines:
        source = re.sub(r"<[^<>]*>", "...", line)  # defaults without a literal form, enum values among them
        (node,) = ast.parse(f"def {source}: ...").body
        assert isinstance(node, ast.FunctionDef)
        parsed.append(signature_of(node.args))
    return parsed


def functions_of_binary() -> Functions:
    found: Functions = {}

    def collect(owner: object, prefix: str) -> None:
        for name, value in vars(owner).items():
            if isinstance(value, type):
                collect(value, f"{prefix}{name}.")
                continue
            function = value.__func__ if isinstance(value, staticmethod) else value
            generated = re.match(rf"{re.escape(name)}\(", inspect.getdoc(function) or "")
            if callable(function) and generated and (name == "__init__" or not name.startswith("_")):
                found[prefix + name] = signatures_in(inspect.getdoc(function) or "", name)

    collect(_core, "")
    return found


def test_argument_names_are_those_of_the_binary() -> None:
    binary, stub = functions_of_binary(), functions_of_stub()
    assert "build_info" in binary
    assert "PrefixTrace.chain" in binary
    public = {name: s for name, s in stub.items() if name in binary or not name.rpartition(".")[2].startswith("__")}
    public = {name: s for name, s in public.items() if not is_absent(name.partition(".")[0])}
    assert public.keys() == binary.keys()
    assert {name: public[name] for name in binary if public[name] != binary[name]} == {}


def test_every_argument_has_a_name() -> None:
    unnamed = [
        name
        for name, overloads in functions_of_binary().items()
        if any(re.fullmatch(r"arg\d+", a) for s in overloads for a in (*s.positional_only, *s.positional))
    ]
    assert unnamed == [], "give each a py::arg in its binding"


def test_signatures_are_read_from_docstrings() -> None:
    plain = "append(self: kvopt._core.B, ids: typing.Annotated[T, numpy.uint64], scope: int = 0) -> int\n\nAppend."
    assert signatures_in(plain, "append") == [Signature((), ("ids", "scope"), (), (), ("scope",))]
    overloaded = (
        "f(*args, **kwargs)\nOverloaded function.\n\n1. f(a: int, /) -> None\n\nOne.\n\n"
        "2. f(*, reason: kvopt._core.R = <R.none: 0>) -> None\n\nTwo."
    )
    assert signatures_in(overloaded, "f") == [
        Signature(("a",), (), (), (), ()),
        Signature((), (), ("reason",), (), ("reason",)),
    ]


def test_stubtest_finds_no_difference(tmp_path: Path) -> None:
    pytest.importorskip("mypy.stubtest", reason="mypy is not installed (it comes with kvopt[lint])")
    (tmp_path / "kvopt").symlink_to(PACKAGE)  # mypy does not see editable installs
    run = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "kvopt._core", "--concise"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = run.stdout.splitlines()
    lines = [line for line in lines if not line.endswith(METACLASS)]
    found = [line for line in lines if not (line.endswith(MISSING) and is_absent(line.partition(" ")[0]))]
    assert (found, run.stderr) == ([], "")
    assert run.returncode == 0 or METACLASS in run.stdout or len(found) < len(lines)


def test_the_package_is_marked_as_typed() -> None:
    assert STUB.is_file()
    assert (PACKAGE / "py.typed").is_file()
