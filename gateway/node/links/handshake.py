"""Both ends of a link prove that they hold the tree's key, and learn each other's name.

Three messages, sans-I/O. The dialling gateway's CONNECT carries its id, the tree's name and a
nonce; the accepting one answers with its id, a nonce of its own, its mode, its boot epoch and a MAC
over both names and all that; the dialling one answers with the port at which it takes links itself
(B1), its boot epoch, and a MAC over all that under another label. A MAC can't be replayed, since
each end contributes a fresh nonce, nor reflected, since the labels differ. In the end the accepting
one says that it takes the link (`Pairing`). Where mutual TLS guards the link, this runs inside it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import msgpack

from gateway.node.links.refusal import Refusal
from gateway.node.links.wire import Additions, LinkConnect
from light_dataclasses import dataclass
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.members.place import is_name
from tree_handler.unpacking import MessageSize, unpack

NONCE_BYTES: Final = 16
MIN_KEY_BYTES: Final = 16
SIZE: Final = MessageSize(1_024, 16, 16)
"""Of an answer or a proof, with two names of a gateway and of a mode."""
TOPIC: Final = b"$hedgerow/auth"


class HandshakeError(ProtocolError):
    """The other end is of another tree or mode, is this gateway itself, or lacks the key.

    Args:
        what: what is wrong.
        value: the value at fault.
        tell: what the other end is told of it; None for nothing.

    """

    def __init__(self, what: str, value: object = None, tell: Refusal | None = None) -> None:
        super().__init__(what, value)
        self.tell = tell


class NoPlaceError(HandshakeError):
    """The other end has proved who it is, and there will be no link with it now.

    Args:
        what: why.
        value: the value at fault.
        refusal: the same for the other end.
        peer_id: who it is.
        was_told: it is the other end that says so.

    """

    def __init__(
        self, what: str, value: object, refusal: Refusal, peer_id: str, *, was_told: bool = False
    ) -> None:
        super().__init__(what, value, None if was_told else refusal)
        self.refusal = refusal
        self.peer_id = peer_id


class SelfDialError(HandshakeError):
    """The address that was dialled is this gateway's own."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials with which a gateway takes part in a tree.

    Attributes:
        gateway_id: its id.
        tree: the tree's name.
        key: the tree's key.
        port: where it takes links itself, 0 if it doesn't.
        mode: how the tree forwards; all of its gateways must forward alike.
        epoch: its boot epoch.
        additions: what it understands besides (`wire.Additions`).

    """

    gateway_id: str
    tree: str
    key: bytes
    port: int = 0
    mode: str = "flood"
    epoch: int = 0
    additions: int = Additions.NONE

    def __repr__(self) -> str:
        return f"Credentials({self.gateway_id!r}, {self.tree!r})"


class Dialler:
    """The dialling end. Args: its credentials and a fresh nonce."""

    def __init__(self, own: Credentials, nonce: bytes) -> None:
        self._own = own
        self.peer_epoch = 0
        """Boot epoch of the accepting gateway, once it has proved who it is."""
        self.connect = LinkConnect(own.gateway_id, own.tree, nonce, own.additions)

    def receive(self, payload: bytes) -> tuple[str, bytes]:
        """Check the answer; return the neighbour's id and the last message to send.

        Raises:
            HandshakeError: see the class.

        """
        own = self._own
        peer_id, nonce, mode, epoch, mac = _answer(payload)
        if (peer_id, epoch) == (own.gateway_id, own.epoch):
            raise SelfDialError("this gateway itself", peer_id)
        transcript = (own.gateway_id, peer_id, self.connect.nonce, nonce, mode)
        if not hmac.compare_digest(mac, _mac(own, b"accept", transcript, epoch)):
            raise _no_key(peer_id)
        if peer_id == own.gateway_id:
            raise _same_id(peer_id)
        if mode != self._own.mode:
            what = f"tree.mode of {peer_id} is not {self._own.mode}"
            raise HandshakeError(what, mode, Refusal.OTHER_MODE)
        self.peer_epoch = epoch
        mac = _mac(own, b"dial", transcript, own.epoch, own.port)
        return peer_id, msgpack.packb([mac, own.port, own.epoch])


class Acceptor:
    """The accepting end. Args: its credentials, a fresh nonce, and the CONNECT it got.

    Raises:
        HandshakeError: the CONNECT is for another tree or has no proper nonce.

    """

    def __init__(self, own: Credentials, nonce: bytes, connect: LinkConnect) -> None:
        if connect.tree != own.tree:
            raise HandshakeError("another tree", connect.tree, Refusal.OTHER_TREE)
        if len(connect.nonce) != NONCE_BYTES or not is_name(connect.gateway_id):
            raise HandshakeError("CONNECT without identifier or nonce", connect.gateway_id)
        self.peer_id = connect.gateway_id
        transcript = (connect.gateway_id, own.gateway_id, connect.nonce, nonce, own.mode)
        self._own = own
        self._transcript = transcript
        self.peer_port = 0
        """The port at which the dialling gateway takes links, once it has proved who it is."""
        self.peer_epoch = 0
        """Its boot epoch, likewise."""
        mac = _mac(own, b"accept", transcript, own.epoch)
        packed: bytes = msgpack.packb([own.gateway_id, nonce, own.mode, own.epoch, mac])
        self.answer = packed
        """The message to send after the CONNACK."""

    def receive(self, payload: bytes) -> None:
        """Check the dialling end's proof.

        Raises:
            HandshakeError: it lacks the key, or is this gateway itself: who dials itself is
                answered, so that it learns whom it dialled.

        """
        mac, port, epoch = _proof(payload)
        own = self._own
        if (self.peer_id, epoch) == (own.gateway_id, own.epoch):
            raise HandshakeError("this gateway itself", self.peer_id)
        if not hmac.compare_digest(mac, _mac(own, b"dial", self._transcript, epoch, port)):
            raise _no_key(self.peer_id)
        if self.peer_id == own.gateway_id:
            raise _same_id(self.peer_id)
        self.peer_port, self.peer_epoch = port, epoch


def _no_key(peer_id: str) -> HandshakeError:
    what = "the neighbour does not hold the tree's key"
    return HandshakeError(what, peer_id, Refusal.OTHER_KEY)


def _same_id(peer_id: str) -> NoPlaceError:
    what = "another gateway with the id of this one"
    return NoPlaceError(what, peer_id, Refusal.OTHER_LIFE, peer_id)


def _mac(
    own: Credentials,
    label: bytes,
    transcript: tuple[str, str, bytes, bytes, str],
    epoch: int,
    port: int = 0,
) -> bytes:
    signed = msgpack.packb([label, own.tree, *transcript, epoch, port])
    return hmac.digest(own.key, signed, hashlib.sha256)


def _answer(payload: bytes) -> tuple[str, bytes, str, int, bytes]:
    match row := _unpacked("answer", payload):
        case [str(peer_id), bytes(nonce), str(mode), int(epoch), bytes(mac)] if (
            len(nonce) == NONCE_BYTES and 0 <= epoch <= MAX_BOOT_EPOCH and is_name(peer_id)
        ):
            return peer_id, nonce, mode, epoch, mac
    raise HandshakeError("answer", row)


def _proof(payload: bytes) -> tuple[bytes, int, int]:
    match row := _unpacked("proof", payload):
        case [bytes(mac), int(port), int(epoch)] if (
            0 <= port < 65_536 and 0 <= epoch <= MAX_BOOT_EPOCH
        ):
            return mac, port, epoch
    raise HandshakeError("proof", row)


def _unpacked(what: str, payload: bytes) -> object:
    try:
        row: object = unpack(what, payload, SIZE)
    except ProtocolError as error:
        raise HandshakeError(what, payload) from error
    return row
