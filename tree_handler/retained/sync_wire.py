"""Messages by which two gateways compare their retained topics, as msgpack."""

from __future__ import annotations

import enum
from typing import Any

import msgpack

from light_dataclasses import dataclass
from tree_handler.batch import MAX_ARRAY, MAX_FRAME_BYTES
from tree_handler.errors import ProtocolError
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import version_of
from tree_handler.retained.versions import BUCKETS
from tree_handler.unpacking import MessageSize
from tree_handler.unpacking import unpack as unpack_within

ASK_TOPICS = 1_000
"""Versions listed in one ASK."""
ASK_CHARACTERS = 64 << 10
"""It ends when its topics have so many, too."""
SIZE = MessageSize(MAX_FRAME_BYTES + (1 << 20), 200_000, MAX_ARRAY)
"""An ANSWER may have one message that is as large as a batch."""

PlaceInSync = tuple[int, str]
"""A bucket and a topic in it: where a list of topics begins, or goes on."""
END: PlaceInSync = (BUCKETS, "")
START: PlaceInSync = (0, "")


@dataclass(frozen=True, slots=True)
class Wants:
    """The options of an ASK.

    Attributes:
        unlisted: topics that it does not list, too.
        proofs: who asks reads proofs, and takes nothing without one.

    """

    unlisted: bool
    proofs: bool

    def field(self) -> object:
        """Return the wire form. To an earlier release it is true or false: whether unlisted ones
        are."""
        if not self.proofs:
            return self.unlisted
        return (1,) if self.unlisted else ()

    @classmethod
    def of(cls, field: object) -> Wants:
        """Read it, as an earlier release does and with what that does not know."""
        return cls(bool(field), isinstance(field, tuple))


class SyncKind(enum.IntEnum):
    """A kind of message; `retained.sync` says what each does."""

    ROOT = 0
    DIGEST = 1
    ASK = 2
    ANSWER = 3


def pack(fields: tuple[Any, ...]) -> bytes:
    """Write a message: its kind, and what it says."""
    packed: bytes = msgpack.packb(fields)
    return packed


def unpack(payload: bytes) -> tuple[Any, ...]:
    """Read what `pack` wrote: the kind, and as many fields as such a message has.

    Raises:
        ProtocolError: it is no such message.

    """
    fields = unpack_within(
        "message of retained topics", payload, SIZE, tuples=True, strict_keys=False
    )
    lengths = {SyncKind.ROOT: 2, SyncKind.DIGEST: 3, SyncKind.ASK: 6, SyncKind.ANSWER: 3}
    if (
        not isinstance(fields, tuple)
        or not fields
        or not isinstance(fields[0], int)
        or len(fields) != lengths.get(fields[0])  # type: ignore[call-overload]
        or (fields[0] == SyncKind.ANSWER and not isinstance(fields[2], tuple))
    ):
        raise ProtocolError("message of retained topics", payload)
    return fields


def digest_of(value: object, length: int) -> bytes:
    """Take a field as a digest of ``length`` bytes.

    Raises:
        ProtocolError: it is none.

    """
    if not isinstance(value, bytes) or len(value) != length:
        raise ProtocolError("digest of retained topics", value)
    return value


def place_of(value: object) -> PlaceInSync:
    """Take a field as a place among the topics.

    Raises:
        ProtocolError: it is none.

    """
    match value:
        case (int(bucket), str(topic)) if 0 <= bucket <= BUCKETS:
            return bucket, topic
    raise ProtocolError("place among retained topics", value)


def ask_of(
    fields: list[Any],
) -> tuple[list[int], PlaceInSync, PlaceInSync, Wants, dict[str, RetainedVersion]]:
    """Take the fields of an ASK.

    Returns:
        The buckets, behind which place and up to which one their topics are asked for, what is
        wanted, and the versions of the topics that are listed.

    Raises:
        ProtocolError: it is none.

    """
    buckets, after, until, wants, listed = fields
    if (
        not isinstance(buckets, tuple)
        or not all(isinstance(bucket, int) and 0 <= bucket < BUCKETS for bucket in buckets)
        or len(set(buckets)) != len(buckets)
        or not isinstance(listed, tuple)
        or len(listed) > ASK_TOPICS
    ):
        raise ProtocolError("ask for retained topics", buckets)
    versions: dict[str, RetainedVersion] = {}
    for row in listed:
        if not isinstance(row, tuple) or len(row) != 5 or not isinstance(row[0], str):
            raise ProtocolError("version of a retained topic", row)
        versions[row[0]] = version_of(*row[1:])
    return list(buckets), place_of(after), place_of(until), Wants.of(wants), versions
