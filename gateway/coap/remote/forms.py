"""Requests and responses of the engine as gateways say them to each other, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mypy_extensions import mypyc_attr

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.coap.access import METHOD_NAMES, Introduction
from tree_handler.errors import ProtocolError
from tree_handler.remote.options import REQUEST_OPTIONS, RESPONSE_OPTIONS
from tree_handler.remote.resource import SAFE_METHODS, ResourceRequest, ResourceResponse

_CODES: Final = {name: code for code, name in METHOD_NAMES.items()}
_OF_A_FIELD: Final = frozenset(
    (
        option_numbers.URI_PATH,
        option_numbers.URI_QUERY,
        option_numbers.CONTENT_FORMAT,
        option_numbers.ACCEPT,
    )
)

_OF_THE_WAY: Final = frozenset((option_numbers.HOP_LIMIT, option_numbers.REQUEST_ID))


@mypyc_attr(native_class=False)
class NotForOthersError(ValueError):
    """A request can't be passed on to another gateway.

    Attributes:
        response: what its sender is told.

    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.response = CoapResponse(code, (), why.encode())


def remote_request(
    request: CoapRequest, path: tuple[str, ...], introduction: Introduction
) -> ResourceRequest:
    """Return a request as another gateway is told of it.

    Args:
        request: as it came.
        path: the resource's at its owner.
        introduction: who asks.

    Raises:
        NotForOthersError: an option or the method can't be passed on.
        ProtocolError: something is over a limit.

    """
    method = METHOD_NAMES.get(request.code)
    if method is None:
        raise NotForOthersError(codes.METHOD_NOT_ALLOWED, "this method is not known")
    content_format: int | None = None
    accept: int | None = None
    query: list[str] = []
    further: list[Option] = []
    for number, value in request.options:
        if number == option_numbers.URI_QUERY:
            query.append(text(value, number))
        elif number == option_numbers.CONTENT_FORMAT:
            content_format = decode_uint(value)
        elif number == option_numbers.ACCEPT:
            accept = decode_uint(value)
        elif number == option_numbers.REQUEST_ID and method in SAFE_METHODS:
            raise NotForOthersError(codes.BAD_OPTION, "Request-Id is for what writes")
        elif number in REQUEST_OPTIONS:
            further.append((number, value))
        elif number not in _OF_A_FIELD and number & 1:
            raise NotForOthersError(codes.BAD_OPTION, f"option {number}")
    return ResourceRequest(
        method,
        path,
        tuple(query),
        content_format,
        accept,
        request.payload,
        *introduction,
        tuple(further),
    )


def text(value: bytes, number: int) -> str:
    """Return the text of an option.

    Raises:
        NotForOthersError: it is no UTF-8 (RFC 7252, section 5.4.3).

    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NotForOthersError(codes.BAD_OPTION, f"option {number}") from None


def coap_request(request: ResourceRequest, *, observe: bool = False) -> CoapRequest:
    """Return a request of another gateway as the engine would hand it out."""
    options: list[Option] = [
        (option_numbers.URI_PATH, segment.encode()) for segment in request.path
    ]
    options += [(option_numbers.URI_QUERY, one.encode()) for one in request.query]
    if request.content_format is not None:
        options.append((option_numbers.CONTENT_FORMAT, encode_uint(request.content_format)))
    if request.accept is not None:
        options.append((option_numbers.ACCEPT, encode_uint(request.accept)))
    # What resources know stays: an at-hand answer is found by the options that count.
    options += [one for one in request.options if one[0] not in _OF_THE_WAY]
    options.sort(key=_number)
    return CoapRequest(
        _CODES[request.method], tuple(options), request.payload, observe, is_fresh=True
    )


def resource_response(response: CoapResponse) -> ResourceResponse:
    """Return a response as the gateway is told of it that asked.

    Raises:
        ProtocolError: something is over a limit, or critical and not known.

    """
    content_format: int | None = None
    further: list[Option] = []
    for option in response.options:
        number, value = option
        if number == option_numbers.CONTENT_FORMAT:
            content_format = decode_uint(value)
        elif number in RESPONSE_OPTIONS:
            further.append(option)
        elif number & 1:
            raise ProtocolError("response option", option)
    return ResourceResponse(response.code, response.payload, content_format, tuple(further))


def coap_response(response: ResourceResponse) -> CoapResponse:
    """Return a response of another gateway as the engine sends it."""
    options = response.options
    if response.content_format is not None:
        added = (option_numbers.CONTENT_FORMAT, encode_uint(response.content_format))
        options = tuple(sorted((*options, added), key=_number))
    return CoapResponse(response.code, options, response.payload)


def diagnostic_of(code: int, why: str) -> ResourceResponse:
    """Return an error with a text for people (RFC 7252, section 5.5.2)."""
    return ResourceResponse(code, why.encode())


def hops_spent(gateway_id: str) -> ResourceResponse:
    """Return the response if a request must not be passed on (RFC 8768, section 4)."""
    return ResourceResponse(codes.HOP_LIMIT_REACHED, gateway_id.encode())


def relayed(response: ResourceResponse, gateway_id: str) -> ResourceResponse:
    """Return a response of another gateway; a 5.08 names who relays it (RFC 8768, section 4)."""
    if response.code != codes.HOP_LIMIT_REACHED:
        return response
    return replace(response, payload=b"%b %b" % (gateway_id.encode(), response.payload))


def no_answer(gateway_id: str, deadline_s: float, *, writes: bool = False) -> CoapResponse:
    """Return what an asker is told whom another gateway did not answer."""
    why = f"{gateway_id} did not answer within {deadline_s:g} s"
    if writes:
        why += "; it may have been carried out"
    return CoapResponse(codes.GATEWAY_TIMEOUT, (), why.encode())


def _number(option: Option) -> int:
    return option[0]
