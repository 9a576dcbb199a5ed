"""A Zenoh router, and what the load generator is for MQTT: ``python -m benchmarks.zenoh_load``.

``route PORT [--connect=PORT]`` is a router and nothing else. ``load PUBLISH_PORT SUBSCRIBE_PORT``
publishes at one router and subscribes at another, and writes the JSON of the generator in C. The
subscriber keeps the newest sample alone, in Zenoh's own code, so that Python is not called for
each: what is counted is the number that the newest one carries. Publishers wait where the way is
full, so nothing is dropped; loss itself is not looked for.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from typing import Any

import zenoh

_HEAD = struct.Struct(">QQ")  # number, when it was sent in ns
_KEY = "bench/topic"
_SETTLE_S = 0.5
_PUTS = 64
_DRAIN_S = 4.0


def main() -> int:
    """Be a router, or put a load on two."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zenoh_load")
    commands = parser.add_subparsers(required=True)
    router = commands.add_parser("route")
    router.add_argument("port", type=int)
    router.add_argument("--connect", type=int, default=0)
    router.set_defaults(run=_route)
    load = commands.add_parser("load")
    load.add_argument("publish_port", type=int)
    load.add_argument("subscribe_port", type=int)
    load.add_argument("--payload", type=int, default=79)
    load.add_argument("--rate", type=int, default=0)
    load.add_argument("--warm-up-s", type=float, default=0.2)
    load.add_argument("--measure-s", type=float, default=1.0)
    load.set_defaults(run=_load)
    options = parser.parse_args()
    options.run(options)
    return 0


def _open(mode: str, listen: int = 0, connect: int = 0) -> Any:
    config = zenoh.Config()
    config.insert_json5("mode", json.dumps(mode))
    config.insert_json5("scouting/multicast/enabled", "false")
    for key, port in (("listen", listen), ("connect", connect)):
        if port:
            config.insert_json5(f"{key}/endpoints", json.dumps([f"tcp/127.0.0.1:{port}"]))
    return zenoh.open(config)


def _route(options: argparse.Namespace) -> None:
    with _open("router", options.port, options.connect):
        while True:
            time.sleep(3600)


def _load(options: argparse.Namespace) -> None:
    with (
        _open("client", connect=options.subscribe_port) as there,
        _open("client", connect=options.publish_port) as here,
    ):
        newest = there.declare_subscriber(_KEY, zenoh.handlers.RingChannel(1))
        publisher = here.declare_publisher(_KEY, congestion_control=zenoh.CongestionControl.BLOCK)
        time.sleep(_SETTLE_S)
        run = _light if options.rate else _pipelined
        sys.stdout.write(json.dumps(run(publisher, newest, options)) + "\n")


def _pipelined(publisher: Any, newest: Any, options: argparse.Namespace) -> dict[str, object]:
    padding = bytes(options.payload - _HEAD.size)
    sent = arrived = 0

    def publish_until(end_s: float) -> None:
        nonlocal sent, arrived
        while time.perf_counter() < end_s:
            for _ in range(_PUTS):
                sent += 1
                publisher.put(_HEAD.pack(sent, 0) + padding)
            sample = newest.try_recv()
            if sample is not None:
                arrived = _HEAD.unpack_from(bytes(sample.payload))[0]

    publish_until(time.perf_counter() + options.warm_up_s)
    began_s, cpu_s, before = time.perf_counter(), time.process_time(), arrived
    publish_until(began_s + options.measure_s)
    measured_s = time.perf_counter() - began_s
    measured, cpu_s = arrived - before, time.process_time() - cpu_s
    end_s = time.perf_counter() + _DRAIN_S
    while arrived < sent and time.perf_counter() < end_s:
        sample = newest.try_recv()
        if sample is None:
            time.sleep(0.001)
        else:
            arrived = _HEAD.unpack_from(bytes(sample.payload))[0]
    return _found(measured, measured_s, cpu_s, arrived, sent - arrived, [])


def _light(publisher: Any, newest: Any, options: argparse.Namespace) -> dict[str, object]:
    padding = bytes(options.payload - _HEAD.size)
    latencies_us: list[float] = []
    lost = 0
    cpu_s, began_s = time.process_time(), time.perf_counter()
    count = max(1, int(options.measure_s * options.rate))
    for number in range(1, count + 1):
        publisher.put(_HEAD.pack(number, time.monotonic_ns()) + padding)
        end_s = time.perf_counter() + 1.0
        while (sample := newest.try_recv()) is None and time.perf_counter() < end_s:
            time.sleep(0)  # a blocking call would add its wake-up
        if sample is None:
            lost += 1
            continue
        _, sent_ns = _HEAD.unpack_from(bytes(sample.payload))
        latencies_us.append((time.monotonic_ns() - sent_ns) / 1000)
        time.sleep(max(0.0, began_s + number / options.rate - time.perf_counter()))
    measured_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - cpu_s
    return _found(count, measured_s, cpu_s, count - lost, lost, latencies_us)


def _found(  # the generator's keys
    measured: int,
    measured_s: float,
    cpu_s: float,
    delivered: int,
    lost: int,
    latencies_us: list[float],
) -> dict[str, object]:
    return {
        "status": "ok",
        "measured_delivered": measured,
        "measured_s": measured_s,
        "generator_cpu_s": cpu_s,
        "delivered": delivered,
        "latencies_us": latencies_us,
        "lost": lost,
        "duplicated": 0,
        "disordered": 0,
        "stray": 0,
    }


if __name__ == "__main__":
    sys.exit(main())
