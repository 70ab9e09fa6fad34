"""The client's record: every name of a field, every limit, and what becomes of bad ones."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvopt.continuum import ClientRecord, parse_record
from kvopt.continuum import record as record_module
from kvopt.errors import ClientFieldError
from kvopt.policies import RetentionRange


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"session_id": "a"}, ClientRecord(session_id="a")),
        ({"job_id": 17}, ClientRecord(session_id="17")),
        ({"program_id": "a", "conversation_id": "a"}, ClientRecord(session_id="a")),
        ({"last_turn": True}, ClientRecord(last_turn=True)),
        ({"is_last_step": False}, ClientRecord()),
        ({"tool": "bash"}, ClientRecord(tools=("bash",))),
        ({"tools": ["read", "bash"]}, ClientRecord(tools=("bash", "read"))),
        ({"this_func_call": "bash"}, ClientRecord(tools=("bash",))),
        ({"last_func_call": "bash"}, ClientRecord(after_tool="bash")),
        ({"expected_gap": 3}, ClientRecord(expected_gap=3.0)),
        ({"predict_time": 0.5}, ClientRecord(expected_gap=0.5)),
        ({"estimated_duration_s": 1e6}, ClientRecord(expected_gap=1e6)),
        ({"progress": 0.25}, ClientRecord(progress=0.25)),
        ({"priority": 80}, ClientRecord(priority=80)),
        ({"ttl": 60, "ttl_mode": "REFRESH"}, ClientRecord(ttl=60.0, lifetime="refresh")),
        ({"duration_ms": 1500, "lifetime": "fixed"}, ClientRecord(ttl=1.5)),
        ({"retention_seconds": None, "session_id": None}, ClientRecord()),
        (
            {"token_ranges": [{"start": 0, "end": 64, "priority": 90}, {"start": 64, "duration": 2.5}]},
            ClientRecord(token_ranges=(RetentionRange(0, 64, 90), RetentionRange(64, None, 35, 2.5))),
        ),
        (
            {
                "token_range_retention_configs": [
                    {"token_start": 8, "token_end": None, "priority": 1, "duration_ms": 500}
                ]
            },
            ClientRecord(token_ranges=(RetentionRange(8, None, 1, 0.5),)),
        ),
        ({}, ClientRecord()),
    ],
)
def test_fields_by_any_of_their_names(fields: dict[str, Any], expected: ClientRecord) -> None:
    assert parse_record(fields) == expected
    assert parse_record(fields, strict=False) == expected


BAD = [
    ({"sesion_id": "a"}, "unknown field 'sesion_id'; known: session_id"),
    ({"session_id": ""}, "session_id: ''; it must be a text of 1 to 256 characters"),
    ({"session_id": "x" * 257}, "session_id: 'xxx"),
    ({"job_id": True}, "job_id: True; it must be a text"),
    ({"job_id": 1.5}, "job_id: 1.5; it must be a text"),
    ({"last_turn": 1}, "last_turn: 1; it must be true or false"),
    ({"is_last_step": "yes"}, "is_last_step: 'yes'; it must be true or false"),
    ({"tool": 3}, "tool: 3; it must be a name or a list of 1 to 32 names"),
    ({"tools": []}, "tools: []; it must be a name or a list"),
    ({"tools": ["a"] * 33}, "it must be a name or a list of 1 to 32 names"),
    ({"tools": ["a", None]}, "tools: None; it must be a text"),
    ({"expected_gap": math.nan}, "expected_gap: nan; it must be a number from 0 to 1e+06 s"),
    ({"expected_gap": -1}, "expected_gap: -1; it must be a number from 0 to 1e+06 s"),
    ({"expected_gap": 1e9}, "expected_gap: 1000000000.0; it must be a number from 0 to 1e+06 s"),
    ({"expected_gap": 10**400}, "it must be a number from 0 to 1e+06 s"),
    ({"predict_time": math.inf}, "predict_time: inf; it must be a number from 0 to 1e+06 s"),
    ({"expected_gap": "3"}, "expected_gap: '3'; it must be a number from 0 to 1e+06 s"),
    ({"expected_gap": True}, "expected_gap: True; it must be a number"),
    ({"progress": 0}, "progress: 0; it must be above 0, at most 1"),
    ({"progress": 1.5}, "progress: 1.5; it must be a number from 0 to 1"),
    ({"priority": 101}, "priority: 101; it must be a whole number from 0 to 100"),
    ({"priority": 3.0}, "priority: 3.0; it must be a whole number"),
    ({"ttl": -0.5}, "ttl: -0.5; it must be a number from 0 to 1e+06 s"),
    ({"ttl_ms": 2e9}, "ttl_ms: 2000000000.0; it must be a number from 0 to 1e+09 ms"),
    ({"lifetime": "forever"}, "lifetime: 'forever'; it must be 'fixed' or 'refresh'"),
    ({"session_id": "a", "job_id": "b"}, "job_id: 'b' contradicts session_id, 'a'"),
    ({"ttl": 1, "ttl_ms": 2000}, "ttl_ms: 2000 contradicts ttl, 1"),
    ({"token_ranges": {"start": 0}}, "token_ranges: {'start': 0}; it must be a list of at most 64 ranges"),
    ({"token_ranges": [5]}, "token_ranges[0]: 5; it must be a range with start and end"),
    ({"token_ranges": [{"begin": 5}]}, "token_ranges[0]: unknown field 'begin'"),
    ({"token_ranges": [{"start": -1}]}, "token_ranges: start: token -1; it must not be negative"),
    ({"token_ranges": [{"start": 0, "priority": "high"}]}, "token_ranges: priority: 'high' is not a whole number"),
    ({"token_ranges": [{"start": 0, "duration": 1e9}]}, "token_ranges[0].duration: 1000000000.0; it must be"),
    ({"token_ranges": [{"start": 0}, {"start": 5}]}, "token_ranges: ranges: tokens 0 to the end overlap"),
    ({7: "a"}, "unknown field '7'"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_bad_field_is_named_with_value_and_limit(fields: dict[Any, Any], message: str) -> None:
    with pytest.raises(ClientFieldError, match=re.escape(message)):
        parse_record(fields)


@pytest.mark.parametrize(("fields", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_lenient_server_leaves_bad_fields_out_and_names_them(fields: dict[Any, Any], message: str) -> None:
    record = parse_record({**fields, "after_tool": "bash"}, strict=False)
    assert record.after_tool == "bash"
    assert len(record.problems) == 1
    assert record.problems[0] in {str(name) for name in fields}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(record_module._FIELDS)) | st.text(max_size=5), json_values, max_size=5))
def test_whatever_a_client_sends_is_a_record_or_a_client_field_error(fields: dict[str, Any]) -> None:
    try:
        strict = parse_record(fields)
    except ClientFieldError:
        assert parse_record(fields, strict=False).problems
    else:
        assert parse_record(fields, strict=False) == strict
        assert strict.expected_gap is None or 0.0 <= strict.expected_gap <= 1e6


def test_the_documented_fields_are_those_that_are_read() -> None:
    documented = record_module.__doc__ or ""
    rows = [line.split("|")[1:3] for line in documented.splitlines() if line.startswith("| ")][1:]
    names = {name for row in rows for cell in row for name in re.findall(r"\w+", cell)}
    assert names == set(record_module._FIELDS)


def test_a_record_comes_from_json_as_servers_get_it() -> None:
    text = '{"job_id": "j1", "this_func_call": ["grep", "ls"], "is_last_step": false, "ttl": 5}'
    assert parse_record(json.loads(text)) == ClientRecord(session_id="j1", tools=("grep", "ls"), ttl=5.0)
