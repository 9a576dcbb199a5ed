"""Named writes: what is remembered of them, for how long, and within which limits."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tree_handler.remote import request_ids as ids
from tree_handler.remote.options import REQUEST_ID
from tree_handler.remote.request_ids import CarryOut, Join, NamedWrites
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

DONE = ResourceResponse(0x44, b"done")
LATER = 1_000.0


def named(name: bytes, asked_s: int = 0, identity: str | None = "ann") -> ResourceRequest:
    option = (REQUEST_ID, bytes((asked_s,)) + name)
    return ResourceRequest("PUT", ("valve",), payload=b"1", identity=identity, options=(option,))


def carried(writes: NamedWrites, request: ResourceRequest, now: float, via: str = "") -> bool:
    found = writes.begin(request, via, now)
    if isinstance(found, CarryOut):
        writes.answered(found.key, DONE, now)
    return isinstance(found, CarryOut)


def test_a_request_without_a_name_is_nobodys_concern() -> None:
    assert NamedWrites(0.0).begin(ResourceRequest("PUT", ("valve",)), "", LATER) is None


def test_it_is_remembered_for_longer_than_anybody_may_ask_again() -> None:
    writes = NamedWrites(0.0)
    assert carried(writes, named(b"a"), LATER)
    over_s = ids.REMEMBERED_S
    assert writes.begin(named(b"a", ids.MAX_ASKED_S), "", LATER + over_s - 0.1) == DONE
    late = writes.begin(named(b"a", ids.MAX_ASKED_S + 1), "", LATER + over_s)
    assert isinstance(late, ResourceResponse)
    assert late.code == 0xA4
    assert not writes


def test_a_refusal_is_not_remembered() -> None:
    writes = NamedWrites(0.0)
    for code in (0x83, 0x84, 0xA3):
        found = writes.begin(named(b"a"), "", LATER)
        assert isinstance(found, CarryOut)
        writes.answered(found.key, ResourceResponse(code), LATER)
    assert not writes


def test_of_a_long_answer_the_code_is_kept() -> None:
    writes = NamedWrites(0.0)
    found = writes.begin(named(b"a"), "", LATER)
    assert isinstance(found, CarryOut)
    long = bytes(ids.MAX_KEPT_BYTES + 1)
    writes.answered(found.key, ResourceResponse(0x44, long), LATER)
    assert writes.begin(named(b"a", 1), "", LATER) == ResourceResponse(0x44)


def test_who_names_too_many_is_refused_and_others_are_not() -> None:
    writes = NamedWrites(0.0)
    for number in range(ids.MAX_NAMED_OF_ASKER):
        assert carried(writes, named(b"%d" % number), LATER)
    assert writes.begin(named(b"more"), "", LATER) == ResourceResponse(
        0xA3, b"too many requests with Request-Id"
    )
    assert carried(writes, named(b"more", identity="ben"), LATER)
    assert carried(writes, named(b"more"), LATER + ids.REMEMBERED_S)


def test_a_gateway_that_vouches_for_many_takes_its_share_alone() -> None:
    writes = NamedWrites(0.0)
    for number in range(ids.MAX_NAMED_OF_GATEWAY):
        assert carried(writes, named(b"1", identity=f"one{number}"), LATER, "gw-bad")
    assert not carried(writes, named(b"1", identity="another"), LATER, "gw-bad")
    assert carried(writes, named(b"1", identity="another"), LATER, "gw-good")


asks = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]), st.floats(0, 20), st.booleans(), st.booleans()
)


@given(st.lists(asks, max_size=40))
def test_whoever_asks_as_agreed_is_never_carried_out_twice(
    steps: list[tuple[bytes, float, bool, bool]],
) -> None:
    """Over restarts, answers that take long and messages that are long on their way."""
    writes, now = NamedWrites(0.0), LATER
    first: dict[bytes, float] = {}
    count: dict[bytes, int] = {}
    open_: list[CarryOut] = []
    for name, wait_s, restarts, finishes in steps:
        now += wait_s
        if restarts:
            writes, open_ = NamedWrites(now), []
        if finishes:
            for one in open_:
                writes.answered(one.key, DONE, now)
            open_.clear()
        is_first = name not in first
        asked_s = 0 if is_first else max(1, math.ceil(now - first[name]))
        first.setdefault(name, now)
        if asked_s > ids.MAX_ASKED_S:
            continue
        found = writes.begin(named(name, asked_s), "", now + min(wait_s, ids.ON_THE_WAY_S - 1))
        if isinstance(found, CarryOut):
            count[name] = count.get(name, 0) + 1
            open_.append(found)
        else:
            assert isinstance(found, Join | ResourceResponse)
    assert all(one == 1 for one in count.values())
