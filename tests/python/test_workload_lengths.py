"""CSV traces of arrivals and lengths: what is read, what is refused, and prefixes made for them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kvopt.errors import TraceError
from kvopt.workload import SharedPrompts, read_lengths, read_trace

DATA = Path(__file__).parent / "data"


def test_burstgpt() -> None:
    lengths = read_lengths(DATA / "burstgpt.csv")
    assert lengths.format == "burstgpt"
    assert lengths.time.tolist() == [0.0, 40.0, 113.5]
    assert lengths.input_tokens.tolist() == [472, 1087, 417]
    assert lengths.output_tokens.tolist() == [18, 230, 0]


def test_azure() -> None:
    lengths = read_lengths(DATA / "azure.csv")
    assert lengths.format == "azure"
    assert lengths.time == pytest.approx([0.0, 4.314579, 3604.314579], abs=1e-6)
    assert lengths.input_tokens.tolist() == [374, 396, 879]
    assert lengths.output_tokens.tolist() == [44, 109, 55]


def test_azure_times_with_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "zoned.csv.gz"
    rows = (
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2024-05-10 00:00:00.5+00:00,1,2",
        "2024-05-10 02:00:01+02:00,3,4",
    )
    path.write_bytes(gzip.compress("\r\n".join(rows).encode("utf-8-sig")))
    assert read_lengths(path).time.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("name", ["burstgpt.csv", "azure.csv"])
def test_reuse_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(
        TraceError, match=rf"{name}: .* arrivals and lengths only.*kvopt trace generate prompts --arrivals"
    ):
        read_trace(DATA / name)


HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "x,m,1,1,2,l\n", "line 2: Timestamp: 'x': could not convert"),
        (HEADER + "nan,m,1,1,2,l\n", "line 2: Timestamp: 'nan': is not a finite number"),
        (HEADER + "-1,m,1,1,2,l\n", "line 2: Timestamp: '-1' is below 0"),
        (HEADER + "5,m,1,1,2,l\n4,m,1,1,2,l\n", "line 3: Timestamp: 4 is before"),
        (HEADER + "5,m,-1,1,2,l\n", "line 2: Request tokens: '-1' is not a whole number"),
        (HEADER + "5,m,1.5,1,2,l\n", "line 2: Request tokens: '1.5' is not a whole number"),
        (HEADER + "5,m,1,4294967296,2,l\n", "line 2: Response tokens: 4294967296 is above 4294967295"),
        (HEADER + f"5,m,1,{'9' * 5000},2,l\n", "line 2: Response tokens: 9+ is above"),
        (HEADER + "5,m,1,1\n", "line 2: 4 fields, but 6 in the header"),
        (HEADER + '5,"m,1,1,2,l\n', "line 2: not valid CSV"),
        (HEADER, "no request in the file"),
        ("", "an empty file"),
        ("a,b,c\n1,2,3\n", "line 1: columns a, b, c are of no known format"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "line 2: TIMESTAMP: 'yesterday'"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"bad\.csv: " + message):
        read_lengths(path)


def test_generated_prefixes_keep_times_and_lengths() -> None:
    lengths = read_lengths(DATA / "burstgpt.csv")
    trace = SharedPrompts(prompts=1, prompt_tokens=2000, block_tokens=64, arrivals=lengths).load()
    assert trace.time.tolist() == lengths.time.tolist()
    assert trace.input_tokens.tolist() == [472, 1087, 417]
    assert trace.output_tokens.tolist() == [18, 230, 0]
    # One prompt, longer than all requests: each is a piece of its head, so the second adds what the first lacks.
    assert [trace.prefix.chain(r).tolist() for r in range(3)] == [list(range(7)), list(range(16)), list(range(6))]
    assert trace.source["arrivals"] == "burstgpt"
