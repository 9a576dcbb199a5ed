"""Requests and responses of the engine as messages of aiocoap, and back."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code
from aiocoap.numbers.optionnumbers import OptionNumber

from coap_engine.message import CoapRequest, CoapResponse, Option

_OF_THE_ENGINE: Final = frozenset(
    int(number)
    for number in (
        OptionNumber.OBSERVE,
        OptionNumber.BLOCK1,
        OptionNumber.BLOCK2,
        OptionNumber.SIZE1,
        OptionNumber.SIZE2,
        OptionNumber.NO_RESPONSE,
        OptionNumber.REQUEST_TAG,
    )
)
"""Options that aiocoap's resources may leave in a response, and that the engine sets itself."""
_UNDERSTOOD: Final = frozenset(
    int(number)
    for number in (
        OptionNumber.IF_MATCH,
        OptionNumber.IF_NONE_MATCH,
        OptionNumber.URI_PATH,
        OptionNumber.URI_PATH_ABBREV,
        OptionNumber.URI_QUERY,
        OptionNumber.ACCEPT,
    )
)
"""Critical options that a resource sees."""


class OptionRefusedError(ValueError):
    """A request can't be served for one of its options (RFC 7252, section 5.4.1).

    Attributes:
        response: what its sender is told.

    """

    def __init__(self, code: Any, why: str) -> None:
        super().__init__(why)
        self.response = CoapResponse(int(code), (), why.encode())


def incoming(request: CoapRequest, remote: Any) -> Any:
    """Return a request as a resource sees it.

    Args:
        request: whole.
        remote: who asks, with the attributes that aiocoap's remotes have.

    Raises:
        OptionRefusedError: a critical option is unknown to resources, or has a wrong value.

    """
    message = Message(code=Code(request.code), payload=request.payload)
    for number, value in request.options:
        is_critical = number & 1
        if is_critical and number not in _UNDERSTOOD:
            raise OptionRefusedError(Code.BAD_OPTION, f"option {number}")
        try:
            add_option(message, number, value)
        except ValueError:  # what is no UTF-8, above all: as if it were not known (section 5.4.3)
            if is_critical:
                raise OptionRefusedError(Code.BAD_OPTION, f"option {number}") from None
    if request.observe:
        message.opt.observe = 0
    message.direction = Direction.INCOMING
    message.remote = remote
    if request.is_still_in is not None:  # then the remote is made for this request alone
        remote.is_still_in = request.is_still_in
    return message


def outgoing(message: Any) -> CoapResponse:
    """Return what a resource answered."""
    options = sorted(
        (option for option in options_of(message) if option[0] not in _OF_THE_ENGINE),
        key=itemgetter(0),
    )
    return CoapResponse(int(message.code), tuple(options), message.payload)


def refusing(response: CoapResponse) -> Any:
    """Return a refusal as a resource would answer it: its code, and its text for people."""
    return Message(code=Code(response.code), payload=response.payload)


def options_of(message: Any) -> tuple[Option, ...]:
    """Return all options of a message of aiocoap's."""
    return tuple((int(option.number), option.encode()) for option in message.opt.option_list())


def add_option(message: Any, number: int, value: bytes) -> None:
    """Put an option into a message of aiocoap's.

    Raises:
        ValueError: the value is none of this option's, as what is no UTF-8.

    """
    message.opt.add_option(OptionNumber(number).create_option(decode=value))
