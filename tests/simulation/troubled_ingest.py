"""Troubles in the world of `watched_ingest`: causes of alerts, and faults without one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from aging_ingest import DAY_S
from watched_ingest import NAMES, SENSOR, STEP_S, WINDOW_S, About, Collector, Sender, WatchedIngest

SET_BACK = ("telemetry", "quarantine")
LOST = ("_ledger", "checkpoint")
JOB_OFF_S = (60.0, -60.0, DAY_S, -DAY_S, 40 * 365 * DAY_S, -40 * 365 * DAY_S)
Act = Callable[[], None]


class TroubledIngest(WatchedIngest):
    """A watched ingest in which something begins, ends, or happens, as is drawn."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self._until: dict[str, Act] = {}
        """The acts that end the causes that are there, by name."""

    def act(self, told: list[str]) -> None:
        """Begin a cause, end one, or have something happen; time passes until it is judged."""
        drawn = self.draw.random()
        if self._until and (drawn < 0.4 or len(self._until) == 3):
            self._end(self.draw.choice(sorted(self._until)), told)
        elif drawn < 0.7:
            self._begin(told)
        else:
            self._happen(told)

    def end_all(self, told: list[str]) -> None:
        """End every cause that is there."""
        for name in sorted(self._until):
            self._end(name, told)
        if ("ingest-failing", "", "") in self.open:
            self.settle(round(WINDOW_S / STEP_S) + 2)

    def _end(self, name: str, told: list[str]) -> None:
        told.append(f"no {name}")
        self._until.pop(name)()
        self.settle()

    def _begin(self, told: list[str]) -> None:
        busy = {name.split()[-1] for name in self._until}
        gateways = [name for name in NAMES if name not in busy]
        of_gateways = {
            "down": self._down,
            "cut off": self._cut_off,
            "hot": self._hot,
            "weak": self._weak,
            "high": self._high,
            "still": self._still,
            "clock": self._clock_off,
            "gap": self._gap,
        }
        what = self.draw.choice((*of_gateways, "unreadable", "dead", "full"))
        if what in of_gateways:
            sender = self.senders[self.draw.choice(gateways)]
            name, end = f"{what} {sender.name}", of_gateways[what](sender)
        elif what == "unreadable":
            sender = self.senders[self.draw.choice(gateways)]
            if any(each.startswith("unreadable") for each in self._until):
                return
            name, end = f"{what} {sender.name}", self._unreadable(sender)
        else:
            if busy & {"c0", "c1"}:
                return
            one = self.draw.choice(self.collectors)
            name, end = f"{what} {one.name}", getattr(self, f"_{what}")(one)
        told.append(name)
        self._until[name] = end
        self.settle()

    # -- causes -----------------------------------------------------------------------------------

    def _is_told(self, about: About, undo: Act) -> Act:
        self.begins(about)

        def end() -> None:
            undo()
            self.ends(about)

        return end

    def _down(self, sender: Sender) -> Act:
        sender.is_down = True

        def comes() -> None:
            sender.is_down, sender.epoch, sender.first = False, sender.epoch + 1, 1
            sender.began_us = self.now_us

        return self._is_told(("silent", sender.name, ""), comes)

    def _cut_off(self, sender: Sender) -> Act:
        sender.is_cut_off = True

        def comes() -> None:
            sender.is_cut_off = False
            self.unsent += sender.withheld
            sender.withheld = []

        return self._is_told(("silent", sender.name, ""), comes)

    def _flag(self, sender: Sender, flag: str, about: About) -> Act:
        setattr(sender, flag, True)
        return self._is_told(about, lambda: setattr(sender, flag, False))

    def _hot(self, sender: Sender) -> Act:
        return self._flag(sender, "is_hot", ("hot", sender.name, ""))

    def _weak(self, sender: Sender) -> Act:
        return self._flag(sender, "is_weak", ("under-voltage", sender.name, ""))

    def _high(self, sender: Sender) -> Act:
        return self._flag(sender, "is_high", ("sensor-range", sender.name, SENSOR))

    def _still(self, sender: Sender) -> Act:
        return self._flag(sender, "is_still", ("sensor-stuck", sender.name, SENSOR))

    def _clock_off(self, sender: Sender) -> Act:
        sender.ahead_us = self.draw.choice((-1, 1)) * self.draw.choice((120, 86_400)) * 1_000_000
        return self._is_told(("clock-off", sender.name, ""), lambda: setattr(sender, "ahead_us", 0))

    def _unreadable(self, sender: Sender) -> Act:
        return self._flag(sender, "is_unreadable", ("quarantine-growing", "", ""))

    def _gap(self, sender: Sender) -> Act:
        """Something of it comes later than what it said after it."""
        sender.is_cut_off = True
        self.step()
        sender.is_cut_off = False
        return self._is_told(("gap", sender.name, ""), lambda: self._comes_late(sender))

    def _comes_late(self, sender: Sender) -> None:
        self.unsent += sender.withheld
        sender.withheld = []

    def _flaps(self) -> None:
        """A supply is weak now and then, until it stays well."""
        sender = self.draw.choice(list(self.senders.values()))
        if any(name.endswith(sender.name) for name in self._until):
            return
        self.settle(30)  # what it was before is forgotten
        for _ in range(4):
            sender.is_weak = True
            self.step()
            sender.is_weak = False
            self.settle(3)
        self.raised["under-voltage", sender.name, ""] += 3
        about = "flapping", sender.name, ""
        self.begins(about)
        self.look()
        self.ends(about)

    def _dead(self, one: Collector) -> Act:
        one.kill()
        spool = str(self.spools[one.number])
        return self._is_told(("collector-silent", "", spool), lambda: one.start(self.now_s))

    def _full(self, one: Collector) -> Act:
        one.is_disk_full = True
        spool = str(self.spools[one.number])
        about = "collector-disk", "", spool
        return self._is_told(about, lambda: setattr(one, "is_disk_full", False))

    # -- what raises nothing by itself ------------------------------------------------------------

    def _happen(self, told: list[str]) -> None:
        may: dict[str, Act] = {
            "kill": self.kill_job,
            "end": self.end_job,
            "back up": self._back_up,
            "restart": self._restart_collector,
            "restart all": self._restart_collectors,
            "lose": lambda: self._with_parts(self.lose, LOST),
            "restore": lambda: self._with_parts(self.restore, (*LOST, *SET_BACK)),
            "restore in delta": lambda: self._with_parts(self.restore_in_delta, SET_BACK),
            "replace disk": self.replace_disk,
            "behind": self._behind,
            "clock of c0": lambda: self._turn(0),
            "clock of c1": lambda: self._turn(1),
            "clock of job": lambda: self._turn("job"),
            "leap": self._leap,
            "away": self._away,
            "flaps": self._flaps,
        }
        name = self.draw.choice(list(may))
        told.append(name)
        may[name]()
        self.settle()

    def _back_up(self) -> None:
        self.end_job()
        self.back_up()

    def _with_parts(self, act: Callable[[str], None], parts: tuple[str, ...]) -> None:
        self.end_job()
        act(self.draw.choice(parts))

    def _restart_collector(self) -> None:
        one = self.draw.choice(self.collectors)
        if one.core is not None:
            one.kill(self.draw.randrange(3))
            one.start(self.now_s)

    def _restart_collectors(self) -> None:
        for one in self.collectors:
            if one.core is not None:
                one.kill()
                one.start(self.now_s)

    def replace_disk(self) -> None:
        """A collector's disk goes when the tables have all of it; it begins anew."""
        one = self.draw.choice(self.collectors)
        if one.core is None:
            return
        self.turn_job()
        self.end_job()
        self.lean_on_tables()
        one.kill()
        one.synced, one.file, one.refused = [], (b"\x90", b"\x90"), 0
        shutil.rmtree(self.spools[one.number])
        self.spools[one.number].mkdir()
        self._starts[one.number] = 0
        one.start(self.now_s)

    def _behind(self) -> None:
        """The job lives, and reads nothing for a while."""
        if self._until:
            return
        self.reads = False
        abouts = [("ingest-behind", "", str(spool)) for spool in self.spools]
        for about in abouts:
            self.begins(about)
        self.settle()
        self.look()
        self.reads = True
        for about in abouts:
            self.ends(about)

    def _turn(self, whose: int | str) -> None:
        """A clock is wrong for a while."""
        self._off_s[whose] = self.draw.choice(JOB_OFF_S)
        self.settle()
        self.look()
        del self._off_s[whose]

    def _leap(self) -> None:
        """The job's clock is set while something is unread."""
        self.reads = False
        self.step()
        self._off_s["job"] = self.draw.choice(JOB_OFF_S)
        self.step()
        self.reads = True
        self.settle()
        self.look()
        del self._off_s["job"]

    def _away(self) -> None:
        """Nobody of all this runs for long, and all of it goes on."""
        if self._until:
            return
        self.end_job()
        self.now_us += round(self.draw.choice((3_600.0, 40 * DAY_S)) * 1e6)
        self.now_s += 3_600.0
        self.killed_s.clear()
