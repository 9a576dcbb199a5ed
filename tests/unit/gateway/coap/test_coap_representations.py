"""A reader is told a resource, that it has not changed, or that it has no such format."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse, Option
from gateway.coap.representations import ETAG_BYTES, represented, tagged

ETAG, URI_PATH, CONTENT_FORMAT, MAX_AGE, ACCEPT, SIZE1 = 4, 11, 12, 14, 17, 60
OWN: Option = (ETAG, b"own")
AGE: Option = (MAX_AGE, b"\x05")
PATH: Option = (URI_PATH, b"a")
SENML: Option = (CONTENT_FORMAT, b"\x6e")


def content(*options: Option, payload: bytes = b"1") -> CoapResponse:
    return CoapResponse(codes.CONTENT, options, payload)


def etag_of(response: CoapResponse) -> bytes:
    (etag,) = (value for number, value in response.options if number == ETAG)
    return etag


def told(response: CoapResponse, *options: Option, code: int = codes.GET) -> CoapResponse:
    return represented(CoapRequest(code, options), response)


def test_a_content_has_a_tag_of_its_body_and_its_format() -> None:
    plain, senml = tagged(content(AGE)), tagged(content(SENML, AGE))
    assert [number for number, _ in senml.options] == [ETAG, CONTENT_FORMAT, MAX_AGE]
    assert len(etag_of(plain)) == ETAG_BYTES
    tags = [plain, senml, tagged(content(payload=b"2")), tagged(content(payload=b""))]
    assert len(set(map(etag_of, tags))) == 4
    assert etag_of(tagged(content())) == etag_of(plain)
    for other in (content(OWN, AGE), CoapResponse(codes.CHANGED), CoapResponse(codes.NOT_FOUND)):
        assert tagged(other) is other


@pytest.mark.parametrize("own", [(), (OWN,)])
@pytest.mark.parametrize("code", [codes.GET, codes.FETCH])
def test_who_knows_a_body_by_its_tag_is_told_so_without_it(
    own: tuple[Option, ...], code: int
) -> None:
    response = content(*own, SENML, AGE)
    tag: Option = (ETAG, etag_of(tagged(response)))
    valid = CoapResponse(codes.VALID, (tag, AGE), b"")
    assert told(response, tag, PATH, code=code) == valid
    assert told(response, (ETAG, b"a"), tag, (ETAG, b"z"), PATH, code=code) == valid
    for options in ((PATH,), ((ETAG, b"z"), PATH), ()):
        assert told(response, *options, code=code) == tagged(response)


def test_what_is_no_content_or_was_not_read_is_told_as_it_is() -> None:
    changed = CoapResponse(codes.CHANGED, (SENML,), b"1")
    assert told(changed, PATH, (ACCEPT, b"")) is changed
    answer = content(SENML)
    for code in (codes.PUT, codes.POST, codes.DELETE, codes.PATCH, codes.IPATCH):
        assert told(answer, PATH, (ACCEPT, b""), code=code) is answer


@pytest.mark.parametrize(
    ("form", "accept", "fits"),
    [
        (b"\x6e", b"\x6e", True),
        (b"\x6e", b"\x00\x6e", True),
        (b"\x6e", b"\x32", False),
        (b"\x6e", b"", False),
        (b"", b"", True),
        (b"", b"\x00", True),
        (b"", b"\x6e", False),
        (None, b"\x32", True),
        (b"\x6e", None, True),
    ],
)
def test_another_format_than_was_asked_for_is_refused(
    form: bytes | None, accept: bytes | None, fits: bool
) -> None:
    has = () if form is None else ((CONTENT_FORMAT, form),)
    wants = () if accept is None else ((ACCEPT, accept),)
    for more in ((), ((SIZE1, b"\x01"),)):
        answer = told(content(*has), PATH, *wants, *more)
        assert (answer.code == codes.CONTENT) is fits
        if not fits:
            why = b"the resource has no such format as Accept asks for"
            assert answer == CoapResponse(codes.NOT_ACCEPTABLE, (), why)
