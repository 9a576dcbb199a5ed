"""Goal: a Debian with the package and a file on its boot partition gets an owner, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bed import Bed, Pi
from commands import run, until
from empty_bed import empty_bed
from fleet import PROJECT
from server_wheels import MACHINE

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

CODE = "0123-4567-89AB"
FILE = "/boot/firmware/hedgerow-first-start.txt"
UNIT = "hedgerow-first-start"


@dataclass
class Desk:
    """A Pi, and a laptop on its link.

    Attributes:
        bed: they are in.
        pi: the Pi.
        jar: the laptop's cookies.

    """

    bed: Bed
    pi: Pi
    jar: Path

    def ask(self, path: str, body: dict[str, Any] | None = None, csrf: str = "") -> Any:
        """Send a request to the page; return its answer."""
        sent = () if body is None else ("-d", json.dumps(body))
        said = run(
            *self.bed.operator(
                *("curl", "-sk", "-m", "60", "-b", str(self.jar), "-c", str(self.jar)),
                *("-H", "Content-Type: application/json", "-H", f"X-Hedgerow-CSRF: {csrf}"),
                *(*sent, f"https://{self.pi.address}:9641/{path}"),
            )
        )
        return json.loads(said)

    def state(self, unit: str) -> str:
        return self.pi.says("systemctl", "is-active", unit)

    def has_file(self) -> bool:
        return self.pi.says("sh", "-c", f"test -e {FILE} && echo yes") == "yes"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = tmp_path_factory.mktemp("debs")
    build = ("env", f"WHEELHOUSE={made / 'wheels'}", PROJECT / "deploy/deb")
    run(*build, "--outdir", made, f"cp311-{MACHINE}", timeout_s=1800)
    (package,) = made.glob("*.deb")
    with empty_bed(tmp_path_factory) as bed:
        pi = bed.pi("gw-new", "bookworm")
        run("cp", package, pi.root / "opt")
        pi.boot()
        pi.run("dpkg", "--install", f"/opt/{package.name}", timeout_s=900)
        yield Desk(bed, pi, made / "jar")


def test_a_file_on_the_card_gives_a_gateway_one_owner(desk: Desk) -> None:
    pi = desk.pi
    assert desk.state(UNIT) != "active"
    pi.run("mkdir", "-p", "/boot/firmware")
    pi.run("sh", "-c", f"umask 077; echo 'code = \"{CODE}\"' >{FILE}")
    pi.reboot()
    until("the page is there", lambda: desk.state(UNIT) == "active")
    until("it answers", lambda: asked(desk) == "code")
    pid = pi.run("systemctl", "show", "--property=MainPID", "--value", UNIT).strip()
    assert pi.run("stat", "-c", "%U", f"/proc/{pid}").strip() == "hedgerow"
    pi.run("systemctl", "kill", "--signal=KILL", UNIT)
    until("it is there again", lambda: asked(desk) == "code")
    assert "is not the one" in desk.ask("api/v1/code", {"code": "wrong"})["error"]
    csrf = desk.ask("api/v1/code", {"code": CODE})["csrf"]
    told = desk.ask("api/v1/setup")
    assert pi.address in told["addresses"]
    asked_for = {"name": "gw-new", "place": "campus", "address": pi.address}
    owner = {"user": "anna", "password": "open sesame"}
    owned = desk.ask("api/v1/own", {**asked_for, **owner}, csrf)
    assert owned.get("owned", owned)["gateway"] == "gw-new", f"{owned}\n{pi.journal()}"
    assert desk.ask("api/v1/finish", {}, csrf) == {}
    until("the gateway runs", lambda: desk.state("hedgerow") == "active")
    until("it has its page", lambda: told_by(desk, "me", "gateway") == "gw-new")
    assert desk.state(UNIT) == "inactive"
    assert not desk.has_file()
    assert pi.says("systemctl", "is-enabled", "hedgerow") == "enabled"
    assert pi.run("stat", "-c", "%U %a", "/etc/hedgerow/tree.key").strip() == "hedgerow 600"
    assert CODE not in pi.run("journalctl", "--no-pager")
    # It stays so after a boot, and with another file, for who has the card.
    pi.run("sh", "-c", f"echo 'code = \"{CODE}\"' >{FILE}")
    pi.reboot()
    until("the gateway runs", lambda: desk.state("hedgerow") == "active")
    until("the file is gone", lambda: not desk.has_file())
    assert desk.state(UNIT) == "inactive"
    until("it has its page", lambda: told_by(desk, "me", "gateway") == "gw-new")


def asked(desk: Desk) -> str:
    """The stage that the page tells; empty while nothing answers."""
    return told_by(desk, "setup", "stage")


def told_by(desk: Desk, path: str, name: str) -> str:
    """Return a value that the page tells; empty while there is no page yet."""
    try:
        return str(desk.ask(f"api/v1/{path}").get(name, ""))
    except (AssertionError, ValueError):
        return ""
