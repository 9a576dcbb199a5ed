"""A start imports what it needs: on a Pi each module is felt.

What each command imports stands in `imported_packages.toml`. These bounds do not depend on time.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gateway.base import build

RECORD = Path(__file__).with_name("imported_packages.toml")
COMMANDS = {
    "help": ["--help"],
    "pub": ["pub", "--host", "127.0.0.1", "--port", "1", "-t", "t", "-m", "m"],
    "get": ["get", "coap://127.0.0.1:1/x"],
    "status": ["status", "127.0.0.1:1"],
    "top": ["top", "127.0.0.1:1", "--once"],
}
PROGRAM = """
import sys
from gateway.program import main
try:
    main()
finally:
    with open(sys.stderr.fileno(), "w", closefd=False) as told:
        print("MODULES", *sorted(sys.modules), file=told)
"""
READY_S = 60.0
THREADS_MAX = 6
ANONYMOUS_MIB_MAX = 46.0
"""Memory that no file is behind: 36.1 interpreted on Python 3.11, 34.2 compiled by gcc, and by tcc,
before X.509 went, at most 45.5."""
MAPPED_MIB_MAX = {"interpreted": 16.0, "compiled": 36.0}
"""Pages of files when it is ready, by build: 20.6 interpreted and 34.3 compiled by gcc when a start
kept all code that it ran, 6.2 and 11.8 since it gives that back. Of what tcc compiles 30 are mapped
again at once: its code is three times as large, and lies on pages of 2 MiB."""
UNUSED = {  # by a gateway of the plain configuration
    "amqtt": "access.plugins",
    "gateway.tools.cli": "another command than `hedgerow run`",
    "cloud_ingest.arguments": "`hedgerow ingest`",
    "websockets": "mqtt.websocket_port",
    "prometheus_client": "a visit of /metrics",
    "h11": "a visit of the console",
    "argon2": "a client with a password",
    "csv": "a sensor of type replay",
    "psutil": "a visit of /metrics, or IPv6 of tree.discovery_interface and coap.multicast",
    "statistics": "nothing: a median alone brings rational numbers",
    "gateway.node.links.routed_part": "tree.mode",
    "tree_handler.overlays": "tree.mode",
    "gateway.coap.oscore.context": "coap.oscore_file",
    "gateway.coap.oscore.keys": "coap.oscore_file",
    "gateway.coap.multicast": "coap.multicast",
    "dtls.certificates": "coap.certificate_file",
    "cryptography.x509": "a certificate_file",
    "OpenSSL": "a certificate_file",
    "email": "a certificate_file, whose names may be mail addresses",
    "gateway.trust.tls.context": "a certificate_file",
    "gateway.trust.tls.certificates": "a certificate_file",
    "gateway.trust.certificates.validity": "a certificate_file",
    "gateway.trust.credentials.crl": "a client_ca_file",
    "gateway.node.signing.newest_lists": "a client_ca_file",
    "gateway.process.access.secure_files": "a certificate_file",
    "gateway.trust.certificates.stores": "a certificate_file",
    "gateway.node.links.link_tls": "mqtt.certificate_file",
    "gateway.node.signing.trust": "mqtt.certificate_file",
    "gateway.node.signing.life_proof": "mqtt.certificate_file",
    "gateway.trust.tls.layer": "mqtt.tls_port, or a certificate of the console",
    "gateway.broker.proxy_protocol.layer": "mqtt.proxies",
    "gateway.sensors.driver_process": "a driver of one's own that is added",
    "pickle": "a driver of one's own that is added",
    "alerts.ack_link": "alerts.ack_url",
    "gateway.alerting.problem_topic": "alerts.mqtt",
    "gateway.trust.enrolment.following": "keys.service",
    "gateway.tools.flashing": "hedgerow flash",
    "gateway.trust.certificates.authority": "hedgerow keys",
    "gateway.tools.demo": "hedgerow demo",
    "gateway.backups.making": "hedgerow backup",
    "tarfile": "hedgerow backup",
    "shutil": "a command that copies files",
    "cloud_ingest.collector": "hedgerow collector",
    "confluent_kafka": "hedgerow collector",
    "zeroconf": "coap.dns_sd",
    "importlib.metadata": "a sensor of an installed package",
}


UNUSED_WITHOUT_KEYS = (
    *("cryptography", "_cffi_backend", "dtls.context", "dtls.endpoint", "dtls.session"),
    *("gateway.coap.credentials", "gateway.coap.dtls_sessions", "gateway.coap.handshake_log"),
)
"""By a gateway that has neither coap.psk_file nor a certificate, and so no CoAP over DTLS."""

UNUSED_BY_A_PAGE = (
    *("cryptography.x509", "OpenSSL", "email", "dtls.certificates"),
    *("gateway.process.page.keys_api", "gateway.trust.tls.context"),
)
"""By a page of a gateway without certificates, as long as nobody asks for its keys."""


def imported(told: str) -> list[str]:
    """The modules that a process of `PROGRAM` has said it imported."""
    line = next(line for line in told.splitlines() if line.startswith("MODULES "))
    return line.split()[1:]


def packages(modules: Iterable[str]) -> set[str]:
    """Rooms of ours, and packages of others that are not Python's own."""
    parts = [name.split(".") for name in modules]
    ours = {room(each) for each in parts if len(each) > 2 and each[0] in OURS}
    others = {each[0] for each in parts} - sys.stdlib_module_names
    return ours | {name for name in others if not name.startswith(NOT_PACKAGES)}


def room(module: list[str]) -> str:
    """The folder of ours that a module is in: of a floor's modules a folder of that floor."""
    depth = 3 if ".".join(module[:2]) in FLOORS and len(module) > 3 else 2
    return ".".join(module[:depth])


FLOORS = {f"gateway.{name}" for name in ("base", "trust", "node", "process", "tools")}
OURS = {
    *("gateway", "tree_handler", "dtls", "coap_engine", "resource_directory", "cloud_ingest"),
    "record_formats",
    "light_dataclasses",
}
NOT_PACKAGES = ("_", "sitecustomize", "usercustomize", "cython_runtime", "hedgerow__mypyc")
"""Of Python, of what made an extension, and the library of a compiled build."""


def told_of(command: str, modules: list[str]) -> str:
    """Return the faults in a command's imports, with advice, or an empty text."""
    known = tomllib.loads(RECORD.read_text())[command]
    faults = [
        f"`hedgerow {command}` imports {name}, which it did not before. Import it where it is "
        "used, if not each start uses it (docs/decisions/0139); else write it down, with the "
        f"reason in the commit, in {RECORD.name}."
        for name in sorted(packages(modules) - set(known["packages"]))
    ]
    if len(modules) > known["modules_max"]:
        faults.append(
            f"`hedgerow {command}` imports {len(modules)} modules; {known['modules_max']} are "
            "allowed. `python -X importtime -m gateway.tools.cli` says which cost what."
        )
    return "\n".join(faults)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_what_it_is_known_to_need(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *COMMANDS[command]],
        capture_output=True,
        text=True,
        check=False,
    )
    modules = imported(done.stderr)
    assert told_of(command, modules) == ""


def test_a_new_package_is_named_with_what_to_do() -> None:
    told = told_of("help", ["gateway.tools.cli", "cryptography.x509", "json"])
    assert told.startswith("`hedgerow help` imports cryptography, which it did not before.")
    assert "json" not in told


@contextmanager
def serving(folder: Path, *without: str, console: str = "") -> Iterator[subprocess.Popen[str]]:
    """A gateway that is ready, as `hedgerow init` configures it.

    Keys are left out of it, and others are added to the console's.
    """
    init = [sys.executable, "-m", "gateway.tools.cli", "init", "--name", "gw-a", "-y", str(folder)]
    subprocess.run(init, check=True, capture_output=True)
    config = folder / "hedgerow.toml"
    text = config.read_text()
    for port in ("1883", "5683", "5684"):
        text = text.replace(f"port = {port}", "port = 0")
    for key in without:
        text, count = re.subn(rf"(?m)^{key} = .*$", "", text)
        assert count == 1
    config.write_text(f"{text}\n[console]\nport = 0\n{console}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(folder / "notify"))
        notices.settimeout(READY_S)
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", "--config", str(config)],
            env=os.environ | {"NOTIFY_SOCKET": str(folder / "notify")},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert b"READY=1" in notices.recv(4096)
            yield process
        finally:
            process.kill()
            process.communicate()


def test_a_serving_gateway_has_imported_what_its_configuration_uses(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        assert psutil.Process(process.pid).num_threads() <= THREADS_MAX
        mapped = psutil.Process(process.pid).memory_maps()
        assert sum(each.anonymous for each in mapped) / 2**20 <= ANONYMOUS_MIB_MAX
        assert (
            sum(each.rss - each.anonymous for each in mapped) / 2**20
            <= MAPPED_MIB_MAX[build.running()]
        )
        process.send_signal(signal.SIGTERM)
        modules = imported(process.communicate(timeout=READY_S)[1])
    used = {name: why for name, why in UNUSED.items() if name in modules}
    assert used == {}, "imported without the key of the configuration, or the command, that uses it"
    assert told_of("run", modules) == ""


def test_where_nobody_has_a_key_no_dtls_is_imported(tmp_path: Path) -> None:
    with serving(tmp_path, "psk_file") as process:
        process.send_signal(signal.SIGTERM)
        modules = imported(process.communicate(timeout=READY_S)[1])
    assert [name for name in UNUSED_WITHOUT_KEYS if name in modules] == []


def test_a_page_that_nobody_looks_at_has_loaded_no_x509(tmp_path: Path) -> None:
    with serving(tmp_path, console="web = true\n") as process:
        process.send_signal(signal.SIGTERM)
        modules = imported(process.communicate(timeout=READY_S)[1])
    assert "gateway.process.page.opening" in modules
    assert [name for name in UNUSED_BY_A_PAGE if name in modules] == []


def test_the_version_is_that_of_the_package() -> None:
    assert importlib.metadata.version("hedgerow") == build.VERSION


INTERRUPTED = """
import sys
from gateway.program import main

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[-1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupts())
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("status", "gateway.tools.cli"),
        ("status", "gateway.tools.commands.asking"),
        ("run", "gateway.tools.commands.serving"),
    ],
)
def test_ctrl_c_while_modules_are_loaded_ends_a_command_without_a_word(
    command: str, module: str
) -> None:
    words = [command, "--config", module]
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
