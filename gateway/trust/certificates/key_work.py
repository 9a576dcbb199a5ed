"""Work of opening a key or a store under a password, known before it is begun: pure.

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
from typing import Final

MOST_BYTES: Final = 256 * 1024
"""Of a file with keys and certificates."""
MOST_ROUNDS: Final = 2_000_000
"""Of all in a file: about two seconds of a PC. OpenSSL has 2,048 each, this package 100,000."""
MOST_ELEMENTS: Final = 60_000
"""A trust store of 150 authorities has some 30,000."""
MOST_DEPTH: Final = 32
_OCTETS: Final = 0x04
_PIECES: Final = 0x24
"""An OCTET STRING in pieces."""
_INTEGER: Final = 0x02
_WIDEST: Final = 16
"""Bytes of a count that are looked at."""
_CONSTRUCTED: Final = 0x20
_KEY: Final = re.compile(
    rb"-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END ENCRYPTED PRIVATE KEY-----", re.DOTALL
)


class KeyWorkError(ValueError):
    """A file is too large, or its password too slow to try; the message says which."""


class NoDerError(KeyWorkError):
    """Bytes are no DER, nor BER: there is nothing to open; the message says why."""


def check(data: bytes) -> None:
    """Check that a file in DER is opened with bounded work.

    Args:
        data: of the file.

    Raises:
        NoDerError: it is none.
        KeyWorkError: it is not.

    """
    if len(data) > MOST_BYTES:
        raise KeyWorkError(f"{len(data)} bytes, over {MOST_BYTES}")
    walker = _Walker()
    walker.walk(data, 0, len(data), 0)
    if walker.rounds > MOST_ROUNDS:
        raise KeyWorkError(
            f"its password would be hashed {_told(walker.rounds)} times, over {MOST_ROUNDS}"
        )


def check_pem(data: bytes) -> None:
    """Check that the encrypted keys of a PEM file are opened with bounded work.

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
    """Adds up the counts of a file, without keeping anything of it.

    Attributes:
        rounds: so far.

    """

    def __init__(self) -> None:
        self.rounds = 0
        self._left = MOST_ELEMENTS

    def walk(self, data: bytes, at: int, end: int, depth: int, *, is_open: bool = False) -> int:
        """Look through elements that stand one after the other.

        Args:
            data: in which they stand.
            at: where the first one starts.
            end: where the last one ends at the latest.
            depth: how many elements they are in.
            is_open: they are of indefinite length, and two empty bytes end them (X.690, 8.1.3.6).

        Returns:
            Where they end.

        Raises:
            NoDerError: they are no elements.
            KeyWorkError: there are too many, or too deep ones.

        """
        numbers: list[int] | None = None  # behind a salt
        try:
            while at < end:
                if is_open and data[at : at + 2] == b"\0\0":
                    return at + 2
                tag, start, stop = self._header(data, at, end, depth)
                at = self._inside(tag, data, (start, stop, end), depth)
                if tag == _INTEGER and numbers is not None:
                    numbers.append(int.from_bytes(data[start : min(at, start + _WIDEST)]))
                    continue
                self.rounds += _count(numbers)
                numbers = [] if tag in (_OCTETS, _PIECES) else None
        finally:
            self.rounds += _count(numbers)
        if is_open:
            raise NoDerError("it ends within an element")
        return at

    def _inside(self, tag: int, data: bytes, place: tuple[int, int | None, int], depth: int) -> int:
        """Look through what is in one element, and return where it ends."""
        start, stop, end = place
        if tag == _PIECES:
            pieces = bytearray()
            at = self._joined(pieces, data, place, depth)
            self._within_string(bytes(pieces), 0, len(pieces), depth + 1)
            return at
        if stop is None:
            return self.walk(data, start, end, depth + 1, is_open=True)
        if tag & _CONSTRUCTED:
            self.walk(data, start, stop, depth + 1)
        elif tag == _OCTETS:
            self._within_string(data, start, stop, depth + 1)
        return stop

    def _within_string(self, data: bytes, at: int, end: int, depth: int) -> None:
        """Look through the sequence that an OCTET STRING may be; else it is data."""
        if data[at : at + 1] != b"\x30":
            return
        try:
            tag, start, stop = self._header(data, at, end, depth)
            self._inside(tag, data, (start, stop, end), depth)
        except NoDerError:
            return

    def _joined(
        self, pieces: bytearray, data: bytes, place: tuple[int, int | None, int], depth: int
    ) -> int:
        """Join a string that comes in pieces (X.690, 8.7.3), and return where it ends."""
        at, stop, end = place
        limit = end if stop is None else stop
        while at < limit:
            if stop is None and data[at : at + 2] == b"\0\0":
                return at + 2
            tag, start, inner = self._header(data, at, limit, depth + 1)
            if tag == _PIECES:
                at = self._joined(pieces, data, (start, inner, limit), depth + 1)
            elif tag == _OCTETS and inner is not None:
                pieces += data[start:inner]
                at = inner
            else:
                raise NoDerError("a string in pieces that are none")
        if stop is None:
            raise NoDerError("it ends within an element")
        return at

    def _header(self, data: bytes, at: int, end: int, depth: int) -> tuple[int, int, int | None]:
        """Tag, and where the content starts and ends; None for an indefinite length."""
        self._left -= 1
        if self._left < 0 or depth > MOST_DEPTH:
            raise KeyWorkError("more parts than a key or a store has")
        tag, at = data[at] if at < end else 0, at + 1
        if tag & 0x1F == 0x1F:  # a long tag (X.690, 8.1.2.4)
            while at < end and data[at] & 0x80:
                at += 1
            at += 1
        if at >= end:
            raise NoDerError("it ends within an element")
        length, at = data[at], at + 1
        if length == 0x80 and tag & _CONSTRUCTED:
            return tag, at, None
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count])
            at += count
        if at + length > end:
            raise NoDerError("an element is longer than what holds it")
        return tag, at, at + length


def _count(numbers: list[int] | None) -> int:
    """Return how often the password of a salt is hashed, by the numbers behind it."""
    match numbers or []:
        case [rounds]:
            return rounds
        case [rounds, key_bytes]:  # PBKDF2 makes 32 bytes a time
            return rounds * max(1, key_bytes // 32)
        case [cost, block, parallel, *_]:  # scrypt
            return cost * block * parallel
        case _:
            return 0
