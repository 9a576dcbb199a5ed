"""How much work it is to open a key or a store under a password, before it is begun: pure.

A file says itself how often its password is hashed (PBKDF2, RFC 8018; PKCS#12, RFC 7292, appendix
B; scrypt, RFC 7914): one of a hundred bytes may keep a processor for a year. In the clear parts of
such files a salt stands before its counts: an OCTET STRING, and then one INTEGER or several. That
is what is looked for, wherever it stands, so that no algorithm is forgotten. What is hidden by one
password within another is not seen: who opens files of strangers bounds its process besides.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final

from light_dataclasses import dataclass

MOST_BYTES: Final = 256 * 1024
"""Of a file with keys and certificates."""
MOST_ROUNDS: Final = 2_000_000
"""Of all in a file: about two seconds of a PC. OpenSSL has 2,048 each, this package 100,000."""
MOST_ELEMENTS: Final = 20_000
MOST_DEPTH: Final = 32
_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_CONSTRUCTED_OCTETS: Final = 0x24
_INTEGER: Final = 0x02
_CONSTRUCTED: Final = 0x20
_KEY: Final = re.compile(
    rb"-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END ENCRYPTED PRIVATE KEY-----", re.DOTALL
)


class KeyWorkError(ValueError):
    """A file is too large, or its password too slow to try; the message says which."""


class NoDerError(KeyWorkError):
    """Bytes are no DER, nor BER: there is nothing to open; the message says why."""


@dataclass(frozen=True, slots=True)
class _Element:
    tag: int
    content: bytes
    parts: Sequence[_Element] = ()


def check(data: bytes) -> None:
    """See that a file in DER is opened with bounded work.

    Args:
        data: of the file.

    Raises:
        NoDerError: it is none.
        KeyWorkError: it is not.

    """
    if len(data) > MOST_BYTES:
        raise KeyWorkError(f"{len(data)} bytes, over {MOST_BYTES}")
    walker = _Walker()
    walker.walk(walker.elements(data, 0), 0)
    if walker.rounds > MOST_ROUNDS:
        raise KeyWorkError(
            f"its password would be hashed {_told(walker.rounds)} times, over {MOST_ROUNDS}"
        )


def check_pem(data: bytes) -> None:
    """See that the encrypted keys of a PEM file are opened with bounded work.

    Args:
        data: of the file; what else is in it is left alone.

    Raises:
        KeyWorkError: one is not.

    """
    if len(data) > MOST_BYTES:
        raise KeyWorkError(f"{len(data)} bytes, over {MOST_BYTES}")
    for block in _KEY.finditer(data):
        try:
            der = base64.b64decode(b"".join(block[1].split()), validate=True)
        except binascii.Error:
            continue  # whoever opens it says so
        check(der)


def _told(rounds: int) -> str:
    return str(rounds) if rounds < 10**15 else "more than 10^15"


class _Walker:
    """Adds up the counts of a file.

    Attributes:
        rounds: so far.

    """

    def __init__(self) -> None:
        self.rounds = 0
        self._left = MOST_ELEMENTS

    def walk(self, elements: Sequence[_Element], depth: int) -> None:
        """Add up the counts of elements, and of what is in them."""
        for one in elements:
            if one.tag == _SEQUENCE:
                self.rounds += sum(_counts(one.parts))
            if one.tag != _CONSTRUCTED_OCTETS:  # whose parts are pieces of one content
                self.walk(one.parts, depth + 1)
            if one.tag in (_OCTETS, _CONSTRUCTED_OCTETS) and one.content[:1] == b"\x30":
                self._walk_inner(one.content, depth + 1)

    def _walk_inner(self, content: bytes, depth: int) -> None:
        """Look through what stands in an OCTET STRING, if that is an element; else it is data."""
        try:
            inner = self.elements(content, depth, only_first=True)
        except NoDerError:
            return
        self.walk(inner, depth)

    def elements(self, data: bytes, depth: int, *, only_first: bool = False) -> list[_Element]:
        """Take bytes apart.

        Raises:
            NoDerError: they are no elements, one after the other.
            KeyWorkError: there are too many, or too deep ones.

        """
        found: list[_Element] = []
        at = 0
        while at < len(data) and not (only_first and found):
            one, at = self._element(data, at, depth)
            found.append(one)
        return found

    def _element(self, data: bytes, at: int, depth: int) -> tuple[_Element, int]:
        self._left -= 1
        if self._left < 0 or depth > MOST_DEPTH:
            raise KeyWorkError("more parts than a key or a store has")
        tag, start, end = _header(data, at)
        if end is not None:
            content = data[start:end]
            parts = self.elements(content, depth + 1) if tag & _CONSTRUCTED else []
            return _element(tag, content, parts), end
        inner: list[_Element] = []  # of indefinite length: it goes on to two empty bytes (X.690)
        at = start
        while data[at : at + 2] != b"\0\0":
            one, at = self._element(data, at, depth + 1)
            inner.append(one)
        return _element(tag, data[start:at], inner), at + 2


def _element(tag: int, content: bytes, parts: Sequence[_Element]) -> _Element:
    if tag == _CONSTRUCTED_OCTETS:  # a string in pieces (X.690, 8.7.3)
        content = b"".join(one.content for one in parts)
    return _Element(tag, content, parts)


def _header(data: bytes, at: int) -> tuple[int, int, int | None]:
    """Tag, and where the content starts and ends; None for an indefinite length."""
    head = data[at : at + 1]
    if not head:
        raise NoDerError("it ends within an element")
    tag, at = head[0], at + 1
    if tag & 0x1F == 0x1F:  # a long tag (X.690, 8.1.2.4)
        while at < len(data) and data[at] & 0x80:
            at += 1
        at += 1
    if at >= len(data):
        raise NoDerError("it ends within an element")
    length, at = data[at], at + 1
    if length == 0x80 and tag & _CONSTRUCTED:
        return tag, at, None
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[at : at + count])
        at += count
    if at + length > len(data):
        raise NoDerError("an element is longer than what holds it")
    return tag, at, at + length


def _counts(parts: Sequence[_Element]) -> Iterator[int]:
    """How often each salt among the parts of a sequence has its password hashed."""
    for number, one in enumerate(parts):
        if one.tag not in (_OCTETS, _CONSTRUCTED_OCTETS):
            continue
        numbers: list[int] = []
        for following in parts[number + 1 :]:
            if following.tag != _INTEGER:
                break
            numbers.append(max(0, int.from_bytes(following.content[:64], signed=True)))
        match numbers:
            case [rounds]:
                yield rounds
            case [rounds, key_bytes]:  # PBKDF2 makes 32 bytes a time
                yield rounds * max(1, key_bytes // 32)
            case [cost, block, parallel, *_]:  # scrypt
                yield cost * block * parallel
