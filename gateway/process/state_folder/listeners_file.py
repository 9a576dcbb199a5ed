"""Addresses of a running gateway, in its state folder: the command line finds them there.

::

    {"id": "gw", "pid": 1, "mqtt": "127.0.0.1:1883", "coap": "127.0.0.1:5683", "coaps": null,
     "console": null, "listeners": {"mqtt": ["127.0.0.1:1883", "[::1]:1883"], ...}}

Each scheme has its first address; all of them are in ``listeners``.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.base import replaced_file
from gateway.process.configuration.config import ConfigError

NAME = "listeners.json"
ALWAYS_TOLD = ("coap", "coaps", "console")
"""Of these it is said if there is none."""

_log = logging.getLogger(__name__)


def write(state_dir: Path, own_id: str, listeners: Mapping[str, Sequence[str]]) -> None:
    """Tell; a reader sees all of it or nothing.

    Args:
        state_dir: the gateway's.
        own_id: its id.
        listeners: its addresses, ``host:port`` each, by scheme.

    Raises:
        OSError: the folder can't be written to.

    """
    told: dict[str, Any] = {"id": own_id, "pid": os.getpid(), **dict.fromkeys(ALWAYS_TOLD)}
    told |= {scheme: each[0] for scheme, each in listeners.items()}
    told["listeners"] = {scheme: list(each) for scheme, each in listeners.items()}
    replaced_file.replace(state_dir / NAME, json.dumps(told).encode())


def tell(state_dir: Path, own_id: str, listeners: Mapping[str, Sequence[str]]) -> None:
    """Write the file, and log the listeners.

    Raises:
        ConfigError: the folder can't be written to.

    """
    try:
        write(state_dir, own_id, listeners)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        why = f"{error.filename or state_dir}: {reason}"
        raise ConfigError("gateway.state_dir", why) from error
    _log.info("%s is up: %s", own_id, as_text(listeners))


def as_text(listeners: Mapping[str, Sequence[str]]) -> str:
    """Return the listeners in one line for the log."""
    all_told = dict.fromkeys(ALWAYS_TOLD, ("None",)) | dict(listeners)
    order = sorted(all_told, key=lambda scheme: scheme in ALWAYS_TOLD)
    return ", ".join(f"{scheme} {' '.join(all_told[scheme])}" for scheme in order)


def read(state_dir: Path) -> dict[str, Any]:
    """Return what a running gateway told.

    Raises:
        OSError: none runs.
        ValueError: the file is damaged.

    """
    return read_with_owner(state_dir)[0]


def read_with_owner(state_dir: Path) -> tuple[dict[str, Any], int]:
    """Return what a running gateway told, and the number of the user that it runs as.

    Raises:
        OSError: none runs.
        ValueError: the file is damaged.

    """
    with (state_dir / NAME).open("rb") as file:
        owner = os.fstat(file.fileno()).st_uid
        listeners = json.loads(file.read())
    if not isinstance(listeners, dict) or not isinstance(listeners.get("listeners", {}), dict):
        raise ValueError(f"{state_dir / NAME}: tells of no listeners")  # noqa: TRY004  # damaged
    return listeners, owner


def near(told: Mapping[str, Any], scheme: str) -> tuple[str, int] | None:
    """Host and port at which a program on the same machine reaches a gateway best.

    A loopback address if there is one, since no cable is needed for it, or else the first.

    Args:
        told: what the gateway told.
        scheme: of the listener.

    Returns:
        None if there is no such listener.

    """
    first = told.get(scheme)
    if first is None:
        return None
    each = [_parted(one) for one in told.get("listeners", {}).get(scheme, [first])]
    for host, port in each:
        address = ipaddress.ip_address(host)
        if address.is_loopback:
            return host, port
    for host, port in each:
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            return ("127.0.0.1" if address.version == 4 else "::1"), port
    return each[0]


def remove(state_dir: Path) -> None:
    """Take it back at the end."""
    try:
        (state_dir / NAME).unlink(missing_ok=True)
    except OSError as error:  # a disk that has become read-only
        _log.warning("%s: %s", state_dir / NAME, error.strerror)


def _parted(listener: str) -> tuple[str, int]:
    host, _, port = listener.rpartition(":")
    return host.strip("[]"), int(port)
