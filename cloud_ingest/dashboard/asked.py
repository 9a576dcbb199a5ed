"""Parameters of a request, read from its query."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from cloud_ingest.dashboard.rollups import SensorSeries
from gateway.web.api_error import ApiError

SENSORS_MAX: Final = 50
"""In one question."""
FARTHEST_MS: Final = 32_503_680_000_000
"""Of a time that is asked for, before and after 1970: the year 3000."""


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


def sensors(
    request: web.Request, known: Mapping[tuple[str, str], SensorSeries]
) -> list[SensorSeries]:
    """Return the sensors that a query names by ``gateway`` and ``sensor``, in pairs, each once.

    Args:
        request: may have both as often as `SENSORS_MAX`.
        known: all that there are.

    Raises:
        ApiError: there are none, too many, one that is not known, or one without its gateway.

    """
    gateways = request.query.getall("gateway", [])
    names = request.query.getall("sensor", [])
    if not 1 <= len(names) <= SENSORS_MAX or len(gateways) != len(names):
        why = f"sensor: 1 to {SENSORS_MAX}, each with its gateway"
        raise ApiError(HTTPStatus.BAD_REQUEST, why)
    found = []
    for key in dict.fromkeys(zip(gateways, names, strict=True)):
        series = known.get(key)
        if series is None:
            why = f"sensor: {key[0][:200]!r} has no sensor {key[1][:200]!r}"
            raise ApiError(HTTPStatus.NOT_FOUND, why)
        found.append(series)
    return found


def span_us(request: web.Request) -> tuple[int, int]:
    """Return ``start_ms`` and ``end_ms`` of a query, in microseconds.

    Raises:
        ApiError: one is missing or no number, or the end is not after the start.

    """
    start_ms = number(request, "start_ms", -FARTHEST_MS, FARTHEST_MS)
    end_ms = number(request, "end_ms", -FARTHEST_MS, FARTHEST_MS)
    if end_ms <= start_ms:
        raise ApiError(HTTPStatus.BAD_REQUEST, "end_ms: not after start_ms")
    return start_ms * 1000, end_ms * 1000
