"""Power cuts at many moments of one run of a playbook, each looked at on a copy of the card.

One run is filmed: twice a second the card is copied, as it is without what is only in memory. Later
each copy is a Pi that lost its power at that moment: it boots, and the playbook is run again.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from account import Account
from cards import Card
from commands import until
from fleet import DeployedFleet, Play

AFTERWARDS_S = 60.0
"""So long after the end of a playbook power is still cut."""
EVERY_S = 0.5
DURING = 2 / 3
"""Of the moments that are looked at, so many are before the playbook's end."""
ANSWERS_S = 90.0
"""A gateway that was there answers so soon after its Pi's boot."""
CERTIFICATES = "etc/hedgerow/tls"
BRING_CERTIFICATES = ("site.yml", "rotate_keys.yml")
FOLDERS = ("etc", "opt", "usr/local", "var/lib/hedgerow-roles", "root")
"""What a playbook may have written, beside the gateway's state."""
OF_ONE_BOOT = frozenset(
    {"etc/machine-id", "etc/.updated", "etc/ld.so.cache", "etc/.pwd.lock", "opt/hedgerow/.lock"}
)


NOT_OF_A_PLAYBOOK = ("__pycache__", f"/{CERTIFICATES}")
"""Folders that Python or Ansible fill, and the one that is compared with what the operator has."""


@dataclass(frozen=True)
class Moment:
    """A card as a cut leaves it.

    Attributes:
        card: the copy.
        after_s: since the playbook began.
        task: which ran then; empty once it had ended.
        acknowledged: how many messages were by then.

    """

    card: Card
    after_s: float
    task: str
    acknowledged: int


@dataclass(frozen=True)
class Film:
    """A run of a playbook, and the moments of it.

    Attributes:
        playbook: which.
        play: what the run came to.
        moments: in order.
        changed_s: when the playbook first changed something on the Pi.
        files: what an uncut run leaves, each path with its digest.
        taken_back: the messages that the playbook itself takes back, as a restore does.

    """

    playbook: str
    play: Play
    moments: list[Moment]
    changed_s: float
    files: Mapping[str, str]
    taken_back: range = range(0)

    def spread(self, count: int) -> list[Moment]:
        """So many moments since the first change; the others' cards go."""
        since = [moment for moment in self.moments if moment.after_s >= self.changed_s - EVERY_S]
        during = [moment for moment in since if moment.task]
        afterwards = [moment for moment in since if not moment.task]
        first = round(count * DURING)
        chosen = [*_apart(during, first), *_apart(afterwards, count - first)]
        for moment in self.moments:
            if moment not in chosen:
                moment.card.remove()
        return chosen


@dataclass(frozen=True)
class Cut:
    """What became of a Pi that lost its power.

    Attributes:
        playbook, moment: when.
        came_up: whether the system booted.
        gateway: ``not yet`` if there was none, ``answers``, or what systemd says of it.
        again: the next run of the playbook; None if the system did not boot.
        differs: files that are not as an uncut run leaves them.
        lost: messages that had been acknowledged.

    """

    playbook: str
    moment: Moment
    came_up: bool
    gateway: str
    again: Play | None
    differs: list[str]
    lost: set[int]

    @property
    def is_whole(self) -> bool:
        """Whether the next run left what an uncut one does."""
        return self.again is not None and self.again.returncode == 0 and not self.differs

    def __str__(self) -> str:
        task = self.moment.task or "afterwards"
        again = (
            "-" if self.again is None else f"{self.again.returncode} in {self.again.took_s:.0f} s"
        )
        differs = f" differs: {', '.join(self.differs[:6])}" if self.differs else ""
        return (
            f"| {self.playbook} | {self.moment.after_s:6.1f} | {task} | "
            f"{'yes' if self.came_up else 'NO'} | {self.gateway} | {again} | "
            f"{'yes' if self.is_whole else 'NO'}{differs} | "
            f"{len(self.lost)} of {self.moment.acknowledged} |"
        )


def _apart(moments: list[Moment], count: int) -> list[Moment]:
    """So many of them, as far from each other as they can be, the last one among them."""
    step = len(moments) / count if count else 0.0
    return [moments[int((number + 1) * step) - 1] for number in range(count) if step >= 1.0]


HEAD = (
    "| play | s | task | came up | gateway | next run | whole | acknowledged and lost |\n"
    "|---|---|---|---|---|---|---|---|"
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
        moments: list[Moment] = []
        with self.on(card), self.account.going_on():
            if (self._root / "opt/hedgerow/venv").exists():
                self.account.more(20)
            process, began_s = self.fleet.start(playbook, *arguments)
            self._task, self._over = "before the first", threading.Event()
            camera = threading.Thread(
                target=self._copy, args=(card, playbook, began_s, moments), daemon=True
            )
            camera.start()
            assert process.stdout is not None
            lines, changed_s = [], float("inf")
            for line in process.stdout:
                lines.append(line)
                if line.startswith(f"changed: [{self.name}]"):
                    changed_s = min(changed_s, time.monotonic() - began_s)
                if line.startswith(("TASK [", "RUNNING HANDLER [")):
                    self._task = line.partition("[")[2].rpartition("]")[0].rpartition(" : ")[2]
            took_s = time.monotonic() - began_s
            play = Play(process.wait(), "".join(lines), took_s)
            self._task = ""
            self._over.wait(AFTERWARDS_S)
            self._over.set()
            camera.join()
            play.worked()
            taken_back = range(0)
            if self.backed_up is not None:
                taken_back = range(self.backed_up, self.account.begun_at[-1])
            return Film(playbook, play, moments, changed_s, files(self._root), taken_back)

    def cut(self, film: Film, moment: Moment, *arguments: str) -> Cut:
        """Boot what a cut left, and run the playbook again."""
        came_up, gateway, again, differs, lost = False, "", None, [], set[int]()
        try:
            with self.on(moment.card):
                came_up = True
                gateway = self._gateway(moment)
                if gateway == "answers":
                    lost = self._lost(film, moment)
                again = self.fleet.finish(self.fleet.start(film.playbook, *arguments))
                if again.returncode == 0:
                    self._answers()
                    if gateway != "answers":
                        lost = self._lost(film, moment)
                found = files(self._root)
                differs = (
                    sorted(
                        path
                        for path in film.files.keys() | found.keys()
                        if film.files.get(path) != found.get(path)
                    )
                    + self._other_certificates()
                )
        except AssertionError as error:
            differs.append(str(error)[:600])
        return Cut(film.playbook, moment, came_up, gateway, again, differs, lost)

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
        pi = self.fleet.bed.pis[self.name]
        with card.mounted() as root:
            self._root = pi.root = root
            try:
                pi.boot()
                yield
            finally:
                pi.switch_off()

    def _copy(self, card: Card, playbook: str, began_s: float, moments: list[Moment]) -> None:
        for number in range(100_000):
            acknowledged, task = self.account.acknowledged, self._task
            after_s = time.monotonic() - began_s
            copy = card.copied(f"{playbook.partition('.')[0]}-{number}")
            moments.append(Moment(copy, after_s, task, acknowledged))
            if self._over.wait(EVERY_S):
                return

    def _lost(self, film: Film, moment: Moment) -> set[int]:
        """What was acknowledged and is not there; a backup that is there took its part back."""
        lost = self.account.lost(moment.acknowledged)
        back = {number for number in film.taken_back if number < moment.acknowledged}
        return lost - back if lost >= back else lost

    def _other_certificates(self) -> list[str]:
        """Those of the Pi that are not the ones that the operator has for it."""
        has = self._root / CERTIFICATES
        given = {
            "gateway.pem": f"{self.name}.pem",
            "gateway.key.pem": f"{self.name}.key.pem",
            "ca.pem": "ca.pem",
        }
        of_operator = self.fleet.certificates
        return [
            f"{CERTIFICATES}/{at}"
            for at, name in given.items()
            if not (has / at).exists()
            or (has / at).read_bytes() != (of_operator / name).read_bytes()
        ]

    def _gateway(self, moment: Moment) -> str:
        if not moment.acknowledged:
            return "not yet"
        try:
            self._answers()
        except AssertionError:
            return self.fleet.bed.pis[self.name].says("systemctl", "is-active", "hedgerow") or "?"
        return "answers"

    def _answers(self) -> None:
        until("the gateway answers", lambda: self.fleet.status(self.name), ANSWERS_S)


def files(root: Path) -> dict[str, str]:
    """Each file that a playbook may have written, with a digest of it; a link with what it says."""
    found = {}
    for folder in FOLDERS:
        for top, _, names in os.walk(root / folder):
            if top.endswith(NOT_OF_A_PLAYBOOK) or "/.ansible/tmp" in top:
                continue
            for name in names:
                path = Path(top, name)
                at = str(path.relative_to(root))
                if at in OF_ONE_BOOT:
                    continue
                said = bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
                found[at] = hashlib.sha256(said).hexdigest()
    return found
