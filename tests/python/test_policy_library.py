"""Policies in C++ that are compiled outside the project, against the installed headers, and loaded at run time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import KVOPT
from kvopt import config
from kvopt.errors import PolicyLibraryError
from kvopt.policies import load_library

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "policy" / "outside_lru.cpp"
CASES = Path(__file__).parent / "data" / "policy_library.cpp"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def compiler() -> list[str]:
    """The compiler that CXX names or the system has."""
    command = (
        os.environ.get("CXX", "").split()
        or [name for name in ("c++", "g++", "clang++") if shutil.which(name) is not None][:1]
    )
    if not command:
        pytest.skip("there is no C++ compiler: set CXX, or install one")
    return [*command, "-std=c++20", *WARNINGS, f"-I{config.include_dir()}"]


def build(source: Path, library: Path) -> Path:
    # no-undefined: a plugin needs nothing but the headers, so it must link by itself.
    options = ["-O1", "-shared", "-fPIC", "-Wl,--no-undefined"]
    subprocess.run([*compiler(), *options, str(source), "-o", str(library)], check=True, timeout=300)
    return library


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of the docs, compiled."""
    return build(EXAMPLE, tmp_path_factory.mktemp("library") / "outside_lru.so")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CASES, compiled."""
    return build(CASES, tmp_path_factory.mktemp("library") / "cases.so")


def run(*arguments: object, case: str = "") -> subprocess.CompletedProcess[str]:
    """A process of its own, because a library stays loaded to the end."""
    return subprocess.run(
        [*map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"KVOPT_TEST_CASE": case},
    )


def kvopt(*arguments: object, case: str = "") -> str:
    result = run(*KVOPT, *arguments, case=case)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def refusal(*arguments: object, case: str = "") -> str:
    result = run(*KVOPT, *arguments, case=case)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("kvopt: error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_headers_are_installed_and_each_compiles_alone(tmp_path: Path) -> None:
    printed = run(sys.executable, "-m", "kvopt.config", "--include-dir").stdout
    assert printed == f"{config.include_dir()}\n"
    headers = sorted(path.name for path in (Path(printed.strip()) / "kvopt").iterdir())
    assert headers == sorted(path.name for path in (ROOT / "csrc" / "include" / "kvopt").iterdir())
    for header in headers:
        (tmp_path / f"{header}.cpp").write_text(f"#include <kvopt/{header}>\n#include <kvopt/{header}>\n")
    sources = sorted(map(str, tmp_path.glob("*.cpp")))
    subprocess.run([*compiler(), "-fsyntax-only", *sources], check=True, timeout=300)


def test_an_outside_policy_stands_beside_the_built_in_ones(
    example: Path, small_trace_file: Path, tmp_path: Path
) -> None:
    library = ["--policy-library", example]
    listed = kvopt("policies", *library).splitlines()
    assert re.fullmatch(r"outside-lru +online +- +least recently used, compiled outside +an example", listed[-1])
    assert "reference: an example\n" in kvopt("policies", "outside-lru", *library)
    assert "outside-lru" not in kvopt("policies")
    # The library may come after the policy that it brings.
    table = kvopt("compare", small_trace_file, "--policy", "lru,outside-lru", *library, "--capacity", "4,9")
    assert len(re.findall(r"^ +[49] +outside-lru ", table, re.MULTILINE)) == 2


@pytest.mark.parametrize("rule", ["prefix", "flat"])
@pytest.mark.parametrize("kind", ["agents", "chat"])
def test_an_outside_lru_evicts_exactly_what_lru_does(example: Path, tmp_path: Path, rule: str, kind: str) -> None:
    trace, out = tmp_path / "trace.parquet", tmp_path / "out.json"
    sessions = ["--sessions", 40] if kind == "agents" else []
    kvopt("trace", "generate", kind, *sessions, "--seed", 3, "-o", trace)
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from kvopt import _core\n"
        "from kvopt.policies import load_library\n"
        "from kvopt.workload.open_trace import read_trace\n"
        "(info,) = load_library(sys.argv[1])\n"
        "trace = read_trace(sys.argv[2])\n"
        "evictions = 0\n"
        "for share in (0.01, 0.05, 0.2):\n"
        "    capacity = max(trace.prefix.longest_request + 1, int(share * trace.unique_blocks))\n"
        "    one, other = (_core.replay(trace.prefix, trace.time, name, capacity, rule=sys.argv[3])\n"
        "                  for name in ('lru', info.name))\n"
        "    assert np.array_equal(one.hit_blocks, other.hit_blocks)\n"
        "    assert one.evictions == other.evictions\n"
        "    evictions += one.evictions\n"
        "print(evictions)\n"
    )
    result = run(sys.executable, "-c", program, example, trace, rule)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout) > 0
    policies = ["--policy", "lru,outside-lru", "--policy-library", example]
    kvopt("compare", trace, *policies, "--rule", rule, "--json", out)
    rows = json.loads(out.read_text())["rows"]
    for lru, outside in zip(rows[::2], rows[1::2], strict=True):
        assert outside | {"policy": "lru", "seconds": 0} == lru | {"seconds": 0}


def test_parameters_are_described_set_and_checked(cases: Path, small_trace_file: Path, tmp_path: Path) -> None:
    library = ["--policy-library", cases]
    described = kvopt("policies", "by-age", *library)
    assert "parameter oldest=0 (0 to 1): 1: the oldest first\n" in described
    assert "needs: nothing but the references\n" in described
    assert "needs: session\n" in kvopt("policies", "by-session", *library)
    compare = ["compare", small_trace_file, "--rule", "flat", "--capacity", 4, *library]
    out = tmp_path / "out.json"
    kvopt(*compare, "--policy", "lru,by-age:oldest=1,by-age", "--json", out)
    lru, oldest, newest = (row["evictions"] for row in json.loads(out.read_text())["rows"])
    assert lru == oldest != newest
    assert "oldest=2; it must be a number from 0 to 1" in refusal(*compare, "--policy", "by-age:oldest=2")
    assert "by-age: oldest must be 0 or 1" in refusal(*compare, "--policy", "by-age:oldest=0.5")


def test_what_a_policy_needs_and_the_trace_lacks_is_said(cases: Path, small_trace_file: Path) -> None:
    compare = ["compare", small_trace_file, "--capacity", 4, "--policy-library", cases]
    for policy, hint in (("by-session:oldest=1", "session"), ("by-mood", "mood")):
        said = refusal(*compare, "--policy", policy)
        assert f"{policy} needs the hint '{hint}', which no request of small carries" in said


def test_a_victim_that_is_none_ends_the_replay(cases: Path, small_trace_file: Path) -> None:
    for rule in ("prefix", "flat"):
        compare = ["compare", small_trace_file, "--policy-library", cases, "--policy", "wrong", "--rule", rule]
        assert f"run {2**32 - 1}" in refusal(*compare, "--capacity", 4)


@pytest.mark.parametrize("rule", ["prefix", "flat"])
def test_a_policy_is_told_of_the_pool_and_its_errors_arrive(cases: Path, small_trace_file: Path, rule: str) -> None:
    compare = ["compare", small_trace_file, "--policy-library", cases, "--policy", "told", "--capacity", 4]
    assert f"told: {rule}, 512 tokens, p* 1000" in refusal(*compare, "--rule", rule, "--p-star", 1000)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("version", "compiled for plugin version 999 (KVopt 9.9.9), but this KVopt {version} loads version"),
        ("sizes", "its types have other sizes (Policy "),
        ("standard library", "another C++ standard library"),
        ("null", "kvopt_policy_plugin() returned nothing"),
        ("none", "it holds no policy"),
        ("existing name", "a policy is called 'lru' already"),
        ("same name", "a policy is called 'twice' already"),
        ("bad name", "policy 'a:b': a name is letters, digits, '-' and '_'"),
        ("bad default", "parameter oldest is 2 by default, which is not from 0 to 1"),
        ("bad parameter name", "parameter 'a,b': a name is letters, digits and '_'"),
        ("offline", "only built-in policies are offline"),
        ("parameters that no constructor takes", "policy deaf has parameters, but its class has no constructor"),
    ],
)
def test_a_library_that_cannot_be_used_is_refused(cases: Path, case: str, message: str) -> None:
    from kvopt import __version__

    refused = refusal("policies", "--policy-library", cases, case=case)
    assert refused.startswith(f"kvopt: error: policy library {cases}: ")
    assert message.format(version=__version__) in refused


def test_files_that_are_no_policy_library_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a shared library\n")
    (tmp_path / "empty.cpp").write_text("int nothing() { return 0; }\n")
    for path, message in (
        (tmp_path / "none.so", "there is no such file"),
        (tmp_path / "text.so", "it cannot be loaded as a shared library: "),
        (tmp_path, "it cannot be loaded as a shared library: "),
    ):
        with pytest.raises(PolicyLibraryError) as error:
            load_library(path)
        assert str(error.value).startswith(f"policy library {path}: {message}")
    other = build(tmp_path / "empty.cpp", tmp_path / "other.so")
    assert "it has no function kvopt_policy_plugin" in refusal("compare", "--policy-library", other)


def test_a_refused_library_leaves_nothing_and_a_loaded_one_may_be_named_again(cases: Path) -> None:
    program = (
        "import os, sys\n"
        "from kvopt.errors import PolicyLibraryError, UnknownPolicyError\n"
        "from kvopt.policies import load_library, parse_policy, policies\n"
        "before = [info.name for info in policies()]\n"
        "if os.environ['KVOPT_TEST_CASE']:\n"
        "    for _ in range(2):\n"
        "        try:\n"
        "            load_library(sys.argv[1])\n"
        "        except PolicyLibraryError:\n"
        "            pass\n"
        "    assert [info.name for info in policies()] == before\n"
        "else:\n"
        "    for _ in range(2):\n"
        "        names = [info.name for info in load_library(sys.argv[1])]\n"
        "        assert names == ['by-age', 'by-session', 'by-mood', 'wrong', 'told']\n"
        "    assert [info.name for info in policies()] == [*before, *names]\n"
        "    assert parse_policy('by-age:oldest=1') == ('by-age', {'oldest': 1.0})\n"
    )
    for case in ("", "existing name"):
        result = run(sys.executable, "-c", program, cases, case=case)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_plain_file_name_is_one_of_this_folder(example: Path) -> None:
    result = subprocess.run(
        [*KVOPT, "policies", "outside-lru", "--policy-library", example.name],
        cwd=example.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_the_python_example_is_compared(small_trace_file: Path) -> None:
    policy = f"lru,{ROOT / 'examples/policy/greedy_dual.py'}:GreedyDual"
    for rule in ("prefix", "flat"):
        table = kvopt("compare", small_trace_file, "--policy", policy, "--rule", rule, "--capacity", "4,9")
        assert len(re.findall(r"^ +[49] +greedy-dual ", table, re.MULTILINE)) == 2


def test_the_docs_show_the_examples_as_they_are() -> None:
    text = (ROOT / "docs" / "writing-a-policy.md").read_text()
    shown = dict(re.findall(r"^```(python|cpp)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    assert shown["python"] == (ROOT / "examples/policy/greedy_dual.py").read_text()
    assert shown["cpp"] == EXAMPLE.read_text()
