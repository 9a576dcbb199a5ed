"""Readers of tables in an object store take the same options for it as the job."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.tools import cli


class EmptyStore(BaseHTTPRequestHandler):
    """Has nothing, and notes what it was asked for."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
        self.send_response(200 if "list-type" in self.path else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[tuple[list[str], list[str]]]:
    """Give the requests that an object store on this machine gets, and the options that name it."""
    asked: list[str] = []
    handler = type("NotingStore", (EmptyStore,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        told = (
            f"AWS_ENDPOINT_URL=http://127.0.0.1:{server.server_address[1]}",
            *("AWS_ALLOW_HTTP=true", "AWS_REGION=here"),
            *("AWS_ACCESS_KEY_ID=somebody", "AWS_SECRET_ACCESS_KEY=secret"),
        )
        yield asked, [word for one in told for word in ("--storage", one)]
        server.shutdown()
        thread.join()


def read(*words: str) -> str:
    """Return what a command says, run in a process: deltalake lets no other thread run."""
    command = (sys.executable, "-m", "gateway.tools.cli", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def test_a_query_asks_the_store_that_its_options_name(
    store: tuple[list[str], list[str]],
) -> None:
    asked, options = store
    said = read("query", "--tables", "s3://fleet/tables", *options, "SELECT * FROM telemetry")
    assert any("/fleet" in path for path in asked), said


def test_the_dashboard_asks_the_store_that_its_options_name(
    store: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    asked, options = store
    copy = ("--export", str(tmp_path / "copy"))
    said = read("dashboard", "--tables", "s3://fleet/tables", *options, *copy)
    assert any("/fleet" in path for path in asked), said


def test_an_option_of_the_store_that_is_no_pair_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["query", "--storage", "AWS_REGION", "SELECT 1"])
    assert "argument --storage: 'AWS_REGION' is not KEY=VALUE" in capsys.readouterr().err
