"""Ways out of a process that is no gateway: what it hands over is on a disk before it is taken.

The ingest job has one way out and waits for its answer; here are several, of which one may be down
for hours while the others go on. So what comes is kept in a file first, with what each way had,
and each way has a thread and a queue of its own, by the same rules as a gateway's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from alerts.holding import LocalTime, RecordHold, holding_of
from alerts.outgoing import GONE, WayQueue, parted
from alerts.record import AlertRecord, RecordsRefusedError, WayOut
from alerts.state import WayFigures, WayState
from alerts.terms import AlertRoute, ways_of
from alerts.ways.trouble import in_words
from gateway.base import wall_clock
from gateway.base.kept_file import KeptFile

MAX_MET: Final = 20_000
"""Names of records that are remembered, so that one that comes again is known."""
TURN_S: Final = 1.0
"""The interval at which a way looks whether something may leave."""
_WITHOUT: Final = "alerts that waited for their ways out are not told"

_log = logging.getLogger(__name__)


class _Spooled(msgspec.Struct):
    """The content of the file that spools records for the ways out.

    Attributes:
        ways: by name.
        met: `delivery_id` of each record that came, the newest last.
        sent: on which ways alerts that are open were told, by name.

    """

    ways: dict[str, WayState] = {}
    met: list[str] = []
    sent: dict[str, list[str]] = {}


_decoder: Final = msgspec.json.Decoder(_Spooled)


class SpooledWays:
    """Takes records for several ways out.

    Args:
        file: what is remembered; its folder is there.
        ways: by name.
        routes: which alerts go which ways, and when.
        gather_s: the first record waits so long for others of its site.
        clock: seconds by a clock that nobody sets.

    Raises:
        OSError: the file can't be read.

    """

    def __init__(
        self,
        file: Path,
        ways: Mapping[str, WayOut],
        routes: Sequence[AlertRoute] = (),
        gather_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = KeptFile(file, _WITHOUT, is_durable=True)
        self._ways = ways
        self._routes = routes
        self._clock = clock
        self._passed_at_s = clock()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._state = self._file.read(_decoder.decode) or _Spooled()
        before = self._dropped()
        self._state.ways, gone = parted(self._state.ways, ways)
        for way, one in gone.items():
            _log.warning("alerts by %s: %d dropped: %s", way, one.dropped - before[way], GONE)
        self._met = set(self._state.met)
        self._queues = {
            way: WayQueue(state, gather_s, partial(self._holding, way))
            for way, state in self._state.ways.items()
        }
        for way in ways:
            target = partial(self._serve, way)
            threading.Thread(target=target, name=f"alerts by {way}", daemon=True).start()

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Take records over for the ways out; they are taken when they are on the disk.

        Raises:
            OSError: they can't be written.

        """
        with self._lock:
            fresh = [one for one in records if one.delivery_id not in self._met]
            if not fresh:
                return
            before, dropped = msgspec.json.encode(self._state), self._dropped()
            for one in fresh:
                self._route(one)
            self._state.met = [*self._state.met, *(one.delivery_id for one in fresh)][-MAX_MET:]
            try:
                self._file.write(msgspec.json.encode(self._state))
            except OSError:
                self._take_back(_decoder.decode(before))
                raise
            self._met = set(self._state.met)
            self._tell_dropped(dropped, "too many waited")

    def figures(self) -> Mapping[str, WayFigures]:
        """Return how each way stands, by name."""
        with self._lock:
            return {way: WayFigures.of(state) for way, state in self._state.ways.items()}

    def close(self) -> None:
        """Hand nothing more over; what is under way may come again.

        The file is not written any more once this has returned: another may take it over.
        """
        with self._lock:
            self._is_over.set()

    def _route(self, record: AlertRecord) -> None:
        ways = ways_of(record, self._routes, list(self._queues))
        if record.change == "raised":
            self._state.sent[record.alert] = ways
        else:
            ways = self._state.sent.get(record.alert, ways)
        if record.change == "cleared":
            self._state.sent.pop(record.alert, None)
        for way in ways:
            if way in self._queues:
                self._queues[way].add([record])

    def _take_back(self, before: _Spooled) -> None:
        self._state.sent, self._state.met = before.sent, before.met
        for way, state in self._state.ways.items():
            state.waiting, state.dropped = before.ways[way].waiting, before.ways[way].dropped

    def _holding(self, way: str, record: AlertRecord) -> RecordHold:
        now = LocalTime(wall_clock.now_us(), time.localtime().tm_gmtoff)
        return holding_of(record, way, self._routes, now)

    # -- one thread a way ------------------------------------------------------------------------

    def _serve(self, way: str) -> None:
        while not self._is_over.wait(TURN_S):
            with self._lock:
                self._pass_time()
                due = self._queues[way].due()
            if due:
                self._hand(way, due)

    def _pass_time(self) -> None:
        now_s = self._clock()
        passed_s, self._passed_at_s = now_s - self._passed_at_s, now_s
        dropped = self._dropped()
        for queue in self._queues.values():
            queue.pass_time(max(0.0, passed_s))
        self._tell_dropped(dropped, "they waited for a day")

    def _dropped(self) -> dict[str, int]:
        return {way: one.dropped for way, one in self._state.ways.items()}

    def _tell_dropped(self, before: Mapping[str, int], why: str) -> None:
        for way, now in self._dropped().items():
            if now > before[way]:
                _log.warning("alerts by %s: %d dropped: %s", way, now - before[way], why)

    def _hand(self, way: str, records: Sequence[AlertRecord]) -> None:
        why, is_refused = "", False
        try:
            self._ways[way].take(records)
        except RecordsRefusedError as error:
            why, is_refused = str(error), True
        except Exception as error:  # of whatever kind: the records come again
            why = in_words(error)
        with self._lock:
            if self._is_over.is_set():
                return
            queue = self._queues[way]
            if why and why != queue.state.trouble:
                _log.warning("alerts by %s: %s", way, why)
            if is_refused:
                queue.refused(records, why)
            elif why:
                queue.failed(why)
            else:
                queue.taken(records)
            try:
                self._file.write(msgspec.json.encode(self._state))
            except OSError as error:  # they may come twice after a kill: no more is lost by that
                _log.warning("%s: %s", self._file.path, error.strerror)
