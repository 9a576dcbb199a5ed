"""A card is written and read to the end of each piece, and says at which byte it fails."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from missing_peer import skip_or_fail_in_ci

from gateway.tools.flashing import block_devices, card, injection
from gateway.tools.flashing.boot_partition import BootPartition, autoboot_partition
from gateway.tools.flashing.card import Card
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.errors import CardWriteError, ReadBackError, RefusalError
from gateway.tools.flashing.kit import CardKit


@pytest.fixture
def file(tmp_path: Path) -> Iterator[tuple[Card, Path]]:
    path = tmp_path / "card.img"
    with card.opened(path, is_device=False) as made:
        yield made, path


def test_a_piece_that_is_taken_and_given_in_parts_is_whole_in_the_end(
    file: tuple[Card, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = file
    write, read = os.pwrite, os.preadv
    # The kernel takes parts of a block that way alone; past its caches it takes whole ones.
    cached = os.open(path, os.O_RDWR)

    def write_some(_descriptor: int, data: memoryview, at: int) -> int:
        return write(cached, data[:1000], at)

    def read_some(_descriptor: int, buffers: list[memoryview], at: int) -> int:
        return read(cached, [buffers[0][:700]], at)

    data = os.urandom(4096)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", write_some)
        patched.setattr(os, "preadv", read_some)
        made.write_at(4096, data)
        assert made.read_at(4096, 4096) == data
        assert made.read_at(8000, 4096) == data[3904:], "less where it ends"
    os.close(cached)
    assert path.read_bytes() == bytes(4096) + data


def check_reads_past_caches(path: Path) -> None:
    """Skip where files are in memory, or it is no Linux: what is past the caches is not there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_DIRECT))
    except (AttributeError, OSError) as error:
        skip_or_fail_in_ci(f"{path.parent}: a file system with O_DIRECT ({error})")


@pytest.mark.parametrize(
    ("offset_bytes", "size_bytes", "is_past"),
    [(0, 4096, True), (4096, 8192, True), (512, 4096, False), (4096, 100, False)],
)
def test_whole_pages_are_read_past_the_caches_and_nothing_else_is(
    tmp_path: Path, offset_bytes: int, size_bytes: int, is_past: bool
) -> None:
    path = tmp_path / "card.img"
    path.write_bytes(os.urandom(16_384))
    check_reads_past_caches(path)
    descriptor = os.open(path, os.O_RDWR)
    made = Card(descriptor, "card", is_device=False)
    found = made.read_at(offset_bytes, size_bytes)
    is_direct = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)
    made.close()
    assert found == path.read_bytes()[offset_bytes : offset_bytes + size_bytes]
    assert is_direct == is_past


def test_a_card_that_takes_nothing_more_is_full(
    file: tuple[Card, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = file
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(CardWriteError) as raised:
        made.write_at(5 << 20, b"a")
    assert str(raised.value) == f"{path}: full at 5 MiB: the image is larger"


@pytest.mark.parametrize(
    ("number", "why"), [(errno.EBUSY, "in use"), (errno.EROFS, "Read-only file system")]
)
def test_a_card_that_can_not_be_opened_says_why(
    number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with (
            pytest.raises(RefusalError) as raised,
            card.opened(tmp_path / "sdb", is_device=True),
        ):
            pytest.fail("it is open")
    assert str(raised.value) == f"--to: {tmp_path}/sdb: {why}"


def test_a_disk_that_is_not_there_is_named(tmp_path: Path) -> None:
    why = f"^--to: {tmp_path}/sdb: No such file or directory$"
    with pytest.raises(RefusalError, match=why):
        block_devices.facts(tmp_path / "sdb")
    with pytest.raises(RefusalError, match=why):
        block_devices.contents(tmp_path / "sdb")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("boot_partition=2\n", 2),
        ("[all]\ntryboot_a_b=1\nboot_partition = 2\n[tryboot]\nboot_partition=3\n", 2),
        ("[tryboot]\nboot_partition=3\n[all]\nboot_partition=2\n", 2),
        ("[none]\nboot_partition=3\n", None),
        ("[all]\nboot_partition=2\nboot_partition=12\n", 12),
        ("[all]\n boot_partition=2 \n#boot_partition=3\n", 2),
        ("[all]\nboot_partition=two\n", None),
        ("", None),
    ],
)
def test_autoboot_txt_names_the_partition_of_a_start_that_is_no_try(
    text: str, number: int | None
) -> None:
    # Raspberry Pi documentation, autoboot.txt; as in config.txt, a later line counts.
    assert autoboot_partition(text) == number


class RunMtools:
    """Stands in for `subprocess.run`: a program of mtools that says what it is told to."""

    def __init__(self, said: bytes = b"", errors: bytes = b"", code: int = 0) -> None:
        self._answer = (code, said, errors)
        self.called: list[tuple[str, ...]] = []

    def __call__(self, command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[bytes]:
        self.called.append(command)
        code, said, errors = self._answer
        return subprocess.CompletedProcess(command, code, said, errors)


def boot(monkeypatch: pytest.MonkeyPatch, answer: RunMtools) -> BootPartition:
    monkeypatch.setattr(subprocess, "run", answer)
    return BootPartition(Path("/dev/sdb"), 4096)


def test_files_and_room_of_a_boot_partition_are_what_mdir_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mdir = RunMtools(b"::/Config.txt\n::/OVERLAYS/\n")
    assert boot(monkeypatch, mdir).names() == {"config.txt", "overlays"}
    assert mdir.called == [("mdir", "-b", "-a", "-i", "/dev/sdb@@4096", "::/")]
    said = b"        3 files          12 345 bytes\n                     1 234 567 bytes free\n"
    assert boot(monkeypatch, RunMtools(said)).free_bytes() == 1_234_567
    with pytest.raises(CardWriteError, match=r"^/dev/sdb: mdir does not say what is free$"):
        boot(monkeypatch, RunMtools(b"no word")).free_bytes()


def test_a_program_of_mtools_that_fails_is_told_with_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for errors, why in ((b"Disk\n  full\n", "Disk full"), (b"", "failed")):
        with pytest.raises(CardWriteError) as raised:
            boot(monkeypatch, RunMtools(errors=errors, code=1)).names()
        assert str(raised.value) == f"/dev/sdb: boot partition: mdir: {why}"

    def lacks(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", lacks)
    with pytest.raises(CardWriteError, match=r"^/dev/sdb: mdir: \[Errno 2\] No such file"):
        BootPartition(Path("/dev/sdb"), 0).names()


def test_a_file_that_reads_back_as_another_is_no_good_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # FIPS 180-2, appendix B.1.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    boot(monkeypatch, RunMtools(b"abc")).verify("wheels.tar", digest)
    with pytest.raises(ReadBackError) as raised:
        boot(monkeypatch, RunMtools(b"abd")).verify("wheels.tar", digest)
    assert str(raised.value) == "/dev/sdb: wheels.tar was read back differently"


def test_an_image_without_a_kernels_command_line_is_no_pis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mdir = RunMtools(b"::/config.txt\n")
    kit = CardKit(CardDevice(id="gw-a"), {}, Path("wheels.tar"), "", "", 0)
    with pytest.raises(CardWriteError) as raised:
        injection.inject(boot(monkeypatch, mdir), kit, "auto", lambda: None)
    assert str(raised.value) == "the image's boot partition has no cmdline.txt: it is no Pi's"
    assert [command[0] for command in mdir.called] == ["mdir"], "nothing is written"
