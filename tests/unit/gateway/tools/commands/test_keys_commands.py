"""`hedgerow keys` says what it has done to an authority's folder, and why it does not do it."""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from one_parser import hedgerow, parser

from gateway.base import exit_codes, replaced_file
from gateway.base.event_log import lines as event_lines
from gateway.process.configuration import place
from gateway.tools.commands import certifying, enrolling, qr
from gateway.trust.certificates import founding, pkcs12_files, private_keys, x509_forms
from gateway.trust.certificates.pkcs12_files import KeystoreContent
from gateway.trust.enrolment.requests import EnrolmentAnswer
from gateway.trust.enrolment.service import EnrolmentService
from gateway.trust.enrolment.tokens import EnrolmentToken

PASSWORD = "open sesame"
TOKEN = EnrolmentToken("gw-a", "192.0.2.1:8890", b"f" * 32, b"s" * 16).as_text()
Asks = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "authority"
    founding.found(folder, None, kind="p256", days=7300)
    assert hedgerow("keys", "issue", "gw-a=10.0.0.1", "--days", "30", "--ca", folder) == 0
    return folder


@pytest.fixture
def ca(template: Path, tmp_path: Path) -> Path:
    """An authority's folder, in which gw-a has a certificate of thirty days."""
    return shutil.copytree(template, tmp_path / "authority")


@pytest.fixture
def keys(capsys: pytest.CaptureFixture[str]) -> Asks:
    """Run an action; its exit code, and what it has printed."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = hedgerow("keys", *words)
        return code, *capsys.readouterr()

    return run


def certificate(ca: Path, name: str = "gw-a") -> x509.Certificate:
    return x509.load_pem_x509_certificate((ca / f"{name}.pem").read_bytes())


def serial(ca: Path) -> str:
    return f"{certificate(ca).serial_number:x}"


def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.touch(mode=0o600)
    file.write_text(f"{PASSWORD}\n")
    return file


@pytest.mark.parametrize(
    ("after", "state"),
    [
        (datetime.timedelta(days=-5), "ends in 5 days"),
        (datetime.timedelta(days=-5, seconds=1), "ends in 4 days"),
        (datetime.timedelta(), "ends in 0 days"),
        (datetime.timedelta(seconds=1), "ended"),
    ],
)
def test_a_certificate_is_listed_with_the_days_that_it_has_left(
    after: datetime.timedelta,
    state: str,
    ca: Path,
    keys: Asks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    until = certificate(ca).not_valid_after_utc
    monkeypatch.setattr(x509_forms, "now", lambda: until + after)
    number = serial(ca)
    code, out, _ = keys("list", "--ca", ca)
    assert (code, out.splitlines()) == (
        exit_codes.DONE,
        [
            f"name  roles    {'serial'.ljust(len(number))}  until       state",
            f"gw-a  gateway  {number}  {until:%Y-%m-%d}  {state}",
        ],
    )
    code, out, _ = keys("list", "--ca", ca, "--json")
    assert (code, json.loads(out)) == (
        exit_codes.DONE,
        [
            {
                "name": "gw-a",
                "serial": number,
                "roles": ["gateway"],
                "until": until.isoformat(),
                "revoked": None,
                "issuer": x509_forms.common_name(certificate(ca).issuer),
                "state": state.partition(" ")[0],
            }
        ],
    )


def test_what_was_replaced_or_revoked_is_listed_where_all_is_asked_for(
    ca: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, until = serial(ca), certificate(ca).not_valid_after_utc
    assert keys("renew", "gw-a", "--days", "60", "--ca", ca)[:2] == (0, f"{ca / 'gw-a.pem'}\n")
    assert keys("issue", "gw-b", "--role", "collector", "--ca", ca)[0] == 0
    code, out, err = keys("revoke", "gw-b", "--ca", ca)
    gone = f"{certificate(ca, 'gw-b').serial_number:x}"
    assert (code, out) == (0, f"gw-b {gone}\n")
    assert err == f"{ca / 'revoked.pem'} is new; a running gateway reads it at SIGHUP\n"
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    monkeypatch.setattr(x509_forms, "now", lambda: until - datetime.timedelta(days=7))
    states = {
        first: ["gw-a", "gateway", "replaced, valid for 7 days"],
        serial(ca): ["gw-a", "gateway", "ends in 37 days"],
        gone: ["gw-b", "collector", f"revoked {today}"],
    }
    for words, shown in (([], list(states)[1:]), (["--all"], list(states))):
        _, *rows = keys("list", "--ca", ca, *words)[1].splitlines()
        cells = [re.split(" {2,}", row) for row in rows]
        assert [[row[0], row[1], row[4]] for row in cells] == [states[one] for one in shown]
        assert [row[2] for row in cells] == shown
    told = json.loads(keys("list", "--ca", ca, "--all", "--json")[1])
    assert [one["state"] for one in told] == ["replaced", "ends", "revoked"]


def test_those_that_end_soon_or_all_are_renewed_but_none_that_is_revoked(
    ca: Path, keys: Asks
) -> None:
    assert keys("issue", "gw-b", "gw-c", "--days", "90", "--ca", ca)[0] == 0
    assert keys("revoke", "gw-c", "--ca", ca)[0] == 0
    a, b = (f"{ca / name}.pem\n" for name in ("gw-a", "gw-b"))
    # A certificate of thirty days was made a moment ago, and ends within thirty-one.
    for within, renewed in ((29, ""), (31, a), (91, a + b)):
        words = ("--ending-within", within, "--days", "30" if within < 91 else "90")
        assert keys("renew", *words, "--ca", ca)[:2] == (0, renewed)
    assert keys("renew", "--all", "--ca", ca)[:2] == (0, a + b)
    assert keys("renew", "--ca", ca) == (
        exit_codes.WRONG_USE,
        "",
        "hedgerow: keys renew: neither a name nor --all nor --ending-within is given\n",
    )
    before = serial(ca)
    assert keys("renew", "gw-a", "gw-d", "--ca", ca) == (
        exit_codes.NO_CERTIFICATE,
        "",
        "hedgerow: keys: 'gw-d' has no certificate here: issue one\n",
    )
    assert serial(ca) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["renew", "gw-a=a b"], "gw-a: 'a b' is neither an address nor a host name"),
        (["issue"], "keys issue: no name is given"),
        (["issue", "gw-b", "gw-a"], "keys: gw-a has a certificate: `keys renew` makes a new one"),
        (["issue", "gw-b=a b"], "gw-b: 'a b' is neither an address nor a host name"),
        (["issue", "GW B"], "'GW B' is no gateway id: "),
        (["issue", "a/b", "--role", "guest"], "'a/b' can be no name of a certificate here"),
        (["issue", "gw-b", "--role", "a-"], "--role: 'a-' is not "),
        (["issue", "--psk", "meter"], "--psk: needs --file"),
        (["revoke", "--psk", "meter", "--file", "psk"], "keys: psk: no identity 'meter'"),
        (["export", "../gw-a", "--to", "s.p12", "--password-file", "password"],
         "keys: '../gw-a' is no name of a certificate"),
        (["export", "gw-a", "--to", "s.p12"],
         "keys: no password for the PKCS#12 file: --password-file"),
        (["export", "gw-x", "--to", "s.p12", "--password-file", "password"],
         "keys: authority/gw-x.key.pem: No such file or directory"),
        (["log", "--config", "none.toml"], "none.toml: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_anything_is_made(
    words: list[str], why: str, ca: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ca.parent)
    password(ca.parent)
    before = set(ca.iterdir())
    code, out, err = keys(*words, "--ca", "authority")
    assert (code, out) == (exit_codes.WRONG_USE, "")
    assert err.startswith(f"hedgerow: {why}")
    assert err.count("\n") == 1
    assert set(ca.iterdir()) == before


def test_a_missing_authority_is_told_with_what_makes_one(tmp_path: Path, keys: Asks) -> None:
    folder = tmp_path / "none"
    why = "no such folder: --ca says where the authority is, and `hedgerow keys init-ca` makes one"
    for words in (["list"], ["log"], ["renew", "--all"], ["export", "--trust", "--to", "x"]):
        said = (exit_codes.WRONG_USE, "", f"hedgerow: keys: {folder}: {why}\n")
        assert keys(*words, "--ca", folder) == said


def test_the_key_of_another_certificate_goes_into_no_store(
    ca: Path, tmp_path: Path, keys: Asks
) -> None:
    words = ("export", "gw-a", "--ca", ca, "--password-file", password(tmp_path), "--to")
    to = tmp_path / "gw-a.p12"
    assert keys(*words, to) == (0, f"{to}\n", "")
    assert to.stat().st_mode & 0o777 == 0o600
    content = pkcs12_files.unpack(to.read_bytes(), PASSWORD.encode())
    assert content.certificate == certificate(ca)
    key, other = ca / "gw-a.key.pem", tmp_path / "other.p12"
    for data, why in (
        (private_keys.as_pem(private_keys.make("p256")), f"{key}: not the key of {ca}/gw-a.pem"),
        (b"none", "no private key in PEM"),
    ):
        key.write_bytes(data)
        assert keys(*words, other) == (exit_codes.WRONG_USE, "", f"hedgerow: keys: {why}\n")
        assert not other.exists()


def test_an_authority_is_taken_over_from_its_key_and_its_own_certificate_alone(
    ca: Path, tmp_path: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = private_keys.load((ca / "ca.key.pem").read_bytes())
    root = x509.load_pem_x509_certificate((ca / "ca.pem").read_bytes())
    (leaf_key,) = private_keys.load((ca / "gw-a.key.pem").read_bytes())
    source, to = tmp_path / "ca.p12", tmp_path / "taken"
    words = ("init-ca", "--from", source, "--ca", to)
    for content, why in (
        (KeystoreContent(None, None, [root]), "a trust store, without a key"),
        (KeystoreContent(leaf_key, certificate(ca), []), "no authority's certificate"),
    ):
        monkeypatch.setattr(certifying, "unpacked", lambda *_, content=content: content)
        said = (exit_codes.WRONG_USE, "", f"hedgerow: keys: {source}: {why}\n")
        assert keys(*words) == said
        assert not to.exists()
    monkeypatch.setattr(certifying, "unpacked", lambda *_: KeystoreContent(key, root, []))
    assert keys(*words) == (0, f"{to / 'ca.pem'}\n", "")
    assert (to / "ca.pem").read_bytes() == (ca / "ca.pem").read_bytes()
    assert keys("issue", "gw-b", "--ca", to)[0] == 0


def test_a_pre_shared_key_is_shown_once_and_taken_out_again(tmp_path: Path, keys: Asks) -> None:
    file = tmp_path / "psk"
    code, out, err = keys("issue", "--psk", "meter", "--file", file)
    assert re.fullmatch(r"meter:[0-9a-f]{64}\n", out)
    assert (code, err) == (0, "not shown again; a running gateway reads the file at SIGHUP\n")
    assert file.read_text() == out
    code, out, _ = keys("issue", "--psk", "lamp", "--file", file, "--qr")
    line, _, code_lines = out.partition("\n")
    assert (code, code_lines) == (0, qr.code(line))
    assert line.startswith("lamp:")
    taken = "meter taken out; a running gateway reads the file at SIGHUP\n"
    assert keys("revoke", "--psk", "meter", "--file", file) == (0, "", taken)
    assert file.read_text() == f"{line}\n"


def test_the_audit_trail_is_told_to_people_and_to_scripts(ca: Path, keys: Asks) -> None:
    code, out, _ = keys("log", "--ca", ca, "--json")
    told = json.loads(out)
    assert code == 0
    assert [one["what"] for one in told][-1:] == ["certificate issued"]
    code, out, _ = keys("log", "--ca", ca)
    lines = out.splitlines()
    assert (code, len(lines)) == (0, len(told))
    for line, one in zip(lines, told, strict=True):
        assert f"  {one['who']}  {one['what']}" in line


def test_a_renewal_keeps_the_addresses_unless_others_are_named(ca: Path, keys: Asks) -> None:
    def named() -> bool:
        found = certificate(ca).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        addresses = map(str, found.value.get_values_for_type(x509.IPAddress))
        return {"10.0.0.1": True, "10.0.0.9": False}[
            next(one for one in addresses if one.startswith("10."))
        ]

    assert keys("renew", "gw-a", "--ca", ca)[0] == 0
    assert named()
    assert keys("renew", "gw-a=10.0.0.9", "--ca", ca)[0] == 0
    assert not named()


def test_all_of_a_name_but_its_last_certificate_are_taken_back_where_that_is_asked_for(
    ca: Path, keys: Asks
) -> None:
    first = serial(ca)
    assert keys("renew", "gw-a", "--ca", ca)[0] == 0
    assert keys("revoke", "gw-a", "--keep-last", "--ca", ca)[:2] == (0, f"gw-a {first}\n")
    assert keys("revoke", "gw-a", "--ca", ca)[:2] == (0, f"gw-a {serial(ca)}\n")
    assert keys("revoke", "--ca", ca)[:2] == (0, "")


def test_a_roll_over_says_which_authority_issues_and_in_the_end_which_is_trusted_alone(
    ca: Path, keys: Asks
) -> None:
    code, out, _ = keys("roll-over", "--ca", ca)
    roots = [
        x509_forms.common_name(one.subject)
        for one in x509.load_pem_x509_certificates((ca / "ca.pem").read_bytes())
    ]
    assert len(roots) == 2
    name, _, what = out.partition(" issues ")
    assert (code, name in roots) == (0, True)
    assert what == "from now on: give ca.pem and revoked.pem to all gateways, then renew all\n"
    assert keys("roll-over", "--finish", "--ca", ca)[0] == exit_codes.WRONG_USE
    code, out, _ = keys("roll-over", "--finish", "--force", "--ca", ca)
    told = f"{name} is trusted alone: give ca.pem and revoked.pem to all gateways\n"
    assert (code, out) == (0, told)


@pytest.mark.parametrize(("user", "folder"), [(0, "system"), (1000, "home/.config/hedgerow")])
def test_an_authority_stands_beside_the_configuration_unless_it_is_named(
    user: int, folder: str, tmp_path: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(place, "SYSTEM", tmp_path / "system/hedgerow.toml")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    code, out, err = keys("list")
    assert (code, out) == (exit_codes.WRONG_USE, "")
    assert err.startswith(f"hedgerow: keys: {tmp_path / folder}/authority: no such folder: ")


# -- tokens ----------------------------------------------------------------------------------------


def token(ca: Path, *words: object) -> list[object]:
    return ["token", "gw-b=10.0.0.2", "--ca", ca, "--service", "192.0.2.1:8890", *words]


def test_a_token_is_shown_once_with_how_long_it_is_good(
    ca: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = keys(*token(ca))
    assert (code, err) == (0, "not shown again; good once, for 24 hours\n")
    made = EnrolmentToken.parse(out)
    assert (made.name, made.service) == ("gw-b", "192.0.2.1:8890")
    monkeypatch.setattr(enrolling, "time", TokenTime())
    code, out, err = keys(*token(ca, "--hours", "2", "--json"))
    told = json.loads(out)
    assert (code, err, list(told)) == (0, "", ["token", "name", "until_s"])
    assert (told["name"], told["until_s"]) == ("gw-b", TokenTime.NOW_S + 7_200)
    code, out, err = keys(*token(ca, "--hours", "1", "--qr"))
    line, _, code_lines = out.partition("\n")
    assert (code, code_lines) == (0, qr.code(line))
    assert err == "not shown again; good once, for 1 hours\n"
    assert keys(*token(ca, "--take-back")) == (0, "", "")
    why = "hedgerow: keys: 'gw-b' has no token that could be used\n"
    assert keys(*token(ca, "--take-back")) == (exit_codes.WRONG_USE, "", why)


class TokenTime:
    """Stands at the time of a test."""

    NOW_S = 4_000_000_000

    @staticmethod
    def time() -> float:
        return float(TokenTime.NOW_S)


@pytest.mark.parametrize(
    ("service", "why"),
    [
        ([], "keys token: --service: where does `hedgerow keys serve` listen?"),
        (["--service", "192.0.2.1"], "--service: "),
        (["--service", "192.0.2.1:65536"], "--service: "),
    ],
)
def test_a_token_says_where_its_service_is(
    service: list[str], why: str, ca: Path, keys: Asks
) -> None:
    code, out, err = keys("token", "gw-b", "--ca", ca, *service)
    assert (code, out) == (exit_codes.WRONG_USE, "")
    assert err.startswith(f"hedgerow: {why}")


@pytest.mark.parametrize(
    ("days", "refused"), [("1", False), ("36500", False), ("0", True), ("36501", True), ("x", True)]
)
def test_days_are_one_to_those_of_a_hundred_years(
    days: str, refused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if refused:
        with pytest.raises(SystemExit):
            parser().parse_args(["keys", "issue", "--days", days])
        assert f"{days!r} is not 1 to 36500 days" in capsys.readouterr().err
    else:
        assert parser().parse_args(["keys", "issue", "--days", days]).days == int(days)


@pytest.mark.parametrize("listen", ["", "8890", ":8890", "127.0.0.1:", "gw:x", "gw:65536"])
def test_where_the_service_listens_is_a_host_and_a_port(listen: str, ca: Path, keys: Asks) -> None:
    why = f"hedgerow: --listen: {listen!r} is not HOST:PORT\n"
    assert keys("serve", f"--listen={listen}", "--ca", ca) == (exit_codes.WRONG_USE, "", why)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_the_service_goes_on_until_it_is_ended_and_then_stops(
    end: signal.Signals, ca: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[object]()

    class EndedService(EnrolmentService):
        """Is ended as soon as it listens."""

        async def start(self, host: str, port: int) -> int:
            done.append((host, port))
            os.kill(os.getpid(), end)
            return 8_890

        async def stop(self) -> None:
            done.append("stopped")

    monkeypatch.setattr(event_lines, "begin", done.append)
    monkeypatch.setattr(enrolling, "EnrolmentService", EndedService)
    assert keys("serve", "--listen", "[::1]:65535", "--ca", ca) == (
        exit_codes.DONE,
        "enrolment at [::1]:8890\n",
        "",
    )
    assert done == [logging.INFO, ("::1", 65_535), "stopped"]


def test_a_port_that_is_taken_ends_the_service_with_a_remedy(
    ca: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = list[int]()
    monkeypatch.setattr(event_lines, "begin", levels.append)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = keys("serve", "--listen", at, "--ca", ca)
    assert (code, out) == (exit_codes.FAILED, "")
    said = f"hedgerow: --listen: {at}: Address already in use; another program "
    assert (err.startswith(said), levels) == (True, [logging.INFO])


def test_a_token_is_read_from_standard_input_for_a_dash(
    tmp_path: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[EnrolmentToken]()

    def spent(read: EnrolmentToken, *_: object) -> EnrolmentAnswer:
        given.append(read)
        return EnrolmentAnswer("authorities\n", "revoked\n", "certificate\n")

    monkeypatch.setattr(enrolling, "enrolled", spent)
    for stdin, why in (
        (None, "no token: standard input is closed"),
        (io.TextIOWrapper(io.BytesIO(TOKEN.encode("utf-16"))), "no token: standard input "),
        (io.TextIOWrapper(io.BytesIO(b"none\n")), "no token: it begins with hedgerow-enrol://"),
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        code, _, err = keys("enrol", "-", "--to", tmp_path / "gw")
        assert code == exit_codes.WRONG_USE
        assert err.startswith(f"hedgerow: keys enrol: {why}")
        assert not (tmp_path / "gw").exists()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{TOKEN}\nmore".encode())))
    files = [tmp_path / "gw" / name for name in ("ca.pem", "revoked.pem", "gateway.pem")]
    code, out, err = keys("enrol", "-", "--to", tmp_path / "gw")
    assert (code, out) == (0, "".join(f"{file}\n" for file in files))
    assert err == (
        "configuration, tree key, users and policy are the fleet's: copy them from another "
        "gateway; `hedgerow join`, with a token of `hedgerow keys token --fleet`, gets them too\n"
    )
    assert given == [EnrolmentToken.parse(TOKEN)]
    texts = [file.read_text() for file in files]
    assert texts == ["authorities\n", "revoked\n", "certificate\n"]


def test_an_attempt_whose_answer_was_not_heard_goes_on_with_its_key(
    tmp_path: Path, keys: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[Any]()

    def unheard(_given: object, key: private_keys.PrivateKey, _command: str) -> EnrolmentAnswer:
        shown.append(key.public_key())
        if len(shown) == 1:
            raise OSError(5, "Input/output error")
        return EnrolmentAnswer("a", "r", "c")

    monkeypatch.setattr(enrolling, "enrolled", unheard)
    words = ("enrol", TOKEN, "--to", tmp_path)
    assert keys(*words)[0] == exit_codes.WRONG_USE
    assert (tmp_path / "gateway.key.pem").stat().st_mode & 0o777 == 0o600
    assert keys(*words)[0] == 0
    assert private_keys.same_key(*shown)
    why = f"hedgerow: keys: {tmp_path / 'gateway.pem'} is there already, and stays as it is\n"
    assert keys(*words) == (exit_codes.WRONG_USE, "", why)
    assert len(shown) == 2


def test_a_request_its_key_and_what_is_imported_are_on_the_disk_before_they_are_told(
    ca: Path, keys: Asks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, written = tmp_path / "own", list[tuple[str, bool, int]]()
    folder.mkdir()
    replace = replaced_file.replace

    def note(path: Path, data: bytes, *, is_durable: bool, mode: int) -> None:
        written.append((path.name, is_durable, mode))
        replace(path, data, is_durable=is_durable, mode=mode)

    monkeypatch.setattr(replaced_file, "replace", note)
    assert keys("request", "--to", folder, "gw-z=10.0.0.1")[:2] == (
        0,
        f"{folder}/gw-z.key.pem\n{folder}/gw-z.csr.pem\n",
    )
    assert written == [("gw-z.key.pem", True, 0o600), ("gw-z.csr.pem", True, 0o644)]
    code, told, complained = keys("request", "--to", folder, "gw-z=10.0.0.1")
    assert (code, told) == (2, "")
    assert complained.endswith(f"keys request: {folder}/gw-z.key.pem is there: it may be in use\n")
    written.clear()
    assert keys("import", ca / "ca.pem", "--to", folder)[:2] == (0, f"{folder}/ca.pem\n")
    assert written == [("ca.pem", True, 0o644)]
