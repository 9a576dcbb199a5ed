"""Errors of flashing: each says what state the card is in."""

from __future__ import annotations

from gateway.base import exit_codes


class FlashError(Exception):
    """A card was not made; ``str(error)`` is one line without secrets.

    Attributes:
        exit_code: what a command ends with.

    """

    exit_code: int


class RefusalError(FlashError):
    """The target, the image or a device's settings are refused; nothing has been written."""

    exit_code = exit_codes.CARD_REFUSED


class CardWriteError(FlashError):
    """The card could not be written or prepared: it is of no use as it is."""

    exit_code = exit_codes.CARD_FAILED


class ReadBackError(FlashError):
    """The data read back is not what was written: the card or its reader is damaged."""

    exit_code = exit_codes.CARD_DIFFERS
