"""``/members``: the gateways of the fleet; a DELETE takes out one that will not come back.

``GET /members`` is the list, ``DELETE /members?id=ID`` takes a gateway out whose Pi is lost, before
its time-out has passed or where nobody is root. That is a right of its own in the policy, which has
decided before (`access`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from aiocoap import error, resource
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

from gateway.coap.access import CoapAccess
from gateway.coap.operations.encoded_rows import encoded_rows, in_ascii
from gateway.coap.operations.status import JSON
from gateway.node.members.roll import MemberRoll, PresentMemberError

PATH = ("members",)
"""The path of `MembersResource` on a site."""


class MembersResource(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Serves the records of the fleet.

    Args:
        members: as this gateway knows them.
        access: knows who asks.

    """

    ct = JSON
    rt = "hedgerow.members"

    def __init__(self, members: MemberRoll, access: CoapAccess) -> None:
        super().__init__()
        self._members = members
        self._access = access

    async def render_get(self, _request: Any) -> Any:
        """Answer with all members in JSON; others have turns while a long list is encoded."""
        told = {"members": await encoded_rows(self._members.listed(), in_ascii)}
        payload = msgspec.json.encode(told)
        return Message(code=Code.CONTENT, payload=payload, content_format=JSON)

    async def render_delete(self, request: Any) -> Any:
        """Take a gateway out.

        Raises:
            aiocoap.error.RenderableError: none is named (4.00), there is none such (4.04), or it is
                in the tree (4.09).

        """
        query = dict(option.partition("=")[::2] for option in request.opt.uri_query)
        if not (gateway_id := query.get("id")):
            raise error.BadRequest("id: missing")
        who = str(self._access.principal_of(request.remote))
        try:
            forgotten = self._members.forget(gateway_id, who)
        except PresentMemberError as present:
            raise error.Conflict("it is in the tree: stop it first") from present
        if not forgotten:
            raise error.NotFound("no such member")
        return Message(code=Code.DELETED)
