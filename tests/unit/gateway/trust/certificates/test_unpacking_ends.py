"""A process that opens a key store for another one, and ends without having told what it holds."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from gateway.trust.certificates import key_work, unpacking
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.certificates.unpacking import unpacked

TOO_MUCH = f"to open it takes more than {unpacking.CPU_S} s of a processor and 512 MiB"


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (-9, b"", TOO_MUCH),
        (-24, b"first\nlast\n", TOO_MUCH),
        (1, b"Traceback:\n  a line\nMemoryError: Unable to allocate\n", TOO_MUCH),
        (1, b"MemoryError\nRuntimeError: no\n\n", "the process that opens it ended with 1: Runt"),
        (3, b"", "the process that opens it ended with 3: it says nothing"),
        (0, b" \n", "the process that opens it ended with 0: it says nothing"),
        (2, b"x" * 500, f"the process that opens it ended with 2: {'x' * 200}$"),
        (2, b"\x1b[1m\xff", r"ended with 2: [^\x1b\xff]+$"),
    ],
)
def test_why_it_ended_is_told_by_its_last_line_and_what_it_may_take(
    monkeypatch: pytest.MonkeyPatch, code: int, said: bytes, why: str
) -> None:
    def ended(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, code, b"", said)

    monkeypatch.setattr(subprocess, "run", ended)
    with pytest.raises(Pkcs12Error, match=f"^(the process that opens it )?{why}"):
        unpacked(b"store", None)


def test_a_process_that_goes_on_for_too_long_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", waits)
    with pytest.raises(Pkcs12Error, match="it is not opened within 60 s"):
        unpacked(b"store", None)


def test_a_file_that_is_too_long_is_given_to_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[list[str]] = []

    def notes(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        given.append(command)
        return subprocess.CompletedProcess(command, 0, b'{"why": "not this one"}', b"")

    monkeypatch.setattr(subprocess, "run", notes)
    with pytest.raises(Pkcs12Error, match=f"^{key_work.MOST_BYTES + 1} bytes, over"):
        unpacked(bytes(key_work.MOST_BYTES + 1), None)
    assert given == []
    with pytest.raises(Pkcs12Error, match=r"^not this one$"):
        unpacked(bytes(key_work.MOST_BYTES), b"password")
    assert len(given) == 1
    assert given[0][-2:] == [str(512 << 20), "10"], "bytes of memory, and seconds of a processor"
