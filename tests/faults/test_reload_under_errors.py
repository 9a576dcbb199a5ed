"""Each call of what says who may do what fails: never more rights than before, never a half.

Method: a reload, a revocation, an enrolment, a renewal, a change of release and the notes of all
that are carried out with the production classes on a disk of which the n-th call fails, once or
until it is mended; then once more on a disk that works. In CI some of the calls, drawn by the seed.
The others than the reload: `test_authority_under_errors` and its neighbours.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from authority import Authority as FleetAuthority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from failing_calls import OF_DISK, OF_THE_DISK, Draw, FailingCalls, Fault
from fleet_gateway import FleetGateway, until

from gateway.node.signing.own_history import OwnHistory
from gateway.process.access import secure_files
from gateway.process.configuration import config
from gateway.process.running import access_in_use as in_use
from gateway.trust.credentials import crl as crls


async def _at_once(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Work that a thread would do, so that the order of calls is always the same."""
    return work(*arguments, **named)


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
        """Return the editions by which its parts go."""
        dialled = self.process.parts.attachment.neighbours.status()["addresses"]
        keys = self.process.parts.access.files.keystore.identities()
        return {
            *(int(one["address"].rpartition(":")[2]) for one in dialled),
            *(int(one.rpartition("-")[2]) for one in keys),
        }

    def keeps_out(self) -> bool:
        """Return whether each face refuses the revoked certificate, and would after a start too."""
        serial = self.stolen.x509.serial_number
        files = self.process.parts.access.files
        each = (files.broker.tls.revoked, self.process.parts.proof.revocations.lists)
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
    proof = made.process.parts.proof
    assert proof.revocations.take(crls.name_of(made.authority.x509), crl.public_bytes(Encoding.DER))
    proof.revocations.save()
    made.process.parts.access.revoked("a neighbour")
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
    name, revocations = (
        crls.name_of(guarded.authority.x509),
        guarded.process.parts.proof.revocations,
    )

    async def hand_over(number: int, edition: int) -> None:
        guarded.stolen = guarded.authority.issue("stolen", is_gateway=True)
        crl = x509.load_pem_x509_crl(guarded.authority.revoke(guarded.stolen, number=edition))
        if number:
            calls.fail(number, fault)
        assert revocations.take(name, crl.public_bytes(Encoding.DER))
        guarded.process.parts.access.revoked("a neighbour")
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
    guarded.gateway.issued = guarded.authority.issue("gw", is_gateway=True)  # with another key
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
        former = OwnHistory(state).former(guarded.process.parts.proof.keys.chain)
        assert former == list(guarded.process.parts.proof.keys.statement.keys) != [], where


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
