"""What a request asks for, read from its query."""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from cloud_ingest.dashboard.guarded import ApiError


def text(request: web.Request, name: str) -> str:
    """Return a field of the query.

    Raises:
        ApiError: it is missing or empty.

    """
    found = request.query.get(name)
    if not found:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: missing")
    return found


def number(request: web.Request, name: str, least: int, most: int) -> int:
    """Return a field of the query that is a whole number.

    Raises:
        ApiError: it is missing, no number, or beyond its bounds.

    """
    said = text(request, name)
    try:
        found = int(said)
    except ValueError:
        found = least - 1
    if not least <= found <= most:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: {said[:40]!r} is not {least} to {most}")
    return found
