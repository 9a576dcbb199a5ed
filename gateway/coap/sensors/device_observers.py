"""Observers of what devices handle (RFC 7641): told when a device says it has changed.

A change is told at once, and the next one no sooner than `CHANGED_S` later, however often the
device says it: what changed meanwhile is told once, as it is then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse, Option
from gateway.base.event_log.counted_lines import CountedLines
from gateway.base.event_log.failures import Failures
from gateway.coap.responders import RespondTo
from gateway.coap.sensors.handler_calls import ServedDevice, is_busy
from gateway.coap.told_in_turns import ToldInTurns

CHANGED_S: Final = 0.1

_Key = tuple[ServedDevice, str]
"""A device, and the name of its child resource; empty for the device itself."""
Render = Callable[[ServedDevice, str, CoapRequest], Awaitable[CoapResponse]]
"""Has a GET or a FETCH answered for all who observe with the same options and body."""
_Asked = tuple[int, tuple[Option, ...], bytes]
"""The method, the options and the body of a request (RFC 8132, section 2.4)."""

_log = logging.getLogger(__name__)
_REMOVED: Final = CoapResponse(codes.NOT_FOUND, (), b"removed")


class DeviceObservers:
    """Tells them.

    Args:
        render: answers what they asked for, anew.

    """

    def __init__(self, render: Render) -> None:
        self._render = render
        self._observed: dict[_Key, dict[_Asked, dict[int, RespondTo]]] = {}
        self._of_exchange: dict[int, tuple[_Key, _Asked]] = {}
        self._changed: set[_Key] = set()
        self._telling: dict[_Key, asyncio.Task[None]] = {}
        self._failures = Failures(CountedLines(_log, time.monotonic))
        self._in_turns = ToldInTurns(self._failed)

    def __len__(self) -> int:
        return len(self._of_exchange)

    def observe(self, key: _Key, exchange: int, request: CoapRequest, respond: RespondTo) -> None:
        """Tell one more from now on."""
        asked = request.code, request.options, request.payload
        self._observed.setdefault(key, {}).setdefault(asked, {})[exchange] = respond
        self._of_exchange[exchange] = key, asked

    def ended(self, exchange: int) -> None:
        """Tell one less; nothing if it is none."""
        self._in_turns.forget(exchange)
        if (found := self._of_exchange.pop(exchange, None)) is None:
            return
        key, asked = found
        of_key = self._observed[key]
        del of_key[asked][exchange]
        if not of_key[asked]:
            del of_key[asked]
        if not of_key:
            del self._observed[key]

    def changed(self, key: _Key, read: Callable[[], bool] | None = None) -> None:
        """Something says that it has changed.

        Args:
            key: what.
            read: does what there is to do about it beside; False if it is to be done again later.

        """
        self._changed.add(key)
        if key not in self._telling:
            task = asyncio.create_task(self._tell(key, read), name="tell of a device's change")
            self._telling[key] = task
            task.add_done_callback(lambda _: self._told(key, read))

    def removed(self, key: _Key) -> None:
        """Something is served no more: who observes it is told so."""
        self._changed.discard(key)
        for exchanges in self._observed.pop(key, {}).values():
            for exchange, respond in exchanges.items():
                del self._of_exchange[exchange]
                self._in_turns.add(exchange, respond, _REMOVED, is_last=True)
        self._in_turns.go_on()

    async def stop(self) -> None:
        """Tell nobody any more."""
        self._changed.clear()
        for task in (tasks := list(self._telling.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _told(self, key: _Key, read: Callable[[], bool] | None) -> None:
        self._telling.pop(key, None)
        if key in self._changed:
            self.changed(key, read)

    async def _tell(self, key: _Key, read: Callable[[], bool] | None) -> None:
        try:
            self._changed.discard(key)
            if read is not None and not read():
                self._changed.add(key)
            for asked in list(self._observed.get(key, ())):
                await self._tell_some(key, asked)
        except Exception as failure:  # it is told, and the next change is told all the same
            self._failures.failed("tell of a device's change", failure, key[0].sensor.name)
        await asyncio.sleep(CHANGED_S)

    async def _tell_some(self, key: _Key, asked: _Asked) -> None:
        request = CoapRequest(*asked)
        response = await self._render(*key, request)
        if is_busy(response):  # all of them wait for the next time
            self._changed.add(key)
            return
        is_last = not codes.is_success(response.code)  # it ends so (RFC 7641, section 4.2)
        exchanges = self._observed.get(key, {}).get(asked, {})
        for exchange, respond in list(exchanges.items()):
            if is_last:
                self.ended(exchange)
            self._in_turns.add(exchange, respond, response, is_last=is_last)
        self._in_turns.go_on()

    def _failed(self, error: Exception, exchange: int) -> None:
        self._failures.failed("tell an observer of a device", error, str(exchange))
