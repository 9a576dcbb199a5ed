"""Base URIs and references against them (RFC 3986, section 5), for CoAP's schemes too.

The standard library resolves references for the schemes it knows; CoAP's URIs have the same
hierarchical form, so they are resolved as ``http`` and given their own scheme back.
"""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from resource_directory.errors import InvalidParameterError

MAX_BASE_LENGTH = 512
_LINK_LOCAL = ("fe8", "fe9", "fea", "feb", "169.254.")
_NO_URI = frozenset(' <>"')


def checked_base(base: str) -> str:
    """A base URI, after checking that links can be resolved against it and used from anywhere.

    Raises:
        InvalidParameterError: no absolute URI with a host, too long, or one with a zone
            identifier or a link-local address, which mean nothing to another host (RFC 9176,
            section 6.1: such links are not to be shown to it).

    """
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


def resolve(base: str, reference: str) -> str:
    """The URI that a reference means below ``base``.

    Raises:
        InvalidParameterError: the reference is no URI reference.

    """
    if not reference.isprintable() or not _NO_URI.isdisjoint(reference):
        raise InvalidParameterError("link target or anchor is no URI reference", reference)
    if reference[:1] == "/" and reference[1:2] != "/" and "/." not in reference:
        # The usual case: what stands before the path of the base, and the reference as it is.
        path = base.find("/", base.find("://") + 3)
        return (base if path < 0 else base[:path]) + reference
    scheme, _, rest = base.partition(":")
    try:
        if urlsplit(reference).scheme:
            return reference
        joined = urljoin(f"http:{rest}", reference)
    except ValueError as error:
        raise InvalidParameterError(f"link target ({error})", reference) from error
    return scheme + joined.removeprefix("http")
