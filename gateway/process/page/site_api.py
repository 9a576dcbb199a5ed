"""API for resources: status, tree, clients, actuators, devices and alerts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.base import wall_clock
from gateway.base.in_turns import in_turns, others_first
from gateway.process.page.api_request import DONE, ApiRequest, Handlers
from gateway.process.page.site_asker import JSON, TEXT, SiteAsker, SiteQuestion
from gateway.web.api_error import ApiError
from resource_directory.errors import NoSuchRegistrationError, NotOwnerError
from resource_directory.link_format import LinkFormatError, WebLink, links_in

if TYPE_CHECKING:
    from gateway.coap_client import Response
    from gateway.trust.policy.principal import Principal

PAGE_LINKS: Final = 100
LOOK_S: Final = 5.0
"""The machine, and the tree for one visitor, are looked at again after so long."""
TREES_MAX: Final = 16
_OPTION_CHARACTERS: Final = 60
"""Of an identifier that an option holds, whatever characters they are."""


class SiteApi:
    """Answers by what resources answer.

    Args:
        asker: asks them.
        state_dir: the gateway's, on the disk that is looked at.
        take_out: takes a registration out, whoever made it; see `GatewaySite.take_out`.

    """

    def __init__(
        self,
        asker: SiteAsker,
        state_dir: Path,
        take_out: Callable[[str], None],
    ) -> None:
        self._take_out = take_out
        self._asker = asker
        self._state_dir = state_dir
        self._machine: tuple[float, dict[str, Any]] | None = None
        self._trees: dict[str, tuple[float, dict[str, Any]]] = {}

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "overview": self.overview,
            "status": self.status,
            "tree": self.tree,
            "members": self.members,
            "forget_member": self.forget_member,
            "clients": self.clients,
            "client": self.client,
            "disconnect": self.disconnect,
            "set_sensor": self.set_sensor,
            "endpoints": self.endpoints,
            "resources": self.resources,
            "remove_registration": self.remove_registration,
            "alerts": self.alerts,
            "order": self.order,
        }

    # -- how it is -------------------------------------------------------------------------------

    async def overview(self, asked: ApiRequest) -> Any:
        """Tell how it is, and what to do next, as `hedgerow doctor` does."""
        from gateway.process.status.doctor import DoctorObservations, findings  # noqa: PLC0415  # for who looks

        status = json.loads(await self._asker.good(asked, SiteQuestion("GET", ("status",))))
        machine = await self._looked()
        await others_first()
        bits, is_weak = machine["firmware_bits"], machine["under_voltage"]
        found = findings(
            DoctorObservations(
                status=status,
                clock_is_set=machine["clock_is_set"],
                free_bytes=machine["disk_free_bytes"],
                throttled=int(is_weak) if bits is None and is_weak is not None else bits,
                temperature_c=machine["temperature_cel"],
            )
        )
        told = [
            {"weight": str(one.weight), "about": one.about, "what": one.what, "advice": one.advice}
            for one in found
        ]
        return {
            "now_ms": wall_clock.now_ms(),
            "status": status,
            "machine": machine,
            "findings": told,
        }

    async def _looked(self) -> dict[str, Any]:
        now_s = asyncio.get_running_loop().time()
        if self._machine is None or now_s - self._machine[0] >= LOOK_S:
            self._machine = now_s, await asyncio.to_thread(_look, self._state_dir)
        return self._machine[1]

    async def status(self, asked: ApiRequest) -> Any:
        """Answer `/status`."""
        return await self._asker.document(asked, SiteQuestion("GET", ("status",)))

    async def members(self, asked: ApiRequest) -> Any:
        """Answer `/members`."""
        return await self._asker.document(asked, SiteQuestion("GET", ("members",)))

    async def forget_member(self, asked: ApiRequest) -> Any:
        """Take a gateway out of the fleet's records."""
        question = SiteQuestion("DELETE", ("members",), [f"id={asked.names['id']}"])
        await self._asker.good(asked, question)
        return DONE

    async def tree(self, asked: ApiRequest) -> Any:
        """Tell the tree as `hedgerow tree` does, in the visitor's name."""
        from gateway.coap_client import ClientError, Response  # noqa: PLC0415  # for who looks
        from gateway.process.status.tree_view import collect  # noqa: PLC0415  # as above

        who, now_s = str(asked.visitor), asyncio.get_running_loop().time()
        kept = self._trees.get(who)
        if kept is not None and now_s - kept[0] < LOOK_S:
            return kept[1]

        async def ask(path: str) -> Response:
            question = SiteQuestion("GET", path[1:].split("/"))
            try:
                answer = await self._asker.response(asked, question)
            except ApiError as error:
                raise ClientError(error.why) from error
            return Response(f"{answer.code >> 5}.{answer.code & 31:02}", answer.payload, None)

        try:
            told = (await collect(ask)).as_json()
        except ClientError as error:
            raise ApiError(HTTPStatus.FORBIDDEN, str(error)) from error
        if len(self._trees) >= TREES_MAX:
            self._trees.clear()
        self._trees[who] = now_s, told
        return told

    # -- clients ---------------------------------------------------------------------------------

    async def clients(self, asked: ApiRequest) -> Any:
        """Answer a page of `/clients`."""
        query = _pieces("after", asked.query.get("after", ""))
        return await self._asker.document(asked, SiteQuestion("GET", ("clients",), query))

    async def client(self, asked: ApiRequest) -> Any:
        """Answer one of `/clients`."""
        query = _pieces("id", asked.names["id"])
        return await self._asker.document(asked, SiteQuestion("GET", ("clients",), query))

    async def disconnect(self, asked: ApiRequest) -> Any:
        """Close a client's connection."""
        query = _pieces("id", asked.names["id"])
        if asked.body.get("forget"):
            query.append("forget=1")
        return await self._asker.document(asked, SiteQuestion("POST", ("clients",), query))

    # -- sensors ---------------------------------------------------------------------------------

    async def set_sensor(self, asked: ApiRequest) -> Any:
        """Set an actuator."""
        path = ("sensors", *asked.names["name"].split("/"))
        payload = asked.body["value"].encode()
        question = SiteQuestion("PUT", path, payload=payload, content_format=TEXT)
        await self._asker.good(asked, question)
        return DONE

    # -- devices ---------------------------------------------------------------------------------

    async def endpoints(self, asked: ApiRequest) -> Any:
        """Look up endpoints."""
        return await self._links("ep", asked)

    async def resources(self, asked: ApiRequest) -> Any:
        """Look up resources."""
        return await self._links("res", asked)

    async def _links(self, kind: str, asked: ApiRequest) -> dict[str, Any]:
        criteria = asked.query.get("search", "").split()
        for one in criteria:
            if not all(one.partition("=")[::2]):
                why = f"search: {one!r} is no NAME=VALUE, as rt=temperature is"
                raise ApiError(HTTPStatus.BAD_REQUEST, why)
        page = asked.query.get("page", 0)
        query = [f"count={PAGE_LINKS}", f"page={page}", *criteria]
        question = SiteQuestion("GET", ("rd-lookup", kind), query)
        payload = await self._asker.good(asked, question)
        told: list[msgspec.Raw] = []
        try:
            async for link in in_turns(links_in(payload)):
                told.append(msgspec.Raw(msgspec.json.encode(_told(link))))
        except LinkFormatError as error:
            raise ApiError(HTTPStatus.BAD_GATEWAY, str(error)) from error
        return {"links": told, "page": page, "has_more": len(told) == PAGE_LINKS}

    def may_take_out(self, visitor: Principal) -> bool:
        """Return whether a visitor may take out registrations that others have made."""
        return self._asker.may(visitor, "DELETE", "rd", "0") and self._asker.may(
            visitor, "POST", "clients"
        )

    async def remove_registration(self, asked: ApiRequest) -> Any:
        """Take a registration out."""
        name = asked.names["id"]
        if not self.may_take_out(asked.visitor):  # its own, then
            await self._asker.good(asked, SiteQuestion("DELETE", ("rd", name)))
            return DONE
        try:
            self._take_out(f"/rd/{name}")
        except NoSuchRegistrationError as error:
            raise ApiError(HTTPStatus.NOT_FOUND, f"id: {error}") from error
        except NotOwnerError as error:
            raise ApiError(HTTPStatus.CONFLICT, "id: it is the gateway's own") from error
        return DONE

    # -- alerts ----------------------------------------------------------------------------------

    async def alerts(self, asked: ApiRequest) -> Any:
        """Answer `/alerts`."""
        return await self._asker.document(asked, SiteQuestion("GET", ("alerts",)))

    async def order(self, asked: ApiRequest) -> Any:
        """Give `/alerts` an order."""
        payload = msgspec.json.encode(asked.body)  # not as it came: what is noted is what is done
        question = SiteQuestion("POST", ("alerts",), payload=payload, content_format=JSON)
        return await self._asker.document(asked, question)


def _pieces(name: str, text: str) -> list[str]:
    """Return an identifier in as many parts of a query as it needs."""
    return [
        f"{name}={text[at : at + _OPTION_CHARACTERS]}"
        for at in range(0, max(1, len(text)), _OPTION_CHARACTERS)
    ]


def _told(link: WebLink) -> dict[str, Any]:
    attributes = {name: value or "" for name, value in link.attributes}
    return {"href": link.href, "attributes": attributes}


def _look(state_dir: Path) -> dict[str, Any]:
    """Look at the machine; it waits for files."""
    from gateway.base import firmware  # noqa: PLC0415  # as above
    from gateway.base.lasting_clock import KernelClocks  # noqa: PLC0415  # as above
    from gateway.process.fleet_status.machine import MachineFiles  # noqa: PLC0415  # loaded long before
    from gateway.process.fleet_status.own_release import ReleaseFiles  # noqa: PLC0415  # as above

    told: dict[str, Any] = msgspec.to_builtins(
        {
            **_fields(MachineFiles(state_dir).read()),
            "firmware_bits": firmware.bits(Path("/")),
            **_fields(ReleaseFiles().read()),
            "clock_is_set": KernelClocks().is_synchronised(),
        }
    )
    return told


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__dataclass_fields__}
