"""A gateway as a process of its own, for what other CoAP programs say to it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

START_S = 60.0
KEY = b"0123456789abcdef"


class CoapGateway:
    """A gateway where anybody may write, with an actuator and a key for ``device``.

    Args:
        folder: for its files.

    """

    def __init__(self, folder: Path) -> None:
        (folder / "tree.key").write_text("ab" * 32)
        (folder / "psk").write_text(f"device:{KEY.hex()}\n")
        (folder / "psk").chmod(0o600)
        config = folder / "gateway.toml"
        config.write_text(
            f"""
[gateway]
id = "gw"
domain = "campus"
group = "north"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
dtls_port = 0
psk_file = "{folder}/psk"
[tree]
key_file = "{folder}/tree.key"
discovery = false
tls = "off"
[access]
anonymous = true
[[sensors]]
type = "switch"
name = "valve"
"""
        )
        self._log = folder / "log.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
                stderr=log,
            )
        listeners = folder / "state" / "listeners.json"
        end_s = time.monotonic() + START_S
        while not listeners.exists():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < end_s, self._log.read_text()
            time.sleep(0.05)
        found = json.loads(listeners.read_text())
        self.port = int(found["coap"].rpartition(":")[2])
        self.coaps_port = int(found["coaps"].rpartition(":")[2])

    def kill(self) -> None:
        """End the process without a word to it."""
        self._process.kill()
        self._process.wait(60)

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(60)
