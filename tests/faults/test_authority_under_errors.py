"""A revocation and an enrolment of whose calls each fails: never more rights than before.

Nor ever a half. Method: see `test_reload_under_errors`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from failing_calls import OF_THE_DISK, Draw, FailingCalls, Fault

from gateway.trust.certificates import authority_folder, founding, private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority, AuthorityError
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.certificates.token_book import TokenBook, TokenGrant
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.desk import Asker, EnrolmentDesk, RefusedRequestError


def revoked(folder: Path) -> set[int]:
    """Return the serial numbers that the list of an authority's folder has."""
    found = x509.load_pem_x509_crl((folder / "revoked.pem").read_bytes())
    return {one.serial_number for one in found}


def is_whole(authority: Authority, name: str) -> bool:
    """Return whether a name's key is that of its certificate."""
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
