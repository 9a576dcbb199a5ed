"""Goal: an authority's folder holds a whole state after whatever cut a command off, and nobody
gets a certificate that was not meant."""

from __future__ import annotations

import datetime
import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.base import replaced_file
from gateway.base.event_log.audit import AuditTrail
from gateway.trust.certificates import authority_folder, founding, private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import (
    Authority,
    AuthorityError,
    CertificateMissingError,
    NotIssuedError,
    NotNotedError,
)
from gateway.trust.tls.certificates import identify


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return founding.found(tmp_path / "ca")


def certificate(authority: Authority, name: str) -> x509.Certificate:
    file = authority.folder / f"{name}.pem"
    return x509.load_pem_x509_certificate(file.read_bytes())


def is_whole(authority: Authority, name: str) -> bool:
    """Return whether the key under a name belongs to the certificate under that name."""
    (key, *_) = private_keys.load((authority.folder / f"{name}.key.pem").read_bytes())
    return authority_folder.is_of(key, certificate(authority, name))


def revoked(authority: Authority) -> set[int]:
    lists = x509.load_pem_x509_crl((authority.folder / "revoked.pem").read_bytes())
    return {one.serial_number for one in lists}


def test_keys_are_their_owners_alone(authority: Authority) -> None:
    authority.issue("gw-a")
    assert stat.S_IMODE(authority.folder.stat().st_mode) == 0o700
    for name in ("ca.key.pem", "gw-a.key.pem", "issued.json", "audit.jsonl"):
        assert stat.S_IMODE((authority.folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", private_keys.KINDS)
def test_a_certificate_says_who_and_what_its_holder_is(tmp_path: Path, kind: str) -> None:
    authority = founding.found(tmp_path / "ca", kind=kind)
    authority.issue("gw-a", ["10.0.0.1"], kind=kind)
    authority.issue("probe", roles=("reader", "operator"), kind=kind)
    for name, roles in (("gw-a", {"gateway"}), ("probe", {"reader", "operator"})):
        made = certificate(authority, name)
        peer = identify(made.public_bytes(private_keys.serialization.Encoding.DER))
        assert (peer.name, peer.roles) == (name, roles)
        made.verify_directly_issued_by(authority.trusted()[0])
        assert is_whole(authority, name)


def test_only_who_is_dialled_may_be_a_server(authority: Authority) -> None:
    authority.issue("gw-a")
    authority.issue("probe", roles=("reader",))
    for name, expected in (
        ("gw-a", {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}),
        ("probe", {ExtendedKeyUsageOID.CLIENT_AUTH}),
    ):
        usages = certificate(authority, name).extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        )
        assert set(usages.value) == expected


def test_a_renewal_says_what_the_last_one_said_and_the_last_one_stays_valid(
    authority: Authority,
) -> None:
    authority.issue("gw-a", ["10.0.0.1", "north.lan"])
    before = certificate(authority, "gw-a")
    authority.renew("gw-a")
    after = certificate(authority, "gw-a")
    assert forms.alternative_names_of(after) == forms.alternative_names_of(before)
    assert after.serial_number != before.serial_number
    assert after.public_key() != before.public_key()
    assert is_whole(authority, "gw-a")
    assert revoked(authority) == set()


def test_revoking_a_name_takes_back_all_that_it_was_issued(authority: Authority) -> None:
    authority.issue("gw-a")
    authority.issue("gw-b")
    first = certificate(authority, "gw-a").serial_number
    authority.renew("gw-a")
    second = certificate(authority, "gw-a").serial_number
    authority.revoke(["gw-a"])
    assert revoked(authority) == {first, second}
    with pytest.raises(CertificateMissingError, match="is revoked: issue a new one"):
        authority.renew("gw-a")
    authority.issue("gw-a")
    assert certificate(authority, "gw-a").serial_number not in revoked(authority)


def test_all_but_the_last_of_a_name_are_taken_back_where_that_is_in_use(
    authority: Authority,
) -> None:
    serials = []
    for make in (authority.issue, authority.renew, authority.renew):
        make("gw-a")
        serials.append(certificate(authority, "gw-a").serial_number)
    authority.revoke(["gw-a"], keep_last=True)
    assert revoked(authority) == set(serials[:2])
    assert authority.revoke(["gw-a"], keep_last=True) == []
    with pytest.raises(CertificateMissingError):
        authority.revoke(["gw-b"], keep_last=True)


def test_one_certificate_is_revoked_by_its_number(authority: Authority) -> None:
    authority.issue("gw-a")
    first = certificate(authority, "gw-a").serial_number
    authority.renew("gw-a")
    authority.revoke([f"{first:x}"])
    assert revoked(authority) == {first}
    assert authority.has("gw-a")


def test_no_list_has_the_number_of_one_before(authority: Authority) -> None:
    numbers = []
    for _ in range(3):
        authority.revoke()
        file = x509.load_pem_x509_crl((authority.folder / "revoked.pem").read_bytes())
        numbers.append(file.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)
    assert numbers == sorted(set(numbers))


def test_a_certificate_for_a_key_made_elsewhere_leaves_no_key_here(authority: Authority) -> None:
    authority.issue("gw-a")
    authority.certify("gw-a", Ed25519PrivateKey.generate().public_key())
    assert not (authority.folder / "gw-a.key.pem").exists()
    assert isinstance(certificate(authority, "gw-a").public_key(), object)
    assert len(authority.issued()) == 2


class _PowerCut(BaseException):
    """Ends a command wherever it is."""


@pytest.mark.parametrize("writes", range(6))
def test_a_command_that_is_cut_off_has_done_all_or_nothing(
    authority: Authority, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("gw-a")
    before = certificate(authority, "gw-a").serial_number
    left = [writes]
    replace = replaced_file.replace

    def cut(path: Path, data: bytes, **more: object) -> None:
        if not left[0]:
            raise _PowerCut
        left[0] -= 1
        replace(path, data, **more)  # type: ignore[arg-type]  # as it was called

    with monkeypatch.context() as patched:
        patched.setattr(replaced_file, "replace", cut)
        try:
            authority.renew("gw-a")
        except _PowerCut:
            was_cut = True
        else:
            was_cut = False
    assert was_cut == (writes < 3), "the test has to be told of another write"
    again = Authority(authority.folder)
    again.revoke()  # any command makes the folder whole
    assert is_whole(again, "gw-a")
    newest = again.issued()[-1].certificate
    assert certificate(again, "gw-a") == newest
    assert (newest.serial_number == before) == (len(again.issued()) == 1)
    assert list(authority.folder.glob("*.key.pem.*")) == []


def test_commands_that_run_at_the_same_time_lose_nothing_of_each_other(
    authority: Authority,
) -> None:
    names = [f"gw-{number}" for number in range(20)]
    program = (
        "import sys; from gateway.trust.certificates.authority import Authority; from pathlib "
    )
    program += "import Path; a = Authority(Path(sys.argv[1])); [a.issue(n) for n in sys.argv[2:]]"
    commands = [
        subprocess.Popen([sys.executable, "-c", program, str(authority.folder), *some])
        for some in (names[:10], names[10:])
    ]
    assert [command.wait(60) for command in commands] == [0, 0]
    assert {one.name for one in authority.issued()} == set(names)
    assert all(is_whole(authority, name) for name in names)
    assert sum(1 for _ in authority.trail.changes()) == 21


def test_a_folder_of_before_there_was_an_index_is_taken_over(authority: Authority) -> None:
    for name in ("gw-a", "gw-b", "gw-c"):
        authority.issue(name)
    replaced = certificate(authority, "gw-c").serial_number
    authority.renew("gw-c")
    authority.revoke(["gw-b", f"{replaced:x}"])
    gone = revoked(authority)
    (authority.folder / "issued.json").unlink()
    again = Authority(authority.folder)
    assert {one.name: one.revoked is None for one in again.issued()} == {
        "gw-a": True,
        "gw-b": False,
        "gw-c": True,
    }
    again.revoke(["gw-a"])
    assert revoked(again) == gone | {certificate(again, "gw-a").serial_number}


def test_the_authoritys_key_opens_with_its_password_alone(tmp_path: Path) -> None:
    founding.found(tmp_path / "ca", b"open sesame").issue("gw-a")
    assert b"ENCRYPTED" in (tmp_path / "ca" / "ca.key.pem").read_bytes()
    for wrong in (None, b"open barley"):
        with pytest.raises(AuthorityError, match="password"):
            Authority(tmp_path / "ca", wrong)
    authority = Authority(tmp_path / "ca", b"open sesame")
    founding.begin_roll_over(authority)
    assert (tmp_path / "ca" / "ca.key.pem").read_bytes().count(b"ENCRYPTED PRIVATE") == 4


def test_what_ended_long_ago_is_forgotten(authority: Authority) -> None:
    authority.issue("gw-a", days=1)
    later = forms.now() + datetime.timedelta(days=400)
    with authority.opened() as opened:
        opened.index.add(certificate(authority, "gw-a"), later)
        assert len(opened.index.issued) == 1


# -- another authority -----------------------------------------------------------------------------


def test_in_a_roll_over_two_are_trusted_and_the_new_one_issues(authority: Authority) -> None:
    authority.issue("gw-a")
    (old,) = authority.trusted()
    founding.begin_roll_over(authority)
    fresh, still = authority.trusted()
    assert still == old
    certificate(authority, "gw-a").verify_directly_issued_by(old)
    authority.renew("gw-a")
    certificate(authority, "gw-a").verify_directly_issued_by(fresh)
    lists = (authority.folder / "revoked.pem").read_bytes()
    assert lists.count(b"BEGIN X509 CRL") == 2


def test_the_old_one_is_revoked_by_too_while_it_is_trusted(authority: Authority) -> None:
    authority.issue("gw-a")
    old = certificate(authority, "gw-a").serial_number
    founding.begin_roll_over(authority)
    authority.revoke(["gw-a"])
    end = b"-----END X509 CRL-----\n"
    new_list, old_list, _ = (authority.folder / "revoked.pem").read_bytes().split(end)
    assert [one.serial_number for one in x509.load_pem_x509_crl(old_list + end)] == [old]
    assert list(x509.load_pem_x509_crl(new_list + end)) == []


def test_it_does_not_end_while_somebody_has_a_certificate_of_the_old_one(
    authority: Authority,
) -> None:
    for name in ("gw-a", "gw-b", "gone"):
        authority.issue(name)
    authority.revoke(["gone"])
    founding.begin_roll_over(authority)
    with pytest.raises(NotIssuedError, match="is under way"):
        founding.begin_roll_over(authority)
    authority.renew("gw-a")
    with pytest.raises(NotIssuedError, match=r"renewed first: gw-b$"):
        founding.end_roll_over(authority)
    authority.renew("gw-b")
    founding.end_roll_over(authority)
    assert len(authority.trusted()) == 1
    assert (authority.folder / "ca.key.pem").read_bytes().count(b"BEGIN PRIVATE KEY") == 1
    with pytest.raises(NotIssuedError, match="no roll-over"):
        founding.end_roll_over(authority)


@pytest.mark.parametrize("writes", range(4))
def test_a_roll_over_that_is_cut_off_can_be_begun_again(
    authority: Authority, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("gw-a")
    left = [writes]
    replace = replaced_file.replace

    def cut(path: Path, data: bytes, **more: object) -> None:
        if not left[0]:
            raise _PowerCut
        left[0] -= 1
        replace(path, data, **more)  # type: ignore[arg-type]  # as it was called

    with monkeypatch.context() as patched, pytest.raises(_PowerCut):
        patched.setattr(replaced_file, "replace", cut)
        founding.begin_roll_over(authority)
    again = Authority(authority.folder)
    if len(again.trusted()) == 1:
        founding.begin_roll_over(again)
    again.renew("gw-a")
    founding.end_roll_over(again)
    certificate(again, "gw-a").verify_directly_issued_by(*again.trusted())


def test_who_did_what_stands_in_the_audit_trail(authority: Authority) -> None:
    authority.issue("gw-a")
    authority.certify("gw-b", Ed25519PrivateKey.generate().public_key(), who="token of gw-b")
    authority.revoke(["gw-a"])
    said = [(one.what, one.of["name"]) for one in authority.trail.changes()]
    assert said[1:] == [
        ("certificate issued", "gw-a"),
        ("certificate issued", "gw-b"),
        ("certificate revoked", "gw-a"),
    ]
    assert list(authority.trail.changes())[2].who == "token of gw-b"


def test_a_failed_addition_takes_back_its_own_certificate_and_no_revocation(
    authority: Authority,
) -> None:
    authority.issue("gw-a")
    (stolen,) = authority.revoke(["gw-a"])
    before = authority.issued()
    authority.issue("gw-a")
    authority.forget("gw-a", before)
    assert authority.issued() == before
    authority.revoke()
    assert revoked(authority) == {stolen.certificate.serial_number}


def test_an_addition_that_issued_nothing_takes_nothing_back(authority: Authority) -> None:
    authority.issue("gw-a")
    authority.forget("gw-a", authority.issued())
    assert is_whole(authority, "gw-a")
    assert [one.name for one in authority.issued()] == ["gw-a"]


def test_what_is_revoked_is_not_forgotten_by_a_clock_that_is_years_ahead(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("gw-a")
    (stolen,) = authority.revoke(["gw-a"])
    real = forms.now
    with monkeypatch.context() as patched:
        patched.setattr(forms, "now", lambda: real() + datetime.timedelta(days=3000))
        authority.issue("gw-b")
    authority.revoke()
    assert stolen.certificate.serial_number in revoked(authority)


def test_without_its_index_an_authority_goes_on_behind_the_number_of_its_list(
    authority: Authority,
) -> None:
    authority.issue("gw-a")
    for _ in range(3):
        authority.revoke()
    number = list_number(authority)
    (authority.folder / "issued.json").unlink()
    authority.revoke(["gw-a"])
    assert list_number(authority) > number


def list_number(authority: Authority) -> int:
    found = x509.load_pem_x509_crl((authority.folder / "revoked.pem").read_bytes())
    return found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def test_nobody_gets_a_certificate_of_which_the_trail_does_not_tell(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = authority.issued()
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patched.setattr(AuditTrail, "append", Mock(side_effect=full))
        with pytest.raises(OSError, match="No space left"):
            authority.issue("gw-a")
    assert authority.issued() == before


def test_what_is_revoked_is_revoked_though_the_trail_can_not_tell_of_it(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("gw-a")
    authority.issue("gw-b")
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patched.setattr(AuditTrail, "append", Mock(side_effect=full))
        with pytest.raises(NotNotedError, match=r"gw-a \w+; .*gw-b \w+: done, .*No space left"):
            authority.revoke(["gw-a", "gw-b"])
    stolen = [one for one in authority.issued() if one.name in {"gw-a", "gw-b"}]
    assert all(one.revoked for one in stolen)
    assert revoked(authority) == {one.certificate.serial_number for one in stolen}


def test_a_roll_over_ends_though_the_trail_can_not_tell_of_it(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = founding.begin_roll_over(authority)
    number = list_number(authority)
    with monkeypatch.context() as patched:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patched.setattr(AuditTrail, "append", Mock(side_effect=full))
        with pytest.raises(NotNotedError, match="roll-over ended"):
            founding.end_roll_over(authority)
    assert authority.trusted() == [fresh]
    assert list_number(authority) > number


def test_a_key_that_can_not_be_read_for_a_moment_is_not_taken_for_another_one(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("gw-a")
    (authority.folder / "gw-a.pem").unlink()  # as where a command was cut off
    with monkeypatch.context() as patched:
        read = Path.read_bytes
        full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        patched.setattr(
            Path,
            "read_bytes",
            lambda path: Mock(side_effect=full)() if path.name == "gw-a.key.pem" else read(path),
        )
        with pytest.raises(OSError, match="Too many open files"):
            authority.revoke()
    authority.revoke()
    assert is_whole(authority, "gw-a")


def test_a_renewal_says_where_its_holder_is_reached_from_now_on(authority: Authority) -> None:
    authority.issue("gw-a", ["10.0.0.1"])
    renewed = authority.renew("gw-a", ["10.0.0.2", "gw-a.example"])
    names = forms.alternative_names_of(renewed.certificate)
    addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    assert "10.0.0.2" in addresses
    assert "10.0.0.1" not in addresses
    assert "gw-a.example" in names.get_values_for_type(x509.DNSName)
    assert renewed.roles == ("gateway",)


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b"])
def test_a_name_that_no_file_can_have_gets_no_certificate(authority: Authority, name: str) -> None:
    key = private_keys.make("p256").public_key()
    with pytest.raises(NotIssuedError, match="can be no name of a certificate here"):
        authority.certify(name, key)
    assert authority.issued() == []


def test_who_has_no_certificate_has_none_to_renew(authority: Authority) -> None:
    with pytest.raises(
        CertificateMissingError, match=r"'gw-a' has no certificate here: .*gw-a\.pem"
    ):
        authority.renew("gw-a")
    assert not authority.has("gw-a")


def test_an_authority_that_has_ended_issues_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = forms.now
    with monkeypatch.context() as patched:
        patched.setattr(forms, "now", lambda: real() - datetime.timedelta(days=20))
        authority = founding.found(tmp_path / "ca", days=10)
    with pytest.raises(AuthorityError, match=r"ca\.pem: the authority itself has expired"):
        authority.issue("gw-a")
    assert authority.issued() == []


def damaged_list(folder: Path) -> None:
    end = "-----END X509 CRL-----"
    (folder / "revoked.pem").write_text(f"-----BEGIN X509 CRL-----\nAAAA\n{end}\n")


def other_key(folder: Path) -> None:
    (folder / "ca.key.pem").write_bytes(private_keys.as_pem(private_keys.make("p256")))


def other_version(folder: Path) -> None:
    index = (folder / "issued.json").read_text()
    (folder / "issued.json").write_text(index.replace('"version": 1', '"version": 99'))


def no_index(folder: Path) -> None:
    (folder / "issued.json").write_text("[]")


def no_certificate(folder: Path) -> None:
    (folder / "issued.json").unlink()
    (folder / "gw-b.pem").write_text("nothing")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (damaged_list, r"revoked\.pem: a list that can't be read"),
        (other_key, r"ca\.key\.pem: not the key of the first certificate in .*ca\.pem"),
        (other_version, r"issued\.json: version 99, and 1 is known"),
        (no_index, r"issued\.json: no index of certificates"),
        (no_certificate, r"gw-b\.pem: no certificate in PEM"),
    ],
)
def test_a_file_of_an_authority_that_can_not_be_used_is_named(
    authority: Authority, damage: Callable[[Path], None], why: str
) -> None:
    authority.issue("gw-a")
    damage(authority.folder)
    with pytest.raises(AuthorityError, match=why):
        Authority(authority.folder).revoke(["gw-a"])


def test_a_list_of_an_authority_whose_key_is_not_here_stays_as_it_is(tmp_path: Path) -> None:
    ours, other = founding.found(tmp_path / "ca"), founding.found(tmp_path / "other")
    other.issue("gw-x")
    other.revoke(["gw-x"])
    theirs = (other.folder / "revoked.pem").read_bytes()
    other_ca = (other.folder / "ca.pem").read_bytes()
    with (ours.folder / "ca.pem").open("ab") as trusted:
        trusted.write(other_ca)
    with (ours.folder / "revoked.pem").open("ab") as lists:
        lists.write(theirs)
    ours.issue("gw-a")
    ours.revoke(["gw-a"])
    assert theirs.strip() in (ours.folder / "revoked.pem").read_bytes()


def test_in_a_roll_over_what_all_have_to_trust_is_issued_by_the_one_before(
    authority: Authority,
) -> None:
    (old,) = authority.trusted()
    founding.begin_roll_over(authority)
    fresh = authority.trusted()[0]
    authority.issue("enrolment", is_oldest=True)
    certificate(authority, "enrolment").verify_directly_issued_by(old)
    authority.issue("gw-a")
    certificate(authority, "gw-a").verify_directly_issued_by(fresh)
    assert authority.vouching() == old
