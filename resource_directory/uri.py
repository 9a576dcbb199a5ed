"""Base URIs and references against them (RFC 3986, section 5), for CoAP's schemes too.

The standard library resolves references for the schemes it knows; CoAP's URIs have the same
hierarchical form, so they are resolved as ``http`` and given their own scheme back.
"""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from resource_directory.errors import InvalidParameterError

MAX_BASE_LENGTH: Final = 512
_LINK_LOCAL = ("fe8", "fe9", "fea", "feb", "169.254.")
_USUAL = re.compile(
    r"coaps?(?:\+tcp|\+ws)?://"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]{2,45})\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,4})?\Z"
)
"""Most bases; the others are taken apart at leisure."""
_NO_URI: Final = frozenset(' <>"')
_NORMAL = re.compile(
    r"(?:coaps?://(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?!568[34](?:/|\Z))[0-9]+)?)?(/[!#-~]*)?\Z"
)
"""The form of most targets, which is the normalised one if it has no ``%`` and no ``/.``."""
_SPLIT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)\Z", re.DOTALL)
_DEFAULT_PORTS: Final = {
    "coap": ":5683",
    "coaps": ":5684",
    "coap+tcp": ":5683",
    "coaps+tcp": ":5684",
    "coap+ws": ":80",
    "coaps+ws": ":443",
    "http": ":80",
    "https": ":443",
}
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}|[^!-~]+")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def checked_base(base: str) -> str:
    """Return a base URI, after checking that links can be resolved against it and used from
    anywhere.

    Raises:
        InvalidParameterError: no absolute URI with a host, too long, or one with a zone
            identifier or a link-local address, which mean nothing to another host (RFC 9176,
            section 6.1: such links are not to be shown to it).

    """
    usual = _USUAL.match(base)
    if usual is not None and _is_usual(usual["address"], base):
        return base
    if len(base) > MAX_BASE_LENGTH:
        raise InvalidParameterError(f"base is longer than {MAX_BASE_LENGTH}", base)
    try:
        parts = urlsplit(base)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InvalidParameterError(f"base ({error})", base) from error
    if not parts.scheme or not host or parts.query or parts.fragment:
        raise InvalidParameterError("base is not SCHEME://HOST", base)
    if not base.isprintable() or not _NO_URI.isdisjoint(base):
        raise InvalidParameterError("base is no URI", base)
    if ":" in host and "%" in host:
        raise InvalidParameterError("base has a zone identifier", base)
    if host.startswith(_LINK_LOCAL) and (":" in host or host[-1:].isdigit()):
        raise InvalidParameterError("base is a link-local address", base)
    return base


def is_path(reference: str) -> bool:
    """Return whether a reference is a path from the root and a URI as it stands, as most are."""
    return (
        reference[:1] == "/"
        and reference[1:2] != "/"
        and "/." not in reference
        and reference.isprintable()
        and not (" " in reference or "<" in reference or ">" in reference or '"' in reference)
    )


def root_of(base: str) -> str:
    """Return what stands before the path of a base."""
    path = base.find("/", base.find("://") + 3)
    return base if path < 0 else base[:path]


def resolve(base: str, reference: str) -> str:
    """Return the URI that a reference means below ``base``.

    Raises:
        InvalidParameterError: the reference is no URI reference.

    """
    if not reference.isprintable() or not _NO_URI.isdisjoint(reference):
        raise InvalidParameterError("link target or anchor is no URI reference", reference)
    if is_path(reference):
        return root_of(base) + reference
    scheme, _, rest = base.partition(":")
    try:
        if urlsplit(reference).scheme:
            return reference
        joined = urljoin(f"http:{rest}", reference)
    except ValueError as error:
        raise InvalidParameterError(f"link target ({error})", reference) from error
    return scheme + joined.removeprefix("http")


def normalised(reference: str, *, is_prefix: bool = False) -> str:
    """Return a URI, or a path from the root, as all that are equivalent to it are written.

    That is by case, percent-encoding, dot segments, default port and empty path (RFC 3986, section
    6.2.2 and 6.2.3; RFC 7252, section 6.3). What is no URI stays as it is.

    Args:
        reference: as it was said.
        is_prefix: it is only how such a one begins: what could go on otherwise stays as it is.

    """
    usual = _NORMAL.match(reference)
    if usual is not None and "%" not in reference and "/." not in reference:
        return reference if usual[1] or is_prefix or not reference else f"{reference}/"
    parts = _SPLIT.match(reference)
    scheme, authority, rest = ("", "", reference) if parts is None else parts.groups()
    if parts is not None:
        scheme, authority = scheme.lower(), _ESCAPED.sub(_unescaped, authority).lower()
        port = _DEFAULT_PORTS.get(scheme, ":")
        if rest or not is_prefix or authority.endswith(port):
            authority = authority.removesuffix(port).removesuffix(":")
            rest = rest if rest[:1] == "/" else f"/{rest}"
        scheme += "://"
    elif reference[:1] != "/":
        return reference
    rest = _ESCAPED.sub(_unescaped, rest)
    if not is_prefix:
        rest = _without_dots(rest)
    return f"{scheme}{authority}{rest}"


def path_of(uri: str) -> str:
    """Return the path of a normalised URI of CoAP, over whatever host; empty for another one."""
    parts = _SPLIT.match(uri)
    return parts[3] if parts is not None and parts[1] in ("coap", "coaps") else ""


def _unescaped(found: re.Match[str]) -> str:
    """Return a character without its escape if it needs none (section 2.3), else with capital
    digits."""
    text = found[0]
    if text[0] != "%":
        return quote(text, errors="replace")
    character = chr(int(text[1:], 16))
    return character if character in _UNRESERVED else text.upper()


def _without_dots(path: str) -> str:
    """Resolve dot segments in a path (section 5.2.4), whatever stands behind the path."""
    end = min((at for at in (path.find("?"), path.find("#")) if at >= 0), default=len(path))
    if "/." not in path[:end]:
        return path
    kept: list[str] = []
    segments = path[:end].split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept) + path[end:]


def _is_usual(address: str | None, base: str) -> bool:
    if address is None:
        return "//169.254." not in base
    try:
        packed = socket.inet_pton(socket.AF_INET6, address)
    except OSError:
        return False
    return packed[0] != 0xFE or packed[1] & 0xC0 != 0x80
