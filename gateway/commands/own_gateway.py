"""Where the gateway of a configuration listens, as it has told in its state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.commands.errors import FailedError, WrongUseError

if TYPE_CHECKING:
    from gateway.configuration.config import GatewaySettings


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
        from gateway.configuration import config  # noqa: PLC0415  # of use on its own machine
        from gateway.state_folder import listeners_file  # noqa: PLC0415  # of use on its own machine

        try:
            settings = config.load(file, config.GatewaySettings)
        except config.ConfigError as error:
            raise WrongUseError(str(error)) from error
        own_id, state_dir = settings.gateway.id, settings.gateway.state_dir
        try:
            return cls(settings, listeners_file.read(state_dir))
        except PermissionError as error:
            where = f"where {own_id} listens: ask as {_owner(state_dir)}, or HOST:PORT"
            raise FailedError(f"{error.filename}: permission denied to read {where}") from error
        except (OSError, ValueError) as error:
            why = f"{own_id} is not running ({state_dir / listeners_file.NAME})"
            raise FailedError(why) from error

    @property
    def id(self) -> str:
        """Its id."""
        return self.settings.gateway.id

    def near(self, scheme: str) -> tuple[str, int] | None:
        """Host and port at which it is reached from here; None without such a listener."""
        from gateway.state_folder import listeners_file  # noqa: PLC0415

        return listeners_file.near(self.told, scheme)


def _owner(folder: Path) -> str:
    try:
        return folder.owner()
    except (OSError, KeyError):
        return "its user"
