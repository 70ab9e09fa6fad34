"""A patched vLLM: it decides what the plugin decides, and is put back to the same bytes; anything else is refused."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decisions import OPTIONS, decide
from kvopt.cli.main import main
from kvopt.errors import PatchError
from kvopt.vllm import plugin
from kvopt.vllm.patching import State, apply_patch, examine_patch, revert_patch
from vllm_copies import files, link_vllm


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with vLLM as released."""
    return link_vllm(tmp_path / "site")


@pytest.fixture(scope="module")
def patched_run(
    patched_vllm: dict[str, str], tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Gives, at its end, what decisions.py finds in a patched vLLM, which runs beside this process until then."""
    folder = tmp_path_factory.mktemp("patched")
    out, log = folder / "found.json", folder / "log"
    program = [sys.executable, str(Path(__file__).with_name("decisions.py")), str(tiny_model), str(out)]
    with log.open("w") as lines:
        child = subprocess.Popen(program, env=os.environ | patched_vllm, stdout=lines, stderr=subprocess.STDOUT)

    def ended() -> dict[str, Any]:
        assert child.wait(400) == 0, log.read_text()[-4000:]
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    yield ended
    child.kill()
    child.wait()


def test_same_decisions_as_the_plugin(patched_run: Any, patched_vllm: dict[str, str], tiny_model: Path) -> None:
    plugin.register()
    ours = {name: decide(tiny_model, options) for name, options in OPTIONS.items()}
    found = patched_run()
    assert found["vllm"].startswith(patched_vllm["PYTHONPATH"].split(os.pathsep)[0])
    for name, decided in ours.items():
        theirs = found["decisions"][name]
        assert decided["info"].pop("hooks") == "plugin"
        assert theirs["info"].pop("hooks") == "patched"
        assert decided["values"]["evicted_blocks"]["capacity"] > 100
        assert decided["values"]["observer_errors"] == {}
        assert theirs == decided, name
    assert found["plugin"] == ["KVopt is patched into this vLLM; the plugin does nothing"]
    assert found["bad option"].startswith("kvopt: unknown option 'polcy'")
    assert found["several API servers"]
    assert found["doctor"]["patch"] == "ok"
    assert found["doctor"]["plugin"] == "ok"


def test_reverted_to_the_same_bytes(site: Path) -> None:
    before = files(site)
    assert examine_patch(site).state == State.RELEASED
    found = apply_patch(site)
    assert found.state == State.PATCHED
    changed = {path for path, content in files(site).items() if before.get(path) != content}
    (record,) = (path.relative_to(site).as_posix() for path in site.glob("*.dist-info/RECORD"))
    assert changed == {*found.files, record}
    assert revert_patch(site).state == State.RELEASED
    assert files(site) == before


def test_named_by_the_package_or_a_tree_that_was_never_built(site: Path) -> None:
    before = files(site)
    assert apply_patch(site / "vllm").root == site
    assert revert_patch(site / "vllm").version is not None
    assert files(site) == before
    (site / "vllm" / "_version.py").unlink()
    before = files(site)
    assert apply_patch(site).version is None
    assert revert_patch(site).state == State.RELEASED
    assert files(site) == before


def test_only_released_files_are_patched(site: Path) -> None:
    core = site / "vllm" / "v1" / "engine" / "core.py"
    released = core.read_bytes()
    core.write_bytes(released + b"\n# ours\n")
    before = files(site)
    with pytest.raises(PatchError, match=r"vllm/v1/engine/core\.py is modified.*nothing was changed"):
        apply_patch(site)
    core.unlink()
    with pytest.raises(PatchError, match=r"vllm/v1/engine/core\.py is missing"):
        apply_patch(site)
    core.write_bytes(released + b"\n# ours\n")
    assert files(site) == before
    core.write_bytes(released)
    apply_patch(site)
    core.write_bytes(core.read_bytes() + b"\n# ours\n")
    before = files(site)
    with pytest.raises(PatchError, match=r"vllm/v1/engine/core\.py is modified"):
        revert_patch(site)
    assert files(site) == before


def test_another_version_is_refused(site: Path) -> None:
    for version in ("0.31.0", "0.320.0", "0.34.0.dev1+g12"):
        (site / "vllm" / "_version.py").write_text(f"__version__ = version = '{version}'\n")
        before = files(site)
        with pytest.raises(
            PatchError, match=f"vLLM {version.split('+')[0]}.*there is no patch for it, only for 0.32, 0.33"
        ):
            apply_patch(site)
        assert files(site) == before


def test_twice_is_refused(site: Path) -> None:
    with pytest.raises(PatchError, match="not patched"):
        revert_patch(site)
    apply_patch(site)
    before = files(site)
    with pytest.raises(PatchError, match="patched already; nothing was changed"):
        apply_patch(site)
    assert files(site) == before


def test_on_the_command_line(site: Path) -> None:
    def says(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["vllm", "patch", str(site), *arguments])
        return result.exit_code, result.output

    before = files(site)
    code, said = says("--check")
    assert (code, files(site)) == (0, before)
    assert "as released" in said
    assert ".patch fits" in said
    assert says()[0] == 0
    code, said = says("--check")
    assert (code, "patched; --revert takes the hooks out" in said) == (0, True)
    assert says("--revert")[0] == 0
    assert files(site) == before
    (site / "vllm" / "kvopt_hooks.py").write_text("mine")
    assert says("--check")[0] == 1


def test_without_kvopt_a_patched_vllm_is_vllm(
    site: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply_patch(site)
    monkeypatch.setitem(sys.modules, "kvopt.vllm.in_tree", None)
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    names: dict[str, Any] = {"__name__": "vllm.kvopt_hooks"}
    exec(compile((site / "vllm" / "kvopt_hooks.py").read_text(), "kvopt_hooks.py", "exec"), names)
    assert "KVopt is off, vLLM runs untouched" in caplog.text
    own = object()
    hooks = (
        "engine_config",
        "scheduler_class",
        "kv_cache_coordinator",
        "block_pool",
        "block_hasher",
        "metrics_registry",
    )
    assert all(names[hook](own) is own for hook in hooks)
    assert names["block_hasher"](own, object()) is own
