"""Goal: a gateway that works is confirmed; one whose listeners do not answer is not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fleet_keys
import pytest

from gateway.releases import asking
from gateway.releases.asking import OwnListeners

CONFIG = """
[gateway]
id = "gw"
state_dir = "state"
[mqtt]
port = 0
tls_port = 0
websocket_port = 0
secure_websocket_port = 0
websocket_path = "/mqtt"
certificate_file = "tls/gw.pem"
key_file = "tls/gw.key.pem"
client_certificate = "{client_certificate}"
client_ca_file = "tls/ca.pem"
[coap]
port = 0
dtls_port = 0
psk_file = "psk"
{coap}
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[console]
enabled = false
"""
BY_CERTIFICATE = (
    'certificate_file = "tls/gw.pem"\nkey_file = "tls/gw.key.pem"\nclient_ca_file = "tls/ca.pem"'
)


@contextmanager
def running(folder: Path, client_certificate: str, coap: str) -> Iterator[subprocess.Popen[str]]:
    fleet_keys.issue(folder / "tls", "gw=127.0.0.1")
    for name, text in (("tree.key", "ab" * 32), ("psk", f"operator:{'ab' * 16}\n")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    config = folder / "gateway.toml"
    config.write_text(CONFIG.format(client_certificate=client_certificate, coap=coap))
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        assert next((line for line in process.stderr if " is up" in line), "")
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("client_certificate", "coap"), [("optional", ""), ("required", BY_CERTIFICATE)]
)
def test_all_listeners_of_a_gateway_that_works_answer_and_of_one_that_hangs_none(
    tmp_path: Path, client_certificate: str, coap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = OwnListeners(tmp_path / "gateway.toml", 0.0)
    with running(tmp_path, client_certificate, coap) as gateway:
        assert listeners.schemes() == ["mqtt", "mqtts", "ws", "wss", "coap", "coaps"]
        assert not OwnListeners(tmp_path / "gateway.toml", 30.0).complaints(listeners.schemes())
        os.kill(gateway.pid, signal.SIGSTOP)  # the kernel still accepts for it
        monkeypatch.setattr(asking, "ANSWER_S", 0.5)
        found = " ".join(listeners.complaints(listeners.schemes()))
    told = json.loads((tmp_path / "state/listeners.json").read_text())["listeners"]
    assert all(f"{scheme} {told[scheme][0]}: " in found for scheme in listeners.schemes())


def test_one_that_takes_certificates_alone_answers_who_cannot_show_one(tmp_path: Path) -> None:
    with running(tmp_path, "required", ""):
        (tmp_path / "tls/gw.key.pem").unlink()  # as if a password were on it
        assert not OwnListeners(tmp_path / "gateway.toml", 30.0).complaints(["mqtts", "wss"])
