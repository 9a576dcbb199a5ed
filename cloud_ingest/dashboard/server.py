"""The dashboard's server: pages, answers, and the task that follows the tables."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from cloud_ingest.dashboard.api import Api
from cloud_ingest.dashboard.browsers import ListeningBrowsers
from cloud_ingest.dashboard.connections import BrowserConnections
from cloud_ingest.dashboard.entrance import Entrance
from cloud_ingest.dashboard.guarded import Hardening, guard
from cloud_ingest.dashboard.map_tiles import MapTiles
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.page_files import served_files
from cloud_ingest.dashboard.ready_response import ready_response
from gateway.web.page_files import content_type
from gateway.web.ready_answer import ReadyAnswer

BODY_BYTES_MAX: Final = 16 * 1024
FOLLOW_S: Final = 1.0
"""The interval between looks at the tables."""
KEEP_ALIVE_S: Final = 30.0
END_S: Final = 1.0

_log = logging.getLogger(__name__)


class Server:
    """Serves one lake.

    Args:
        models: what is shown.
        entrance: who may see it.
        tls: for HTTPS; None for HTTP.
        tiles: that the map is drawn on; None for none.

    """

    def __init__(
        self,
        models: Models,
        entrance: Entrance,
        tls: ssl.SSLContext | None,
        tiles: MapTiles | None = None,
    ) -> None:
        hardening = Hardening(tls is not None, "" if tiles is None else tiles.source)
        self._models = models
        self.browsers = ListeningBrowsers()
        """The browsers that are told of changes."""
        self._api = Api(models, entrance, self.browsers, hardening, tiles)
        app = web.Application(
            middlewares=[guard(entrance, hardening)], client_max_size=BODY_BYTES_MAX
        )
        self._api.add_to(app)
        files = served_files()
        for path, body in files.items():
            app.router.add_get(f"/{path}", _page(path, body))
        app.router.add_get("/", _page("index.html", files["index.html"]))
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEEP_ALIVE_S, shutdown_timeout=END_S
        )
        self._connections = BrowserConnections(tls)
        self._server: asyncio.Server | None = None
        self._following: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and begin to follow the tables.

        Args:
            host: an address of this machine.
            port: 0 takes a free one.

        Returns:
            the port that is listened on.

        Raises:
            OSError: the address is in use or not this machine's.

        """
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(self._accept, host, port)
        self._following = asyncio.create_task(self._follow())
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more and end what is under way."""
        if self._server is not None:
            self._server.close()
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        await self._runner.cleanup()
        self._api.close()

    def _accept(self) -> asyncio.Protocol:
        serving = self._runner.server
        return _Refused() if serving is None else self._connections.accept(serving())

    async def _follow(self) -> None:
        while True:
            try:
                changed = await asyncio.to_thread(self._models.refresh)
                if changed:
                    self.browsers.tell(changed)
            except Exception:
                _log.exception("the tables could not be looked at, or browsers not be told")
            # A first look at a year of readings goes on without a pause, day by day.
            await asyncio.sleep(FOLLOW_S if self._models.is_complete else 0)


class _Refused(asyncio.Protocol):
    """A connection that came when the server had ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _page(path: str, body: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    answer, kind = ReadyAnswer.of_bytes(body), content_type(path)

    async def handler(request: web.Request) -> web.Response:
        return ready_response(request, answer, kind, "no-cache")

    return handler
