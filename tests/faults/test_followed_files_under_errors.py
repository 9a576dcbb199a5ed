"""Files that follow an authority, of whose calls each fails: they are whole, and all is read."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from failing_calls import OF_THE_DISK, Draw, FailingCalls, Fault
from fleet_gateway import until

from gateway.trust.certificates import authority_folder, founding, private_keys
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.enrolment import following, requests
from gateway.trust.enrolment.desk import Asker, EnrolmentDesk
from gateway.trust.enrolment.following import FollowedFiles, TrustFollower
from gateway.trust.enrolment.requests import EnrolmentAnswer

OPEN = io.open
"""As it is before calls fail."""


async def _at_once(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Work that a thread would do, so that the order of calls is always the same."""
    return work(*arguments, **named)


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

    def trust(self) -> EnrolmentAnswer:
        return self._desk.answer("GET", requests.TRUST, b"", Asker("192.0.2.1"))

    def renew(self, name: str, key: PrivateKey) -> EnrolmentAnswer:
        body = requests.json.dumps({"request": requests.asked(key, name)}).encode()
        first = next(one for one in self._authority.issued() if one.name == name)
        shown = first.certificate.public_bytes(Encoding.DER)
        return self._desk.answer("POST", requests.RENEW, body, Asker("192.0.2.1", shown))

    def read(self) -> None:
        self.gone_by = self.files()

    def is_whole(self) -> bool:
        """Return whether the files that it has now would be read."""
        files = self.files()
        own = x509.load_pem_x509_certificate(files["gw.pem"])
        (key, *_) = private_keys.load(files["gw.key.pem"])
        subjects = {one.subject for one in x509.load_pem_x509_certificates(files["ca.pem"])}
        return authority_folder.is_of(key, own) and own.issuer in subjects

    def is_current(self) -> bool:
        """Return whether it goes by all that is new."""
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
