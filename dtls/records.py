"""The part of DTLS's wire form that must be read before, or beside, the crypto library.

The records of a datagram (RFC 6347, section 4.1), the ClientHello (4.2.1, RFC 5246 section
7.4.1.2) and the HelloVerifyRequest that answers it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from dtls.errors import DtlsRecordError

RECORD_HEADER_BYTES: Final = 13
HANDSHAKE_HEADER_BYTES: Final = 12
_RECORD: Final = struct.Struct(
    ">BHHIHH"
)  # type, version, epoch, sequence number (48 bit in two), length
_RECORD_BYTES_MAX: Final = 2**14 + 2048
"""RFC 5246, section 6.2.3: no ciphertext is longer."""
_ALERT_RECORD_BYTES: Final = RECORD_HEADER_BYTES + 2
_FATAL: Final = 2
_VERSION_MAJOR: Final = 0xFE
_RANDOM_BYTES: Final = 32
_COOKIE_BYTES_MAX: Final = 255

ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
CLIENT_HELLO: Final = 1
_HELLO_VERIFY_REQUEST: Final = 3
_CONTENT_TYPES = range(20, 24)
PLAIN_INTERNAL_ERROR: Final = b"\x15\xfe\xfd\0\0\x7f\xff\xff\xff\xff\xff\0\2\2\x50"
"""A record with an alert in clear text, for a handshake; no number before it was as high."""
_ALERTS = {
    0: "close notify",
    10: "unexpected message",
    20: "bad record mac",
    40: "handshake failure",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    47: "illegal parameter",
    48: "unknown ca",
    49: "access denied",
    50: "decode error",
    51: "decrypt error",
    70: "protocol version",
    71: "insufficient security",
    80: "internal error",
    90: "user canceled",
    115: "unknown psk identity",
    116: "certificate required",
}
"""RFC 5246, section 7.2, and RFC 4279, section 6."""


class DtlsRecord:
    """The place of a record in its datagram, and the two fields that routing needs.

    No named tuple: each datagram has one at least, and making those is a call of Python.
    """

    __slots__ = ("content_type", "end", "epoch", "start")

    def __init__(self, content_type: int, epoch: int, start: int, end: int) -> None:
        self.content_type = content_type
        self.epoch = epoch
        self.start = start
        self.end = end


class ClientHello:
    """The first message of a client, or the second with the cookie in it.

    Attributes:
        record_sequence: the six bytes of the record's sequence number.
        random: 32 bytes that tell one handshake from another.
        cookie: empty in the first message.
        parameters: version, random, session id, suites and compression, which must be the same
            in both messages (RFC 6347, section 4.2.1).

    """

    __slots__ = ("cookie", "parameters", "random", "record_sequence")

    def __init__(
        self, record_sequence: bytes, random: bytes, cookie: bytes, parameters: bytes
    ) -> None:
        self.record_sequence = record_sequence
        self.random = random
        self.cookie = cookie
        self.parameters = parameters


def sequence_of(datagram: bytes) -> int:
    """Return the lowest sequence number of a datagram's whole records.

    A record that can't be decrypted may say any number: so of one that can, this is never too high.
    """
    first = int.from_bytes(datagram[5:11], "big")
    if RECORD_HEADER_BYTES + int.from_bytes(datagram[11:13], "big") >= len(datagram):
        return first  # as nearly always: it is the only one
    numbers = [
        int.from_bytes(datagram[record.start + 5 : record.start + 11], "big")
        for record in split_records(datagram)
    ]
    return min(numbers, default=first)


def split_records(datagram: bytes) -> list[DtlsRecord]:
    """Return the whole records that a datagram starts with, up to the first broken one."""
    records = []
    at, size = 0, len(datagram)
    while at + RECORD_HEADER_BYTES <= size:
        content_type, version, epoch, _, _, length = _RECORD.unpack_from(datagram, at)
        end = at + RECORD_HEADER_BYTES + length
        if (
            end > size
            or length > _RECORD_BYTES_MAX
            or version >> 8 != _VERSION_MAJOR
            or content_type not in _CONTENT_TYPES
        ):
            break
        records.append(DtlsRecord(content_type, epoch, at, end))
        at = end
    return records


def without_plain_alerts(
    datagram: bytes, records: list[DtlsRecord]
) -> tuple[bytes, list[DtlsRecord], str]:
    """Return a datagram without the alerts in clear text, its records, and what the last of them
    says.

    The last is empty if there is none that would end anything.
    """
    plain = [record for record in records if record.content_type == ALERT and record.epoch == 0]
    if not plain:
        return datagram, records, ""
    said = ""
    for record in plain:
        level, description = datagram[record.end - 2 : record.end]
        if record.end - record.start == _ALERT_RECORD_BYTES and (level == _FATAL or not said):
            said = _ALERTS.get(description, f"number {description}")
    left = b"".join(datagram[r.start : r.end] for r in records if r not in plain)
    return left, split_records(left), said


def pack_datagrams(stream: bytes, mtu_bytes: int) -> Iterable[bytes]:
    """Cut a stream of records into datagrams, as many whole records in each as fit.

    The crypto library writes to a buffer that knows no datagrams; a record must not be torn
    and a flight should need few of them (RFC 6347, section 4.1.1).
    """
    if 0 < len(stream) <= mtu_bytes:
        yield stream
        return
    start = end = 0
    for record in split_records(stream):
        if record.end - start > mtu_bytes and end > start:
            yield stream[start:end]
            start = end
        end = record.end
    if end > start:
        yield stream[start:end]


def is_client_hello(datagram: bytes, first: DtlsRecord) -> bool:
    """Return whether the datagram starts with (the first fragment of) a ClientHello."""
    body = first.start + RECORD_HEADER_BYTES
    return (
        first.content_type == HANDSHAKE
        and first.epoch == 0
        and first.end - body >= HANDSHAKE_HEADER_BYTES
        and datagram[body] == CLIENT_HELLO
        and datagram[body + 6 : body + 9] == b"\0\0\0"  # fragment_offset
    )


def parse_client_hello(datagram: bytes, record: DtlsRecord) -> ClientHello:
    """Read a ClientHello as far as its compression methods.

    Raises:
        RecordError: a field is missing, or the first fragment ends before it.

    """
    at = record.start + RECORD_HEADER_BYTES + HANDSHAKE_HEADER_BYTES
    fields = _Fields(datagram[at : record.end])
    version = fields.take("client_version", 2)
    random = fields.take("random", _RANDOM_BYTES)
    session_id = fields.take_vector("session_id", 1)
    cookie = fields.take_vector("cookie", 1)
    suites = fields.take_vector("cipher_suites", 2)
    compression = fields.take_vector("compression_methods", 1)
    return ClientHello(
        datagram[record.start + 5 : record.start + 11],
        random,
        cookie[1:],
        version + random + session_id + suites + compression,
    )


def hello_verify_request(hello: ClientHello, cookie: bytes) -> bytes:
    """Return the datagram that sends a client its cookie.

    It carries version 1.0 and the client's own record sequence number (RFC 6347, 4.2.1).
    """
    assert len(cookie) <= _COOKIE_BYTES_MAX
    version = b"\xfe\xff"
    body = version + bytes((len(cookie),)) + cookie
    length = len(body).to_bytes(3, "big")
    message = bytes((_HELLO_VERIFY_REQUEST,)) + length + b"\0\0" + b"\0\0\0" + length + body
    epoch = b"\0\0"
    header = bytes((HANDSHAKE,)) + version + epoch + hello.record_sequence
    return header + len(message).to_bytes(2, "big") + message


class _Fields:
    """Takes fields off the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, name: str, size: int) -> bytes:
        field = self._data[self._at : self._at + size]
        if len(field) < size:
            raise DtlsRecordError(f"ClientHello ends in {name}")
        self._at += size
        return field

    def take_vector(self, name: str, length_bytes: int) -> bytes:
        length = self.take(name, length_bytes)
        return length + self.take(name, int.from_bytes(length, "big"))
