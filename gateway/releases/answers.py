"""Questions to a gateway's listeners before its release may stay, and what is an answer: pure.

Written here anew and not with the gateway's own codecs: what is asked is a release of those, and
one that misreads both ways alike would find itself well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

LISTENERS_MAX = 32
"""So many are asked; a gateway has a handful."""
CONNECT = b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x0a\x00\x00"
"""MQTT 3.1.1, section 3.1: Clean Session, a keep alive of 10 s, no client identifier, nobody."""
DISCONNECT = b"\xe0\x00"
_CONNACK = 0x20
_REFUSALS_TO = 5
"""The last return code of 3.1.1 (section 3.2.2.3)."""
_RESET = 3
_HELLO_VERIFY_REQUEST, _SERVER_HELLO = 3, 2
_HANDSHAKE = 22
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # bound by others
_DTLS = (b"\xfe\xff", b"\xfe\xfd")


@dataclass(frozen=True, slots=True)
class ListenerOnTrial:
    """One that a gateway has.

    Attributes:
        scheme: ``mqtt``, ``mqtts``, ``ws``, ``wss``, ``coap`` or ``coaps``.
        host: the address at which this machine reaches it.
        port: of it.

    """

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port, as a URI has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme} {self.authority}"


class ListenerQuestion(Protocol):
    """A question for a listener, and the test of its answer.

    Attributes:
        data: to send.
        wants: what has to come, in words.

    """

    data: bytes
    wants: str

    def answered(self, data: bytes) -> bool:
        """Return whether all that has come is an answer; False while one may still come.

        Raises:
            ValueError: it can't become one; the message says what came.

        """


class MqttQuestion:
    """A CONNECT: any CONNACK is an answer, for who may come in is not asked."""

    data = CONNECT
    wants = "CONNACK"

    def answered(self, data: bytes) -> bool:
        """Return whether the data is a CONNACK (MQTT 3.1.1, section 3.2)."""
        whole = data[:1] in {b"", bytes([_CONNACK])} and data[1:2] in {b"", b"\x02"}
        if whole and len(data) < 4:
            return False
        if not whole or data[2] > 1 or data[3] > _REFUSALS_TO or (data[2] and data[3]):
            raise ValueError(f"{data[:8].hex()} in place of a CONNACK")
        return True


class CoapQuestion:
    """A ping, an empty confirmable message: its reset is the answer (RFC 7252, section 4.3).

    Args:
        message_id: of the ping.

    """

    wants = "reset"

    def __init__(self, message_id: int) -> None:
        self._end = struct.pack("!BH", 0, message_id)
        self.data = b"\x40" + self._end

    def answered(self, data: bytes) -> bool:
        """Return whether the data is a reset; each datagram is asked for by itself."""
        if not data:
            return False
        if data != bytes([0x40 | _RESET << 4]) + self._end:
            raise ValueError(f"{data[:8].hex()} in place of a reset")
        return True


class DtlsQuestion:
    """A ClientHello without a cookie: the server asks for one, and keeps nothing (RFC 6347, 4.2.1).

    Args:
        random: 32 bytes.

    """

    wants = "HelloVerifyRequest"

    def __init__(self, random: bytes) -> None:
        ciphers = struct.pack("!6H", 0xC0A4, 0xC0A8, 0xC0AE, 0xC02B, 0xC02C, 0x00A8)
        # secp256r1 and x25519, points uncompressed, ECDSA and RSA with SHA-256 (RFC 8422, 5246).
        extensions = bytes.fromhex("000a00060004001d0017000b00020100000d0006000404030401")
        hello = b"\xfe\xfd" + random + b"\0\0" + struct.pack("!H", len(ciphers)) + ciphers
        hello += b"\x01\0" + struct.pack("!H", len(extensions)) + extensions
        length = len(hello).to_bytes(3, "big")
        message = b"\x01" + length + bytes(5) + length + hello
        header = bytes([_HANDSHAKE]) + b"\xfe\xfd" + bytes(8) + struct.pack("!H", len(message))
        self.data = header + message

    def answered(self, data: bytes) -> bool:
        """Return whether the data is a HelloVerifyRequest or a ServerHello."""
        if not data:
            return False
        is_handshake = data[:1] == bytes([_HANDSHAKE]) and data[1:3] in _DTLS and len(data) > 13
        if not is_handshake or data[13] not in {_HELLO_VERIFY_REQUEST, _SERVER_HELLO}:
            raise ValueError(f"{data[:16].hex()} in place of a HelloVerifyRequest")
        return True


def asked_of(told: Mapping[str, Any]) -> list[ListenerOnTrial]:
    """Return the listeners to ask.

    Args:
        told: what the gateway's ``listeners.json`` holds.

    Raises:
        ValueError: it is not what a gateway tells there; the message names the field.

    """
    listeners = told.get("listeners")
    if not isinstance(listeners, dict):
        raise ValueError(f"listeners: {listeners!r}")  # noqa: TRY004  # of a file, not of a caller
    found: list[ListenerOnTrial] = []
    for scheme in ("mqtt", "mqtts", "ws", "wss", "coap", "coaps"):
        addresses = listeners.get(scheme, [])
        if not isinstance(addresses, list):
            raise ValueError(f"listeners.{scheme}: {addresses!r}")  # noqa: TRY004  # the same
        found += (_listener(scheme, one) for one in addresses)
    return found[:LISTENERS_MAX]


def _listener(scheme: str, address: Any) -> ListenerOnTrial:
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"listeners.{scheme}: {address!r} is not host:port")
    host = host.strip("[]")
    # A wildcard is no address to send to.
    return ListenerOnTrial(scheme, _NEAR.get(host, host), int(port))


def silent(
    answers: Mapping[ListenerOnTrial, str], schemes_before: Iterable[str] = ()
) -> Sequence[str]:
    """Return why listeners keep a release from staying; empty if nothing does.

    Args:
        answers: why each that was asked gave none; empty if it did.
        schemes_before: what the release before listened on.

    """
    there = {listener.scheme for listener in answers}
    missing = [scheme for scheme in schemes_before if scheme not in there]
    return [
        *(f"it does not listen on {scheme} any more" for scheme in missing),
        *(f"{listener}: {why}" for listener, why in answers.items() if why),
    ]
