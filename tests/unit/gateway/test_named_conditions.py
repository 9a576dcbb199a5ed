"""A write with a name and a precondition is one write too, and waits for no turn that it holds."""

from __future__ import annotations

from pathlib import Path

from coap_engine import codes
from coap_engine.option_numbers import REQUEST_ID
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.named_answers import NamedAnswers
from gateway.coap.remote.noted_names import NotedNames
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
