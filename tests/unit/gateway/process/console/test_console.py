"""The HTTP listener: two pages, nothing else, and bounds on all that a client can do."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import tomllib
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

import documented_metrics
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gateway.base.duration_histogram import BOUNDS_S, DurationHistogram
from gateway.broker.limits import RANGES, Limits
from gateway.process.configuration import config
from gateway.process.console import plain_pages, server
from gateway.process.console.exchange import HEAD_BYTES_MAX, LINES_MAX, HttpExchange
from gateway.process.console.exposition import CONTENT_TYPE, by_label, gauge, histogram, render
from gateway.process.console.pages import Page, RequestError, plain
from gateway.process.console.server import Console
from gateway.process.running.gateway_process import GatewayProcess
from tree_handler.batch import Entry
from tree_handler.routing.interest import Interest

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    made = Console({"/metrics": lambda: Page(CONTENT_TYPE, b"up 1\n")})
    yield made
    await made.stop()


@pytest.fixture
async def port(console: Console) -> int:
    return await console.start("127.0.0.1", 0)


async def ask(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


class TestRequest:
    def test_a_head_in_any_pieces_is_awaited(self) -> None:
        for end in range(1, len(GET)):
            exchange = HttpExchange()
            assert exchange.feed(GET[:end]) is None
            request = exchange.feed(GET[end:])
            assert request is not None
            assert (request.method, request.path) == ("GET", "/metrics")

    def test_a_query_is_not_part_of_the_path(self) -> None:
        request = HttpExchange().feed(b"HEAD /healthz?probe=1 HTTP/1.0\r\n\r\n")
        assert request is not None
        assert (request.method, request.path) == ("HEAD", "/healthz")

    @pytest.mark.parametrize(
        ("data", "status"),
        [
            (b"GET /metrics HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"GET metrics HTTP/1.1\r\nHost: x\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"\x16\x03\x01\r\n\r\n", HTTPStatus.BAD_REQUEST),
            (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
            (
                b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * LINES_MAX + b"\r\n",
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            ),
            (b"G" * (HEAD_BYTES_MAX + 1), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
            (
                b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n",
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            ),
        ],
    )
    def test_what_is_malformed_or_not_served_gets_its_status(
        self, data: bytes, status: HTTPStatus
    ) -> None:
        with pytest.raises(RequestError) as raised:
            HttpExchange().feed(data)
        assert raised.value.status is status
        exchange = HttpExchange()
        with pytest.raises(RequestError) as raised:
            for at in range(len(data)):
                exchange.feed(data[at : at + 1])
        assert raised.value.status is status
        assert exchange.answer(plain(status)).startswith(b"HTTP/1.1 %d " % status)

    @given(st.binary(min_size=1), st.integers(1, 64))
    def test_any_bytes_are_a_request_or_refused_and_get_one_answer(
        self, data: bytes, size: int
    ) -> None:
        exchange = HttpExchange()
        status = HTTPStatus.OK
        try:
            for at in range(0, len(data), size):
                if exchange.feed(data[at : at + size]) is not None:
                    break
        except RequestError as error:
            status = error.status
        assert exchange.answer(plain(status)).startswith(b"HTTP/1.1 %d " % status)


class TestListener:
    async def test_get_brings_the_page_and_head_its_head_alone(self, port: int) -> None:
        answer = await ask(port, GET)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert f"Content-Type: {CONTENT_TYPE}".encode() in head
        assert b"Content-Length: 5" in head
        assert body == b"up 1\n"
        assert await ask(port, GET.replace(b"GET", b"HEAD")) == head + b"\r\n\r\n"

    async def test_other_methods_and_paths_get_an_error(self, port: int) -> None:
        answer = await ask(port, GET.replace(b"GET", b"DELETE"))
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert b"\r\nAllow: GET, HEAD\r\n" in answer
        assert (await ask(port, GET.replace(b"metrics", b"x"))).startswith(b"HTTP/1.1 404 ")

    @pytest.mark.parametrize("hosts", [1, 40])
    async def test_half_requests_keep_nobody_from_an_answer(
        self, console: Console, port: int, hosts: int
    ) -> None:
        half = []
        for number in range(40):
            at = (f"127.0.1.{1 + number % hosts}", 0)
            half.append(await asyncio.open_connection("127.0.0.1", port, local_addr=at))
            half[-1][1].write(GET[:-2])
        assert (await ask(port, GET)).startswith(b"HTTP/1.1 200 ")
        assert console.refused >= 40 - server.CONNECTIONS_MAX
        reader, writer = half[-1]
        writer.write(GET[-2:])
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        for _, writer in half:
            writer.close()

    async def test_who_reads_no_answer_makes_room(
        self, console: Console, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Console, "page", lambda *_: Page(CONTENT_TYPE, bytes(16 << 20)))
        unread = []
        for _ in range(2 * server.CONNECTIONS_MAX):
            unread.append(await asyncio.open_connection("127.0.0.1", port))
            unread[-1][1].write(GET)
        monkeypatch.setattr(Console, "page", lambda *_: Page(CONTENT_TYPE, b"here"))
        assert (await ask(port, GET)).endswith(b"here")
        for _, writer in unread:
            writer.close()

    async def test_a_client_that_does_not_finish_is_closed_in_time(
        self, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "HEAD_S", 0.1)
        with contextlib.suppress(ConnectionResetError):
            assert await ask(port, GET[:-1]) == b""

    async def test_an_answer_has_what_is_left_of_the_time_since_the_connection(
        self, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "HEAD_S", 60.0)
        monkeypatch.setattr(server, "TIME_S", 60.0)
        monkeypatch.setattr(Console, "page", lambda *_: Page(CONTENT_TYPE, bytes(16 << 20)))
        assert len(await ask(port, GET)) > 16 << 20

    async def test_an_answer_that_nobody_reads_is_cut_in_time(
        self, console: Console, port: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(server, "HEAD_S", 60.0)
        monkeypatch.setattr(server, "TIME_S", 0.1)
        monkeypatch.setattr(Console, "page", lambda *_: Page(CONTENT_TYPE, bytes(64 << 20)))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(GET)
        async with asyncio.timeout(60):
            await reader.readexactly(1)
            while console.connections:
                await asyncio.sleep(0.01)
        writer.close()


class TestExposition:
    def test_labels_and_help_are_escaped_as_a_parser_reads_them(self) -> None:
        nasty = 'a"b\\c\nd'
        text = render([by_label("gauge", "x", "Line\nand \\.", "kind", {nasty: 1.5})]).decode()
        [family] = text_string_to_metric_families(text)
        assert family.documentation == "Line\nand \\."
        assert [(s.labels, s.value) for s in family.samples] == [({"kind": nasty}, 1.5)]

    def test_a_histogram_counts_what_is_below_each_bound(self) -> None:
        durations = DurationHistogram()
        for duration_s in (0.0, 0.0001, 0.0002, 0.05, 100.0):
            durations.observe(duration_s)
        metric = histogram("x_seconds", "X.", BOUNDS_S, durations.counts, durations.sum_s)
        [family] = text_string_to_metric_families(render([metric]).decode())
        found = {s.labels["le"]: s.value for s in family.samples if s.name == "x_seconds_bucket"}
        assert (found["0.0001"], found["0.00025"], found["0.05"]) == (2, 3, 4)
        assert (found["5.0"] if "5.0" in found else found["5"], found["+Inf"]) == (4, 5)
        assert [s.value for s in family.samples if s.name == "x_seconds_count"] == [5]

    @given(st.integers(0, 2**53))
    def test_whole_numbers_arrive_with_every_digit_that_prometheus_keeps(self, number: int) -> None:
        [family] = text_string_to_metric_families(render([gauge("x", "X.", number)]).decode())
        assert [s.value for s in family.samples] == [number]


# -- a whole gateway -------------------------------------------------------------------------------


def settings(folder: Path, sections: str = "", mode: str = "flood") -> config.GatewaySettings:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / "gateway.toml"
    path.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
mode = "{mode}"
[log]
durability = "sync"
[access]
anonymous = true
{sections}
"""
    )
    return config.load(path, config.GatewaySettings)


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    made = GatewayProcess(settings(tmp_path))
    await made.start()
    yield made
    await made.stop()


def console_port(folder: Path) -> int:
    console: str = json.loads((folder / "state" / "listeners.json").read_text())["console"]
    return int(console.rpartition(":")[2])


WITHOUT_ANY = {
    *("hedgerow_mqtt_refusals", "hedgerow_overlay_events", "hedgerow_dtls_events"),
    *(f"hedgerow_alert_way_{what}_records" for what in ("waiting", "delivered", "dropped")),
    *("hedgerow_alert_way_failing", "hedgerow_certificate_expiry_timestamp_seconds"),
    "hedgerow_member_away",
}
"""Metrics that have no sample while there are no events, ways out, certificates or members."""
OF_SOME_MACHINES = {
    *("hedgerow_cpu_temperature_celsius", "hedgerow_under_voltage", "hedgerow_throttled"),
    *("hedgerow_disk_life_used_ratio", "hedgerow_disk_written_bytes"),
    "hedgerow_clock_synchronized",
}
"""Metrics that not each machine tells; test_watch_metrics.py has one that does."""


async def scraped(folder: Path) -> str:
    answer = await ask(console_port(folder), GET)
    return answer.partition(b"\r\n\r\n")[2].decode()


class TestGateway:
    async def test_every_metric_is_what_its_name_says(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        families = {f.name: f for f in text_string_to_metric_families(await scraped(tmp_path))}
        assert len(families) > 40
        for family in families.values():
            assert family.documentation.endswith("."), family
            for sample in family.samples:
                assert sample.name.endswith("_total") is (family.type == "counter"), sample
                assert len(sample.labels) <= 3
        assert families["hedgerow_mqtt_limit_used"].samples
        limits = families["hedgerow_mqtt_limit"].samples
        used = families["hedgerow_mqtt_limit_used"].samples
        assert [s.labels for s in limits] == [s.labels for s in used]

    async def test_the_document_names_each_metric_with_the_labels_that_it_has_and_no_other(
        self, tmp_path: Path
    ) -> None:
        process = GatewayProcess(settings(tmp_path, mode="topic"))
        await process.start()
        async with asyncio.timeout(60):
            while "hedgerow_gateway_info{" not in (text := await scraped(tmp_path)):
                await asyncio.sleep(0.05)  # the first look at the machine is not over
        await process.stop()
        found = {f.name: f for f in text_string_to_metric_families(text)}
        named = documented_metrics.of_gateways()
        documented = {name.removesuffix("_total"): labels for name, labels in named.items()}
        told = {name: family for name, family in found.items() if name.startswith("hedgerow_")}
        assert told.keys() <= documented.keys()
        assert documented.keys() <= told.keys() | OF_SOME_MACHINES
        assert {name for name, family in told.items() if not family.samples} <= WITHOUT_ANY
        for name, family in told.items():
            for sample in family.samples:
                assert sample.labels.keys() - {"le"} == documented[name], sample

    @pytest.mark.peer("promtool", "prometheus")
    async def test_promtool_finds_nothing_to_say(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        promtool = await asyncio.create_subprocess_exec(
            *("promtool", "check", "metrics"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await promtool.communicate((await scraped(tmp_path)).encode())
        assert (promtool.returncode, output.decode()) == (0, "")

    async def test_a_scrape_under_load_counts_what_the_clients_sent(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", process.mqtt_port)
        writer.write(b"\x10\x0e\0\4MQTT\4\2\0\0\0\2me" + b"\x82\x06\0\1\0\1t\0")
        await reader.readexactly(4 + 5)
        publish = b"\x32\x06\0\1t\0%cq" % 1

        async def load() -> None:
            for _ in range(200):
                writer.write(publish * 20)
                await reader.readexactly(20 * (4 + 6))

        loading = asyncio.create_task(load())
        counts = []
        while not loading.done():
            text = await scraped(tmp_path)
            [line] = [one for one in text.splitlines() if one.startswith(QOS_1)]
            counts.append(float(line.split()[-1]))
        await loading
        assert counts == sorted(counts)
        assert f"{QOS_1} 4000" in await scraped(tmp_path)
        writer.close()

    async def test_a_flooding_gateway_has_no_metrics_of_routed_mode(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        text = await scraped(tmp_path)
        assert "hedgerow_routed" not in text
        assert "hedgerow_overlay" not in text

    @pytest.mark.parametrize("mode", ["routed", "topic"])
    async def test_what_gateways_are_owed_is_told_where_messages_are_routed(
        self, mode: str, tmp_path: Path
    ) -> None:
        made = GatewayProcess(settings(tmp_path, mode=mode))
        await made.start()
        try:
            assert made.parts.routed is not None
            made.parts.routed.core.update(
                Interest("gw-away", 1, 0, frozenset({"#"}), frozenset()), 0.0
            )
            for payload in (b"1", b"2"):
                kept = made.parts.node.publish(Entry("t", payload, qos=1))
                assert kept is not None
                await kept
            text = await scraped(tmp_path)
            assert made.status()["routed"]["owed"] == {"gw-away": 2}
        finally:
            await made.stop()
        families = {f.name: f.samples for f in text_string_to_metric_families(text)}
        events = {s.labels["event"]: s.value for s in families["hedgerow_routed_events"]}
        assert (events["originated"], events["lost_for_others"]) == (2, 0)
        owed = [
            families[f"hedgerow_routed_owed_{what}"][0].value for what in ("messages", "gateways")
        ]
        assert owed == [2, 1]
        assert ("hedgerow_overlays" in families) is (mode == "topic")

    async def test_health_is_ok_until_the_log_fails(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        asked = GET.replace(b"metrics", b"healthz")
        assert (await ask(console_port(tmp_path), asked)).endswith(b"\r\n\r\nok\n")
        log = process.parts.node.log
        answer = b""
        while not answer.startswith(b"HTTP/1.1 503 "):
            # What the gateway logs of itself meanwhile is taken, since the disk has room.
            log.disk_failure.why = "No space left on device"
            answer = await ask(console_port(tmp_path), asked)
        log.disk_failure.why = "No space left on device"
        assert answer.endswith(b"log: No space left on device\n")
        assert plain_pages.health(log).status is HTTPStatus.SERVICE_UNAVAILABLE

    async def test_the_first_page_names_all_others(
        self, process: GatewayProcess, tmp_path: Path
    ) -> None:
        port = console_port(tmp_path)
        answer = await ask(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK")
        named = re.findall(r"^(/\S+)", answer.partition(b"\r\n\r\n")[2].decode(), re.MULTILINE)
        assert named == ["/healthz", "/metrics"]
        for path in named:
            asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            assert (await ask(port, asked)).startswith(b"HTTP/1.1 200 OK")

    async def test_its_port_is_the_one_that_prometheus_is_told_or_a_free_one_where_that_is_taken(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        text = (Path(__file__).parents[5] / "docs" / "monitoring.md").read_text()
        assert f'targets: ["127.0.0.1:{config.CONSOLE_PORT}"]' in text
        port = config.CONSOLE_PORT
        while port == config.CONSOLE_PORT:  # another test's gateway had it, and gave it up
            other, is_taken_here = Console({}), False
            with contextlib.suppress(OSError):  # if it is taken, that is as good
                is_taken_here = await other.start("127.0.0.1", config.CONSOLE_PORT) > 0
            made = GatewayProcess(settings(tmp_path))
            await made.start()
            port = console_port(tmp_path)
            await made.stop()
            await other.stop()
            assert not (is_taken_here and port == config.CONSOLE_PORT)
        assert f"listens on port {config.CONSOLE_PORT} already" in caplog.text

    async def test_another_port_is_taken_or_refused(self, tmp_path: Path) -> None:
        other = Console({})
        taken = await other.start("127.0.0.1", 0)
        made = GatewayProcess(settings(tmp_path, f"[console]\nport = {taken}\n"))
        with pytest.raises(config.ConfigError, match=f"console.port: 127.0.0.1:{taken}: Address"):
            await made.start()
        await made.stop()
        await other.stop()

    async def test_it_can_be_switched_off(self, tmp_path: Path) -> None:
        made = GatewayProcess(settings(tmp_path, "[console]\nenabled = false\n"))
        await made.start()
        try:
            assert '"console": null' in (tmp_path / "state" / "listeners.json").read_text()
        finally:
            await made.stop()


QOS_1 = 'hedgerow_mqtt_received_publishes_total{qos="1"}'


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("[limits]\nconnections = 0", "limits.connections"),
        ("[limits]\npacket_bytes = 5", "limits.packet_bytes"),
        ("[limits]\nconnect_s = 0", "limits.connect_s"),
        ("[limits]\nreceive_maximum = 70000", "limits.receive_maximum"),
        ("[limits]\nconnection = 5", "limits.connection"),
        ("[console]\nport = 70000", "console.port"),
        ('[console]\nhost = "localhost"', "console.host"),
    ],
)
def test_a_wrong_limit_or_listener_is_named(tmp_path: Path, section: str, field: str) -> None:
    with pytest.raises(config.ConfigError) as raised:
        settings(tmp_path, section)
    assert raised.value.where.endswith(f": {field}")


def test_a_wrong_interval_of_sys_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=r"sys_interval_s"):
        config.MqttSection(sys_interval_s=-1)


def test_the_documents_give_every_limit_with_its_default() -> None:
    text = (Path(__file__).parents[5] / "docs" / "configuration.md").read_text()
    table = tomllib.loads(text.split("```toml\n")[1].split("```")[0])
    assert table["limits"] == dataclasses.asdict(Limits())


def test_the_documents_say_what_happens_at_every_limit() -> None:
    text = (Path(__file__).parents[5] / "docs" / "monitoring.md").read_text()
    for limit in RANGES:
        if limit not in {"session_expiry_s", "keep_alive_s", "decided_topics", "close_s"}:
            assert f"`{limit}`" in text, limit
