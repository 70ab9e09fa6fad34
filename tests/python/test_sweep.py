"""A sweep's rows are those of simulate, the same however they were run, and none is made twice."""

from __future__ import annotations

import json
import math
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command_line import KVOPT, fails, succeeds
from kvopt.errors import ConfigError
from kvopt.simulator import ClientOptions, simulate
from kvopt.simulator.sweep import figure_names, read_spec, run_sweep
from kvopt.simulator.sweep.store import read_rows
from kvopt.workload import read_trace
from swept import CELLS, children, is_running, until, write_spec


def test_rows_are_the_figures_of_simulate(tmp_path: Path) -> None:
    spec, out = write_spec(tmp_path), tmp_path / "out.parquet"
    output = succeeds("sweep", spec, "-o", out, "--jobs", 1)
    assert output.splitlines()[-1] == f"wrote {out}: {CELLS} runs of small"
    rows = read_rows(out)
    order = [(row["capacity"], row["scheduler"], row["rate"], row["policy"], row["seed"]) for row in rows]
    assert order == [
        (capacity, scheduler, rate, policy, seed)
        for capacity in (10, 16)
        for scheduler in ("fifo", "shortest-prefill")
        for rate in (1.0, 2.5)
        for policy in ("lru", "fifo")
        for seed in (1, 2)
    ]
    trace = read_trace(tmp_path / "small.jsonl")
    for rate in (1.0, 2.5):
        result = simulate(
            trace, ["lru", "fifo"], [10, 16], schedulers=["fifo", "shortest-prefill"], profile="k0=1000",
            clients=ClientOptions(rate=rate), seeds=2,
        )  # fmt: skip
        found = [row for row in rows if row["rate"] == rate]
        assert len(found) == len(result.runs)
        for run, row in zip(result.runs, found, strict=True):
            assert (run.policy, run.scheduler, run.capacity, run.seed) == (
                row["policy"], row["scheduler"], row["capacity"], row["seed"],
            )  # fmt: skip
            assert tuple(run.figures()) == figure_names()
            for name, value in run.figures().items():
                assert row[name] == (None if math.isnan(value) else value), name
            assert row["hit_tokens"] == run.totals.hit_tokens
            assert row["prefill_evicted_tokens"] == run.prefill["evicted"]["tokens"]


def test_bytes_do_not_depend_on_the_number_of_processes_nor_on_the_folder(tmp_path: Path) -> None:
    outputs = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        folder.mkdir()
        outputs.append(folder / "out.parquet")
        succeeds("sweep", write_spec(folder), "-o", outputs[-1], "--jobs", jobs)
        assert sorted(path.name for path in folder.iterdir()) == ["mine.py", "out.parquet", "small.jsonl", "spec.toml"]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_killed_midway_it_resumes_without_redoing_finished_cells(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, policies='["mine.py:Counted", "mine.py:Gated"]', capacities="[10]", schedulers="", rates="", seeds="1"
    )
    out, made = tmp_path / "out.parquet", tmp_path / "made"
    command = [*KVOPT, "sweep", str(spec), "-o", str(out), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(list((tmp_path / "out.parquet.parts").glob("cell-*.parquet"))) == 1, "a cell is finished")
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    (tmp_path / "open").touch()
    until(lambda: not any(map(is_running, workers)), "the workers have ended")
    assert made.read_text() == "x"
    assert "2 runs of small, 1 of them from before" in succeeds("sweep", spec, "-o", out, "--jobs", 1)
    assert made.read_text() == "x"
    assert not (tmp_path / "out.parquet.parts").exists()
    once = out.read_bytes()
    out.unlink()
    succeeds("sweep", spec, "-o", out, "--jobs", 1)
    assert out.read_bytes() == once


def test_a_grown_grid_runs_only_what_is_new(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    small = {"schedulers": "", "rates": "", "seeds": "1"}
    run_sweep(read_spec(write_spec(tmp_path, **small)), out, jobs=1)
    grown = run_sweep(read_spec(write_spec(tmp_path, **small | {"seeds": "[0, 3]"})), out, jobs=1)
    assert (len(grown.rows), grown.resumed) == (8, 4)
    other = run_sweep(read_spec(write_spec(tmp_path, **small, profile='"k0=900"')), out, jobs=1)
    assert (len(other.rows), other.resumed) == (4, 0)


def test_a_changed_policy_file_is_run_again(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    change = {"policies": '"mine.py:Oldest"', "schedulers": "", "rates": "", "seeds": "1"}
    spec = write_spec(tmp_path, **change)
    succeeds("sweep", spec, "-o", out, "--jobs", 1)
    assert "2 of them from before" in succeeds("sweep", spec, "-o", out, "--jobs", 1)
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# another rank\n")
    assert "from before" not in succeeds("sweep", spec, "-o", out, "--jobs", 1)


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"{}"])
def test_damaged_parts_and_foreign_outputs_hold_nothing(tmp_path: Path, content: bytes) -> None:
    spec, out = read_spec(write_spec(tmp_path, schedulers="", rates="", seeds="1")), tmp_path / "out.parquet"
    run_sweep(spec, out, jobs=1)
    good, keys = out.read_bytes(), pq.read_table(out).column("cell").to_pylist()
    parts = tmp_path / "out.parquet.parts"
    parts.mkdir()
    for path in (out, parts / f"cell-{keys[0]}.parquet"):
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="no result of kvopt sweep"):
        read_rows(out)
    assert run_sweep(spec, out, jobs=1).resumed == 0
    assert out.read_bytes() == good


def test_a_failing_cell_ends_the_sweep_and_keeps_the_others(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, policies='["mine.py:Oldest", "mine.py:Broken"]', capacities="[10]", schedulers="", rates="", seeds="1"
    )
    line = fails("sweep", spec, "-o", tmp_path / "out.parquet", "--jobs", 1)
    assert "Broken() raised ValueError: no rank today" in line
    assert len(list((tmp_path / "out.parquet.parts").glob("cell-*"))) == 1
    assert "Broken() raised ValueError" in fails("sweep", spec, "-o", tmp_path / "out.parquet", "--jobs", 2)


def test_a_lost_worker_is_named(tmp_path: Path) -> None:
    spec = write_spec(
        tmp_path, policies='["mine.py:Killed", "lru"]', capacities="[10]", schedulers="", rates="", seeds="1"
    )
    line = fails("sweep", spec, "-o", tmp_path / "out.parquet", "--jobs", 2)
    assert "mine.py:Killed / fifo / 10 blocks / rate 1 / seed 0 ended with exit code -9" in line


def test_memory_of_a_model_and_the_built_in_workload(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text('[grid]\npolicies = "lru"\nmemory = ["1GiB"]\n[server]\nmodel = "llama-3.1-8b"\n')
    spec = read_spec(path)
    assert spec.trace is None
    assert spec.blocks(read_trace(write_spec(tmp_path).with_name("small.jsonl"))) == [16]


def test_missing_ray_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "pip install 'kvopt[ray]'" in fails("sweep", write_spec(tmp_path), "-o", tmp_path / "out.parquet", "--ray")


def test_a_ray_that_cannot_be_reached_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(is_initialized=lambda: False))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there once it is closed
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
        said = fails("sweep", write_spec(tmp_path), "-o", tmp_path / "out.parquet", "--ray", address)
        assert f"--ray {address}: cannot be reached" in said


@pytest.mark.slow
def test_ray_equals_local_processes(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'kvopt[ray]'")
    spec = write_spec(tmp_path, schedulers="", policies='["lru", "mine.py:Oldest"]')
    local, cluster = tmp_path / "local.parquet", tmp_path / "cluster.parquet"
    succeeds("sweep", spec, "-o", local, "--jobs", 1)
    # A process of its own: Ray leaves threads and warnings behind.
    command = [*KVOPT, "sweep", str(spec), "-o", str(cluster), "--ray", "local"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert run.returncode == 0, run.stderr
    assert cluster.read_bytes() == local.read_bytes()


def test_about_is_in_the_file(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    run_sweep(read_spec(write_spec(tmp_path, schedulers="", rates="", seeds="1")), out, jobs=1)
    metadata = pq.read_schema(out).metadata
    assert metadata[b"kvopt.kind"] == b"kvopt-sweep"
    about = json.loads(metadata[b"kvopt.about"])
    assert about["trace"] == "small"
    assert about["setup"]["profile"]["k0"] == 1000
