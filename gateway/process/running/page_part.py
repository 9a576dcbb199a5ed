"""The page of a gateway, if it has one: its modules are loaded only then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.base import wall_clock
from gateway.base.event_log.audit import FILE_NAME, AuditTrail
from gateway.process.configuration.config import GatewaySettings
from light_dataclasses import dataclass
from tree_handler.batch import Header, Row

if TYPE_CHECKING:
    from gateway.broker.broker import GatewayBroker
    from gateway.broker.hooks import Demand
    from gateway.coap.site import GatewaySite
    from gateway.node.links.origin import Origin
    from gateway.process.access.files import AccessFiles
    from gateway.process.page.device_key_api import DeviceKeyDesk
    from gateway.process.page.face import PageFace
    from gateway.process.page.log_lines import RecentLines
    from gateway.process.page.opening import PageParts
    from gateway.process.page.topic_tap import TopicTap
    from gateway.process.page.user_file import UserDesk
    from gateway.process.running.readings import Readings


@dataclass(frozen=True, slots=True)
class PageDesks:
    """The makers of what visitors of a page ask for.

    Attributes:
        device_keys: makes and revokes keys.
        users: changes users and their passwords.

    """

    device_keys: DeviceKeyDesk
    users: UserDesk


class PagePart:
    """Makes the page, lets it hear messages, and has it go by files that were read again.

    Args:
        settings: of the gateway.

    """

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._tap: TopicTap | None = None
        self._parts: PageParts | None = None
        self._lines: RecentLines | None = None
        if settings.console.enabled and settings.console.web:
            from gateway.process.page.log_lines import RecentLines  # noqa: PLC0415  # where there is one
            from gateway.process.page.topic_tap import TopicTap  # noqa: PLC0415  # as above

            self._tap = TopicTap()
            self._lines = RecentLines(asyncio.get_running_loop())
            logging.getLogger().addHandler(self._lines)

    # -- messages ----------------------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        """Return whether somebody looks at messages."""
        return self._tap is not None and len(self._tap) > 0

    def reads_unlogged(self) -> bool:
        """Return whether somebody looks at the page."""
        return self.is_listening

    def take(self, rows: list[Row], header: Header) -> None:
        """Show messages on the page, of whatever origin they are."""
        del header
        self.hear(rows)

    def overhear(self, origin: Origin) -> None:
        """Hear what this gateway's clients publish."""
        if self._tap is not None:
            origin.overheard_by(self)

    def hear(self, rows: Iterable[Any]) -> None:
        """Take messages that came from anywhere."""
        if self._tap is not None and len(self._tap):
            self._tap.hear(rows, wall_clock.now_ms())

    def wish(self, demand: Demand | None) -> None:
        """Tell others which messages are wanted here, where they come to who wants them alone."""
        if self._tap is not None and demand is not None:
            self._tap.wishes(demand.subscribed, demand.unsubscribed)

    # -- from start to end -------------------------------------------------------------------------

    def open(
        self,
        files: AccessFiles,
        broker: GatewayBroker,
        site: GatewaySite,
        readings: Readings,
        desks: PageDesks,
    ) -> PageFace | None:
        """Make the page; None where the configuration asks for none.

        Args:
            files: say who may do what.
            broker: has clients and topics.
            site: has the resources that are asked.
            readings: has the sensors.
            desks: make what its visitors ask for.

        """
        if self._tap is None or self._lines is None:
            return None
        from gateway.process.page.opening import PageSources, open_page  # noqa: PLC0415  # as above

        own = self._settings
        trail = AuditTrail(own.gateway.state_dir / FILE_NAME)
        sources = PageSources(
            settings=own,
            files=files,
            broker=broker,
            site=site,
            sampler=readings.sampler,
            roll=readings,
            tables=readings,
            device_keys=desks.device_keys,
            users=desks.users,
            tap=self._tap,
            lines=self._lines,
            trail=trail,
        )
        self._parts = open_page(sources, _faults)
        return self._parts.face

    def follow(self, files: AccessFiles) -> None:
        """Go by files that were read again."""
        if self._parts is not None:
            self._parts.follow(files)

    def close(self) -> None:
        """Hear no line of the log any more, and set no timer."""
        if self._parts is not None:
            self._parts.stop()
        if self._lines is not None:
            logging.getLogger().removeHandler(self._lines)


def _faults(data: bytes, path: Path) -> list[str]:
    """Return all that is wrong with a configuration, as `configuration_faults.in_words` does.

    What looks at every file that a configuration may name is loaded by who changes one, in a
    thread.
    """
    from gateway.process.running import configuration_faults  # noqa: PLC0415  # as it says

    return configuration_faults.in_words(data, path)
