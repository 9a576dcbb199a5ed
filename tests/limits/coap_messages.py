"""CoAP messages as bytes, whatever a codec would say to them."""

from __future__ import annotations

CONFIRMABLE, NON_CONFIRMABLE = 0x40, 0x50
GET, PUT = 1, 3
CONTENT, CHANGED, UNAUTHORIZED = 0x45, 0x44, 0x81
OBSERVE, URI_PATH, URI_QUERY, BLOCK1, ECHO = 6, 11, 15, 27, 252
EMPTY = 0
"""The code of a message that acknowledges alone."""
EMPTY_OPTIONS = b"\x00"
"""Each such byte is one more option of the number before and no length."""


def option(last: int, number: int, value: bytes) -> bytes:
    """One option (RFC 7252, section 3.1) with less than 269 bytes."""
    delta = number - last
    head, more = bytearray(1), bytearray()
    for shift, part in ((4, delta), (0, len(value))):
        head[0] |= min(part, 13) << shift
        if part >= 13:
            more.append(part - 13)
    return bytes(head + more) + value


def message(kind: int, code: int, number: int, token: bytes, *options: tuple[int, bytes]) -> bytes:
    """A header, a token and options, which come in their order."""
    data = bytes([kind | len(token), code]) + number.to_bytes(2, "big") + token
    last = 0
    for option_number, value in options:
        data += option(last, option_number, value)
        last = option_number
    return data


def path(text: str) -> list[tuple[int, bytes]]:
    return [(URI_PATH, part.encode()) for part in text.split("/")]


def options_of(answer: bytes) -> dict[int, bytes]:
    """The options of a message, the last of each number."""
    at, number, found = 4 + (answer[0] & 15), 0, {}
    while at < len(answer) and answer[at] != 0xFF:
        parts = [answer[at] >> 4, answer[at] & 15]
        at += 1
        for index, part in enumerate(parts):
            if part == 13:
                parts[index] = 13 + answer[at]
                at += 1
            elif part == 14:
                parts[index] = 269 + int.from_bytes(answer[at : at + 2], "big")
                at += 2
        number += parts[0]
        found[number] = answer[at : at + parts[1]]
        at += parts[1]
    return found
