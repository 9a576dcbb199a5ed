"""Order of password checks, where more come than can be done.

A check takes a core and some 64 MiB for a tenth of a second, so few are made at a time, and whoever
sends many wrong ones could keep everybody else waiting. So hosts have their turns, however many
each sends; and a user who has proved a password from a host of late has its turn before all who
have not, so that devices come back in the midst of an attack from however many hosts. Checks run at
a lower priority than all else, so that they take what the loop leaves them of the cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.trust.shares.failed_attempts import network_of
from gateway.trust.shares.fair_turns import FairTurns

AT_ONCE: Final = 2
"""Passwords that are checked at a time."""
PROVED_MAX: Final = 10_000
"""Users, each with a host, that are remembered as proved; those that proved it last."""
NICENESS: Final = 5
"""On Linux the threads that check are so much nicer than the loop: where both want a core they get
a third of what it gets."""

_Turn = asyncio.Future[None]


class PasswordChecks:
    """The checks under way, and those that wait.

    Args:
        at_once: see `AT_ONCE`.
        proved_max: see `PROVED_MAX`.

    """

    def __init__(self, at_once: int = AT_ONCE, proved_max: int = PROVED_MAX) -> None:
        self._free = at_once
        self._proved_max = proved_max
        self._waiting = FairTurns[_Turn]()
        self._proved: dict[tuple[str, str], None] = {}
        self._threads = ThreadPoolExecutor(at_once, "password", _stand_back)

    @property
    def waiting(self) -> int:
        """Return how many checks wait."""
        return len(self._waiting)

    async def run(
        self, address: str, user: str, check: Callable[[], bool], may_begin: Callable[[], bool]
    ) -> bool | None:
        """Wait for a turn and check a password.

        Whose client goes meanwhile is no longer waited for; its turn ends when its check does.

        Args:
            address: where the password comes from.
            user: whose it is said to be.
            check: runs in a thread; tells whether it is right.
            may_begin: is asked when the turn has come.

        Returns:
            Whether it is right; None if it might not begin.

        """
        await self._turn(address, user)
        if not may_begin():
            self._pass_on()
            return None
        loop = asyncio.get_running_loop()
        try:
            checking = loop.run_in_executor(self._threads, check)
        except BaseException:  # such as no thread for it: the turn is the next one's
            self._pass_on()
            raise
        # Not at once: who waits for this check notes a failure before the next one may begin.
        checking.add_done_callback(lambda _done: loop.call_soon(self._pass_on))
        is_right = await asyncio.shield(checking)
        if is_right:
            self._note_proved(address, user)
        return is_right

    async def _turn(self, address: str, user: str) -> None:
        if self._free:
            self._free -= 1
            return
        host = network_of(address)
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._waiting.put(host, turn, has_claim=(host, user) in self._proved)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it has come, and nobody takes it
                self._pass_on()
            raise

    def _note_proved(self, address: str, user: str) -> None:
        pair = (network_of(address), user)
        self._proved.pop(pair, None)
        self._proved[pair] = None
        if len(self._proved) > self._proved_max:
            del self._proved[next(iter(self._proved))]

    def _pass_on(self) -> None:
        while (turn := self._waiting.take()) is not None:
            if not turn.done():  # its client has not gone meanwhile
                turn.set_result(None)
                return
        self._free += 1


def _stand_back() -> None:
    """Lower the priority of this thread, and of those that argon2 begins in it, where it may be."""
    if sys.platform == "linux":  # elsewhere it would be that of the process
        with contextlib.suppress(PermissionError):  # a container may refuse the call
            os.nice(NICENESS)
