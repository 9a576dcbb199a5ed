"""1,000 requests between two nodes, and what their form costs: row A9 for ``benchmarks.fleet``."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import msgpack

from benchmarks.comparison import Comparison
from benchmarks.fleet_tree import BedGateway
from benchmarks.query_client import NoAnswerError, QueryClient, request_options
from coap_engine import codes, option_numbers
from coap_engine.message import value_of
from tree_handler.remote_message import Answer, Query
from tree_handler.remote_resource import ResourceRequest, ResourceResponse

SENML_JSON = 110
SENML_CBOR = 112
_PATH = "/sensors"
_ROUNDS = 5
PUBLISHED_LEFT = 0.51
"""Row A9: compact serialization took 49 % of the time away."""


class Asked:
    """Requests for one form, one after the other.

    Args:
        client: asks.
        port: of the gateway that is asked.
        path: what for.
        accept: the form.

    Attributes:
        body: one of them.
        rounds_s: what each round took.

    Raises:
        NoAnswerError: there is no answer.

    """

    def __init__(self, client: QueryClient, port: int, path: str, accept: int) -> None:
        self.body = client.get(port, path, accept)
        self.rounds_s: list[float] = []
        self._client = client
        self._port = port
        self._options = request_options(path, accept)

    def go_on(self, count: int) -> None:
        """One more round of so many.

        Raises:
            NoAnswerError: one was not answered, or perhaps from what had been kept.

        """
        begun = time.perf_counter()
        for _ in range(count):
            answer = self._client.ask(self._port, self._options)
            if value_of(answer.options, option_numbers.MAX_AGE) is not None:
                raise NoAnswerError("it may have been kept")
        self.rounds_s.append(time.perf_counter() - begun)


def results(
    client: QueryClient, ways: Sequence[tuple[str, BedGateway, BedGateway]], count: int
) -> Iterator[Comparison]:
    """Binary beside text, of bodies and of what gateways make of a request.

    Args:
        client: asks.
        ways: their names, who is asked, and who has it.
        count: requests of each form; the forms take turns.

    Raises:
        NoAnswerError: one was not answered.

    """
    for way, asked, owner in ways:
        path = owner.name_of(_PATH)
        forms = [Asked(client, asked.port, path, form) for form in (SENML_CBOR, SENML_JSON)]
        for _ in range(_ROUNDS):
            for form in forms:
                form.go_on(count // _ROUNDS)
        binary, text = (median(form.rounds_s) * _ROUNDS for form in forms)
        name = f"{count:,} requests, {way}, SenML CBOR"
        yield Comparison(name, binary, text, "SenML JSON", "s", "lower")
    short, long = (float(len(form.body)) for form in forms)
    yield Comparison("body of ten sensors, SenML CBOR", short, long, "SenML JSON", "bytes", "lower")
    yield from _messages(owner, forms[1].body, SENML_JSON, count)


def _messages(owner: BedGateway, body: bytes, form: int, count: int) -> Iterator[Comparison]:
    """The request and the answer on their way between gateways: msgpack as it is, and JSON."""
    request = ResourceRequest("GET", ("sensors",), (), None, form, b"", "local", ("on-site",))
    query = Query("gw-0", "1-1", 5_000, request, owner.id, 1, 1).encode()
    answer = Answer(owner.id, "1-1", ResourceResponse(codes.CONTENT, body, form)).encode()
    fields = [msgpack.unpackb(one) for one in (query, answer)]
    texts = [_as_json(one) for one in fields]
    size = float(len(query) + len(answer)), float(sum(map(len, texts)))
    yield Comparison("request and answer, msgpack", *size, "as JSON", "bytes", "lower")

    def pack() -> None:
        for one in fields:
            msgpack.unpackb(msgpack.packb(one))

    def write() -> None:
        for one in fields:
            found = json.loads(_as_json(one))
            found["b"] = base64.b64decode(found["b"])

    took = _took_us(pack, count), _took_us(write, count)
    name = "request and answer written and read, msgpack"
    yield Comparison(name, *took, "as JSON", "us", "lower")
    left = took[0] / took[1]
    yield Comparison(
        f"{name}, part left", left, PUBLISHED_LEFT, "row A9, of whole requests", "of 1", "lower"
    )


def _as_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=_as_text, separators=(",", ":")).encode()


def _as_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _took_us(run: Callable[[], None], count: int) -> float:
    rounds = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        for _ in range(count):
            run()
        rounds.append((time.perf_counter() - begun) / count * 1e6)
    return median(rounds)
