"""Headers for browsers with every answer, and refusal of another site's requests. Pure.

A page of another site has its visitor's browser send what it likes. Three things refuse that: the
browser says itself where a request comes from (``Sec-Fetch-Site``, ``Origin``), JSON is a form that
no other site may send without being asked, and cookies are ``SameSite=Strict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {images}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
READING: Final = ("GET", "HEAD")
"""Methods that change nothing."""


def headers(*, is_secure: bool, images: str = "") -> dict[str, str]:
    """Return the headers that tell a browser what not to do; every answer has them.

    Args:
        is_secure: whether it is HTTPS.
        images: from which other place pictures may come, as a content security policy names it;
            empty for none.

    """
    places = f"'self' {images}".rstrip()
    found = {**_HEADERS, "Content-Security-Policy": _POLICY.format(images=places)}
    if is_secure:
        found["Strict-Transport-Security"] = "max-age=31536000"
    return found


def why_foreign(
    method: str, host: str, origin: str | None, site: str | None, content_type: str
) -> tuple[HTTPStatus, str] | None:
    """Return why a request is refused that another site may have had a browser send.

    Args:
        method: of the request.
        host: the field ``Host``.
        origin: the field ``Origin``; None if there is none.
        site: the field ``Sec-Fetch-Site``; likewise.
        content_type: the media type of the body, without parameters.

    Returns:
        Status and one line for people; None if it is not refused.

    """
    if method in READING:
        return None
    is_foreign = origin is not None and origin.partition("://")[2] != host
    if (site or "same-origin") not in ("same-origin", "none") or is_foreign:
        return HTTPStatus.FORBIDDEN, "the request comes from another site"
    if content_type != "application/json":
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type: not application/json"
    return None


def cookie(field: str, name: str) -> str:
    """Return the value of a cookie (RFC 6265, section 4.2.1); empty if there is none.

    Args:
        field: the field ``Cookie``.
        name: of the cookie.

    """
    for part in field.split(";"):
        given, _, value = part.strip().partition("=")
        if given == name:
            return value
    return ""
