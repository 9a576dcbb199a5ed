"""Acknowledgements in a row: PUBACK, PUBREC, PUBREL and PUBCOMP as clients send them in bursts.

Each is four bytes: its type, a length of two, a packet identifier. So every fourth byte of a run
is the same, and slices with a step of four handle a whole run at once.
"""

from __future__ import annotations

from struct import Struct

ACKNOWLEDGEMENTS = frozenset((0x40, 0x50, 0x62, 0x70))
"""Their first bytes."""
RUN_MAX = 256
"""Looked at together, at most: what is not part of a run is then not looked at for long."""

_identifiers = Struct(">2xH").iter_unpack


def run_end(data: bytes, at: int) -> int:
    """Where the run ends that starts with the whole acknowledgement at ``at``."""
    stop = at + min(len(data) - at >> 2, RUN_MAX) * 4
    types, lengths = data[at:stop:4], data[at + 1 : stop : 4]
    same_types = len(types) - len(types.lstrip(types[:1]))
    return at + 4 * min(same_types, len(lengths) - len(lengths.lstrip(b"\x02")))


def identifiers(run: bytes) -> list[int]:
    """The packet identifiers of a run."""
    return [packet_id for (packet_id,) in _identifiers(run)]


def answered(run: bytes, first_byte: int) -> bytes:
    """A run with the same packet identifiers in packets that begin with ``first_byte``."""
    answer = bytearray(run)
    answer[::4] = bytes((first_byte,)) * (len(run) >> 2)
    return bytes(answer)
