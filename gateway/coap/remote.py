"""``/q/<domain>/<group>/<node>/<path...>``: a resource of any gateway, from any gateway (A6).

``-`` stands for no domain or no group. What belongs to this gateway is executed at once and
never waits on MQTT (A5); what belongs to another one travels over the tree. The policy of this
gateway has decided before (`access`), and that of the other one decides again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiocoap import error, resource
from aiocoap.message import Message
from aiocoap.numbers.codes import Code

from gateway.coap.execution import QUERY_SEGMENT
from gateway.coap.remote_exchange import RemoteExchange
from tree_handler.errors import ProtocolError
from tree_handler.hierarchy import Membership, is_wildcard
from tree_handler.remote_message import MAX_PAYLOAD_BYTES, ResourceRequest, ResourceResponse
from tree_handler.remote_query import TooManyError

DEADLINE_S = 5.0
PATH = (QUERY_SEGMENT,)
"""Where to add `RemoteResource` to a site."""


Introduction = tuple[str | None, tuple[str, ...]]
"""The text of a principal (None: a stranger), and its roles."""


class RemoteResource(resource.Resource, resource.PathCapable):  # type: ignore[misc]  # untyped
    """Serves all paths below `PATH`.

    Args:
        gateway_id: this gateway; its own record must be in ``members``.
        members: who there is.
        execute: executes a request on this gateway's own site.
        exchange: asks other gateways.
        introduce: who stands behind ``request.remote``, as others are told.
        deadline_s: how long to wait for another gateway.

    """

    def __init__(
        self,
        gateway_id: str,
        members: Membership,
        *,
        execute: Callable[[ResourceRequest], Awaitable[ResourceResponse]],
        exchange: RemoteExchange,
        introduce: Callable[[Any], Introduction],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        super().__init__()
        self._gateway_id = gateway_id
        self._members = members
        self._execute = execute
        self._exchange = exchange
        self._introduce = introduce
        self._deadline_s = deadline_s

    async def render_get(self, request: Any) -> Any:
        """See the module."""
        return await self._serve("GET", request)

    async def render_post(self, request: Any) -> Any:
        """See the module."""
        return await self._serve("POST", request)

    async def render_put(self, request: Any) -> Any:
        """See the module."""
        return await self._serve("PUT", request)

    async def render_delete(self, request: Any) -> Any:
        """See the module."""
        return await self._serve("DELETE", request)

    async def _serve(self, method: str, request: Any) -> Any:
        node, wanted = self._accept(method, request)
        if node == self._gateway_id:
            return _message(await self._execute(wanted))
        try:
            record = self._members.get(node)
            epoch = 0 if record is None else record.epoch
            return _message(await self._exchange.ask(node, epoch, wanted, self._deadline_s))
        except TooManyError as full:
            answer = error.ServiceUnavailable(str(full)).to_message()
            answer.opt.max_age = max(1, math.ceil(full.retry_after_s))
            return answer
        except TimeoutError:
            raise error.GatewayTimeout(
                f"{node} did not answer within {self._deadline_s:g} s"
            ) from None

    def _accept(self, method: str, request: Any) -> tuple[str, ResourceRequest]:
        """The gateway that is meant and what it shall do.

        Raises:
            aiocoap.error.RenderableError: the request is refused; aiocoap renders it.

        """
        segments: tuple[str, ...] = tuple(request.opt.uri_path)
        if len(segments) < 3:
            raise error.BadRequest("path is not /q/<domain>/<group>/<node>/<path>")
        domain, group, node = segments[:3]
        if is_wildcard(domain, group, node):
            raise error.NotImplemented("a query to several gateways is not supported")
        if request.opt.observe == 0:
            raise error.NotImplemented("Observe of another gateway's resource is not supported")
        if segments[3:4] == PATH:
            raise error.BadRequest("a remote query must not lead to another one")
        if len(request.payload) > MAX_PAYLOAD_BYTES:
            raise error.RequestEntityTooLarge(f"payload over {MAX_PAYLOAD_BYTES} bytes")
        try:
            found = self._members.find(domain, group, node)
            wanted = self._request(method, segments[3:], request)
        except ProtocolError as wrong:
            raise error.BadRequest(str(wrong)) from wrong
        if not found:
            raise error.NotFound(self._why_unknown(domain, group, node))
        return node, wanted

    def _request(self, method: str, path: tuple[str, ...], request: Any) -> ResourceRequest:
        options = request.opt
        return ResourceRequest(
            method,
            path,
            tuple(options.uri_query),
            None if options.content_format is None else int(options.content_format),
            None if options.accept is None else int(options.accept),
            request.payload,
            *self._introduce(request.remote),
        )

    def _why_unknown(self, domain: str, group: str, node: str) -> str:
        elsewhere = self._members.get(node)
        if elsewhere is None:
            return f"no gateway {node}"
        return f"gateway {node} is not at {domain}/{group} but at {elsewhere.place}"


def _message(response: ResourceResponse) -> Any:
    message = Message(code=Code(response.code), payload=response.payload)
    if response.content_format is not None:
        message.opt.content_format = response.content_format
    return message
