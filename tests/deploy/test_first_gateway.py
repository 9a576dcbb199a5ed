"""Goal: who types what `docs/first-gateway.md` says, as a user of Debians, has a fleet of gateways.

Each line of the page is typed as it stands, by a user who is not root, on the machine that the page
means, and what the page says of the answers holds. The machines have Debian, sudo and ssh.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import bed
import package_proxy
import pytest
from bed import Bed, Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import PROJECT

sys.path.insert(0, str(PROJECT / "tests/documents"))

from pages import Block, blocks
from session import scripts

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

PAGE = PROJECT / "docs/first-gateway.md"
ADDRESSES: Mapping[str, str] = {
    "gw-root": "10.0.0.1",
    "gw-north": "10.0.0.2",
    "gw-south": "10.0.0.3",
    "gw-loft": "10.0.0.5",
    "pc": "10.0.0.9",
}
"""Of the machines, as the page has them."""
DEBIANS = """
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/quick
apt-get update -qq
apt-get install -qq -y --no-install-recommends sudo openssh-server >/dev/null 2>&1
"""
"""Commands that install what the image of a Pi brings, and the smallest Debian does not."""
USER = "pi"
CHECKOUT = Path(f"/home/{USER}/hedgerow")
TOKEN = re.compile(r"^(hedgerow-enrol://([\w-]+)@\S+)", re.MULTILINE)
TYPE_S = 900.0
TYPED_AGAIN = ("hedgerow tree", "hedgerow pub")
"""By a reader who does not see yet what he should: a link takes a moment, and a subscription."""


class Reader:
    """Plays the person who does what the page says.

    Args:
        pis: the machines, by name.
        folder: for the output of what goes on.

    Attributes:
        typed: how many lines, by machine.

    """

    def __init__(self, pis: Mapping[str, Pi], folder: Path) -> None:
        self.typed = dict.fromkeys(pis, 0)
        self._pis = pis
        self._folder = folder
        self._tokens: dict[str, str] = {}
        self._going_on: list[subprocess.Popen[bytes]] = []

    def read(self, block: Block) -> None:
        """Do what a block says on each machine that it means, until it has shown what it should."""
        machines = block.one("on")
        assert machines is not None, f"{block.place}: on which machine?"
        for name in machines.split(", "):
            self._do(name, block)

    def end(self) -> None:
        """End what goes on."""
        for process in self._going_on:
            process.terminate()
            process.wait()

    def _do(self, name: str, block: Block) -> None:
        going_on = block.said.get("goes on", [])
        outputs, again = list[Path](), list[str]()
        printed = ""
        for written in scripts(block, going_on):
            script = written.replace("TOKEN", self._tokens.get(name, "TOKEN"))
            self.typed[name] += len(script.splitlines())
            if any(text in script for text in going_on):
                outputs.append(self._begin(name, script))
                if "hedgerow run" in script:
                    until(f"{script} is up", lambda: " is up: " in outputs[-1].read_text())
            else:
                printed += self._typed(name, script)
            if any(text in script for text in TYPED_AGAIN):
                again.append(script)
        self._tokens |= {whose: token for token, whose in TOKEN.findall(printed)}

        def missing() -> list[str]:
            shown = printed + "".join(path.read_text(errors="replace") for path in outputs)
            return [text for text in block.said.get("shows", []) if text not in shown]

        def has_shown_all() -> bool:
            nonlocal printed
            if missing():
                printed += "".join(self._typed(name, script) for script in again)
            return not missing()

        until(f"{block.place} on {name}: {missing()}: {printed}", has_shown_all)

    def _typed(self, name: str, script: str) -> str:
        return self._pis[name].run(*self._command(name, script), timeout_s=TYPE_S)

    def _begin(self, name: str, line: str) -> Path:
        output = self._folder / f"output-{len(self._going_on)}"
        leader = str(self._pis[name].leader)
        with output.open("wb") as file:
            self._going_on.append(
                subprocess.Popen(
                    ("nsenter", "--target", leader, "--all", "--", *self._command(name, line)),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )
        return output

    @staticmethod
    def _command(name: str, script: str) -> tuple[str, ...]:
        where = CHECKOUT if name == "gw-root" else CHECKOUT.parent
        return ("su", "-", USER, "-c", f"exec 2>&1; set -e; cd {where}; {script}")


def furnish(pi: Pi, key: Path) -> None:
    """Give a booted machine what a Pi's image has: sudo, ssh, and a user with both."""
    pi.space.ip("address", "add", f"{ADDRESSES[pi.name]}/24", "dev", "host0")
    pi.run("sh", "-ec", DEBIANS, timeout_s=TYPE_S)
    pi.run("useradd", "--create-home", "--shell=/bin/bash", USER)
    (pi.root / "etc/sudoers.d/pi").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    hosts = pi.root / "etc/hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {pi.name}\n")
    hosts.chmod(0o644)
    folder = pi.root / CHECKOUT.parent.relative_to("/") / ".ssh"
    folder.mkdir(mode=0o700)
    for source, target in ((key, "id_ed25519"), (key.with_suffix(".pub"), "authorized_keys")):
        (folder / target).write_bytes(source.read_bytes())
        (folder / target).chmod(0o600)
    (folder / "config").write_text("StrictHostKeyChecking accept-new\n")
    pi.run("chown", "-R", f"{USER}:", str(CHECKOUT.parent))


def check_out(pi: Pi) -> None:
    """Give it the project's folder, as a clone is."""
    target = pi.root / CHECKOUT.relative_to("/")
    target.mkdir()
    copied = f"git -C {PROJECT} ls-files -z --cached --others --exclude-standard"
    tar = f"tar --create --directory={PROJECT} --null --files-from=- --ignore-failed-read"
    run("sh", "-c", f"{copied} | {tar} 2>/dev/null | tar --extract --directory={target}")
    pi.run("chown", "-R", f"{USER}:", str(CHECKOUT))


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bed]:
    key = tmp_path_factory.mktemp("ssh") / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
    with empty_bed(tmp_path_factory) as made, package_proxy.served(made):
        pis = [made.pi(name, request.param) for name in ADDRESSES]
        for pi in pis:
            package_proxy.tell(pi)
        bed.boot_all(pis)
        each = [threading.Thread(target=furnish, args=(pi, key)) for pi in pis]
        for one in each:
            one.start()
        for one in each:
            one.join()
        check_out(made.pis["gw-root"])
        yield made


def test_who_types_what_the_page_says_has_a_fleet_that_a_boot_does_not_change(
    machines: Bed, tmp_path: Path
) -> None:
    reader = Reader(machines.pis, tmp_path)
    began_s = time.monotonic()
    try:
        for block in blocks(PAGE):
            if block.is_shell and "not run" not in block.said:
                reader.read(block)
        took_s = time.monotonic() - began_s
        sys.stdout.write(f"\nlines typed: {reader.typed}, in {took_s:.0f} s\n")
        machines.pis["gw-root"].reboot()
        (tree,) = [block for block in blocks(PAGE) if "hedgerow tree" in block.text]
        reader.read(tree)
        loft = machines.pis["gw-loft"]
        until("the carried one is in it", lambda: "gw-root" in loft.says("hedgerow", "tree"))
    finally:
        reader.end()
