"""A booted server that cloud.yml makes the cloud side of a provisioned gateway.

Its wheels come from a folder of the controller's, Debian's Java through a proxy on the bed.
"""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.cookiejar import CookieJar
from pathlib import Path

import bed
import package_proxy
import pytest
from bed import Pi
from commands import inside, until
from empty_bed import empty_bed
from fleet import PASSWORD, DeployedFleet
from server_wheels import server_wheels
from upgrade_load import TOPIC, Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

SERVER = "collector"
UNITS = ("hedgerow-collector", "hedgerow-ingest")
DASHBOARD_PORT = 8443
TABLES = "/var/lib/hedgerow-cloud/tables"
BACKUPS = "/srv/backup/hedgerow"
KEPT = 2
INGESTED_S = 240.0
"""From a message to its row, the first start of Spark included."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """A gateway, and a server beside it."""
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        stack.enter_context(package_proxy.served(made))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        fleet.add("gw-root", "", "", neighbours=())
        server = fleet.add_server(
            SERVER,
            neighbours=("gw-root",),
            cloud_wheels_dir=str(server_wheels(tmp_path_factory.mktemp("wheels"))),
            cloud_dashboard=True,
            cloud_dashboard_listen=f"{{{{ ansible_host }}}}:{DASHBOARD_PORT}",
            cloud_dashboard_passwords={"olga": fleet.password_hash, "rita": fleet.password_hash},
            cloud_dashboard_principals={"console:olga": ["reader"]},
            cloud_backup_dir=BACKUPS,
            cloud_backups_kept=KEPT,
        )
        package_proxy.tell(server)
        bed.boot_all(list(made.pis.values()))
        fleet.provision()
        done = fleet.play("cloud.yml")
        if done.returncode:
            for unit in UNITS:
                sys.stderr.write(f"{SERVER}: {made.pis[SERVER].journal(unit)}\n")
        done.worked()
        yield fleet


@pytest.fixture(scope="module")
def server(cloud: DeployedFleet) -> Pi:
    return cloud.bed.pis[SERVER]


def numbers(server: Pi, tables: str = TABLES) -> set[int]:
    """Those of the load's messages that have a row."""
    query = f"SELECT value FROM telemetry WHERE topic = '{TOPIC}'"
    command = ("/opt/hedgerow-cloud/venv/bin/hedgerow", "query", query, "--json")
    said = inside(server.leader, [*command, "--tables", tables], 120.0).stdout
    try:
        return {int(row["value"]) for row in json.loads(said)}
    except ValueError:  # no table yet
        return set()


def test_what_the_gateway_acknowledged_is_in_the_table(cloud: DeployedFleet, server: Pi) -> None:
    root = cloud.bed.pis["gw-root"].address
    with Load(cloud.bed.switch, root, root, PASSWORD) as load:
        until("a hundred messages", lambda: len(load.acknowledged) >= 100)
    sent = set(load.acknowledged)
    try:
        until("each has its row", lambda: numbers(server) >= sent, INGESTED_S)
    except AssertionError as error:
        error.add_note("\n".join(server.journal(unit) for unit in UNITS))
        raise
    assert numbers(server) == sent


class Browser:
    """Logs in to the dashboard, from the operator's machine."""

    def __init__(self, fleet: DeployedFleet) -> None:
        self._space = fleet.bed.switch
        self._base = f"https://{fleet.bed.pis[SERVER].address}:{DASHBOARD_PORT}"
        trusted = ssl.create_default_context(cafile=str(fleet.certificates / "ca.pem"))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=trusted),
            urllib.request.HTTPCookieProcessor(CookieJar()),
        )

    def ask(self, path: str, document: object = None) -> tuple[int, bytes]:
        data = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json", "Origin": self._base}
        request = urllib.request.Request(f"{self._base}/api/{path}", data, headers)
        with self._space.entered():
            try:
                with self._opener.open(request, timeout=60) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

    def log_in(self, user: str) -> int:
        return self.ask("login", {"user": user, "password": PASSWORD})[0]


def test_the_dashboard_shows_the_fleet_to_who_has_logged_in(
    cloud: DeployedFleet, server: Pi
) -> None:
    olga, rita = Browser(cloud), Browser(cloud)
    assert olga.ask("fleet")[0] == 401
    assert olga.log_in("olga") == 200, server.journal("hedgerow-dashboard")
    until("it shows the gateway", lambda: b"gw-root" in olga.ask("fleet")[1], INGESTED_S)
    assert rita.log_in("rita") == 403, "she has no role"
    assert rita.ask("fleet")[0] == 401


def test_a_second_run_changes_nothing(cloud: DeployedFleet) -> None:
    again = cloud.play("cloud.yml").worked()
    assert again.recap(SERVER)["changed"] == 0, again.output[-4000:]


def test_a_backup_is_whole_for_root_alone_and_the_newest_are_kept(server: Pi) -> None:
    rows = numbers(server)
    for _ in range(KEPT + 1):
        server.run("systemctl", "start", "hedgerow-backup.service")
        server.run("sleep", "1.1")  # a name has its second
    backups = server.run("ls", "-1", BACKUPS).split()
    assert len(backups) == KEPT
    assert all(name.endswith(".tar") for name in backups)
    newest = f"{BACKUPS}/{backups[-1]}"
    assert server.run("stat", "--format=%a %U", newest).split() == ["600", "root"]
    held = server.run("tar", "--list", "--file", newest)
    for name in ("collector.toml", "tree.key", "tls/collector.key.pem"):
        assert f"etc/hedgerow-cloud/{name}\n" in held
    assert "var/lib/hedgerow-cloud/spool/" in held
    # What comes out of it can be read.
    restored = "/srv/restored"
    server.run("mkdir", restored)
    server.run("tar", "--extract", "--file", newest, "--directory", restored)
    assert numbers(server, restored + TABLES) >= rows
    assert server.says("systemctl", "is-active", "hedgerow-backup.timer") == "active"


def test_another_release_takes_the_place_of_the_one_before(
    cloud: DeployedFleet, server: Pi
) -> None:
    link = Path("opt/hedgerow-cloud/venv")
    before = (server.root / link).readlink()
    rows = numbers(server)
    cloud.next_release()
    cloud.play("cloud.yml").worked()
    assert (server.root / link).readlink() != before
    for unit in ("collector", "ingest", "dashboard"):
        assert server.says("systemctl", "is-active", f"hedgerow-{unit}") == "active"
    assert numbers(server) >= rows
