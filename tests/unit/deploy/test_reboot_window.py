"""The window in which a Pi may reboot (deploy/ansible/reboot.yml, pull_timer.yml)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from loaded_file import loaded

ANSIBLE = Path(__file__).resolve().parents[3] / "deploy/ansible"
_filters = loaded(ANSIBLE / "filter_plugins/hedgerow_window.py")
in_window, turn, DAYS = _filters.in_window, _filters.turn, _filters.DAYS


@pytest.mark.parametrize(
    ("now", "window", "may"),
    [
        ("Wed 12:00", "", True),
        ("Wed 01:59", "02:00-04:00", False),
        ("Wed 02:00", "02:00-04:00", True),
        ("Wed 03:59", "02:00-04:00", True),
        ("Wed 04:00", "02:00-04:00", False),
        ("Sat 02:30", "Sat,Sun 02:00-04:00", True),
        ("Mon 02:30", "Sat,Sun 02:00-04:00", False),
        ("Tue 23:30", "23:00-01:30", True),
        ("Wed 01:29", "23:00-01:30", True),
        ("Wed 01:30", "23:00-01:30", False),
        # It is the night of Sunday, though it is Monday.
        ("Mon 00:10", "Sun 23:00-01:30", True),
        ("Sun 00:10", "Sun 23:00-01:30", False),
        ("Sun 23:10", "Sun 23:00-01:30", True),
        ("Mon 23:10", "Sun 23:00-01:30", False),
    ],
)
def test_a_pi_reboots_within_the_window_alone(now: str, window: str, may: bool) -> None:
    assert in_window(now, window) is may


@pytest.mark.parametrize(
    "window",
    ["2:00-4:00", "02:00", "02:00-02:00", "24:00-04:00", "Sam 02:00-04:00", "Sat, Sun 02:00-04:00"],
)
def test_a_window_that_is_none_is_refused_by_its_name(window: str) -> None:
    with pytest.raises(ValueError, match="hedgerow_reboot_window is"):
        in_window("Sat 02:00", window)


NIGHT = "02:00-04:00"


def test_each_gateway_of_a_window_has_a_turn_of_its_own_in_the_order_that_is_given() -> None:
    windows = {"gw-c": NIGHT, "gw-a": NIGHT, "gw-by-hand": "", "gw-b": NIGHT}
    assert [turn(windows, host, 10) for host in ("gw-c", "gw-a", "gw-b")] == [
        f"Mon,Tue,Wed,Thu,Fri,Sat,Sun *-*-* 02:{minute}:00" for minute in ("00", "10", "20")
    ]


def test_a_turn_past_midnight_is_on_the_day_after() -> None:
    windows = {"gw-a": "Fri,Sun 23:50-00:30", "gw-b": "Fri,Sun 23:50-00:30"}
    assert turn(windows, "gw-a", 15) == "Fri,Sun *-*-* 23:50:00"
    assert turn(windows, "gw-b", 15) == "Sat,Mon *-*-* 00:05:00"


@given(
    days=st.lists(st.sampled_from(DAYS), min_size=1, unique=True),
    begins=st.integers(0, 1439),
    length=st.integers(1, 1439),
    turn_minutes=st.integers(1, 60),
    count=st.integers(1, 30),
)
def test_turns_never_overlap_and_stay_in_the_window(
    days: list[str], begins: int, length: int, turn_minutes: int, count: int
) -> None:
    assume(count * turn_minutes <= length)
    text = f"{','.join(days)} {clock(begins)}-{clock(begins + length)}"
    windows = dict.fromkeys((f"gw-{number}" for number in range(count)), text)
    taken: list[int] = []
    for host in windows:
        on, _, time = turn(windows, host, turn_minutes).split()
        for day in on.split(","):
            start = DAYS.index(day) * 1440 + int(time[:2]) * 60 + int(time[3:5])
            taken += [(start + minute) % 10_080 for minute in range(turn_minutes)]
    assert len(taken) == len(set(taken)) == count * turn_minutes * len(days)
    assert all(in_window(f"{DAYS[at // 1440]} {clock(at)}", text) for at in taken)


def clock(minute: int) -> str:
    """The time of day of a minute that may be of another day."""
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def test_two_windows_that_overlap_in_part_are_refused_with_both_names() -> None:
    windows = {"gw-a": "Sun 23:00-01:00", "gw-b": "Mon 00:30-02:00"}
    with pytest.raises(ValueError, match=r"of gw-a and .* of gw-b overlap"):
        turn(windows, "gw-b", 10)
    windows["gw-b"] = "Mon 01:00-02:00"
    assert turn(windows, "gw-b", 10) == "Mon *-*-* 01:00:00"


def test_the_same_window_in_other_words_is_shared_and_not_refused() -> None:
    windows = {"gw-a": "Sat,Sun 02:00-04:00", "gw-b": "Sun,Sat 02:00-04:00"}
    assert turn(windows, "gw-b", 10) == "Sat,Sun *-*-* 02:10:00"


def test_a_window_too_short_for_all_that_share_it_says_how_many_it_has_room_for() -> None:
    windows = dict.fromkeys(("gw-a", "gw-b", "gw-c"), "02:00-02:29")
    with pytest.raises(ValueError, match="has room for 2 gateways, 10 minutes each, and 3 share"):
        turn(windows, "gw-a", 10)
