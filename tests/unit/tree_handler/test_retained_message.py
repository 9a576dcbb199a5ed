"""Messages of gateways on retained topics: each field at its bounds, and nothing else."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import LOGICAL_MAX, RetainedVersion
from tree_handler.retained.message import Retained, stamped_version
from tree_handler.retained.sync_wire import (
    END,
    START,
    SyncKind,
    Wants,
    ask_of,
    digest_of,
    pack,
    place_of,
    unpack,
)
from tree_handler.retained.versions import BUCKETS

ROW = ("t", 1, 2, "gw-a", 3, 4, 1, b"x", {}, None, None)
FIELDS = ("topic", "us", "logical", "origin", "epoch", "number", "qos", "payload", "properties")
AT = {name: at for at, name in enumerate((*FIELDS, "left", "dead", "proof"))}


def row(**changed: Any) -> tuple[Any, ...]:
    fields = [*ROW, b""]
    for name, value in changed.items():
        fields[AT[name]] = value
    return tuple(fields)


def test_what_is_told_of_a_message_and_of_a_deletion_is_read_as_it_was() -> None:
    version = RetainedVersion(1, 2, "gw-a", 3)
    message = Retained("t", version, 4, 1, b"x", {3: "text"}, 1.5, None, b"proof")
    deleted = Retained("t", version, 4, None, b"", {}, None, 0.25)
    assert message.row() == ("t", 1, 2, "gw-a", 3, 4, 1, b"x", {3: "text"}, 1_500, None)
    assert message.proven_row() == (*message.row(), b"proof")
    assert deleted.row() == ("t", 1, 2, "gw-a", 3, 4, None, b"", {}, None, 250)
    assert Retained.of(message.proven_row()) == message
    assert Retained.of(deleted.row()) == deleted
    assert message.stream == ("gw-a", 3)
    assert message.size_bytes == len("t") + len(b"x") + len(b"proof") + 100 + 32 + len("text")


def test_what_waits_has_less_to_live_and_a_deletion_is_older() -> None:
    version = RetainedVersion(1, 2, "gw-a", 3)
    message = Retained("t", version, 4, 1, b"x", {}, 1.5)
    deleted = Retained("t", version, 4, 1, b"", {}, None, 0.25)
    assert [message.later(s).left_s for s in (-1.0, 0.0, 0.5, 1.5, 9.0)] == [1.5, 1.5, 1, 0, 0]
    assert [deleted.later(s).dead_s for s in (-1.0, 0.0, 0.5)] == [0.25, 0.25, 0.75]
    assert (message.later(1.0).dead_s, deleted.later(1.0).left_s) == (None, None)
    assert Retained("t", version, 4, 1, b"x", {}, -1.0).row()[9] == 0


@pytest.mark.parametrize(
    ("last", "over"),
    [
        ({"us": (1 << 62) - 1}, {"us": 1 << 62}),
        ({"us": 0}, {"us": -1}),
        ({"logical": LOGICAL_MAX}, {"logical": LOGICAL_MAX + 1}),
        ({"logical": 0}, {"logical": "0"}),
        ({"origin": "a" * 255}, {"origin": "a" * 256}),
        ({"origin": "\u00fc" * 127}, {"origin": "\u00fc" * 128}),
        ({"origin": "a"}, {"origin": ""}),
        ({"origin": "a"}, {"origin": b"a"}),
        ({"epoch": (1 << 62) - 1}, {"epoch": 1 << 62}),
        ({"epoch": 0}, {"epoch": -1}),
        ({"number": (1 << 62) - 1}, {"number": 1 << 62}),
        ({"number": 0}, {"number": -1}),
        ({"qos": 2}, {"qos": 3}),
        ({"qos": 0}, {"qos": -1}),
        ({"qos": None, "payload": b"", "dead": 0}, {"qos": None}),
        ({"topic": "x"}, {"topic": ""}),
        ({"topic": "x"}, {"topic": b"x"}),
        ({"payload": b"x"}, {"payload": "x"}),
        ({"payload": b"", "dead": 0}, {"payload": b""}),
        ({"payload": b"", "dead": 0}, {"dead": 0}),
        ({"payload": b"", "dead": 1 << 61}, {"payload": b"", "dead": 1 << 62}),
        ({"left": 0}, {"left": -1}),
        ({"left": 1 << 61}, {"left": 1 << 62}),
        ({"properties": {3: "x"}}, {"properties": [3]}),
        ({"proof": b"x"}, {"proof": "x"}),
    ],
)
def test_a_field_of_a_retained_message_is_taken_up_to_its_bound(
    last: dict[str, Any], over: dict[str, Any]
) -> None:
    assert Retained.of(row(**last)).proven_row() == row(**last)
    with pytest.raises(ProtocolError, match=r"^(retained message|version)(: |$)"):
        Retained.of(row(**over))


def test_the_oldest_deletion_that_is_taken_can_be_told_to_others_when_it_is_older() -> None:
    read = Retained.of(row(payload=b"", dead=(1 << 62) - 1))
    later = msgpack.unpackb(msgpack.packb(read.later(3600.0).row()))
    assert later[AT["dead"]] >= 1 << 62


@pytest.mark.parametrize("wrong", [ROW[:10], (*ROW, b"", b""), [*ROW], b"x", None])
def test_a_retained_message_is_11_fields_or_12_with_its_proof(wrong: object) -> None:
    assert Retained.of(ROW) == Retained.of((*ROW, b""))
    with pytest.raises(ProtocolError, match=r"^retained message(: |$)"):
        Retained.of(wrong)


@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3), "12", 1, None, (-1, 2), (1, "2")])
def test_a_stamp_is_two_numbers(wrong: object) -> None:
    for right in ((1, 2), [1, 2]):
        assert stamped_version(right, ("gw-a", 3)) == RetainedVersion(1, 2, "gw-a", 3)
    with pytest.raises(ProtocolError, match=r"^version(: |$)"):
        stamped_version(wrong, ("gw-a", 3))


def test_a_place_is_a_bucket_and_a_topic_in_it() -> None:
    assert (START, END) == ((0, ""), (BUCKETS, ""))
    for right in (START, (1, "t"), END):
        assert place_of(right) == right
    for wrong in ((-1, ""), (BUCKETS + 1, ""), (0,), (0, "", ""), (0, b""), ("0", ""), None):
        with pytest.raises(ProtocolError, match=r"^place among retained topics(: |$)"):
            place_of(wrong)


def test_a_digest_is_so_long() -> None:
    assert digest_of(bytes(8), 8) == bytes(8)
    for wrong in (bytes(7), bytes(9), "12345678", None):
        with pytest.raises(ProtocolError, match=r"^digest of retained topics(: |$)"):
            digest_of(wrong, 8)


@pytest.mark.parametrize("kind", SyncKind)
def test_each_kind_of_message_has_its_number_of_fields(kind: SyncKind) -> None:
    fields = {SyncKind.ROOT: 1, SyncKind.DIGEST: 2, SyncKind.ASK: 5, SyncKind.ANSWER: 2}[kind]
    right = (int(kind), *((),) * fields)
    assert unpack(pack(right)) == right
    for wrong in (right[:-1], (*right, ()), ("x", *right[1:]), (4, *right[1:])):
        with pytest.raises(ProtocolError, match=r"^message of retained topics(: |$)"):
            unpack(pack(wrong))


@pytest.mark.parametrize("wrong", [(), {}, b"x", (3, START, b"")])
def test_what_is_no_message_is_refused(wrong: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^message of retained topics(: |$)"):
        unpack(msgpack.packb(wrong))


LISTED = ("t", 1, 2, "gw-a", 3)


def ask(**changed: Any) -> list[Any]:
    fields = {"buckets": (0,), "after": START, "until": END, "wants": (), "listed": (LISTED,)}
    return list((fields | changed).values())


def test_an_ask_lists_1_000_topics_of_buckets_that_there_are() -> None:
    buckets, after, until, wants, listed = ask_of(ask(buckets=(BUCKETS - 1, 0)))
    assert (buckets, after, until) == ([BUCKETS - 1, 0], START, END)
    assert (wants, listed) == (Wants(False, True), {"t": RetainedVersion(1, 2, "gw-a", 3)})
    many = tuple((f"t/{number}", *LISTED[1:]) for number in range(1_001))
    assert len(ask_of(ask(listed=many[:1_000]))[4]) == 1_000
    for wrong in (
        {"listed": many},
        {"listed": [LISTED]},
        {"buckets": [0]},
        {"buckets": (BUCKETS,)},
        {"buckets": (-1,)},
        {"buckets": ("0",)},
        {"buckets": (1, 2, 1)},
    ):
        with pytest.raises(ProtocolError, match=r"^ask for retained topics(: |$)"):
            ask_of(ask(**wrong))
    for listed_wrong in ([*LISTED], LISTED[:4], (*LISTED, 1), (b"t", *LISTED[1:]), None):
        with pytest.raises(ProtocolError, match=r"^version of a retained topic(: |$)"):
            ask_of(ask(listed=(LISTED, listed_wrong)))
    for place in ({"after": (0,)}, {"until": (BUCKETS + 1, "")}):
        with pytest.raises(ProtocolError, match=r"^place among retained topics(: |$)"):
            ask_of(ask(**place))


@pytest.mark.parametrize(
    ("wants", "field"),
    [
        (Wants(unlisted=True, proofs=False), True),
        (Wants(unlisted=False, proofs=False), False),
        (Wants(unlisted=True, proofs=True), (1,)),
        (Wants(unlisted=False, proofs=True), ()),
    ],
)
def test_an_earlier_release_reads_of_what_is_wanted_whether_unlisted_topics_are(
    wants: Wants, field: object
) -> None:
    assert wants.field() == field
    assert bool(field) == wants.unlisted
    assert Wants.of(field) == wants
