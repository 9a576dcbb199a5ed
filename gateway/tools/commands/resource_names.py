"""Names of sensors and other resources, as people write them, and the paths that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

SENSORS = "/sensors/"
QUERY = "/q/"
_PLACE_PARTS = 3
"""Domain, group and gateway."""


def is_uri(target: str) -> bool:
    """Return whether it is a whole URI."""
    return "://" in target


def needs_fleet(target: str) -> bool:
    """Return whether one has to know the fleet to say what a name stands for."""
    return not target.startswith("/") and ("/" in target or ":" in target)


def path_of(target: str, places: Mapping[str, str], own_id: str) -> str:
    """Return the path of a resource at the gateway that is asked.

    Args:
        target: a path or a name.
        places: domain and group of each gateway, as ``campus/north``, by its id.
        own_id: the gateway that is asked.

    """
    if target.startswith("/"):
        return target
    gateway, colon, path = target.partition(":/")
    if colon and gateway in places:
        return _at(gateway, f"/{path}", places, own_id)
    parts = target.split("/")
    if len(parts) > _PLACE_PARTS:
        place, gateway = "/".join(parts[:2]), parts[2]
        if places.get(gateway) == place:
            return _at(gateway, _sensor(parts[_PLACE_PARTS:]), places, own_id)
    if len(parts) > 1 and parts[0] in places:
        return _at(parts[0], _sensor(parts[1:]), places, own_id)
    return _sensor(parts)


def name_of(href: str, gateway_id: str | None) -> str:
    """Return what `path_of` takes for a resource that was found; what has no name is its own.

    Args:
        href: where it is, as seen from the gateway that was asked.
        gateway_id: in whose directory it stands, if that is known.

    """
    path, way = href, ""
    if href.startswith(QUERY):
        parts = href.removeprefix(QUERY).split("/", _PLACE_PARTS)
        if len(parts) > _PLACE_PARTS:
            gateway_id, path = parts[2], f"/{parts[3]}"
    if not path.startswith("/"):
        return href
    if gateway_id:
        way = f"{gateway_id}/"
    if path.startswith(SENSORS):
        return way + unquote(path.removeprefix(SENSORS))
    return f"{gateway_id}:{path}" if gateway_id else path


def _at(gateway: str, path: str, places: Mapping[str, str], own_id: str) -> str:
    return path if gateway == own_id else f"{QUERY}{places[gateway]}/{gateway}{path}"


def _sensor(parts: list[str]) -> str:
    return SENSORS + "/".join(quote(part, "") for part in parts)
