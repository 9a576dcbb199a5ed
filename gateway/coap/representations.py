"""Representations of resources, as they are told to who reads them (RFC 7252, section 5.10).

Each 2.05 has an entity tag, and who knows it by that is told 2.03 in its place (5.10.6). It is of
the format that was asked for, or refused (5.10.4), whatever its resource has looked at.
"""

from __future__ import annotations

import hashlib
from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import with_options
from coap_engine.message import CoapRequest, CoapResponse, Option, value_of
from coap_engine.uint import decode_uint

ETAG_BYTES: Final = 8
_READS: Final = (codes.GET, codes.FETCH)
_NOT_ACCEPTABLE: Final = CoapResponse(
    codes.NOT_ACCEPTABLE, (), b"the resource has no such format as Accept asks for"
)


def tagged(response: CoapResponse) -> CoapResponse:
    """Return a response with an ETag, made of what a 2.05 says where its resource gave none."""
    if response.code != codes.CONTENT:
        return response
    if value_of(response.options, option_numbers.ETAG) is not None:
        return response
    said = hashlib.blake2b(response.payload, digest_size=ETAG_BYTES)
    said.update(value_of(response.options, option_numbers.CONTENT_FORMAT) or b"")
    etag = (option_numbers.ETAG, said.digest())
    return CoapResponse(response.code, with_options(response.options, etag), response.payload)


def represented(request: CoapRequest, response: CoapResponse) -> CoapResponse:
    """Return what who reads a resource is told.

    Args:
        request: that was answered.
        response: of the resource.

    Returns:
        2.03 without the body, if the request names the ETag of that body; 4.06 if it asked for
        another format; else the response, with an ETag if it is a 2.05.

    """
    if response.code != codes.CONTENT or request.code not in _READS:
        return response
    options, said = request.options, response.options
    # Options stand in order, and most requests have neither ETag nor Accept.
    if options and options[-1][0] >= option_numbers.ACCEPT and not _is_acceptable(options, said):
        return _NOT_ACCEPTABLE
    if not said or said[0][0] != option_numbers.ETAG:
        response = tagged(response)
    if not options or options[0][0] > option_numbers.ETAG:
        return response
    etag = value_of(response.options, option_numbers.ETAG)
    if (option_numbers.ETAG, etag) in options:
        return CoapResponse(codes.VALID, _of_the_cache(response), b"")
    return response


def _is_acceptable(options: tuple[Option, ...], said: tuple[Option, ...]) -> bool:
    accept = value_of(options, option_numbers.ACCEPT)
    form = value_of(said, option_numbers.CONTENT_FORMAT)
    if accept is None or form is None or accept == form:
        return True
    return decode_uint(accept) == decode_uint(form)


def _of_the_cache(response: CoapResponse) -> tuple[Option, ...]:
    """Return the options that a 2.03 has: a format says what a body is, and there is none."""
    return tuple(one for one in response.options if one[0] != option_numbers.CONTENT_FORMAT)
