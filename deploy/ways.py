"""Measures two ways through the code: of a QoS 1 PUBLISH to its PUBACK, and of a cached GET.

    python deploy/ways.py          print calls, classes and modules of both
    python deploy/ways.py --list   also name each call, in order

A gateway runs in this process, on asyncio's own loop, and a client in another thread asks the same
again and again. Of each answer the calls of Python functions are counted from the moment at which
the loop finds its socket readable up to the call that hands the answer to the kernel. The shortest
of them counts: what timers do meanwhile is not on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gateway.process.configuration import config  # noqa: E402  # found by the line above
from gateway.process.running.gateway_process import GatewayProcess  # noqa: E402

PACKAGES = ("gateway", "resource_directory", "tree_handler", "dtls", "coap_engine")
TIMES = 40
"""So often each is asked; the first few meet what is made on demand."""
ANSWER_S = 20.0
REST_S = 0.01

CONNECT = b"\x10\x10\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x03way"
PUBACK = 0x40
SENSOR = """
[[sensors]]
name = "room"
type = "replay"
series = "irradiance"
interval_s = 3600
"""


@dataclass(frozen=True)
class Call:
    """One call of a function of the product.

    Attributes:
        module: the file, from the root.
        function: its qualified name.
        owner: the class of the object that it is a method of; empty for a plain function.

    """

    module: str
    function: str
    owner: str


@dataclass(frozen=True)
class Way:
    """The calls that one request made on its way through the gateway.

    Attributes:
        name: of the request.
        calls: in order.

    """

    name: str
    calls: tuple[Call, ...]

    @property
    def classes(self) -> set[tuple[str, str]]:
        """The classes whose methods were called."""
        return {(call.module, call.owner) for call in self.calls if call.owner}

    @property
    def modules(self) -> set[str]:
        """The files in which they stand."""
        return {call.module for call in self.calls}


class Recorder:
    """Notes the calls of the thread in which it is started, between two moments.

    Attributes:
        calls: those since `begin`, up to the newest that handed bytes to the kernel.

    """

    def __init__(self) -> None:
        self.calls: tuple[Call, ...] = ()
        self._seen: list[Call] = []
        self._is_on = False
        self._of = tuple(f"{ROOT}/{package}/" for package in PACKAGES)

    def begin(self) -> None:
        """Forget what was noted, and note from now on."""
        self.calls, self._seen = (), []
        self._is_on = True

    def end(self) -> tuple[Call, ...]:
        """Note no more, and return what was met."""
        self._is_on = False
        return self.calls

    def hear(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take what Python tells of each call (`sys.setprofile`)."""
        if not self._is_on:
            return
        if event == "c_call" and argument.__name__ in ("send", "sendto", "sendmsg"):
            self.calls = tuple(self._seen)
        if event != "call" or not frame.f_code.co_filename.startswith(self._of):
            return
        code = frame.f_code
        first = code.co_varnames[0] if code.co_argcount else ""
        owner = ""
        if first in ("self", "cls"):
            me = frame.f_locals[first]
            owner = (me if isinstance(me, type) else type(me)).__qualname__
        self._seen.append(Call(code.co_filename[len(str(ROOT)) + 1 :], code.co_qualname, owner))


def settings(folder: Path, coap_port: int) -> config.GatewaySettings:
    """Return the configuration of a gateway without neighbours, on this machine alone."""
    key = folder / "tree.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    path = folder / "gateway.toml"
    path.write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = {coap_port}
[tree]
key_file = "{key}"
discovery = false
[access]
anonymous = true
[console]
enabled = false
{SENSOR}"""
    )
    return config.load(path, config.GatewaySettings)


def free_udp_port() -> int:
    """Return a port of this machine that nobody has now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


Rest = Callable[[], object]
"""Waits until the gateway has done what the answer before has left behind it."""


def publish(port: int, recorder: Recorder, rest: Rest) -> list[tuple[Call, ...]]:
    """Publish at QoS 1, one at a time; return what each met."""
    met = []
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as client:
        client.sendall(CONNECT)
        client.recv(4096)
        for number in range(1, TIMES + 1):
            packet = b"\x00\x03a/b" + number.to_bytes(2, "big") + b"\x00" + b"21.5"
            rest()
            recorder.begin()
            client.sendall(bytes((0x32, len(packet))) + packet)
            answer = client.recv(4096)
            met.append(recorder.end())
            if answer[0] != PUBACK:
                raise SystemExit(f"ways: {answer.hex()} is no PUBACK")
    return met


def get(port: int, recorder: Recorder, rest: Rest) -> list[tuple[Call, ...]]:
    """Read one sensor again and again; return what each request met."""
    met = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(ANSWER_S)
        client.connect(("127.0.0.1", port))
        for number in range(1, TIMES + 1):
            rest()
            recorder.begin()
            # Confirmable, no token; GET /sensors/room.
            client.send(b"\x40\x01" + number.to_bytes(2, "big") + b"\xb7sensors\x04room")
            answer = client.recv(4096)
            met.append(recorder.end())
            if answer[1] != 0x45:
                raise SystemExit(f"ways: GET /sensors/room was answered {answer.hex()}, not 2.05")
    return met


async def measured() -> list[Way]:
    """Run a gateway and a client; return both ways."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        coap_port = free_udp_port()
        process = GatewayProcess(settings(Path(folder), coap_port))
        await process.start()
        try:
            ways = []
            for name, ask, port in (
                ("QoS 1 PUBLISH to PUBACK", publish, process.mqtt_port),
                ("cached GET", get, coap_port),
            ):
                await asyncio.sleep(0.5)  # what a start leaves to be done
                ways.append(Way(name, await _shortest(ask, port, recorder)))
        finally:
            await process.stop()
    return ways


async def _shortest(
    ask: Callable[[int, Recorder, Rest], list[tuple[Call, ...]]], port: int, recorder: Recorder
) -> tuple[Call, ...]:
    loop = asyncio.get_running_loop()

    def rest() -> None:
        # Behind an answer a turn has an end, and perhaps another turn; on a busy machine the client
        # is quicker, and what belongs to one request would be counted with the next.
        asyncio.run_coroutine_threadsafe(asyncio.sleep(REST_S), loop).result(ANSWER_S)

    sys.setprofile(recorder.hear)
    try:
        met = await asyncio.to_thread(ask, port, recorder, rest)
    finally:
        sys.setprofile(None)
    return min((one for one in met if one), key=len)


def main() -> int:
    """Print both ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name each call, in order")
    options = parser.parse_args()
    ways = asyncio.run(measured())
    lines = [f"{'way':26}{'calls':>7}{'classes':>9}{'modules':>9}"]
    for way in ways:
        lines.append(f"{way.name:26}{len(way.calls):7}{len(way.classes):9}{len(way.modules):9}")
    for way in ways if options.list else ():
        lines += ["", way.name]
        lines += [f"  {call.module}  {call.function}" for call in way.calls]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
