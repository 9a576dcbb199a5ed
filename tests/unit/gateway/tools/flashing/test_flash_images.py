"""Images of a Pi are checked, found by name, and unpacked as they were packed."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import lzma
import struct
import subprocess
import uuid
import zipfile
from pathlib import Path

import flash_images
import pytest
from flash_images import MIB
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.flashing import authenticity, base_image, image_folder, partition_table
from gateway.tools.flashing.errors import CardWriteError, RefusalError
from gateway.tools.flashing.partition_table import PartitionKind


def gpt(first_kind: str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b") -> bytes:
    kinds = (first_kind, "0fc63daf-8483-4772-8e79-3d69d8477de4")
    entries = b"".join(
        uuid.UUID(kind).bytes_le
        + uuid.uuid4().bytes
        + struct.pack("<QQ", 2048 * n, 2048 * (n + 1) - 1)
        + bytes(80)
        for n, kind in enumerate(kinds, 1)
    )
    header = b"EFI PART" + bytes(64) + struct.pack("<QII", 2, 128, 128)
    table = flash_images.mbr((0xEE, 512, 3 * MIB)) + header.ljust(512, b"\0")
    image = bytearray((table + entries).ljust(3 * MIB + 33 * 512, b"\0"))
    image[MIB : MIB + 512] = flash_images.fat_sector()
    return bytes(image)


def read_all(path: Path) -> bytes:
    with base_image.opened(path) as image:
        return b"".join(iter(lambda: image.read(700_001), b""))


def test_partitions_of_an_mbr_are_found_with_the_boot_and_the_root_partition() -> None:
    table = partition_table.parse(flash_images.small())
    assert (table.scheme, table.end_bytes) == ("MBR", 3 * MIB)
    assert table.boot.start_bytes == MIB
    assert table.root is not None
    assert table.root.start_bytes == 2 * MIB


def test_partitions_of_a_gpt_are_found_and_its_second_table_has_room() -> None:
    table = partition_table.parse(gpt())
    assert (table.scheme, table.end_bytes) == ("GPT", 3 * MIB + 33 * 512)
    assert [one.kind for one in table.partitions] == [PartitionKind.FAT, PartitionKind.LINUX]


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (b"", "no partition table"),
        (bytes(3 * MIB), "no partition table"),
        (b"<!doctype html>".ljust(2 * MIB), "no partition table"),
        (flash_images.mbr().ljust(MIB, b"\0"), "has no partitions"),
        (flash_images.mbr((0x83, MIB, MIB)).ljust(2 * MIB, b"\0"), "no FAT partition"),
        (flash_images.mbr((0x0C, MIB, MIB)).ljust(2 * MIB, b"\0"), "no FAT file system"),
        (flash_images.mbr((0x0C, 1 << 30, MIB)).ljust(2 * MIB, b"\0"), "begins at 1073741824"),
        (flash_images.mbr((0x0C, MIB, 2 * MIB), (0x83, 2 * MIB, MIB)), "begins in another one"),
        (flash_images.mbr((0x0C, 0, MIB)), "begins in another one"),
        (flash_images.mbr((0xEE, 512, MIB)).ljust(MIB, b"\0"), "promises a GPT"),
        (gpt("0fc63daf-8483-4772-8e79-3d69d8477de4"), "no FAT partition"),
    ],
)
def test_what_is_no_image_of_a_pi_is_refused_by_name(
    image: bytes, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "some.img"
    file.write_bytes(image)
    with pytest.raises(RefusalError, match=rf"some.img: .*{why}"):
        read_all(file)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (bytes(4096), ""),
        (b"", ""),
        (b"photographs".ljust(4096, b"\0"), "data without a partition table"),
        (flash_images.mbr((0x07, MIB, 32 << 30)), "1 partition (other 34.4 GB)"),
        (flash_images.mbr((0x0C, MIB, 1 << 30), (0x83, 2 << 30, 3 << 30)),
         "2 partitions (FAT 1.1 GB, Linux 3.2 GB)"),
        (gpt()[:MIB], "2 partitions (FAT 0.0 GB, Linux 0.0 GB)"),
    ],
)  # fmt: skip
def test_what_is_on_a_card_is_said_before_it_is_written_over(head: bytes, said: str) -> None:
    assert partition_table.described(head) == said


@given(head=st.binary(max_size=2048), is_gpt=st.booleans())
def test_any_first_bytes_are_a_table_or_refused(head: bytes, is_gpt: bool) -> None:
    data = bytearray(gpt()[:4096] if is_gpt else flash_images.small()[:4096])
    data[446 : 446 + len(head)] = head
    data[510:512] = b"\x55\xaa"
    try:
        table = partition_table.parse(bytes(data))
    except RefusalError:
        return
    assert all(
        512 <= one.start_bytes < one.end_bytes <= table.end_bytes for one in table.partitions
    )


@pytest.mark.parametrize("packing", ["img", "xz", "two xz", "gz", "zip"])
def test_an_image_comes_out_as_it_was_packed(packing: str, tmp_path: Path) -> None:
    image = flash_images.small() + hashlib.sha256(b"tail").digest() * 20_000
    file = tmp_path / "image"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("readme.txt", "no image")
        packed.writestr("raspios.img", image)
    file.write_bytes(
        {
            "img": image,
            "xz": lzma.compress(image),
            "two xz": lzma.compress(image[:MIB]) + bytes(8) + lzma.compress(image[MIB:]),
            "gz": gzip.compress(image),
            "zip": archive.getvalue(),
        }[packing]
    )
    assert read_all(file) == image


@pytest.mark.parametrize("packing", ["xz", "gz", "zip"])
def test_a_packed_image_that_is_cut_off_or_damaged_says_so(packing: str, tmp_path: Path) -> None:
    noise = b"".join(hashlib.sha256(bytes([n % 251, n % 256])).digest() for n in range(100_000))
    image = flash_images.small() + noise
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("raspios.img", image)
    whole = {"xz": lzma.compress(image), "gz": gzip.compress(image), "zip": archive.getvalue()}
    data = bytearray(whole[packing])
    data[-1000] ^= 0x55 if packing != "zip" else 0
    data[len(data) // 2] ^= 0x55
    file = tmp_path / "image.xz"
    file.write_bytes(data)
    with pytest.raises(CardWriteError, match=r"image.xz: damaged"):
        read_all(file)
    if packing != "zip":
        file.write_bytes(whole[packing][: len(data) // 2])
        with pytest.raises(CardWriteError, match=r"image.xz: damaged"):
            read_all(file)


def test_an_archive_has_one_image(tmp_path: Path) -> None:
    file = tmp_path / "images.zip"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("readme.txt", "no image")
    with pytest.raises(RefusalError, match=r"0 files end with \.img"):
        read_all(file)


# -- what vouches for it ---------------------------------------------------------------------------


def test_a_checksum_beside_an_image_or_on_the_command_line_has_to_be_its_own(
    tmp_path: Path,
) -> None:
    image = tmp_path / "raspios.img.xz"
    image.write_bytes(b"image")
    own = hashlib.sha256(b"image").hexdigest()
    assert not authenticity.check(image, None, None).is_checked
    assert authenticity.check(image, own.upper(), None).checksum_from == "--sha256"
    with pytest.raises(RefusalError, match="and --sha256 says 0000"):
        authenticity.check(image, "0" * 64, None)
    with pytest.raises(RefusalError, match="is no SHA-256"):
        authenticity.check(image, "abc", None)
    beside = tmp_path / "raspios.img.xz.sha256"
    beside.write_text(f"{'1' * 64}  other.img.xz\n{own} *raspios.img.xz\n")
    assert authenticity.check(image, None, None).checksum_from == str(beside)
    image.write_bytes(b"imagE")
    with pytest.raises(RefusalError, match=r"raspios.img.xz.sha256 says"):
        authenticity.check(image, None, None)
    beside.write_text("nothing\n")
    with pytest.raises(RefusalError, match=r"has no SHA-256 of raspios.img.xz"):
        authenticity.check(image, None, None)


def test_a_folder_may_have_one_file_of_all_checksums_which_names_the_image(tmp_path: Path) -> None:
    image, sums = tmp_path / "debian.img.xz", tmp_path / "SHA256SUMS"
    image.write_bytes(b"image")
    own = hashlib.sha256(b"image").hexdigest()
    sums.write_text(f"{'1' * 64}  other.img.xz\n{own}  debian.img.xz\n")
    assert authenticity.check(image, None, None).checksum_from == str(sums)
    image.write_bytes(b"imagE")
    with pytest.raises(RefusalError, match=r"SHA256SUMS says"):
        authenticity.check(image, None, None)
    # What stands there without a name is of no certain file.
    for text in (f"{'1' * 64}\n", f"{'1' * 64}  other.img.xz\n"):
        sums.write_text(text)
        assert not authenticity.check(image, None, None).is_checked
    # The image's own file counts first.
    image.with_name("debian.img.xz.sha256").write_text(hashlib.sha256(b"imagE").hexdigest())
    assert authenticity.check(image, None, None).checksum_from.endswith("debian.img.xz.sha256")


TRIXIE = "2025-11-24-raspios-trixie-arm64-lite.img.xz"
BOOKWORM = "2025-05-06-raspios-bookworm-arm64-lite.img.xz"


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    for name in (TRIXIE, BOOKWORM, "raspios.img", "raspios-full.img.gz", "old.zip", "readme.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f"{TRIXIE}.sha256").write_bytes(b"")
    (tmp_path / "folder.img").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (TRIXIE, TRIXIE),
        (TRIXIE.removesuffix(".img.xz"), TRIXIE),
        ("trixie", TRIXIE),
        ("Trixie-arm64", TRIXIE),
        ("raspios", "raspios.img"),  # the whole name of one, though it is a part of others'
        ("full", "raspios-full.img.gz"),
        ("OLD", "old.zip"),
    ],
)
def test_an_image_is_found_by_its_name_or_by_a_part_that_no_other_has(
    wanted: str, name: str, downloads: Path
) -> None:
    assert image_folder.find(downloads, wanted) == downloads / name


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("arm64-lite", f"the name of several, so give more of it: {BOOKWORM}, {TRIXIE}$"),
        ("sid", f"'sid': .* has {BOOKWORM}, {TRIXIE}, old.zip, raspios-full.img.gz, raspios.img$"),
        ("", "'': .* has "),
        ("readme", "'readme': .* has "),
        ("../secret.img", "'../secret.img': .* has "),
    ],
)
def test_a_name_of_no_image_or_of_several_is_answered_with_what_there_is(
    wanted: str, why: str, downloads: Path
) -> None:
    with pytest.raises(RefusalError, match=why):
        image_folder.find(downloads, wanted)


def test_a_folder_without_an_image_or_that_can_not_be_read_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match=f"--images: {tmp_path}: no image in it"):
        image_folder.find(tmp_path, "trixie")
    with pytest.raises(RefusalError, match=r"--images: .*none: No such file"):
        image_folder.find(tmp_path / "none", "trixie")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of gpg with a key; gpg's sockets want a short path."""
    home = tmp_path_factory.mktemp("g")
    home.chmod(0o700)
    gpg(home, "--quick-generate-key", "--passphrase", "", "images@example.org", "ed25519", "sign")
    return home


def gpg(home: Path, *arguments: str | Path) -> bytes:
    command = ("gpg", "--homedir", home, "--batch", "--yes", "--quiet", *arguments)
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.peer("gpg", "gpg")
@pytest.mark.peer("gpgv", "gpgv")
@pytest.mark.parametrize("armour", ["--no-armor", "--armor"])
def test_a_signature_has_to_be_of_the_keyring_and_of_this_image(
    signer: Path, armour: str, tmp_path: Path
) -> None:
    image, keyring = tmp_path / "raspios.img", tmp_path / "keys.pgp"
    image.write_bytes(b"image")
    keyring.write_bytes(gpg(signer, armour, "--export"))
    with pytest.raises(RefusalError, match="no signature beside the image"):
        authenticity.check(image, None, keyring)
    gpg(signer, armour, "--detach-sign", "--output", tmp_path / "raspios.img.sig", image)
    assert "images@example.org" in authenticity.check(image, None, keyring).signed_by
    image.write_bytes(b"another")
    with pytest.raises(RefusalError, match="no good signature"):
        authenticity.check(image, None, keyring)
    image.write_bytes(b"image")
    keyring.write_bytes(b"")
    with pytest.raises(RefusalError, match="no good signature"):
        authenticity.check(image, None, keyring)


@pytest.mark.peer("gpg", "gpg")
@pytest.mark.peer("gpgv", "gpgv")
@pytest.mark.parametrize("ending", ["sign", "gpg", "asc"])
def test_a_signature_of_the_folders_checksums_vouches_for_the_images_that_they_name(
    signer: Path, ending: str, tmp_path: Path
) -> None:
    image, keyring, sums = (tmp_path / name for name in ("debian.img", "keys.pgp", "SHA256SUMS"))
    image.write_bytes(b"image")
    keyring.write_bytes(gpg(signer, "--export"))
    sums.write_text(f"{hashlib.sha256(b'image').hexdigest()}  debian.img\n")
    gpg(signer, "--detach-sign", "--output", tmp_path / f"SHA256SUMS.{ending}", sums)
    assert "images@example.org" in authenticity.check(image, None, keyring).signed_by
    sums.write_text(f"{sums.read_text()}{'1' * 64}  more.img\n")
    with pytest.raises(RefusalError, match="no good signature"):
        authenticity.check(image, None, keyring)
    # It says nothing of an image that the checksums don't name.
    sums.write_text("")
    with pytest.raises(RefusalError, match="no signature beside the image"):
        authenticity.check(image, None, keyring)


def test_a_partition_of_a_gpt_that_ends_before_it_begins_is_refused() -> None:
    image = bytearray(gpt())
    # The second entry: its last sector (UEFI specification 2.10, table 5-6).
    struct.pack_into("<Q", image, 2 * 512 + 128 + 40, 2 * 2048 - 1)
    with pytest.raises(RefusalError) as raised:
        partition_table.parse(bytes(image))
    assert str(raised.value) == "no image of a disk: partition 2 ends before it begins"
    struct.pack_into("<Q", image, 2 * 512 + 128 + 40, 2 * 2048)
    assert partition_table.parse(bytes(image)).partitions[1].size_bytes == 512


def test_a_boot_partition_begins_within_the_first_64_mib() -> None:
    for at, is_near in (((64 << 20) - 512, True), (64 << 20, False)):
        table = partition_table.parse(flash_images.mbr((0x0C, at, 512)))
        if is_near:
            assert table.boot.start_bytes == at
            continue
        with pytest.raises(RefusalError, match=r"its boot partition begins at 67108864 bytes$"):
            _ = table.boot


@pytest.mark.parametrize(
    ("head", "told"),
    [
        (bytes(512), ""),
        (b"a".ljust(512, b"\0"), "data without a partition table"),
        (flash_images.mbr((0x07, MIB, 2_500_000_000)), "1 partition (other 2.5 GB)"),
        (
            flash_images.mbr((0x0C, MIB, MIB), (0x83, 2 * MIB, 1 << 30)),
            "2 partitions (FAT 0.0 GB, Linux 1.1 GB)",
        ),
    ],
)
def test_what_is_on_a_disk_is_told_in_words(head: bytes, told: str) -> None:
    assert partition_table.described(head) == told


@pytest.mark.parametrize("number", [errno.EIO, None])
def test_an_image_whose_disk_fails_is_refused(number: int | None, tmp_path: Path) -> None:
    image = tmp_path / "a.img"
    if number is None:
        with pytest.raises(RefusalError) as raised, base_image.opened(image):
            pytest.fail("it is read")
        assert str(raised.value) == f"--image: {image}: No such file or directory"
        return

    def fail(_size: int) -> bytes:
        raise OSError(number, "Input/output error")

    with pytest.raises(RefusalError) as raised:
        base_image.BaseImage("a.img", fail)
    assert str(raised.value) == "a.img: Input/output error"


def test_a_zip_that_is_cut_off_is_refused_by_its_name(tmp_path: Path) -> None:
    image = tmp_path / "a.zip"
    image.write_bytes(b"PK\x03\x04 cut off")
    with (
        pytest.raises(RefusalError, match=r"^a\.zip: File is not a zip file$"),
        base_image.opened(image),
    ):
        pytest.fail("it is read")


def test_a_keyring_or_a_checksum_that_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, keyring = tmp_path / "a.img", tmp_path / "keys.gpg"
    image.write_bytes(b"image")
    (tmp_path / "a.img.sha256").mkdir()
    with pytest.raises(RefusalError) as raised:
        authenticity.check(image, None, None)
    assert str(raised.value) == f"{tmp_path}/a.img.sha256: Is a directory"
    (tmp_path / "a.img.sha256").rmdir()
    (tmp_path / "a.img.sig").touch()
    (tmp_path / "gpgv").write_text("#!/nowhere\n")
    (tmp_path / "gpgv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefusalError) as raised:
        authenticity.check(image, None, keyring)
    assert str(raised.value) == f"--keyring: {keyring}: No such file or directory"
    keyring.touch()
    with pytest.raises(RefusalError, match=f"^{image}.sig: gpgv: .*No such file"):
        authenticity.check(image, None, keyring)
