"""Turns of writers: who begins when, and who begins no more."""

from __future__ import annotations

import pytest

from gateway.base.write_turns import WriteTurn, WriteTurns


class Writers:
    """Writes to one resource, and in which order they have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.turns = WriteTurns()

    def enter(self, name: str, *, is_alone: bool = False) -> WriteTurn:
        turn = WriteTurn("x", lambda: self.begun.append(name), is_alone=is_alone)
        self.turns.enter(turn)
        return turn


def test_who_has_begun_or_given_up_does_not_begin_again() -> None:
    writers = Writers()
    once = writers.enter("a")
    once.begin()
    gone = WriteTurn("x", lambda: writers.begun.append("b"))
    gone.give_up()
    gone.begin()
    assert writers.begun == ["a"]


def test_one_alone_waits_for_all_before_it_and_all_behind_it_wait_for_it() -> None:
    writers = Writers()
    first, second = writers.enter("a"), writers.enter("b")
    alone = writers.enter("alone", is_alone=True)
    behind = [writers.enter("c"), writers.enter("d")]
    gives_up = writers.enter("e", is_alone=True)
    assert writers.begun == ["a", "b"]
    writers.turns.leave(first)
    assert writers.begun == ["a", "b"]
    writers.turns.leave(second)
    assert writers.begun == ["a", "b", "alone"]
    writers.turns.leave(alone)
    assert writers.begun == ["a", "b", "alone", "c", "d"]
    writers.turns.leave(gives_up)
    gives_up.begin()
    for turn in behind:
        assert len(writers.turns) == 1
        writers.turns.leave(turn)
        writers.turns.leave(turn)
    assert writers.begun == ["a", "b", "alone", "c", "d"]
    assert len(writers.turns) == 0


def test_a_write_that_fails_as_it_begins_keeps_nobody_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise OSError("no disk")

    writers = Writers()
    with pytest.raises(OSError, match="no disk"):
        writers.turns.enter(WriteTurn("x", fail))
    assert len(writers.turns) == 0
    first = writers.enter("a", is_alone=True)
    writers.turns.enter(WriteTurn("x", fail))
    writers.enter("b")
    writers.turns.leave(first)
    assert writers.begun == ["a", "b"]
    assert "a write of 'x' failed as it began" in caplog.text
