"""The header of a proxy, as bytes: what it says, however it comes, and what is none."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.proxy_protocol.header import (
    BYTES_MAX,
    HeaderReader,
    ProxyHeader,
    ProxyHeaderError,
)

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LOCAL, PROXY = 0x20, 0x21
STREAM_4, STREAM_6, UNIX, UNSPECIFIED = 0x11, 0x21, 0x31, 0x00
V4 = bytes((192, 0, 2, 7, 10, 0, 0, 1)) + struct.pack("!HH", 50_000, 1883)
V6 = ipaddress.ip_address("2001:db8::7").packed * 2 + struct.pack("!HH", 50_000, 8883)


def second(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + struct.pack("!BBH", command, family, size) + body


FROM_4, FROM_6 = ("192.0.2.7", 50_000), ("2001:db8::7", 50_000)
TLVS = b"\x04\0\x03abc" + b"\x20\0\x05" + bytes(5)
HEADERS: dict[str, tuple[bytes, tuple[str, int] | None]] = {
    "1, TCP4": (b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n", FROM_4),
    "1, TCP6": (b"PROXY TCP6 2001:DB8::7 ::1 50000 8883\r\n", FROM_6),
    "1, IPv4 in IPv6": (b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:a00:1 50000 1883\r\n", FROM_4),
    "1, the longest": (
        b"PROXY TCP6 " + b" ".join([b"ffff:" * 7 + b"ffff"] * 2) + b" 65535 65535\r\n",
        ("ffff:" * 7 + "ffff", 65_535),
    ),
    "1, UNKNOWN": (b"PROXY UNKNOWN\r\n", None),
    "1, UNKNOWN with more": (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    "2, IPv4": (second(PROXY, STREAM_4, V4), FROM_4),
    "2, IPv6": (second(PROXY, STREAM_6, V6), FROM_6),
    "2, IPv4 in IPv6": (
        second(
            PROXY,
            STREAM_6,
            (bytes(10) + b"\xff\xff" + bytes((192, 0, 2, 7))) * 2
            + struct.pack("!HH", 50_000, 1883),
        ),
        FROM_4,
    ),
    "2, IPv4 with TLVs": (second(PROXY, STREAM_4, V4 + TLVS), FROM_4),
    "2, the longest": (second(PROXY, STREAM_4, V4 + bytes(BYTES_MAX - 16 - len(V4))), FROM_4),
    "2, LOCAL": (second(LOCAL, UNSPECIFIED, b""), None),
    "2, LOCAL with addresses": (second(LOCAL, STREAM_4, V4 + TLVS), None),
    "2, LOCAL of a family to come": (second(LOCAL, 0xF7, TLVS), None),
    "2, unspecified": (second(PROXY, UNSPECIFIED, TLVS), None),
    "2, UNIX": (second(PROXY, UNIX, bytes(216)), None),
}
NONE: dict[str, bytes] = {
    "MQTT": b"\x10\x0c\0\x04MQTT\x04\x02\0\0\0\0",
    "TLS": b"\x16\x03\x01\0\x05hello",
    "HTTP": b"GET /mqtt HTTP/1.1\r\n",
    "HTTP with a P": b"POST / HTTP/1.1\r\n",
    "a line of nothing": b"\r\n\r\n\r\n",
    "1, in small letters": b"proxy TCP4 192.0.2.7 10.0.0.1 50000 1883\r\n",
    "1, UDP": b"PROXY UDP4 192.0.2.7 10.0.0.1 50000 1883\r\n",
    "1, without fields": b"PROXY \r\n",
    "1, a field less": b"PROXY TCP4 192.0.2.7 10.0.0.1 50000\r\n",
    "1, a field more": b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883 1\r\n",
    "1, two spaces": b"PROXY TCP4  192.0.2.7 10.0.0.1 50000 1883\r\n",
    "1, IPv6 as TCP4": b"PROXY TCP4 ::1 10.0.0.1 50000 1883\r\n",
    "1, IPv4 as TCP6": b"PROXY TCP6 ::1 10.0.0.1 50000 1883\r\n",
    "1, an address of three": b"PROXY TCP4 192.0.2 10.0.0.1 50000 1883\r\n",
    "1, an octet with a 0": b"PROXY TCP4 192.0.2.07 10.0.0.1 50000 1883\r\n",
    "1, a zone": b"PROXY TCP6 fe80::1%eth0 ::1 50000 1883\r\n",
    "1, a name": b"PROXY TCP4 localhost 10.0.0.1 50000 1883\r\n",
    "1, a port over the most": b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 1883\r\n",
    "1, a port with a sign": b"PROXY TCP4 192.0.2.7 10.0.0.1 +1 1883\r\n",
    "1, a port with a 0": b"PROXY TCP4 192.0.2.7 10.0.0.1 050 1883\r\n",
    "1, bytes that are no text": b"PROXY TCP4 \xff\xfe 10.0.0.1 50000 1883\r\n",
    "1, a newline alone": b"PROXY TCP4 192.0.2.7 10.0.0.1 50000 1883\n" + bytes(107),
    "1, a line without end": b"PROXY UNKNOWN " + b"x" * 107,
    "2, of version 1": second(0x11, STREAM_4, V4),
    "2, of version 3": second(0x31, STREAM_4, V4),
    "2, a command to come": second(0x22, STREAM_4, V4),
    "2, a family to come": second(PROXY, 0x41, V4),
    "2, datagrams": second(PROXY, 0x12, V4),
    "2, no transport": second(PROXY, 0x10, V4),
    "2, a length too short": second(PROXY, STREAM_4, V4, len(V4) - 1),
    "2, a length for IPv4": second(PROXY, STREAM_6, V4),
    "2, longer than the most": second(PROXY, STREAM_4, V4, BYTES_MAX),
    "2, a byte of its signature": SIGNATURE[:11] + b"\r" + bytes(4),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_says_from_where_a_connection_came(name: str) -> None:
    data, source = HEADERS[name]
    assert HeaderReader().receive(data) == ProxyHeader(source, b"")
    assert HeaderReader().receive(data + b"PROXY more") == ProxyHeader(source, b"PROXY more")


@pytest.mark.parametrize("name", HEADERS)
@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 150)), behind=st.binary(max_size=8))
def test_a_header_in_pieces_says_the_same_and_what_comes_behind_it_is_kept(
    name: str, cuts: list[int], behind: bytes
) -> None:
    data, source = HEADERS[name]
    reader, at = HeaderReader(), 0
    whole = data + behind
    for cut in (*sorted(set(cuts)), len(whole)):
        until = min(cut, len(whole))
        if until <= at:
            continue
        found = reader.receive(whole[at:until])
        at = until
        assert (found is not None) == (at >= len(data))
        if found is not None:
            assert found == ProxyHeader(source, whole[len(data) : at])
            return


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_header_is_refused_as_a_whole_and_byte_by_byte(name: str) -> None:
    with pytest.raises(ProxyHeaderError, match="PROXY header: "):
        HeaderReader().receive(NONE[name])
    reader = HeaderReader()
    with pytest.raises(ProxyHeaderError):
        for byte in NONE[name]:
            assert reader.receive(bytes((byte,))) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_a_part_of_one_or_refused(data: bytes) -> None:
    for begin in (b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"):
        try:
            found = HeaderReader().receive(begin + data)
        except ProxyHeaderError as error:
            assert len(str(error)) < 250
            continue
        if found is not None and found.source is not None:
            ipaddress.ip_address(found.source[0])
            assert 0 <= found.source[1] <= 0xFFFF


@given(
    address=st.ip_addresses(),
    port=st.integers(0, 0xFFFF),
    tlvs=st.binary(max_size=64),
)
def test_both_versions_tell_of_the_same_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, tlvs: bytes
) -> None:
    kind, family = ("TCP4", STREAM_4) if address.version == 4 else ("TCP6", STREAM_6)
    line = f"PROXY {kind} {address} {address} {port} 1\r\n".encode()
    binary = second(PROXY, family, address.packed * 2 + struct.pack("!HH", port, 1) + tlvs)
    mapped = address.ipv4_mapped if address.version == 6 else None  # as sockets of IPv6 tell IPv4's
    for data in (line, binary):
        assert HeaderReader().receive(data) == ProxyHeader((str(mapped or address), port), b"")
