"""State that a gateway finds when it starts: keys, sensors, its log and the number of the start.

Whatever is wrong with it is an error of the configuration, which names the field.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.alerting.section import AlertTopicSection
from gateway.base import build
from gateway.base.kept_file import KeptFile
from gateway.base.path_kind import why_missing_folder, why_no_folder
from gateway.base.remedies import of_file
from gateway.base.watched_tasks import WatchedTasks
from gateway.coap.oscore.devices import OscoreContexts, OscoreDevices
from gateway.home_assistant import announcements
from gateway.home_assistant.announcements import Announcements
from gateway.home_assistant.entities import AnnouncingGateway
from gateway.log.message_log import LogError, MessageLog
from gateway.node.members.membership import Members
from gateway.process.access import changes as access_audit
from gateway.process.configuration.config import ConfigError, GatewaySection, GatewaySettings
from gateway.process.running.readings import Announce, Readings
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.process.state_folder.life import GatewayLife, Renewals
from gateway.sensors.bounded_workshop import BoundedWorkshop
from gateway.sensors.catalogue import ConfiguredSensor, Workshop
from gateway.sensors.mqtt_form import JSON, MSGPACK
from gateway.sensors.options import SensorConfigError
from gateway.sensors.stock import NAME as STOCK
from gateway.sensors.stock import SensorStock, StockError
from tree_handler import boot_epoch
from tree_handler.batch import Entry
from tree_handler.members.member import MemberRecord

if TYPE_CHECKING:
    from gateway.coap.oscore.keys import OscoreKeys

_WITHOUT_LOG: Final = (
    "messages that wait are lost, but for what neighbours bring back and what checkpoints hold"
)

_log = logging.getLogger(__name__)


def oscore_contexts(devices: OscoreDevices, found: Iterable[OscoreKeys]) -> OscoreContexts:
    """Make contexts for these devices; see `OscoreDevices.contexts_of`.

    Raises:
        ConfigError: the numbers of an earlier start can't be read or kept.

    """
    try:
        return devices.contexts_of(found)
    except OSError as error:
        raise ConfigError("gateway.state_dir", of_file(error)) from error


def readings(
    settings: GatewaySettings,
    accept: Callable[[Entry], None],
    refused: Callable[[str, str], None],
    watched: WatchedTasks,
) -> Readings:
    """Return the sensors of the configuration, ready to be read and announced; see `Readings`.

    Raises:
        ConfigError: one of them is not usable, or can't be announced as it is configured.

    """
    own = settings.gateway
    build = BoundedWorkshop(workshop(settings))
    gateway, is_on = announcing(own, settings.alerts.mqtt), settings.home_assistant.discovery

    def misfit(sensors: Sequence[ConfiguredSensor]) -> str:
        found = announcements.faults(gateway, sensors, is_on=is_on)
        return next((f"{fault.where}: {fault.why}" for fault in found), "")

    stock = SensorStock(own.state_dir / STOCK, build, misfit)
    try:
        stock.take(stock.recalled(settings.sensors, build.at_start))
    except SensorConfigError as error:
        raise ConfigError(error.key, error.why) from error
    except StockError as error:
        raise ConfigError("gateway.state_dir", str(error)) from error
    prefix = own.place.prefix(own.id)
    return Readings(own.id, prefix, stock, announcer(settings), accept, refused, watched)


def announcer(settings: GatewaySettings) -> Announce:
    """Return what says what Home Assistant is told of sensors, at the gateway's place."""
    return partial(
        Announcements, settings.home_assistant, announcing(settings.gateway, settings.alerts.mqtt)
    )


@asynccontextmanager
async def changing_sensors(
    readings: Readings, settings: GatewaySettings
) -> AsyncIterator[Callable[[], None]]:
    """Have what takes over the sensors of a configuration that was read again; see `Readings`.

    Raises:
        ConfigError: one of them is not usable.

    """
    async with AsyncExitStack() as stack:
        try:
            change = await stack.enter_async_context(readings.changing(settings.sensors))
        except SensorConfigError as error:
            raise ConfigError(error.key, error.why) from error
        yield change


def announcing(own: GatewaySection, alerts: AlertTopicSection | None) -> AnnouncingGateway:
    """Return a gateway as Home Assistant is told of it."""
    topic = "" if alerts is None else alerts.topic
    return AnnouncingGateway(own.id, own.place.prefix(own.id), build.VERSION, topic)


def check_state_dir(own: GatewaySection) -> None:
    """Check that the folder of the state is one, or can be made.

    Raises:
        ConfigError: something else is there.

    """
    try:
        why = why_no_folder(own.state_dir)
    except PermissionError:  # the service's user may look where this one may not
        return
    except OSError as error:
        raise ConfigError("gateway.state_dir", of_file(error)) from error
    if why:
        raise ConfigError("gateway.state_dir", why)


def check_sensors_dir(own: GatewaySection) -> None:
    """Check that the folder of own sensor classes is there, where the configuration names one.

    Raises:
        ConfigError: it is not.

    """
    if own.sensors_dir is None:
        return
    try:
        why = why_missing_folder(own.sensors_dir)
    except OSError as error:
        raise ConfigError("gateway.sensors_dir", f"{own.sensors_dir}: {error.strerror}") from error
    if why:
        raise ConfigError("gateway.sensors_dir", f"{own.sensors_dir}: {why}")


def workshop(settings: GatewaySettings) -> Workshop:
    """Return what builds the sensors of a configuration.

    Raises:
        ConfigError: the folder of their classes is missing.

    """
    check_sensors_dir(settings.gateway)
    return Workshop(settings.sensors_dir, JSON if settings.home_assistant.discovery else MSGPACK)


def open_log(settings: GatewaySettings) -> MessageLog:
    """Return the message log, recovered and ready to append.

    Raises:
        ConfigError: it can't be opened.

    """
    folder = KeptFile(settings.gateway.state_dir / "log", _WITHOUT_LOG)
    if not folder.path.exists():
        folder.miss()
    log = MessageLog(
        folder.path,
        segment_bytes=settings.log.segment_bytes,
        max_bytes=settings.log.max_bytes,
        limit_bytes=settings.log.limit_bytes,
    )
    try:
        log.open()
    except LogError as error:
        raise ConfigError("gateway.state_dir", str(error)) from error
    folder.is_kept()
    if log.cut_bytes:
        _log.warning("log: cut off %d bytes of a batch that was not appended", log.cut_bytes)
    return log


def record(
    own: GatewaySection, epoch: int, capability: float, address: str, ports: Mapping[str, int]
) -> MemberRecord:
    """Return what a gateway tells the fleet of itself at its start.

    Args:
        own: who it is, and its place.
        epoch: its boot epoch.
        capability: what it is elected by.
        address: where others reach it.
        ports: that are open, by scheme; ``link`` where it takes links.

    """
    mqtt, coap, coaps = (ports.get(scheme, 0) for scheme in ("mqtt", "coap", "coaps"))
    return MemberRecord(
        own.id,
        epoch,
        0,
        own.domain,
        own.group,
        address,
        mqtt,
        coap,
        coaps,
        capability,
        link_port=ports.get("link", 0),
    )


def count_start(own: GatewaySection, log: MessageLog, members: Members) -> int:
    """Return the boot epoch of this start: later than all that any file of the folder knows of.

    Args:
        own: the gateway.
        log: which has the numbers of its earlier starts.
        members: which has its own record of an earlier start.

    Raises:
        ConfigError: it can't be read or written.

    """
    state_dir = own.state_dir
    told = members.known.get(own.id)
    streams = [*log.have, (own.id, told.epoch if told is not None else 0)]
    try:
        return next_boot_epoch(state_dir, boot_epoch.latest(own.id, streams))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(
            "gateway.state_dir", f"{error.filename or state_dir}: {reason}"
        ) from error


def begin_life(
    own: GatewaySection, log: MessageLog, members: Members, renewals: Renewals
) -> GatewayLife:
    """Begin the life of this start, in an event loop; see `count_start` and `GatewayLife`.

    Raises:
        ConfigError: the start can't be counted.

    """
    epoch = count_start(own, log, members)
    return GatewayLife(own.state_dir, epoch, renewals, asyncio.get_running_loop().call_later)


@contextmanager
def being_read() -> Iterator[None]:
    """Have a file of the state folder that can't be read now name the field.

    Raises:
        ConfigError: in place of an `OSError`.

    """
    try:
        yield
    except OSError as error:
        raise ConfigError("gateway.state_dir", of_file(error)) from error


def note_access(settings: GatewaySettings, who: str) -> str:
    """Have what has changed of keys, passwords and policy in the audit trail.

    Args:
        settings: whose files the gateway goes by now.
        who: made it read them: ``start`` or ``reload``.

    Returns:
        What is not noted, and why; empty if all is.

    """
    return access_audit.note(settings, who)
