"""The status record on the wire: a bounded msgpack map whose wrong field is named."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from record_formats.status_record import (
    MAX_BYTES,
    MAX_COUNTERS,
    MAX_LINKS,
    LinkStatus,
    StatusError,
    StatusRecord,
    decode,
)

FULL = StatusRecord(
    interval_s=10.0,
    software="0.1.0",
    build="compiled",
    up_s=12.5,
    domain="campus",
    group="north",
    latitude=52.3791283,
    longitude=-4.9,
    clock_offset_ms=-0.25,
    temperature_cel=51.5,
    under_voltage=False,
    disk_free_bytes=0,
    disk_total_bytes=10**9,
    disk_written_bytes=123_456,
    memory_bytes=50_000_000,
    memory_available_bytes=400_000_000,
    load1=0.0,
    queue_messages=3,
    queue_bytes=4,
    mqtt_clients=5,
    root="gw-root",
    parent="gw-b",
    root_cost_ms=7,
    roles=("group-head",),
    links=(LinkStatus("gw-b", 1.5, "root", "forwarding"), LinkStatus("gw-c", None, "x", "y")),
    link_count=2,
    reconvergences=3,
    elections=1,
    counters={"published": 9},
    page="https://gw-a:8443/healthz",
)
SMALL = {"r": 1, "e": 10.0}
COUNTS = st.integers(0, 2**63 - 1)
TEXTS = st.text(max_size=200).filter(str.isprintable)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
RECORDS = st.builds(
    StatusRecord,
    interval_s=st.floats(0.5, 86_400),
    software=TEXTS,
    clock_offset_ms=st.none() | st.floats(-1e15, 1e15),
    under_voltage=st.none() | st.booleans(),
    disk_free_bytes=st.none() | COUNTS,
    root_cost_ms=st.none() | st.floats(0, 1e9),
    domain=st.just("") | NAMES,
    parent=st.none() | NAMES,
    roles=st.lists(TEXTS, max_size=3).map(tuple),
    links=st.lists(
        st.builds(LinkStatus, NAMES, st.none() | st.floats(0, 1e9), TEXTS, TEXTS), max_size=3
    ).map(tuple),
    counters=st.dictionaries(TEXTS, COUNTS, max_size=5),
    more=st.dictionaries(st.sampled_from(["x", "later"]), st.none() | st.integers(0, 9)),
)


@given(RECORDS)
def test_what_is_written_is_read_again(record: StatusRecord) -> None:
    assert decode(record.encode()) == record


def test_a_full_record_takes_less_than_four_hundred_bytes_and_what_is_unknown_takes_none() -> None:
    assert decode(FULL.encode()) == FULL
    assert len(FULL.encode()) < 400
    assert msgpack.unpackb(StatusRecord(interval_s=10.0).encode()) == SMALL


def test_no_and_zero_are_told_apart_from_unknown() -> None:
    read = decode(replace(FULL, under_voltage=False, disk_free_bytes=0, load1=0.0).encode())
    assert (read.under_voltage, read.disk_free_bytes, read.load1) == (False, 0, 0.0)
    read = decode(msgpack.packb(SMALL))
    assert (read.under_voltage, read.disk_free_bytes, read.load1) == (None, None, None)


def test_keys_of_later_versions_are_kept_and_links_may_tell_more() -> None:
    later = SMALL | {"r": 2, "battery": 0.5, "ln": [["gw-b", 1, "root", "forwarding", "new"]]}
    read = decode(msgpack.packb(later))
    assert read.more == {"r": 2, "battery": 0.5}
    assert read.links == (LinkStatus("gw-b", 1.0, "root", "forwarding"),)
    assert decode(read.encode()).more == read.more


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"e": 0}, "$.e"),
        ({"e": None}, "$.e"),
        ({"up": -1}, "$.up"),
        ({"up": float("nan")}, "$.up"),
        ({"tc": float("inf")}, "$.tc"),
        ({"la": 90.1}, "$.la"),
        ({"la": float("nan")}, "$.la"),
        ({"la": "52"}, "$.la"),
        ({"lo": -180.5}, "$.lo"),
        ({"lo": float("-inf")}, "$.lo"),
        ({"dw": -1}, "$.dw"),
        ({"dw": 2**64 - 1}, "$.dw"),
        ({"v": "x" * 201}, "$.v"),
        ({"uv": 1}, "$.uv"),
        ({"ro": ["x"] * 17}, "$.ro"),
        ({"ln": [["gw-b", 1, "root", "forwarding"]] * (MAX_LINKS + 1)}, "$.ln"),
        ({"ln": [["gw-b", float("nan"), "root", "forwarding"]]}, "$.ln"),
        ({"ln": [["gw-b"]]}, "$.ln"),
        ({"c": {f"{at}": 1 for at in range(MAX_COUNTERS + 1)}}, "$.c"),
        ({"d": "x" * 300}, "$.d"),
        ({"d": "../.."}, "$.d"),
        ({"d": "{{lookup('pipe', 'id')}}"}, "$.d"),
        ({"d": "campus", "g": "<b>"}, "$.g"),
        ({"g": "north"}, "$.g"),
        ({"rt": "gw-root\n"}, "$.rt"),
        ({"pa": "GW"}, "$.pa"),
        ({"v": "\x1b[2J"}, "$.v"),
        ({"b": "a\nb"}, "$.b"),
        ({"ro": ["\u202e"]}, "$.ro"),
        ({"c": {"a\tb": 1}}, "$.c"),
        ({"ln": [["a b", 1, "root", "forwarding"]]}, "$.ln"),
        ({"ln": [["gw-b", 1, "\r", "forwarding"]]}, "$.ln"),
        ({"ln": [["gw-b", -1, "root", "forwarding"]]}, "$.ln"),
        ({"rc": 1e300}, "$.rc"),
        ({"l1": -0.5}, "$.l1"),
        ({"new_": 1}, "$.new_"),
        ({"r": 0}, "$.r"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], where: str) -> None:
    with pytest.raises(StatusError, match=f"at `{where.replace('$', '[$]')}"):
        decode(msgpack.packb(SMALL | change))


def test_a_record_that_is_too_long_is_neither_written_nor_read() -> None:
    with pytest.raises(StatusError, match=f"at most {MAX_BYTES}"):
        replace(FULL, more={"x": "y" * MAX_BYTES}).encode()
    with pytest.raises(StatusError, match=f"at most {MAX_BYTES}"):
        decode(msgpack.packb(SMALL | {"x": "y" * MAX_BYTES}))


@given(st.binary(max_size=60))
def test_any_other_bytes_are_refused_with_an_error_of_its_own(payload: bytes) -> None:
    with contextlib.suppress(StatusError):
        decode(payload)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("key", ["e", "up", "la", "lo", "co", "tc", "l1", "rc", "ba", "ln"])
def test_no_measure_is_read_that_is_not_finite(key: str, number: float) -> None:
    told = [["gw-b", number, "root", "forwarding"]] if key == "ln" else number
    with pytest.raises(StatusError, match=rf"at `[$]\.{key}\b"):
        decode(msgpack.packb(SMALL | {key: told}))


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("e", None, 86_400.0),
        ("up", 0.0, 1e10),
        ("la", -90.0, 90.0),
        ("lo", -180.0, 180.0),
        ("co", -1e15, 1e15),
        ("tc", -1e4, 1e4),
        ("l1", 0.0, 1e6),
        ("rc", 0.0, 1e9),
        ("ba", 0.0, 1e10),
        ("rg", 1, 2**63 - 1),
        *((key, 0, 2**63 - 1) for key in ("df", "dt", "dw", "m", "ma", "qm", "qb", "cl")),
        *((key, 0, 2**63 - 1) for key in ("lc", "ch", "el", "rm", "rn")),
    ],
)
def test_a_measure_is_read_at_both_its_bounds_and_refused_one_step_beyond(
    key: str, least: float | None, most: float
) -> None:
    bounds = [(most, math.inf)] if least is None else [(least, -math.inf), (most, math.inf)]
    for bound, way in bounds:
        read = decode(msgpack.packb(SMALL | {key: bound}))
        assert msgpack.unpackb(read.encode()).get(key, 0) == bound
        is_count = isinstance(bound, int)
        beyond = bound + int(math.copysign(1, way)) if is_count else math.nextafter(bound, way)
        with pytest.raises(StatusError, match=rf"at `[$]\.{key}`"):
            decode(msgpack.packb(SMALL | {key: beyond}))
