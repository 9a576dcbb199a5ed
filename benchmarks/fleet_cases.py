"""The cases of ``benchmarks.fleet``, on gateways that run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from benchmarks.comparison import Comparison, shown
from benchmarks.fleet_devices import DEVICES, KIND, Device, RefusedError, sensors_of
from benchmarks.fleet_tree import KEY, BedGateway, Spot, Taken, identity
from benchmarks.query_client import NoAnswerError, QueryClient
from dtls.context import ClientContext
from resource_directory.link_format import parse

BEFORE_THREADS, AFTER_THREADS = 550.0, 35.0
"""Row A12: threads that expired entries, and what one that expires them all left."""
BEFORE_CPU, BEFORE_MEMORY = 92.0, 80.0
"""Row A12: per cent of a Pi that 500 resources with 4 attributes took."""
_PI_MIB = 1_024.0
_LEAST_CPU = 0.01
_PLAIN = "without DTLS"
_FOUND_S = 90.0
_LOOK_S = 0.5
_KEPT_S = 5.0
"""So long gateways keep what others found."""
_ASKED = 1
"""The gateway at which 500 devices register."""
_SCOPES: Final = ("own", "group", "domain", "all")


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The amount of work that is measured.

    Attributes:
        bundles: of each gateway.
        devices: that register at one gateway.
        rest_s: seconds for which gateways are watched while nobody asks.

    """

    bundles: int
    devices: int
    rest_s: float


FULL = FleetPlan(20, 500, 20.0)
QUICK = FleetPlan(2, 50, 2.0)

Resource = tuple[str, str]
"""The gateway in whose directory it stands, and its path."""


class FleetMeasurement:
    """All cases.

    Args:
        plan: the amount of work.
        gateways: those of the tree.
        show: prints a line that is no comparison.

    """

    def __init__(
        self, plan: FleetPlan, gateways: Sequence[BedGateway], show: Callable[[str, str], None]
    ) -> None:
        self._plan = plan
        self._gateways = gateways
        self._show = show
        self._client = QueryClient()
        self._registered: set[Resource] = set()
        self._devices = 0

    def close(self) -> None:
        """Ask no more."""
        self._client.close()

    def results(self) -> Iterator[Comparison]:
        """Yield each case, as it is measured.

        Raises:
            NoAnswerError: a gateway did not answer, or not as it should.
            DtlsError: a session could not be used.

        """
        empty = [one.taken() for one in self._gateways]
        with ExitStack() as stack:
            with self._spending("registrations and updates"):
                yield from self._register(stack)
            self._wait_until_found("et=second", self._devices, "/rd-lookup/ep")
            self._wait_until_found("rt=" + KIND, len(self._registered))
            time.sleep(_KEPT_S)
            with self._spending("look-ups"):
                yield from self._look_up()
            with self._spending("queries"):
                yield from self._ask_all()
            held = len(self._registered) // len(self._gateways)
            yield from self._at_rest(self._gateways, empty, held)
        with ExitStack() as stack:
            yield from self._newcomers(stack)
            only = slice(_ASKED, _ASKED + 1)
            held += 2 * self._plan.devices
            yield from self._at_rest(self._gateways[only], empty[only], held)

    def _register(self, stack: ExitStack) -> Iterator[Comparison]:
        plain_ms, secret_ms = list[float](), list[float]()
        devices: list[Device] = []
        begun = time.perf_counter()
        for gateway in self._gateways:
            for bundle in range(self._plan.bundles):
                for number in range(DEVICES):
                    name, is_secret = f"b{bundle}-d{number}", bool(number % 2)
                    known = ClientContext(identity(bundle), KEY) if is_secret else None
                    port = gateway.dtls_port if is_secret else gateway.port
                    device = stack.enter_context(closing(Device(name, port, known)))
                    device.shake_hands()
                    paths = sensors_of(name)
                    took_ms = _took_ms(partial(device.register, paths, "et=first"))
                    (secret_ms if is_secret else plain_ms).append(took_ms)
                    self._registered.update((gateway.id, path) for path in paths)
                    devices.append(device)
        took_s = time.perf_counter() - begun
        count = len(self._registered)
        self._show(
            f"{count:,} resources of {len(devices)} devices", f"registered in {took_s:.1f} s"
        )
        yield Comparison(
            *("registration of ten sensors over DTLS, p50", median(secret_ms), median(plain_ms)),
            *("over CoAP", "ms", "lower"),
        )
        updated_ms = [_took_ms(partial(one.update, "et=second")) for one in devices]
        yield Comparison(
            *("update, p50", median(updated_ms), median([*plain_ms, *secret_ms])),
            *("registration", "ms", "lower"),
        )
        self._devices = len(devices)

    def _wait_until_found(self, criterion: str, count: int, path: str = "/rd-lookup/res") -> None:
        begun = time.monotonic()
        for gateway in self._gateways:
            while True:
                links = self._links(gateway, path, f"{criterion}&scope=all")
                if len(links) == count:
                    break
                if time.monotonic() > begun + _FOUND_S:
                    raise NoAnswerError(f"{gateway.id} finds {len(links)} of {count}: {criterion}")
                time.sleep(_LOOK_S)
        what = f"{criterion}, {count:,} found from every gateway"
        self._show(what, f"{time.monotonic() - begun:.1f} s after the last one")

    def _look_up(self) -> Iterator[Comparison]:
        took: dict[str, list[float]] = {scope: [] for scope in _SCOPES}
        for gateway in self._gateways:
            for scope in _SCOPES:
                begun = time.perf_counter()
                links = self._links(gateway, "/rd-lookup/res", f"rt={KIND}&scope={scope}")
                took[scope].append((time.perf_counter() - begun) * 1e3)
                self._check(gateway, scope, links)
        for scope in _SCOPES:
            case = f"look-up, scope={scope}, p50"
            own = median(took["own"])
            yield Comparison(case, median(took[scope]), own, "scope=own", "ms", "lower")

    def _check(self, gateway: BedGateway, scope: str, links: Sequence[Resource]) -> None:
        within = {one.id for one in self._gateways if is_in(scope, gateway.spot, one.spot)}
        if scope == "own":
            within = {gateway.id}
        check_found(
            f"{gateway.id}, scope={scope}",
            {one for one in self._registered if one[0] in within},
            links,
        )

    def _links(self, gateway: BedGateway, path: str, query: str) -> list[Resource]:
        found = []
        body = self._client.get(gateway.port, path, None, query.split("&"))
        for link in parse(body):
            of = dict(link.attributes)
            found.append((of.get("gw") or gateway.id, _path_of(link.href)))
        return found

    def _ask_all(self) -> Iterator[Comparison]:
        own_ms, remote_ms = list[float](), list[float]()
        for gateway in self._gateways:
            for other in self._gateways:
                begun = time.perf_counter()
                body = self._client.get(gateway.port, other.name_of("/status"))
                took_ms = (time.perf_counter() - begun) * 1e3
                (own_ms if other is gateway else remote_ms).append(took_ms)
                if json.loads(body)["id"] != other.id:
                    raise NoAnswerError(f"{gateway.id} asked for {other.id} and got another")
            many = self._client.get(gateway.port, "/q/*/*/*/sensors/valve-0", 60)
            answered = {one.id for one in self._gateways if one.id.encode() in many}
            if len(answered) != len(self._gateways):
                raise NoAnswerError(f"{gateway.id}: {len(answered)} gateways answered a wildcard")
        case = f"query to another gateway, {len(remote_ms)} pairs, p50"
        yield Comparison(case, median(remote_ms), median(own_ms), "the own one", "ms", "lower")

    def _at_rest(
        self, gateways: Sequence[BedGateway], empty: Sequence[Taken], held: int
    ) -> Iterator[Comparison]:
        before = [one.taken() for one in gateways]
        begun = time.monotonic()
        time.sleep(self._plan.rest_s)
        rest_s = time.monotonic() - begun
        after = [one.taken() for one in gateways]
        cpu = max((b.cpu_s - a.cpu_s) / rest_s * 100 for a, b in zip(before, after, strict=True))
        most_mib = max(one.rss_mib for one in after)
        whose = f"a gateway with {held:,} resources"
        published = "row A12, before"
        threads = f"threads of {whose}", float(max(one.threads for one in after))
        yield Comparison(*threads, AFTER_THREADS, "row A12, after", "", "lower")
        yield Comparison(*threads, BEFORE_THREADS, published, "", "lower")
        name = f"processor of {whose}, at rest"
        yield Comparison(name, max(cpu, _LEAST_CPU), BEFORE_CPU, published, "%", "lower")
        name = f"memory of {whose}, of 1 GiB"
        of_pi = most_mib / _PI_MIB * 100
        yield Comparison(name, of_pi, BEFORE_MEMORY, published, "%", "lower")
        empty_mib = median(one.rss_mib for one in empty)
        full_mib = median(one.rss_mib for one in after)
        name = f"memory of {whose}"
        yield Comparison(name, full_mib, empty_mib, "before devices came", "MiB", "lower")

    @contextmanager
    def _spending(self, what: str) -> Iterator[None]:
        before = [one.taken() for one in self._gateways]
        begun = time.monotonic()
        yield
        took_s = time.monotonic() - begun
        after = [one.taken() for one in self._gateways]
        spent_s = [b.cpu_s - a.cpu_s for a, b in zip(before, after, strict=True)]
        said = f"{took_s:.1f} s; processor: {sum(spent_s):.2f} s in all"
        self._show(f"  {what} took", f"{said}, {max(spent_s):.2f} s of one gateway at most")

    def _newcomers(self, stack: ExitStack) -> Iterator[Comparison]:
        gateway, count = self._gateways[_ASKED], self._plan.devices
        before = gateway.taken()
        plain = [Device(f"plain{n}", gateway.port) for n in range(count)]
        keys = [ClientContext(identity(n), KEY) for n in range(count)]
        secret = [Device(f"new{n}", gateway.dtls_port, keys[n]) for n in range(count)]
        for one in (*plain, *secret):
            stack.enter_context(closing(one))
        cases: dict[str, list[Callable[[], None]]] = {
            _PLAIN: [partial(one.register, ["/x"]) for one in plain],
            "new, with a handshake": [partial(_come, one) for one in secret],
            "known, session is there": [partial(one.register, ["/x"]) for one in secret],
            "unknown key, refused": [partial(self._refused, gateway, n) for n in range(count)],
        }
        plain_ms = 0.0
        for name, steps in cases.items():
            spent_s = gateway.taken().cpu_s
            took_ms = median(map(_took_ms, steps))
            spent_s = gateway.taken().cpu_s - spent_s
            case = f"{count} devices, {name}"
            self._show(f"  {case}", f"processor {shown(spent_s / count * 1e3)} ms each")
            if name == _PLAIN:
                plain_ms = took_ms
            else:
                yield Comparison(case, took_ms, plain_ms, "without DTLS", "ms", "lower")
        grown_mib = gateway.taken().rss_mib - before.rss_mib
        self._show(f"{2 * count:,} more devices at one gateway", f"{shown(grown_mib)} MiB more")
        if self._links(gateway, "/rd-lookup/ep", "scope=own&ep=stranger*"):
            raise NoAnswerError("a device without a key was registered")
        came = self._links(gateway, "/rd-lookup/ep", "scope=own&ep=new*")
        if len(came) != count:
            raise NoAnswerError(f"{len(came)} of {count} devices are registered")

    def _refused(self, gateway: BedGateway, number: int) -> None:
        unknown = ClientContext(f"stranger-{number}", KEY)
        with closing(Device(f"stranger{number}", gateway.dtls_port, unknown)) as device:
            try:
                device.shake_hands()
            except RefusedError:
                return
            raise NoAnswerError(f"the key of {unknown} was taken")


def _come(device: Device) -> None:
    device.shake_hands()
    device.register(["/x"])


def is_in(scope: str, asked: Spot, other: Spot) -> bool:
    """Return whether a directory is in a scope (group, domain or all) of another gateway's."""
    if scope == "group":
        return (asked.domain, asked.group) == (other.domain, other.group)
    return scope == "all" or asked.domain == other.domain


def check_found(what: str, wanted: set[Resource], links: Sequence[Resource]) -> None:
    """Check that a look-up found what it should, each once, and no more.

    Raises:
        NoAnswerError: it did not.

    """
    missing = len(wanted.difference(links))
    more = len(links) - len(wanted) + missing
    if missing or more:
        raise NoAnswerError(f"{what}: {missing} missing, {more} too many")


def _path_of(target: str) -> str:
    return "/" + target.split("/", 3)[3] if "://" in target else target


def _took_ms(run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    return (time.perf_counter() - begun) * 1e3
