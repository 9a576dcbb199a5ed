"""Asks gateways what `hedgerow top` shows."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, Self

from gateway.coap_client import ClientError, CoapClient, NoAnswerError, Response
from gateway.process.status.tree_view import collect
from gateway.tools.commands.asking import client_for, gateway_uri, json_in
from gateway.tools.commands.errors import FailedError
from gateway.tools.top.fleet_sample import FleetAnswers
from gateway.tools.top.live import NotToldError
from gateway.tools.top.sample import GatewayAnswers
from gateway.tools.top.top_view import ALERTS, CLIENTS, LOG, SENSORS
from light_dataclasses import dataclass

CLIENTS_SHOWN: Final = 50
SELDOM_S: Final = 5.0
"""Sensors and alerts are asked for no more often than that: they may be long."""
_JSON: Final = 50
_WHY: Final = {
    "4.01": "not told without a key (--psk-file)",
    "4.03": "not told to this key",
    "4.04": "it tells of none",
}
"""The meaning of a code here."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The log of the gateway that is asked.

    Attributes:
        lines: gives its last lines.
        trouble: gives why there are none; empty if there is no reason.

    """

    lines: Callable[[], Sequence[str]]
    trouble: Callable[[], str]


class TopAsker:
    """One gateway, asked again and again by one client, which is made anew after a failure.

    Args:
        options: of the command line; they name it.
        log: of the gateway; None where it can't be read from here.

    """

    def __init__(self, options: argparse.Namespace, log: LogEnd | None = None) -> None:
        self._options = options
        self._log = log
        self._uri = ""
        self._client: CoapClient | None = None
        self._seldom: dict[str, Any] = {}
        self._seldom_trouble: dict[str, str] = {}
        self._seldom_at_s: float | None = None

    async def __aenter__(self) -> Self:
        """Return itself; nothing is asked yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Close its client."""
        await self._close()

    async def ask(self) -> GatewayAnswers:
        """Ask for all that is shown.

        Raises:
            NotToldError: there is no status.

        """
        status = await self._status()
        trouble = dict[str, str]()
        path = f"/clients?by=traffic&count={CLIENTS_SHOWN}"
        clients = await self._part(CLIENTS, path, trouble)
        await self._ask_seldom()
        log: Sequence[str] = ()
        why = "it is read on its own machine alone (`hedgerow logs`)"
        if self._log is not None:
            log, why = tuple(self._log.lines()), self._log.trouble()
        return GatewayAnswers(
            at_s=time.monotonic(),
            time_s=time.time(),
            status=status,
            clients=clients,
            sensors=self._seldom.get(SENSORS),
            alerts=self._seldom.get(ALERTS),
            log=log,
            trouble={**trouble, **self._seldom_trouble, **({LOG: why} if why else {})},
        )

    async def fleet(self) -> FleetAnswers:
        """Ask for the status of all gateways that it knows.

        Raises:
            NotToldError: it does not tell its own.

        """

        async def one(path: str) -> Response:
            return await self._request(path)

        try:
            view = await collect(one)
        except (ClientError, FailedError) as error:
            await self._close()
            raise NotToldError(str(error)) from error
        return FleetAnswers(time.monotonic(), time.time(), view.gateways, view.silent)

    async def _status(self) -> Any:
        try:
            return json_in(await self._request("/status"))
        except (ClientError, FailedError) as error:
            await self._close()
            raise NotToldError(str(error)) from error

    async def _ask_seldom(self) -> None:
        now_s = time.monotonic()
        if self._seldom_at_s is not None and now_s - self._seldom_at_s < SELDOM_S:
            return
        self._seldom_at_s = now_s
        trouble = dict[str, str]()
        found = {}
        for name in (SENSORS, ALERTS):
            found[name] = await self._part(name, f"/{name}", trouble)
        self._seldom = found
        self._seldom_trouble = trouble

    async def _part(self, name: str, path: str, trouble: dict[str, str]) -> Any:
        """Return what stands at a path; None if it is not told, and why under its name."""
        try:
            answer = await self._request(path, _JSON)
            if answer.code in _WHY:
                trouble[name] = _WHY[answer.code]
                return None
            return json_in(answer)
        except (ClientError, FailedError) as error:
            if isinstance(error, NoAnswerError):  # one that it leaves open keeps up the next
                await self._drop_client()
            trouble[name] = str(error)
            return None

    async def _request(self, path: str, accept: int | None = None) -> Response:
        if self._client is None:
            self._uri = gateway_uri(self._options)
            self._client = client_for(self._options, self._uri)
        uri = self._uri + path
        timeout_s: float = self._options.timeout
        return await self._client.request("GET", uri, accept=accept, timeout_s=timeout_s)

    async def _close(self) -> None:
        """The next request finds the gateway anew: it may be at another port by then."""
        self._seldom_at_s = None
        await self._drop_client()

    async def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
