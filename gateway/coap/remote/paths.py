"""Paths of requests to other gateways: ``/q/<domain>/<group>/<gateway>/<path...>``.

``-`` stands for no domain or no group, ``+`` for any name and ``*`` for any name or none.
"""

from __future__ import annotations

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse
from coap_engine.uint import encode_uint
from gateway.coap.access import Introduction
from gateway.coap.forwarded_requests import QUERY_SEGMENT
from gateway.coap.remote.forms import NotForOthersError, remote_request, text
from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.hierarchy import MemberRecord, Membership, is_wildcard
from tree_handler.remote.options import HOP_LIMIT
from tree_handler.remote.resource import MAX_PAYLOAD_BYTES, ResourceRequest


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """A request for resources of other gateways.

    Attributes:
        records: of the gateways that are to answer; one, unless ``is_many``.
        place: domain, group and gateway as the path names them.
        request: what each of them is asked.
        is_many: the path names gateways by wildcards.

    """

    records: list[MemberRecord]
    place: tuple[str, str, str]
    request: ResourceRequest
    is_many: bool


def read(request: CoapRequest, introduction: Introduction, members: Membership) -> RemoteRequest:
    """Read a request whose path `leads_elsewhere`.

    Args:
        request: as it came.
        introduction: who asks.
        members: who there is.

    Raises:
        NotForOthersError: it is refused, and with what.

    """
    segments = [text(value, 11) for value in request.values(option_numbers.URI_PATH)][1:]
    if len(segments) < 3:
        raise NotForOthersError(codes.BAD_REQUEST, "path is not /q/<domain>/<group>/<node>/<path>")
    place = (segments[0], segments[1], segments[2])
    path = tuple(segments[3:])
    if path[:1] == (QUERY_SEGMENT,):
        raise NotForOthersError(codes.BAD_REQUEST, "a remote query must not lead to another one")
    if len(request.payload) > MAX_PAYLOAD_BYTES:
        refused = NotForOthersError(
            codes.REQUEST_ENTITY_TOO_LARGE, f"payload over {MAX_PAYLOAD_BYTES} bytes"
        )
        size = (option_numbers.SIZE1, encode_uint(MAX_PAYLOAD_BYTES))
        refused.response = CoapResponse(refused.response.code, (size,), refused.response.payload)
        raise refused
    try:
        found = members.find(*place)
        wanted = remote_request(_with_hops(request), path, introduction)
    except ProtocolError as wrong:
        raise NotForOthersError(codes.BAD_REQUEST, str(wrong)) from wrong
    is_many = is_wildcard(*place)
    if not found:
        why = f"no gateway at {'/'.join(place)}" if is_many else _why_unknown(members, place)
        raise NotForOthersError(codes.NOT_FOUND, why)
    return RemoteRequest(found, place, wanted, is_many)


def _with_hops(request: CoapRequest) -> CoapRequest:
    """Return the request with a Hop-Limit that is one less, if it has one (RFC 8768, section 3).

    With none left it is answered by who needs not pass it on: this gateway itself, or what is kept.
    """
    for number, value in request.route:
        if number == HOP_LIMIT:
            left = (HOP_LIMIT, bytes([value[0] - 1]))
            options = tuple(sorted((*request.options, left), key=_number))
            return CoapRequest(request.code, options, request.payload)
    return request


def _number(option: tuple[int, bytes]) -> int:
    return option[0]


def _why_unknown(members: Membership, place: tuple[str, str, str]) -> str:
    domain, group, node = place
    elsewhere = members.get(node)
    if elsewhere is None:
        return f"no gateway {node}"
    return f"gateway {node} is not at {domain}/{group} but at {elsewhere.place}"
