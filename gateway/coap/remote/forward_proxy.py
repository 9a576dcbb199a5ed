"""Forward proxy to the fleet's own gateways: who is to answer a request that names somebody.

A request with Proxy-Uri or Proxy-Scheme is passed on to the gateway whose id is the host (RFC 7252,
section 5.7.2), and one whose Uri-Host is another gateway's id to that one, too. Nothing else is
asked for anybody: 5.05 for other hosts, ports and schemes.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse, Option
from coap_engine.uint import decode_uint
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from tree_handler.errors import ProtocolError
from tree_handler.members.hierarchy import MemberRecord, Membership
from tree_handler.members.place import NONE, check_name

_PORTS: Final = {"coap": 5683, "coaps": 5684}
_FORBIDDEN: Final = CoapResponse(
    codes.PROXYING_NOT_SUPPORTED, (), b"only the gateways of this fleet are asked for others"
)
_MALFORMED: Final = CoapResponse(codes.BAD_OPTION, (), b"this is no coap URI")
_SAID_TWICE: Final = CoapResponse(
    codes.BAD_OPTION, (), b"Proxy-Uri says what other options of the request say, too"
)
_OF_A_URI: Final = frozenset(
    (
        option_numbers.URI_HOST,
        option_numbers.URI_PORT,
        option_numbers.URI_PATH,
        option_numbers.URI_QUERY,
    )
)


class ForwardProxy:
    """A `gateway.coap.answers.RouteRequest` to other gateways.

    Args:
        gateway_id: this gateway.
        members: who there is.

    """

    def __init__(self, gateway_id: str, members: Membership) -> None:
        self._gateway_id = gateway_id
        self._members = members

    def __call__(self, request: CoapRequest) -> CoapRequest | CoapResponse:
        """Return what a request is here: one for `gateway.coap.remote.answers`, or as it came."""
        proxy_uri = _value(request, option_numbers.PROXY_URI)
        if proxy_uri is not None:
            return self._absolute(request, proxy_uri)
        host = _text(_value(request, option_numbers.URI_HOST))
        scheme = _text(_value(request, option_numbers.PROXY_SCHEME))
        if scheme is not None:
            port = _value(request, option_numbers.URI_PORT)
            at = None if port is None else decode_uint(port)
            if host is None:
                return self._own(request, scheme, at)
            record = self._record(scheme, host, at)
            return _FORBIDDEN if record is None else self._for(record, request, request.options)
        named = None if host is None else self._members.get(host.lower())
        if named is not None and named.id == self._gateway_id:
            return request
        return request if named is None else self._for(named, request, request.options)

    def _own(
        self, request: CoapRequest, scheme: str, port: int | None
    ) -> CoapRequest | CoapResponse:
        """Return one that names no host, to be served here (RFC 7252, section 5.10.1)."""
        if self._record(scheme, self._gateway_id, port) is None:
            return _FORBIDDEN
        options, payload = request.options, request.payload
        return CoapRequest(request.code, options, payload, request.observe, request.is_fresh)

    def _absolute(self, request: CoapRequest, value: bytes) -> CoapRequest | CoapResponse:
        if any(number in _OF_A_URI for number, _ in (*request.options, *request.route)):
            return _SAID_TWICE
        try:
            parts = _split(value.decode())
        except ValueError:
            return _MALFORMED
        if parts is None:
            return _FORBIDDEN
        scheme, host, port, path, query = parts
        record = self._record(scheme, host, port)
        if record is None:
            return _FORBIDDEN
        said = [(option_numbers.URI_PATH, one) for one in path]
        said += [(option_numbers.URI_QUERY, one) for one in query]
        return self._for(record, request, tuple(sorted((*request.options, *said), key=_number)))

    def _record(self, scheme: str, host: str, port: int | None) -> MemberRecord | None:
        """Return the gateway that a URI names; None if it names anything else."""
        record = self._members.get(host.lower())
        if record is None or scheme not in _PORTS:
            return None
        own_port = record.coap_port if scheme == "coap" else record.coaps_port
        return record if port in (None, _PORTS[scheme], own_port or None) else None

    def _for(
        self, record: MemberRecord, request: CoapRequest, options: tuple[Option, ...]
    ) -> CoapRequest:
        """Return the request as it asks for a gateway's resource by its long name."""
        place = (record.domain or NONE, record.group or NONE, record.id)
        way = tuple((option_numbers.URI_PATH, one.encode()) for one in (QUERY_SEGMENT, *place))
        at = sum(number < option_numbers.URI_PATH for number, _ in options)
        hops = tuple(one for one in request.route if one[0] == option_numbers.HOP_LIMIT)
        return CoapRequest(
            request.code,
            (*options[:at], *way, *options[at:]),
            request.payload,
            request.observe,
            request.is_fresh,
            hops,
        )


_Parts = tuple[str, str, int | None, list[bytes], list[bytes]]


def _split(uri: str) -> _Parts | None:
    """Scheme, host, port, path and query of an absolute URI (RFC 7252, section 6.4).

    Returns:
        None for a URI whose scheme or host is none of a gateway's.

    Raises:
        ValueError: it is no absolute URI, or has a fragment.

    """
    scheme, colon, rest = uri.partition("://")
    if not colon or not scheme.isascii() or not scheme.replace("+", "").isalnum() or "#" in rest:
        raise ValueError(uri)
    if not uri.isascii() or not uri.isprintable() or " " in uri:
        raise ValueError(uri)
    if scheme.lower() not in _PORTS:
        return None
    before, question, query = rest.partition("?")
    authority, _, path = before.partition("/")
    host, has_port, port = authority.partition(":")
    if not host or (port and not (port.isdecimal() and len(port) <= 5)):
        if authority.startswith("[") or "@" in authority:
            return None
        raise ValueError(uri)
    try:
        check_name("host", host.lower())
    except ProtocolError:
        return None
    segments = [] if not path else [decoded(one) for one in path.split("/")]
    arguments = [decoded(one) for one in query.split("&")] if question else []
    return scheme.lower(), host, int(port) if has_port and port else None, segments, arguments


def decoded(text: str) -> bytes:
    """Return what stands for a percent-encoded part of a URI.

    Raises:
        ValueError: a percent sign with no two hexadecimal digits behind it.

    """
    if _BARE_PERCENT.search(text):
        raise ValueError(text)
    return unquote_to_bytes(text)


_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def _value(request: CoapRequest, number: int) -> bytes | None:
    for each, value in request.route:
        if each == number:
            return value
    return None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _number(option: Option) -> int:
    return option[0]
