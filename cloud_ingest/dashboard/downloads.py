"""Files of readings, sent as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from cloud_ingest.dashboard import asked, readings_file
from cloud_ingest.dashboard.guarded import Hardening
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.readings_file import (
    CONTENT_TYPES,
    FORMS,
    TooManyReadingsError,
    WantedReadings,
)
from cloud_ingest.query.lake import LakeError
from gateway.web.api_error import ApiError

AT_ONCE: Final = 2
PIECE_S: Final = 30.0
"""A connection that takes longer for a piece, or some piece's last bytes, is closed."""

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


class Downloads:
    """Answers ``/api/readings``.

    Args:
        models: what is shown.
        in_thread: runs what takes long.
        hardening: of each answer.

    """

    def __init__(self, models: Models, in_thread: InThread, hardening: Hardening) -> None:
        self._models = models
        self._in_thread = in_thread
        self._hardening = hardening
        self._running = 0

    async def answer(
        self, request: web.Request, may_go_on: Callable[[], bool]
    ) -> web.StreamResponse:
        """Send the readings of some sensors as a file.

        Args:
            request: its query has ``gateway`` and ``sensor`` once or several times, ``start_ms``,
                ``end_ms`` and ``form``.
            may_go_on: whether who asks may still read; it is asked before each piece.

        """
        series = asked.sensors(request, self._models.series)
        wanted = WantedReadings(series, *asked.span_us(request))
        form = next((each for each in FORMS if each == request.query.get("form")), None)
        if form is None:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"form: none of {', '.join(FORMS)}")
        if self._running >= AT_ONCE:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too many downloads; try again")
        self._running += 1
        try:
            rollups = self._models.rollups
            try:
                found = await self._in_thread(lambda: readings_file.pieces(rollups, wanted, form))
            except TooManyReadingsError as error:
                raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from error
            answer = web.StreamResponse(
                headers={
                    "Content-Type": CONTENT_TYPES[form],
                    "Content-Disposition": f'attachment; filename="readings.{form}"',
                }
            )
            self._hardening.apply(answer)
            await self._send(request, answer, found, may_go_on)
            return answer
        finally:
            self._running -= 1

    async def _send(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        found: Iterator[bytes],
        may_go_on: Callable[[], bool],
    ) -> None:
        """Send it; what does not come to its end is cut off, so that nobody takes it for whole."""
        piece = await self._piece(found)  # before the head: what fails now is answered as an error
        is_whole = False
        try:
            await answer.prepare(request)
            while piece is not None and may_go_on():
                async with asyncio.timeout(PIECE_S):
                    await answer.write(piece)
                piece = await self._piece(found)
            is_whole = piece is None
            if is_whole:
                async with asyncio.timeout(PIECE_S):
                    await answer.write_eof()
        except (TimeoutError, ConnectionError, LakeError, TooManyReadingsError, ApiError):
            is_whole = False
        finally:
            if not is_whole and request.transport is not None:
                request.transport.abort()

    async def _piece(self, found: Iterator[bytes]) -> bytes | None:
        made: bytes | None = await self._in_thread(lambda: next(found, None))
        return made
