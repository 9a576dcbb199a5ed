"""The CoAP servers and directories that are compared, as processes of their own on loopback."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks import builds
from benchmarks.aiocoap_server import BIG, SENSOR
from benchmarks.broker_process import StartError
from benchmarks.coap_load import POST, PSK, PSK_IDENTITY, PUT

OURS = "hedgerow"
OURS_INTERPRETED = "hedgerow interpreted"
LIBCOAP = "libcoap coap-server"
AIOCOAP = "aiocoap"
LIBCOAP_RD = "libcoap coap-rd"
AIOCOAP_RD = "aiocoap-rd"
START_LIMIT_S = 60.0
_STOP_LIMIT_S = 5.0
_PING = b"\x40\x00\x12\x34"
_INSTALL = "sudo apt-get install libcoap3-bin"
_PR_SET_PDEATHSIG = 1

CONFIG = """
[gateway]
id = "bench"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = {port}
dtls_port = {dtls_port}
psk_file = "{folder}/psk"
{coap}
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
[access]
anonymous = true
[coap.limits]
sessions = 2048
identity_datagrams_per_s = 1000000
address_observations = 4096
observations = 4096
[[sensors]]
type = "host"
{more}
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """A resource that can be observed, and how it is changed.

    Attributes:
        uri: of the resource that is observed.
        change_uri: of the request that changes it; a # in it is the number of the change.
        method: of the change.
        payload: of the change, with a # as well.

    """

    uri: str
    change_uri: str
    method: int = PUT
    payload: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers.

    Attributes:
        name: as it is shown.
        port: of plain CoAP.
        dtls_port: None if it has none.
        pid: of its process.
        sensor: the path of a sensor's value.
        big: the path of a representation of 4 KiB, and its length; None if it has none.
        watched: the resource that can be observed; None if nothing is measured.

    """

    name: str
    port: int
    dtls_port: int | None
    pid: int
    sensor: str = ""
    big: tuple[str, int] | None = None
    watched: Watched | None = None

    def rss_mib(self) -> float:
        """Resident memory of the process."""
        return float(psutil.Process(self.pid).memory_info().rss) / (1 << 20)

    def threads(self) -> int:
        """Return the number of its threads."""
        return int(psutil.Process(self.pid).num_threads())


_PUT_WATCHED = Watched("/sensor", "/sensor", payload="bench-#-")


@dataclass(frozen=True, slots=True)
class Server:
    """One that can be started; `prepare` takes a folder and a port, whose next is DTLS's."""

    name: str
    prepare: Callable[[Path, int], list[str]]
    has_dtls: bool = True
    fill: Callable[[Served], Served] = lambda served: served


def ours(
    name: str, build: builds.Build, *, more: str = "", coap: str = "", fills: bool = True
) -> Server:
    """Return a gateway with sensors; with ``fills`` also a registration whose links are 4 KiB.

    Args:
        name: as it is shown.
        build: the build that runs.
        more: sections of the configuration.
        coap: further keys of ``[coap]``.
        fills: true for that registration.

    """

    def prepare(folder: Path, port: int) -> list[str]:
        for secret, text in (
            ("tree.key", "5a" * 32),
            ("psk", f"{PSK_IDENTITY}:{PSK.encode().hex()}\n"),
        ):
            (folder / secret).touch(mode=0o600)
            (folder / secret).write_text(text)
        config = folder / "gateway.toml"
        places = {"folder": folder, "port": port, "dtls_port": port + 1}
        config.write_text(CONFIG.format(**places, more=more, coap=coap))
        return [*build.command("gateway.tools.cli"), "run", "--config", str(config)]

    def fill(served: Served) -> Served:
        base = f"coap://127.0.0.1:{served.port}"
        links = ",".join(f'</{n:04}>;rt="temperature-c";if="core.s"' for n in range(1000))
        links = links[: links.rindex(",", 0, len(BIG))]
        _client("-m", "post", "-t", "40", "-e", links, f"{base}/rd?ep=big&lt=86400")
        found = re.match(r"<(/[^>]+)>", _client(f"{base}/rd-lookup/ep?ep=big"))
        if found is None:
            raise StartError(f"{name}: the registration that is to be read is not there")
        length = len(_client(f"{base}{found[1]}"))
        _client("-m", "post", "-t", "40", "-e", "</w>", f"{base}/rd?ep=watched&lt=86400")
        watched = re.match(r"<(/[^>]+)>", _client(f"{base}/rd-lookup/ep?ep=watched"))
        if watched is None:
            raise StartError(f"{name}: the registration that is to be watched is not there")
        change = Watched("/rd-lookup/ep?ep=watched", f"{watched[1]}?et=bench-#-", POST)
        return replace(served, sensor="/sensors/host/load1", big=(found[1], length), watched=change)

    def leave(served: Served) -> Served:
        return replace(served, sensor="/sensors/host/load1")

    return Server(name, prepare, fill=fill if fills else leave)


def all_ours(*, more: str = "", coap: str = "", fills: bool = True) -> list[Server]:
    """Return the build that counts, and the interpreted one beside it if that is another."""
    found = [ours(OURS, builds.ours(), more=more, coap=coap, fills=fills)]
    if builds.compiled() is not None:
        found.append(ours(OURS_INTERPRETED, builds.INTERPRETED, more=more, coap=coap, fills=fills))
    return found


def libcoap(more: Sequence[str] = ()) -> Server | None:
    """libcoap's example server, with resources that clients have put there.

    Args:
        more: further arguments.

    """
    program = shutil.which("coap-server-openssl")

    def prepare(_folder: Path, port: int) -> list[str]:
        command = [program or "", "-d", "10", "-A", "127.0.0.1", "-p", str(port), "-k", PSK]
        # Confirmable notifications it stops sending once acknowledgements overflow its socket.
        command.append("-N")
        return [*command, *more, "-v", "0"]

    def fill(served: Served) -> Served:
        base = f"coap://127.0.0.1:{served.port}"
        _client("-m", "put", "-e", SENSOR.decode(), f"{base}/sensor")
        _client("-m", "put", "-e", BIG.decode(), f"{base}/big")
        return replace(served, sensor="/sensor", big=("/big", len(BIG)), watched=_PUT_WATCHED)

    return None if program is None else Server(LIBCOAP, prepare, fill=fill)


def aiocoap() -> Server:
    """aiocoap's server; its DTLS one needs a package that has no release for this Python."""

    def prepare(_folder: Path, port: int) -> list[str]:
        return [sys.executable, "-m", "benchmarks.aiocoap_server", str(port)]

    def fill(served: Served) -> Served:
        return replace(served, sensor="/sensor", big=("/big", len(BIG)), watched=_PUT_WATCHED)

    return Server(AIOCOAP, prepare, has_dtls=False, fill=fill)


def libcoap_directory() -> Server | None:
    """libcoap's example directory: it takes registrations and looks up nothing."""
    program = shutil.which("coap-rd-openssl")

    def prepare(_folder: Path, port: int) -> list[str]:
        return [program or "", "-A", "127.0.0.1", "-p", str(port), "-v", "0"]

    return None if program is None else Server(LIBCOAP_RD, prepare, has_dtls=False)


def aiocoap_directory() -> Server:
    """aiocoap's directory, as its command starts it; the mode for LwM2M has it at ``/rd``."""

    def prepare(_folder: Path, port: int) -> list[str]:
        command = [sys.executable, "-m", "aiocoap.cli.rd", "--lwm2m-compat"]
        return [*command, "--bind", f"127.0.0.1:{port}"]

    return Server(AIOCOAP_RD, prepare, has_dtls=False)


def missing() -> list[str]:
    """Return a line for each peer that this machine has not, and if ours is not compiled."""
    names = ("coap-server-openssl", "coap-rd-openssl", "coap-client-notls")
    lines = [f"{name} is not installed: {_INSTALL}" for name in names if not shutil.which(name)]
    return [*lines, *builds.missing()]


@contextmanager
def launched(server: Server, folder: Path) -> Iterator[Served]:
    """Run a server as long as the context is open.

    Raises:
        StartError: it does not answer.

    """
    folder.mkdir()
    port = _two_free_ports()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            server.prepare(folder, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_along,  # noqa: PLW1509  # this program has no threads
        )
    try:
        if not _answers(port, process):
            raise StartError(f"{server.name} did not start: {log.read_text()[-400:].strip()}")
        dtls_port = port + 1 if server.has_dtls else None
        yield server.fill(Served(server.name, port, dtls_port, process.pid))
    finally:
        process.terminate()
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    end_s = time.monotonic() + START_LIMIT_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ping:
        ping.settimeout(0.1)
        ping.connect(("127.0.0.1", port))
        while time.monotonic() < end_s and process.poll() is None:
            try:
                ping.send(_PING)
                if ping.recv(64):
                    return True
            except OSError:
                time.sleep(0.05)
    return False


def _client(*arguments: str) -> str:
    command = ["coap-client-notls", "-B", "10", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.rstrip("\n")


def _two_free_ports() -> int:
    while True:
        port = random.randrange(12_000, 20_000)
        with (
            socket.socket(type=socket.SOCK_DGRAM) as one,
            socket.socket(type=socket.SOCK_DGRAM) as two,
        ):
            try:
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def _die_along() -> None:
    """Have the kernel end the server when this program ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
