"""Each row of the tables of docs/what-to-do-when.md is brought about, and what it has to be done.

Three gateways of `hedgerow init --fleet`, as real processes, which the rows share. What the page
quotes is read from the page itself. Its commands are run by tests/documents.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fleet_keys
import pytest
from ports import free_port

from tree_handler.members.place import Place

PAGE = Path(__file__).parents[2] / "docs" / "what-to-do-when.md"
HEDGEROW = (sys.executable, "-m", "gateway.tools.cli")
LIMIT_S = 60.0
NORTH, BARN, SOUTH = "gw-north", "gw-barn", "gw-south"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


# -- the page --------------------------------------------------------------------------------------


def rows() -> dict[str, list[str]]:
    """The first cells of the page's tables, by the page's headings."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| "):
            found.setdefault(heading, []).append(line.split("|")[1].strip())
    return {heading: cells[1:] for heading, cells in found.items()}


def quoted(heading: str, number: int) -> str:
    """The last words that a row's first cell has between backquotes."""
    return re.findall(r"`([^`]+)`", rows()[heading][number])[-1]


SILENT, REFUSED, LOST = "A gateway is silent", "A client is refused", "A key is lost"


def test_each_row_of_the_page_is_tried_here() -> None:
    text = Path(__file__).read_text()
    for constant, heading in (("SILENT", SILENT), ("REFUSED", REFUSED), ("LOST", LOST)):
        for number, cell in enumerate(rows().pop(heading)):
            assert f"# {constant} {number}: {cell}\n" in text, cell
    assert rows().keys() == {SILENT, REFUSED, LOST}


# -- the fleet -------------------------------------------------------------------------------------


def hedgerow(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run a command to its end: exit code, and all that it said."""
    done = subprocess.run(
        [*prefix, *HEDGEROW, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def until(holds: Callable[[], object], seen: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.1)


class Gateway:
    """One of them, its files and its process."""

    def __init__(self, folder: Path, port: int) -> None:
        self.name = folder.name
        self.folder = folder
        self.config = folder / "hedgerow.toml"
        self.mqtt, self.mqtts, self.coap, self.coaps = (port + i for i in range(4))
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def start(self) -> None:
        before = self.log.count(" is up: ")
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(
                [*HEDGEROW, "run", "--config", str(self.config)], stderr=file
            )
        until(lambda: self.log.count(" is up: ") > before, lambda: self.log)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(LIMIT_S)

    def reload(self) -> None:
        assert self._process is not None
        before = self.log.count("are read again")
        self._process.send_signal(signal.SIGHUP)
        until(lambda: self.log.count("are read again") > before, lambda: self.log)

    def restart(self) -> None:
        self.end()
        self.start()

    def says(self, text: str) -> None:
        until(lambda: text in self.log, lambda: f"{text}: {self.log}")

    def change(self, old: str, new: str) -> None:
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))

    def is_linked_to(self, other: Gateway) -> bool:
        _, shown = hedgerow("status", "--config", self.config)
        return bool(re.search(rf"^{other.name} +(designated|root|blocked)", shown, re.M))


class Fleet:
    """Three gateways, of which the first runs."""

    def __init__(self, folder: Path) -> None:
        first = first_port()
        names = (NORTH, BARN, SOUTH)
        code, said = hedgerow("init", folder, "-y", "--port", str(first), "--fleet", *names)
        assert code == 0, said
        self.folder = folder
        self.north, self.barn, self.south = (
            Gateway(folder / name, first + 4 * number) for number, name in enumerate(names)
        )
        self.all = (self.north, self.barn, self.south)

    @property
    def password(self) -> str:
        return (self.folder / "operator.password").read_text().strip()

    def publish(
        self, *more: str | Path, topic: str = "lamp", message: str = "on"
    ) -> tuple[int, str]:
        return hedgerow("pub", "-t", topic, "-m", message, *more)

    def as_operator(self, gateway: Gateway) -> tuple[int, str]:
        password = ("--password-file", self.folder / "operator.password")
        return self.publish("--config", gateway.config, "-u", "operator", *password)


def first_port() -> int:
    """The first of twelve in a row."""
    while True:
        first = free_port()
        if first % 1000 <= 988 and all(is_free(first + i) for i in range(12)):
            return first


def is_free(port: int) -> bool:
    with contextlib.ExitStack() as stack:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            probe = stack.enter_context(socket.socket(type=kind))
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path / "fleet")
    try:
        yield made
    finally:
        for gateway in made.all:
            gateway.end(signal.SIGKILL)


# -- its rows --------------------------------------------------------------------------------------


def test_a_gateway_that_is_silent_is_told_by_what_the_page_quotes(fleet: Fleet) -> None:
    north, barn, south = fleet.all
    with socket.socket(type=socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{deaf.getsockname()[1]}"
        waiting = subprocess.Popen([*HEDGEROW, "status", nobody], stderr=subprocess.PIPE, text=True)
        # SILENT 0: `is not running`
        assert hedgerow("status", "--config", north.config)[1].startswith(
            f"hedgerow: {NORTH} {quoted(SILENT, 0)} ("
        )
        for gateway in fleet.all:
            gateway.start()
        elsewhere = north.folder / "elsewhere.toml"
        text = north.config.read_text()
        elsewhere.write_text(text.replace('state_dir = "state"', 'state_dir = "other"'))
        assert quoted(SILENT, 0) in hedgerow("status", "--config", elsewhere)[1]

        # SILENT 1: `permission denied to read where gw-north listens`
        listens = north.folder / "state" / "listeners.json"
        mode = listens.stat().st_mode
        listens.chmod(0)
        unprivileged = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
        prefix = () if os.geteuid() else unprivileged
        code, said = hedgerow("status", "--config", north.config, prefix=prefix)
        assert (code, quoted(SILENT, 1) in said) == (1, True), said
        assert hedgerow("status", f"127.0.0.1:{north.coap}", prefix=prefix)[0] == 0
        listens.chmod(mode)

        # SILENT 2: `Connection refused`
        code, said = hedgerow("status", f"127.0.0.1:{free_port()}")
        assert (code, quoted(SILENT, 2) in said) == (1, True), said

        # SILENT 4: `hedgerow tree`: `no answer: gw-barn`
        def tree(gateway: Gateway) -> str:
            return hedgerow("tree", "--timeout", "3", "--config", gateway.config)[1]

        def is_whole(shown: str) -> bool:
            names = all(name in shown for name in (NORTH, BARN, SOUTH))
            return names and "no answer" not in shown

        for gateway in (north, south):
            until(lambda one=gateway: is_whole(tree(one)), lambda one=gateway: tree(one))
        barn.end(signal.SIGKILL)
        until(lambda: quoted(SILENT, 4) in tree(north), lambda: tree(north))

        # SILENT 5: `hedgerow tree` does not name it
        for gateway in (north, south):
            gateway.change("[tree]\n", "[tree]\nmember_timeout_s = 1.0\n")
            gateway.restart()

        def members() -> str:
            lines = tree(south).splitlines()
            return "\n".join(line for line in lines if "no link" not in line)

        until(lambda: NORTH in (shown := members()) and BARN not in shown, members)

        # SILENT 3: `no answer within 15 s`
        _, said = waiting.communicate(timeout=LIMIT_S)
        assert (waiting.returncode, quoted(SILENT, 3) in said) == (1, True), said


def test_a_client_that_is_refused_is_told_by_what_the_page_quotes(fleet: Fleet) -> None:
    north, _, south = fleet.all
    south.change('client_certificate = "optional"', 'client_certificate = "required"')
    pump = 'type = "switch"\nname = "pump"\ninterval_s = 3600.0\n'
    north.change(
        "[[sensors]]\n", f"[home_assistant]\ndiscovery = true\n[[sensors]]\n{pump}[[sensors]]\n"
    )
    passwords = north.folder / "passwords"
    add = [*HEDGEROW, "passwd", "--file", str(passwords), "alice"]
    subprocess.run(add, input=b"open sesame\n", check=True, capture_output=True, timeout=LIMIT_S)
    for gateway in (north, south):
        gateway.start()
    secret, guess = fleet.folder / "alice.password", fleet.folder / "guess"
    secret.write_text("open sesame\n")
    guess.write_text("guess\n")

    # REFUSED 0: `bad_user_name_or_password`
    code, _ = fleet.publish("--config", north.config, "-u", "alice", "--password-file", guess)
    assert code == 1
    north.says(f"user 'alice', MQTT 5.0: not authenticated: connection refused ({BAD_NAME})")
    assert f"({quoted(REFUSED, 0)})" in north.log
    assert fleet.as_operator(north)[0] == 0

    # REFUSED 1: `authentication over the limit of an address`
    def is_kept_out() -> bool:
        for _ in range(11):
            assert connect(north.mqtt, "alice", "guess") == REFUSED_3_1_1
        return connect(north.mqtt, "alice", "open sesame") == REFUSED_3_1_1

    until(is_kept_out)  # one guess in ten seconds is forgiven
    north.says(quoted(REFUSED, 1))
    assert connect(north.mqtt, "alice", "open sesame", source="127.0.0.3") == 0

    # REFUSED 2: `not_authorized`
    elsewhere = {"source": "127.0.0.3"}
    assert (
        connect(north.mqtt, "alice", "open sesame", will="valve", **elsewhere)
        == NOT_AUTHORIZED_3_1_1
    )
    north.says(f"({quoted(REFUSED, 2)})")

    # REFUSED 3: nothing, and CoAP answers 4.03, or what is published does not arrive
    asked = ("policy", "explain", "user:alice", "publish campus/lamp", "--config", north.config)
    assert hedgerow(*asked)[0] == 1
    writes = ("-u", "alice", "--password-file", secret)
    wrong = fleet.publish("--config", north.config, *writes, topic="campus/lamp")
    assert wrong[0] == 1
    policy = north.folder / "access.toml"
    policy.write_text(policy.read_text() + '"user:alice" = ["operator"]\n')
    assert hedgerow(*asked)[0] == 0
    north.reload()
    said = fleet.publish("--config", north.config, *writes, topic="campus/lamp")
    assert said[0] == 0, said

    # REFUSED 4: `gw-south may not command that`
    until(lambda: north.is_linked_to(south), lambda: north.log)
    own_topics = Place("", "").prefix(NORTH)
    at_south = ("--host", "127.0.0.1", "--port", str(south.mqtt), "-u", "operator")
    as_operator = (*at_south, "--password-file", fleet.folder / "operator.password")
    said = fleet.publish(*as_operator, topic=f"{own_topics}/pump/set")
    assert said[0] == 0, said
    north.says(quoted(REFUSED, 4))

    # REFUSED 5: `message not retained: not that gateway's topic`
    assert fleet.publish(*as_operator, "-r", topic=f"{own_topics}/note")[0] == 0
    north.says(quoted(REFUSED, 5))
    policy.write_text(policy.read_text() + f'[vouch]\n"{SOUTH}" = ["operator"]\n')
    north.reload()
    assert fleet.publish(*as_operator, topic=f"{own_topics}/pump/set", message="1")[0] == 0
    until(lambda: hedgerow("get", "pump", "--config", north.config)[1].split()[1] == "1")

    # REFUSED 6: `TLS handshake failed`
    fleet_keys.issue(fleet.folder / "other", "stranger")
    at_north = ("--host", "127.0.0.1", "--port", str(north.mqtts), "-u", "alice")
    strange = ("--cafile", fleet.folder / "other" / "ca.pem", "--password-file", secret)
    assert fleet.publish(*at_north, *strange)[0] == 1
    north.says(quoted(REFUSED, 6))
    at_south = ("--host", "127.0.0.1", "--port", str(south.mqtts), "-u", "operator")
    own = ("--cafile", south.folder / "tls" / "ca.pem", "--password-file", guess)
    before = south.log.count(quoted(REFUSED, 6))
    assert fleet.publish(*at_south, *own)[0] == 1
    until(lambda: south.log.count(quoted(REFUSED, 6)) > before, lambda: south.log)

    # REFUSED 7: nothing
    before_it = north.log
    assert fleet.publish("--host", "127.0.0.1", "--port", str(free_port()))[0] == 1
    assert "127.0.0.1)" not in north.log.removeprefix(before_it)

    # Whoever has guessed too often, a while ago by now, comes in after ten seconds.
    until(lambda: connect(north.mqtt, "alice", "open sesame") == 0, lambda: north.log)


BAD_NAME = "bad_user_name_or_password"
REFUSED_3_1_1, NOT_AUTHORIZED_3_1_1 = 4, 5
"""Return codes of CONNACK (MQTT 3.1.1, 3.2.2.3)."""


def connect(
    port: int, user: str, password: str, *, will: str = "", source: str = "127.0.0.2"
) -> int:
    """Connect by MQTT 3.1.1 from an address of loopback; the return code."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    flags = 0xC2 | (0x04 if will else 0)
    payload = text("") + (text(will) + text("gone") if will else b"") + text(user) + text(password)
    body = text("MQTT") + bytes((4, flags)) + (60).to_bytes(2, "big") + payload
    with socket.create_connection(
        ("127.0.0.1", port), timeout=LIMIT_S, source_address=(source, 0)
    ) as peer:
        peer.sendall(bytes((0x10, len(body))) + body)
        answer = peer.recv(4)
    assert answer[0] == 0x20, answer
    return answer[3]


@pytest.mark.soak("the other two keep to the page in CI")
def test_what_is_lost_is_replaced_as_the_page_says(fleet: Fleet) -> None:
    north, barn, _ = fleet.all
    operator = fleet.folder / "operator.password"

    # LOST 0: `tree.key_file`, on one gateway
    (barn.folder / "tree.key").unlink()
    north.start()
    code, said = hedgerow("check", "--config", barn.config)
    assert (code, "tree.key_file: " in said and "no such file" in said) == (2, True), said
    shutil.copy(north.folder / "tree.key", barn.folder / "tree.key")
    barn.start()
    until(lambda: north.is_linked_to(barn), lambda: north.log + barn.log)

    # LOST 1: the same, on all
    key = secrets.token_hex(32)
    (north.folder / "tree.key").write_text(key)
    north.restart()
    until(lambda: "does not hold the tree's key" in hedgerow("status", "--config", north.config)[1])
    assert not north.is_linked_to(barn)
    (barn.folder / "tree.key").write_text(key)
    barn.restart()
    until(lambda: north.is_linked_to(barn), lambda: north.log + barn.log)

    # LOST 2: a gateway's certificate or key
    authority = fleet.folder / "authority"
    (north.folder / "tls" / "gateway.key.pem").unlink()
    fleet_keys.keys("renew", "--ca", authority, NORTH)
    take(authority, NORTH, north)
    north.reload()
    presented = served(north.mqtts, authority / "ca.pem")
    assert presented == (authority / f"{NORTH}.pem").read_text()

    # LOST 3: a client's password
    operator.write_text("another one\n")
    assert fleet.as_operator(north)[0] == 1
    change = [*HEDGEROW, "passwd", "--file", str(north.folder / "passwords"), "operator"]
    new = operator.read_bytes()
    subprocess.run(change, input=new, check=True, capture_output=True, timeout=LIMIT_S)
    north.reload()
    assert fleet.as_operator(north)[0] == 0

    # LOST 4: a line of `coap.psk_file`
    psk = fleet.folder / "psk"
    psk.write_text(f"anna:{secrets.token_hex(16)}\n")
    uri = f"coaps://127.0.0.1:{north.coaps}/sensors/host/load1"
    psk.chmod(0o600)
    with (north.folder / "psk").open("a") as lines:
        lines.write(psk.read_text())
    north.restart()
    assert hedgerow("get", "--psk-file", psk, uri)[0] == 0

    # LOST 5: `ca.key.pem`, the authority's key
    (authority / "ca.key.pem").unlink()
    new_authority = fleet.folder / "new"
    fleet_keys.issue(new_authority, f"{NORTH}=127.0.0.1", f"{BARN}=127.0.0.1")
    for gateway in (north, barn):
        for name in ("ca.pem", "revoked.pem"):
            shutil.copy(new_authority / name, gateway.folder / "tls" / name)
        take(new_authority, gateway.name, gateway)
        gateway.restart()
    until(lambda: north.is_linked_to(barn), lambda: north.log + barn.log)
    presented = served(barn.mqtts, new_authority / "ca.pem")
    assert presented == (new_authority / f"{BARN}.pem").read_text()


def take(authority: Path, name: str, gateway: Gateway) -> None:
    """Copy a certificate and its key to where a gateway has them."""
    tls = gateway.folder / "tls"
    shutil.copy(authority / f"{name}.pem", tls / "gateway.pem")
    shutil.copy(authority / f"{name}.key.pem", tls / "gateway.key.pem")


def served(port: int, cafile: Path) -> str:
    """The certificate that a gateway presents, verified by an authority."""
    import ssl

    context = ssl.create_default_context(cafile=cafile)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        der = secure.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der)
