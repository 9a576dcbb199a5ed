"""Names of writes stand on the disk before these are carried out, and a later life knows them."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest
from aiocoap import resource

from coap_engine import codes
from gateway.coap.remote import noted_names
from gateway.coap.remote.execution import LocalExecution
from gateway.coap.remote.named_execution import NamedExecution, OnNamedAnswer
from gateway.coap.remote.noted_names import NotedNames
from tests.policies import open_access
from tests.remote_fleet import Probe
from tree_handler.remote.options import REQUEST_ID
from tree_handler.remote.request_ids import NOTE_BYTES
from tree_handler.remote.resource import ResourceRequest, ResourceResponse


class Life:
    """One life of a gateway over a folder."""

    def __init__(self, folder: Path) -> None:
        self.probe = Probe()
        site = resource.Site()
        site.add_resource(["probe"], self.probe)
        self.noted = NotedNames(folder / noted_names.NAME)
        self.execution = LocalExecution(site, "gw", open_access(), noted=self.noted)

    async def put(self, name: bytes, asked_s: int = 0) -> ResourceResponse:
        option = (REQUEST_ID, bytes((asked_s,)) + name)
        return await self.execution(
            ResourceRequest("PUT", ("probe",), payload=b"1", options=(option,))
        )


async def test_a_copy_of_a_first_message_that_meets_the_next_life_is_not_carried_out(
    tmp_path: Path,
) -> None:
    first = Life(tmp_path)
    assert (await first.put(b"one")).code == codes.CHANGED
    for _ in range(3):  # each is killed as soon as it is there, with what it had noted
        later = Life(tmp_path)
        copy = await later.put(b"one")
        assert copy.code == codes.GATEWAY_TIMEOUT
        assert b"may have been carried out before" in copy.payload
        assert (await later.put(b"another")).code in (codes.CHANGED, codes.GATEWAY_TIMEOUT)
        assert len(later.probe.seen) <= 1
    assert (await Life(tmp_path).put(b"a third")).code == codes.CHANGED


async def test_names_share_a_sync_and_the_file_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0

    def counted(_descriptor: int) -> None:
        nonlocal syncs
        syncs += 1

    monkeypatch.setattr(os, "fdatasync", counted)
    noted = NotedNames(tmp_path / "names")
    monkeypatch.setattr(noted_names, "MAX_RECORDS", 40)
    done = list[str]()
    for batch in range(10):
        for number in range(16):
            noted.note(bytes((batch, number)) * 8, lambda: (), done.append)
        await noted.stop()
    assert done == [""] * 160
    assert 0 < syncs <= 10
    assert (tmp_path / "names").stat().st_size <= 40 * 20
    assert bytes((9, 15)) * 8 in NotedNames(tmp_path / "names").earlier


async def test_a_file_that_cannot_be_made_up_anew_keeps_no_later_name_from_being_noted(
    tmp_path: Path,
) -> None:
    def counting() -> list[bytes]:
        raise RuntimeError("nobody foresaw it")

    noted = NotedNames(tmp_path / "names")
    done = list[str]()
    noted.note(bytes(NOTE_BYTES), counting, done.append)
    await noted.stop()
    assert done == ["nobody foresaw it"]
    noted.note(bytes(NOTE_BYTES), lambda: (), done.append)
    await noted.stop()
    assert done[1:] == [""]


async def test_where_a_name_can_not_be_noted_nothing_is_done_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    assert (await life.put(b"one")).code == codes.CHANGED
    whole = os.write

    def full(descriptor: int, data: bytes) -> int:
        whole(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        refused = await life.put(b"two")
    assert refused.code == codes.SERVICE_UNAVAILABLE
    assert b"nothing was done: [Errno 28] No space left" in refused.payload
    assert len(life.probe.seen) == 1
    assert (await life.put(b"two")).code == codes.CHANGED
    # What the failed one left is not before what came later.
    later = Life(tmp_path)
    assert [(await later.put(one)).code for one in (b"one", b"two")] == [codes.GATEWAY_TIMEOUT] * 2


async def test_damaged_names_are_told_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life, path = Life(tmp_path), tmp_path / noted_names.NAME
    for name in (b"one", b"two", b"three"):
        assert (await life.put(name)).code == codes.CHANGED
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    later = Life(tmp_path)
    assert "which named writes were carried out before the start" in caplog.text
    answers = [(await later.put(name)).code for name in (b"one", b"two", b"three")]
    assert answers == [codes.GATEWAY_TIMEOUT, codes.CHANGED, codes.GATEWAY_TIMEOUT]


async def test_a_name_that_is_torn_at_the_end_was_not_carried_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life, path = Life(tmp_path), tmp_path / noted_names.NAME
    assert (await life.put(b"one")).code == codes.CHANGED
    path.write_bytes(path.read_bytes() + b"torn")
    later = Life(tmp_path)
    assert [(await later.put(one)).code for one in (b"one", b"two")] == [
        codes.GATEWAY_TIMEOUT,
        codes.CHANGED,
    ]
    assert "ERROR" not in caplog.text
    await asyncio.sleep(0)


async def test_names_of_what_was_refused_push_none_out_that_counts(tmp_path: Path) -> None:
    noted = NotedNames(tmp_path / "names")
    counts = bytes(NOTE_BYTES)
    noted.note(counts, lambda: (), lambda _why: None)
    await noted.stop()
    for batch in range(9):
        for number in range(1_024):
            name = (1_024 * batch + number + 1).to_bytes(NOTE_BYTES, "big")
            noted.note(name, lambda: (counts,), lambda _why: None)
        await noted.stop()
    assert counts in NotedNames(tmp_path / "names").earlier


async def test_a_named_write_that_fails_as_it_begins_is_answered_to_all_who_ask(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else its name would be under way for ever."""
    named, told = NamedExecution(), list[int]()
    request = ResourceRequest("PUT", ("probe",), options=((REQUEST_ID, b"\0one"),))

    def fail(_request: ResourceRequest, _tell: OnNamedAnswer) -> None:
        raise ZeroDivisionError("no valve")

    def tell(response: ResourceResponse, _goes_on: bool) -> None:
        told.append(response.code)

    for _ in range(2):
        named.begin(request, "", tell, fail)
    assert told == [codes.INTERNAL_SERVER_ERROR] * 2
    (line,) = caplog.messages
    assert "carry out a named write" in line
    assert "no valve" in line


async def test_one_that_can_not_be_told_of_a_named_write_keeps_it_from_nobody() -> None:
    named, told, done = NamedExecution(), list[int](), list[OnNamedAnswer]()
    request = ResourceRequest("PUT", ("probe",), options=((REQUEST_ID, b"\0one"),))

    def carry_out(_request: ResourceRequest, tell: OnNamedAnswer) -> None:
        done.append(tell)

    def break_down(_response: ResourceResponse, _goes_on: bool) -> None:
        raise OSError("no room")

    def tell(response: ResourceResponse, _goes_on: bool) -> None:
        told.append(response.code)

    for one in (break_down, tell):
        named.begin(request, "", one, carry_out)
    done[0](ResourceResponse(codes.CHANGED), False)
    assert told == [codes.CHANGED]


async def test_names_that_are_not_written_as_a_whole_are_written_again_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    assert (await life.put(b"one")).code == codes.CHANGED
    whole_write = os.write

    def short_write(descriptor: int, data: bytes) -> int:
        return whole_write(descriptor, data[:-1])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", short_write)
        failed = await life.put(b"two")
    assert failed.code == codes.SERVICE_UNAVAILABLE
    assert b"not written as a whole" in failed.payload
    assert (await life.put(b"three")).code == codes.CHANGED
    later = Life(tmp_path)
    assert (await later.put(b"three")).code == codes.GATEWAY_TIMEOUT
    assert (await later.put(b"one")).code == codes.GATEWAY_TIMEOUT
