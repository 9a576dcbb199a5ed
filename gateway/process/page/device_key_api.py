"""Keys of devices: who has one, made and revoked, and a new one as a QR code, this once.

They decide who comes to the gateway. So who may see and change them has the right ``membership``
and the path of the console ``/page/device-keys``. Nobody makes itself more than it is: who has not
all rights, as an admin does, gives and takes keys of identities alone whose roles it has itself.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from dtls.errors import KeystoreError
from gateway.base.in_turns import in_turns
from gateway.process.access.device_keys import DeviceKeyError, KnownDevice, NoDeviceKeyError
from gateway.process.page.administration import GivenRoles
from gateway.process.page.api_request import DONE, ApiRequest, Handlers
from gateway.trust.policy.action import CONSOLE, MEMBERSHIP, Action
from gateway.trust.policy.explaining import Policies
from gateway.trust.policy.principal import PSK, Principal
from gateway.web.api_error import ApiError

PATH: Final = "/page/device-keys"
"""In a policy: ``console /page/device-keys``."""
_QUIET_ZONE: Final = 4
"""Modules around the code (ISO/IEC 18004, section 6.3.8)."""


class DeviceKeyDesk(Protocol):
    """Keys of devices (`gateway.process.running.device_keys_in_use.DeviceKeysInUse`)."""

    uri: str

    def known(self) -> Sequence[KnownDevice]:
        """Return who has a key that counts."""

    async def make(self, identity: str, check: Callable[[], None]) -> bytes:
        """Return a new key for a device that has none; nobody is told it again."""

    async def revoke(self, identity: str, check: Callable[[], None]) -> None:
        """Let nobody in by an identity's key any more."""


class DeviceKeyApi:
    """Answers.

    Args:
        desk: makes and revokes keys.
        policies: decide; asked each time.

    """

    def __init__(self, desk: DeviceKeyDesk, policies: Callable[[], Policies]) -> None:
        self._desk = desk
        self._policies = policies

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "device_keys": self.known,
            "make_device_key": self.make,
            "revoke_device_key": self.revoke,
        }

    def may(self, visitor: Principal) -> bool:
        """Return whether a visitor may see and change them."""
        policy = self._policies().others
        return all(
            policy.may(visitor, action)
            for action in (
                Action(MEMBERSHIP, "", policy.here),
                Action(CONSOLE, PATH, policy.here),
            )
        )

    def _check(self, visitor: Principal) -> None:
        if not self.may(visitor):
            why = f"to see and change keys of devices takes the right membership and console {PATH}"
            raise ApiError(HTTPStatus.FORBIDDEN, why)

    def _check_roles(self, visitor: Principal, identity: str) -> None:
        """Refuse to give or take what the visitor has not itself."""
        policy = self._policies().others
        if more := GivenRoles(policy, visitor).beyond(self._roles(identity)):
            why = f"identity: {identity!r} is {', '.join(sorted(more))}, and {visitor} is not"
            raise ApiError(HTTPStatus.FORBIDDEN, why)

    def _check_again(self, asked: ApiRequest, identity: str) -> None:
        asked.check_still_in()
        self._check(asked.visitor)
        if identity:
            self._check_roles(asked.visitor, identity)

    def _roles(self, identity: str) -> frozenset[str]:
        policy = self._policies().others
        return policy.all_roles(policy.principal(PSK, identity).roles)

    async def known(self, asked: ApiRequest) -> Any:
        """List who has a key."""
        self._check(asked.visitor)
        told = list[dict[str, Any]]()
        async for one in in_turns(self._desk.known()):
            roles = sorted(self._roles(one.identity))
            told.append({"identity": one.identity, "is_made": one.is_made, "roles": roles})
        return {"uri": self._desk.uri, "devices": told}

    async def make(self, asked: ApiRequest) -> Any:
        """Make a key, and tell it this once."""
        identity = asked.body["identity"]
        self._check(asked.visitor)
        if identity:
            self._check_roles(asked.visitor, identity)
        try:
            key = await self._desk.make(identity, partial(self._check_again, asked, identity))
        except KeystoreError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"identity: {error.what}") from error
        except DeviceKeyError as error:
            raise ApiError(HTTPStatus.CONFLICT, f"identity: {error}") from error
        except OSError as error:
            raise _unkept(error) from error
        place = urlsplit(self._desk.uri)
        told = {
            "host": place.hostname,
            "port": place.port,
            "identity": identity,
            "key": key.hex(),
        }
        text = json.dumps(told, separators=(",", ":"))
        return {**told, "text": text, "svg": await asyncio.to_thread(_drawn, text)}

    async def revoke(self, asked: ApiRequest) -> Any:
        """Revoke the key of an identity."""
        identity = asked.names["identity"]
        self._check(asked.visitor)
        self._check_roles(asked.visitor, identity)
        try:
            await self._desk.revoke(identity, partial(self._check_again, asked, identity))
        except NoDeviceKeyError as error:
            raise ApiError(HTTPStatus.NOT_FOUND, f"identity: {error}") from error
        except DeviceKeyError as error:
            raise ApiError(HTTPStatus.CONFLICT, f"identity: {error}") from error
        except OSError as error:
            raise _unkept(error) from error
        return DONE


def _unkept(error: OSError) -> ApiError:
    why = f"gateway.state_dir: it can't be kept: {error.strerror or error}"
    return ApiError(HTTPStatus.INSUFFICIENT_STORAGE, why)


def _drawn(text: str) -> str:
    """Return a QR code as SVG, black on white whatever the page's theme is."""
    import segno  # noqa: PLC0415  # only where a code is shown

    drawing = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        drawing,
        kind="svg",
        border=_QUIET_ZONE,
        dark="#000",
        light="#fff",
        omitsize=True,
        xmldecl=False,
        nl=False,
    )
    return drawing.getvalue().decode()
