"""A gateway's status records go out: the shell that waits, looks at the machine and publishes.

The machine is read in a thread, since a disk that is dying keeps who asks it. While it does,
records go on without what the machine would say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gateway.backups.backup_state import BackupFiles
from gateway.process.configuration.config import GatewaySection
from gateway.process.fleet_status.machine import MachineFiles
from gateway.process.fleet_status.own_release import ReleaseFiles
from gateway.process.fleet_status.own_status import OwnStatus
from gateway.process.fleet_status.pace import StatusPace
from gateway.process.fleet_status.rating import RatingFile
from gateway.process.fleet_status.status_sources import StatusFindings, StatusSources
from gateway.sensors.threads import DriverBusyError, DriverThreads
from record_formats.status_record import SUFFIX, StatusError
from tree_handler.batch import Entry
from tree_handler.members.place import Place

Accept = Callable[[Entry], None]
READ_TIMEOUT_S: Final = 2.0
_log = logging.getLogger(__name__)


class StatusPublisher:
    """Publishes status records of one gateway; a `Part` of its node, so that it hears of changes.

    Args:
        own: what is told.
        looks: what is looked up for each record.
        place: gives where in the hierarchy it stands.
        accept: takes what is published.
        interval_s: how often; 0 for never.

    """

    topics: frozenset[bytes] = frozenset()

    def __init__(
        self,
        own: OwnStatus,
        looks: StatusSources,
        place: Callable[[], Place],
        accept: Accept,
        interval_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._own = own
        self._looks = looks
        self._place = place
        self._accept = accept
        self._interval_s = interval_s
        self._started = now = self._loop.time()
        self._pace = StatusPace(own.own_id, interval_s, own.place_in_tree(), now)
        self._threads = DriverThreads(1)
        self._sending: asyncio.Task[None] | None = None
        self._is_over = interval_s == 0

    # -- a part of the node ----------------------------------------------------------------------

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Do nothing: the next record has the link."""

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: the next record lacks the link."""

    def tree_changed(self, now: float) -> None:
        """Publish soon: root or parent may be another one."""
        self._pace.is_at(self._own.place_in_tree(), now)

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Do nothing: nothing comes, as the part has no topic."""

    def next_timer(self) -> float:
        """Return when the next record is due."""
        return self._pace.due

    def handle_timer(self, now: float) -> None:
        """Publish the status record, unless the last one is still being sent."""
        self._pace.published(now)
        if not self._is_over and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send(), name="status record")

    # -- the end ---------------------------------------------------------------------------------

    def leave(self) -> None:
        """Say once more how it is, with what it is about to do, and then no more."""
        if not self._is_over:
            self._publish(StatusFindings())
            self._is_over = True

    async def stop(self) -> None:
        """Publish no more."""
        self._is_over = True
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        self._threads.close()

    # -- records ---------------------------------------------------------------------------------

    async def _send(self) -> None:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                found = await self._threads.call(self._looks, self._looks.read)
        except (TimeoutError, DriverBusyError):
            found = StatusFindings()
        if not self._is_over:
            self._publish(found)

    def _publish(self, looked: StatusFindings) -> None:
        place = self._place()
        up_s = self._loop.time() - self._started
        record = self._own.record(self._interval_s, up_s, place, looked, self._pace)
        try:
            payload = record.encode()
        except StatusError as error:
            _log.error("the status record is not published: %s", error)
            return
        self._accept(Entry(f"{place.prefix(self._own.own_id)}/{SUFFIX}", payload, qos=1))


def begin(
    own: OwnStatus,
    settings: GatewaySection,
    backups: BackupFiles,
    place: Callable[[], Place],
    accept: Accept,
) -> StatusPublisher:
    """Have a gateway say how it is from now on, as its configuration says."""
    folder = settings.state_dir
    looks = StatusSources(MachineFiles(folder), ReleaseFiles(), backups, RatingFile(folder))
    publishing = StatusPublisher(own, looks, place, accept, settings.status_interval_s)
    # Links may be up already; it needs to hear of the tree alone.
    own.node.add_part(publishing)
    return publishing
