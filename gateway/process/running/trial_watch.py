"""Watches a gateway whose configuration is on trial: it comes up in time, or starts anew without.

The time runs in a thread, which a start or an event loop that hangs does not stop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gateway.process.config_trials.judge import ConfigJudge
from gateway.process.configuration.config import GatewaySettings

AGAIN_S: Final = 1.0
"""Between two questions to the gateway's listeners."""

_log = logging.getLogger(__name__)


def own_complaints(file: Path) -> Sequence[str]:
    """Ask each listener of the gateway of a configuration once; return what does not answer."""
    from gateway.releases.asking import OwnListeners  # noqa: PLC0415  # while one is on trial

    return OwnListeners(file, 0.0).complaints(())


class TrialWatch:
    """Has a judge hear what the gateway does.

    Args:
        judge: of its configuration.
        restart: starts the gateway anew, by what the judge then says.
        complaints: asks the listeners of the gateway of a configuration, and may take its time.

    """

    def __init__(
        self,
        judge: ConfigJudge[GatewaySettings],
        restart: Callable[[], object],
        complaints: Callable[[Path], Sequence[str]] = own_complaints,
    ) -> None:
        self._judge = judge
        self._restart = restart
        self._complaints = complaints
        self._judging = threading.Lock()
        self._last: Sequence[str] = ()
        self._timer: threading.Timer | None = None

    def at_start(self) -> GatewaySettings:
        """Read the configuration for a start; see `ConfigJudge.at_start`."""
        settings = self._judge.at_start()
        self._begin()
        return settings

    def at_reload(self) -> GatewaySettings:
        """Read it for a reload; see `ConfigJudge.at_reload`."""
        settings = self._judge.at_reload()
        self._begin()
        return settings

    def fails(self, why: str) -> bool:
        """Note that the gateway does not start, or take over what it has read.

        Args:
            why: what keeps it from that.

        Returns:
            Whether it goes by another configuration at its next start.

        """
        with self._judging:
            self._cancel()
            return self._judge.send_back(why)

    async def come_up(self) -> None:
        """Ask the listeners until all answer, while a configuration is on trial."""
        while self._judge.within_s is not None:
            complaints = await asyncio.to_thread(self._complaints, self._judge.file)
            with self._judging:
                if self._judge.judge(complaints):
                    self._cancel()
                    _log.info("the new configuration stays: all listeners answer")
                    return
                self._last = complaints
            await asyncio.sleep(AGAIN_S)

    def _begin(self) -> None:
        self._cancel()
        self._last = ()
        if (within_s := self._judge.within_s) is not None:
            self._timer = threading.Timer(within_s, self._is_over, (within_s,))
            self._timer.daemon = True
            self._timer.start()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_over(self, within_s: float) -> None:
        why = "; ".join(self._last) or "it did not start"
        with self._judging:
            has_way_back = self._judge.send_back(f"not up within {within_s:g} s: {why}")
        if has_way_back:
            self._restart()
