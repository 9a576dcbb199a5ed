"""A line in virtual time: the window keeps it busy, and the queue on it short."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.node.links import window
from gateway.node.links.window import ACKNOWLEDGE_BYTES, Window
from tree_handler.errors import ProtocolError

PACKET_BYTES = 8 * 1024


class Line:
    """A line of a rate and a delay with an endless queue in front of it."""

    def __init__(self, bytes_per_s: float, delay_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.delay_s = delay_s
        self.window = Window()
        self.delays_s: list[float] = []
        self._now = self._free_at = 0.0
        self._acks: deque[tuple[float, int, float]] = deque()
        self._acknowledged = 0

    def run(self, duration_s: float) -> int:
        """Send as much as the window lets through; return how much was acknowledged."""
        before, end = self.window.acknowledged, self._now + duration_s
        while self._now < end:
            while self.window.under_way < self.window.size:
                self._send()
            at, total, sent_at = self._acks.popleft()
            self._now = at
            self.delays_s.append(at - sent_at)
            if total - self._acknowledged >= ACKNOWLEDGE_BYTES:
                self._acknowledged = total
                self.window.acknowledge(total, at)
        return self.window.acknowledged - before

    def _send(self) -> None:
        self.window.has_sent(PACKET_BYTES, self._now)
        self._free_at = max(self._free_at, self._now) + PACKET_BYTES / self.bytes_per_s
        self._acks.append((self._free_at + self.delay_s, self.window.sent, self._now))


@settings(max_examples=30, deadline=None)
@given(st.floats(32_000, 3_000_000), st.floats(0.0001, 0.3))
def test_a_line_is_kept_busy_and_a_hello_on_it_waits_for_less_than_a_second(
    bytes_per_s: float, delay_s: float
) -> None:
    line = Line(bytes_per_s, delay_s)
    line.run(6)  # to find its rate
    line.delays_s.clear()
    delivered = line.run(4)
    most = min(bytes_per_s, window.MAX_BYTES / (delay_s + PACKET_BYTES / bytes_per_s))
    assert delivered > 0.5 * 4 * most
    least_s = (window.MIN_BYTES + 2 * ACKNOWLEDGE_BYTES) / bytes_per_s
    assert max(line.delays_s) < delay_s + max(3 * window.TARGET_S, 2 * least_s)


def test_a_line_that_becomes_slow_gets_a_small_window_and_one_that_becomes_fast_a_large_one() -> (
    None
):
    line = Line(10_000_000, 0.01)
    line.run(5)
    assert line.window.size > 1_000_000
    line.bytes_per_s = 200_000
    line.run(30)
    assert line.window.size < 100_000
    line.bytes_per_s = 20_000_000
    line.run(5)
    assert line.window.size > 1_000_000


def test_a_line_that_becomes_long_is_used_again() -> None:
    line = Line(5_000_000, 0.01)
    line.run(5)
    line.delay_s = 0.5
    line.run(30)
    assert line.run(5) > 5 * 1_000_000


def test_a_pause_is_no_delay() -> None:
    measured = Window()
    measured.has_sent(10_000, 0.0)
    measured.acknowledge(10_000, 0.01)
    measured.has_sent(10_000, 1.0)
    measured.has_sent(window.START_BYTES, 100.0)
    measured.acknowledge(28_000, 100.01)
    assert measured.size >= window.START_BYTES


@pytest.mark.parametrize("total", [99, 1_001])
def test_what_was_never_sent_can_not_be_acknowledged(total: int) -> None:
    measured = Window()
    measured.has_sent(1_000, 0.0)
    measured.acknowledge(100, 0.1)
    with pytest.raises(ProtocolError, match="acknowledgement"):
        measured.acknowledge(total, 0.2)


def test_an_acknowledgement_of_nothing_that_was_marked_changes_nothing() -> None:
    idle = Window()
    idle.acknowledge(0, 5.0)  # nothing was sent
    assert (idle.size, idle.under_way, idle.acknowledged) == (window.START_BYTES, 0, 0)


@pytest.mark.parametrize(("late_s", "is_smaller"), [(0.0, False), (0.01, True)])
def test_a_window_shrinks_when_a_delay_is_longer_than_its_target_and_not_before(
    late_s: float, is_smaller: bool
) -> None:
    line = Window()
    line.has_sent(1_000, 0.0)
    line.acknowledge(1_000, 0.25)  # the line's own delay
    size = line.size
    line.has_sent(PACKET_BYTES, 0.0)
    line.acknowledge(1_000 + PACKET_BYTES, 0.25 + window.TARGET_S + late_s)
    assert (line.size < size) is is_smaller
    assert line.size in (size, window.MIN_BYTES)


def test_a_window_grows_by_what_was_acknowledged_while_it_is_in_use_and_there_is_no_queue() -> None:
    for unused, delay_s, grows in (
        (ACKNOWLEDGE_BYTES, 0.0, True),
        (ACKNOWLEDGE_BYTES + 1, 0.0, False),
        (0, window.TARGET_S / 2 - 0.01, True),
        (0, window.TARGET_S / 2, False),
    ):
        line = Window()
        line.has_sent(1, 0.0)
        line.acknowledge(1, 0.0)
        size = line.size
        sent = size - unused
        line.has_sent(sent, 1.0)
        line.acknowledge(1 + sent, 1.0 + delay_s)
        assert line.size == size + grows * sent, (unused, delay_s)


def test_what_is_acknowledged_was_sent_and_is_no_less_than_before() -> None:
    line = Window()
    line.has_sent(10, 0.0)
    line.acknowledge(5, 0.0)
    for wrong in (4, 11):
        with pytest.raises(ProtocolError, match="acknowledgement on a link"):
            line.acknowledge(wrong, 0.0)
    line.acknowledge(5, 0.0)
    line.acknowledge(10, 0.0)
    assert line.under_way == 0
