"""`kvopt cost`, and models and configs wherever a command takes --model or --p-star."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from command_line import KVOPT, fails, succeeds
from kvopt.cli.cost_choice import chosen_cost
from kvopt.cli.cost_explain import Explanation, print_explanation
from kvopt.cli.cost_list import print_lists
from kvopt.cost import CHIPS, MODELS, PRESETS, LostPrefix, Tier, chip_cost, model_geometry

CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}
AT_500 = ["--tflops", "500", "--tier", "cpu:25GB/s", "--block-tokens", "256"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(CONFIG))
    return path


def figures(output: str) -> dict[str, str]:
    """The first table: figure to value."""
    lines = output.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("figure"))
    rows = lines[start + 1 : lines.index("", start)]
    width = lines[start].index("value")
    return {line[:width].strip(): line[width:] for line in rows}


def explained(*arguments: object, tmp_path: Path) -> dict[str, Any]:
    out = tmp_path / "explained.json"
    succeeds("cost", "explain", *arguments, "--json", out)
    document = json.loads(out.read_text())
    assert isinstance(document, dict)
    return document


def test_the_published_example_is_printed() -> None:
    output = succeeds("cost", "explain", "llama-3.1-8b", *AT_500)
    shown = figures(output)
    assert shown["p*"] == "28,628 tokens"
    assert shown["KV bytes a token"] == "131,072"
    assert shown["KV of 32,768 tokens"] == "4.000 GiB"
    assert shown["prefill of 32,768 tokens"] == "1,547 ms"
    assert shown["break-even bandwidth"] == "2.78 GB/s"
    row = next(line.split() for line in output.splitlines() if line.startswith("cpu "))
    assert row == ["cpu", "25", "0", "171.8", "1,546.6", "149.0", "4,352", "split"]
    assert output.splitlines()[-1] == (
        "Losing 32,768 tokens costs 1,547 ms of prefill without a tier below, "
        "149 ms with cpu (compute the first 4,352 while the rest is loaded)."
    )


def test_json_holds_what_the_library_computes(tmp_path: Path) -> None:
    arguments = [
        "gemma-3-12b",
        "--context",
        "100_000",
        "--chip",
        "H200",
        "--tp",
        2,
        "--kv-dtype",
        "fp8",
        "--efficiency",
    ]
    tier = ["--tier", "cpu:50GB/s:10us", "--step-tokens", 4096, "--memory", "40GiB"]
    document = explained(*arguments, "40%", *tier, tmp_path=tmp_path)
    model = model_geometry("gemma-3-12b", "fp8")
    cost = chip_cost(model, CHIPS["h200"], tensor_parallel=2, efficiency=0.4)
    lost = LostPrefix(cost, model, 100_000, tensor_parallel=2, step_tokens=4096)
    assert [document[name] for name in ("k0", "k1", "k2", "k3")] == [cost.k0, cost.k1, cost.k2, cost.k3]
    assert document["p_star"] == model.p_star
    assert document["kv_bytes"] == lost.kv_bytes() == 16_384 * 100_000 + 81_920 * 1024
    assert document["recompute_ms"] == lost.recompute_ms()
    assert document["blocks"] == 40 * 2**30 * 100_000 // (lost.kv_bytes() * 16)
    (found,) = document["tiers"]
    best = lost.best(Tier("cpu", 50e9, 10e-6))
    assert (found["best"], found["best_ms"], found["best_recomputed"]) == (best.way, best.ms, best.recomputed)
    assert [(group["kind"], group["layers"]) for group in document["groups"]] == [("full", 8), ("window", 40)]
    positions = [point["position"] for point in document["curve"]]
    assert positions == sorted(set(positions))
    assert (positions[0], positions[-1]) == (0, 100_000)
    for point in document["curve"]:
        expected = model.token_flops(point["position"]) / model.token_flops(0)
        assert point["relative"] == pytest.approx(expected, rel=1e-12)


def test_a_config_or_its_folder_is_a_model(config: Path, tmp_path: Path) -> None:
    by_name = explained("llama-3.1-8b", tmp_path=tmp_path)
    for path in (config, config.parent):
        by_path = explained(path, tmp_path=tmp_path)
        same = ("k0", "k1", "k2", "k3", "p_star", "curve", "tiers", "kv_bytes")
        assert [by_path[name] for name in same] == [by_name[name] for name in same]
        assert by_path["model_source"] == str(config)


def test_a_preset_is_explained_with_the_bytes_of_its_model(tmp_path: Path) -> None:
    document = explained("preble-llama-70b-a100-tp2", tmp_path=tmp_path)
    assert document["p_star"] == pytest.approx(0.182 / 2.55e-6)
    assert document["kv_bytes"] == 327_680 * 32_768 // 2
    assert document["tensor_parallel"] == 2


def test_a_preset_without_model_has_no_bytes(tmp_path: Path) -> None:
    document = explained("infercept", tmp_path=tmp_path)
    assert document["p_star"] is None
    assert "kv_bytes" not in document
    output = succeeds("cost", "explain", "infercept", "--context", 384)
    assert output.splitlines()[-1] == f"Losing 384 tokens costs {15.4 + 0.0279 * 384:.0f} ms of prefill."


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_can_be_explained(model: str) -> None:
    assert figures(succeeds("cost", "explain", model, "--context", "8k"))["T(q, s) ms"]


def test_svg_draws_both_curves_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        succeeds("cost", "explain", "qwen3-30b-a3b", "--plot", tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    ids = {element.get("id", "") for element in ET.parse(tmp_path / "one.svg").getroot().iter()}
    assert {"axes_1", "axes_2", "legend_1"} <= ids


def test_png_of_a_preset_without_model(tmp_path: Path) -> None:
    succeeds("cost", "explain", "infercept", "-o", tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_the_list_has_every_name_and_source() -> None:
    output = succeeds("cost", "list")
    sources = {entry.name: entry.source for entry in PRESETS.values()}
    sources |= {entry.name: entry.source for entry in CHIPS.values()}
    sources |= {entry.name: entry.source for entry in MODELS.values()}
    for name, source in sources.items():
        line = next(line for line in output.splitlines() if line.startswith(f"{name} "))
        assert source in line


def test_fit_prints_coefficients_residuals_and_warnings(tmp_path: Path) -> None:
    points, out = tmp_path / "points.csv", tmp_path / "fit.json"
    grid = [(q, s) for q in (128, 512, 2048) for s in (0, 10_000, 60_000)]
    points.write_text("q,s,ms\n" + "".join(f"{q},{s},{10 + 0.05 * q + 1e-3 * s + 1e-6 * q * s!r}\n" for q, s in grid))
    output = succeeds("cost", "fit", points, "--json", out)
    assert "T(q, s) = 10 + 0.05·q + 0.001·s + 1e-06·q·s ms" in output
    assert "p* = 50,000 tokens" in output
    assert "Warning" not in output
    document = json.loads(out.read_text())
    assert document["k1"] == pytest.approx(0.05)
    assert document["warnings"] == []
    assert [(point["q"], point["s"]) for point in document["points"]] == grid

    points.write_text("q,ms\n" + "".join(f"{q},{q}\n" for q in (1, 2, 3, 4)))
    assert succeeds("cost", "fit", points).splitlines()[-1].startswith("Warning: the points do not determine k2 and k3")


def test_many_points_show_those_that_fit_worst(tmp_path: Path) -> None:
    points = tmp_path / "points.csv"
    rows = [
        f"{q},{s},{10 + 0.05 * q + 1e-3 * s + 1e-6 * q * s}" for q in range(100, 600, 100) for s in range(0, 9000, 900)
    ]
    points.write_text("\n".join(["q,s,ms", *rows[:-1], "500,8100,100"]))
    output = succeeds("cost", "fit", points)
    assert "The 20 points of the largest relative error:" in output
    table = output.splitlines()[output.splitlines().index("The 20 points of the largest relative error:") + 2 :]
    assert table[0].split()[:3] == ["500", "8,100", "100.00"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "llama-3.1-8"], "did you mean 'llama-3.1-8b'?"),
        (["explain", "none.json"], "none.json: no such file"),
        (["explain", "llama-3.1-8b", "--context", "0"], "--context': '0' is not a whole number of tokens from 1"),
        (["explain", "llama-3.1-8b", "--context", "1.3"], "'1.3' is not a whole number"),
        (["explain", "llama-3.1-8b", "--context", "9999m"], "from 1 to 2147483648"),
        (["explain", "llama-3.1-8b", "--context", "lots"], "'lots' is not a number of tokens, such as 32768"),
        (["explain", "llama-3.1-8b", "--chip", "h1000"], "unknown chip 'h1000': did you mean 'h100'?"),
        (["explain", "llama-3.1-8b", "--chip", "a100", "--dtype", "fp8"], "a100 has no fp8 matrix units"),
        (["explain", "llama-3.1-8b", "--tp", "3"], "3 does not divide the 32 heads"),
        (["explain", "llama-3.1-8b", "--tflops", "0"], "operations a second: 0.0"),
        (["explain", "llama-3.1-8b", "--tflops", "5", "--chip", "h100"], "--chip cannot be given"),
        (["explain", "llama-3.1-8b", "--efficiency", "2"], "'2' is not above 0 and at most 1"),
        (["explain", "llama-3.1-8b", "--efficiency", "half"], "'half' is not a share"),
        (["explain", "llama-3.1-8b", "--kv-dtype", "fp3"], "KV dtype 'fp3' is unknown"),
        (["explain", "llama-3.1-8b", "--tier", "cpu"], "write NAME:BANDWIDTH:LATENCY"),
        (["explain", "llama-3.1-8b", "--tier", "a:1GB/s", "--tier", "a:2GB/s"], "tier 'a' is named twice"),
        (["explain", "llama-3.1-8b", "--memory", "1MiB"], "hold no block"),
        (["explain", "llama-3.1-8b", "--memory", "40G"], "40GiB"),
        (["explain", "llama-3.1-8b", "--plot", "{folder}/out.pdf"], "written as .svg or .png"),
        (["explain", "llama-3.1-8b", "--json", "{folder}/no/out.json"], "there is no folder"),
        (["explain", "infercept", "--memory", "1GiB"], "the model of infercept is not known"),
        (["explain", "infercept", "--kv-dtype", "fp8"], "the model of infercept is not known"),
        (["explain", "preble-llama-70b-h100-tp2", "--chip", "a100", "--tp", "4"], "--chip, --tp cannot be given"),
        (["fit", "{folder}/none.csv"], "none.csv: No such file"),
        (["fit", "{folder}/points.csv"], "points.csv: line 3: ms: 'x' is not a number"),
        (["fit", "{folder}/points.csv", "--json", "{folder}/points.csv"], "would overwrite the input"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "points.csv").write_text("q,ms\n1,2\n2,x\n")
    assert message in fails("cost", *(argument.replace("{folder}", str(tmp_path)) for argument in arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]


def test_a_config_that_cannot_be_read_names_file_and_keys(config: Path) -> None:
    config.write_text(json.dumps({"model_type": "rwkv", "hidden_size": 64}))
    line = fails("cost", "explain", str(config))
    assert f"{config}: model type 'rwkv'" in line
    assert "missing num_attention_heads" in line


def test_a_real_process_exits_with_two_and_one_line() -> None:
    run = subprocess.run([*KVOPT, "cost", "explain", "llama-9"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1
    assert "Traceback" not in run.stderr


def test_explaining_loads_neither_drawing_nor_tables_of_traces(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom kvopt.cli.main import main\n"
        "main(['cost', 'explain', 'llama-3.1-8b'], standalone_mode=False)\n"
        "print(sorted({'matplotlib', 'pyarrow', 'msgspec'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, no_color=True, width=width, highlight=False, legacy_windows=False)
    chosen = chosen_cost("gemma-3-12b", tensor_parallel=2)
    explanation = Explanation(chosen, 131_072, chosen.default_tiers, block_tokens=16, step_tokens=2048, memory=2**35)
    print_explanation(console, explanation)
    print_lists(console)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert max(len(line.rstrip()) for line in text.split("\n")) <= width
    assert "…" not in text
    for figure in ("179,524", "4.156", "4,609.3", "1,979"):
        assert figure in text
