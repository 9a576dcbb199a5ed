"""Attackers in processes of their own: what they do takes no time of who measures."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

READY_S = 60.0


class Attacker(ABC):
    """An attacker that does the same harm again and again.

    Attributes:
        seen: how often what happened to him.

    """

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    @abstractmethod
    def step(self) -> bool:
        """Do it once; whether there is more to do."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """Be gone; connections end with the process."""


class Attack:
    """An attack that goes on in another process.

    Args:
        make: the attacker's class, of a module that another process can load.
        arguments: for it.
        least: what it must have seen before it has done enough.

    """

    def __init__(
        self, make: Callable[..., Attacker], arguments: tuple[object, ...], least: Counter[str]
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._stopping, self._leaving = spawn.Event(), spawn.Event()
        self._enough = spawn.Event()
        self._told, tells = spawn.Pipe(duplex=False)
        events = (self._stopping, self._leaving, self._enough)
        given = (make, arguments, least, events, tells)
        self._process = spawn.Process(target=_attack, args=given, daemon=True)
        self._process.start()
        tells.close()
        assert self._next() == "ready"

    @property
    def is_over(self) -> bool:
        """Return whether it has come to its end by itself."""
        return self._told.poll()

    @property
    def has_done_enough(self) -> bool:
        """Return whether it is an attack by now; on a slow machine that takes its time."""
        return self._enough.is_set()

    def stop(self) -> Counter[str]:
        """Begin nothing more, and say what came of it; connections stay as they are."""
        self._stopping.set()
        found = self._next()
        assert isinstance(found, Counter)
        return found

    def leave(self) -> None:
        """Be gone, with all connections."""
        self._stopping.set()
        self._leaving.set()
        self._process.join(READY_S)
        self._process.kill()
        self._process.join()

    def _next(self) -> Any:
        assert self._told.poll(READY_S), "the attacker says nothing"
        return self._told.recv()


@contextmanager
def attacking(
    make: Callable[..., Attacker], *arguments: object, least: Counter[str] | None = None
) -> Iterator[Attack]:
    """An attack until the end of the block.

    Args:
        make: the attacker's class, of a module that another process can load.
        arguments: for it.
        least: what it must have seen before it has done enough; a step if not given.

    """
    attack = Attack(make, arguments, Counter() if least is None else least)
    try:
        yield attack
    finally:
        attack.leave()


def _attack(
    make: Callable[..., Attacker],
    arguments: tuple[object, ...],
    least: Counter[str],
    events: tuple[Event, Event, Event],
    told: Connection,
) -> None:
    stopping, leaving, enough = events
    attacker = make(*arguments)
    told.send("ready")
    while not stopping.is_set() and attacker.step():
        if attacker.seen >= least:
            enough.set()
    told.send(attacker.seen)
    leaving.wait()
    attacker.close()
