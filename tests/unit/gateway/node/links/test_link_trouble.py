"""A lasting trouble is logged once and then rarely, and no stranger makes a log say more."""

from __future__ import annotations

from gateway.node.links.dial_failures import (
    AGAIN_S,
    GRACE_S,
    MAX_REASONS,
    MAX_STRANGERS,
    STRANGERS_AT_ONCE,
    DialFailures,
    RefusedPeers,
)

DAY_S = 86_400


def test_what_fails_every_five_seconds_is_said_once_and_then_every_ten_minutes() -> None:
    trouble = DialFailures()
    said = [
        now_s for now_s in range(0, DAY_S, 5) if trouble.failed("another key", float(now_s), 0.0)
    ]
    assert said[:2] == [0, AGAIN_S]
    assert len(said) == DAY_S // AGAIN_S
    assert trouble.times == DAY_S // 5


def test_what_may_mend_by_itself_is_said_after_a_moment() -> None:
    trouble = DialFailures()
    times_s = (0.0, GRACE_S / 2, GRACE_S)
    assert [trouble.failed("refused", at, at, GRACE_S) for at in times_s] == [0, 0, 1]


def test_two_reasons_that_take_turns_are_each_said_once() -> None:
    trouble = DialFailures()
    lines = sum(trouble.failed(f"reason {n % 2}", float(n), 0.0) for n in range(int(AGAIN_S)))
    assert lines == 2


def test_reasons_without_end_are_not_said_without_end() -> None:
    trouble = DialFailures()
    lines = sum(trouble.failed(f"reason {n}", n / 100, 0.0) for n in range(10_000))
    assert lines == MAX_REASONS


def test_a_neighbour_that_links_is_forgiven_and_said_anew() -> None:
    trouble = DialFailures()
    assert trouble.failed("another key", 0.0, 100.0)
    assert (trouble.since_s, trouble.why) == (100.0, "another key")
    trouble.over()
    assert (trouble.since_s, trouble.times, trouble.why) == (None, 0, "")
    assert trouble.failed("another key", 1.0, 101.0)


def test_a_stranger_is_said_once_and_then_every_ten_minutes() -> None:
    strangers = RefusedPeers()
    said = sum(strangers.refused("1.2.3.4", "key", "key", float(s), 0.0) for s in range(3_600))
    assert said == 6
    (told,) = strangers.status(3_600.0)
    assert told["times"] == 3_600


def test_however_many_addresses_a_stranger_has_lines_and_memory_are_bounded() -> None:
    strangers = RefusedPeers()
    said = sum(
        strangers.refused(f"10.0.{n >> 8}.{n & 255}", "key", "key", n / 1_000, 0.0)
        for n in range(60_000)
    )
    assert said <= STRANGERS_AT_ONCE + 2
    assert len(strangers.status(60.0)) == MAX_STRANGERS


def test_who_has_not_come_for_a_while_is_no_longer_shown() -> None:
    strangers = RefusedPeers()
    strangers.refused("1.2.3.4", "key", "key", 0.0, 50.0)
    assert strangers.status(AGAIN_S - 1)[0]["since_s"] == 50.0
    assert strangers.status(AGAIN_S) == []


def test_a_stranger_who_may_mend_is_said_when_he_has_not_for_so_long() -> None:
    strangers = RefusedPeers()
    times_s = (1_000.0, 1_000.0 + GRACE_S - 1, 1_000.0 + GRACE_S, 1_000.0 + GRACE_S + 1)
    said = [strangers.refused("1.2.3.4", "life", "why", at, 0.0, GRACE_S) for at in times_s]
    assert said == [False, False, True, False]


def test_a_stranger_who_comes_again_after_a_while_is_a_new_one() -> None:
    strangers = RefusedPeers()
    for at in (0.0, AGAIN_S - 1):
        strangers.refused("1.2.3.4", "key", "key", at, 100.0 + at)
    later_s = 2 * AGAIN_S - 1
    assert strangers.refused("1.2.3.4", "key", "other", later_s, 100.0 + later_s)
    (told,) = strangers.status(later_s)
    assert (told["times"], told["since_s"], told["why"]) == (1, 100.0 + later_s, "other")
