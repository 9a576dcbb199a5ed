"""The cost of a message on disk: `python -m benchmarks.wear STATE_DIR`.

Starts a gateway on the folder, publishes messages of 79 bytes at QoS 1, alone (each waits for the
last one's acknowledgement) and 100 at a time, and prints bytes per message: handed to the kernel
(`wchar`), dirtied in pages (`write_bytes` of /proc/PID/io), and written to the folder's device
(/sys/dev/block), which has the file system's own journal in it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MESSAGES = 5_000
PAYLOAD = bytes(79)
TOPIC = b"campus/north/door"
CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x00\x00\x04wear"
CONNACK_BYTES = PUBACK_BYTES = 4


def publish(packet_id: int) -> bytes:
    body = len(TOPIC).to_bytes(2, "big") + TOPIC + packet_id.to_bytes(2, "big") + PAYLOAD
    return bytes((0x32, len(body))) + body


def counters(pid: int, folder: Path) -> tuple[int, int, int]:
    """Return bytes so far: wchar, write_bytes, and on the device."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    io = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    device = folder.stat().st_dev
    stat = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    sectors = int(stat.read_text().split()[6]) if stat.exists() else 0
    return io["wchar"], io["write_bytes"], sectors * 512


def receive(connection: socket.socket, size: int) -> None:
    while size:
        data = connection.recv(size)
        assert data, "the gateway closed the connection"
        size -= len(data)


def measure(pid: int, port: int, folder: Path, at_a_time: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(CONNECT)
        receive(connection, CONNACK_BYTES)
        before, started_s = counters(pid, folder), time.monotonic()
        for first in range(0, MESSAGES, at_a_time):
            ids = range(first % 60_000 + 1, first % 60_000 + 1 + at_a_time)
            connection.sendall(b"".join(map(publish, ids)))
            receive(connection, PUBACK_BYTES * at_a_time)
        took_s = time.monotonic() - started_s
        os.sync()
        after = counters(pid, folder)
    wchar, pages, device = ((b - a) / MESSAGES for a, b in zip(before, after, strict=True))
    print(
        f"  {at_a_time:4} at a time: {wchar:7.0f} handed over, {pages:7.0f} dirtied, "
        f"{device:7.0f} on the device, {MESSAGES / took_s:8.0f} messages/s"
    )


def main() -> None:
    state = Path(sys.argv[1])
    for durability in ("write", "sync"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "tree.key").touch(mode=0o600)
            (folder / "tree.key").write_text("ab" * 32)
            config = folder / "gateway.toml"
            config.write_text(
                f'[gateway]\nid = "gw"\nstate_dir = "{state}"\nstatus_interval_s = 0\n'
                f"[mqtt]\nport = 0\n[coap]\nport = 0\n"
                f'[tree]\nkey_file = "{folder}/tree.key"\ndiscovery = false\n'
                f'[log]\ndurability = "{durability}"\n[access]\nanonymous = true\n'
            )
            command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                assert process.stderr is not None
                for line in process.stderr:
                    if " is up: mqtt" in line:
                        break
                listeners = json.loads((state / "listeners.json").read_text())
                port = int(listeners["mqtt"].rpartition(":")[2])
                print(f"{durability}: bytes per message")
                for at_a_time in (1, 100):
                    measure(process.pid, port, state, at_a_time)
                process.terminate()


if __name__ == "__main__":
    main()
