"""The brokers that are compared: how each is configured, as a process of its own on loopback.

Peers keep their defaults but for what the measurement needs: anonymous clients, a port, a
folder, and no log line for each connection. What a broker keeps through a crash is said beside
its name, because it is half of what its figure means.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import starmap
from pathlib import Path
from typing import Any

from benchmarks import broker_figures as figures
from benchmarks import builds
from benchmarks.fleet_certificates import FleetCertificates
from benchmarks.load_generator import SOURCES
from gateway.base.event_loop import CHOICE_VARIABLE

AEDES_VERSION = "1.2.0"
_INSTALL_LIMIT_S = 60.0
_CONNECTIONS = 10_000
"""All clients of a case are one user's: they name none."""

Prepare = Callable[[Path, int], list[str]]
"""Writes a configuration into a folder for a port, and gives the command."""
Tables = Callable[[Path, int], Mapping[str, Mapping[str, Any]]]
"""Gives further sections of a gateway's configuration, for a folder and a port."""


class MissingPeerError(RuntimeError):
    """A peer can't be used on this machine; the message names it and what would help."""


CERTIFICATES, LINK_PORT = "certificates", "link.port"
"""In the folder of a gateway whose link is inside TLS."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that can be started.

    Attributes:
        name: as it is shown.
        keeps: the messages that outlive a crash of it, in words.
        prepare: writes its configuration and gives its command.
        environment: variables that it gets besides this program's.
        neighbour: the command of a program that is started with it, prints a line when it is
            ready, and ends when its stdin does; takes the folder and the port.

    """

    name: str
    keeps: str
    prepare: Prepare
    environment: Mapping[str, str] = field(default_factory=dict)
    neighbour: Prepare | None = None


def ours(
    name: str,
    durability: str = "write",
    *,
    loop: str = "",
    with_rules: bool = True,
    with_neighbour: bool = True,
    with_log: bool = True,
    signatures: str = "",
    build: builds.Build | None = None,
    tables: Tables = lambda _folder, _port: {},
) -> Broker:
    """Return a gateway with a policy of access and a neighbour, unless something is to be left out.

    Args:
        name: as it is shown.
        durability: ``write`` or ``sync``.
        loop: ``asyncio``, or empty for what a gateway takes by itself.
        with_rules: true if it has a policy (that allows all).
        with_neighbour: true if it has a link, so that it stamps QoS 0 messages too.
        with_log: true if it appends to its log at all; without, the build is the interpreted one,
            since in the other nothing can be taken out of a class from outside.
        signatures: ``on`` or ``off``: then its link is inside TLS; else it is not.
        build: the build that runs; without, the one that is measured as ours.
        tables: further sections; asked for once for each gateway that is started.

    """
    keeps = {
        "write": "QoS 1 and 2 outlive a kill",
        "sync": "QoS 1 and 2 outlive a power cut",
    }[durability]
    program = "gateway.tools.cli" if with_log else "benchmarks.without_log"
    runs_on = (build or builds.ours()) if with_log else builds.INTERPRETED

    def prepare(folder: Path, port: int) -> list[str]:
        (folder / "tree.key").touch(mode=0o600)
        (folder / "tree.key").write_text("5a" * 32)
        rules: dict[str, str] = {}
        if with_rules:
            policy = folder / "access.toml"
            policy.write_text('[default]\npublish = ["#"]\nsubscribe = ["#"]\n')
            rules = {"policy_file": str(policy)}
        configuration: dict[str, dict[str, Any]] = {
            "gateway": {"id": gateway_id(port), "state_dir": str(folder / "state")},
            "mqtt": {"port": port},
            "coap": {"port": 0},
            "tree": {"key_file": str(folder / "tree.key"), "tls": "off", "discovery": False},
            "log": {"durability": durability},
            "access": {"anonymous": True, **rules},
            "limits": {"connections": _CONNECTIONS, "connections_per_user": _CONNECTIONS},
        }
        if signatures:
            configuration["tree"] |= {"tls": "required", "signatures": signatures}
            configuration["mqtt"] |= _link_tls(folder, port)
        for section, values in tables(folder, port).items():
            configuration[section] |= values
        config = folder / "gateway.toml"
        config.write_text("".join(starmap(_toml_table, configuration.items())))
        return [*runs_on.command(program), "run", "--config", str(config)]

    def neighbour(folder: Path, port: int) -> list[str]:
        beside = folder / "neighbour"
        beside.mkdir()
        arguments = [str(port), str(folder / "tree.key"), str(beside)]
        if signatures:
            arguments[0] = (folder / LINK_PORT).read_text()
            arguments += [str(folder / CERTIFICATES), signatures]
        return [*builds.ours().command("benchmarks.neighbour"), *arguments]

    return Broker(
        name,
        keeps if with_log else "nothing",
        prepare,
        {CHOICE_VARIABLE: loop} if loop else {},
        neighbour if with_neighbour else None,
    )


def _link_tls(folder: Path, port: int) -> dict[str, Any]:
    """Return the keys of TLS for its links; write port and certificates into the folder."""
    own = gateway_id(port)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        link_port: int = probe.getsockname()[1]
    (folder / LINK_PORT).write_text(str(link_port))
    certificates = FleetCertificates(folder / CERTIFICATES, [own, "neighbour"])
    return {"tls_port": link_port, **certificates.mqtt(own)}


def gateway_id(port: int) -> str:
    """Return the id of the gateway of ours that has its clients at a port."""
    return f"bench-{port}"


def variants() -> list[Broker]:
    """Return gateways that differ in one thing each from the one that is compared: what is its
    price?"""
    without_uvloop = [
        ours(figures.OURS_ASYNCIO, loop="asyncio"),
        ours(figures.OURS_ASYNCIO_SYNCED, "sync", loop="asyncio"),
    ]
    return [
        *(without_uvloop if importlib.util.find_spec("uvloop") else []),
        ours("hedgerow without access rules", with_rules=False),
        ours("hedgerow without a link's stamps", with_neighbour=False),
        ours("hedgerow, its link in TLS, unsigned", signatures="off"),
        ours("hedgerow, its link in TLS, signed", signatures="on"),
        ours("hedgerow interpreted, without a log", with_log=False),
    ]


def peers(folder: Path) -> tuple[list[Broker], list[str]]:
    """Return the peers that this machine has, and a line for each that it has not.

    Args:
        folder: for what has to be installed first.

    """
    found: list[Broker] = []
    missing: list[str] = []
    finders: list[Callable[[], Broker]] = [
        partial(mosquitto, nodelay=True),
        partial(mosquitto, nodelay=False),
        nats_server,
        amqtt,
        partial(aedes, folder),
    ]
    for find in finders:
        try:
            found.append(find())
        except MissingPeerError as error:
            if str(error) not in missing:
                missing.append(str(error))
    return found, missing


def bare_forwarder() -> Broker:
    """Return no broker, but the least that one in Python could do: see the program."""

    def prepare(_folder: Path, port: int) -> list[str]:
        return [sys.executable, "-m", "benchmarks.bare_forwarder", str(port)]

    return Broker("bare forwarder in Python", "nothing", prepare)


def mosquitto(*, nodelay: bool) -> Broker:
    """Mosquitto, in memory.

    Its limits on queues and on messages in flight are off: with them it drops QoS 0 messages and
    closes a publisher that has more than 20 QoS 2 messages in flight.

    Raises:
        MissingPeerError: it is not installed.

    """
    program = _program("mosquitto", "mosquitto")
    number = _first_line([program, "-h"]).removeprefix("mosquitto version ")

    def prepare(folder: Path, port: int) -> list[str]:
        config = folder / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
            f"set_tcp_nodelay {str(nodelay).lower()}\n"
            "max_queued_messages 0\nmax_inflight_messages 0\nlog_dest stderr\nlog_type error\n"
        )
        return [program, "-c", str(config)]

    extra = ", set_tcp_nodelay" if nodelay else ""
    return Broker(f"mosquitto {number}{extra}", "nothing", prepare)


def nats_server() -> Broker:
    """nats-server's MQTT listener, over JetStream on disk.

    Raises:
        MissingPeerError: it is not installed.

    """
    program = _program("nats-server", "nats-server")
    number = _first_line([program, "--version"]).removeprefix("nats-server: v")

    def prepare(folder: Path, port: int) -> list[str]:
        config = folder / "nats.conf"
        config.write_text(
            'host: "127.0.0.1"\nport: -1\nserver_name: bench\n'
            f"jetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'))} }}\n"
            f'mqtt {{ host: "127.0.0.1", port: {port} }}\n'
        )
        return [program, "-c", str(config)]

    return Broker(f"nats-server {number}", "QoS 1 outlives a kill", prepare)


def amqtt() -> Broker:
    """Return the amqtt of this Python environment, as it comes.

    Raises:
        MissingPeerError: it is not installed.

    """
    try:
        number = version("amqtt")
    except PackageNotFoundError as error:
        raise MissingPeerError("amqtt is not installed: pip install amqtt") from error

    def prepare(folder: Path, port: int) -> list[str]:
        config = folder / "amqtt.yaml"
        config.write_text(
            f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n"
            "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n"
            "    allow_anonymous: true\n"
        )
        return [sys.executable, "-m", "amqtt.scripts.broker_script", "-c", str(config)]

    return Broker(f"amqtt {number}", "nothing", prepare)


def aedes(folder: Path) -> Broker:
    """aedes, in memory, installed with npm into a folder.

    Raises:
        MissingPeerError: there is no Node.js, no npm, or no way to the package.

    """
    node, npm = _program("node", "nodejs"), _program("npm", "npm")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    command += ["--prefix", str(folder), f"aedes@{AEDES_VERSION}"]
    try:
        subprocess.run(
            command, capture_output=True, check=True, timeout=_INSTALL_LIMIT_S, cwd=folder
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise MissingPeerError(
            f"aedes is not installed: npm install aedes@{AEDES_VERSION} failed"
        ) from error
    script = folder / "aedes.mjs"
    shutil.copyfile(SOURCES / "aedes.mjs", script)
    return Broker(
        f"aedes {AEDES_VERSION}", "nothing", lambda _folder, port: [node, str(script), str(port)]
    )


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingPeerError(f"{name} is not installed: sudo apt-get install {package}")
    return path


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    return (done.stdout + done.stderr).partition("\n")[0].strip()


def _toml_table(name: str, values: Mapping[str, Any]) -> str:
    """Return a table of plain values; JSON's notation of those is TOML's too."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[{name}]\n{lines}"
