"""`hedgerow top` asks by one client for all that it shows, and seldom for what may be long."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import pytest

from gateway.coap_client import ClientError, NoAnswerError, Response, UnreachableError
from gateway.tools.commands import top_answers
from gateway.tools.commands.top_answers import LogEnd, TopAsker
from gateway.tools.top.live import NotToldError

BUSIEST = "/clients?by=traffic&count=50"
ALL = ["/status", BUSIEST, "/sensors", "/alerts"]
OFTEN = ALL[:2]
NOT_HERE = "it is read on its own machine alone (`hedgerow logs`)"


def told(document: object, code: str = "2.05") -> Response:
    return Response(code, json.dumps(document).encode(), 50)


class Asked:
    """A gateway that answers its paths, each time as the test says.

    Attributes:
        paths: the answers.
        asked: the paths, each with the content format that is asked for.
        made: how many clients were made.
        closed: how many of them were closed.

    """

    def __init__(self) -> None:
        self.paths: dict[str, Response | ClientError] = {path: told({path: 1}) for path in ALL}
        self.asked: list[tuple[str, int | None]] = []
        self.made = self.closed = 0

    def client_for(self, *_: object) -> Asked:
        self.made += 1
        return self

    async def request(
        self, method: str, uri: str, *, accept: int | None, timeout_s: float
    ) -> Response:
        assert (method, uri[:9], timeout_s) == ("GET", "coap://gw", 3.0)
        self.asked.append((uri[9:], accept))
        answer = self.paths[uri[9:]]
        if isinstance(answer, ClientError):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed += 1

    def taken(self) -> list[str]:
        """The paths that were asked for since the last call."""
        paths = [path for path, _ in self.asked]
        self.asked.clear()
        return paths


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(top_answers, "client_for", made.client_for)
    monkeypatch.setattr(top_answers, "gateway_uri", lambda _: "coap://gw")
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


OPTIONS = argparse.Namespace(timeout=3.0)


async def test_sensors_and_alerts_are_asked_for_every_five_seconds_at_most(
    gateway: Asked, clock: list[float]
) -> None:
    async with TopAsker(OPTIONS) as asker:
        for at_s, paths in ((0.0, ALL), (4.75, OFTEN), (5.0, ALL), (9.75, OFTEN), (10.0, ALL)):
            clock[0] = at_s
            answers = await asker.ask()
            assert gateway.taken() == paths
            assert (answers.at_s, answers.status) == (at_s, {"/status": 1})
            assert (answers.clients, answers.sensors) == ({BUSIEST: 1}, {"/sensors": 1})
            assert (answers.alerts, answers.trouble) == ({"/alerts": 1}, {"log": NOT_HERE})
        assert (gateway.made, gateway.closed) == (1, 0)
    assert gateway.closed == 1


async def test_documents_are_asked_for_in_json(gateway: Asked, clock: list[float]) -> None:
    assert clock == [0.0]
    async with TopAsker(OPTIONS) as asker:
        await asker.ask()
    assert gateway.asked == [("/status", None), *((path, 50) for path in ALL[1:])]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (told("", "4.01"), "not told without a key (--psk-file)"),
        (told("", "4.03"), "not told to this key"),
        (told("", "4.04"), "it tells of none"),
        (Response("5.00", b"stuck", None), "5.00 stuck"),
        (Response("2.05", b"[", 50), "its answer is no JSON that can be read: is that a gateway?"),
        (UnreachableError("nobody listens"), "nobody listens"),
        (NoAnswerError("no answer"), "no answer"),
    ],
)
async def test_what_is_not_told_says_why_until_it_is_asked_for_again(
    answer: Response | ClientError, why: str, gateway: Asked, clock: list[float]
) -> None:
    gateway.paths["/sensors"] = gateway.paths[BUSIEST] = answer
    async with TopAsker(OPTIONS) as asker:
        for at_s in (0.0, 4.0):
            clock[0] = at_s
            found = await asker.ask()
            assert (found.clients, found.sensors, found.alerts) == (None, None, {"/alerts": 1})
            assert found.trouble == {"clients": why, "sensors": why, "log": NOT_HERE}
        gateway.paths |= {path: told({path: 2}) for path in ALL}
        clock[0] = 5.0
        found = await asker.ask()
        assert (found.sensors, found.trouble) == ({"/sensors": 2}, {"log": NOT_HERE})
    # One that leaves a question open would keep up the next: of three such, three are made anew.
    late = 3 if isinstance(answer, NoAnswerError) else 0
    assert (gateway.made, gateway.closed) == (1 + late, 1 + late)


@pytest.mark.parametrize("answer", [UnreachableError("gone"), Response("5.00", b"gone", None)])
async def test_without_a_status_all_is_asked_for_anew_and_the_gateway_found_again(
    answer: Response | ClientError, gateway: Asked, clock: list[float]
) -> None:
    async with TopAsker(OPTIONS) as asker:
        await asker.ask()
        gateway.taken()
        gateway.paths["/status"] = answer
        clock[0] = 1.0
        with pytest.raises(NotToldError, match="gone"):
            await asker.ask()
        assert (gateway.taken(), gateway.closed) == (["/status"], 1)
        gateway.paths["/status"] = told({"up": 1})
        assert (await asker.ask()).status == {"up": 1}
        assert gateway.taken() == ALL, "it may have been another one's"
        assert gateway.made == 2


@pytest.mark.parametrize(("trouble", "told_of"), [("", {}), ("it is gone", {"log": "it is gone"})])
async def test_the_log_is_what_was_read_of_it(
    trouble: str, told_of: dict[str, Any], gateway: Asked, clock: list[float]
) -> None:
    assert clock == [0.0]
    log = LogEnd(lambda: ["one", "two"], lambda: trouble)
    async with TopAsker(OPTIONS, log) as asker:
        found = await asker.ask()
    assert (found.log, found.trouble) == (("one", "two"), told_of)
    assert gateway.closed == 1


async def test_a_fleet_that_is_not_told_is_no_fleet(gateway: Asked, clock: list[float]) -> None:
    gateway.paths["/status"] = UnreachableError("gone")
    clock[0] = 7.0
    async with TopAsker(OPTIONS) as asker:
        with pytest.raises(NotToldError, match="gone"):
            await asker.fleet()
        assert gateway.closed == 1
