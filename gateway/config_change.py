"""What a gateway that runs takes over from a configuration that is read again."""

from __future__ import annotations

import dataclasses
from typing import Any

from gateway.config import ConfigError, GatewaySettings

RELOADED = (
    "neighbours",
    "discovery",
    "discovery_interface",
    "discovery_interfaces",
    "discovery_group",
    "discovery_port",
    "dns_sd",
    "replicate",
    "keep_local",
)
"""Fields of ``[tree]``; all else is read at the start alone."""


def take_over(before: GatewaySettings, after: GatewaySettings) -> tuple[GatewaySettings, list[str]]:
    """The settings to go on with, and the fields whose change needs a restart.

    Raises:
        ConfigError: what is taken over does not fit to what stays; it names the field.

    """
    taken = {name: getattr(after.tree, name) for name in RELOADED}
    try:
        tree = dataclasses.replace(before.tree, **taken)
    except ConfigError as error:
        raise ConfigError(f"tree.{error.where}", error.why) from error
    try:
        settings = dataclasses.replace(before, tree=tree)
    except ConfigError as error:
        raise ConfigError(error.where, f"{error.why}: it takes a restart") from error
    return settings, _differences("", settings, after)


def _differences(prefix: str, one: Any, other: Any) -> list[str]:
    found = []
    for spec in dataclasses.fields(one):
        mine, theirs = getattr(one, spec.name), getattr(other, spec.name)
        if mine == theirs:
            continue
        if dataclasses.is_dataclass(mine):
            found += _differences(f"{prefix}{spec.name}.", mine, theirs)
        else:
            found.append(f"{prefix}{spec.name}")
    return found
