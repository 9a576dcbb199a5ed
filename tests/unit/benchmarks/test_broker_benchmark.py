"""The broker benchmark: figures, JSON, and a generator that sees what a broker does wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks import (
    broker,
    broker_cases,
    broker_figures,
    broker_peers,
    builds,
    load_generator,
)
from benchmarks.broker_cases import Load
from benchmarks.broker_figures import OURS, OURS_INTERPRETED, OURS_SYNCED, CaseResult, Figure
from benchmarks.broker_process import StartError, launched
from benchmarks.comparison import Comparison, options, shown, write_json
from benchmarks.load_generator import GeneratorError, Programs, Run

GOOD = {
    "status": "ok",
    "granted_qos": 1,
    "sent": 300,
    "delivered": 300,
    "lost": 0,
    "duplicated": 0,
    "disordered": 0,
    "stray": 0,
    "measured_delivered": 250,
    "measured_s": 0.5,
    "generator_cpu_s": 0.1,
    "latencies_us": [3.0, 1.0],
}


def a_run(rate_hz: float = 100.0, fault: str = "", latencies_us: tuple[float, ...] = ()) -> Run:
    return Run(rate_hz, 0.2, latencies_us, fault)


# -- comparisons ---------------------------------------------------------------------------------


def test_the_ratio_is_ours_by_the_peers() -> None:
    one = Comparison("1->1 QoS 0", 300.0, 120.0, "mosquitto", "messages/s", "higher")
    assert one.as_json() == {
        "case": "1->1 QoS 0",
        "ours": 300.0,
        "peer": 120.0,
        "peer_name": "mosquitto",
        "unit": "messages/s",
        "ratio": 2.5,
        "better": "higher",
    }


@pytest.mark.parametrize(("ours", "peer"), [(0.0, 1.0), (1.0, 0.0), (float("nan"), 1.0)])
def test_there_is_no_ratio_of_nothing(ours: float, peer: float) -> None:
    with pytest.raises(ValueError, match="not greater than 0"):
        Comparison("case", ours, peer, "peer", "MiB", "lower")


def test_the_json_is_a_list_of_comparisons(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    write_json(path, [Comparison("RSS", 12.3456, 24.6912, "peer", "MiB", "lower")])
    (found,) = json.loads(path.read_text())
    assert (found["ours"], found["ratio"], found["better"]) == (12.35, 0.5, "lower")


@pytest.mark.parametrize(
    ("figure", "text"),
    [(1234567.0, "1,235,000"), (81.2345, "81.23"), (0.53411, "0.5341"), (1000.0, "1,000")],
)
def test_figures_are_shown_with_four_digits(figure: float, text: str) -> None:
    assert shown(figure) == text


def test_a_json_file_in_a_folder_that_is_not_there_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        options("broker", "", ["--json", str(tmp_path / "none" / "found.json")])
    assert end.value.code == 2
    assert "--json" in capsys.readouterr().err


# -- what the generator says ---------------------------------------------------------------------


def test_a_run_is_read() -> None:
    run = load_generator.parse_run(json.dumps(GOOD))
    assert run == Run(500.0, 0.2, latencies_us=(3.0, 1.0), fault="", delivered=300)
    assert run.of_broker(cpu_s=0.003).broker_cpu_us == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"lost": 2}, "2 lost"),
        ({"duplicated": 1, "disordered": 3}, "1 duplicated; 3 disordered"),
        ({"stray": 1}, "1 stray"),
        ({"status": "stalled", "lost": 5}, "stalled; 5 lost"),
        ({"status": "closed by the broker", "measured_s": 0.0}, "closed by the broker"),
    ],
)
def test_a_fault_is_named(changed: dict[str, object], fault: str) -> None:
    assert load_generator.parse_run(json.dumps(GOOD | changed)).fault == fault


@pytest.mark.parametrize("line", ["", "nonsense", "{}", "[]", '{"measured_s": 1}'])
def test_what_is_no_run_is_an_error(line: str) -> None:
    with pytest.raises(GeneratorError, match="generator wrote"):
        load_generator.parse_run(line)


# -- figures -------------------------------------------------------------------------------------


def test_the_median_of_the_rounds_counts() -> None:
    figure = broker_figures.rate_figure("peer", [a_run(90), a_run(500), a_run(100)])
    assert (figure.value, figure.spread) == (100, (90, 500))


def test_one_in_flight_a_figure_is_marked_if_the_generator_had_no_idle_time() -> None:
    idle, busy = Figure(OURS, 90.0, generator_cpu=0.8), Figure("peer", 90.0, generator_cpu=0.95)
    result = CaseResult(
        "100->100", broker_cases.RATE, [idle, busy], alone=100.0, one_in_flight=True
    )
    assert [result.is_near_limit(figure) for figure in result.figures] == [False, True]


def test_variants_of_ours_are_compared_with_ours_alone() -> None:
    figures = [Figure(OURS, 3.0), Figure(OURS_SYNCED, 2.0), Figure("hedgerow without a log", 4.0)]
    assert [one.ratio for one in case(figures).comparisons()] == [0.75]


def test_one_faulty_round_leaves_a_broker_without_a_figure() -> None:
    figure = broker_figures.rate_figure("peer", [a_run(90), a_run(fault="1 lost")])
    assert (figure.value, figure.fault) == (None, "1 lost")


def test_latencies_of_all_rounds_are_taken_together() -> None:
    runs = [a_run(latencies_us=(1.0, 2.0)), a_run(latencies_us=(3.0, 9.0))]
    assert broker_figures.latency_figure("peer", runs, 50).value == 2.0
    assert broker_figures.latency_figure("peer", runs, 99).value == 9.0


def case(figures: list[Figure], *, shows_sync: bool = True) -> CaseResult:
    return CaseResult("1->1 QoS 1", broker_cases.RATE, figures, 1000.0, shows_sync)


def test_both_gateways_are_compared_with_each_peer_that_has_a_figure() -> None:
    result = case(
        [
            Figure(OURS, 300.0),
            Figure(OURS_SYNCED, 150.0),
            Figure("mosquitto", 100.0),
            Figure("nats-server", None, "lower QoS granted"),
        ]
    )
    found = [(one.case, one.peer_name, one.ratio) for one in result.comparisons()]
    assert found == [
        ("1->1 QoS 1", "mosquitto", 3.0),
        ("1->1 QoS 1, synced to disk", "mosquitto", 1.5),
    ]
    assert any("nats-server" in line and "lower QoS granted" in line for line in result.lines())


def test_the_interpreted_build_is_a_case_of_its_own_and_a_peer_of_ours() -> None:
    figures = [Figure(OURS, 300.0), Figure(OURS_INTERPRETED, 150.0), Figure("peer", 100.0)]
    found = [(one.case, one.ours, one.peer_name) for one in case(figures).comparisons()]
    assert found == [
        ("1->1 QoS 1", 300.0, OURS_INTERPRETED),
        ("1->1 QoS 1", 300.0, "peer"),
        ("1->1 QoS 1, interpreted", 150.0, "peer"),
    ]


def test_a_compiled_gateway_imports_nothing_from_the_folder_that_it_is_started_in() -> None:
    assert builds.INTERPRETED.command("gateway.tools.cli")[1:] == ["-m", "gateway.tools.cli"]
    assert builds.Build("compiled", "python").command("gateway.tools.cli") == [
        *("python", "-P", "-E", "-m", "gateway.tools.cli")
    ]


def test_ours_is_the_interpreted_build_and_says_so_where_there_is_no_compiled_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builds, "compiled", lambda: None)
    assert builds.ours() is builds.INTERPRETED
    assert "make compiled" in builds.missing()[0]


def test_syncing_is_not_shown_where_nothing_is_written() -> None:
    figures = [Figure(OURS, 3.0), Figure(OURS_SYNCED, 3.0), Figure("peer", 1.0)]
    assert [one.case for one in case(figures, shows_sync=False).comparisons()] == ["1->1 QoS 1"]


def test_a_figure_near_the_generators_own_is_marked() -> None:
    result = case([Figure(OURS, 300.0), Figure("peer", 600.0)])
    marked = [line for line in result.lines() if "LIMIT" in line]
    assert len(marked) == 1
    assert "peer" in marked[0]
    assert any("60% (peer, 1->1 QoS 1)" in line for line in broker.summary([result]))


def test_a_lost_message_of_ours_is_a_failure_but_want_of_time_is_not() -> None:
    result = case([Figure(OURS, None, "1 lost"), Figure(OURS_SYNCED, None, "out of time")])
    assert broker.our_faults([result]) == [f"1->1 QoS 1: {OURS}: 1 lost"]


def test_no_two_cases_have_the_same_name() -> None:
    names = [load.name for load in broker_cases.rate_loads()]
    assert len(set(names)) == len(names) == 24
    assert {load.name for load in broker_cases.quick_rate_loads()} < set(names)


def test_a_missing_peer_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found, missing = broker_peers.peers(tmp_path)
    assert [one.name.split()[0] for one in found] == ["amqtt"]
    assert [line.split()[0] for line in missing] == ["mosquitto", "nats-server", "node"]


def test_a_broker_that_does_not_start_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    broken = broker_peers.Broker("broken", "nothing", lambda _f, _p: ["sh", "-c", "echo no luck"])
    with (
        launched(broken, tmp_path) as launch,
        pytest.raises(StartError, match="broken did not start: no luck"),
    ):
        launch.wait()


# -- the generator at work -----------------------------------------------------------------------

needs_cc = pytest.mark.peer("cc", "gcc")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return load_generator.compile_programs(tmp_path_factory.mktemp("programs"))


def short_run(programs: Programs, load: Load, port: int) -> Run:
    return load_generator.run(programs, load, port, warm_up_s=0.02, measure_s=0.2)


@needs_cc
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(("publishers", "subscribers"), [(1, 1), (3, 3), (1, 20)])
def test_the_null_broker_hands_on_every_message_once_and_in_order(
    programs: Programs, publishers: int, subscribers: int, qos: int
) -> None:
    with load_generator.null_broker(programs) as port:
        run = short_run(programs, Load(publishers, subscribers, qos, 1024, 50), port)
    assert run.fault == ""
    assert run.rate_hz > 0


@needs_cc
def test_under_a_light_load_each_message_has_its_latency(programs: Programs) -> None:
    load = Load(1, 1, 0, window=100, rate_hz=1000)
    with load_generator.null_broker(programs) as port:
        run = short_run(programs, load, port)
    assert run.fault == ""
    assert run.latencies_us
    assert min(run.latencies_us) > 0


@needs_cc
def test_idle_clients_are_there_while_the_context_is_open(programs: Programs) -> None:
    with (
        load_generator.null_broker(programs) as port,
        load_generator.idle_clients(programs, port, 50),
    ):
        pass


@needs_cc
def test_a_broker_that_is_not_there_is_a_fault(programs: Programs, unused_tcp_port: int) -> None:
    assert short_run(programs, Load(1, 1, 0), unused_tcp_port).fault == "can't connect"


Tamper = Callable[[int, bytes], list[bytes]]
"""A function that returns the packets to write in place of the n-th PUBLISH."""


@asynccontextmanager
async def tampering_broker(tamper: Tamper) -> AsyncIterator[int]:
    """One publisher, one subscriber, QoS 0, and packets of less than 128 bytes."""
    subscribers: list[asyncio.StreamWriter] = []
    numbers = iter(range(1 << 62))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(2)
                packet = head + await reader.readexactly(head[1])
                if head[0] == 0x10:
                    writer.write(b"\x20\x02\x00\x00")
                elif head[0] == 0x82:
                    subscribers.append(writer)
                    writer.write(b"\x90\x03" + packet[2:4] + b"\x00")
                elif head[0] == 0x30:
                    subscribers[0].writelines(tamper(next(numbers), packet))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@needs_cc
@pytest.mark.slow
async def test_loss_duplicates_disorder_and_strays_are_counted_each(programs: Programs) -> None:
    late: list[bytes] = []

    def tamper(number: int, packet: bytes) -> list[bytes]:
        if number == 10:
            return []
        if number == 20:
            return [packet, packet]
        if number == 30:
            late.append(packet)
            return []
        if number == 31:
            return [packet, *late]
        if number == 40:
            return [packet, packet[:-79] + bytes(79)[:8] + b"\xff" * 8 + packet[-63:]]
        return [packet]

    async with tampering_broker(tamper) as port:
        run = await asyncio.to_thread(short_run, programs, Load(1, 1, 0, window=20), port)
    assert run.fault == "stalled; 1 lost; 1 duplicated; 1 disordered; 1 stray"


@needs_cc
@pytest.mark.peer("mosquitto", "mosquitto")
def test_mosquitto_passes_a_tiny_run(programs: Programs, tmp_path: Path) -> None:
    with launched(broker_peers.mosquitto(nodelay=True), tmp_path) as launch:
        peer = launch.wait()
        runs = [short_run(programs, Load(1, 1, qos, window=100), peer.port) for qos in (0, 1, 2)]
        with load_generator.idle_clients(programs, peer.port, 20):
            rss_mib = peer.rss_mib()
    assert [run.fault for run in runs] == ["", "", ""]
    assert all(run.rate_hz > 0 for run in runs)
    assert rss_mib > 1
