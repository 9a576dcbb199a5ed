"""The ingest job serves `--metrics` while it runs, and runs on where it cannot."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud_ingest.job import command, java

SAID = re.compile(r"metrics at port ([0-9]+)")


class NoSparkError(Exception):
    """Spark does not start here."""


class Job:
    """The command without Spark: something else is done while the job runs, and then it ends."""

    def __init__(
        self,
        spool: Path,
        tables: Path,
        monkeypatch: pytest.MonkeyPatch,
        meanwhile: Callable[[], None],
    ) -> None:
        self._arguments = ["--spool", str(spool), "--tables", str(tables)]
        self._meanwhile = meanwhile
        runtime = java.Java(Path("/java"), Path("/java/bin/java"), 17, "PATH")
        monkeypatch.setattr(java, "provide", lambda _: runtime)
        monkeypatch.setattr(command, "session", self._session)

    @contextlib.contextmanager
    def _session(self, *_: object) -> Iterator[Any]:
        self._meanwhile()
        signal.raise_signal(signal.SIGTERM)
        raise NoSparkError
        yield

    def run(self, *more: str) -> int:
        return command.main([*self._arguments, *more])


def test_a_job_tells_its_figures_while_it_runs_and_no_longer(
    spool: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spool.readings("gw-a", 1, 1, 20)
    spool.sync()
    scraped: list[tuple[str, str]] = []

    def scrape() -> None:
        said = SAID.search(capsys.readouterr().out)
        assert said is not None
        address = f"http://127.0.0.1:{said[1]}/metrics"
        with urllib.request.urlopen(address, timeout=30) as answer:
            scraped.append((address, answer.read().decode()))

    assert (
        Job(spool.folder, tmp_path / "t", monkeypatch, scrape).run("--metrics", "127.0.0.1:0") == 0
    )
    ((address, text),) = scraped
    assert f'hedgerow_ingest_waiting_bytes{{spool="{spool.folder.name}"}} {spool.length}' in text
    assert "hedgerow_ingest_micro_batches_total 0.0" in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=30)


def test_a_job_goes_on_where_others_have_the_port_and_without_being_asked_tells_nothing(
    spool: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spool.readings("gw-a", 1, 1, 20)
    spool.sync()
    runs: list[int] = []
    job = Job(spool.folder, tmp_path / "t", monkeypatch, lambda: runs.append(1))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert job.run("--metrics", address) == 0
    told = capsys.readouterr()
    assert f"--metrics {address}: " in told.err
    assert "the job goes on without" in told.err
    assert job.run() == 0
    told = capsys.readouterr()
    assert "metrics" not in told.out + told.err
    assert len(runs) == 2
