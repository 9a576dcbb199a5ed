"""The benchmark of a gateway's weight: figures of a process, and the rows that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import coap_load, light, light_loads, load_generator, weighed
from benchmarks.broker_peers import Broker
from benchmarks.builds import Build
from benchmarks.light import Weight
from benchmarks.light_loads import Compared, Generators, MemoryLoad, Rest, Running
from benchmarks.weighed import Memory, Process

ROLLUP = """\
55d0c8a00000-7ffc4b3f9000 ---p 00000000 00:00 0                          [rollup]
Rss:               65024 kB
Pss:               60112 kB
Anonymous:         41684 kB
"""


def test_memory_is_told_with_and_without_what_files_are_behind() -> None:
    assert weighed.memory_of(ROLLUP) == Memory(63.5, 41684 / 1024)


def test_a_process_tells_its_time_and_threads() -> None:
    own = Process("pytest", os.getpid(), 0)
    before_s = own.cpu_s()
    sum(range(1_000_000))
    assert own.cpu_s() > before_s > 0.0
    assert own.threads() >= 1


def test_a_process_that_has_gone_is_named() -> None:
    with pytest.raises(weighed.LightError, match="mosquitto: /proc/999999999/smaps_rollup"):
        Process("mosquitto", 999_999_999, 0).memory()


def test_a_peer_has_no_modules_in_its_row() -> None:
    row = Weight("mosquitto", 0.004, Memory(8.5, 1.0), Memory(9.4, 2.0), 1).row()
    assert row == "| mosquitto | 0.004 | - | 1 | 8.5 (1.0) | 9.4 (2.0) |"
    assert row.count("|") == light.TABLE[0].count("|") == light.TABLE[1].count("|")


def test_another_release_is_named_with_its_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(
        beside: Sequence[Build], starts: int, programs: Generators, only: str
    ) -> Iterator[str]:
        yield from (f"{one.name}: {one.python}" for one in beside)

    monkeypatch.setattr(load_generator, "compile_programs", lambda folder: None)
    monkeypatch.setattr(coap_load, "compile_programs", lambda folder: None)
    monkeypatch.setattr(light, "measure", measure)
    monkeypatch.setattr(light, "OPEN_FILES", 0)  # the limit of the tests stays
    assert light.main(["--beside", f"before={sys.executable}"]) == 0
    assert capsys.readouterr().out == f"before: {sys.executable}\n"
    for wrong in ("/nowhere", "before=/nowhere", sys.executable):
        with pytest.raises(SystemExit):
            light.main(["--beside", wrong])
        assert f"{wrong!r} is not NAME=PYTHON" in capsys.readouterr().err


def test_a_process_tells_how_often_it_was_woken_and_what_it_wrote(tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    waiting = "sys.stdin.readline()"
    writes = f"open({file!r}, 'wb').write(bytes(1 << 20))"
    work = f"import sys; {waiting}; {writes}; print(flush=True); {waiting}"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as working:
        assert working.stdin is not None
        assert working.stdout is not None
        one = Process("one that writes", working.pid, 0)
        waits, written_bytes = one.waits(), one.written_bytes()
        working.stdin.write(b"\n")
        working.stdin.flush()
        working.stdout.readline()
        assert one.written_bytes() >= written_bytes  # a file system in memory counts nothing
        # It waits for its next line, or will.
        while one.waits() <= waits:
            time.sleep(0.001)


def test_time_of_a_thread_that_has_ended_counts() -> None:
    own = Process("pytest", os.getpid(), 0)

    def work() -> None:
        while time.thread_time() < 0.02:
            pass

    before = own.cpu_s()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert own.cpu_s() >= before + 0.02


def test_rest_is_told_by_the_second_and_written_bytes_by_the_hour() -> None:
    assert Rest(0.00123, 4.25, 3 << 20).row("hedgerow") == "| hedgerow | 0.12% | 4.2 | 3,072 |"


def test_a_gateway_tells_where_its_coap_is(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "listeners.json").write_text('{"coap": "127.0.0.1:4711"}')
    assert Running(Process("hedgerow", 1, 2), tmp_path).coap_port() == 4711


def test_memory_is_told_before_and_after_a_load_and_a_peer_has_no_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def prepare(_folder: Path, port: int) -> list[str]:
        listen = f"import socket; s = socket.create_server(('127.0.0.1', {port}), backlog=99)"
        return [sys.executable, "-c", f"{listen}\nwhile True: s.accept()"]

    seen: list[Running] = []
    loads = [
        MemoryLoad("registrations", lambda _, running: seen.append(running), comes_and_goes=False),
        MemoryLoad("visitors", lambda _, running: seen.append(running)),
    ]
    monkeypatch.setattr(light_loads, "MEMORY_LOADS", loads)
    programs = Generators(
        load_generator.Programs(Path(), Path()), coap_load.Programs(Path(), Path(), Path())
    )
    peer = Compared(Broker("a peer", "nothing", prepare))
    head, line, registrations, visitors = light_loads.memory_table([peer], programs)
    assert head.count("|") == line.count("|") == visitors.count("|")
    assert registrations == "| registrations | - |"
    cell = r"\d+\.\d \(\d+\.\d\)"
    assert re.fullmatch(rf"\| visitors \| {cell}, {cell}: [+-]\d+% \|", visitors)
    assert [running.process.name for running in seen] == ["a peer"]
