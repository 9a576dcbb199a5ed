"""Goal: a reload takes over all that is read, or nothing; and what follows a fleet follows it.

Method: whole gateways in this process, of which one part can't go by what is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import fleet_keys
import pytest
import zeroconf
from fleet_gateway import Fleet, FleetGateway, until

from gateway.node.links import dns_sd
from gateway.process.access import enrolment_follower
from gateway.process.configuration import config
from gateway.process.configuration.config import ConfigError
from gateway.process.running import access_in_use as in_use
from gateway.process.running import reloading
from gateway.process.status.doctor import DoctorObservations, Weight, findings
from gateway.trust.certificates import private_keys
from gateway.trust.enrolment import following


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


def dialled(gateway: FleetGateway) -> set[str]:
    """Return the addresses that the gateway dials."""
    addresses = gateway.process.parts.attachment.neighbours.status()["addresses"]
    return {one["address"] for one in addresses}


async def test_a_part_that_can_not_go_by_what_is_read_keeps_all_others_from_it_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = fleet.gateway("gw", tls=False)
    await gateway.start(neighbours=["127.0.0.1:1"])
    gateway.write(neighbours=["127.0.0.1:2"])

    def fails(*_: object) -> None:
        raise ConfigError("gateway.state_dir", "oscore-numbers: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(reloading.state, "oscore_contexts", fails)
        await gateway.process.reload()
        assert "nothing is read again: gateway.state_dir: oscore-numbers: No space" in caplog.text
        assert dialled(gateway) == {"127.0.0.1:1"}
        found = findings(DoctorObservations(status=gateway.process.status()))
        wrong = [one for one in found if one.weight is Weight.WRONG]
        assert [one.what for one in wrong if one.about == "gateway"] == [
            "reload has failed: gateway.state_dir: oscore-numbers: No space left on device"
        ]
    await gateway.process.reload()
    assert dialled(gateway) == {"127.0.0.1:2"}
    assert gateway.process.status()["failing"] == {}


async def test_a_reload_whose_dns_sd_can_not_begin_is_whole_but_for_that_and_the_next_one_tries(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        """Zeroconf's errors are plain exceptions, when it stops too."""

        begun = 0

        def __init__(self, *_: object) -> None:
            pass

        async def start(self) -> None:
            Failing.begun += 1
            raise zeroconf.EventLoopBlocked

        async def stop(self) -> None:
            raise zeroconf.NotRunningException

    monkeypatch.setattr(dns_sd, "DnsSd", Failing)
    gateway = fleet.gateway("gw", tls=False)
    await gateway.start(neighbours=["127.0.0.1:1"])
    gateway.write(neighbours=["127.0.0.1:2"], dns_sd=True, discovery_interface="127.0.0.1")
    for begun in (1, 2):
        await gateway.process.reload()
        assert Failing.begun == begun
        assert dialled(gateway) == {"127.0.0.1:2"}
        assert gateway.process.status()["failing"] == {"DNS-SD": "EventLoopBlocked: "}
    gateway.write(neighbours=["127.0.0.1:3"])
    await gateway.process.reload()
    assert dialled(gateway) == {"127.0.0.1:3"}
    assert gateway.process.status()["failing"] == {}


async def test_who_is_found_in_another_way_is_not_dialled_before_that_way_is_gone_by(
    fleet: Fleet,
) -> None:
    ways = {"discovery": True, "discovery_interface": "127.0.0.1", "discovery_port": 17_993}
    near, far = fleet.gateway("near", tls=False), fleet.gateway("far", tls=False)
    await near.start()
    await far.start(**ways)
    near.write(**ways)
    attachment = near.process.parts.attachment
    async with attachment.changing(near.read().tree):
        await asyncio.sleep(0.1)  # it may be heard in this time, and must not be dialled
    assert not attachment.neighbours.status()["addresses"]
    async with attachment.changing(near.read().tree) as change:
        await change()
    await until(lambda: near.links == {"far"})


async def test_what_a_full_disk_does_not_take_is_tried_again_once_however_often_it_is_read(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, noted = "No space left on device", list[str]()

    def note(_settings: object, who: str) -> str:
        noted.append(who)
        return full

    def waiting() -> int:
        return sum(task.get_name() == "audit" for task in asyncio.all_tasks())

    gateway = fleet.gateway("gw", tls=False)
    await gateway.start()
    monkeypatch.setattr(in_use.state, "note_access", note)
    monkeypatch.setattr(in_use, "NOTE_AGAIN_S", 0.01)
    for _ in range(5):
        await gateway.process.reload()
    await gateway.process.parts.access.note("a neighbour")
    assert waiting() == 1
    tried = len(noted)
    await until(lambda: len(noted) > tried + 2)
    assert noted[-1] == "a neighbour"
    full = ""
    await until(lambda: not waiting())
    assert gateway.process.status()["failing"] == {}


async def test_whoever_follows_the_fleet_shows_the_key_that_the_gateway_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet_keys.issue(tmp_path / "ca", "gw")
    (tmp_path / "password").write_text("open sesame\n")
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "gateway.toml").write_text(
        """
        [gateway]
        id = "gw"
        state_dir = "state"
        [keys]
        service = "127.0.0.1:1"
        password_file = "password"
        [mqtt]
        tls_port = 0
        certificate_file = "ca/gw.pem"
        key_file = "key.pem"
        client_certificate = "optional"
        client_ca_file = "ca/ca.pem"
        [tree]
        key_file = "tree.key"
        discovery = false
        """
    )
    for name in ("password", "tree.key"):
        (tmp_path / name).chmod(0o600)

    def put(kind: str) -> None:
        file = tmp_path / "key.pem"
        file.unlink(missing_ok=True)
        file.touch(0o600)
        file.write_bytes(private_keys.as_pem(private_keys.make(kind), b"open sesame"))

    shown: list[str] = []

    class Follower(following.TrustFollower):
        async def run(self) -> None:
            for kind in private_keys.KINDS:
                put(kind)
                (key, *_) = private_keys.load(self._files().key.read_bytes())
                shown.append(private_keys.kind_of(key.public_key()))

    monkeypatch.setattr(following, "TrustFollower", Follower)
    put("p256")
    settings = config.load(tmp_path / "gateway.toml", config.GatewaySettings)
    follower = enrolment_follower.follower(settings, lambda: None)
    assert follower is not None
    await follower.run()
    assert shown == list(private_keys.KINDS)
