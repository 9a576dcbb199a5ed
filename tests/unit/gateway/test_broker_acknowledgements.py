"""Acknowledgements in a row are told apart from what follows them, wherever they stand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.inbound.acknowledgements import RUN_MAX, answered, identifiers, run_end

packet_ids = st.lists(st.integers(1, 65_535), min_size=1, max_size=RUN_MAX)


def packets(first: int, ids: list[int]) -> bytes:
    return b"".join(bytes((first, 2)) + packet_id.to_bytes(2, "big") for packet_id in ids)


@given(st.binary(max_size=9), packet_ids, st.sampled_from([b"", b"\x40", b"\x40\x02", b"\xc0\x00"]))
def test_a_run_ends_where_the_last_whole_packet_of_its_type_does(
    before: bytes, ids: list[int], rest: bytes
) -> None:
    run = packets(0x40, ids)
    assert run_end(before + run + rest, len(before)) == len(before + run)


@given(packet_ids, st.sampled_from([0x40, 0x50, 0x62, 0x70]), st.binary(max_size=20))
def test_what_is_found_is_whole_packets_of_the_first_ones_type(
    ids: list[int], first: int, rest: bytes
) -> None:
    data = packets(first, ids) + rest
    found = data[: run_end(data, 0)]
    assert found.startswith(packets(first, ids))
    assert found == packets(first, identifiers(found))


def test_a_run_is_looked_at_in_parts() -> None:
    assert run_end(packets(0x40, [1] * (RUN_MAX + 1)), 0) == 4 * RUN_MAX


@given(packet_ids)
def test_a_run_is_answered_with_the_same_identifiers(ids: list[int]) -> None:
    assert identifiers(packets(0x62, ids)) == ids
    assert answered(packets(0x62, ids), 0x70) == packets(0x70, ids)
