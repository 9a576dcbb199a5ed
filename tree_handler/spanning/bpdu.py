"""The BPDU: everything two neighbouring gateways say to each other about the tree.

It travels as the body of an MQTT PINGREQ on the link; the PINGRESP echoes ``number``, which is
what the round-trip time is measured with. The body is a msgpack array of the fields in the
order of `Bpdu`, the root spread out into its four; its seal comes last, if it has one.

One form serves all kinds; ``root`` always names the tree that is meant. What ``sequence`` and
``cost_ms`` say depends on the kind:

=================  =======================================================================
HELLO              the sender's own distance to the root; `UNREACHABLE_MS` retracts it
JOIN               the sender's feasibility distance: the best it has announced for the root
ACCEPT, REFUSE     ``answers`` is the number of the JOIN
LEAVE              ``answers`` is the number of the JOIN that is taken back
SEQUENCE_REQUEST   a sequence newer than ``sequence`` is wanted
=================  =======================================================================
"""

from __future__ import annotations

import enum

import msgpack

from light_dataclasses import dataclass
from tree_handler.errors import BpduError, ProtocolError
from tree_handler.members.place import is_name
from tree_handler.spanning.election import MAX_EPOCH, Root, check_candidate

VERSION = 1
UNREACHABLE_MS = 2**32 - 1
"""The cost that stands for none (RFC 8966 section 2.2 calls it infinity)."""
MAX_COST_MS = 2**31
"""No path is longer; a gateway that would have to announce more announces `UNREACHABLE_MS`."""
MAX_HOPS = 65_535
MAX_NUMBER = 2**63 - 1
MAX_BYTES = 640
"""No BPDU is longer: ids, addresses and numbers are all bounded."""
MAX_SEAL_BYTES = 128
_FIELDS = 16


class Kind(enum.IntEnum):
    """A kind of BPDU."""

    HELLO = 1
    JOIN = 2
    ACCEPT = 3
    REFUSE = 4
    LEAVE = 5
    SEQUENCE_REQUEST = 6


class BpduFlags(enum.IntFlag):
    """Marks of the sender. Unknown bits are kept: a later version may set them."""

    TRANSIT = 1
    """The sender carries messages for others: it may be a parent."""
    SEEKING = 2
    """The sender has lost the root but knows of an offer that it may not take yet."""
    AGREEMENT = 4
    """The sender forwards data over this link."""


NO_FLAGS = BpduFlags(0)


@dataclass(frozen=True, slots=True)
class Bpdu:
    """One tree message.

    Attributes:
        kind: see `Kind`.
        number: the message's number at its sender, echoed by the PINGRESP.
        sender: gateway id of the sender.
        sender_epoch: boot epoch of the sender.
        capability: C of the sender.
        root: the tree that is meant.
        sequence: see the table of this module.
        cost_ms: see the table of this module.
        hops: links between the sender and the root.
        parent: gateway id of the sender's parent, ``""`` if it has none.
        flags: see `BpduFlags`.
        answers: number of the JOIN that this answers or takes back, else 0.

    """

    kind: Kind
    number: int
    sender: str
    sender_epoch: int
    capability: float
    root: Root
    sequence: int = 0
    cost_ms: int = UNREACHABLE_MS
    hops: int = 0
    parent: str = ""
    flags: BpduFlags = NO_FLAGS
    answers: int = 0

    @property
    def is_of_a_leaf(self) -> bool:
        """Return whether its sender carries nothing for others and is never the root of others."""
        return not (self.flags & BpduFlags.TRANSIT or self.capability)

    def encode(self) -> bytes:
        """Return the body of the PINGREQ."""
        root = self.root
        packed: bytes = msgpack.packb(
            (
                VERSION,
                int(self.kind),
                self.number,
                self.sender,
                self.sender_epoch,
                float(self.capability),
                root.gateway_id,
                root.boot_epoch,
                float(root.capability),
                root.address,
                self.sequence,
                self.cost_ms,
                self.hops,
                self.parent,
                int(self.flags),
                self.answers,
                *((root.seal,) if root.seal else ()),
            )
        )
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Bpdu:
        """Read the body of a PINGREQ.

        Raises:
            BpduError: not msgpack, another version, or a field that is missing or out of bounds;
                the field is named.

        """
        if len(data) > MAX_BYTES:
            raise BpduError("BPDU too large, bytes", len(data))
        try:
            row = msgpack.unpackb(data)
        except (ValueError, msgpack.UnpackException) as error:
            raise BpduError("BPDU is not msgpack", str(error)) from error
        if not isinstance(row, list) or not row:
            raise BpduError("BPDU is not an array", type(row).__name__)
        if type(row[0]) is not int or row[0] != VERSION:
            raise BpduError("BPDU version", row[0])
        if len(row) not in (_FIELDS, _FIELDS + 1):
            raise BpduError("BPDU fields", len(row))
        try:
            kind = Kind(_whole("kind", row[1], 255))
        except ValueError as wrong:
            raise BpduError("BPDU kind", row[1]) from wrong
        sender, parent = _text("sender", row[3]), _text("parent", row[13])
        if not is_name(sender):
            raise BpduError("BPDU sender", sender)
        if parent and not is_name(parent):
            raise BpduError("BPDU parent", parent)
        root = Root(
            _text("root", row[6]),
            _whole("root epoch", row[7], MAX_EPOCH),
            _real("root capability", row[8]),
            _text("root address", row[9]),
            _seal(row[_FIELDS:]),
        )
        capability = _real("capability", row[5])
        try:
            check_candidate(root.gateway_id, root.boot_epoch, root.capability, root.address)
            check_candidate(sender, 0, capability, root.address)
        except ProtocolError as refused:
            raise BpduError(f"BPDU {refused.what}", refused.value) from refused
        cost_ms = _whole("cost_ms", row[11], UNREACHABLE_MS)
        if MAX_COST_MS < cost_ms < UNREACHABLE_MS:
            raise BpduError("BPDU cost_ms", cost_ms)
        return cls(
            kind,
            _whole("number", row[2], MAX_NUMBER),
            sender,
            _whole("sender epoch", row[4], MAX_EPOCH),
            capability,
            root,
            _whole("sequence", row[10], MAX_NUMBER),
            cost_ms,
            _whole("hops", row[12], MAX_HOPS),
            parent,
            BpduFlags(_whole("flags", row[14], 255)),
            _whole("answers", row[15], MAX_NUMBER),
        )

    def __str__(self) -> str:
        cost = "unreachable" if self.cost_ms == UNREACHABLE_MS else f"{self.cost_ms} ms"
        text = (
            f"{self.kind.name} #{self.number} of {self.sender}/{self.sender_epoch}"
            f" root {self.root} sequence {self.sequence}"
        )
        if self.kind is Kind.HELLO:
            text += f" cost {cost} hops {self.hops} parent {self.parent or '-'}"
        elif self.kind is Kind.JOIN:
            text += f" cost {cost}"
        if self.answers:
            text += f" answers #{self.answers}"
        if self.flags:
            text += f" {self.flags.name}"
        return text


def _whole(field: str, value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BpduError(f"BPDU {field}", value)
    return value


def _seal(values: list[object]) -> bytes:
    for value in values:
        if not isinstance(value, bytes) or len(value) > MAX_SEAL_BYTES:
            raise BpduError("BPDU seal of the root", value)
        return value
    return b""


def _real(field: str, value: object) -> float:
    if type(value) is not float:
        raise BpduError(f"BPDU {field}", value)
    return value


def _text(field: str, value: object) -> str:
    if type(value) is not str:
        raise BpduError(f"BPDU {field}", value)
    return value
