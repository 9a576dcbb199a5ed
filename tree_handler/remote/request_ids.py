"""Writes that their clients give a name, so that one is carried out once though it is asked again.

Sans-I/O. A client whose write was not answered can't know whether it was carried out, and a new
message of it is a new request. So it may say, in the option Request-Id, a name that it drew at
random and for how many seconds it has been asking. Who carries the write out remembers name and
answer, whatever gateway it comes through; and what was asked before, but not here as far as is
known, is carried out only where this life has lasted and remembers for long enough to be sure.

A copy of a first message can't say that it is one, when what was remembered of it is gone. So each
name is noted, outside, before its write is carried out, and a later life is given these notes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgpack

from light_dataclasses import dataclass
from tree_handler.deadlines import Deadlines
from tree_handler.remote.options import HOP_LIMIT, REQUEST_ID, value_of
from tree_handler.remote.resource import ResourceRequest, ResourceResponse

MAX_ASKED_S: Final = 60
"""A client may go on asking for so long."""
ON_THE_WAY_S: Final = 8.0
"""No request is longer on its way to who carries it out (`request_memory`)."""
COPIES_S: Final = 45.0
"""For so long a client sends copies of one message by itself, which say what the first one said
(MAX_TRANSMIT_SPAN, RFC 7252, section 4.8.2)."""
REMEMBERED_S: Final = MAX_ASKED_S + COPIES_S + ON_THE_WAY_S
"""After a name was asked for first, the last copy of its last message comes so much later."""
MAX_NAMED: Final = 4_096
MAX_NAMED_OF_ASKER: Final = 512
MAX_NAMED_OF_GATEWAY: Final = 1_024
MAX_KEPT_BYTES: Final = 1_024
"""A longer body is not kept: who asks again is told the code alone."""

_CONFLICT: Final = 0x89
_SERVICE_UNAVAILABLE: Final = 0xA3
_GATEWAY_TIMEOUT: Final = 0xA4

_OF_THE_WAY: Final = frozenset((HOP_LIMIT, REQUEST_ID))

NOTE_BYTES: Final = 16
"""Of each name that is noted: a digest of who asks and how it is named."""

NameKey = tuple[str, bytes]
"""The asker, as gateways know it, and the name of the request."""


@dataclass(frozen=True, slots=True)
class CarryOut:
    """A request is to be carried out once ``note`` is kept, and `answered` to be told of it."""

    key: NameKey
    note: bytes


@dataclass(frozen=True, slots=True)
class Join:
    """It is being carried out: what comes of it is for this asker, too."""

    key: NameKey


class _Named:
    """A request with an identifier that is remembered, and its answer."""

    __slots__ = ("answer", "said", "via")

    def __init__(self, said: bytes, via: str) -> None:
        self.said = said
        self.via = via
        self.answer: ResourceResponse | None = None


class NamedWrites:
    """The named writes of one gateway's own resources.

    What is remembered is never given up early, for it would be carried out again: where there is no
    room the next one is refused (5.03), for each asker, for each gateway that vouches for askers,
    and for all.

    Args:
        began_s: when this life of the gateway began, by the clock of ``now``.
        earlier: the notes of earlier lives.

    """

    def __init__(self, began_s: float, earlier: Iterable[bytes] = ()) -> None:
        self._began_s = began_s
        self._earlier = frozenset(earlier)
        self._named: dict[NameKey, _Named] = {}
        self._over: Deadlines[NameKey] = Deadlines()
        self._of_asker: dict[str, int] = {}
        self._of_gateway: dict[str, int] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._named)

    def begin(
        self, request: ResourceRequest, via: str, now: float
    ) -> CarryOut | Join | ResourceResponse | None:
        """Return what is to be done of a request; None of one that has no name.

        Args:
            request: of somebody who may do it.
            via: the gateway that vouches for who that is; empty for this one.
            now: the time in seconds.

        """
        value = value_of(request.options, REQUEST_ID)
        if value is None or not request.writes:
            return None
        for old in self._over.take_due(now):
            self._forget(old)
        key, asked_s, said = (request.identity or "", value[1:]), value[0], _digest(request)
        named = self._named.get(key)
        if named is not None:
            if named.said != said:
                return ResourceResponse(_CONFLICT, b"Request-Id of another request")
            return Join(key) if named.answer is None else named.answer
        note = _note_of(key)
        why = self._doubt(note, asked_s, now)
        if why:
            return ResourceResponse(_GATEWAY_TIMEOUT, why)
        if (
            len(self._named) >= MAX_NAMED
            or self._of_asker.get(key[0], 0) >= MAX_NAMED_OF_ASKER
            or self._of_gateway.get(via, 0) >= MAX_NAMED_OF_GATEWAY
        ):
            return ResourceResponse(_SERVICE_UNAVAILABLE, b"too many requests with Request-Id")
        self._named[key] = _Named(said, via)
        self._of_asker[key[0]] = self._of_asker.get(key[0], 0) + 1
        self._of_gateway[via] = self._of_gateway.get(via, 0) + 1
        return CarryOut(key, note)

    def _doubt(self, note: bytes, asked_s: int, now: float) -> bytes:
        """Return why the request may have been carried out before; empty if it was not."""
        lived_s = now - self._began_s
        if lived_s >= REMEMBERED_S:
            self._earlier = frozenset()
        if note in self._earlier:
            return b"it may have been carried out before: this gateway has restarted since"
        if asked_s and (asked_s > MAX_ASKED_S or lived_s < asked_s + ON_THE_WAY_S):
            return b"it may have been carried out before: nothing is known here of that time"
        return b""

    def notes(self) -> list[bytes]:
        """Return what a later life has to know, if all notes are written anew."""
        return [*self._earlier, *map(_note_of, self._named)]

    def answered(self, key: NameKey, response: ResourceResponse, now: float) -> None:
        """One was carried out, or refused: then nothing was done, and it may be asked again."""
        named = self._named[key]
        if response.code >> 5 == 4 or response.code == _SERVICE_UNAVAILABLE:
            self._forget(key)
            return
        is_kept = len(response.payload) <= MAX_KEPT_BYTES
        named.answer = response if is_kept else ResourceResponse(response.code)
        self._over.set(key, now + REMEMBERED_S)

    def _forget(self, key: NameKey) -> None:
        named = self._named.pop(key)
        _less(self._of_asker, key[0])
        _less(self._of_gateway, named.via)


def _note_of(key: NameKey) -> bytes:
    who, name = key
    return hashlib.blake2b(msgpack.packb((who, name)), digest_size=NOTE_BYTES).digest()


def _digest(request: ResourceRequest) -> bytes:
    """Return what tells a request from another one of the same name."""
    said = [
        *(request.method, request.path, request.query, request.content_format, request.accept),
        *(request.payload, [one for one in request.options if one[0] not in _OF_THE_WAY]),
    ]
    return hashlib.blake2b(msgpack.packb(said), digest_size=16).digest()


def _less(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
