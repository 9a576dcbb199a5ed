"""Goal: files that are over by the clock stop what needs them, and nothing else.

Method: whole gateways in this process, with certificates, lists and authorities that have ended:
plain MQTT is served, TLS refuses whom it has to, and what is wrong is told. When the files are
renewed, or the clock is set, all is served without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from authority import Authority, Issued
from cryptography import x509
from fleet_gateway import Fleet, FleetGateway, until
from loop_clock import Clock
from mqtt_peer import Peer

from gateway.mqtt import Version
from gateway.node.signing.fleet_keys import FleetKeys, SigningFiles
from gateway.process.access import secure_files
from gateway.process.configuration import config
from gateway.process.configuration.passing import may_pass
from gateway.process.status.doctor import DoctorObservations, Weight, findings
from gateway.trust.certificates.expiry import DAY_S, LOOK_S, CertificateExpiry, ExpiryWatch
from gateway.trust.tls.context import ClientCertificate, TlsFiles


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


async def serves(port: int, context: ssl.SSLContext | None = None) -> bool:
    """Return whether the gateway lets a client in."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except OSError:
        return False
    peer = Peer(reader, writer, Version.V5)
    try:
        return await peer.connect("asker") == 0
    except OSError:
        return False
    finally:
        peer.close()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


async def test_with_a_certificate_that_has_ended_all_else_is_served_until_it_is_renewed(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    old = fleet.authority.issue("gw", is_gateway=True, expired=True)
    gateway = fleet.gateway("gw", issued=old)
    await gateway.start()
    ports = gateway.process.mqtt_ports
    assert await serves(ports["mqtt"])
    assert not await serves(ports["mqtts"], fleet.authority.client_context())
    (told,) = errors(caplog)
    assert "mqtt.certificate_file: that of 'gw' ended at " in told
    assert "this machine's clock says " in told
    wrong = findings(DoctorObservations(status=gateway.process.status()))
    assert (Weight.WRONG, "certificates") in [(one.weight, one.about) for one in wrong]
    renew(fleet, old)
    await gateway.process.reload()
    assert await serves(ports["mqtts"], fleet.authority.client_context())
    neighbour = fleet.gateway("neighbour")
    await neighbour.start(neighbours=[f"127.0.0.1:{ports['mqtts']}"])
    await until(lambda: gateway.links == {"neighbour"})


def renew(fleet: Fleet, old: Issued) -> None:
    """Put another certificate in the place of one, with its key."""
    new = fleet.authority.issue("gw", is_gateway=True)
    old.certificate.write_bytes(new.certificate.read_bytes())
    old.key.write_bytes(new.key.read_bytes())


async def test_with_a_list_that_was_not_renewed_every_certificate_is_refused_until_it_is(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (lists := tmp_path / "lists.pem").write_bytes(fleet.authority.revoke(outdated=True))
    gateway = fleet.gateway("gw")
    gateway.mqtt = f'client_crl_file = "{lists}"'
    await gateway.start()
    ports, alice = gateway.process.mqtt_ports, fleet.authority.issue("alice")
    assert await serves(ports["mqtt"])
    assert not await serves(ports["mqtts"], fleet.authority.client_context(alice))
    assert "mqtt.client_crl_file: that of 'authority' ended at " in errors(caplog)[0]
    revoked = fleet.authority.issue("mallory")
    lists.write_bytes(fleet.authority.revoke(revoked))
    await gateway.process.reload()
    assert await serves(ports["mqtts"], fleet.authority.client_context(alice))
    assert not await serves(ports["mqtts"], fleet.authority.client_context(revoked))


async def test_with_authorities_that_have_ended_it_starts_and_takes_no_certificate_of_them(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = Authority(tmp_path, "ended", expired=True)
    made = FleetGateway(tmp_path, "gw", ended.issue("gw", is_gateway=True), ended.file)
    await made.start(neighbours=["127.0.0.1:1"])
    try:
        ports = made.process.mqtt_ports
        assert await serves(ports["mqtt"])
        unverified = ended.client_context(ended.issue("alice"))
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        assert not await serves(ports["mqtts"], unverified)
        assert any("mqtt.client_ca_file: that of 'ended'" in one for one in errors(caplog))
    finally:
        await made.stop()


async def test_coap_and_the_console_start_with_certificates_that_have_ended(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    old = fleet.authority.issue("gw", is_server=True, expired=True)
    files = f'certificate_file = "{old.certificate}"\nkey_file = "{old.key}"\n'
    gateway = fleet.gateway("gw", tls=False)
    gateway.coap = f'dtls_port = 0\n{files}client_ca_file = "{fleet.authority.file}"'
    gateway.access = f"[console]\nenabled = true\nport = 0\n{files}"
    await gateway.start()
    assert await serves(gateway.process.mqtt_port)
    told = "\n".join(errors(caplog))
    assert "coap.certificate_file: that of 'gw' ended at " in told
    assert "console.certificate_file: that of 'gw' ended at " in told


async def test_a_check_of_the_configuration_tells_what_has_ended(fleet: Fleet) -> None:
    old = fleet.authority.issue("gw", is_gateway=True, expired=True)
    gateway = fleet.gateway("gw", issued=old)
    gateway.write()
    tls = secure_files.broker_tls(gateway.read().mqtt)
    with pytest.raises(config.ConfigError, match=r"mqtt\.certificate_file: .*expired at"):
        secure_files.hold_over("mqtt", tls)


async def test_a_list_of_a_neighbour_that_ends_goes_on_to_keep_out_whom_it_names(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    gateway, mallory = fleet.gateway("gw"), fleet.authority.issue("mallory")
    (state := gateway.folder / "state").mkdir()
    (state / "revoked.pem").write_bytes(fleet.authority.revoke(mallory, number=1))
    await gateway.start()
    process = gateway.process
    port = process.mqtt_ports["mqtts"]
    assert not await serves(port, fleet.authority.client_context(mallory))
    ended = fleet.authority.revoke(mallory, outdated=True, number=2)
    process.parts.proof.revocations.lists = (x509.load_pem_x509_crl(ended),)
    process.parts.expiry.changed()
    await until(lambda: "revocation lists have ended" in caplog.text)
    assert not await serves(port, fleet.authority.client_context(mallory))
    honest = fleet.authority.client_context(fleet.authority.issue("honest"))
    assert await serves(port, honest)


class SetClock(Clock):
    """An event loop's clock, beside a wall clock that may be set."""

    ahead_s = 0.0

    def wall_s(self) -> float:
        return self.now_s + self.ahead_s


def test_when_the_clock_is_set_the_files_are_to_be_read_again() -> None:
    clock, asked = SetClock(), list[float]()
    watch = ExpiryWatch(clock, clock.wall_s, lambda: asked.append(clock.now_s))
    watch.follow([CertificateExpiry("certificate_file", 1, "gw", 90 * DAY_S)])
    clock.pass_s(LOOK_S)
    assert not asked
    clock.ahead_s = 10 * DAY_S
    clock.pass_s(LOOK_S)
    clock.pass_s(LOOK_S)
    assert asked == [2 * LOOK_S]
    clock.ahead_s = 0.0  # and back
    clock.pass_s(LOOK_S)
    assert len(asked) == 2
    watch.close()


def test_when_something_ends_the_files_are_to_be_read_again_once() -> None:
    clock, asked = SetClock(), list[float]()
    watch = ExpiryWatch(clock, clock.wall_s, lambda: asked.append(clock.now_s))
    watch.follow([CertificateExpiry("client_crl_file", 1, "authority", 2.5 * LOOK_S)])
    for _ in range(6):
        clock.pass_s(LOOK_S)
    assert asked == [3 * LOOK_S]
    watch.close()


async def test_a_gateway_reads_its_certificates_again_when_the_clock_was_set(
    fleet: Fleet,
) -> None:
    old = fleet.authority.issue("gw", is_gateway=True, expired=True)
    gateway = fleet.gateway("gw", issued=old)
    await gateway.start()
    renew(fleet, old)
    gateway.process.parts.expiry.changed()  # as its watch calls it
    port = gateway.process.mqtt_ports["mqtts"]
    async with asyncio.timeout(60):
        while not await serves(port, fleet.authority.client_context()):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (OSError(28, "No space left on device"), True),
        (OSError(98, "Address already in use"), True),
        (OSError(99, "Cannot assign requested address"), True),
        (PermissionError(13, "Permission denied"), False),
        (FileNotFoundError(2, "No such file or directory"), False),
        (FileNotFoundError(2, "No such file or directory", "/dev/ttyUSB0"), True),
        (ValueError("no number"), False),
    ],
)
def test_what_may_pass_is_told_from_what_is_wrong_by_what_an_error_comes_of(
    error: Exception, passes: bool
) -> None:
    try:
        try:
            raise error
        except (OSError, ValueError) as below:
            raise config.ConfigError("gateway.state_dir", str(below)) from below
    except config.ConfigError as above:
        assert may_pass(above) is passes


class Woken:
    """The keys of a gateway in a fleet of two, whose clock a test sets."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.own = self.authority.issue("gw", is_gateway=True)
        self.folder = folder
        self.files = self.read()
        self.ahead_s = 0.0
        self.keys = self.started()

    def read(self) -> SigningFiles:
        takes = ClientCertificate.REQUIRED
        lists = self.folder / "lists.pem"
        files = TlsFiles(
            self.own.certificate,
            self.own.key,
            takes,
            self.authority.file,
            lists if lists.exists() else None,
        )
        return SigningFiles.read(files)

    def started(self) -> FleetKeys:
        self.keys = FleetKeys(self.files, self.folder, lambda: time.time() + self.ahead_s)
        return self.keys

    def knows(self) -> set[str]:
        return {name for name in ("gw", "other") if self.keys.ring.knows(name)}


YEARS_S = 10 * 365 * DAY_S


def test_a_clock_that_is_wrong_for_a_while_takes_no_certificate_from_a_gateway(
    tmp_path: Path,
) -> None:
    world = Woken(tmp_path)
    world.keys.ring.add((world.authority.issue("other", is_gateway=True).der,))
    world.ahead_s = YEARS_S  # while it runs
    world.keys.renew(world.files)
    assert not world.knows()
    world.keys.save()
    world.started()  # and at a start
    assert not world.knows()
    world.keys.save()
    world.ahead_s = 0.0
    world.keys.renew(world.files)
    assert world.knows() == {"gw", "other"}
    world.keys.save()
    world.started()
    assert world.knows() == {"gw", "other"}


def test_what_was_revoked_while_the_clock_was_wrong_does_not_come_back(tmp_path: Path) -> None:
    world = Woken(tmp_path)
    other = world.authority.issue("other", is_gateway=True)
    world.keys.ring.add((other.der,))
    world.ahead_s = YEARS_S
    world.keys.renew(world.files)
    (tmp_path / "lists.pem").write_bytes(world.authority.revoke(other))
    world.ahead_s = 0.0
    world.keys.renew(world.read())
    assert world.knows() == {"gw"}
    world.keys.clock_was_set()
    assert world.knows() == {"gw"}
