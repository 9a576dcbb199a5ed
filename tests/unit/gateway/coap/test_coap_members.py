"""The members of a fleet over CoAP: they are listed, and one that is gone is taken out by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiocoap import Code, Message, error

from dtls.datagrams import PeerAddress
from gateway.coap.operations.members import MembersResource
from gateway.coap.requester import plain_requester
from gateway.node.members.roll import MemberRoll, PresentMemberError
from tests.policies import open_access

HERE = plain_requester(PeerAddress(("127.0.0.1", 40_000)), ("127.0.0.1", 5683))


class Roll:
    """Three members: one is there, one has gone, and one has never been."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def listed(self) -> Iterator[Mapping[str, Any]]:
        yield {"id": "gw-a"}
        yield {"id": "gw-b"}

    def forget(self, gateway_id: str, who: str) -> bool:
        self.asked.append((gateway_id, who))
        if gateway_id == "gw-a":
            raise PresentMemberError("gw-a")
        return gateway_id == "gw-b"


def asking(*query: str) -> Message:
    request = Message(code=Code.DELETE, uri_query=query)
    request.remote = HERE
    return request


async def test_all_are_listed_in_json() -> None:
    resource = MembersResource(cast(MemberRoll, Roll()), open_access())
    answer = await resource.render_get(SimpleNamespace())
    assert (answer.code, answer.opt.content_format) == (Code.CONTENT, 50)
    assert json.loads(answer.payload) == {"members": [{"id": "gw-a"}, {"id": "gw-b"}]}


@pytest.mark.parametrize(
    ("query", "kind", "why"),
    [
        ((), error.BadRequest, b"id: missing"),
        (("id",), error.BadRequest, b"id: missing"),
        (("id=",), error.BadRequest, b"id: missing"),
        (("name=gw-b",), error.BadRequest, b"id: missing"),
        (("id=gw-a",), error.Conflict, b"it is in the tree: stop it first"),
        (("id=gw-c",), error.NotFound, b"no such member"),
    ],
)
async def test_who_is_there_or_is_not_known_or_not_named_is_not_taken_out(
    query: tuple[str, ...], kind: type[error.RenderableError], why: bytes
) -> None:
    resource = MembersResource(cast(MemberRoll, Roll()), open_access())
    with pytest.raises(kind) as refused:
        await resource.render_delete(asking(*query))
    assert refused.value.to_message().payload == why


async def test_who_has_gone_is_taken_out_and_who_asked_is_noted() -> None:
    roll, access = Roll(), open_access()
    answer = await MembersResource(cast(MemberRoll, roll), access).render_delete(
        asking("x=1", "id=gw-b")
    )
    assert answer.code == Code.DELETED
    assert roll.asked == [("gw-b", str(access.principal_of(HERE)))]
