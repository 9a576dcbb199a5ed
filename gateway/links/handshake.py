"""Both ends of a link prove that they hold the tree's key, and learn each other's name.

Three messages, sans-I/O. The dialling gateway's CONNECT carries its id, the tree's name and a
nonce; the accepting one answers with its id, a nonce of its own and a MAC over both names and
both nonces; the dialling one answers with a MAC over the same under another label. A MAC can't
be replayed, since each end contributes a fresh nonce, nor reflected, since the labels differ.
Where mutual TLS guards the link, this runs inside it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import msgpack

from gateway.links.wire import Connect
from tree_handler.errors import ProtocolError

NONCE_BYTES = 16
MIN_KEY_BYTES = 16
TOPIC = b"$hedgerow/auth"


class HandshakeError(ProtocolError):
    """The other end is of another tree, is this gateway itself, or lacks the key."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a gateway needs to take part in a tree."""

    gateway_id: str
    tree: str
    key: bytes

    def __repr__(self) -> str:
        return f"Credentials({self.gateway_id!r}, {self.tree!r})"


class Dialler:
    """The dialling end. Args: its credentials and a fresh nonce."""

    def __init__(self, own: Credentials, nonce: bytes) -> None:
        self._own = own
        self.connect = Connect(own.gateway_id, own.tree, nonce)

    def receive(self, payload: bytes) -> tuple[str, bytes]:
        """Check the answer; return the neighbour's id and the last message to send.

        Raises:
            HandshakeError: see the class.

        """
        peer_id, nonce, mac = _answer(payload)
        if peer_id == self._own.gateway_id:
            raise HandshakeError("this gateway itself", peer_id)
        transcript = (self._own.gateway_id, peer_id, self.connect.nonce, nonce)
        if not hmac.compare_digest(mac, _mac(self._own, b"accept", transcript)):
            raise HandshakeError("the neighbour does not hold the tree's key", peer_id)
        return peer_id, _mac(self._own, b"dial", transcript)


class Acceptor:
    """The accepting end. Args: its credentials, a fresh nonce, and the CONNECT it got.

    Raises:
        HandshakeError: the CONNECT is for another tree, comes from this very gateway, or has
            no proper nonce.

    """

    def __init__(self, own: Credentials, nonce: bytes, connect: Connect) -> None:
        if connect.tree != own.tree:
            raise HandshakeError("another tree", connect.tree)
        if connect.gateway_id == own.gateway_id:
            raise HandshakeError("this gateway itself", connect.gateway_id)
        if len(connect.nonce) != NONCE_BYTES or not connect.gateway_id:
            raise HandshakeError("CONNECT without identifier or nonce", connect.gateway_id)
        self.peer_id = connect.gateway_id
        transcript = (connect.gateway_id, own.gateway_id, connect.nonce, nonce)
        self._expected = _mac(own, b"dial", transcript)
        packed: bytes = msgpack.packb([own.gateway_id, nonce, _mac(own, b"accept", transcript)])
        self.answer = packed
        """The message to send after the CONNACK."""

    def receive(self, payload: bytes) -> None:
        """Check the dialling end's proof.

        Raises:
            HandshakeError: it lacks the key.

        """
        if not hmac.compare_digest(payload, self._expected):
            raise HandshakeError("the neighbour does not hold the tree's key", self.peer_id)


def _mac(own: Credentials, label: bytes, transcript: tuple[str, str, bytes, bytes]) -> bytes:
    return hmac.digest(own.key, msgpack.packb([label, own.tree, *transcript]), hashlib.sha256)


def _answer(payload: bytes) -> tuple[str, bytes, bytes]:
    try:
        row = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise HandshakeError("answer", payload) from error
    match row:
        case [str(peer_id), bytes(nonce), bytes(mac)] if len(nonce) == NONCE_BYTES:
            return peer_id, nonce, mac
    raise HandshakeError("answer", row)
