"""Packets out of a stream: what is whole, in order, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.mqtt import PacketError, ReasonCode, Scanner, Version, body_at, encode_length

LIMIT_BYTES = 300
untimed = settings(deadline=None)


def long_length(length: int, size: int) -> bytes:
    """A remaining length in so many bytes, needed or not."""
    digits = [length >> 7 * i & 127 | 128 for i in range(size)]
    digits[-1] &= 127
    return bytes(digits)


bodies = st.binary(max_size=LIMIT_BYTES - 5)
whole_packets = st.builds(
    lambda first, body: bytes((first,)) + encode_length(len(body)) + body,
    *(st.integers(0, 255), bodies),
)
long_packets = st.builds(
    lambda first, body, size: bytes((first,)) + long_length(len(body), size) + body,
    *(st.integers(0, 255), bodies, st.integers(3, 4)),
)
too_large = st.builds(
    lambda first, length: bytes((first,)) + encode_length(length),
    *(st.integers(0, 255), st.integers(LIMIT_BYTES - 2, 268_435_455)),
)
no_length = st.builds(lambda first: bytes((first,)) + b"\x80\x80\x80\x80", st.integers(0, 255))
streams = st.lists(
    st.one_of(whole_packets, whole_packets, long_packets, st.binary(max_size=9), too_large),
    max_size=6,
).map(b"".join)


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at, i = [], 0, 0
    while at < len(stream):
        pieces.append(stream[at : at + sizes[i % len(sizes)]])
        at, i = at + len(pieces[-1]), i + 1
    return pieces


def scanned(
    pieces: list[bytes], version: int, count_max: int = 2
) -> tuple[list[bytes], bytes, str]:
    """The packets of a stream, what is left of it, and the reason for which it was refused."""
    scanner = Scanner(LIMIT_BYTES)
    scanner.agree(version, LIMIT_BYTES)
    found: list[bytes] = []
    for i, piece in enumerate(pieces):
        scanner.feed(piece)
        try:
            while packets := scanner.take(count_max):
                assert len(packets) <= count_max
                found += packets
        except PacketError as error:
            return found, scanner.rest() + b"".join(pieces[i + 1 :]), error.reason.name
    left_bytes, rest = scanner.buffered_bytes, scanner.rest()
    assert (left_bytes, scanner.first_byte) == (len(rest), -1)
    return found, rest, ""


def model(stream: bytes, version: int) -> tuple[list[bytes], bytes, str]:
    """Section 2.1.4 in ten lines."""
    found: list[bytes] = []
    while len(stream) > 1:
        digits = stream[1:5].lstrip(bytes(range(128, 256)))
        size = len(stream[1:5]) - len(digits) + 1
        if not digits:
            return found, stream, "" if size < 5 else "MALFORMED_PACKET"
        length = sum((byte & 127) << 7 * i for i, byte in enumerate(stream[1 : 1 + size]))
        if 1 + size + length > LIMIT_BYTES:
            return found, stream, "PACKET_TOO_LARGE"
        if 1 + size + length > len(stream):
            break
        if encode_length(length) != stream[1 : 1 + size] and version == Version.V5:
            return found, stream, "MALFORMED_PACKET"
        body = stream[1 + size : 1 + size + length]
        found.append(stream[:1] + encode_length(length) + body)
        stream = stream[1 + size + length :]
    return found, stream, ""


@untimed
@given(streams, st.sampled_from([4, 5]), st.integers(1, 4))
def test_a_stream_is_read_as_section_2_1_4_says(stream: bytes, version: int, count: int) -> None:
    assert scanned([stream], version, count) == model(stream, version)


@untimed
@given(streams, st.sampled_from([4, 5]), st.lists(st.integers(1, 80), min_size=1))
def test_any_split_of_a_stream_gives_the_same_packets(
    stream: bytes, version: int, sizes: list[int]
) -> None:
    assert scanned(cut(stream, sizes), version) == model(stream, version)


@untimed
@given(st.lists(whole_packets, max_size=8), st.lists(st.integers(1, 400), min_size=1), st.data())
def test_packets_that_are_taken_late_come_in_their_order(
    sent: list[bytes], sizes: list[int], data: st.DataObject
) -> None:
    scanner, found, fed_bytes = Scanner(LIMIT_BYTES), [], 0
    for piece in cut(b"".join(sent), sizes):
        scanner.feed(piece)
        fed_bytes += len(piece)
        if data.draw(st.booleans()):
            found += scanner.take(data.draw(st.integers(1, 3)))
        taken_bytes = sum(map(len, found))
        assert scanner.buffered_bytes == fed_bytes - taken_bytes
        if taken_bytes < fed_bytes:
            assert scanner.first_byte == b"".join(sent)[taken_bytes]
    while packets := scanner.take(3):
        found += packets
    assert found == sent


def test_a_packet_in_pieces_of_one_byte_is_whole_in_the_end() -> None:
    packet = b"\x30" + encode_length(5_000) + bytes(range(250)) * 20
    scanner = Scanner(1 << 20)
    for at in range(len(packet) - 1):
        scanner.feed(packet[at : at + 1])
        assert scanner.take(1) == []
    scanner.feed(packet[-1:] + b"\xc0")
    assert scanner.take(9) == [packet]
    scanner.feed(b"\0")
    assert scanner.take(9) == [b"\xc0\0"]


def test_a_packet_over_the_limit_is_told_by_its_length_alone_after_those_before_it() -> None:
    scanner = Scanner(100)
    scanner.feed(b"\xc0\0\xd0\0\x30\x63")
    assert scanner.take(9) == [b"\xc0\0", b"\xd0\0"]
    for _ in range(2):
        with pytest.raises(PacketError, match="101") as caught:
            scanner.take(9)
        assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE
    scanner = Scanner(100)
    scanner.feed(b"\x30\x62" + bytes(98))
    assert scanner.take(1) == [b"\x30\x62" + bytes(98)]


def test_a_limit_that_is_agreed_on_holds_for_what_was_fed_before() -> None:
    scanner = Scanner(100)
    scanner.feed(b"\x10\x02MQ\x30\x63" + bytes(99))
    assert scanner.take(1) == [b"\x10\x02MQ"]
    scanner.agree(Version.V311, 101)
    assert scanner.take(1) == [b"\x30\x63" + bytes(99)]


@given(no_length, st.sampled_from([4, 5]))
def test_a_length_of_more_than_four_bytes_is_malformed(packet: bytes, version: int) -> None:
    assert scanned([b"\xc0\0" + packet], version) == ([b"\xc0\0"], packet, "MALFORMED_PACKET")


def test_a_length_in_more_bytes_than_needed_is_shortened_in_3_1_1_and_malformed_in_5() -> None:
    packet = b"\xc0\x80\x80\x00"
    assert scanned([packet], Version.V311) == ([b"\xc0\0"], b"", "")
    scanner = Scanner(100)
    scanner.agree(Version.V5, 100)
    scanner.feed(packet)
    with pytest.raises(PacketError, match=r"MQTT-1\.5\.5-1"):
        scanner.take(1)


def test_such_a_length_of_the_first_packet_is_malformed_once_it_says_that_it_is_of_5() -> None:
    for version in (Version.V311, Version.V5):
        scanner = Scanner(100)
        scanner.feed(b"\x10\x81\x00M")
        assert scanner.take(1) == [b"\x10\x01M"]
        if version is Version.V311:
            scanner.agree(version, 100)
            continue
        with pytest.raises(PacketError, match=r"MQTT-1\.5\.5-1"):
            scanner.agree(version, 100)


def test_who_takes_a_stream_over_gets_what_was_not_taken() -> None:
    scanner = Scanner(100)
    scanner.feed(b"\xc0\0\xd0")
    scanner.feed(b"\0\x30")
    assert scanner.take(1) == [b"\xc0\0"]
    assert (scanner.rest(), scanner.buffered_bytes) == (b"\xd0\0\x30", 0)


@pytest.mark.parametrize("size", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152])
def test_a_body_starts_behind_its_length(size: int) -> None:
    assert body_at(b"\x30" + encode_length(size) + bytes(size)) == 1 + len(encode_length(size))
