"""Sessions by name and by the prefix tree, and what is forgotten."""

from __future__ import annotations

from kvopt.vllm.sessions import SessionTable


def chain(*parts: str) -> list[bytes]:
    return ["/".join(parts[: end + 1]).encode() for end in range(len(parts))]


def test_a_name_is_a_session() -> None:
    table = SessionTable()
    first = table.arrive("a", chain("x"), 1.0)
    table.finish(first.session, chain("x", "y"), 3.0)
    second = table.arrive("a", chain("z"), 4.5)
    other = table.arrive("b", chain("x", "y"), 5.0)
    assert (first.turn, first.gap) == (0, None)
    assert (second.session, second.turn, second.gap) == (first.session, 1, 1.5)
    assert other.session != first.session


def test_without_a_name_the_last_answer_is_continued() -> None:
    table = SessionTable()
    first = table.arrive(None, chain("x"), 0.0)
    table.finish(first.session, chain("x", "answer"), 2.0)
    assert table.arrive(None, chain("x", "other"), 3.0).session != first.session
    second = table.arrive(None, chain("x", "answer", "more", "text"), 5.0)
    assert (second.session, second.turn, second.gap) == (first.session, 1, 3.0)
    table.finish(second.session, chain("x", "answer", "more", "text", "end"), 6.0)
    # An earlier answer, edited, is another branch.
    assert table.arrive(None, chain("x", "answer", "edited"), 7.0).session != first.session


def test_an_answer_without_a_full_block_continues_nothing() -> None:
    table = SessionTable()
    first = table.arrive(None, [], 0.0)
    table.finish(first.session, [], 1.0)
    assert table.arrive(None, chain("x"), 2.0).session != first.session


def test_the_walk_is_bounded() -> None:
    table = SessionTable(longest_walk=3)
    first = table.arrive(None, chain("x"), 0.0)
    table.finish(first.session, chain("x"), 1.0)
    assert table.arrive(None, chain("x", "1", "2"), 2.0).session == first.session
    assert table.arrive(None, chain("x", "1", "2", "3"), 3.0).session != first.session


def test_only_so_many_are_remembered() -> None:
    table = SessionTable(most=2)
    a = table.arrive("a", chain("a"), 0.0)
    table.finish(a.session, chain("a"), 0.5)
    b = table.arrive("b", [], 1.0)
    table.arrive("a", [], 2.0)
    table.arrive("c", [], 3.0)  # forgets b, which was used least lately
    assert len(table) == 2
    assert table.arrive("a", [], 4.0).session == a.session
    assert table.arrive("b", [], 5.0).session != b.session
    table.finish(b.session, chain("q"), 6.0)  # of a forgotten session: nothing to note
    assert table.arrive(None, chain("q"), 7.0).turn == 0
