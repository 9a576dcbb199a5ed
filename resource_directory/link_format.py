"""CoRE Link Format (RFC 6690): parse and serialise.

Each link is read path first: the target up to ``>``, then its attributes one by one. The text is
cut at separators that are searched for; expressions match runs of one kind alone, and go back over
none (A11).
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Iterable, Iterator
from typing import Final

MAX_BYTES: Final = 1 << 20
MAX_LINKS: Final = 10_000
MAX_ATTRIBUTES: Final = 64
_CHARACTER_BYTES: Final = 4
"""Of UTF-8, at most."""

_NAME: Final = frozenset(
    string.ascii_letters + string.digits + "!#$&+-.^_`|~"
)  # attr-char, RFC 5987
_TOKEN: Final = frozenset(string.ascii_letters + string.digits + "!#$%&'()*+-./:<=>?@[]^_`{|}~")
_SPACE: Final = " \t\r\n"
_NAMES: Final = re.compile(f"[{re.escape(''.join(sorted(_NAME)))}]*")
_TOKENS: Final = re.compile(f"[{re.escape(''.join(sorted(_TOKEN)))}]*")
_SPACES: Final = re.compile(f"[{_SPACE}]*")
_QUOTED: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)
# Surrogates, too: no UTF-8 has them. As sets of characters these two would take half a megabyte.
_CONTROL: Final = re.compile(r"[\x00-\x08\n-\x1f\x7f\ud800-\udfff]")
_NO_TARGET: Final = re.compile(r'[\x00-\x20\x7f\ud800-\udfff<>"]')
# RFC 6690, section 3, and RFC 8288, section 3: these count once, later ones are ignored.
_LONGEST_USUAL: Final = 8
# Names that need not be read character by character, which are most.
_USUAL: Final = frozenset(
    {"rel", "rt", "if", "ct", "sz", "obs", "title", "anchor", "unit", "domain", "group"}
)
_ONCE: Final = frozenset({"rel", "rt", "if", "sz", "title", "title*", "anchor"})


# RFC 6690, section 3, and RFC 7252, section 7.2.1.
LISTS: Final = frozenset({"rel", "rev", "rt", "if", "ct"})
"""Attributes whose values are lists separated by spaces, of which each counts."""

LinkAttributes = tuple[tuple[str, str | None], ...]
"""Names and values, in order."""

# The links of a fleet's devices differ in their targets and seldom in their attributes.
_WRITTEN: dict[LinkAttributes, str] = {}
_WRITTEN_MAX: Final = 1_024
_WRITTEN_CHARACTERS: Final = 256
# What was read between the target and the comma behind a link, likewise.
_READ: dict[str, LinkAttributes] = {}


class LinkFormatError(ValueError):
    """A text is no link format, or a link can't be written as such.

    Args:
        what: what was expected or is wrong.
        position: where in the text, in characters from 0.
        found: the text from there on; shown shortened.

    """

    def __init__(self, what: str, position: int = 0, found: str = "") -> None:
        shown = repr(found[:20]) if found else "the end"
        super().__init__(f"position {position}: {what}, found {shown}")
        self.what = what
        self.position = position


class TooManyLinksError(LinkFormatError):
    """A text has more links than are read."""


class WebLink:
    """A target and its attributes, in order; nothing changes one.

    Not a frozen dataclass: most of a registration's time would go into making those.

    Args:
        href: the URI reference between ``<`` and ``>``.
        attributes: names and values; ``None`` for an attribute without a value (``obs``).

    """

    __slots__ = ("attributes", "href")

    def __init__(self, href: str, attributes: LinkAttributes = ()) -> None:
        self.href = href
        self.attributes = attributes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WebLink):
            return NotImplemented
        return self.href == other.href and self.attributes == other.attributes

    def __hash__(self) -> int:
        return hash((self.href, self.attributes))

    def __repr__(self) -> str:
        return f"WebLink({self.href!r}, {self.attributes!r})"

    def get(self, name: str) -> str | None:
        """Return the first value of an attribute; ``""`` if it has none, ``None`` if it is
        missing."""
        for attribute, value in self.attributes:
            if attribute == name:
                return value or ""
        return None

    def __str__(self) -> str:
        return serialise([self])


def parse(
    text: str | bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_links: int = MAX_LINKS,
    max_attributes: int = MAX_ATTRIBUTES,
) -> list[WebLink]:
    """Read a list of links. White space around separators is skipped, as RFC 8288 writes it.

    Args:
        text: the links; bytes are UTF-8.
        max_bytes: longest text that is read, in bytes of UTF-8.
        max_links: most links in it.
        max_attributes: most attributes of one link.

    Raises:
        LinkFormatError: not RFC 6690, or over a limit.

    """
    links = links_in(text, max_bytes=max_bytes, max_links=max_links, max_attributes=max_attributes)
    return list(links)


def links_in(
    text: str | bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_links: int = MAX_LINKS,
    max_attributes: int = MAX_ATTRIBUTES,
) -> Iterator[WebLink]:
    """Read links as `parse` does, one by one: each when it is asked for.

    Raises:
        LinkFormatError: not RFC 6690, or over a limit; the links before it are read.

    """
    if _is_longer(text, max_bytes):
        raise LinkFormatError(f"longer than {max_bytes} bytes", max_bytes, "...")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise LinkFormatError("not UTF-8", error.start, repr(text[error.start :])) from error
    count, at = 0, _skip_space(text, 0)
    while at < len(text):
        if count == max_links:
            raise TooManyLinksError(f"more than {max_links} links", at, text[at:])
        link, at = _link(text, at, max_attributes)
        count += 1
        yield link
        if at == len(text):
            return
        if text[at] != ",":
            raise LinkFormatError("',' or ';' expected", at, text[at:])
        at = _skip_space(text, at + 1)
        if at == len(text):
            raise LinkFormatError("a link expected after ','", at)


def serialise(links: Iterable[WebLink]) -> str:
    """Write links as RFC 6690 does.

    Raises:
        LinkFormatError: a target or an attribute has a character that can't be written; it is
            named.

    """
    return ",".join(map(_serialise, links))


def written_attributes(attributes: LinkAttributes) -> str:
    """Write what stands behind a link's target.

    Raises:
        LinkFormatError: an attribute can't be written; it is named.

    """
    written = _WRITTEN.get(attributes)
    if written is None:
        written = "".join(_written(name, value) for name, value in attributes)
        if len(_WRITTEN) >= _WRITTEN_MAX:
            _WRITTEN.clear()
        if len(written) <= _WRITTEN_CHARACTERS:
            _WRITTEN[attributes] = written
    return written


def _is_longer(text: str | bytes, max_bytes: int) -> bool:
    """Return whether a text is longer; it is put into bytes only where that decides."""
    if len(text) > max_bytes:
        return True
    if isinstance(text, bytes) or text.isascii() or _CHARACTER_BYTES * len(text) <= max_bytes:
        return False
    return len(text.encode(errors="surrogatepass")) > max_bytes


def _link(text: str, at: int, max_attributes: int) -> tuple[WebLink, int]:
    if text[at] != "<":
        raise LinkFormatError("'<' expected", at, text[at:])
    end = text.find(">", at)
    if end < 0:
        raise LinkFormatError("'>' expected", len(text))
    href = text[at + 1 : end]
    if not _is_target(href):
        raise LinkFormatError("a URI reference expected", at + 1, text[at + 1 :])
    # Up to the next link, unless a value has what looks like one: that is read, and not kept.
    behind = text.find(",<", end, end + _WRITTEN_CHARACTERS + 2)
    written = text[end + 1 : behind] if 0 <= behind <= end + _WRITTEN_CHARACTERS else None
    known = None if written is None else _READ.get(written)
    if known is not None and len(known) <= max_attributes:
        return WebLink(href, known), behind
    attributes, at = _attributes(text, end + 1, max_attributes)
    if written is not None and at == behind:
        if len(_READ) >= _WRITTEN_MAX:
            _READ.clear()
        _READ[written] = attributes
    return WebLink(href, attributes), at


def _attributes(text: str, at: int, max_attributes: int) -> tuple[LinkAttributes, int]:
    attributes: list[tuple[str, str | None]] = []
    once: set[str] = set()
    at = _skip_space(text, at)
    while at < len(text) and text[at] == ";":
        if len(attributes) == max_attributes:
            raise LinkFormatError(f"more than {max_attributes} attributes", at, text[at:])
        start = _skip_space(text, at + 1)
        name, at = _name(text, start)
        value: str | None = None
        if at < len(text) and text[at] == "=":
            value, at = _value(text, at + 1)
        at = _skip_space(text, at)
        if name not in once:
            attributes.append((name, value))
        if name in _ONCE:
            once.add(name)
    return tuple(attributes), at


def _name(text: str, start: int) -> tuple[str, int]:
    at = text.find("=", start, start + _LONGEST_USUAL)
    if at > 0 and text[start:at] in _USUAL:
        return sys.intern(text[start:at]), at
    at = _behind(_NAMES, text, start)
    if at > start and text[at : at + 1] == "*":
        at += 1
    if at == start:
        raise LinkFormatError("an attribute's name expected", start, text[start:])
    return sys.intern(text[start:at]), at


def _value(text: str, start: int) -> tuple[str, int]:
    if text[start : start + 1] != '"':
        at = _behind(_TOKENS, text, start)
        if at == start:
            raise LinkFormatError("an attribute's value expected", start, text[start:])
        return text[start:at], at
    quote = text.find('"', start + 1)
    if text.find("\\", start + 1, quote) < 0 <= quote:
        value = text[start + 1 : quote]
    else:
        value, quote = _unescaped(text, start + 1)
    if _has_control(value):
        raise LinkFormatError("a control character in a value", start, text[start:])
    return value, quote + 1


def _unescaped(text: str, start: int) -> tuple[str, int]:
    """Return a quoted value with escapes, and where its quote is."""
    quoted = _QUOTED.match(text, start)
    if quoted is None:
        raise LinkFormatError("'\"' expected", len(text))
    pieces = quoted[0].split("\\\\")  # an escaped backslash; any other one marks what follows it
    return "\\".join([piece.replace("\\", "") for piece in pieces]), quoted.end()


def _serialise(link: WebLink) -> str:
    if not _is_target(link.href):
        raise LinkFormatError("not a URI reference", 0, link.href)
    return f"<{link.href}>{written_attributes(link.attributes)}"


def _written(name: str, value: str | None) -> str:
    stem = name.removesuffix("*")
    if not stem or not _NAME.issuperset(stem):
        raise LinkFormatError("not an attribute's name", 0, name)
    if value is None:
        return f";{name}"
    if _has_control(value):
        raise LinkFormatError(f"a control character in {name}", 0, value)
    if value and _is_bare(name) and _TOKEN.issuperset(value):
        return f";{name}={value}"
    if _is_cardinal(value):
        return f";{name}={value}"
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f';{name}="{quoted}"'


def _is_bare(name: str) -> bool:
    # RFC 6690, section 2: `sz` is a cardinal, and an ext-value (`title*`) is never quoted.
    return name == "sz" or name.endswith("*")


def _is_cardinal(value: str) -> bool:
    return value.isdecimal() and value.isascii()


def _is_target(href: str) -> bool:
    if href.isprintable():  # most, and without going through their characters
        return not ("<" in href or ">" in href or '"' in href or " " in href)
    return _NO_TARGET.search(href) is None


def _has_control(value: str) -> bool:
    return not value.isprintable() and _CONTROL.search(value) is not None


def _skip_space(text: str, at: int) -> int:
    if at < len(text) and text[at] in _SPACE:
        return _behind(_SPACES, text, at)
    return at


def _behind(run: re.Pattern[str], text: str, at: int) -> int:
    """Return where a run of characters of one class ends."""
    found = run.match(text, at)
    return at if found is None else found.end()
