"""Errors of packets that break the protocol, and how a peer's values are shown."""

from __future__ import annotations

from typing import Final

from gateway.mqtt.reason_codes import ReasonCode

_SHOWN_CHARACTERS: Final = 60


def shortened(value: str | bytes) -> str:
    """Return a peer's value fit for a log line: no line breaks, no more than 60 characters and its
    length.

    >>> shortened("a/b")
    "'a/b'"
    """
    shown = repr(value[:_SHOWN_CHARACTERS])
    if len(value) <= _SHOWN_CHARACTERS and len(shown) <= _SHOWN_CHARACTERS:
        return shown
    return f"{shown[: _SHOWN_CHARACTERS - 3]}... ({len(value)})"


def first_of(shown: list[str], count: int, separator: str) -> str:
    """Return the first few of many values, and how many more there are.

    >>> first_of(["a", "b", "c"], 2, "; ")
    'a; b and 1 more'
    """
    more = f" and {len(shown) - count} more" if len(shown) > count else ""
    return separator.join(shown[:count]) + more


class PacketError(ValueError):
    """Bytes are not a packet, or a packet's value breaks the protocol.

    Args:
        reason: what a DISCONNECT or CONNACK would tell the peer (MQTT 5.0, section 4.13).
        what: the packet and field at fault.
        value: the offending value, shown shortened; never a secret.
        statement: the normative statement of MQTT 5.0 that is broken, such as
            ``MQTT-3.3.1-4``; one that only MQTT 3.1.1 has ends in ``(3.1.1)``.

    """

    def __init__(
        self,
        reason: ReasonCode,
        what: str,
        value: str | bytes | int | None = None,
        statement: str = "",
    ) -> None:
        text = what
        if value is not None:
            text += f": {value if isinstance(value, int) else shortened(value)}"
        if statement:
            text += f" [{statement}]"
        super().__init__(text)
        self.reason = reason
        self.what = what
        self.value = value
        self.statement = statement


def malformed(
    what: str, value: str | bytes | int | None = None, statement: str = ""
) -> PacketError:
    """Return the error for what can't be read as the specification says (reason 0x81)."""
    return PacketError(ReasonCode.MALFORMED_PACKET, what, value, statement)


def protocol_error(
    what: str, value: str | bytes | int | None = None, statement: str = ""
) -> PacketError:
    """Return the error for what can be read but is not allowed (reason 0x82)."""
    return PacketError(ReasonCode.PROTOCOL_ERROR, what, value, statement)
