"""Errors of a datagram or a limit."""

from __future__ import annotations


class CoapError(Exception):
    """The base of what this package raises, for callers that treat all of it alike."""


class MessageFormatError(CoapError):
    """Bytes that are no message of CoAP, or one beyond the limits (RFC 7252, section 3).

    Attributes:
        message_id: of the message, where so much of it could be read; a confirmable one is
            answered with a Reset. None otherwise.

    """

    def __init__(self, why: str, message_id: int | None = None) -> None:
        super().__init__(why)
        self.message_id = message_id


class UnknownExchangeError(CoapError):
    """An answer to a request that is over: its peer is gone, or it was answered already."""

    def __init__(self, exchange: int) -> None:
        super().__init__(f"exchange {exchange} is over")
        self.exchange = exchange
