"""One gateway process: starts its parts, has them go by what is read again, and stops them.

Order: key and state, then the log (nothing may be accepted before it is open), the broker, the
node's way into the tree, CoAP, and the sensors last, since they publish at once (`building`).
Stopping goes backwards. A part that can't start stops those before it and names what is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from gateway.base.watched_tasks import WatchedTasks
from gateway.log.message_log import LogError
from gateway.process.configuration.config import ConfigError, GatewaySettings
from gateway.process.running import building, reloading
from gateway.process.running.parts import GatewayParts, ProcessInputs
from gateway.process.running.reloading import ReloadedParts
from gateway.process.running.relocation import relocate
from gateway.process.running.settings_in_use import SettingsInUse
from gateway.process.state_folder.life import Renewals

_log = logging.getLogger(__name__)


class GatewayProcess:
    """Everything that one gateway runs.

    Args:
        settings: a checked configuration.
        end: called when the process may end, since it is drained.
        read: reads the configuration again; None where there is no file.
        renewals: starts it anew, with a later boot epoch; None where nobody does.

    Attributes:
        watched: what runs beside.

    """

    def __init__(
        self,
        settings: GatewaySettings,
        end: Callable[[], None] = lambda: None,
        read: Callable[[], GatewaySettings] | None = None,
        renewals: Renewals | None = None,
    ) -> None:
        self.watched = WatchedTasks()
        self._settings = SettingsInUse(settings)
        self._end = end
        self._read = read
        self._renewals = renewals or Renewals(lambda: None)
        self._stack = AsyncExitStack()
        self._parts: GatewayParts | None = None

    async def start(self) -> None:
        """Start all parts.

        Raises:
            ConfigError: a file, key or sensor is not usable, or an address is in use.

        """
        around = ProcessInputs(
            settings=self._settings,
            stack=self._stack,
            watched=self.watched,
            end=self._end,
            renewals=self._renewals,
        )
        try:
            self._parts = await building.build(around)
        except BaseException as error:
            await self.stop()
            if isinstance(error, LogError):
                raise ConfigError("gateway.state_dir", str(error)) from error
            raise

    async def stop(self) -> None:
        """Stop all parts, the last started first."""
        await self._stack.aclose()

    @property
    def parts(self) -> GatewayParts:
        """The parts of a gateway that has started.

        Raises:
            RuntimeError: it has not.

        """
        if self._parts is None:
            raise RuntimeError("the gateway has no parts: start it before you ask for them")
        return self._parts

    @property
    def mqtt_port(self) -> int:
        """The port that clients and neighbours connect to."""
        return self.parts.broker.port

    @property
    def mqtt_ports(self) -> dict[str, int]:
        """All ports of the broker, by scheme: ``mqtt``, ``mqtts``, ``ws``, ``wss``."""
        return self.parts.broker.ports

    def status(self) -> dict[str, Any]:
        """Return what this gateway is and does, ready for JSON."""
        return self.parts.status.as_json()

    async def reload(self) -> str:
        """Read neighbours, sensors and access again; if anything is wrong, all stays.

        Returns:
            What is wrong; empty if nothing is.

        """
        parts, before = self.parts, self._settings.now
        reloaded = ReloadedParts(
            access=parts.access,
            attachment=parts.attachment,
            node=parts.node,
            oscore=parts.oscore,
            readings=parts.readings,
            revocations=parts.proof.revocations,
        )
        try:
            settings, at_start_alone = await reloading.reload(before, self._read, reloaded)
        except (ConfigError, OSError) as error:
            _log.error("nothing is read again: %s", error)
            self.watched.tell("reload", str(error))
            return str(error)
        self.watched.tell("reload", "")
        self._settings.follow(settings)
        if settings.gateway.place != before.gateway.place:
            retention = parts.broker.core.retention
            relocate(settings, parts.members, parts.readings, parts.site, retention)
        for field in at_start_alone:
            _log.warning("%s has changed: that takes a restart", field)
        _log.info("neighbours, sensors, certificates, passwords, keys and policy are read again")
        await parts.access.note("reload")
        return ""
