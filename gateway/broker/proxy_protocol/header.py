"""The header that a proxy puts before all other bytes of a connection (PROXY protocol, 1 and 2).

The protocol is HAProxy's (doc/proxy-protocol.txt, 2020). Version 1 is a line of text, version 2 is
binary; the first byte tells which it is. Both say from where a client came, or that they do not: a
proxy that looks whether somebody is there has no client (LOCAL), and one may not know (UNKNOWN,
AF_UNSPEC) or know none that has an IP address (AF_UNIX).

What comes in pieces is taken as it comes, and never more of it than the header: no I/O, no clock.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final

from mypy_extensions import mypyc_attr

from light_dataclasses import dataclass

BYTES_MAX: Final = 4_096
"""Of a header of version 2 with all that stands behind its addresses."""
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_BYTES: Final = 16
_LINE_BYTES_MAX: Final = 107
"""With its end: the longest that version 1 can say (section 2.1)."""
_LINE_BEGINS: Final = b"PROXY "
_SHOWN_BYTES: Final = 32

_LOCAL: Final = 0
_PROXY: Final = 1
_STREAM: Final = 1
_UNSPECIFIED: Final = 0
_INET: Final = {1: 4, 2: 16}
"""Bytes of an address, by the family's number (section 2.2)."""
_UNIX: Final = 3


@mypyc_attr(native_class=False)
class ProxyHeaderError(ValueError):
    """A connection does not begin with a header of the PROXY protocol.

    Args:
        what: the field at fault.
        value: what stood there, shown shortened.

    """

    def __init__(self, what: str, value: bytes | int) -> None:
        shown = value if isinstance(value, int) else repr(value[:_SHOWN_BYTES])
        super().__init__(f"PROXY header: {what}: {shown}")
        self.what = what


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """The content of a header, and the bytes behind it.

    Attributes:
        source: IP address and TCP port of the client; None where the header tells of none, and
            the connection is the proxy's own.
        rest: the first bytes of the connection itself.

    """

    source: tuple[str, int] | None
    rest: bytes


class HeaderReader:
    """Reads the header of one connection."""

    def __init__(self) -> None:
        self._data = b""

    def receive(self, data: bytes) -> ProxyHeader | None:
        """Take some more bytes of the connection.

        Args:
            data: as they came.

        Returns:
            The header as soon as it is there; None before.

        Raises:
            ProxyHeaderError: they are none, or it is longer than `BYTES_MAX`.

        """
        self._data += data
        data = self._data
        if data.startswith(_SIGNATURE[: len(data)]):
            return _binary(data)
        if data.startswith(_LINE_BEGINS[: len(data)]):
            return _line(data)
        raise ProxyHeaderError("no signature of version 1 or 2", data)


def _line(data: bytes) -> ProxyHeader | None:
    """Version 1 (section 2.1)."""
    end = data.find(b"\r\n", 0, _LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= _LINE_BYTES_MAX:
            raise ProxyHeaderError("line without end", data)
        return None
    line, rest = data[:end], data[end + 2 :]
    fields = line.split(b" ")
    kind = fields[1]
    if kind == b"UNKNOWN":  # whatever stands behind it
        return ProxyHeader(None, rest)
    versions = {b"TCP4": 4, b"TCP6": 6}
    if kind not in versions:
        raise ProxyHeaderError("protocol that is not TCP4, TCP6 or UNKNOWN", line)
    if len(fields) != 6:
        raise ProxyHeaderError("fields that are not 6", line)
    source = _told_address(fields[2], versions[kind])
    _told_address(fields[3], versions[kind])
    port = _told_port(fields[4])
    _told_port(fields[5])
    return ProxyHeader((source, port), rest)


def _told_address(field: bytes, version: int) -> str:
    try:
        address = ipaddress.ip_address(field.decode("ascii"))
    except ValueError:
        raise ProxyHeaderError("address", field) from None
    if address.version != version or b"%" in field:
        raise ProxyHeaderError(f"address that is none of IPv{version}", field)
    return _known_as(address)


def _known_as(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return the one name of an address: a proxy on a socket for both families tells IPv4 in
    IPv6."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _told_port(field: bytes) -> int:
    is_number = field.isdigit() and len(field) <= 5 and str(int(field)).encode() == field
    if not is_number or int(field) > 0xFFFF:
        raise ProxyHeaderError("port", field)
    return int(field)


def _binary(data: bytes) -> ProxyHeader | None:
    """Version 2 (section 2.2); what stands behind its addresses is skipped."""
    if len(data) > 12 and data[12] >> 4 != 2:
        raise ProxyHeaderError("version that is not 2", data[12] >> 4)
    if len(data) < _FIXED_BYTES:
        return None
    command, family, transport = data[12] & 15, data[13] >> 4, data[13] & 15
    length = data[14] << 8 | data[15]
    if command not in {_LOCAL, _PROXY}:
        raise ProxyHeaderError("command that is neither LOCAL nor PROXY", command)
    end = _FIXED_BYTES + length
    if end > BYTES_MAX:
        raise ProxyHeaderError(f"header of more than {BYTES_MAX} bytes", end)
    size = _INET.get(family)
    is_told = command == _PROXY and size is not None
    if command == _PROXY:
        if size is None and family not in {_UNSPECIFIED, _UNIX}:
            raise ProxyHeaderError("address family", family)
        if size is not None and transport != _STREAM:
            raise ProxyHeaderError("transport that is not STREAM", transport)
        if size is not None and length < 2 * size + 4:
            raise ProxyHeaderError("length without room for the addresses", length)
    if len(data) < end:
        return None
    source = None
    if is_told and size is not None:
        at = _FIXED_BYTES
        address = ipaddress.ip_address(data[at : at + size])
        (port,) = struct.unpack_from("!H", data, at + 2 * size)
        source = (_known_as(address), int(port))
    return ProxyHeader(source, data[end:])
