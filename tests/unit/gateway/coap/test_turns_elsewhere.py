"""Writes that are carried out elsewhere than at their own path take no turn of that path.

A write with a name and a precondition is one write too, and waits for no turn that it holds. A
simple registration writes to a registration, and not to the path that all of them ask by.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from coap_engine import codes
from coap_engine.option_numbers import REQUEST_ID, URI_QUERY
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.remote.noted_names import NotedNames
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches
from tests.slow_resource import IF_MATCH, World, turn_of_the_loop

FIRST, SECOND = (REQUEST_ID, b"\0name-1"), (REQUEST_ID, b"\0name-2")


class Named(World):
    """A gateway that knows names; its short paths and its execution share the turns of writes."""

    def __init__(self, noted: NotedNames | None = None) -> None:
        super().__init__()
        execution = LocalExecution(self.site, "gw", self.access, turns=self.turns, noted=noted)
        self.answers = self.another(NamedAnswers(execution, self.access))


async def test_a_named_write_is_carried_out_if_its_precondition_holds() -> None:
    world = Named()
    condition = (IF_MATCH, await world.etag())
    for name, code in ((FIRST, codes.CHANGED), (SECOND, codes.PRECONDITION_FAILED)):
        written = world.begin(codes.PUT, b"mine", condition, name)
        await turn_of_the_loop()
        assert written.done()
        assert written.result().code == code
    assert world.slow.done == ["PUT mine"]
    assert len(world.turns) == 0


async def test_a_named_write_may_be_overtaken_while_its_name_is_noted(tmp_path: Path) -> None:
    """And neither of both waits for the other one for ever."""
    noted = NotedNames(tmp_path / "named-writes")
    world = Named(noted)
    condition = (IF_MATCH, await world.etag())
    named = world.begin(codes.PUT, b"named", FIRST)
    careful = world.begin(codes.PUT, b"careful", condition)
    await noted.stop()
    await turn_of_the_loop()
    assert careful.done()
    assert named.done()
    assert (careful.result().code, named.result().code) == (codes.CHANGED, codes.CHANGED)
    assert world.slow.done == ["PUT careful", "PUT named"]
    assert len(world.turns) == 0


async def test_one_simple_registration_does_not_wait_for_another_that_has_a_precondition() -> None:
    """Else a device that never tells its links could keep out all that register after it."""
    watches = Watches()
    service = DirectoryService(Registry("/rd/1-", listeners=(watches,)), watches)
    call_later = asyncio.get_running_loop().call_later
    world = World()
    world.answers = world.another(DirectoryAnswers(service, lambda: 100.0, LookUpTurns(call_later)))
    path = (b".well-known", b"rd")
    for number, conditions in enumerate(([], [(IF_MATCH, b"")], [])):
        name = (URI_QUERY, b"ep=n%d" % number)
        world.begin(codes.POST, b"", *conditions, name, path=path)
    await turn_of_the_loop()
    assert [one.code for one in world.asked_back] == [codes.GET] * 3
