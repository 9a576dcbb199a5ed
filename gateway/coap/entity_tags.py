"""Entity tags of what is read (RFC 7252, section 5.10.6): each 2.05 has one, and who knows it by
that is told 2.03 in its place."""

from __future__ import annotations

import hashlib
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import with_options
from coap_engine.message import CoapRequest, CoapResponse, value_of

ETAG_BYTES: Final = 8


def tagged(response: CoapResponse) -> CoapResponse:
    """A response with an ETag, made of what a 2.05 says where its resource gave none."""
    if response.code != codes.CONTENT:
        return response
    if value_of(response.options, option_numbers.ETAG) is not None:
        return response
    said = hashlib.blake2b(response.payload, digest_size=ETAG_BYTES)
    said.update(value_of(response.options, option_numbers.CONTENT_FORMAT) or b"")
    etag = (option_numbers.ETAG, said.digest())
    return CoapResponse(response.code, with_options(response.options, etag), response.payload)


def validated(request: CoapRequest, response: CoapResponse) -> CoapResponse:
    """What is told of a resource: without the body, if the request names the ETag of that body."""
    if response.code != codes.CONTENT or request.code not in (codes.GET, codes.FETCH):
        return response
    response = tagged(response)
    etag = value_of(response.options, option_numbers.ETAG)
    for number, value in request.options:
        if number > option_numbers.ETAG:
            break
        if number == option_numbers.ETAG and value == etag:
            return CoapResponse(codes.VALID, _of_the_cache(response), b"")
    return response


def _of_the_cache(response: CoapResponse) -> tuple[tuple[int, bytes], ...]:
    """The options that a 2.03 has: a format says what a body is, and there is none."""
    return tuple(one for one in response.options if one[0] != option_numbers.CONTENT_FORMAT)
