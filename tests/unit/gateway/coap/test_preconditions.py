"""If-Match and If-None-Match are judged before a request is carried out (RFC 7252, 5.10.8).

Method: a resource whose reads and writes take as long as a test wants, asked as the engine asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiocoap import Message, resource

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse
from gateway.base.write_turns import WriteTurn, WriteTurns
from gateway.coap.conditional import Conditional
from gateway.coap.preconditions import Preconditions
from gateway.coap.responders import AskForBody
from gateway.coap.sensors.resources import SensorResources
from gateway.coap.writes_in_turn import WriteInTurn
from gateway.sensors.sampler import Sampler
from gateway.sensors.set_in_turn import set_in_turn
from gateway.sensors.switch import Switch
from gateway.trust.policy.policy import Policy, PolicyRules
from gateway.trust.policy.rule import Rule
from tests.policies import access_of
from tests.slow_resource import ETAG, IF_MATCH, URI_PATH, World, turn_of_the_loop
from tree_handler.members.place import Place

IF_NONE_MATCH, CONTENT_FORMAT, ACCEPT = 5, 12, 17
WRITES = (codes.PUT, codes.POST, codes.DELETE, codes.PATCH, codes.IPATCH)
TEXT, CBOR = b"", b"\x3c"


async def test_each_read_has_an_etag_and_who_has_that_is_told_so() -> None:
    world = World()
    etag = await world.etag()
    again = await world.begin(codes.GET, b"", (ETAG, b"other"), (ETAG, etag))
    assert (again.code, again.payload) == (codes.VALID, b"")
    assert dict(again.options) == {ETAG: etag}
    assert (await world.begin(codes.FETCH, b"", (ETAG, etag))).code == codes.VALID
    world.slow.value = b"new"
    assert (await world.begin(codes.GET, b"", (ETAG, etag))).payload == b"new"


class Deaf(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Says the same, whatever is asked for."""

    async def render_get(self, _request: Message) -> Message:
        return Message(payload=b"{}", content_format=50)


async def test_a_format_that_is_not_there_is_refused_though_the_resource_does_not_look() -> None:
    """RFC 7252, section 5.10.4: Accept is critical."""
    world = World()
    world.site.add_resource(("deaf",), Deaf())
    for accept, code in ((b"\x32", codes.CONTENT), (b"\x3c", codes.NOT_ACCEPTABLE)):
        answer = await world.begin(codes.GET, b"", (ACCEPT, accept), path=(b"deaf",))
        assert answer.code == code
    assert b"Accept" in answer.payload


@pytest.mark.parametrize("code", WRITES)
async def test_a_write_with_a_stale_etag_is_not_carried_out(code: int) -> None:
    world = World()
    etag = await world.etag()
    world.slow.value = b"newer"
    refused = await world.begin(code, b"mine", (IF_MATCH, etag))
    assert refused.code == codes.PRECONDITION_FAILED
    assert (world.slow.value, world.slow.done) == (b"newer", [])


@pytest.mark.parametrize("code", WRITES)
async def test_a_write_with_the_present_etag_is_carried_out_once(code: int) -> None:
    world = World()
    options = ((IF_MATCH, b"another"), (IF_MATCH, await world.etag()))
    assert (await world.begin(code, b"mine", *options)).code == codes.CHANGED
    assert world.slow.value == b"mine"
    assert len(world.slow.done) == 1


async def test_an_etag_of_any_format_is_one_of_the_resource() -> None:
    world = World()
    etag = await world.etag((ACCEPT, CBOR))
    assert etag != await world.etag()
    written = await world.begin(codes.PUT, b"mine", (IF_MATCH, etag), (CONTENT_FORMAT, TEXT))
    assert written.code == codes.CHANGED


async def test_an_empty_if_match_wants_the_resource_to_exist() -> None:
    world = World()
    assert (await world.begin(codes.PUT, b"1", (IF_MATCH, b""))).code == codes.CHANGED
    world.slow.value = None
    refused = await world.begin(codes.PUT, b"2", (IF_MATCH, b""))
    assert refused.code == codes.PRECONDITION_FAILED
    nowhere = await world.begin(codes.PUT, b"2", (IF_MATCH, b""), path=(b"nowhere",))
    assert nowhere.code == codes.PRECONDITION_FAILED


async def test_if_none_match_wants_it_not_to_exist() -> None:
    world = World()
    refused = await world.begin(codes.PUT, b"1", (IF_NONE_MATCH, b""))
    assert (refused.code, world.slow.done) == (codes.PRECONDITION_FAILED, [])
    world.slow.value = None
    assert (await world.begin(codes.PUT, b"1", (IF_NONE_MATCH, b""))).code == codes.CHANGED
    assert (await world.begin(codes.PUT, b"2", (IF_NONE_MATCH, b""))).code == 0x8C


async def test_a_read_has_preconditions_too() -> None:
    world = World()
    etag = await world.etag()
    assert (await world.begin(codes.GET, b"", (IF_MATCH, etag))).payload == b"old"
    for code in (codes.GET, codes.FETCH):
        refused = await world.begin(code, b"", (IF_MATCH, b"stale"))
        assert refused.code == codes.PRECONDITION_FAILED
    assert world.slow.done == []


async def test_what_cannot_be_read_is_not_written_by_its_etag() -> None:
    world = World()
    etag = await world.etag()
    world.slow.fails = True
    unknown = await world.begin(codes.PUT, b"mine", (IF_MATCH, etag))
    assert (unknown.code, unknown.payload) == (codes.SERVICE_UNAVAILABLE, b"the bus is broken")
    assert world.slow.done == []


async def test_who_may_not_read_is_not_told_what_a_resource_is() -> None:
    rules = [Rule("allow", "PUT", "/slow", "psk:operator")]
    world = World(access=access_of(rules=rules, public=()))
    assert (await world.begin(codes.PUT, b"1")).code == codes.CHANGED
    for condition in ((IF_MATCH, b""), (IF_MATCH, b"guessed"), (IF_NONE_MATCH, b"")):
        refused = await world.begin(codes.PUT, b"2", condition)
        assert refused.code == codes.FORBIDDEN
        assert b"GET" in refused.payload
    assert world.slow.value == b"1"


async def test_of_two_who_know_the_same_etag_one_writes() -> None:
    """Whichever way each of them comes: their resource is the same."""
    world = World()
    etag = await world.etag()
    world.slow.hold.clear()
    both = [
        world.begin(codes.PUT, b"a", (IF_MATCH, etag)),
        world.begin(codes.PUT, b"b", (IF_MATCH, etag), answers=world.another()),
    ]
    await turn_of_the_loop()
    world.slow.hold.set()
    assert [one.code for one in await asyncio.gather(*both)] == [0x44, 0x8C]
    assert world.slow.done == ["PUT a"]


async def test_no_other_write_is_between_the_look_and_the_write() -> None:
    world = World()
    etag = await world.etag()
    world.slow.hold.clear()
    careful = world.begin(codes.PUT, b"a", (IF_MATCH, etag))
    plain = world.begin(codes.PUT, b"b", answers=world.another())
    await turn_of_the_loop()
    world.slow.hold.set()
    assert (await careful).code == codes.CHANGED
    assert (await plain).code == codes.CHANGED
    assert world.slow.done == ["PUT a", "PUT b"]
    assert len(world.turns) == 0


async def test_writes_without_a_precondition_do_not_wait_for_each_other() -> None:
    world = World()
    world.slow.hold.clear()
    first = world.begin(codes.PUT, b"a")
    await world.slow.writing.wait()
    world.slow.writing.clear()
    second = world.begin(codes.PUT, b"b")
    await world.slow.writing.wait()
    world.slow.hold.set()
    await asyncio.gather(first, second)


async def test_who_goes_while_it_waits_holds_nobody_up() -> None:
    world = World()
    etag = await world.etag()
    world.slow.hold.clear()
    world.begin(codes.PUT, b"a", (IF_MATCH, etag))
    world.begin(codes.PUT, b"b", (IF_MATCH, etag))
    for exchange in (world.exchanges, world.exchanges - 1):
        world.answers.ended(exchange)
    await world.answers.stop()
    assert len(world.turns) == 0
    world.slow.hold.set()
    assert (await world.begin(codes.PUT, b"c", (IF_MATCH, etag))).code == codes.CHANGED


async def test_a_read_with_a_precondition_keeps_nobody_from_writing() -> None:
    world = World()
    etag = await world.etag()
    world.slow.hold.clear()
    reads = [world.begin(code, b"", (IF_MATCH, etag)) for code in (codes.GET, codes.FETCH)]
    await turn_of_the_loop()
    write = world.begin(codes.PUT, b"new")
    await world.slow.writing.wait()
    world.slow.hold.set()
    assert (await write).code == codes.CHANGED
    await asyncio.gather(*reads)


@pytest.mark.parametrize("is_careful", [False, True])
async def test_nobody_looks_in_the_midst_of_a_write_whose_asker_has_gone(is_careful: bool) -> None:
    """It is carried out all the same, as it may have been done before that was known."""
    world = World()
    conditions = [(IF_MATCH, await world.etag())]
    world.slow.writing.clear()
    world.slow.hold_put.clear()
    world.begin(codes.PUT, b"gone", *(conditions if is_careful else []))
    await world.slow.writing.wait()
    world.answers.ended(world.exchanges)
    careful = world.begin(codes.PUT, b"careful", *conditions)
    await turn_of_the_loop()
    assert not careful.done()
    world.slow.hold_put.set()
    assert (await careful).code == codes.PRECONDITION_FAILED
    assert world.slow.done == ["PUT gone"]
    assert len(world.turns) == 0


@pytest.mark.parametrize("is_careful", [False, True])
async def test_a_write_that_waits_for_its_turn_is_refused_when_the_policy_forbids_it(
    is_careful: bool,
) -> None:
    rules = [Rule("allow", verb, "/slow", "psk:operator") for verb in ("GET", "PUT")]
    world = World(access=access_of(rules=rules, public=()))
    conditions = [(IF_MATCH, await world.etag())]
    world.slow.hold_put.clear()
    first = world.begin(codes.PUT, b"first", *conditions)
    await world.slow.writing.wait()
    waits = world.begin(codes.PUT, b"later", *(conditions if is_careful else []))
    world.access.follow(Policy(PolicyRules()))
    world.answers.revise()
    assert not first.done()
    assert (await waits).code == codes.FORBIDDEN
    world.slow.hold_put.set()
    assert (await first).code == codes.CHANGED
    await turn_of_the_loop()
    assert world.slow.done == ["PUT first"]
    assert len(world.turns) == 0


async def test_no_turn_outlasts_who_answers() -> None:
    world = World()
    world.slow.hold_put.clear()
    world.begin(codes.PUT, b"never")
    await world.slow.writing.wait()
    await world.answers.stop()
    await turn_of_the_loop()
    assert len(world.turns) == 0


# -- actuators -------------------------------------------------------------------------------------


class Clock:
    """Seconds."""

    now = 50.0

    def __call__(self) -> float:
        return self.now


async def test_an_actuators_etag_lasts_as_long_as_its_state() -> None:
    clock = Clock()
    world = World()
    sampler = Sampler(lambda *_: None, clock=clock, wall_clock=clock)
    sensors = SensorResources(world.site, sampler, "gw", Place("campus", "north"))
    pump = Switch("pump")
    sampler.add(pump)
    sensors.add(pump)
    path = (b"sensors", b"pump")
    etag = await world.etag(path=path)
    clock.now += 3_600.0  # read again, with another time
    assert await world.etag(path=path) == etag
    assert (await world.begin(codes.PUT, b"1", (IF_MATCH, etag), path=path)).code == codes.CHANGED
    refused = await world.begin(codes.PUT, b"0", (IF_MATCH, etag), path=path)
    assert refused.code == codes.PRECONDITION_FAILED
    assert pump.read() == 1.0


async def test_a_command_over_mqtt_is_not_between_the_look_and_the_write_either() -> None:
    sampler = Sampler(lambda *_: None)
    pump = Switch("pump")
    sampler.add(pump)
    alone = WriteTurn((b"sensors", b"pump"), lambda: None, is_alone=True)
    sampler.turns.enter(alone)
    command = asyncio.create_task(set_in_turn(sampler, pump, 1.0, "commands"))
    await turn_of_the_loop()
    assert pump.read() == 0.0
    sampler.turns.leave(alone)
    await command
    assert pump.read() == 1.0
    assert len(sampler.turns) == 0


async def test_what_a_device_handles_itself_waits_for_who_has_the_resource_alone() -> None:
    begun: list[str] = []

    class Handled:
        def begin(
            self, done: Callable[[CoapResponse], None], _ask: AskForBody
        ) -> Callable[[], None]:
            begun.append("write")
            done(CoapResponse(codes.CHANGED))
            return lambda: None

    turns = WriteTurns()
    alone = WriteTurn((b"sensors", b"pump"), lambda: None, is_alone=True)
    turns.enter(alone)
    options = ((URI_PATH, b"sensors"), (URI_PATH, b"pump"))
    write = WriteInTurn(Handled(), CoapRequest(codes.POST, options), turns, lambda: None)
    told: list[CoapResponse] = []
    write.begin(told.append, lambda *_: lambda: None)
    gives_up = write.begin(told.append, lambda *_: lambda: None)
    gives_up()
    assert (begun, told) == ([], [])
    turns.leave(alone)
    assert (begun, [one.code for one in told]) == (["write"], [codes.CHANGED])
    assert len(turns) == 0


async def test_what_a_device_handles_itself_is_not_begun_for_who_may_no_more() -> None:
    class Handled:
        def begin(
            self, _done: Callable[[CoapResponse], None], _ask: AskForBody
        ) -> Callable[[], None]:
            raise AssertionError("it is begun")

    turns, options = WriteTurns(), ((URI_PATH, b"sensors"), (URI_PATH, b"pump"))
    refusal = CoapResponse(codes.FORBIDDEN, (), b"not any more")
    request = CoapRequest(codes.POST, options)
    told: list[CoapResponse] = []
    WriteInTurn(Handled(), request, turns, lambda: refusal).begin(
        told.append, lambda *_: lambda: None
    )
    assert told == [refusal]
    assert len(turns) == 0


async def test_a_command_that_is_given_up_fails_nobody_whose_turn_is_over() -> None:
    sampler = Sampler(lambda *_: None)
    pump = Switch("pump")
    sampler.add(pump)
    alone = WriteTurn((b"sensors", b"pump"), lambda: None, is_alone=True)
    sampler.turns.enter(alone)
    command = asyncio.create_task(set_in_turn(sampler, pump, 1.0, "commands"))
    await turn_of_the_loop()
    command.cancel()
    sampler.turns.leave(alone)
    with pytest.raises(asyncio.CancelledError):
        await command
    assert (pump.read(), len(sampler.turns)) == (0.0, 0)


# -- turns -----------------------------------------------------------------------------------------


def test_very_many_may_wait_for_one() -> None:
    turns = WriteTurns()
    begun: list[int] = []
    first = WriteTurn("valve", lambda: None)
    turns.enter(first)

    def waiting(number: int) -> WriteTurn:
        def begin() -> None:
            begun.append(number)
            turns.leave(turn)

        turn = WriteTurn("valve", begin, is_alone=True)
        return turn

    for number in range(5_000):
        turns.enter(waiting(number))
    assert begun == []
    turns.leave(first)
    turns.leave(first)
    assert begun == list(range(5_000))
    assert len(turns) == 0


def test_a_write_that_fails_as_it_begins_holds_nobody_up() -> None:
    turns = WriteTurns()
    begun: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError

    first = WriteTurn("valve", lambda: None, is_alone=True)
    turns.enter(first)
    turns.enter(WriteTurn("valve", fail, is_alone=True))
    last = WriteTurn("valve", lambda: begun.append(1), is_alone=True)
    turns.enter(last)
    turns.leave(first)
    assert begun == [1]
    turns.leave(last)
    with pytest.raises(ZeroDivisionError):
        turns.enter(WriteTurn("valve", fail))
    assert len(turns) == 0


async def test_a_write_whose_resource_raises_is_told_as_a_failure_and_the_next_has_its_turn() -> (
    None
):
    turns, told = WriteTurns(), list[int]()
    request = CoapRequest(codes.PUT, ((IF_MATCH, b""), (URI_PATH, b"slow")))
    conditions = Preconditions.of(request)
    assert conditions is not None

    def fails(_request: CoapRequest, _told: Callable[[CoapResponse], None]) -> Callable[[], None]:
        raise ValueError("no resource")

    later = Conditional(conditions, request, fails, turns)
    later.begin(lambda response: told.append(response.code), nobody_is_asked)
    assert len(turns) == 0
    await turn_of_the_loop()
    assert told == [codes.INTERNAL_SERVER_ERROR]


def nobody_is_asked(*_: object) -> None:
    raise AssertionError("no peer is to be asked")


def test_a_write_in_turn_has_begun_when_its_turn_has_come() -> None:
    turns, resource_path = WriteTurns(), (b"slow",)
    before = WriteTurn(resource_path, lambda: None, is_alone=True)
    turns.enter(before)
    begun: list[bool] = []

    class Later:
        def begin(
            self, _done: Callable[[CoapResponse], None], _ask: AskForBody
        ) -> Callable[[], None]:
            begun.append(True)
            return lambda: None

    request = CoapRequest(codes.PUT, ((URI_PATH, b"slow"),))
    write = WriteInTurn(Later(), request, turns, lambda: None)
    assert not write.has_begun
    write.begin(lambda _: None, nobody_is_asked)
    assert (write.has_begun, begun) == (False, [])
    turns.leave(before)
    assert (write.has_begun, begun) == (True, [True])
