"""Each bound of a record at its exact value: that much is read, and the next is refused.

Another release or another program writes records by these numbers, so they stand here as such.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from record_formats import record, status_record
from record_formats.record import RecordError
from record_formats.status_record import StatusError

LONG_MAX = 9_223_372_036_854_775_807
COUNTS = ("df", "dt", "dw", "m", "ma", "qm", "qb", "cl", "lc", "ch", "el", "rm", "rn")
TEXTS = ("v", "b", "w", "rl", "tr", "tn", "ty", "bk", "by")


def status(**fields: Any) -> bytes:
    return msgspec.msgpack.encode({"r": 1, "e": 10.0, **fields})


def link(peer: str = "gw-b", rtt_ms: float | None = 1.0, role: str = "root") -> list[Any]:
    return [peer, rtt_ms, role, "forwarding"]


@pytest.mark.parametrize(
    ("key", "last", "over"),
    [
        ("r", 1, 0),
        ("e", 86_400, 86_400.5),
        ("e", 1e-9, 0.0),
        ("up", 1e10, 1.1e10),
        ("up", 0.0, -0.1),
        ("la", 90.0, 90.1),
        ("la", -90.0, -90.1),
        ("lo", 180.0, 180.1),
        ("lo", -180.0, -180.1),
        ("co", 1e15, 1.1e15),
        ("co", -1e15, -1.1e15),
        ("tc", 10_000.0, 10_000.5),
        ("tc", -10_000.0, -10_000.5),
        ("l1", 1e6, 1e6 + 1),
        ("l1", 0.0, -0.1),
        ("rc", 1e9, 1e9 + 1),
        ("rc", 0.0, -0.1),
        ("ba", 1e10, 1.1e10),
        ("ba", 0.0, -0.1),
        ("rg", 1, 0),
        ("rg", LONG_MAX, LONG_MAX + 1),
        *((key, LONG_MAX, LONG_MAX + 1) for key in COUNTS),
        *((key, 0, -1) for key in COUNTS),
        *((key, "x" * 200, "x" * 201) for key in TEXTS),
        ("ro", ["x" * 200] * 16, ["x"] * 17),
        ("ro", [], ["x" * 201]),
        ("ln", [link()] * 64, [link()] * 65),
        ("ln", [link(rtt_ms=1e9)], [link(rtt_ms=1e9 + 1)]),
        ("ln", [link(rtt_ms=0.0)], [link(rtt_ms=-0.1)]),
        ("ln", [link(role="x" * 200)], [link(role="x" * 201)]),
        ("c", {f"{n}": LONG_MAX for n in range(64)}, {f"{n}": 1 for n in range(65)}),
        ("c", {"x" * 200: 0}, {"x" * 201: 0}),
        ("c", {"x": 0}, {"x": -1}),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 3 else "",
)
def test_a_field_of_a_status_record_is_read_up_to_its_bound(key: str, last: Any, over: Any) -> None:
    status_record.decode(status(**{key: last}))
    with pytest.raises(StatusError):
        status_record.decode(status(**{key: over}))


def test_a_status_record_of_16_kib_is_read_and_written_and_none_that_is_longer() -> None:
    room = 16_384 - len(status(later="")) - 2  # the head of so long a text takes two bytes more
    payload = status(later="x" * room)
    assert len(payload) == 16_384
    found = status_record.decode(payload)
    assert found.encode() == payload
    with pytest.raises(StatusError, match="16385 bytes, at most 16384"):
        status_record.decode(status(later="x" * (room + 1)))


def reading(**fields: Any) -> bytes:
    made = {"r": 2, "n": "load", "u": "", "t": 0.0, "i": 1, "v": 1.5, **fields}
    return msgspec.msgpack.encode({key: one for key, one in made.items() if one is not None})


@pytest.mark.parametrize(
    ("last", "over"),
    [
        ({"n": "x" * 264}, {"n": "x" * 265}),
        ({"u": "x" * 200}, {"u": "x" * 201}),
        ({"v": None, "vs": "ä" * 65_536}, {"v": None, "vs": "x" * 65_537}),
        ({"v": None, "vd": b"x" * 1_048_576}, {"v": None, "vd": b"x" * 1_048_577}),
        ({"g": {f"{n}": "" for n in range(16)}}, {"g": {f"{n}": "" for n in range(17)}}),
        ({"g": {"x" * 200: "x" * 200}}, {"g": {"x" * 201: ""}}),
        ({"g": {"x": "x" * 200}}, {"g": {"x": "x" * 201}}),
        ({"r": 1}, {"r": 0}),
    ],
    ids=["name", "unit", "text", "bytes", "tags", "tag", "text of a tag", "version"],
)
def test_a_field_of_a_reading_is_read_up_to_its_bound(
    last: dict[str, Any], over: dict[str, Any]
) -> None:
    record.decode(reading(**last))
    with pytest.raises(RecordError):
        record.decode(reading(**over))


def test_a_reading_of_a_later_version_is_read_up_to_64_kib() -> None:
    room = 65_536 - len(reading(later="")) - 2
    assert len(payload := reading(later="x" * room)) == 65_536
    assert record.decode(payload).more == {"later": "x" * room}
    with pytest.raises(RecordError, match="65537 bytes with keys that are unknown"):
        record.decode(reading(later="x" * (room + 1)))


@pytest.mark.parametrize(
    ("key", "last", "over"),
    [
        ("n", "x" * 264, "x" * 265),
        ("u", "x" * 200, "x" * 201),
        ("t", 253_402_300_799.0, 253_402_300_800.0),
        ("t", -62_135_596_800.0, -62_135_596_801.0),
        ("i", LONG_MAX, LONG_MAX + 1),
        ("i", -LONG_MAX, -LONG_MAX - 1),
        ("r", 2, 3),
        ("r", 1, 0),
    ],
)
def test_the_short_way_reads_what_a_table_holds_and_leaves_all_else_to_the_long_one(
    key: str, last: Any, over: Any
) -> None:
    good, other = reading(**{key: last}), reading(**{key: over})
    assert record.plain(good) is not None
    assert record.plain_records([good]) is not None
    assert record.plain(other) is None
    assert record.plain_records([good, other]) is None
