"""OSCORE while the disk takes nothing: no number comes again, and nobody else is kept waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiocoap.numbers.codes import Code

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse, RequestReceived
from gateway.base import replaced_file
from gateway.coap.oscore.context import OscoreContext
from gateway.coap.oscore.keys import OscoreKeys
from gateway.coap.oscore.numbers import STEP, SenderNumbers
from gateway.coap.responders import AskPeer
from tests.unit.gateway.oscore_world import SECRET, World


class Disk:
    """Takes files, or none of them from some time on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.takes = 1 << 30
        real = replaced_file.replace

        def replace(path: Path, data: bytes, **options: object) -> None:
            if self.is_full or not self.takes:
                raise OSError(28, "No space left on device", str(path))
            self.takes -= 1
            real(path, data, **options)  # type: ignore[arg-type]  # handed on as they came

        patch.setattr(replaced_file, "replace", replace)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def started(path: Path) -> OscoreContext:
    """A start of a gateway, at no distance from the last number reserved."""
    keys = OscoreKeys("t", SECRET, b"\x01", b"\x02")
    return OscoreContext(keys, SenderNumbers(path, ["t"], lambda _: 0), b"echo")


@pytest.mark.parametrize("taken", [0, 1])
def test_no_number_is_used_that_the_disk_did_not_take_as_reserved(
    tmp_path: Path, disk: Disk, taken: int
) -> None:
    """The second file of both may be the one that is not written."""
    path, used = tmp_path / "numbers", list[int]()
    context = started(path)
    disk.takes = taken
    for _ in range(3 * STEP):
        try:
            used.append(context.new_sequence_number())
        except OSError:
            continue
    assert len(used) <= 2 * STEP
    disk.takes = 1 << 30
    again = started(path)
    assert again.new_sequence_number() > max(used)


def test_numbers_go_on_when_the_disk_takes_them_again(tmp_path: Path, disk: Disk) -> None:
    path, used = tmp_path / "numbers", list[int]()
    context = started(path)
    for number in range(3 * STEP):
        disk.is_full = 1_000 < number < 2 * STEP
        try:
            used.append(context.new_sequence_number())
        except OSError:
            continue
    assert used == sorted(set(used))
    assert used[-1] == 3 * STEP - 1


class FullDisk(SenderNumbers):
    """Numbers of which none can be reserved from some time on."""

    def __init__(self) -> None:
        self.is_full = False

    def first(self, _name: str) -> int:
        return 0

    def use_below(self, _name: str, _number: int) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device", "oscore-numbers")


def on_a_disk(world: World) -> FullDisk:
    numbers = FullDisk()
    world.context._numbers = numbers
    return numbers


def test_an_observer_that_can_not_be_told_is_ended_and_nothing_is_raised() -> None:
    world = World()
    world.begin()
    disk = on_a_disk(world)
    world.send(world.protect(observe=0)[0])
    assert world.resource.tell is not None
    disk.is_full = True
    world.resource.tell(1, CoapResponse(codes.CONTENT, (), b"1"), False)
    ((told, is_last),) = world.told_as
    assert (told.code, is_last) == (codes.SERVICE_UNAVAILABLE, True)
    assert dict(told.options) == {option_numbers.MAX_AGE: b"\x3c"}


def test_a_request_whose_answer_can_not_be_protected_is_told_to_wait() -> None:
    world = World()
    disk = on_a_disk(world)
    disk.is_full = True
    request, _ = world.protect(Code.GET)  # the first one, whose answer needs a number of its own
    answer = world.send(request)
    assert answer.code in (codes.SERVICE_UNAVAILABLE, codes.UNAUTHORIZED)
    assert option_numbers.MAX_AGE in dict(answer.options)


def test_what_is_open_ends_with_its_device_though_one_raises() -> None:
    world = World()
    world.begin()
    for _ in range(2):
        world.send(world.protect(observe=0)[0])
    ended: list[int] = []

    def end(exchange: int) -> None:
        ended.append(exchange)
        if len(ended) == 1:
            raise ValueError("bad item")

    world.resource.ended = end  # type: ignore[method-assign]  # what ends there may raise
    world.answers.follow({})
    assert len(ended) == 2
    assert [(told.code, is_last) for told, is_last in world.told_as] == [
        (codes.UNAUTHORIZED, True)
    ] * 2


def test_an_observation_whose_first_answer_can_not_be_protected_is_none() -> None:
    world, ended = World(), list[int]()
    world.begin()
    no_text = (option_numbers.LOCATION_PATH, b"\xff")
    unlike = CoapResponse(codes.CONTENT, (no_text,), b"1"), False
    world.resource.asked = lambda *_: unlike  # type: ignore[method-assign]  # it is no answer
    world.resource.ended = ended.append  # type: ignore[method-assign]  # what ends there is noted
    answer = world.begin_sending(world.protect(observe=0)[0])
    assert answer is not None
    response, is_last = answer
    assert (response.code, is_last) == (codes.SERVICE_UNAVAILABLE, True)
    assert ended == [world.exchanges]


def test_a_device_that_can_not_be_asked_for_want_of_a_number_has_no_answer() -> None:
    world, heard = World(), list[CoapResponse | None]()
    world.begin()
    disk = on_a_disk(world)

    def asks_back(asked: RequestReceived, _now: float, _respond: object, ask: AskPeer) -> None:
        disk.is_full = True
        ask(asked.peer, CoapRequest(codes.GET), heard.append)

    world.resource.asked = asks_back  # type: ignore[assignment,method-assign]  # it asks back
    assert world.begin_sending(world.protect()[0]) is None
    assert heard == [None]
    assert world.shares.held_bytes.held == 0
