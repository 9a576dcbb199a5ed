"""Each call of what says who may do what fails: never more rights than before, never a half.

Method: a reload, a revocation, an enrolment, a renewal, a change of release and the notes of all
that are carried out with the production classes on a disk of which the n-th call fails, once or
until it is mended; then once more on a disk that works. In CI some of the calls, drawn by the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from authority import Authority as FleetAuthority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from failing_calls import OF_DISK, FailingCalls, Fault
from fleet_gateway import FleetGateway, until

from gateway.access import changes, in_use
from gateway.certificates import authority_folder, founding, private_keys
from gateway.certificates import x509_forms as forms
from gateway.certificates.authority import Authority, AuthorityError
from gateway.certificates.token_book import TokenBook, TokenGrant
from gateway.configuration import config
from gateway.credentials import crl as crls
from gateway.credentials import secure_files
from gateway.enrolment import following, requests
from gateway.enrolment.desk import Asker, EnrolmentDesk, RefusedRequestError
from gateway.enrolment.following import FollowedFiles, TrustFollower
from gateway.enrolment.requests import TrustedNow
from gateway.event_log.audit import AuditTrail
from gateway.releases.folder import ReleaseFolder
from gateway.releases.guard import ReleaseGuard
from gateway.releases.trial import ServiceEnds, TrialError
from gateway.signing.keys import PrivateKey
from gateway.state_folder.identity import next_boot_epoch
from gateway.state_folder.life import GatewayLife, Renewals

DRAWN = 6
"""So many calls of a step fail in CI, for each fault."""
WHAT = "access.password_file changed"
AGAIN = "the trail begins again, changes before are not known"
"""Where the file itself is at fault that says what was before: it is set aside."""
OF_THE_DISK = [fault for fault in OF_DISK if fault.number and not fault.is_partial]
OPEN = io.open
"""As it is before calls fail."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where that is to be had: how slow a disk is says nothing here."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="trust-", dir=where) as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What a failing disk has a gateway say would be most of a test's time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def draw(pytestconfig: pytest.Config) -> Callable[[int], list[int]]:
    """Which of so many calls are to fail."""

    def drawn(calls: int) -> list[int]:
        assert calls, "nothing is reached"
        numbers = range(1, calls + 1)
        if pytestconfig.getoption("--soak"):
            return list(numbers)
        by_seed = random.Random(pytestconfig.getoption("--seed"))
        return sorted(by_seed.sample(numbers, min(DRAWN, calls)))

    return drawn


async def _at_once(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Work that a thread would do, so that the order of calls is always the same."""
    return work(*arguments, **named)


Draw = Callable[[int], list[int]]


# -- an authority ----------------------------------------------------------------------------------


def revoked(folder: Path) -> set[int]:
    """What the list of an authority's folder has."""
    found = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
    return {one.serial_number for one in found}


def is_whole(authority: Authority, name: str) -> bool:
    """Whether a name's key is that of its certificate."""
    certificate = x509.load_pem_x509_certificate((authority.folder / f"{name}.pem").read_bytes())
    (key, *_) = private_keys.load((authority.folder / f"{name}.key.pem").read_bytes())
    return authority_folder.is_of(key, certificate)


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_revocation_stands_whole_or_not_at_all_and_never_goes_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)
    made = 0

    def fleet() -> tuple[Authority, int, int]:
        nonlocal made
        authority = founding.found(folder / f"{(made := made + 1)}")
        for name in ("lost", "stolen", "honest"):
            authority.issue(name)
        (first,) = authority.revoke(["lost"])
        stolen = next(one for one in authority.issued() if one.name == "stolen")
        return authority, first.certificate.serial_number, stolen.certificate.serial_number

    def steps(authority: Authority) -> tuple[Callable[[], object], ...]:
        return (
            lambda: authority.revoke(["stolen"]),
            lambda: authority.issue("newcomer"),
            lambda: authority.renew("honest"),
        )

    authority, *_ = fleet()
    begun = calls.counts["disk"]
    for step in steps(authority):
        step()
    for number in draw(calls.counts["disk"] - begun):
        authority, lost, stolen = fleet()
        calls.fail(number, fault)
        told = 0
        for step in steps(authority):
            try:
                step()
            except (OSError, AuthorityError):
                told += 1
        failed = list(calls.failed)
        calls.mend()
        calls.failed.clear()
        assert lost in revoked(authority.folder), (fault, number, failed)
        assert not any(one.serial == f"{lost:x}" and not one.revoked for one in authority.issued())
        for step in steps(authority):
            step()
        assert {lost, stolen} <= revoked(authority.folder), (fault, number, failed)
        assert is_whole(authority, "newcomer") and is_whole(authority, "honest")
        issued = {one.serial for one in authority.issued()}
        noted = {one.of["serial"] for one in authority.trail.changes()}
        assert issued <= noted, "somebody has a certificate that no note tells of"
        assert told or not failed or issued, (fault, number, failed)


# -- an enrolment ----------------------------------------------------------------------------------


def asked_for(authority: Authority, name: str, key: PrivateKey, *roles: str) -> bytes:
    """Make a new token for a name, and the request of who has it."""
    now_s = time.time()
    grant = TokenGrant(name, (), roles, 90, now_s + 3600, "")
    secret = TokenBook(authority.folder).make(grant, now_s)
    body = {"name": name, "secret": secret.hex(), "request": requests.asked(key, name)}
    return requests.json.dumps(body).encode()


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_token_gives_one_certificate_to_one_key_whatever_fails_on_the_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)
    mine, other = private_keys.make("p256"), private_keys.make("p256")

    def desk(name: str) -> tuple[EnrolmentDesk, Authority, bytes]:
        authority = founding.found(folder / name)
        serving = EnrolmentDesk(authority, time.time)
        # It had another certificate before, with other rights.
        body = asked_for(authority, "gw", mine, "operator")
        serving.answer("POST", requests.ENROL, body, Asker("192.0.2.1"))
        return serving, authority, asked_for(authority, "gw", mine, "gateway")

    serving, authority, body = desk("whole")
    begun = calls.counts["disk"]
    serving.answer("POST", requests.ENROL, body, Asker("192.0.2.1"))
    for number in draw(calls.counts["disk"] - begun):
        serving, authority, body = desk(str(number))
        calls.fail(number, fault)
        with contextlib.suppress(OSError, AuthorityError):
            serving.answer("POST", requests.ENROL, body, Asker("192.0.2.1"))
        calls.mend()
        found = serving.answer("POST", requests.ENROL, body, Asker("192.0.2.1"))
        certificate = x509.load_pem_x509_certificate(found.certificate.encode())
        assert authority_folder.is_of(mine, certificate)
        assert forms.roles_of(forms.alternative_names_of(certificate)) == ("gateway",)
        issued = [one for one in authority.issued() if one.name == "gw"]
        assert len(issued) == 2, (fault, number)
        request = requests.asked(other, "gw")
        stolen = requests.json.dumps({**requests.json.loads(body), "request": request}).encode()
        with pytest.raises(RefusedRequestError, match="has been used"):
            serving.answer("POST", requests.ENROL, stolen, Asker("192.0.2.2"))


# -- a renewal -------------------------------------------------------------------------------------


class FollowedGateway:
    """A gateway's files, and what it follows its fleet by; the service is a call away."""

    def __init__(self, authority: Authority, folder: Path, files: dict[str, bytes]) -> None:
        folder.mkdir(parents=True)
        self.folder, self._authority = folder, authority
        self._desk = EnrolmentDesk(authority, time.time)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        self.gone_by = dict(files)
        """The files as the gateway has read them last."""

    def files(self) -> dict[str, bytes]:
        """Return what its files hold, whatever calls fail."""
        found = {}
        for name in self.gone_by:
            with OPEN(self.folder / name, "rb") as file:
                found[name] = file.read()
        return found

    def where(self) -> FollowedFiles:
        names = ("gw.pem", "gw.key.pem", "ca.pem", "revoked.pem")
        return FollowedFiles(*(self.folder / name for name in names))

    def client(self, *_: object) -> FollowedGateway:
        return self

    def trust(self) -> TrustedNow:
        return self._desk.answer("GET", requests.TRUST, b"", Asker("192.0.2.1"))

    def renew(self, name: str, key: PrivateKey) -> TrustedNow:
        body = requests.json.dumps({"request": requests.asked(key, name)}).encode()
        first = next(one for one in self._authority.issued() if one.name == name)
        shown = first.certificate.public_bytes(Encoding.DER)
        return self._desk.answer("POST", requests.RENEW, body, Asker("192.0.2.1", shown))

    def read(self) -> None:
        self.gone_by = self.files()

    def is_whole(self) -> bool:
        """Whether what it has now would be read."""
        files = self.files()
        own = x509.load_pem_x509_certificate(files["gw.pem"])
        (key, *_) = private_keys.load(files["gw.key.pem"])
        subjects = {one.subject for one in x509.load_pem_x509_certificates(files["ca.pem"])}
        return authority_folder.is_of(key, own) and own.issuer in subjects

    def is_current(self) -> bool:
        """Whether it goes by all that is new."""
        own = x509.load_pem_x509_certificate(self.gone_by["gw.pem"])
        is_renewed = not following.is_due(own, forms.now())
        lists = (self._authority.folder / "revoked.pem").read_bytes()
        return is_renewed and self.gone_by == self.files() and self.gone_by["revoked.pem"] == lists

    async def follow(self, mended: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        """Follow the fleet; after some looks the disk is mended."""
        patch.setattr(following, "EnrolmentClient", self.client)
        running = asyncio.create_task(TrustFollower("service", self.where, 0.0, self.read).run())
        for _ in range(3):
            await asyncio.sleep(0)
        mended()
        assert self.is_whole()
        await until(self.is_current)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
async def test_what_is_followed_is_whole_and_the_gateway_reads_all_that_is_new(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    authority = founding.found(folder / "ca")
    authority.issue("stolen")
    real = forms.now
    with monkeypatch.context() as patched:  # a third of its life is left
        patched.setattr(forms, "now", lambda: real() - 80 * forms.BEHIND)
        authority.issue("gw", days=90)
    names = ("ca.pem", "revoked.pem", "gw.pem", "gw.key.pem")
    old = {name: (authority.folder / name).read_bytes() for name in names}
    authority.revoke(["stolen"])
    monkeypatch.setattr(asyncio, "to_thread", _at_once)
    calls = FailingCalls(folder / "gateways", monkeypatch)
    whole = FollowedGateway(authority, folder / "gateways" / "whole", old)
    begun = calls.counts["disk"]
    await whole.follow(lambda: None, monkeypatch)
    for number in draw(min(calls.counts["disk"] - begun, 80)):
        gateway = FollowedGateway(authority, folder / "gateways" / f"{number}", old)
        calls.fail(number, fault)
        await gateway.follow(calls.mend, monkeypatch)


# -- a release on trial ----------------------------------------------------------------------------

OLD, NEW = "1-old", "2-new"
SHORT_S = 1e-6
"""A second look comes later than that."""


class Machine:
    """A service that only counts, and that runs the release that the link led to."""

    def __init__(self, folder: ReleaseFolder) -> None:
        self._folder = folder
        self.runs = OLD
        self.starts = 0

    def boot_id(self) -> str:
        return "boot"

    def ends(self) -> ServiceEnds:
        return ServiceEnds(7, failed_at=1)  # of before

    def restart(self) -> None:
        self.starts += 1
        self.runs = self._folder.current()

    def start_guard(self) -> None:
        pass


class Silent:
    """Listeners of which nobody asks."""

    def schemes(self) -> list[str]:
        return []

    def complaints(self, schemes_before: object) -> list[str]:
        return []


def installed(path: Path) -> tuple[ReleaseFolder, Machine, ReleaseGuard]:
    for release in (OLD, NEW):
        (path / "releases" / release).mkdir(parents=True)
        (path / "releases" / release / "installed").touch()
    folder = ReleaseFolder(path)
    folder.switch(OLD)
    machine = Machine(folder)
    return folder, machine, ReleaseGuard(folder, machine, Silent())


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_release_that_fails_goes_back_whatever_fails_on_its_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def lived(name: str, number: int = 0) -> tuple[ReleaseFolder, Machine]:
        releases, machine, guard = installed(folder / name)
        if number:
            calls.fail(number, fault)
        looks = 0

        def sleep(_seconds: float) -> None:
            nonlocal looks
            looks += 1
            assert looks < 100, "it never comes to an end"
            if looks == 3:
                calls.mend()

        with contextlib.suppress(OSError, TrialError):
            guard.try_release(NEW, SHORT_S)
        with contextlib.suppress(OSError):  # the unit is started again after its first step failed
            guard.resume()
        guard.watch(sleep)
        calls.mend()
        return releases, machine

    installed(folder / "counted")
    begun = calls.counts["disk"]
    releases, machine = lived("whole")
    assert (releases.current(), machine.runs, machine.starts) == (OLD, OLD, 2)
    for number in draw(calls.counts["disk"] - begun):
        releases, machine = lived(str(number), number)
        where = (str(fault), number, calls.failed)
        assert (releases.current(), releases.trial()) == (OLD, None), where
        assert machine.runs == OLD and machine.starts <= 2, where


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_release_that_is_confirmed_stays_or_goes_back_and_whoever_confirms_knows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def tried(name: str) -> tuple[ReleaseFolder, Machine, ReleaseGuard]:
        made = installed(folder / name)
        made[2].try_release(NEW, SHORT_S)
        return made

    _, _, guard = tried("whole")
    begun = calls.counts["disk"]
    guard.confirm(NEW)
    for number in draw(calls.counts["disk"] - begun):
        releases, machine, guard = tried(str(number))
        calls.fail(number, fault)
        try:
            guard.confirm(NEW)
            is_told = False
        except (OSError, TrialError):
            is_told = True
        calls.mend()
        is_open = releases.trial() is not None
        assert is_told or not is_open
        guard.watch(lambda _seconds: None)
        assert machine.runs == releases.current() == (OLD if is_open else NEW)


# -- a life that is outlived, and the notes of changes ---------------------------------------------


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_life_that_is_outlived_ends_as_soon_as_the_next_one_can_be_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def outlived(name: str, number: int = 0) -> None:
        (folder / name).mkdir()
        ends: list[bool] = []
        later: list[Callable[[], None]] = []
        life = GatewayLife(
            folder / name,
            next_boot_epoch(folder / name),
            Renewals(lambda: ends.append(True), lambda: 0.0),
            lambda _seconds, step: later.append(step),
        )
        if number:
            calls.fail(number, fault)
        life.outlived(life.epoch + 1_000)
        calls.mend()
        for step in later:
            step()
        assert ends == [True]
        assert next_boot_epoch(folder / name) > life.epoch + 1_000

    outlived("first")
    begun = calls.counts["disk"]
    outlived("whole")
    for number in draw(calls.counts["disk"] - begun):
        outlived(str(number), number)


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_each_change_is_noted_once_the_disk_takes_it_and_nothing_that_did_not_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def changed(name: str, number: int = 0) -> None:
        own = folder / name
        (own / "state").mkdir(parents=True)
        (own / "tree.key").write_text("ab" * 32)
        (own / "gateway.toml").write_text(
            '[gateway]\nid = "gw"\nstate_dir = "state"\n[coap]\npsk_file = "psk"\n'
            '[tree]\nkey_file = "tree.key"\ndiscovery = false\n'
            '[access]\npassword_file = "passwords"\npolicy_file = "access.toml"\n'
        )
        for file, text in (("psk", "a:" + "00" * 16), ("passwords", "b:x"), ("access.toml", "")):
            (own / file).touch(0o600)
            (own / file).write_text(f"{text}\n")
        (own / "tree.key").chmod(0o600)
        settings = config.load(own / "gateway.toml", config.GatewaySettings)
        assert changes.note(settings, "start") == ""
        (own / "passwords").write_text("b:x\nc:y\n")
        if number:
            calls.fail(number, fault)
            has_failed = len(calls.failed)
            told = changes.note(settings, "reload")
            calls.mend()
            assert told or len(calls.failed) == has_failed or added(own) or begins_again(own)
        assert changes.note(settings, "reload") == ""
        assert added(own) or begins_again(own)
        noted = {one.what for one in AuditTrail(own / "state" / "audit.jsonl").changes()}
        assert noted <= {"the trail begins", WHAT, AGAIN}

    def begins_again(own: Path) -> bool:
        return any(one.what == AGAIN for one in AuditTrail(own / "state" / "audit.jsonl").changes())

    def added(own: Path) -> bool:
        noted = AuditTrail(own / "state" / "audit.jsonl").changes()
        found = [one.of for one in noted if one.what == WHAT]
        return bool(found) and all(one == {"added": ["c"]} for one in found)

    changed("first")
    begun = calls.counts["disk"]
    changed("whole")
    for number in draw(max(1, (calls.counts["disk"] - begun) // 2)):
        changed(str(number), number)


# -- a reload --------------------------------------------------------------------------------------


class Guarded:
    """A gateway that knows of a revocation from a neighbour alone, and is told to read again."""

    def __init__(self, folder: Path) -> None:
        self.authority = FleetAuthority(folder)
        self.gateway = FleetGateway(
            folder, "gw", self.authority.issue("gw", is_gateway=True), self.authority.file
        )
        self.stolen = self.authority.issue("stolen", is_gateway=True)
        self.psk = folder / "psk"
        self.gateway.coap = f'dtls_port = 0\npsk_file = "{self.psk}"'
        self.write(1)

    def write(self, edition: int) -> None:
        """Write files of which each says something else than the edition before."""
        self.psk.touch(0o600)
        self.psk.write_text(f"key-{edition}:{'00' * 16}\n")
        self.gateway.write(neighbours=[f"127.0.0.1:{edition}"])

    @property
    def process(self) -> Any:
        return self.gateway.process

    def edition(self) -> set[int]:
        """By which editions its parts go."""
        dialled = self.process._attachment.neighbours.status()["addresses"]
        keys = self.process._access.files.keystore.identities()
        return {
            *(int(one["address"].rpartition(":")[2]) for one in dialled),
            *(int(one.rpartition("-")[2]) for one in keys),
        }

    def keeps_out(self) -> bool:
        """Whether the revoked certificate is refused on each face, and after a start too."""
        serial = self.stolen.x509.serial_number
        files = self.process._access.files
        each = (files.broker.tls.revoked, self.process._proof.revocations.lists)
        kept = x509.load_pem_x509_crl((self.gateway.folder / "state" / "revoked.pem").read_bytes())
        return all(
            any(crl.get_revoked_certificate_by_serial_number(serial) for crl in lists)
            for lists in (*each, [kept])
        )


@pytest.fixture
async def guarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr(asyncio, "to_thread", _at_once)
    for pause in ("RETRY_S", "NOTE_AGAIN_S"):
        monkeypatch.setattr(in_use, pause, 0.01)
    (folder / "fleet").mkdir()
    made = Guarded(folder / "fleet")
    await made.gateway.start(neighbours=["127.0.0.1:1"])
    crl = x509.load_pem_x509_crl(made.authority.revoke(made.stolen, number=7))
    proof = made.process._proof
    assert proof.revocations.take(crls.name_of(made.authority.x509), crl.public_bytes(Encoding.DER))
    proof.revocations.save()
    made.process._access.revoked("a neighbour")
    await until(made.keeps_out)
    yield made
    await made.gateway.stop()


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
async def test_a_reload_takes_over_all_or_nothing_and_lets_in_nobody_who_was_revoked(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    folder = guarded.gateway.folder.parent
    calls = FailingCalls(folder, monkeypatch)
    await guarded.process.reload()
    numbers = draw(calls.counts["disk"])
    for edition, number in enumerate(numbers, 2):
        guarded.write(edition)
        calls.failed.clear()
        calls.fail(number, fault)
        with contextlib.suppress(Exception):  # the service says so, and serves the next one
            await guarded.process.reload()
        calls.mend()
        where = (str(fault), number, calls.failed)
        assert guarded.edition() in ({edition - 1}, {edition}), where
        assert guarded.keeps_out(), where
        failing = guarded.process.status()["failing"]
        assert guarded.edition() == {edition} or "reload" in failing, where
        await guarded.process.reload()
        assert guarded.edition() == {edition}
        assert guarded.process.status()["failing"] == {}


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
async def test_a_revocation_that_a_neighbour_hands_over_is_gone_by_when_the_disk_is_mended(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(guarded.gateway.folder.parent, monkeypatch)
    name, revocations = crls.name_of(guarded.authority.x509), guarded.process._proof.revocations

    async def hand_over(number: int, edition: int) -> None:
        guarded.stolen = guarded.authority.issue("stolen", is_gateway=True)
        crl = x509.load_pem_x509_crl(guarded.authority.revoke(guarded.stolen, number=edition))
        if number:
            calls.fail(number, fault)
        assert revocations.take(name, crl.public_bytes(Encoding.DER))
        guarded.process._access.revoked("a neighbour")
        for _ in range(5):
            await asyncio.sleep(0.001)
        calls.mend()
        await until(lambda: guarded.keeps_out() and guarded.process.status()["failing"] == {})

    await hand_over(0, 8)
    for edition, number in enumerate(draw(calls.counts["disk"]), 9):
        await hand_over(number, edition)


# -- a start, and who reads several files ----------------------------------------------------------


async def test_a_start_leaves_out_nothing_that_it_could_not_read_for_a_moment(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, draw: Draw
) -> None:
    """Files that are damaged are another matter (docs/durability.md): these can be read again."""
    state = guarded.gateway.folder / "state"
    trusted = ("own_keys", "certificates", "revoked.pem", "audited.json")
    await guarded.gateway.stop()
    assert all((state / name).exists() for name in trusted)
    calls = FailingCalls(guarded.gateway.folder.parent, monkeypatch)
    await guarded.gateway.start(neighbours=["127.0.0.1:1"])
    numbers = draw(calls.counts["disk"])
    for number in numbers:
        await guarded.gateway.stop()
        calls.failed.clear()
        calls.fail(number, next(one for one in OF_DISK if one.name == "EMFILE-once"))
        try:
            await guarded.gateway.start(neighbours=["127.0.0.1:1"])
        except (config.ConfigError, OSError):
            calls.mend()
            await guarded.gateway.start(neighbours=["127.0.0.1:1"])
        calls.mend()
        where = (number, calls.failed)
        assert guarded.keeps_out(), where
        assert not [one for name in trusted for one in state.glob(f"{name}.damaged*")], where
        assert len(guarded.process._proof.keys._history._used) == 1, where


def _with_all_sections(folder: Path) -> config.GatewaySettings:
    authority = FleetAuthority(folder)
    own = authority.issue("gw", is_gateway=True)
    (folder / "tree.key").write_text("ab" * 32)
    (folder / "tree.key").chmod(0o600)
    (folder / "lists.pem").write_bytes(authority.revoke(number=1))
    files = (
        f'certificate_file = "{own.certificate}"\nkey_file = "{own.key}"\n'
        f'client_ca_file = "{authority.file}"\nclient_crl_file = "lists.pem"\n'
    )
    (folder / "gateway.toml").write_text(
        f'[gateway]\nid = "gw"\nstate_dir = "state"\n[tree]\nkey_file = "tree.key"\n'
        f'discovery = false\n[mqtt]\ntls_port = 0\nclient_certificate = "optional"\n{files}'
        f"[coap]\ndtls_port = 0\n{files}[console]\nenabled = true\nport = 0\n{files}"
    )
    return config.load(folder / "gateway.toml", config.GatewaySettings)


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_who_reads_files_of_certificates_returns_what_all_of_them_say_or_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    settings = _with_all_sections(folder)
    calls = FailingCalls(folder, monkeypatch)
    whole = secure_files.read(settings)
    assert (len(whole.revoking.authorities), len(whole.revoking.lists)) == (3, 3)
    for number in draw(calls.counts["disk"]):
        calls.fail(number, fault)
        try:
            found = secure_files.read(settings)
        except config.ConfigError as error:
            assert str(folder) in str(error)
        else:
            assert found.revoking == whole.revoking
            assert found.links is not None and found.signing is not None
        finally:
            calls.mend()
