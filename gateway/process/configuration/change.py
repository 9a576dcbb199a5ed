"""Changes that a running gateway takes over from a configuration that is read again."""

from __future__ import annotations

import dataclasses
from typing import Any

from gateway.process.configuration.config import ConfigError, GatewaySettings

RELOADED = {
    "gateway": ("domain", "group"),
    "tree": (
        "neighbours",
        "discovery",
        "discovery_interface",
        "discovery_interfaces",
        "discovery_group",
        "discovery_port",
        "dns_sd",
        "replicate",
        "keep_local",
    ),
    "access": ("default_roles",),
    "coap": ("public",),
}
"""Fields by section; besides them the sensors. All else is read at the start alone."""


def take_over(before: GatewaySettings, after: GatewaySettings) -> tuple[GatewaySettings, list[str]]:
    """Return the settings to go on with, and the fields whose change needs a restart.

    Raises:
        ConfigError: what is taken over does not fit to what stays; it names the field.

    """
    sections = {}
    for section, names in RELOADED.items():
        mine, theirs = getattr(before, section), getattr(after, section)
        try:
            taken = {name: getattr(theirs, name) for name in names}
            sections[section] = dataclasses.replace(mine, **taken)
        except ConfigError as error:
            raise ConfigError(f"{section}.{error.where}", error.why) from error
    try:
        settings = dataclasses.replace(before, sensors=after.sensors, **sections)
    except ConfigError as error:
        raise ConfigError(error.where, f"{error.why}: it takes a restart") from error
    return settings, _differences("", settings, after)


def _differences(prefix: str, one: Any, other: Any) -> list[str]:
    found = []
    for spec in dataclasses.fields(one):
        mine, theirs = getattr(one, spec.name), getattr(other, spec.name)
        if mine == theirs:
            continue
        if dataclasses.is_dataclass(mine) and dataclasses.is_dataclass(theirs):
            found += _differences(f"{prefix}{spec.name}.", mine, theirs)
        else:
            found.append(f"{prefix}{spec.name}")
    return found
