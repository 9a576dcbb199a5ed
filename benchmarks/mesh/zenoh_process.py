"""A Zenoh router, or a client of one, as a process: the mesh that ours is measured against.

    python -m benchmarks.mesh.zenoh_process router OWN_ADDRESS NEIGHBOUR...
    python -m benchmarks.mesh.zenoh_process client ROUTER STREAM RATE_HZ PAYLOAD_BYTES

Each prints ``up`` when it is. A client publishes from the line ``begin`` on its standard input to
the line ``end``, and subscribes to all. It writes a record of `RECORD` for each message that it
sent or got; the clock is the machine's monotonic one, which all processes share.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from typing import Any

from benchmarks.mesh.count import payload

PORT = 7447
RECORD = struct.Struct(">BHIdd")
"""Kind (0 sent, 1 arrived), stream, number, time of sending, time of arrival."""
HEAD = struct.Struct(">HId")
_STDIN = 0


def main(arguments: list[str]) -> int:
    """Run until standard input ends."""
    if arguments[0] == "router":
        return _router(arguments[1], arguments[2:])
    return _client(arguments[1], int(arguments[2]), float(arguments[3]), int(arguments[4]))


def _open(mode: str, listen: list[str], connect: list[str]) -> Any:
    import zenoh  # noqa: PLC0415  # a peer, which need not be installed

    return zenoh.open(
        zenoh.Config.from_json5(
            json.dumps(
                {
                    "mode": mode,
                    "listen": {"endpoints": [f"tcp/{a}:{PORT}" for a in listen]},
                    "connect": {
                        "endpoints": [f"tcp/{a}:{PORT}" for a in connect],
                        "timeout_ms": -1 if mode == "client" else 0,
                        "exit_on_failure": False,
                        "retry": {
                            "period_init_ms": 100,
                            "period_max_ms": 5000,
                            "period_increase_factor": 2,
                        },
                    },
                    "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
                }
            )
        )
    )


def _router(address: str, neighbours: list[str]) -> int:
    with _open("router", [address], neighbours):
        print("up", flush=True)
        sys.stdin.read()
    return 0


def _client(router: str, stream: int, rate_hz: float, size: int) -> int:
    lock = threading.Lock()

    def note(*record: Any) -> None:
        with lock:
            os.write(1, RECORD.pack(*record))

    def arrived(sample: Any) -> None:
        number_of, number, sent_s = HEAD.unpack_from(sample.payload.to_bytes())
        note(1, number_of, number, sent_s, time.monotonic())

    with _open("client", [], [router]) as session:
        import zenoh  # noqa: PLC0415

        session.declare_subscriber("mesh/**", arrived)
        publisher = session.declare_publisher(
            f"mesh/{stream}/value",
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )
        os.write(1, b"up\n")
        sys.stdin.readline()
        ending = threading.Event()

        def wait_for_end() -> None:
            sys.stdin.readline()
            ending.set()

        threading.Thread(target=wait_for_end, daemon=True).start()
        number, due = 0, time.monotonic()
        while not ending.is_set():
            number += 1
            now = time.monotonic()
            note(0, stream, number, now, now)
            publisher.put(payload(stream, number, now, size))
            due += 1 / rate_hz
            time.sleep(max(0.0, due - time.monotonic()))
        sys.stdin.readline()  # goes on listening
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
