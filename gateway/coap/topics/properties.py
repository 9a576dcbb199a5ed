"""Options of CoAP as properties of MQTT 5.0, and back.

Content-Format is Content Type; Accept, ETag and If-Match of a request, and ETag, Max-Age and the
location of an answer are user properties; the code of an answer is one, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapResponse, Option
from coap_engine.uint import decode_uint, encode_uint
from gateway.coap.topics.topics import code_text
from gateway.mqtt import PropertyId

FORMATS: Final = {
    "text/plain": 0,
    "application/link-format": 40,
    "application/octet-stream": 42,
    "application/json": 50,
    "application/cbor": 60,
    "application/senml+json": 110,
    "application/senml+cbor": 112,
}
"""Content-Formats (RFC 7252, section 12.3) by their media types."""
_MEDIA_TYPES: Final = {number: name for name, number in FORMATS.items()}
_PLAIN_UTF8: Final = "text/plain;charset=utf-8"
_ETAG_BYTES: Final = {option_numbers.IF_MATCH: (0, 8), option_numbers.ETAG: (1, 8)}
_BY_NAME: Final = {"etag": option_numbers.ETAG, "if-match": option_numbers.IF_MATCH}
UNSUPPORTED_CONTENT_FORMAT: Final = 0x8F
"""RFC 7252, section 5.9.2.11."""


class PropertyRefusedError(ValueError):
    """A property that no option stands for.

    Args:
        code: of the answer to it.
        why: for people.
        value: the offending one.

    Attributes:
        response: the answer.

    """

    def __init__(self, code: int, why: str, value: str) -> None:
        super().__init__(f"{why}: {value[:100]!r}")
        self.response = CoapResponse(code, (), str(self).encode())


def request_options(properties: Mapping[int, Any]) -> list[Option]:
    """Return the options that properties of a PUBLISH stand for.

    Raises:
        PropertyRefusedError: a value of one is not known.

    """
    options: list[Option] = []
    content_type = properties.get(PropertyId.CONTENT_TYPE)
    if content_type is not None:
        number = _number(content_type)
        if number is None:
            raise PropertyRefusedError(UNSUPPORTED_CONTENT_FORMAT, "content type", content_type)
        options.append((option_numbers.CONTENT_FORMAT, encode_uint(number)))
    for name, value in properties.get(PropertyId.USER_PROPERTY, ()):
        if name == "accept":
            number = _number(value)
            if number is None:
                raise PropertyRefusedError(codes.NOT_ACCEPTABLE, "accept", value)
            options.append((option_numbers.ACCEPT, encode_uint(number)))
        elif name == "if-none-match":
            options.append((option_numbers.IF_NONE_MATCH, b""))
        elif name in _BY_NAME:
            options.append((_BY_NAME[name], _bytes(_BY_NAME[name], name, value)))
    return options


def answer_properties(response: CoapResponse) -> dict[int, Any]:
    """Return the properties of the PUBLISH that tells of a response."""
    told = [("code", code_text(response.code))]
    properties: dict[int, Any] = {}
    location = ""
    for number, value in response.options:
        if number == option_numbers.CONTENT_FORMAT:
            name = _MEDIA_TYPES.get(decode_uint(value))
            if name is None:
                told.append(("content-format", str(decode_uint(value))))
            else:
                properties[int(PropertyId.CONTENT_TYPE)] = name
        elif number == option_numbers.MAX_AGE:
            told.append(("max-age", str(decode_uint(value))))
        elif number == option_numbers.ETAG:
            told.append(("etag", value.hex()))
        elif number == option_numbers.LOCATION_PATH:
            location += f"/{value.decode(errors='replace')}"
    if location:
        told.append(("location", location))
    properties[int(PropertyId.USER_PROPERTY)] = told
    return properties


def _number(media_type: str) -> int | None:
    name = media_type.replace(" ", "").lower()
    return FORMATS["text/plain"] if name == _PLAIN_UTF8 else FORMATS.get(name)


def _bytes(number: int, name: str, value: str) -> bytes:
    least, most = _ETAG_BYTES[number]
    try:
        found = bytes.fromhex(value)
    except ValueError:
        found = None
    if found is None or not least <= len(found) <= most:
        raise PropertyRefusedError(codes.BAD_OPTION, f"{name} is not hexadecimal", value)
    return found
