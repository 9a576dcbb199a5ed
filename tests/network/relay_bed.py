"""A relay, a Pi behind NAT and an operator, with OpenSSH as it is installed.

The relay's configuration is that of the role, and its sshd runs as the user that the role makes:
each process has an /etc/passwd with that user. Nothing listens but in these namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loaded_file import loaded
from role_templates import environment_of

from benchmarks.mesh.namespaces import Namespace, run

PROJECT: Final = Path(__file__).resolve().parents[2]
ROLE: Final = PROJECT / "deploy/ansible/roles/relay"
FILTERS: Final = loaded(PROJECT / "deploy/ansible/filter_plugins/hedgerow_relay.py")
USER: Final = "hedgerow-relay"
UID: Final = 64_917
SSHD: Final = "/usr/sbin/sshd"
RELAY: Final = "192.0.2.1"
PORT: Final = 2222
PI_PORT: Final = 2022
UP_S: Final = 60.0
"""Until something that works has come up, on however slow a machine."""
AS_USER: Final = (
    'mount --bind "$1" /etc/passwd && shift && '
    f'exec setpriv --reuid {UID} --regid {UID} --clear-groups env HOME=/nonexistent "$@"'
)


@dataclass
class RelayBed:
    """A relay, a Pi and an operator, which stand while a test runs.

    Attributes:
        folder: of all files, which everybody may read.
        relay: the network of the relay and of the operator.
        pi: that of the Pi, behind NAT.
        nat: that of the router between them.
        audit: what the relay has noted, line by line.
        processes: what runs.

    """

    folder: Path
    relay: Namespace
    pi: Namespace
    nat: Namespace
    audit: list[dict[str, Any]] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def shared(self) -> Path:
        """The folder that `hedgerow shell` takes."""
        return self.folder / "shared"

    def key(self, name: str) -> Path:
        """The private key of that name, made at the first call; its public half is beside it."""
        path = self.folder / name
        if not path.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path))
            os.chown(path, UID, UID)
        return path

    def list_keys(self, gateways: Sequence[str], may_reach: Sequence[str] = ("*",)) -> None:
        """Write the relay's lists as the role does."""
        keys = {name: self.key(name).with_suffix(".pub").read_text() for name in gateways}
        anna = {"name": "anna", "keys": [self.key("anna").with_suffix(".pub").read_text()]}
        reach = f"/usr/bin/python3 -I {self.folder}/reach.py {self.folder}/ways.json"
        lines = FILTERS.authorized_keys(keys, [{**anna, "gateways": may_reach}], reach)
        (self.folder / "authorized_keys").write_text(lines)
        table = {"log": str(self.folder / "log"), "ways": FILTERS.ways(keys)}
        (self.folder / "ways.json").write_text(json.dumps(table))

    def command(self, where: Namespace, *command: str) -> list[str]:
        """Return the command line that runs a command in a network, as the user."""
        inside = ["unshare", "--mount", "sh", "-ec", AS_USER, "sh", str(self.folder / "passwd")]
        return where.command(*inside, *command)

    def start(self, where: Namespace, *command: str) -> subprocess.Popen[bytes]:
        """Start what runs until the end, as the user."""
        process = subprocess.Popen(
            self.command(where, *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "said").open("ab"),
        )
        self.processes.append(process)
        return process

    def start_relay(self, *more: str) -> subprocess.Popen[bytes]:
        """Start the relay's sshd; one process serves all, in place of systemd's socket."""
        config = str(self.folder / "sshd_config")
        process = self.start(self.relay, SSHD, "-D", "-e", "-f", config, "-p", str(PORT), *more)
        self.await_listener(self.relay, f"0.0.0.0:{PORT}")
        return process

    def hold(self, gateway: str) -> subprocess.Popen[bytes]:
        """Have the Pi hold its way, by the command of the role's unit."""
        process = self.start(self.pi, *self.way_of(gateway))
        self.await_listener(self.relay, FILTERS.address(gateway))
        return process

    def way_of(self, gateway: str) -> list[str]:
        """The command of the role's unit."""
        unit = self.render(
            PROJECT / "deploy/ansible/roles/relayed/templates/hedgerow-relayed.service.j2",
            gateway_id=gateway,
            relayed_ssh_port=PI_PORT,
            _relayed_dir=str(self.folder / "way"),
            _relayed_host=RELAY,
            _relayed_port=PORT,
        )
        line = unit.partition("ExecStart=")[2].replace("\\\n", " ").partition("\n")[0]
        words = line.split()
        words[words.index("-i") + 1] = str(self.key(gateway))
        return words

    def from_pi(self, key: str, *asked: str, command: str = "") -> subprocess.CompletedProcess[str]:
        """Run ssh on a Pi that asks the relay for something else; return how it ended."""
        words = self.ssh(key, *asked, f"{USER}@{RELAY}", *([command] if command else []))
        return subprocess.run(
            self.command(self.pi, *words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=UP_S,
            check=False,
        )

    def ssh(self, key: str, *more: str) -> list[str]:
        """The command of a client of the relay that has a key."""
        common = ["-F", "none", "-p", str(PORT), "-i", str(self.key(key))]
        for option in (
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            f"UserKnownHostsFile={self.folder}/way/known_hosts",
            "ExitOnForwardFailure=yes",
        ):
            common += ["-o", option]
        return ["ssh", *common, *more]

    def shell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`hedgerow shell`, as anna."""
        return subprocess.run(
            self.relay.command(sys.executable, "-m", "gateway.tools.cli", "shell", *words),
            env=os.environ
            | {"HOME": str(self.folder / "home"), "HEDGEROW_RELAY": str(self.shared)},
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=UP_S,
            check=False,
        )

    def noted(self, what: str, gateway: str) -> dict[str, Any]:
        """The last line of the audit of that kind and gateway, once it is there."""
        for _ in waiting(f"{what} {gateway} in {self.audit}"):
            lines = [one for one in self.audit if (one["what"], one["gateway"]) == (what, gateway)]
            if lines:
                return lines[-1]
        raise AssertionError

    def await_listener(self, where: Namespace, address: str) -> None:
        """Wait until somebody listens at an address."""
        for _ in waiting(f"{address}: {(self.folder / 'said').read_text()}"):
            if f" {address} " in run(*where.command("ss", "-Hltn")):
                return

    def await_no_listener(self, where: Namespace, address: str) -> None:
        """Wait until nobody listens there."""
        for _ in waiting(address):
            if f" {address} " not in run(*where.command("ss", "-Hltn")):
                return

    def render(self, template: Path, **given: object) -> str:
        """A template of a role, with what the role would give it."""
        environment = environment_of(template)
        environment.filters["hedgerow_relay_address"] = FILTERS.address
        environment.filters["regex_replace"] = lambda text, *_: text.rpartition(":")[2]
        environment.globals["lookup"] = lambda *_: ""
        environment.globals["role_path"] = ""
        return environment.get_template(template.name).render(given, ansible_managed="managed")

    def write(self) -> None:
        """Write all files but the lists of keys."""
        passwd = Path("/etc/passwd").read_text()
        (self.folder / "passwd").write_text(f"{passwd}{USER}:x:{UID}:{UID}::/:/bin/sh\n")
        for folder in ("way", "home/.ssh", "shared/gateways"):
            (self.folder / folder).mkdir(parents=True)
        os.chown(self.folder / "way", UID, UID)
        shutil.copy(ROLE / "files/reach.py", self.folder)
        own = {"_relay_user": USER, "_relay_dir": str(self.folder)}
        config = self.render(ROLE / "templates/sshd_config.j2", **own)
        (self.folder / "sshd_config").write_text(config)
        host_key = self.key("host_key").with_suffix(".pub").read_text()
        known = FILTERS.known_hosts(host_key, f"[{RELAY}]:{PORT}")
        (self.folder / "way/known_hosts").write_text(known)
        (self.shared / "relay.known_hosts").write_text(known)
        given = {**own, "relay_address": RELAY, "relay_port": PORT}
        text = self.render(ROLE / "templates/ssh_config.j2", **given)
        # ssh takes ~ of the user's entry, whatever HOME is.
        (self.shared / "ssh_config").write_text(
            text.replace("~/.ssh/config", str(self.folder / "home/.ssh/config"))
        )
        anna = self.key("anna")
        (self.folder / "home/.ssh/config").write_text(
            f"Host *\n  IdentityFile {anna}\n  IdentitiesOnly yes\n  BatchMode yes\n"
        )
        self._write_pi(anna)

    def _write_pi(self, anna: Path) -> None:
        host_key = self.key("pi_host_key").with_suffix(".pub").read_text()
        for name in ("gw-a", "gw-b"):
            known = FILTERS.known_hosts(host_key, name)
            (self.shared / f"gateways/{name}.known_hosts").write_text(known)
        (self.folder / "pi_authorized_keys").write_text(anna.with_suffix(".pub").read_text())
        (self.folder / "pi_sshd_config").write_text(
            f"HostKey {self.folder}/pi_host_key\n"
            f"AuthorizedKeysFile {self.folder}/pi_authorized_keys\n"
            "PidFile none\nUsePAM no\n"
        )

    def take_log(self) -> threading.Thread:
        """Read what is noted, as journald would, until an empty datagram comes."""
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        log.bind(str(self.folder / "log"))
        (self.folder / "log").chmod(0o666)

        def read() -> None:
            with log:
                while line := log.recv(65_536):
                    self.audit.append(json.loads(line.partition(b": ")[2]))

        reader = threading.Thread(target=read)
        reader.start()
        return reader


def waiting(what: str) -> Iterator[None]:
    """Turns of a wait for something that comes.

    Raises:
        AssertionError: it has not.

    """
    ends_s = time.monotonic() + UP_S
    while time.monotonic() < ends_s:
        yield
        time.sleep(0.05)
    raise AssertionError(f"did not come: {what}")


@contextlib.contextmanager
def relay_bed() -> Iterator[RelayBed]:
    """Networks, keys and the Pi's own sshd; the relay does not run yet."""
    with contextlib.ExitStack() as stack:
        # Not in /tmp: sshd takes no list of keys from below a folder that all may write to.
        folder = Path(tempfile.mkdtemp(prefix="hedgerow-relay-", dir="/run"))
        stack.callback(shutil.rmtree, folder)
        umask = os.umask(0o022)
        stack.callback(os.umask, umask)
        folder.chmod(0o755)
        spaces = []
        for name in ("relay", "pi", "nat"):
            spaces.append(Namespace(name))
            stack.callback(spaces[-1].remove)
        bed = RelayBed(folder, *spaces)
        _join(bed)
        bed.write()
        reader = bed.take_log()
        stack.callback(reader.join)
        stack.callback(_end_log, folder / "log")
        stack.callback(_end, bed.processes)
        config = str(folder / "pi_sshd_config")
        listens = f"ListenAddress=127.0.0.1:{PI_PORT}"
        bed.start(bed.pi, SSHD, "-D", "-e", "-f", config, "-o", listens)
        bed.await_listener(bed.pi, f"127.0.0.1:{PI_PORT}")
        yield bed


def _join(bed: RelayBed) -> None:
    """The Pi at a router that hides it, and the relay beyond."""
    for link, other in (("up", bed.relay), ("down", bed.pi)):
        ends = ["name", link, "netns", bed.nat.name, "type", "veth", "peer", "name", "up"]
        run("ip", "link", "add", *ends, "netns", other.name)
    for space, link, address in (
        (bed.relay, "up", f"{RELAY}/24"),
        (bed.nat, "up", "192.0.2.2/24"),
        (bed.nat, "down", "10.0.0.1/24"),
        (bed.pi, "up", "10.0.0.2/24"),
    ):
        space.ip("address", "add", address, "dev", link)
        space.ip("link", "set", "dev", link, "up")
    bed.pi.ip("route", "add", "default", "via", "10.0.0.1")
    run(*bed.nat.command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"))
    bed.nat.nft(
        "table ip nat { chain postrouting { type nat hook postrouting priority srcnat;"
        ' oifname "up" masquerade; }; }\n'
    )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
        process.wait()


def _end_log(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.sendto(b"", str(path))
