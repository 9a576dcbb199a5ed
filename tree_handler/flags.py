"""Flags of a batch: one byte of its frame says what it carries."""

from __future__ import annotations

from typing import Final

ADDRESS_BYTES: Final = 32
"""The size of what stands for the list of whom a batch was for (`Flags.ADDRESSED`)."""


class Flags:
    """The flags of a batch: bits of a whole number, for the arithmetic of enums is slow.

    An origin numbers each of the four kinds of messages apart: logged or not, clients' or control.
    """

    NONE: Final = 0
    LOGGED: Final = 1
    """QoS 1, 2 or retained: in the origin's log before it was acknowledged."""
    CONTROL: Final = 2
    """Between gateways (topics that start with ``$``), never shown to clients."""
    LOCAL: Final = 4
    """In one gateway's log and never on a link: what it has to remember for itself, with LOGGED
    clients' messages that are not to leave it, with PASSED what is passed over for it alone."""
    PASSED: Final = 8
    """No messages but a statement of their numbers: they are not for whoever reads it."""
    LOST: Final = 16
    """With PASSED: they were to come, and nobody within reach has them any more."""
    NUMBERED: Final = LOGGED | PASSED
    """Either: its numbers are those of the log."""
    SEALED: Final = 32
    """It ends with its origin's signature (`tree_handler.seal`)."""
    ADDRESSED: Final = 64
    """With SEALED: the signature is of the list of whom it was for, too (`routing.wire.Carry`)."""
