"""Announcements: wire form, what is believed, and when to announce (row C1)."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.discovery import (
    MAX_ANNOUNCEMENT_BYTES,
    Announcement,
    AnnouncementError,
    AnnouncementTimes,
    Discovery,
    ForeignTreeError,
)
from tree_handler.rate_limit import RateLimit

KEY = b"k" * 32
HERE = "10.0.0.9"


def announcement(gateway_id: str = "gw-b", epoch: int = 1, tree: str = "demo") -> Announcement:
    return Announcement(tree, gateway_id, epoch, "10.0.0.2", 1883)


def discovery(**options: Any) -> Discovery:
    return Discovery(announcement("gw-a"), KEY, 0.0, **options)


# -- wire form -----------------------------------------------------------------------------------


@given(
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True),
    st.integers(1, 2**32 - 1),
    st.sampled_from(["127.0.0.1", "2001:db8::1", "pi.example"]),
    st.integers(0, 65_535),
)
def test_an_announcement_survives_its_wire_form(
    gateway_id: str, epoch: int, address: str, port: int
) -> None:
    sent = Announcement("demo", gateway_id, epoch, address, port)
    assert Announcement.decode(sent.encode(KEY), "demo", KEY) == sent


@given(st.binary(max_size=MAX_ANNOUNCEMENT_BYTES + 1))
def test_any_bytes_are_refused_with_an_announcement_error(data: bytes) -> None:
    with pytest.raises(AnnouncementError):
        Announcement.decode(data, "demo", KEY)


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary(), st.lists, max_leaves=6))
def test_any_body_is_refused_with_an_announcement_error(body: object) -> None:
    try:
        packed = msgpack.packb(body)
    except OverflowError:
        return
    with pytest.raises(AnnouncementError):
        Announcement.decode(b"HA\x01" + packed + bytes(32), "demo", KEY)


@given(st.integers(0, 7), st.data())
def test_one_changed_bit_anywhere_is_refused(bit: int, data: st.DataObject) -> None:
    datagram = bytearray(announcement().encode(KEY))
    datagram[data.draw(st.integers(0, len(datagram) - 1))] ^= 1 << bit
    with pytest.raises(AnnouncementError):
        Announcement.decode(bytes(datagram), "demo", KEY)


def test_another_tree_and_another_key_are_told_apart() -> None:
    with pytest.raises(ForeignTreeError, match="other-tree"):
        Announcement.decode(announcement(tree="other-tree").encode(KEY), "demo", KEY)
    with pytest.raises(AnnouncementError, match="MAC: 'gw-b'"):
        Announcement.decode(announcement().encode(b"x" * 32), "demo", KEY)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tree": ""}, "tree"),
        ({"tree": "t" * 65}, "tree"),
        ({"tree": "t t"}, "tree"),
        ({"tree": "ä"}, "tree"),
        ({"gateway_id": "GW"}, "gateway id"),
        ({"boot_epoch": 0}, "boot epoch"),
        ({"address": "10.0.0.1 "}, "address"),
        ({"mqtt_port": -1}, "MQTT port"),
        ({"mqtt_port": 65_536}, "MQTT port"),
        ({"mqtt_port": "1883"}, "MQTT port"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], named: str) -> None:
    proper: dict[str, Any] = {
        "tree": "t",
        "gateway_id": "g",
        "boot_epoch": 1,
        "address": "a",
        "mqtt_port": 1,
    }
    with pytest.raises(AnnouncementError, match=f"^announcement {named}: "):
        Announcement(**(proper | fields))


def test_the_longest_announcement_is_read() -> None:
    longest = Announcement("t" * 64, "g" * 63, MAX_BOOT_EPOCH, "h." * 126 + "h", 65_535)
    assert Announcement.decode(longest.encode(KEY), "t" * 64, KEY) == longest


def test_a_short_key_is_refused_without_showing_it() -> None:
    with pytest.raises(AnnouncementError, match="too short, bytes: 6") as refused:
        Discovery(announcement(), b"secret", 0.0)
    assert "secret" not in str(refused.value)


# -- what is believed ----------------------------------------------------------------------------


def test_a_gateway_of_the_tree_is_found_each_time_it_announces_itself() -> None:
    core = discovery()
    for now in (1.0, 2.0):
        assert core.receive(announcement().encode(KEY), HERE, now, 0.5) == announcement()
    assert core.counters.found == 2


@pytest.mark.parametrize("unspecified", ["0.0.0.0", "::"])
def test_a_broker_at_all_addresses_is_found_where_its_announcement_comes_from(
    unspecified: str,
) -> None:
    datagram = Announcement("demo", "gw-b", 1, unspecified, 1883).encode(KEY)
    heard = discovery().receive(datagram, HERE, 0.0, 0.5)
    assert heard == Announcement("demo", "gw-b", 1, HERE, 1883)


def test_own_foreign_forged_and_outdated_announcements_are_counted_and_passed_over() -> None:
    core = discovery()
    core.receive(announcement(epoch=5).encode(KEY), HERE, 0.0, 0.5)
    for datagram in (
        announcement("gw-a").encode(KEY),
        announcement(tree="other").encode(KEY),
        announcement().encode(b"x" * 32),
        announcement(epoch=4).encode(KEY),
        b"",
    ):
        assert core.receive(datagram, HERE, 0.0, 0.5) is None
    counters = core.counters
    assert (counters.own, counters.foreign, counters.refused, counters.stale) == (1, 1, 2, 1)


def test_a_source_that_floods_is_cut_off_and_others_are_still_heard() -> None:
    core = discovery(sources=RateLimit(per_second=1.0, burst=3))
    for _ in range(10):
        core.receive(b"junk", "10.0.0.66", 0.0, 0.5)
    assert (core.counters.refused, core.counters.limited) == (3, 7)
    assert core.receive(announcement().encode(KEY), HERE, 0.0, 0.5) is not None


def test_the_table_of_gateways_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tree_handler.discovery.MAX_KNOWN", 2)
    core = discovery()
    for name in ("gw-1", "gw-2", "gw-3"):
        core.receive(announcement(name, 9).encode(KEY), HERE, 0.0, 0.5)
    # The first one is forgotten, so an old epoch of it is no longer known to be old.
    assert core.receive(announcement("gw-1", 8).encode(KEY), HERE, 0.0, 0.5) is not None
    assert core.receive(announcement("gw-3", 8).encode(KEY), HERE, 0.0, 0.5) is None


# -- when to announce ----------------------------------------------------------------------------


def test_it_announces_at_once_and_then_at_varied_intervals() -> None:
    core = discovery(times=AnnouncementTimes(interval_s=4.0))
    assert core.next_timer() == 0.0
    datagram = core.handle_timer(0.0, 0.0)
    assert datagram is not None
    assert Announcement.decode(datagram, "demo", KEY) == announcement("gw-a")
    assert core.next_timer() == 3.0
    assert core.handle_timer(2.9, 0.0) is None
    assert core.handle_timer(3.0, 1.0) is not None
    assert core.next_timer() == 8.0


def test_a_newcomer_gets_an_answer_soon_and_a_known_gateway_does_not() -> None:
    core = discovery(times=AnnouncementTimes(interval_s=60.0, newcomer_s=0.5))
    core.handle_timer(0.0, 0.5)
    core.receive(announcement().encode(KEY), HERE, 1.0, 0.5)
    assert core.next_timer() == 1.25
    core.handle_timer(1.25, 0.5)
    core.receive(announcement().encode(KEY), HERE, 2.0, 0.5)
    assert core.next_timer() == 61.25
    core.receive(announcement(epoch=2).encode(KEY), HERE, 3.0, 1.0)
    assert core.next_timer() == 3.5


def test_more_gateways_than_are_remembered_do_not_answer_each_other_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tree_handler.discovery.MAX_KNOWN", 4)
    core, sent, now = discovery(times=AnnouncementTimes(interval_s=5.0)), 0, 0.0
    for turn in range(600):  # six others, each every six seconds
        while core.next_timer() <= now:
            sent += core.handle_timer(core.next_timer(), 0.5) is not None
        core.receive(announcement(f"gw-{turn % 6}").encode(KEY), HERE, now, 0.5)
        now += 1.0
    assert sent <= 600 / 5.0 + 6


# -- rate limit ----------------------------------------------------------------------------------


def test_a_source_has_a_burst_and_then_a_steady_rate() -> None:
    limit = RateLimit(per_second=2.0, burst=2)
    assert [limit.allow("a", 0.0) for _ in range(3)] == [True, True, False]
    assert [limit.allow("a", 0.5) for _ in range(2)] == [True, False]
    assert [limit.allow("a", 100.0) for _ in range(3)] == [True, True, False]


def test_forged_sources_do_not_grow_the_table() -> None:
    limit = RateLimit(per_second=1.0, burst=2, max_sources=3)
    assert [limit.allow(f"s{n}", 0.0) for n in range(5)] == [True, True, True, False, False]
    assert limit.allow("s0", 0.5)
    assert limit.allow("s9", 1.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 2)), max_size=60))
def test_no_source_gets_more_than_burst_and_rate_allow(steps: list[tuple[str, float]]) -> None:
    limit, now, allowed = RateLimit(per_second=1.0, burst=3), 0.0, {"a": 0, "b": 0, "c": 0}
    for source, wait_s in steps:
        now += wait_s
        allowed[source] += limit.allow(source, now)
        assert allowed[source] <= 3 + now + 1e-6


def test_what_is_wrong_in_a_datagram_is_named() -> None:
    whole = announcement().encode(KEY)
    for datagram, named in (
        (b"HB" + whole[2:], "magic"),
        (whole[:2] + b"\0" + whole[3:], "version: 0"),
        (whole[:2] + b"\2" + whole[3:], "version: 2"),
        (whole[:35], "length, bytes: 35"),
        (whole[:3] + b"\x94" + whole[4:], "body"),
        (whole[:3] + b"\x80" + bytes(32), "body: {}"),
        (whole[:-1] + bytes((whole[-1] ^ 1,)), "MAC: 'gw-b'"),
    ):
        with pytest.raises(AnnouncementError, match=named):
            Announcement.decode(datagram, "demo", KEY)
    with pytest.raises(ForeignTreeError, match="another tree: 'demo'"):
        Announcement.decode(whole, "other", KEY)
