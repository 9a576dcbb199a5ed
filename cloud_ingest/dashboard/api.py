"""The answers of the dashboard, over aiohttp."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Final, TypeVar

from aiohttp import web

from cloud_ingest.dashboard import fleet_view, loss_view, sensors_view
from cloud_ingest.dashboard.acknowledging import NoteError, acknowledge, checked_note
from cloud_ingest.dashboard.asked import FARTHEST_MS, sensors, span_us
from cloud_ingest.dashboard.asked import number as _number
from cloud_ingest.dashboard.asked import text as _text
from cloud_ingest.dashboard.browsers import ListeningBrowsers
from cloud_ingest.dashboard.downloads import Downloads
from cloud_ingest.dashboard.entrance import THE_INGEST, Entrance
from cloud_ingest.dashboard.guarded import COOKIE, VISITOR, Hardening
from cloud_ingest.dashboard.map_tiles import MapTiles
from cloud_ingest.dashboard.models import Models
from cloud_ingest.dashboard.ready_response import ready_response
from cloud_ingest.dashboard.rollups import SensorSeries
from cloud_ingest.dashboard.shared_answers import AnswerKey, SharedAnswers, TooManyQuestionsError
from cloud_ingest.dashboard.together import together
from gateway.base import wall_clock
from gateway.trust.policy.action import NOWHERE, ActionPlace
from gateway.web.api_error import ApiError
from gateway.web.log_in import Token
from gateway.web.ready_answer import ReadyAnswer

READY: Final = ("fleet", "alerts", "gaps", "sensors", "moments")
WORK_MAX: Final = 64
"""Requests that wait for a thread; further ones are told to come later."""
HOURS_MAX: Final = 24 * 7
BEAT_S: Final = 15.0
BODY_S: Final = 10.0
_Result = TypeVar("_Result")


class Api:
    """The handlers.

    Args:
        models: what is shown.
        entrance: who may do what.
        browsers: who is told of changes.
        hardening: of each answer.
        tiles: that the map is drawn on; None for none.

    """

    def __init__(
        self,
        models: Models,
        entrance: Entrance,
        browsers: ListeningBrowsers,
        hardening: Hardening,
        tiles: MapTiles | None,
    ) -> None:
        self._models = models
        self._entrance = entrance
        self._browsers = browsers
        self._hardening = hardening
        self._tiles = tiles
        self._threads = ThreadPoolExecutor(2, "answers")
        self._downloads = Downloads(models, self._in_thread, hardening)
        self._answers = SharedAnswers(self._threads)
        self._writing = asyncio.Lock()
        self._waiting = 0

    def add_to(self, app: web.Application) -> None:
        """Add all routes, below ``/api/``."""
        for name in READY:
            app.router.add_get(f"/api/{name}", self._ready(name))
        for name in (
            *("me", "tables", "tiles", "gateway", "history", "current", "tree", "sensor"),
            *("together", "readings", "latency", "slowest", "events"),
        ):
            app.router.add_get(f"/api/{name}", getattr(self, name))
        for name in ("login", "logout", "acknowledge"):
            app.router.add_post(f"/api/{name}", getattr(self, name))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- reading -----------------------------------------------------------------------------------

    def _ready(self, name: str) -> Callable[[web.Request], Any]:
        async def handler(request: web.Request) -> web.Response:
            return ready_response(request, self._models.answers[name])

        return handler

    async def me(self, request: web.Request) -> web.Response:
        """Answer who asks, and what it may do."""
        now_s = asyncio.get_running_loop().time()
        visitor = self._entrance.door.visitor(request.cookies.get(COOKIE, ""), now_s)
        is_in = visitor is not None and self._entrance.may_read(visitor)
        return web.json_response(
            {
                "user": visitor.name if visitor else None,
                "is_in": is_in,
                "asks": self._entrance.door.asks,
                "may_acknowledge": visitor is not None and self._entrance.may_acknowledge(visitor),
            }
        )

    async def tables(self, _request: web.Request) -> web.Response:
        """Answer versions and age of tables, what can't be read, and what wants attention."""
        models = self._models
        return web.json_response(
            {
                "versions": dict(models.versions),
                "problems": dict(models.problems),
                "is_complete": models.is_complete,
                "standing": models.standing(wall_clock.now_ms()),
                "attention": models.attention,
            }
        )

    async def tiles(self, _request: web.Request) -> web.Response:
        """Answer where the map's tiles are; null where it has none."""
        told = None if self._tiles is None else asdict(self._tiles)
        return web.json_response({"tiles": told})

    async def gateway(self, request: web.Request) -> web.Response:
        """Answer ``gateway?name=``: all columns of one gateway's row; 404 without a row."""
        name = _text(request, "name")
        found = fleet_view.gateway(self._models.gateways, name)
        if found is None:
            raise ApiError(HTTPStatus.NOT_FOUND, f"name: there is no gateway {name!r}")
        return ready_response(request, ReadyAnswer.of(found))

    async def history(self, request: web.Request) -> web.Response:
        """Answer how a gateway was, by its statuses."""
        name, hours = _text(request, "gateway"), _number(request, "hours", 1, HOURS_MAX)
        known = self._models.history
        asked = self._asked("history", "telemetry", name, hours)
        return await self._kept(request, asked, lambda: known.of(name, hours))

    async def current(self, request: web.Request) -> web.Response:
        """Answer what the sensors of a gateway say now, or some, each named with its gateway."""
        gateway, models = _text(request, "gateway"), self._models
        found: Sequence[SensorSeries]
        if "sensor" in request.query:
            found = sensors(request, models.series)
            names: Sequence[str] = _names(found)
        else:
            found, names = models.series_of.get(gateway, ()), [gateway]
        return await self._kept(
            request,
            self._asked("current", "telemetry", *names),
            lambda: sensors_view.current(models.rollups, models.latest, found),
        )

    async def tree(self, request: web.Request) -> web.Response:
        """Answer the tree at a moment: as it was when it last changed before that."""
        tree = self._models.tree
        since_ms = tree.last_change_ms(_number(request, "time_ms", 0, FARTHEST_MS))
        asked = self._asked("tree", "topology", since_ms)
        return await self._kept(request, asked, lambda: tree.at(since_ms))

    async def sensor(self, request: web.Request) -> web.Response:
        """Answer the readings of a sensor."""
        series = sensors(request, self._models.series)
        if len(series) > 1:
            raise ApiError(HTTPStatus.BAD_REQUEST, "sensor: one alone; ask /api/together for more")
        start, end = span_us(request)
        points = _number(request, "points", 2, sensors_view.POINTS_MAX)
        rollups = self._models.rollups
        return await self._kept(
            request,
            self._asked("sensor", "telemetry", *_names(series), start, end, points),
            lambda: sensors_view.window(rollups, series[0], start, end, points),
        )

    async def together(self, request: web.Request) -> web.Response:
        """Answer the readings of several sensors, on one grid of time."""
        series = sensors(request, self._models.series)
        start, end = span_us(request)
        points = _number(request, "points", 2, sensors_view.POINTS_MAX)
        rollups = self._models.rollups
        return await self._kept(
            request,
            self._asked("together", "telemetry", *_names(series), start, end, points),
            lambda: together(rollups, series, start, end, points),
        )

    async def readings(self, request: web.Request) -> web.StreamResponse:
        """Send readings as a file, for as long as the visitor may see them."""
        return await self._downloads.answer(request, lambda: self._may_read(request))

    async def latency(self, request: web.Request) -> web.Response:
        """Answer how long messages took, of all gateways or of one."""
        hours = _number(request, "hours", 1, HOURS_MAX)
        gateway = request.query.get("gateway")
        rollups = self._models.rollups
        asked = self._asked("latency", "latency", hours, gateway)
        return await self._kept(request, asked, lambda: loss_view.latency(rollups, hours, gateway))

    async def slowest(self, request: web.Request) -> web.Response:
        """Answer the gateways whose messages took longest."""
        hours = _number(request, "hours", 1, HOURS_MAX)
        rollups = self._models.rollups
        asked = self._asked("slowest", "latency", hours)
        return await self._kept(request, asked, lambda: loss_view.slowest(rollups, hours))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send which tables changed, as events, for as long as the visitor may see them."""
        listening = self._browsers.come(str(request[VISITOR]), lambda: _is_gone(request))
        if listening is None:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too many browsers listen already")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._hardening.apply(answer)
        try:
            await answer.prepare(request)
            await answer.write(b"retry: 3000\n: connected\n\n")
            while self._may_read(request):
                told = await listening.next(BEAT_S)
                line = f"event: tables\ndata: {json.dumps(told)}\n\n" if told else ": beat\n\n"
                await answer.write(line.encode())
        except ConnectionError:
            pass  # it has gone
        finally:
            self._browsers.go(listening)
        return answer

    def _may_read(self, request: web.Request) -> bool:
        now_s = asyncio.get_running_loop().time()
        visitor = self._entrance.door.visitor(request.cookies.get(COOKIE, ""), now_s)
        return visitor is not None and self._entrance.may_read(visitor)

    def _asked(self, name: str, table: str, *parts: str | int | None) -> AnswerKey:
        """Say what is asked, of the table as it is now."""
        return (name, self._models.changes[table], *parts)

    async def _kept(
        self, request: web.Request, asked: AnswerKey, work: Callable[[], Any]
    ) -> web.Response:
        try:
            answer = await self._answers.answer(asked, lambda: ReadyAnswer.of(work()))
        except TooManyQuestionsError as error:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}; try again") from error
        return ready_response(request, answer)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        if self._waiting >= WORK_MAX:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests; try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    # -- changing ----------------------------------------------------------------------------------

    async def login(self, request: web.Request) -> web.Response:
        """Log in with user and password."""
        address = request.remote or ""
        try:
            body = await _body(request)
            user, password = _field(body, "user"), _field(body, "password")
        except ApiError:
            self._entrance.door.failed(address)
            raise
        done = await self._entrance.door.log_in(user, password.encode(), address)
        if not isinstance(done, Token):
            raise ApiError(*_NOT_LOGGED_IN[done])
        answer = web.json_response({})
        answer.set_cookie(
            COOKIE,
            done.text,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=self._hardening.is_secure,
        )
        return answer

    async def logout(self, request: web.Request) -> web.Response:
        """Log out."""
        self._entrance.door.log_out(request.cookies.get(COOKIE, ""))
        answer = web.json_response({})
        answer.del_cookie(COOKIE, path="/")
        return answer

    async def acknowledge(self, request: web.Request) -> web.Response:
        """Say something to an alert."""
        body = await _body(request)
        alert = _field(body, "alert")
        try:
            note = checked_note(_field(body, "note"))
        except NoteError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, str(error)) from error
        visitor, alerts = request[VISITOR], self._models.alerts
        if alert not in alerts["alert"]:
            raise ApiError(HTTPStatus.NOT_FOUND, f"alert: there is no {alert[:200]!r}")
        gateway = alerts["gateway"][alerts["alert"].index(alert)] or ""
        places = [place if place != NOWHERE else "" for place in self._models.place(gateway)]
        where = ActionPlace(gateway, places[0], places[1]) if gateway else THE_INGEST
        if not self._entrance.may_acknowledge(visitor, where):
            raise ApiError(HTTPStatus.FORBIDDEN, "the policy does not let you acknowledge this")
        now = datetime.datetime.now(datetime.UTC)
        lake = self._models.lake
        async with self._writing:
            await self._in_thread(lambda: acknowledge(lake, alert, str(visitor), note, now))
        return web.json_response({})


_NOT_LOGGED_IN: Final = {
    "wrong": (HTTPStatus.UNAUTHORIZED, "user or password is wrong"),
    "later": (HTTPStatus.TOO_MANY_REQUESTS, "too many attempts; wait ten seconds"),
    "forbidden": (HTTPStatus.FORBIDDEN, "the policy does not let you see the dashboard"),
}


def _names(found: Sequence[SensorSeries]) -> list[str]:
    return [name for each in found for name in (each.gateway, each.sensor)]


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        async with asyncio.timeout(BODY_S):
            data = await request.read()
    except TimeoutError as error:
        raise ApiError(HTTPStatus.REQUEST_TIMEOUT, "the body does not come") from error
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is not JSON") from error
    if not isinstance(found, dict):
        raise ApiError(HTTPStatus.BAD_REQUEST, "the body is no object")
    return found


def _field(body: dict[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str) or not _is_utf8(found):
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: missing, or no text")
    return found


def _is_utf8(text: str) -> bool:
    """Return whether it has no half of a surrogate pair, which JSON can say and nothing else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
