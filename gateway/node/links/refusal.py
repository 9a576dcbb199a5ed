"""Refusal of a link: what one end tells the other, and how logs and status say it.

What is told may go to somebody who has proved nothing. So it is one byte, which names the setting
that differs and never what it is here; and it says nothing that the hand-shake has not shown
before: who names another tree is refused where others are answered, and who holds another key sees
that by the answer's MAC.
"""

from __future__ import annotations

import datetime
import enum
import os
import re
import socket
import ssl

from tree_handler.errors import ProtocolError


class Refusal(enum.IntEnum):
    """A reason of refusal that the other end is told: in a CONNACK, or as the body of a DISCONNECT.

    MQTT 3.1.1 has no reason in a DISCONNECT, and reserves all codes of a CONNACK over 5 (table
    3.1); links use those over 127.
    """

    NOT_AUTHORIZED = 5
    OTHER_TREE = 0x80
    OTHER_KEY = 0x81
    OTHER_MODE = 0x82
    OTHER_CERTIFICATE = 0x83
    DUPLICATE = 0x84
    OTHER_LIFE = 0x85

    @property
    def text(self) -> str:
        """Return what the reason means for the gateway that is told it."""
        return _TEXTS[self]


_ERRNO = re.compile(r"\[Errno ([0-9]+)\]")
_TEXTS = {
    Refusal.NOT_AUTHORIZED: (
        "refused by the neighbour, whose log says why: a certificate, no TLS, or too many failures"
    ),
    Refusal.OTHER_TREE: "the neighbour is of another tree (tree.name)",
    Refusal.OTHER_KEY: "the neighbour holds another key of the tree (tree.key_file)",
    Refusal.OTHER_MODE: "the neighbour has another tree.mode",
    Refusal.OTHER_CERTIFICATE: "the neighbour takes the certificate for another gateway's",
    Refusal.DUPLICATE: "linked already",
    Refusal.OTHER_LIFE: (
        "another gateway with this one's id is a member of the tree, so this one waits"
    ),
}


class RefusedError(ProtocolError):
    """The other end takes no link with this gateway, and says why.

    Attributes:
        code: as given.

    Args:
        code: what it told, perhaps none of `Refusal`.
        who: what is known of it.

    """

    def __init__(self, code: int, who: str | None = None) -> None:
        known = code in _TEXTS
        text = Refusal(code).text if known else f"refused by the neighbour, code {code}"
        super().__init__(text, who)
        self.code = code


def reason(error: Exception) -> str:
    """Return what went wrong with a connection to a neighbour, in a few words for a person."""
    match error:
        case TimeoutError() if not error.errno:
            return "no answer in time"
        case socket.gaierror():
            return f"unknown host name ({error.strerror})"
        case ssl.SSLCertVerificationError():
            why = f"its certificate is not accepted here: {error.verify_message}"
            return f"{why}{_what_the_clock_says(error.verify_message)}"
        case ssl.SSLError():
            return _of_tls(error)
        case OSError():
            return _of_the_system(error)
    return str(error) or type(error).__name__


def _of_the_system(error: OSError) -> str:
    numbers = [error.errno] if error.errno else map(int, _ERRNO.findall(str(error)))
    whys = dict.fromkeys(map(os.strerror, numbers))  # asyncio joins those of several addresses
    return ", ".join(whys) or str(error) or type(error).__name__


def _what_the_clock_says(verify_message: str) -> str:
    """Name the day where a clock that is wrong makes a good certificate a bad one."""
    if not verify_message.endswith(("not yet valid", "has expired")):
        return ""
    return f" (by this machine's clock it is {datetime.datetime.now(datetime.UTC):%Y-%m-%d})"


def _of_tls(error: ssl.SSLError) -> str:
    told = error.reason or str(error)
    _, is_alert, alert = told.partition("ALERT_")
    words = (alert or told).replace("_", " ").lower()
    if is_alert and ("certificate" in words or words.endswith(" ca")):
        return f"this gateway's certificate is not accepted there: {words}"
    if is_alert:
        return f"TLS was ended there: {words}"
    return f"no TLS came about ({words}): is it the neighbour's port for TLS?"
