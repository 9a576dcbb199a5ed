"""The enrolment service: HTTP over TLS 1.3 on the machine that has the authority's folder.

It shows a certificate with the role ``enrolment``, which the authority issues for it alone, and in
a roll-over that of the authority before: gateways that have not heard of the new one trust that.
Connections, the size of a request and the time for all of it are bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11

from gateway.base.watched_tasks import WatchedTasks
from gateway.trust.certificates import authority_folder as files
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority, AuthorityError, ends_within
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.desk import Asker, EnrolmentDesk, RefusedRequestError
from gateway.trust.shares.connection_room import ConnectionRoom, ConnectionStage
from gateway.trust.shares.failed_attempts import network_of
from light_dataclasses import dataclass

NAME = "enrolment"
DAYS = 90
RENEWED_DAYS_BEFORE = 30
CONNECTIONS_MAX = 64
CONNECTIONS_PER_ADDRESS = 8
"""The most connections of an address; one that says nothing makes room for others."""
LINES_MAX = 200
"""Read before the request is; a body in JSON that comes with it has few."""
TIME_S = 15.0
"""From the connection to the last byte of the answer."""
LOOK_S = 2.0
"""The interval between looks whether the authority's files have changed."""
LOOK_CLOSELY_S = 3600.0
"""The interval at which they are read though unchanged: certificates and lists end."""
_READ_BYTES = 16_384

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stamp:
    """The content of the files that the service's TLS depends on."""

    authorities: bytes
    revoked: bytes
    certificate: bytes


class _Visit:
    """A connection, from when it is taken."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.standing = ConnectionStage.SILENT
        self._task: asyncio.Task[None] | None = None

    def begun(self, task: asyncio.Task[None], ended: Callable[[_Visit], None]) -> None:
        """It is served, which closes it; ``ended`` is told when it is no more."""
        self._task = task
        task.add_done_callback(lambda _: ended(self))

    def end(self) -> None:
        """Serve it no more."""
        if self._task is None:
            self.connection.close()
        else:
            self._task.get_loop().call_soon(self._task.cancel)  # not before it has begun


class EnrolmentService:
    """The service.

    Args:
        authority: which issues.
        desk: answers.

    """

    def __init__(self, authority: Authority, desk: EnrolmentDesk) -> None:
        self._authority = authority
        self._desk = desk
        self._room: ConnectionRoom[_Visit] = ConnectionRoom(
            CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS, lambda one: one.standing
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched = WatchedTasks()
        self._socket: socket.socket | None = None
        self._stamp: _Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._last_seen: list[int] = []
        self._look_again_s = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def start(self, host: str, port: int) -> int:
        """Listen.

        Args:
            host: an address of this machine.
            port: 0 takes a free one.

        Returns:
            The port that is listened on.

        Raises:
            AuthorityError: the authority's files can't be used.
            OSError: the address is in use or not this machine's, or a file can't be read.

        """
        await self._look()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = listening = socket.create_server(
            (host, port), family=family, backlog=CONNECTIONS_MAX
        )
        listening.setblocking(False)
        self._watched.start("authority's files", self._follow)
        self._watched.start("enrolment", partial(self._accept, listening))
        return int(listening.getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        await self._watched.stop()
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        """Take connections; a handshake begins only where there is room for it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (host, *_) = await loop.sock_accept(listening)
            except OSError as error:  # no more descriptors, for a while
                _log.error("no connection is taken: %s", error)
                await asyncio.sleep(LOOK_S)
                continue
            visit, context = _Visit(connection), self._context
            going = self._room.opened(visit, network_of(host))
            for one in going:
                one.end()
            if visit not in going and context is not None:
                visit.begun(self._begin(self._serve(visit, context)), self._room.closed)
            elif visit not in going:
                self._room.closed(visit)
                visit.end()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except (AuthorityError, OSError) as error:
                _log.error("the authority's files: %s", error)

    async def _look(self) -> None:
        """Go by what the files say now, in connections that come from now on."""
        now_s, seen = asyncio.get_running_loop().time(), self._seen()
        if seen == self._last_seen and now_s < self._look_again_s:
            return
        stamp = await asyncio.to_thread(self._prepared)
        if stamp != self._stamp:
            self._context = _context(self._authority.folder)
            self._stamp = stamp
        # As they were before: what changed while they were read is read by the next look.
        self._last_seen, self._look_again_s = seen, now_s + LOOK_CLOSELY_S

    def _seen(self) -> list[int]:
        """Return what tells that files have changed."""
        folder = self._authority.folder
        names = (files.CA, files.INDEX, files.REVOKED)
        return [(folder / name).stat().st_mtime_ns for name in names if (folder / name).exists()]

    def _prepared(self) -> _Stamp:
        """Renew the service's own certificate and the lists, unless they are good for a while."""
        folder = self._authority.folder
        if files.lists_are_behind(folder, files.read_index(folder)):
            self._authority.revoke()
        oldest = forms.common_name(self._authority.vouching().subject)
        found = [one for one in self._authority.issued() if one.name == NAME][-1:]
        is_good = (
            bool(found)
            and found[0].is_service
            and found[0].is_valid(forms.now())
            and not ends_within(found[0], RENEWED_DAYS_BEFORE)
            and found[0].issuer == oldest
            and (folder / f"{NAME}.key.pem").exists()
        )
        if not is_good:
            self._authority.issue(NAME, roles=(forms.ENROLMENT,), days=DAYS, is_oldest=True)
        with files.locked(folder):
            names = (files.CA, files.REVOKED, f"{NAME}.pem")
            return _Stamp(*((folder / name).read_bytes() for name in names))

    async def _serve(self, visit: _Visit, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(TIME_S):
                transport, _ = await loop.connect_accepted_socket(
                    lambda: protocol, visit.connection, ssl=context
                )
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                await self._exchange(reader, writer, visit)
        except (TimeoutError, OSError, h11.ProtocolError):
            pass
        finally:
            if transport is None:
                visit.connection.close()
            else:
                transport.abort()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: _Visit
    ) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=requests.BODY_BYTES_MAX)
        try:
            request, body = await _request(http, reader)
            visit.standing = ConnectionStage.ASKING
            peer = writer.get_extra_info("ssl_object")
            asker = Asker(
                writer.get_extra_info("peername")[0],
                None if peer is None else peer.getpeercert(binary_form=True),
            )
            path = request.target.partition(b"?")[0].decode("latin-1")
            async with self._one_at_a_time:
                found = await asyncio.to_thread(
                    self._desk.answer, request.method.decode(), path, body, asker
                )
            status, document = HTTPStatus.OK, dict(found.as_json())
        except RefusedRequestError as error:
            status, document = error.status, {"error": str(error)}
        except h11.RemoteProtocolError as error:
            status, document = HTTPStatus(error.error_status_hint), {"error": "malformed request"}
        except (AuthorityError, OSError) as error:
            _log.error("the authority's files: %s", error)
            status, document = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "see the service's log"}
        data = json.dumps(document).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()),
            h11.Data(data),
            h11.EndOfMessage(),
        ):
            writer.write(http.send(event) or b"")
        await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> tuple[h11.Request, bytes]:
    request: h11.Request | None = None
    body, lines = bytearray(), 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(_READ_BYTES)
            lines += 0 if request else data.count(b"\n")
            if lines > LINES_MAX:
                raise RefusedRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long")
            http.receive_data(data)
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > requests.BODY_BYTES_MAX:
                raise RefusedRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long")
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(body)
        else:
            raise ConnectionResetError  # it left before all was there


def _context(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a resumed session would bring a revoked certificate back
    context.load_cert_chain(folder / f"{NAME}.pem", folder / f"{NAME}.key.pem", password="")
    context.load_verify_locations(folder / files.CA)
    context.load_verify_locations(folder / files.REVOKED)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
