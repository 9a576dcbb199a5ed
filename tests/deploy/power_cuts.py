"""Power cuts at many moments of one run of a playbook, each looked at on a card of its own.

One run is recorded: all that the card is handed, in order. A cut at any moment of it then leaves a
card with all that was flushed, and with some of what was not. Each is looked at as it is, and then
is in a Pi: it boots, and the playbook is run again.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from account import Account
from cards import Card
from commands import run, until
from fleet import PROJECT, DeployedFleet, Play
from recordings import Left, Recording, recorded

AFTERWARDS_S = 60.0
"""So long after the end of a playbook power is still cut."""
EVERY_S = 0.05
"""So often it is noted which task runs, and what was acknowledged."""
DURING = 2 / 3
"""Of the moments that are looked at, so many are before the playbook's end."""
WELL = ("answers", "not yet")
"""Good states of a gateway after a boot: as it was, or not there before the cut either."""
ANSWERS_S = 90.0
"""A gateway that was there answers so soon after its Pi's boot."""
CERTIFICATES = "etc/hedgerow/tls"
BRING_CERTIFICATES = ("site.yml", "rotate_keys.yml")
"""Playbooks that give a Pi what the operator has for it."""
GIVEN = {"gateway.pem": "{}.pem", "gateway.key.pem": "{}.key.pem", "ca.pem": "ca.pem"}
"""Names on the Pi, and the operator's, which have the gateway's."""
FOLDERS = ("etc", "opt", "usr/local", "var/lib/hedgerow-roles", "root")
"""The folders that a playbook may write to, beside the gateway's state."""
OF_ONE_BOOT = frozenset(
    {"etc/machine-id", "etc/.updated", "etc/ld.so.cache", "etc/.pwd.lock", "opt/hedgerow/.lock"}
)


RELEASES = "opt/hedgerow/releases"
MARK = "installed"
"""The file in a release's folder that vouches for the release."""
WHOLE_RELEASE = PROJECT / "gateway/tools/provisioning/whole_release.sh"
"""The script by which a Pi tells whether a release is as its mark says."""
NOT_OF_A_PLAYBOOK = ("__pycache__", f"/{CERTIFICATES}")
"""Folders that Python or Ansible fill, and the one that is compared with what the operator has."""


@dataclass(frozen=True)
class Tick:
    """A moment of a playbook's run.

    Attributes:
        after_s: since the playbook began.
        task: which ran then; empty once it had ended.
        acknowledged: how many messages were by then.

    """

    after_s: float
    task: str
    acknowledged: int


@dataclass(frozen=True)
class Moment:
    """A cut, and what it leaves.

    Attributes:
        tick: when.
        left: on the card.

    """

    tick: Tick
    left: Left


@dataclass(frozen=True)
class Film:
    """A run of a playbook, from which cuts at any moment are made.

    Attributes:
        playbook: which.
        play: what the run came to.
        recording: of the card.
        began_s: on the system's monotonic clock.
        ticks: what went on, in order, to the end of the recording.
        changed_s: when the task began that first changed something on the Pi, since ``began_s``.
        files: what an uncut run leaves, each path with its digest.
        certificates: of the gateway and its authority, as an uncut run leaves them.
        taken_back: the messages that the playbook itself takes back, as a restore does.

    """

    playbook: str
    play: Play
    recording: Recording
    began_s: float
    ticks: list[Tick]
    changed_s: float
    files: Mapping[str, str]
    certificates: Mapping[str, bytes]
    taken_back: range = range(0)

    def cut(self, count: int, draw: random.Random) -> Iterator[Moment]:
        """Make so many cuts since the first change: one in each of as many equal parts.

        Every other one is at something that the card is just handed, if it is handed anything in
        that part: a card has nothing to lose at most other moments.
        """
        end_s = max(tick.after_s for tick in self.ticks if tick.task)
        first = round(count * DURING)
        parts = [
            *_parts(self.changed_s, end_s, first),
            *_parts(end_s, self.ticks[-1].after_s, count - first),
        ]
        writes_s = [write_s - self.began_s for write_s in self.recording.writes_s()]
        moments_s = []
        for number, (begin_s, until_s) in enumerate(parts):
            of_part = writes_s[bisect_left(writes_s, begin_s) : bisect_left(writes_s, until_s)]
            is_at_write = number % 2 and of_part
            moments_s.append(
                draw.choice(of_part) if is_at_write else draw.uniform(begin_s, until_s)
            )
        name = self.playbook.partition(".")[0]
        absolute = [self.began_s + after_s for after_s in moments_s]
        lefts = self.recording.cut(name, absolute, draw)
        for after_s, left in zip(moments_s, lefts, strict=True):
            # What was acknowledged is that of the tick before: it may be more by a message or two.
            number = bisect_right(self.ticks, after_s, key=lambda tick: tick.after_s) - 1
            before = self.ticks[max(number, 0)]
            yield Moment(Tick(after_s, before.task, before.acknowledged), left)


def _parts(begin_s: float, end_s: float, count: int) -> list[tuple[float, float]]:
    """So many equal parts of a time: where each begins and ends."""
    part_s = (end_s - begin_s) / count if count else 0.0
    return [(begin_s + number * part_s, begin_s + (number + 1) * part_s) for number in range(count)]


@dataclass(frozen=True)
class Look:
    """The state of a card before it boots.

    Attributes:
        wrong: what no cut may leave: a file system that is not sound once its journal is read, or
            a release whose mark says that it is whole and which is not.
        hollow: files with nothing or zeros where an uncut run has words, outside of releases; the
            next run has to mend them.

    """

    wrong: list[str]
    hollow: list[str]

    def __str__(self) -> str:
        return "; ".join([*(f"WRONG: {one}" for one in self.wrong), *self.hollow]) or "-"


@dataclass(frozen=True)
class Cut:
    """A Pi that lost its power, and what became of it.

    Attributes:
        playbook, moment: when.
        look: what was on its card.
        came_up: whether the system booted.
        gateway: ``not yet`` if there was none, ``answers``, or what systemd says of it.
        again: the next run of the playbook; None if there was none.
        differs: files that are not as an uncut run leaves them, and what else went wrong.
        lost: messages that had been acknowledged.

    """

    playbook: str
    moment: Moment
    look: Look
    came_up: bool
    gateway: str
    again: Play | None
    differs: list[str]
    lost: set[int]

    @property
    def is_well(self) -> bool:
        """Return whether all that was tried is as it should be."""
        return self.came_up and not self.lost and self._is_whole

    @property
    def _is_whole(self) -> bool:
        return not self.differs and (self.again is None or self.again.returncode == 0)

    def __str__(self) -> str:
        again, whole = "-", "yes" if self._is_whole else "NO"
        if self.again is not None:
            again = f"{self.again.returncode} in {self.again.took_s:.0f} s"
        elif self._is_whole:
            whole = "-"
        differs = f" differs: {', '.join(self.differs[:6])}" if self.differs else ""
        is_known = self.gateway == "answers" or self.again is not None
        lost = f"{len(self.lost)} of {self.moment.tick.acknowledged}" if is_known else "-"
        return (
            f"{row(self.playbook, self.moment, self.look)} {'yes' if self.came_up else 'NO'} | "
            f"{self.gateway} | {again} | {whole}{differs} | {lost} |"
        )


HEAD = (
    "| play | s | task | kept of unsynced | hollow | came up | gateway | next run | whole "
    "| acknowledged and lost |\n|---|---|---|---|---|---|---|---|---|---|"
)


def row(playbook: str, moment: Moment, look: Look) -> str:
    """The beginning of a moment's row: what is known before the card boots."""
    tick, left = moment.tick, moment.left
    return (
        f"| {playbook} | {tick.after_s:6.1f} | {tick.task or 'afterwards'} | "
        f"{left.kept} of {left.unsynced} | {look} |"
    )


@dataclass
class Cinema:
    """Films one Pi, and has it lose its power.

    Attributes:
        fleet: with that Pi alone.
        name: of the Pi.
        account: of its gateway.
        backed_up: how many messages were acknowledged when the backup was made; None while none is.

    """

    fleet: DeployedFleet
    name: str
    account: Account
    backed_up: int | None = None
    _task: str = ""
    _over: threading.Event = field(default_factory=threading.Event)

    def film(self, card: Card, playbook: str, *arguments: str) -> Film:
        """Run a playbook on a Pi with this card, which has all of it in the end."""
        ticks: list[Tick] = []
        with (
            recorded(card, playbook) as (root, recording),
            self._in_pi(root),
            self.account.going_on(),
        ):
            if (self._root / "opt/hedgerow/venv").exists():
                self.account.more(20)
            process, began_s = self.fleet.start(playbook, *arguments)
            self._task, self._over = "before the first", threading.Event()
            notes = threading.Thread(target=self._note, args=(began_s, ticks), daemon=True)
            notes.start()
            assert process.stdout is not None
            lines, task_s, changed_s = [], 0.0, float("inf")
            for line in process.stdout:
                lines.append(line)
                if line.startswith(f"changed: [{self.name}]"):
                    changed_s = min(changed_s, task_s)
                if line.startswith(("TASK [", "RUNNING HANDLER [")):
                    task_s = time.monotonic() - began_s
                    self._task = line.partition("[")[2].rpartition("]")[0].rpartition(" : ")[2]
            took_s = time.monotonic() - began_s
            play = Play(process.wait(), "".join(lines), took_s)
            self._task = ""
            self._over.wait(AFTERWARDS_S)
            self._over.set()
            notes.join()
            play.worked()
            taken_back = range(0)
            if self.backed_up is not None:
                taken_back = range(self.backed_up, self.account.begun_at[-1])
            found, certificates = files(self._root), self._certificates()
        return Film(
            playbook=playbook,
            play=play,
            recording=recording,
            began_s=began_s,
            ticks=ticks,
            changed_s=changed_s,
            files=found,
            certificates=certificates,
            taken_back=taken_back,
        )

    def look(self, film: Film, moment: Moment) -> Look:
        """Examine what a cut left on the card, without a boot."""
        card = moment.left.card
        try:
            with card.mounted() as root:
                releases = sorted((root / RELEASES).glob("*"))
                marked = [one for one in releases if (one / MARK).exists()]
                wrong = [f"release {one.name}" for one in marked if not _is_as_marked(one)]
                hollow = sorted(
                    at
                    for at, path in _paths(root)
                    if film.files.get(at, HOLLOW) != HOLLOW
                    and not any(path.is_relative_to(one) for one in releases)
                    and _is_hollow(path)
                )
            run("e2fsck", "-f", "-n", card.image)
        except AssertionError as error:
            return Look([str(error)[:300]], [])
        return Look(wrong, hollow)

    def cut(
        self, film: Film, moment: Moment, look: Look, *arguments: str, is_played: bool = True
    ) -> Cut:
        """Boot what a cut left, and run the playbook again.

        Args:
            film, moment, look: what was cut, when, and what is on its card.
            arguments: of the playbook.
            is_played: whether it is run where the gateway that was there has come back, too.

        """
        came_up, gateway, again, differs, lost = False, "", None, [], set[int]()
        try:
            with self.on(moment.left.card):
                came_up = True
                gateway = self._gateway(moment)
                if gateway == "answers":
                    lost = self._lost(film, moment)
                if is_played or gateway not in WELL:
                    again = self.fleet.finish(self.fleet.start(film.playbook, *arguments))
                    if again.returncode == 0:
                        self._answers()
                        if gateway != "answers":
                            lost = self._lost(film, moment)
                    differs = self._differs(film)
        except AssertionError as error:
            differs.append(str(error)[:600])
        return Cut(film.playbook, moment, look, came_up, gateway, again, differs, lost)

    @contextmanager
    def backed_up_on(self, card: Card, *arguments: str) -> Iterator[None]:
        """Have a backup of the gateway meanwhile, which has messages of the account."""
        with self.on(card):
            with self.account.going_on():
                self.account.more(100)
            self.fleet.play("backup.yml", *arguments).worked()
        self.backed_up = self.account.acknowledged
        try:
            yield
        finally:
            self.backed_up = None

    @contextmanager
    def on(self, card: Card) -> Iterator[None]:
        """Have the Pi run with a card for a while."""
        with card.mounted() as root, self._in_pi(root):
            yield

    @contextmanager
    def _in_pi(self, root: Path) -> Iterator[None]:
        pi = self.fleet.bed.pis[self.name]
        self._root = pi.root = root
        try:
            pi.boot()
            yield
        finally:
            pi.switch_off()

    def _note(self, began_s: float, ticks: list[Tick]) -> None:
        is_over = False
        while not is_over:
            acknowledged, task = self.account.acknowledged, self._task
            ticks.append(Tick(time.monotonic() - began_s, task, acknowledged))
            is_over = self._over.wait(EVERY_S)

    def _differs(self, film: Film) -> list[str]:
        """Files that are not as an uncut run leaves them."""
        found = files(self._root)
        paths = film.files.keys() | found.keys()
        others = [path for path in paths if film.files.get(path) != found.get(path)]
        return sorted(others) + self._other_certificates(film)

    def _lost(self, film: Film, moment: Moment) -> set[int]:
        """Return the acknowledged messages that are gone, but for those that a backup took back."""
        lost = self.account.lost(moment.tick.acknowledged)
        back = {number for number in film.taken_back if number < moment.tick.acknowledged}
        return lost - back if lost >= back else lost

    def _other_certificates(self, film: Film) -> list[str]:
        """Files of the Pi's that are neither an uncut run's nor the ones that it is to have now.

        One that brings certificates brings the newest. Others leave those that were there.
        """
        return [
            f"{CERTIFICATES}/{name}"
            for name, said in self._certificates().items()
            if said != (self.fleet.certificates / GIVEN[name].format(self.name)).read_bytes()
            and (film.playbook in BRING_CERTIFICATES or said != film.certificates[name])
        ]

    def _certificates(self) -> dict[str, bytes]:
        at = self._root / CERTIFICATES
        return {name: (at / name).read_bytes() if (at / name).exists() else b"" for name in GIVEN}

    def _gateway(self, moment: Moment) -> str:
        if not moment.tick.acknowledged:
            return "not yet"
        try:
            self._answers()
        except AssertionError:
            return self.fleet.bed.pis[self.name].says("systemctl", "is-active", "hedgerow") or "?"
        return "answers"

    def _answers(self) -> None:
        until("the gateway answers", lambda: self.fleet.status(self.name), ANSWERS_S)


HOLLOW = "hollow"
"""Stands for the digest of a file that is empty or has only zeros."""


def files(root: Path) -> dict[str, str]:
    """Each file that a playbook may have written, with a digest of it; a link with what it says."""
    return {
        at: HOLLOW if _is_hollow(path) else hashlib.sha256(_said(path)).hexdigest()
        for at, path in _paths(root)
    }


def _paths(root: Path) -> Iterator[tuple[str, Path]]:
    for folder in FOLDERS:
        for top, _, names in os.walk(root / folder):
            if top.endswith(NOT_OF_A_PLAYBOOK) or "/.ansible/tmp" in top:
                continue
            for name in names:
                path = Path(top, name)
                at = str(path.relative_to(root))
                if at not in OF_ONE_BOOT:
                    yield at, path


def _said(path: Path) -> bytes:
    return bytes(path.readlink()) if path.is_symlink() else path.read_bytes()


def _is_hollow(path: Path) -> bool:
    return not path.is_symlink() and not _said(path).strip(b"\0")


def _is_as_marked(release: Path) -> bool:
    asked = ("sh", WHOLE_RELEASE, "check", release)
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
