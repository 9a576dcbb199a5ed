"""`hedgerow bench`: its figures and verdict, and its end where the gateway misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.codec import ACK, CoapMessage
from coap_engine.codec import decode as decode_coap
from gateway.mqtt import (
    ConnAck,
    Connect,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    Version,
    decode,
    encode,
    packet_end,
)
from gateway.process.fleet_status.rating import Rating, RatingFile
from gateway.tools.bench import coap_load, disk, measured_gateway, mqtt_load, run
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import (
    CLIENTS_MAX,
    LATE_MS,
    SPARED_BYTES,
    STEADY_PER_S,
    AnswerTimes,
    Figures,
    as_document,
    as_text,
    verdict,
)
from gateway.tools.bench.measured_gateway import MeasuredGateway

FAST = Figures(
    start_s=2.0,
    start_cpu_s=1.5,
    sync=AnswerTimes(2.0, 9.0),
    idle_bytes=80 << 20,
    messages_per_s=4_000.0,
    puback=AnswerTimes(3.0, 12.0),
    reads_per_s=2_500.0,
    available_bytes=300 << 20,
)
SOON_S = 0.2
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


# -- the verdict -----------------------------------------------------------------------------------


def test_a_machine_gets_a_quarter_of_the_messages_that_it_can_do() -> None:
    assert verdict(FAST).messages_per_s == 1_000


def test_clients_have_the_memory_that_is_left_behind_the_gateway_and_the_system() -> None:
    assert verdict(FAST).clients == 5_800  # 92 MiB of 16 KiB each, to two digits
    assert verdict(replace(FAST, available_bytes=SPARED_BYTES)).clients == 0
    assert verdict(replace(FAST, available_bytes=8 << 30)).clients == CLIENTS_MAX


def test_one_whose_acknowledgements_are_late_gets_half_of_what_was_asked_for() -> None:
    late = replace(FAST, puback=AnswerTimes(20.0, LATE_MS + 0.1))
    assert verdict(late).messages_per_s == STEADY_PER_S // 2
    assert verdict(replace(FAST, puback=AnswerTimes(20.0, LATE_MS))).messages_per_s == 1_000
    assert "acknowledgements are late" in as_text(late)
    assert "acknowledgements are late" not in as_text(FAST)


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=300))
def test_of_a_hundred_answers_ninety_nine_came_within_the_99th_percentile(
    times_s: list[float],
) -> None:
    latency = AnswerTimes.of(times_s)
    assert latency.p50_ms <= latency.p99_ms <= round(max(times_s) * 1000, 2)
    within = sum(round(one * 1000, 2) <= latency.p99_ms for one in times_s)
    assert within >= 0.99 * len(times_s)


@given(st.floats(0, 1e9), st.integers(0, 1 << 45), st.floats(0, 1e6))
def test_whatever_was_measured_the_verdict_is_no_more_than_that(
    messages_per_s: float, available_bytes: int, p99_ms: float
) -> None:
    figures = replace(
        FAST,
        messages_per_s=messages_per_s,
        available_bytes=available_bytes,
        puback=AnswerTimes(0.0, p99_ms),
    )
    found = verdict(figures)
    assert 0 <= found.messages_per_s <= messages_per_s
    assert 0 <= found.clients <= CLIENTS_MAX
    assert json.loads(json.dumps(as_document(figures)))["verdict"]["clients"] == found.clients


# -- what it asks ----------------------------------------------------------------------------------


def test_a_disk_that_takes_nothing_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    assert disk.sync_times(tmp_path).p50_ms >= 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        disk.sync_times(tmp_path / "gone")


@contextlib.asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[int]:
    """A server that answers as it likes; its port."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def load(port: int) -> None:
    async with mqtt_load.connected(port, SOON_S) as clients:
        await clients.most_per_s(0.1)
        await clients.puback_times_s(0.1, 100)


async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(100):
        pass


async def hangs_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def speaks_no_mqtt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\xff" * 64)
    await never(reader, writer)


async def takes_and_acknowledges_nothing(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while data := await reader.read(1 << 16):
        if data[0] >> 4 == 1:
            writer.write(b"\x20\x03\x00\x00\x00")
        elif data[0] >> 4 == 8:
            writer.write(b"\x90\x04\x00\x01\x00\x01")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (never, "no answer to Connect"),
        (hangs_up, "ended the connection"),
        (speaks_no_mqtt, "speaks no MQTT"),
        (takes_and_acknowledges_nothing, "no acknowledgement"),
    ],
)
async def test_a_broker_that_does_not_answer_is_told_and_not_waited_for(
    answer: Answer, told: str
) -> None:
    async with asyncio.timeout(60), broker(answer) as port:
        with pytest.raises(BenchError, match=told):
            await load(port)


class BrokerThatCounts:
    """Acknowledges the half of what is open each time anything comes, and all when nothing does."""

    def __init__(self) -> None:
        self.most_open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data, unacknowledged = b"", list[int]()

        def acknowledge(count: int) -> None:
            for _ in range(count):
                writer.write(encode(PubAck(unacknowledged.pop(0)), Version.V5))

        reading = asyncio.create_task(reader.read(1 << 16))
        while True:
            done, _ = await asyncio.wait({reading}, timeout=0.05)
            if not done:
                acknowledge(len(unacknowledged))
                continue
            if not (came := reading.result()):
                return
            reading = asyncio.create_task(reader.read(1 << 16))
            data += came
            while (found := packet_end(data, 0, 1 << 16)) is not None:
                body, end = found
                packet = decode(data[0], data[body:end], Version.V5)
                data = data[end:]
                match packet:
                    case Connect():
                        writer.write(encode(ConnAck(False, 0), Version.V5))
                    case Subscribe(packet_id=packet_id):
                        writer.write(encode(SubAck(packet_id, [1]), Version.V5))
                    case Publish(packet_id=int(packet_id)):
                        unacknowledged.append(packet_id)
            self.most_open = max(self.most_open, len(unacknowledged))
            acknowledge((len(unacknowledged) + 1) // 2)


async def test_no_more_is_open_than_the_window_however_acknowledgements_come() -> None:
    counting = BrokerThatCounts()
    async with (
        asyncio.timeout(60),
        broker(counting.answer) as port,
        mqtt_load.connected(port, 30.0) as clients,
    ):
        await clients.most_per_s(0.2)
    assert counting.most_open == mqtt_load.WINDOW


async def test_who_listens_nowhere_is_told() -> None:
    with pytest.raises(BenchError, match="takes no client"):
        await load(1)


async def test_a_coap_server_that_never_answers_is_told() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    async with asyncio.timeout(60):
        with pytest.raises(BenchError, match="not answered"):
            await coap_load.reads_per_s(port, ("sensors", "x"), 0.1, 0.2)
    transport.close()


# -- the command -----------------------------------------------------------------------------------


def bench(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_run_measures_a_gateway_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    done = bench("--folder", str(tmp_path), "--seconds", "5", "--json")
    said, complained = done.communicate(timeout=200)
    assert done.returncode == 0, complained
    figures = json.loads(said)
    assert figures["messages_per_s"] > 0
    assert figures["reads_per_s"] > 0
    assert figures["idle_bytes"] > 10 << 20
    assert figures["verdict"]["messages_per_s"] <= figures["messages_per_s"]
    assert list(tmp_path.iterdir()) == []


def test_the_verdict_is_kept_for_the_gateway_of_the_configuration(tmp_path: Path) -> None:
    state, disk = tmp_path / "state", tmp_path / "disk"
    state.mkdir()
    disk.mkdir()
    config, key = tmp_path / "gateway.toml", tmp_path / "tree.key"
    key.touch(0o600)
    key.write_text("5a" * 32)
    config.write_text(
        f"""
        gateway = {{id = "gw", state_dir = "{state}"}}
        mqtt = {{host = "127.0.0.1", port = 0}}
        coap = {{host = "127.0.0.1", port = 0}}
        tree = {{key_file = "{key}", discovery = false}}
        access = {{anonymous = true}}
        """
    )
    where = ("--config", str(config), "--folder", str(disk))
    done = bench(*where, "--seconds", "5", "--json", "--keep")
    said, complained = done.communicate(timeout=200)
    assert done.returncode == 0, complained
    found = json.loads(said)["verdict"]
    assert RatingFile(state).read() == Rating(found["messages_per_s"], found["clients"])
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--seconds", "4"), "--seconds: 4 is not 5 or more"),
        (("--seconds", "nan"), "--seconds: nan is not 5 or more"),
        (("--config", "/nowhere.toml"), "/nowhere.toml"),
        (("--keep", "--folder", "/tmp", "--config", "/nowhere.toml"), "--keep: /nowhere.toml"),
    ],
)
def test_what_is_wrong_with_the_command_is_told_in_a_line(
    arguments: tuple[str, ...], told: str
) -> None:
    done = bench(*arguments)
    said, complained = done.communicate(timeout=100)
    assert (done.returncode, said) == (2, "")
    assert told in complained
    assert complained.count("\n") == 1


def test_a_folder_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    done = bench("--folder", str(tmp_path / "gone"), "--seconds", "5")
    _, complained = done.communicate(timeout=100)
    assert done.returncode == 2
    assert "gone: no such folder" in complained.splitlines()[-1]


def test_a_run_that_is_ended_takes_its_gateway_with_it(tmp_path: Path) -> None:
    running = bench("--folder", str(tmp_path), "--seconds", "3600")
    assert running.stderr is not None
    while "publishing" not in running.stderr.readline():
        assert running.poll() is None
    running.terminate()
    running.communicate(timeout=100)
    assert running.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_ended_and_taken_away_by_the_next(tmp_path: Path) -> None:
    running = bench("--folder", str(tmp_path), "--seconds", "3600")
    assert running.stderr is not None
    while "publishing" not in running.stderr.readline():
        assert running.poll() is None
    running.kill()
    running.communicate(timeout=100)
    (left,) = tmp_path.iterdir()
    gateway = json.loads((left / "state" / "listeners.json").read_text())["pid"]
    another = tmp_path / f"bench-{os.getpid()}-x"  # of a run that goes on
    another.mkdir()
    measured_gateway.remove_left(tmp_path)
    assert list(tmp_path.iterdir()) == [another]
    while (
        Path(f"/proc/{gateway}/cmdline").exists() and Path(f"/proc/{gateway}/cmdline").read_bytes()
    ):
        pass  # it was told to end, and its parent is gone


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (None, "/proc/meminfo does not say how much memory is left (MemAvailable)"),
        (SPARED_BYTES - 1, "MiB of memory are left, and"),
    ],
)
async def test_without_memory_for_a_second_gateway_none_is_started(
    left: int | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tools.bench.run.machine_memory.left", lambda: left)
    with pytest.raises(BenchError) as raised:
        await run.measured(tmp_path, 1.0, lambda _text: None)
    assert why in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "word"), [("echo no port is free; exit 3", "no port is free"), ("exit 1", "no word")]
)
async def test_a_gateway_that_ends_at_its_start_says_why(
    script: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    gateway = MeasuredGateway(tmp_path)
    await gateway.stop()
    with pytest.raises(BenchError) as raised:
        await gateway.start()
    assert str(raised.value) == f"the gateway to be measured does not start: {word}"
    await gateway.stop()
    with pytest.raises(BenchError, match=r"^the gateway that was measured has ended$"):
        _ = gateway.cpu_s
    gateway.remove()
    assert list(tmp_path.iterdir()) == [program]


class CountingSensor(asyncio.DatagramProtocol):
    """A CoAP server: first it answers what is none, then `answers` reads, and then nothing."""

    def __init__(self, answers: int) -> None:
        self.asked: list[CoapMessage] = []
        self.left = answers
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        assert self._transport is not None
        question = decode_coap(data)
        self.asked.append(question)
        if len(self.asked) == 1:
            self._transport.sendto(b"\xff", addr)
            refused = CoapMessage(ACK, codes.NOT_FOUND, question.message_id, b"", ())
            self._transport.sendto(refused.encode(), addr)
        elif self.left > 0:
            self.left -= 1
            answer = CoapMessage(ACK, codes.CONTENT, question.message_id, b"", (), b"1")
            self._transport.sendto(answer.encode(), addr)


async def test_reads_that_are_answered_count_and_each_lets_another_be_asked() -> None:
    loop = asyncio.get_running_loop()
    transport, sensor = await loop.create_datagram_endpoint(
        lambda: CountingSensor(30), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    began_s = loop.time()
    async with asyncio.timeout(60):
        found = await coap_load.reads_per_s(port, ("sensors", "x"), 0.05)
    took_s = loop.time() - began_s
    transport.close()
    assert 1 / took_s <= found < 31 / 0.05  # a clock rounds, but not by a read
    assert len(sensor.asked) > coap_load.WINDOW
    assert [one.message_id for one in sensor.asked] == list(range(1, len(sensor.asked) + 1))
    assert {(one.code, one.options) for one in sensor.asked} == {
        (codes.GET, ((option_numbers.URI_PATH, b"sensors"), (option_numbers.URI_PATH, b"x")))
    }


async def test_a_sensor_that_is_refused_is_not_answered() -> None:
    loop = asyncio.get_running_loop()
    transport, sensor = await loop.create_datagram_endpoint(
        lambda: CountingSensor(0), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    async with asyncio.timeout(60):
        with pytest.raises(BenchError, match=r"^the sensor that is read is not answered$"):
            await coap_load.reads_per_s(port, ("x",), 0.01, 0.01)
    transport.close()
    assert sensor.asked


async def test_a_client_that_has_measured_leaves_no_socket() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: CountingSensor(30), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with asyncio.timeout(60):
        await coap_load.reads_per_s(port, ("x",), 0.01)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    transport.close()


def test_only_a_process_that_names_the_folder_of_a_killed_run_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    waits = [sys.executable, "-c", "input()"]
    left, other = (tmp_path / f"bench-{gone.pid}-{name}" for name in "xy")
    with (
        subprocess.Popen([*waits, f"{left}/gateway.toml"], stdin=subprocess.PIPE) as gateway,
        subprocess.Popen([*waits, f"{left}/gateway.toml"], stdin=subprocess.PIPE) as stranger,
    ):
        for folder, process in ((left, gateway), (other, stranger)):
            (folder / "state").mkdir(parents=True)
            told = json.dumps({"pid": process.pid})
            (folder / "state" / "listeners.json").write_text(told)
        measured_gateway.remove_left(tmp_path)
        assert gateway.wait(10) == -15
        assert stranger.poll() is None
        stranger.communicate(b"\n", timeout=60)
    assert stranger.returncode == 0
    assert list(tmp_path.iterdir()) == []


class EndingGateway:
    """A gateway to be measured that does not start.

    Attributes:
        done: what was asked of it.

    """

    done: list[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        EndingGateway.done = []

    async def start(self) -> float:
        self.done.append("start")
        raise BenchError("no word")

    async def stop(self) -> None:
        self.done.append("stop")

    def remove(self) -> None:
        self.done.append("remove")


async def test_a_gateway_that_is_not_measured_is_ended_before_its_files_are_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.tools.bench.run.machine_memory.left", lambda: SPARED_BYTES)
    monkeypatch.setattr(run, "MeasuredGateway", EndingGateway)
    told = list[str]()
    with pytest.raises(BenchError, match=r"^no word$"):
        await run.measured(tmp_path, 1.0, told.append)
    assert EndingGateway.done == ["start", "stop", "remove"]
    assert told == ["asking the disk", "starting a gateway"]


async def test_a_broker_that_acknowledges_late_is_waited_for() -> None:
    """Its first acknowledgement comes when nothing else does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counting = BrokerThatCounts()
        await counting.answer(reader, writer)

    async with (
        asyncio.timeout(60),
        broker(answer) as port,
        mqtt_load.connected(port, 30.0) as clients,
    ):
        took_s = await clients.puback_times_s(0.01, 500)
    assert len(took_s) == 5
    assert all(0 <= one < 30 for one in took_s)
