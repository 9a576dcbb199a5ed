"""The page's side of a gateway's key stores and trust stores: row by row, upload, request, renew.

Private keys come in and never go out. A stranger's file is opened in a process of its own, whose
work is bounded (`unpacking`), and looked at as a reload would before anything is written.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cryptography import x509

from gateway.base.printable import printable
from gateway.base.replaced_file import OvertakenError
from gateway.base.toml.toml_file import ConfigError
from gateway.process.access.serving_files import serving_files
from gateway.process.access.whole_change import WholeChanges
from gateway.process.config_trials.change_on_trial import Find
from gateway.process.configuration.config import GatewaySettings
from gateway.process.console.pages import Page
from gateway.process.page import key_files, writable_files
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.process.page.key_files import KeyFiles, KeyPlace, PlannedFile, UnfitUploadError
from gateway.trust.certificates import names, private_keys, unpacking
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.holdings import held
from gateway.trust.certificates.importing import ImportedContent, imported, is_authority
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.certificates.private_keys import PrivateKeyError
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.web.api_error import ApiError

if TYPE_CHECKING:
    from gateway.trust.enrolment.following import TrustNews

OPENING_BYTES: Final = 160 << 20
"""For the process that opens an upload: less than a gateway on a small Pi can spare."""
ADDRESSES_MAX: Final = 32
_WHAT: Final = "keys"
_REQUEST: Final = "requested.csr.pem"

_log = logging.getLogger(__name__)

T = TypeVar("T")


class KeysApi:
    """Answers.

    Args:
        settings: of the gateway.
        administration: says who may.
        find: finds the gateway that is told, which is this process.

    """

    def __init__(
        self, settings: GatewaySettings, administration: Administration, find: Find
    ) -> None:
        self._settings = settings
        self._administration = administration
        self._find = find
        self._files = KeyFiles(settings)
        self._working = asyncio.Lock()
        self._changes = WholeChanges()

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "keys": self.keys,
            "check_keys": self.check,
            "import_keys": self.bring_in,
            "make_key_request": self.make_request,
            "key_request": self.request,
            "forget_key_request": self.forget_request,
            "renew_certificate": self.renew,
        }

    # -- what there is -----------------------------------------------------------------------------

    async def keys(self, asked: ApiRequest) -> Any:
        """Tell what each file holds, when it ends, and what can be done here."""
        self._administration.check(asked.visitor, _WHAT)
        return await self._looked(asked, self._told)

    def _told(self) -> dict[str, Any]:
        now = forms.now()
        return {
            "items": [one.as_json(now) for one in held(serving_files(self._settings))],
            "places": [self._place(name, part) for name, part in self._named()],
            "request": self._waiting_request(),
            "service": self._settings.keys.service,
            "has_password": self._has_password(),
            "why_not_request": self._why_no_request(),
        }

    def _named(self) -> Iterator[tuple[str, str]]:
        for section in key_files.SECTIONS:
            for part in key_files.PARTS:
                with contextlib.suppress(UnfitUploadError):
                    self._files.paths(KeyPlace(section, part))
                    yield section, part

    def _place(self, section: str, part: str) -> dict[str, Any]:
        paths = self._files.paths(KeyPlace(section, part))
        folder = shlex.quote(str(paths[0].parent))
        return {
            "section": section,
            "part": part,
            "files": list(dict.fromkeys(map(str, paths))),
            "why_not": writable_files.why_not(paths),
            "command": f"sudo hedgerow keys import FILE --to {folder}",
        }

    def _waiting_request(self) -> dict[str, Any] | None:
        with contextlib.suppress(UnfitUploadError, OSError, ValueError):
            file = self._files.waiting().with_name(_REQUEST)
            found = x509.load_pem_x509_csr(file.read_bytes())
            return {"name": forms.common_name(found.subject), "made_s": file.stat().st_mtime}
        return None

    def _has_password(self) -> bool:
        with contextlib.suppress(Pkcs12Error):
            return self._files.has_password()
        return False

    def _why_no_request(self) -> str:
        try:
            return writable_files.why_not([self._files.waiting()])
        except UnfitUploadError as error:
            return str(error)

    # -- upload ------------------------------------------------------------------------------------

    async def check(self, asked: ApiRequest) -> Any:
        """Open an upload, say what it holds and what it would replace, and write nothing."""
        place = self._asked_place(asked)

        def work() -> dict[str, Any]:
            content, planned = self._planned(place, asked.body)
            return {**_described(content), "writes": _paths(planned)}

        return await self._looked(asked, work)

    async def bring_in(self, asked: ApiRequest) -> Any:
        """Have an upload in the place of what is there, and the gateway go by it."""
        place = self._asked_place(asked)

        def plan() -> tuple[ImportedContent, list[PlannedFile]]:
            content, planned = self._planned(place, asked.body)
            _check_writable([one.path for one in planned])
            return content, planned

        (content, planned), is_told = await self._changed(asked, plan, self._write)
        told = {**_described(content), "writes": _paths(planned)}
        names_of = [one["name"] for one in (*told["certificates"], *told["authorities"])]
        where = f"{place.section}, {place.part}"
        _log.info("brought in over the page for %s: %s", where, printable(", ".join(names_of)))
        return {**told, "is_told": is_told}

    def _planned(
        self, place: KeyPlace, body: Mapping[str, Any]
    ) -> tuple[ImportedContent, list[PlannedFile]]:
        data, password = _upload(body["data"]), body.get("password", "")
        held = self._files.held(place)
        opened = unpacking.unpacked(data, password.encode() or None, OPENING_BYTES)
        if place.part == key_files.AUTHORITIES:
            found = [one for one in opened.roots or opened.authorities if is_authority(one)]
            before = self._files.trusted(place) if body.get("add") and found else []
            authorities = [*before, *(one for one in found if one not in before)]
            content = ImportedContent(None, (), authorities)
        else:
            content = imported(opened, self._waiting_keys(), forms.now())
            _check_begun(content.chain[:1])
        planned = self._files.planned(place, content, held)
        self._files.check(planned)
        return content, planned

    def _write(self, plan: tuple[ImportedContent, Sequence[PlannedFile]]) -> None:
        content, planned = plan
        self._files.write(planned)
        if content.key is not None:
            self._end_request(content.key)

    def _waiting_keys(self) -> list[PrivateKey]:
        try:
            return private_keys.load(self._files.waiting().read_bytes())
        except (UnfitUploadError, PrivateKeyError, OSError):
            return []

    def _asked_place(self, asked: ApiRequest) -> KeyPlace:
        self._administration.check(asked.visitor, _WHAT)
        for name, known in (("section", key_files.SECTIONS), ("part", key_files.PARTS)):
            if asked.body[name] not in known:
                raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: is none of {', '.join(known)}")
        return KeyPlace(asked.body["section"], asked.body["part"])

    # -- request and renewal -----------------------------------------------------------------------

    async def make_request(self, asked: ApiRequest) -> Any:
        """Make a key that waits here, and a request for its certificate."""
        self._administration.check(asked.visitor, _WHAT)
        addresses = asked.body.get("addresses", [])
        if len(addresses) > ADDRESSES_MAX or not all(
            isinstance(one, str) and names.is_reachable(one) for one in addresses
        ):
            raise ApiError(HTTPStatus.BAD_REQUEST, "addresses: one is no address or host name")
        planned = await self._written(asked, lambda: self._made(addresses), self._files.write)
        return {"name": self._settings.gateway.id, "request": planned[-1].data.decode()}

    def _made(self, addresses: Sequence[str]) -> list[PlannedFile]:
        """Return the files of a request, the key first: a request without its key is of no use."""
        key_file = self._files.waiting()
        if key_file.exists():
            why = "a key waits for its certificate: bring that in, or forget the request"
            raise ApiError(HTTPStatus.CONFLICT, why)
        _check_writable([key_file])
        request_file = key_file.with_name(_REQUEST)
        before = key_files.old(request_file)
        name, key = self._settings.gateway.id, private_keys.make("p256")
        alternative = forms.alternative_names(name, ("gateway",), addresses)
        asked, clear = forms.request(key, name, alternative), private_keys.as_pem(key)
        return [
            PlannedFile(key_file, clear, clear, key_files.SECRET, b""),
            PlannedFile(request_file, asked, asked, key_files.OPEN, before),
        ]

    async def request(self, asked: ApiRequest) -> Any:
        """Hand the request out, for an authority."""
        self._administration.check(asked.visitor, _WHAT)
        data = await self._looked(asked, self._read_request)
        name = f"{self._settings.gateway.id}.csr.pem"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Page("application/pkcs10", data, headers=headers)

    def _read_request(self) -> bytes:
        file = self._files.waiting().with_name(_REQUEST)
        if not file.exists():
            raise ApiError(HTTPStatus.NOT_FOUND, "no request is open")
        return file.read_bytes()

    async def forget_request(self, asked: ApiRequest) -> Any:
        """Remove the key that waits, and its request."""
        self._administration.check(asked.visitor, _WHAT)
        await self._written(asked, self._files.waiting, _forget)
        return {}

    def _end_request(self, key: PrivateKey) -> None:
        waiting = self._waiting_keys()
        if any(private_keys.same_key(one.public_key(), key.public_key()) for one in waiting):
            _forget(self._files.waiting())

    async def renew(self, asked: ApiRequest) -> Any:
        """Ask the enrolment service for a new certificate now, and for whom the fleet trusts."""
        self._administration.check(asked.visitor, _WHAT)
        # A client of HTTP is loaded for who asks a service alone.
        from gateway.process.access.enrolment_follower import follower  # noqa: PLC0415
        from gateway.trust.enrolment.client import ServiceError  # noqa: PLC0415

        found = follower(self._settings, lambda: None)
        if found is None:
            why = "keys.service: the configuration names none; bring a certificate in instead"
            raise ApiError(HTTPStatus.CONFLICT, why)

        written: list[str] = []

        def ask() -> TrustNews:
            try:
                return found.ask(renews=True)
            except ServiceError as error:
                raise ApiError(HTTPStatus.BAD_GATEWAY, str(error)) from error

        def write(news: TrustNews) -> None:
            try:
                written.extend(found.write(news))
            except ServiceError as error:
                raise ApiError(HTTPStatus.BAD_GATEWAY, str(error)) from error
            if news.files and not written:
                raise OvertakenError(news.files[-1][0])

        _, is_told = await self._changed(asked, ask, write)
        return {"writes": written, "is_told": is_told}

    def _reload(self) -> bool:
        running = self._find(self._settings.gateway.state_dir)
        if running is not None:
            running.reload()
        return running is not None

    # -- one at a time -----------------------------------------------------------------------------

    async def _looked(self, asked: ApiRequest, work: Callable[[], T]) -> T:
        """Have a thread look at files and keys, for who may see them then, too.

        Who goes meanwhile leaves it at work: no other look begins beside it.

        Raises:
            ApiError: it can't be done, or the visitor may see nothing of it any more.

        """
        return await self._changes.carry_out(self._in_turn(asked, work, None))

    async def _changed(
        self, asked: ApiRequest, plan: Callable[[], T], write: Callable[[T], None]
    ) -> tuple[T, bool]:
        """Have files written, and the gateway go by them; return whether it was told."""

        async def change() -> tuple[T, bool]:
            planned = await self._in_turn(asked, plan, write)
            return planned, self._reload()

        return await self._changes.carry_out(change())

    async def _written(
        self, asked: ApiRequest, plan: Callable[[], T], write: Callable[[T], None]
    ) -> T:
        """Have files written that the gateway does not go by yet."""
        return await self._changes.carry_out(self._in_turn(asked, plan, write))

    async def _in_turn(
        self, asked: ApiRequest, plan: Callable[[], T], write: Callable[[T], None] | None
    ) -> T:
        """Have a thread plan a change, and another one write it if its visitor still may.

        Raises:
            ApiError: it can't be done, or the visitor may do it no more.

        """
        async with self._alone():
            planned = await asyncio.to_thread(plan)
            # To open an upload, or to ask a service, may have taken ten seconds.
            self._administration.check_again(asked, _WHAT)
            if write is not None:
                await asyncio.to_thread(write, planned)
        return planned

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let nobody else work at files and keys meanwhile.

        Raises:
            ApiError: somebody does, or what is done within fails.

        """
        if self._working.locked():
            why = "another upload or request is worked at; try again in a moment"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why)
        async with self._working:
            try:
                yield
            except OvertakenError as error:
                raise ApiError(
                    HTTPStatus.CONFLICT, f"{error.filename}: {error.strerror}"
                ) from error
            except (Pkcs12Error, UnfitUploadError) as error:
                raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
            except (ConfigError, TlsFileError) as error:
                why = f"the gateway would not take it: {error}"
                raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, why) from error
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                why = f"{where}{error.strerror or error}"
                raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, why) from error


def _check_writable(files: Sequence[Path]) -> None:
    if why_not := writable_files.why_not(files):
        raise ApiError(HTTPStatus.CONFLICT, why_not)


def _forget(key_file: Path) -> None:
    for path in (key_file.with_name(_REQUEST), key_file):
        path.unlink(missing_ok=True)


def _check_begun(own: Sequence[x509.Certificate]) -> None:
    for one in own:
        if one.not_valid_before_utc > forms.now():
            begins = f"{one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            why = f"its certificate begins {begins}: is this machine's clock right?"
            raise UnfitUploadError(why)


def _paths(planned: Sequence[PlannedFile]) -> list[str]:
    return list(dict.fromkeys(str(one.path) for one in planned))


def _upload(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "data: is not base64") from error


def _described(content: ImportedContent) -> dict[str, Any]:
    return {
        "has_key": content.key is not None,
        "certificates": [_certificate(one) for one in content.chain],
        "authorities": [_certificate(one) for one in content.authorities],
    }


def _certificate(found: x509.Certificate) -> dict[str, Any]:
    return {
        "name": forms.common_name(found.subject)[:120],
        "ends": found.not_valid_after_utc.isoformat(),
        "serial": f"{found.serial_number:x}",
    }
