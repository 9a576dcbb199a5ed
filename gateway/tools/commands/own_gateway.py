"""Addresses of the gateway of a configuration, as it has told them in its state folder."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.process.configuration import place as config_place
from gateway.tools.commands.errors import FailedError, WrongUseError
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.process.configuration.config import GatewaySettings


@dataclass(frozen=True, slots=True)
class OwnGateway:
    """A gateway of this machine, which runs.

    Attributes:
        settings: its configuration.
        told: what its file of listeners holds.

    """

    settings: GatewaySettings
    told: dict[str, Any]

    @classmethod
    def of(cls, file: Path) -> OwnGateway:
        """Find it.

        Args:
            file: its configuration.

        Raises:
            WrongUseError: the configuration is wrong.
            FailedError: it is not running, or another user's.

        """
        from gateway.process.configuration import config  # noqa: PLC0415  # of use on its own machine
        from gateway.process.state_folder import listeners_file  # noqa: PLC0415  # of use on its own machine

        try:
            settings = config.load(file, config.GatewaySettings)
        except config.ConfigError as error:
            raise WrongUseError(str(error)) from error
        own_id, state_dir = settings.gateway.id, settings.gateway.state_dir
        try:
            return cls(settings, listeners_file.read(state_dir))
        except PermissionError as error:
            why = f"permission denied to read where {own_id} listens (HOST:PORT needs no file)"
            raise FailedError(f"{error.filename}: {why}") from error
        except (OSError, ValueError) as error:
            why = f"{own_id} is not running ({state_dir / listeners_file.NAME})"
            raise FailedError(f"{why}; {_starting(file)}") from error

    @property
    def id(self) -> str:
        """The gateway's id, as its configuration has it."""
        return self.settings.gateway.id

    def near(self, scheme: str) -> tuple[str, int] | None:
        """Host and port at which it is reached from here; None without such a listener."""
        from gateway.process.state_folder import listeners_file  # noqa: PLC0415

        return listeners_file.near(self.told, scheme)


def with_own_key(options: argparse.Namespace) -> None:
    """Take the key of this machine's gateway for what needs one, if none is given.

    Whoever may read the file may use it: nobody gets a right by that.
    """
    config: Path | None = options.config
    if options.psk_file is not None or options.gateway is not None:
        return
    if config is None and (config := config_place.find_readable()) is None:
        return
    own = OwnGateway.of(config)
    file = own.settings.coap.psk_file
    if file is not None and os.access(file, os.R_OK) and own.near("coaps") is not None:
        options.psk_file = file


def _starting(file: Path) -> str:
    """Say what starts the gateway of a configuration."""
    by_hand = f"`hedgerow run --config {shlex.quote(str(file))}`"
    if file == config_place.SYSTEM:
        return f"`systemctl start hedgerow` starts it, or {by_hand}"
    return f"{by_hand} starts it"
