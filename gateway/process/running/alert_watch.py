"""A gateway's alerts at work: the shell that looks, keeps what is known, and hands records over.

A look costs the event loop one pass over figures that are there; files of the machine are read in
a thread, and so is what is kept written. Each way out has a thread of its own: one that hangs keeps
neither the gateway nor the other ways. A disk that takes nothing keeps no alert from leaving: what
is not written is only known to this life.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from alerts.desk import AlertNotFoundError
from alerts.record import AlertRecord, RecordsRefusedError, WayOut
from alerts.state import AlertState, OpenAlert
from alerts.ways.trouble import in_words
from gateway.alerting.figures import AlertFigures
from gateway.alerting.gateway_alerts import GatewayAlerts
from gateway.alerting.lost_gateways import site_of
from gateway.alerting.orders import AlertOrderError, acknowledgement, carry_out
from gateway.alerting.plan import AlertPlan
from gateway.base import wall_clock
from gateway.base.printable import said
from gateway.process.running.alert_sources import AlertSources, MachineLook
from gateway.process.running.kept_alerts import KeptAlerts
from gateway.sensors.threads import DriverBusyError, DriverThreads

if TYPE_CHECKING:
    from alerts.ack_link import AckLinks
    from gateway.alerting.problem_topic import ProblemTopic

LOOK_TIMEOUT_S: Final = 2.0
WRITE_TIMEOUT_S: Final = 2.0
TAKE_TIMEOUT_S: Final = 120.0
"""A way out has time limits of its own; this one is for what those do not see."""
LAST_TAKE_S: Final = 2.0
"""So long a stop waits for ways out, so that what they take just then does not come again."""
ASKED_AT_ONCE: Final = 16
"""Messages that take alerts on; more at one time are left alone."""
BY_TOPIC: Final = "mqtt"
"""Takes an alert on by a message: the broker has decided that who published it may."""

_log = logging.getLogger(__name__)


class AlertWatch:
    """Raises the alerts of one gateway, and sees to it that they leave.

    Args:
        plan: what it goes by.
        sources: what is seen.
        look: looks at the machine, in a thread.
        ways: out, by name.
        topic: is told what is wrong; None where nobody asked for it.
        kept: where it keeps what it knows.

    """

    def __init__(
        self,
        plan: AlertPlan,
        sources: AlertSources,
        look: Callable[[], MachineLook],
        ways: Mapping[str, WayOut],
        topic: ProblemTopic | None,
        kept: KeptAlerts,
    ) -> None:
        self._plan = plan
        self._sources = sources
        self._look = look
        self._ways = ways
        self._topic = topic
        self._kept: KeptAlerts | None = kept
        self._threads = DriverThreads(2 + len(ways))
        self._watched = sources.watched.of_part()
        self._wake = asyncio.Event()
        self._asked: set[asyncio.Task[None]] = set()
        self._handing: dict[str, asyncio.Task[None]] = {}
        self._untried = {_part(way) for way in ways}
        recalled = self._recalled()
        self._is_kept = not recalled.alerts
        """With an alert that stands the first look writes: that shows what the disk takes."""
        self._alerts = GatewayAlerts(plan, recalled, sources.steady_s())

    def start(self) -> None:
        """Look from now on."""
        self._watched.start("alerts", self._run)

    async def stop(self) -> None:
        """Look no more; what is being handed over has a moment to be taken, and to be noted so."""
        await self._watched.stop()
        handing = [*self._handing.values(), *self._asked]
        if handing:
            await asyncio.wait(handing, timeout=LAST_TAKE_S)
        for task in handing:
            task.cancel()
        await asyncio.gather(*handing, return_exceptions=True)
        if self._kept is not None and (over := self._threads.over(self._kept)) is not None:
            await asyncio.wait([over], timeout=WRITE_TIMEOUT_S)  # a write that was under way
        self._is_kept = self._is_kept and not self._alerts.has_unkept
        await self._keep()
        self._threads.close()

    # -- what is asked ---------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """Return what ``/status`` says of alerts."""
        return self._alerts.summary()

    def figures(self) -> AlertFigures:
        """Return what ``/metrics`` tells of alerts, and of what they look at."""
        return self._alerts.figures()

    def document(self) -> Mapping[str, Any]:
        """Return all alerts, ready for JSON."""
        return self._alerts.document()

    def of_link(self, links: AckLinks, token: str) -> OpenAlert:
        """Return the alert that an acknowledgement link names."""
        return self._alerts.of_link(links, token)

    async def order(self, data: bytes, who: str) -> Mapping[str, Any]:
        """Carry out an order about alerts, and keep the state."""
        own = self._sources.own()
        done = carry_out(self._alerts, data, who, own.id, site_of(own.place))
        _log.info("alerts: %s: %s", who, json.dumps(done))
        self._is_kept = False
        await self._keep()
        self._wake.set()
        return done

    def acknowledge_soon(self, payload: bytes, refused: Callable[[str], None]) -> None:
        """Take an alert on as a message on the gateway's topic says.

        Args:
            payload: the alert's name, or ``{"alert": NAME, "note": TEXT}``.
            refused: is told why that can't be.

        """
        if payload and len(self._asked) < ASKED_AT_ONCE:  # nothing ends a retained message
            task = asyncio.create_task(self._acknowledge(payload, refused), name="alert taken on")
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    async def _acknowledge(self, payload: bytes, refused: Callable[[str], None]) -> None:
        try:
            await self.order(acknowledgement(payload), BY_TOPIC)
        except (AlertNotFoundError, AlertOrderError) as error:
            refused(str(error))
        except Exception as error:  # nobody waits for it
            refused(said(error))

    # -- what goes on ----------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            if loop.time() >= due_s:
                await self._see()
                due_s = loop.time() + self._plan.look_s
            if not self._is_kept:
                await self._keep()
            self._hand_over()
            # Not `wait_for`: up to Python 3.11 it loses a cancellation that comes with a wake.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._wake.wait()
            self._wake.clear()

    async def _see(self) -> None:
        seen = self._sources.seen(await self._machine(), self._untried)
        steady_s = self._sources.steady_s()
        offset_s = time.localtime().tm_gmtoff
        if self._alerts.look(seen, wall_clock.now_us(), steady_s, offset_s):
            self._is_kept = False
        self._sources.say_told(self._alerts.telling)
        for record in self._alerts.told:
            level = logging.INFO if record.change == "cleared" else logging.WARNING
            _log.log(level, "alert %s", record)
        if self._topic is not None:
            self._topic.tell(self._alerts.problem(), is_logged=not seen.log_failure)

    async def _machine(self) -> MachineLook:
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                found: MachineLook = await self._threads.call(self._look, self._look)
        except (TimeoutError, DriverBusyError):  # a disk that is dying: the rest is seen
            return MachineLook.unseen()
        return found

    def _hand_over(self) -> None:
        for way, records in (*self._alerts.due(), *self._alerts.renewals()):
            if way not in self._handing:
                task = asyncio.create_task(self._hand(way, records), name=_part(way))
                self._handing[way] = task

    async def _hand(self, way: str, records: tuple[AlertRecord, ...]) -> None:
        why_not = ""
        try:
            async with asyncio.timeout(TAKE_TIMEOUT_S):
                await self._threads.call(way, lambda: self._ways[way].take(records))
            if self._alerts.taken(way, records):
                self._is_kept = False
        except RecordsRefusedError as error:
            why_not = str(error)
            self._alerts.refused(way, records, why_not)
            self._is_kept = False
        except DriverBusyError:
            why_not = "an earlier call has not come back"
            self._alerts.failed(way, why_not)
        except Exception as error:  # of whatever kind: the records come again
            why_not = in_words(error)
            self._alerts.failed(way, why_not)
        finally:
            del self._handing[way]
            self._wake.set()
        self._untried.discard(_part(way))
        self._sources.watched.tell(_part(way), why_not)

    # -- what is kept ----------------------------------------------------------------------------

    def _recalled(self) -> AlertState:
        assert self._kept is not None
        try:
            return self._kept.read()
        except OSError as error:  # what could not be read is not replaced by less
            self._sources.watched.tell("alerts kept", str(error))
            self._kept = None
            return AlertState()

    async def _keep(self) -> None:
        kept = self._kept
        if kept is None or self._is_kept:
            return
        data, self._is_kept = kept.encode(self._alerts.state), True
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._threads.call(kept, lambda: kept.write(data))
        except asyncio.CancelledError:
            self._is_kept = False  # nobody sees what becomes of it
            raise
        except (OSError, TimeoutError, DriverBusyError) as error:
            self._is_kept = False
            self._sources.watched.tell("alerts kept", said(error))
            kept.write_stand_in(data)  # in memory: nothing waits for it
        else:
            self._sources.watched.tell("alerts kept", "")
            kept.drop_stand_in()


def _part(way: str) -> str:
    """Return what a way out is called among the parts of the process."""
    return f"alerts by {way}"
