"""1,000 requests between nodes, compact and JSON: ``python -m benchmarks.request_forms``.

Row A9. Two lines of seven gateways stand beside each other, each gateway a process. In one they
write requests and answers to each other as they do, in msgpack; in the other as JSON
(`benchmarks.json_forms`). The first of each is asked for the pack of ten actuators of the second
and of the last one, one request after the other, as SenML CBOR or as SenML JSON. All ways take
turns in many rounds. Told are the whole time, what processes took of processors, and what links
carried.

Exit codes: 0 done; 1 a gateway did not start or answer; 2 a wrong argument.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgpack

from benchmarks import comparison
from benchmarks.broker_process import StartError
from benchmarks.comparison import Comparison, shown
from benchmarks.json_forms import JsonEnvelopes, JsonMessages
from benchmarks.query import long_name
from benchmarks.query_client import NoAnswerError, QueryClient, request_options
from benchmarks.query_fleet import GatewayKind, QueryGateway, running
from coap_engine import codes, option_numbers
from coap_engine.message import value_of
from tree_handler.remote.message import Answer, Query
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.routing.direct import HOPS

EXIT_FAILED = 1
SENML_JSON = 110
SENML_CBOR = 112
PUBLISHED_LEFT = 0.51
"""Row A9: compact serialization took 49 % of the time away."""
LINE: Final = 7
_WAYS: Final = {"1 hop": 1, "6 hops": 6}
_PATH = "/sensors"
_SWITCHES = 10
_SENSORS = "".join(
    f'[[sensors]]\ntype = "switch"\nname = "valve-{one}"\n' for one in range(_SWITCHES)
)
JSON_KIND: Final = GatewayKind("benchmarks.json_gateway", _SENSORS)
_ROUNDS = 5
_REPEATS = 2_000


@dataclass(frozen=True, slots=True)
class FormsPlan:
    """The amount of work: rounds, and requests of each way in one."""

    rounds: int
    requests: int

    @property
    def per_thousand(self) -> float:
        """The factor that makes a round's figure that of 1,000 requests."""
        return 1_000 / self.requests


FULL = FormsPlan(20, 100)
QUICK = FormsPlan(4, 50)


@dataclass(slots=True)
class Way:
    """One form of requests over one line, and what its rounds took.

    Attributes:
        gateways: the line's, as far as the one that has it.
        accept: the form of bodies.
        took_s: each round.
        cpu_s: of all gateways together, likewise.
        sent_bytes: over all links, likewise.

    """

    gateways: Sequence[QueryGateway]
    accept: int
    took_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    sent_bytes: list[float] = field(default_factory=list)

    def body(self, client: QueryClient) -> bytes:
        """Make a request; return the body of its answer.

        Raises:
            NoAnswerError: nothing.

        """
        return client.get(self.gateways[0].port, self._name, self.accept)

    def go_on(self, client: QueryClient, count: int) -> None:
        """One more round of so many.

        Raises:
            NoAnswerError: one was not answered, or perhaps from what had been kept.

        """
        options = request_options(self._name, self.accept)
        sent, cpu_s = self._sent(client), self._cpu_s()
        begun = time.perf_counter()
        for _ in range(count):
            answer = client.ask(self.gateways[0].port, options)
            if value_of(answer.options, option_numbers.MAX_AGE) is not None:
                raise NoAnswerError("it may have been kept")
        self.took_s.append(time.perf_counter() - begun)
        self.cpu_s.append(self._cpu_s() - cpu_s)
        self.sent_bytes.append(self._sent(client) - sent)

    @property
    def _name(self) -> str:
        return long_name(len(self.gateways) - 1, _PATH)

    def _cpu_s(self) -> float:
        return sum(one.cpu_s() for one in self.gateways)

    def _sent(self, client: QueryClient) -> float:
        """Over the links of the line; that of a last one that goes on is not among them."""
        found = 0
        ids = {f"gw-{number}" for number in range(len(self.gateways))}
        for one in self.gateways:
            for link in one.status(client)["neighbours"]:
                found += link["sent_bytes"] if link["id"] in ids else 0
        return found


def results(
    compact: Sequence[QueryGateway], text: Sequence[QueryGateway], plan: FormsPlan
) -> Iterator[Comparison]:
    """Yield each figure.

    Args:
        compact: a line that writes msgpack.
        text: one that writes JSON.
        plan: the amount of work.

    Raises:
        NoAnswerError: one was not answered.

    """
    client = QueryClient()
    try:
        for name, hops in _WAYS.items():
            near = slice(0, hops + 1)
            all_compact = Way(compact[near], SENML_CBOR)
            between = Way(compact[near], SENML_JSON)
            all_text = Way(text[near], SENML_JSON)
            ways = [all_compact, between, all_text]
            for one in ways:  # so that no round is the first
                one.go_on(client, plan.requests)
                one.took_s, one.cpu_s, one.sent_bytes = [], [], []
            for number in range(plan.rounds):
                for one in ways if number % 2 else reversed(ways):
                    one.go_on(client, plan.requests)
            yield from _compared(f"{name}, all compact", all_compact, all_text, plan)
            yield from _compared(f"{name}, msgpack between gateways", between, all_text, plan)
            left = median(map(truediv, all_compact.took_s, all_text.took_s))
            what = f"1,000 requests, {name}, part left, of rounds side by side"
            yield Comparison(what, left, PUBLISHED_LEFT, "row A9", "of 1", "lower")
        short, long = (float(len(one.body(client))) for one in (all_compact, all_text))
        yield Comparison("body, SenML CBOR", short, long, "SenML JSON", "bytes", "lower")
        yield from _written(all_text.body(client))
    finally:
        client.close()


def _compared(name: str, ours: Way, text: Way, plan: FormsPlan) -> Iterator[Comparison]:
    each = plan.per_thousand
    for what, of, mine, theirs in (
        ("whole time", median, ours.took_s, text.took_s),
        ("whole time, quickest round", min, ours.took_s, text.took_s),
        ("processor of all gateways", median, ours.cpu_s, text.cpu_s),
    ):
        case, figure, beside = f"1,000 requests, {name}, {what}", of(mine), of(theirs)
        yield Comparison(case, figure * each, beside * each, "all JSON", "s", "lower")
    sent, beside = (sum(one.sent_bytes) / len(one.sent_bytes) * each / 1e6 for one in (ours, text))
    case = f"1,000 requests, {name}, over links"
    yield Comparison(case, sent, beside, "all JSON", "MB", "lower")


def _written(body: bytes) -> Iterator[Comparison]:
    """Yield a request and its answer as they cross one link, and what writing and reading them
    takes."""
    request = ResourceRequest("GET", ("sensors",), (), None, SENML_JSON, b"", "local", ("gateway",))
    answer = Answer("gw-1", "1-1", ResourceResponse(codes.CONTENT, body, SENML_JSON))
    said = (
        ("gw-1", "$hedgerow/query/gw-1", Query("gw-0", "1-1", 5_000, request, "gw-1", 1, 1)),
        ("gw-0", "$hedgerow/reply/gw-0", answer),
    )
    fields = [
        ([to, HOPS, topic], msgpack.unpackb(one.encode(), use_list=False))
        for to, topic, one in said
    ]

    def written(messages: Any, envelopes: Any) -> int:
        size = 0
        for head, one in fields:
            packed = envelopes.packb([*head, messages.packb(one)])
            messages.unpackb(envelopes.unpackb(packed)[-1], use_list=False)
            size += len(packed)
        return size

    forms = (msgpack, msgpack), (JsonMessages(), JsonEnvelopes())
    ours, theirs = (float(written(*one)) for one in forms)
    yield Comparison(
        "request and answer on a link, msgpack", ours, theirs, "JSON", "bytes", "lower"
    )
    took: list[list[float]] = [[], []]
    for _ in range(_ROUNDS):
        for one, form in zip(took, forms, strict=True):
            begun = time.process_time()
            for _ in range(_REPEATS):
                written(*form)
            one.append((time.process_time() - begun) / _REPEATS * 1e6)
    case = "the same written and read once, msgpack"
    yield Comparison(case, median(took[0]), median(took[1]), "JSON", "us", "lower")


def _made(folder: str, name: str) -> Path:
    made = Path(folder) / name
    made.mkdir()
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = comparison.options("request_forms", __doc__.partition("\n")[0], arguments)
    found: list[Comparison] = []
    plan = QUICK if options.quick else FULL
    try:
        with (
            tempfile.TemporaryDirectory(prefix="forms-benchmark-") as folder,
            ExitStack() as stack,
        ):
            compact, text = (
                stack.enter_context(running(_made(folder, kind.module), LINE, kind, LINE))
                for kind in (GatewayKind(sensors=_SENSORS), JSON_KIND)
            )
            for one in results(compact, text, plan):
                found.append(one)
                figures = f"{shown(one.ours)} {one.unit}, {shown(one.peer)} {one.peer_name}"
                print(f"{one.case:<74} {figures}: {one.ratio:.3g}", flush=True)
    except (StartError, NoAnswerError) as error:
        print(f"benchmarks.request_forms: {error}", file=sys.stderr)
        return EXIT_FAILED
    if options.json_file is not None:
        comparison.write_json(options.json_file, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
