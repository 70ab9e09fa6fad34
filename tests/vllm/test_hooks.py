"""Life-cycle events of the real engine core, in order and complete, and observers that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from engines import BLOCK
from kvopt.policies import StopReason
from kvopt.vllm import observation as seen
from tiny_model import END_ID, TOOL_CALL_ID

Make = Callable[..., Any]


def prompt(length: int, seed: int = 0) -> list[int]:
    return [10 + (seed * 97 + i * 31) % 400 for i in range(length)]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def watched(engine: Make, request: pytest.FixtureRequest) -> Make:
    """Makes an engine and the list that its events are put into."""

    def make(**arguments: Any) -> tuple[Any, list[seen.Event]]:
        options = {"pool": "off", "simulation": {"time": "virtual", "asynchronous": request.param}}
        server = engine(kvopt=options | arguments.pop("kvopt", {}), **arguments)
        events: list[seen.Event] = []
        server.scheduler.kvopt.hooks.add_observer("test", events.append)
        return server, events

    return make


def kinds(events: list[seen.Event], *wanted: type[seen.Event]) -> list[str]:
    return [type(event).__name__ for event in events if not wanted or isinstance(event, wanted)]


def test_a_request_from_arrival_to_release(watched: Make) -> None:
    server, events = watched()
    server.add("a", prompt(3 * BLOCK + 5), max_tokens=4)
    server.run()
    order = [name for name in kinds(events) if name not in {"Stepped", "BlocksStored"}]
    assert order == ["Arrived", "LookedUp", "Scheduled", "Finished", "Released"]
    arrived = next(event for event in events if isinstance(event, seen.Arrived))
    assert len(arrived.hashes) == 3
    assert arrived.request.prompt_tokens == 3 * BLOCK + 5
    finished = next(event for event in events if isinstance(event, seen.Finished))
    assert (finished.stop, finished.output_tokens) == (StopReason.LENGTH, 4)
    assert sum(event.blocks for event in events if isinstance(event, seen.BlocksStored)) == 3
    steps = [event for event in events if isinstance(event, seen.Stepped)]
    assert sum(step.tokens for step in steps) == 3 * BLOCK + 5 + 3
    times = [event.now for event in events]
    assert times == sorted(times)
    assert server.scheduler.kvopt.hooks.requests == {}
    assert server.scheduler.kvopt.hooks.errors == {}


def test_stop_reasons_are_told_without_parsing_text(watched: Make) -> None:
    server, events = watched()
    assert server.scheduler.kvopt.hooks.tool_call_tokens == 1
    server.add("turn", prompt(50), answer=[20, 21, END_ID], stop=[END_ID])
    server.add("tool", prompt(50, 1), answer=[TOOL_CALL_ID, 30, 31, END_ID], stop=[END_ID])
    server.add("cut", prompt(50, 2), answer=[20, 21])
    server.run()
    stops = {event.request.request_id: event.stop for event in events if isinstance(event, seen.Finished)}
    assert stops == {"turn": StopReason.END_TURN, "tool": StopReason.TOOL_USE, "cut": StopReason.LENGTH}


def test_tool_call_ids_can_be_given(watched: Make) -> None:
    server, events = watched(kvopt={"tool_call_token_ids": [77]})
    server.add("a", prompt(50), answer=[77, END_ID], stop=[END_ID])
    server.add("b", prompt(50, 1), answer=[TOOL_CALL_ID, END_ID], stop=[END_ID])
    server.run()
    finished = {event.request.request_id: event for event in events if isinstance(event, seen.Finished)}
    assert finished["a"].tool_call
    assert not finished["b"].tool_call


def test_hits_and_sessions_by_the_prefix_tree(watched: Make) -> None:
    server, events = watched()
    first = prompt(4 * BLOCK)
    answer = list(range(200, 200 + BLOCK))
    server.add("one", first, answer=answer)
    server.run()
    server.add("two", [*first, *answer, *prompt(40, 5)], max_tokens=3)
    server.add("other", prompt(4 * BLOCK, 9), max_tokens=3)
    server.run()
    views = {event.request.request_id: event.request for event in events if isinstance(event, seen.Arrived)}
    assert views["one"].session == views["two"].session != views["other"].session
    assert (views["one"].turn, views["two"].turn, views["other"].turn) == (0, 1, 0)
    assert views["one"].gap is None
    assert views["two"].gap is not None
    hits = {event.request.request_id: event.hit_tokens for event in events if isinstance(event, seen.Scheduled)}
    assert hits == {"one": 0, "two": 4 * BLOCK, "other": 0}
    assert sum(event.blocks for event in events if isinstance(event, seen.BlocksHit)) == 4


def test_sessions_and_records_of_the_client(watched: Make) -> None:
    server, events = watched()
    server.add("a", prompt(50), extra={"kvopt_session_id": "s", "kvopt_tool": "bash", "other": 1})
    server.add("b", prompt(50, 1), extra={"kvopt": '{"job_id": "t", "expected_gap": 3}'})
    server.add("c", prompt(50, 2), extra={"kvopt": "not json", "session_id": "s"})
    server.add("d", prompt(50, 3), extra={"kvopt": 7})
    server.run()
    views = {event.request.request_id: event.request for event in events if isinstance(event, seen.Arrived)}
    assert views["a"].client == {"session_id": "s", "tool": "bash"}
    assert views["b"].client == {"job_id": "t", "expected_gap": 3}
    assert views["c"].client == {}
    assert views["a"].session == views["c"].session
    assert (views["a"].turn, views["c"].turn) == (0, 1)
    assert server.scheduler.kvopt.hooks.hint_errors == 2
    assert set(server.reasons) == {"a", "b", "c", "d"}


def test_sessions_and_hints_in_vllms_own_fields(watched: Make) -> None:
    server, events = watched()
    fields: dict[str, Any] = {"session_id": "own"}
    with contextlib.suppress(ImportError):  # since 0.31
        from vllm.v1.kv_hints.protocol import KvHintAction, KvHintsEnvelope

        actions = [
            KvHintAction("1", "kvopt.retain", "1", {"ttl_ms": 1500}),
            KvHintAction("2", "other.thing", "1", {"ttl_ms": 9}),
        ]
        fields["kv_hints"] = KvHintsEnvelope("1", "m", actions)
    server.add("a", prompt(50), **fields)
    server.add("b", prompt(50, 1), session_id="own")
    server.run()
    views = {event.request.request_id: event.request for event in events if isinstance(event, seen.Arrived)}
    assert views["a"].session_name == "own"
    assert views["a"].session == views["b"].session
    assert views["a"].client == ({"ttl_ms": 1500} if "kv_hints" in fields else {})


def test_preemption_and_readmission(watched: Make) -> None:
    server, events = watched(blocks=24)
    for seed in range(6):
        server.add(f"r{seed}", prompt(100, seed), max_tokens=100)
    server.run()
    preempted = [event.request.request_id for event in events if isinstance(event, seen.Preempted)]
    resumed = [event.request.request_id for event in events if isinstance(event, seen.Scheduled) and event.resumed]
    assert preempted
    assert sorted(preempted) == sorted(resumed)
    assert len([event for event in events if isinstance(event, seen.Finished)]) == 6
    evicted = sum(event.blocks for event in events if isinstance(event, seen.BlocksEvicted))
    assert evicted > 0


def test_aborts_of_waiting_and_running_requests(watched: Make) -> None:
    server, events = watched(max_num_seqs=1)
    server.add("running", prompt(50), max_tokens=50)
    server.add("waiting", prompt(50, 1), max_tokens=50)
    server.step()
    server.core.abort_requests(["running", "waiting", "unknown"])
    server.run()
    aborted = [event.request.request_id for event in events if isinstance(event, seen.Aborted)]
    assert sorted(aborted) == ["running", "waiting"]
    assert kinds(events, seen.Released) == ["Released"] * 2
    assert server.scheduler.kvopt.hooks.requests == {}


def test_reset(watched: Make) -> None:
    server, events = watched()
    server.add("a", prompt(100), max_tokens=20)
    server.step()
    server.step()
    assert server.core.reset_prefix_cache() is False
    server.run()
    assert server.core.reset_prefix_cache() is True
    assert [event.done for event in events if isinstance(event, seen.Reset)] == [False, True]


def test_an_observer_that_fails_is_counted_and_harms_nobody(watched: Make) -> None:
    server, events = watched()

    def fails(event: seen.Event) -> None:
        raise RuntimeError("no")

    server.scheduler.kvopt.hooks.add_observer("broken", fails)
    server.add("a", prompt(100), max_tokens=5)
    server.run()
    assert len(server.outputs["a"]) == 5
    assert server.scheduler.kvopt.hooks.errors == {"broken": len(events)}
    assert server.scheduler.kvopt.metrics.snapshot()["values"]["observer_errors"] == {"broken": len(events)}
