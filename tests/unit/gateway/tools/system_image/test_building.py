"""Goal: a build puts a root, its image, its bill and its signatures together, or leaves no image.

The programs that it calls are stand-ins, which note how they are called.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.tools.system_image import boot_files, building, content, file_systems
from gateway.tools.system_image.building import BuiltImage
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageSizes
from gateway.tools.system_image.order import BASES, ImageOrder
from gateway.tools.system_image.root_file_system import RootFileSystem
from gateway.tools.system_slots.slots import AUTOBOOT_NAME

EPOCH_S = 1_790_000_000
STATUS = "Package: libc6\nStatus: install ok installed\nVersion: 2\nArchitecture: arm64\n"
MMDEBSTRAP = """
for at do [ "$at" = - ] || root=$at; done
{ cat; printf '%s\\n' "$@"; env | grep -e ^TZ= -e ^SOURCE_DATE_EPOCH=; } >@/mmdebstrap
cp -a @/template "$root"
"""
UNSHARE = 'shift 4; root=$1; shift; echo "$*" >>@/chroot; [ -d "$root/etc" ]\n'
NOTED = 'cat >@/input; echo "${0##*/} $*" >>@/noted\n'
MKE2FS = """
echo "${0##*/} $*" >>@/noted
while [ $# -gt 0 ]; do
    [ "$1" = -L ] && label=$2
    [ "$1" = -d ] && cp -a "$2" "@/tree-$label"
    shift
done
"""
MCOPY = 'for at do :; done; mkdir -p "@/fat/${2##*@}"; cat >"@/fat/${2##*@}/${at##*/}"\n'
DEBUGFS = "cat >@/debugfs; printf 'Inode count:   20\\nFree inodes:   8\\n'\n"
XZ = 'for at do :; done; echo "xz $*" >>@/noted; mv "$at" "$at.xz"; printf packed >"$at.xz"\n'
GPG = """
echo "gpg $*" >>@/noted
while [ $# -gt 0 ]; do [ "$1" = --output ] && to=$2; shift; done
[ -e @/no-key ] || printf signed >"$to"
"""
PYTHON = """
echo "$*" >@/played; cp "$5" @/inventory
about=$(sed -n 's/.*"image_about": "\\([^"]*\\)".*/\\1/p' "$5")
echo '{"release": "0.1.0-cp313-aarch64"}' >"$about"
"""
"""Ansible, as it is called: python -m ansible playbook -i INVENTORY ..."""


class BuildBed:
    """A project, a Debian, and programs that note what they are told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.owners: dict[str, tuple[int, int]] = {}
        self.told: list[str] = []
        programs = {"mmdebstrap": MMDEBSTRAP, "unshare": UNSHARE, "mke2fs": MKE2FS, "xz": XZ}
        programs |= {"mcopy": MCOPY, "debugfs": DEBUGFS, "gpg": GPG, "python": PYTHON}
        programs |= dict.fromkeys(("sfdisk", "mkfs.vfat", "mmd"), NOTED)
        for name, text in programs.items():
            self.write(f"bin/{name}", "#!/bin/sh\n" + text.replace("@/", f"{folder}/"))
            (folder / "bin" / name).chmod(0o755)
        for name, text in {
            "deploy/image/root/etc/fstab": "PARTUUID=00000000-05 / ext4\n",
            "deploy/image/root/etc/systemd/system/hedgerow-system.service": "[Service]\n",
            "deploy/image/root/usr/lib/hedgerow/grow-data": "#!/bin/sh\n",
            "deploy/image/boot/cmdline.txt": "root=PARTUUID=00000000-05 panic=10\n",
            "deploy/image/boot/bootcode.bin": "first stage",
            "deploy/ansible/image.yml": "",
        }.items():
            self.write(f"project/{name}", text)
        for name in (
            *("var/cache/apt/pkgcache.bin", "var/log/dpkg.log", "tmp/left", "etc/hosts"),
            *("etc/ssh/ssh_host_ed25519_key", "etc/passwd-", "proc/1/stat", "boot/firmware/old"),
            *("boot/firmware/overlays/old.dtbo", "opt/hedgerow/releases/a/__pycache__/b.pyc"),
            "etc/systemd/system/left",
        ):
            self.write(f"template/{name}", "of the builder")
        self.write("template/var/lib/dpkg/status", STATUS)
        (folder / "template/var/log/gone").symlink_to("/nowhere")
        self._make_wheels(folder / ".cache/hedgerow/wheelhouse/0.1.0-cp313-aarch64.tar")
        (folder / "output").mkdir()
        monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setattr(sys, "executable", str(folder / "bin/python"))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "chown", self._own)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def order(self, name: str = "a.img", *, sign: str = "", has_gateway: bool = True) -> ImageOrder:
        return ImageOrder(
            project=self.project,
            base=BASES["debian"],
            suite="trixie",
            architecture="arm64",
            mirrors=(),
            keyring=None,
            packages=("python3",),
            has_kernel=False,
            has_gateway=has_gateway,
            is_compiled=False,
            roles=("watchdog",),
            variables=None,
            sizes=ImageSizes(boot=36, root=8, data=8),
            epoch_s=EPOCH_S,
            output=self.folder / "output" / name,
            sign=sign,
        )

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def outputs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "output").iterdir())

    def _own(self, path: Path, user: int, group: int) -> None:
        name = str(path).partition("/data")[2].lstrip("/")
        self.owners[name] = (user, group)

    @staticmethod
    def _make_wheels(path: Path) -> None:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as wheel:
            wheel.writestr("hedgerow-0.1.0.dist-info/METADATA", "Name: hedgerow\nVersion: 0.1.0\n")
        path.parent.mkdir(parents=True)
        with tarfile.open(path, "w") as archive:
            about = tarfile.TarInfo("hedgerow-0.1.0-py3-none-any.whl")
            about.size = len(made.getvalue())
            archive.addfile(about, io.BytesIO(made.getvalue()))


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildBed:
    return BuildBed(tmp_path, monkeypatch)


SIGNER = "builder@example.org"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BuildBed, BuiltImage]]:
    """An image with all that can be ordered."""
    with pytest.MonkeyPatch.context() as patched:
        bed = BuildBed(tmp_path_factory.mktemp("build"), patched)
        for name in ("variables.yml", "keys.gpg"):
            bed.write(name, "")
        os.utime(bed.folder / "template/etc/hosts", (5, 5))
        order = replace(
            bed.order("a.img.xz", sign=SIGNER),
            variables=bed.folder / "variables.yml",
            keyring=bed.folder / "keys.gpg",
            mirrors=("http://own/{suite} ./", "http://b x"),
            is_compiled=True,
        )
        grow = bed.project / "deploy/image/root/usr/lib/hedgerow/grow-data"
        grow.chmod(0o700)
        (bed.project / "deploy/image/root/etc").chmod(0o700)
        before = os.umask(0o077)
        made = building.build(order, bed.told.append)
        assert os.umask(before) == 0o077, "it is given back"
    yield bed, made


def test_a_build_leaves_the_image_its_checksum_its_bill_and_both_signatures(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, image = built
    assert bed.outputs() == [
        *("a.img.xz", "a.img.xz.sha256", "a.img.xz.sig"),
        *("a.img.xz.spdx.json", "a.img.xz.spdx.json.sig"),
    ]
    output = bed.folder / "output"
    sha256 = hashlib.sha256(b"packed").hexdigest()
    assert (image.image, image.sha256, image.packages) == (output / "a.img.xz", sha256, 2)
    assert re.fullmatch(r"0\.1\.0-trixie-[0-9a-f]{12}", image.version)
    assert bed.lines("output/a.img.xz.sha256") == [f"{sha256}  a.img.xz"]
    bill = json.loads((output / "a.img.xz.spdx.json").read_text())
    assert [one["name"] for one in bill["packages"]] == ["a.img.xz", "libc6", "hedgerow"]
    assert bed.told == [
        *("packages of trixie for arm64", "roles and gateway", f"image of {image.version}"),
        *("packing", f"signature of {SIGNER}"),
    ]
    gpg = [line for line in bed.lines("noted") if line.startswith("gpg ")]
    assert gpg[0].endswith(f"/usr/lib/hedgerow/system-keyring.pgp --export {SIGNER}")
    assert gpg[1:] == [
        f"gpg --batch --yes --local-user {SIGNER} --output {output}/{name}.sig"
        f" --detach-sign {output}/{name}"
        for name in ("a.img.xz", "a.img.xz.spdx.json")
    ]
    [packing] = [line for line in bed.lines("noted") if line.startswith("xz ")]
    assert packing == f"xz --threads=2 --block-size=24MiB -6 --force {output}/a.img.part"
    keyring = bed.folder / "tree-rootfs/usr/lib/hedgerow/system-keyring.pgp"
    assert (keyring.read_text(), stat.S_IMODE(keyring.stat().st_mode)) == ("signed", 0o644)


def test_a_root_has_its_files_its_unit_and_nothing_of_the_builder(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, image = built
    root = bed.folder / "tree-rootfs"
    for folder in ("var/cache", "var/log", "tmp", "proc", "boot/firmware", "data", "etc/ssh"):
        assert list((root / folder).iterdir()) == [], folder
    assert {path.name for path in (root / "etc").iterdir()} == {
        *("default", "fstab", "hedgerow", "hostname", "hosts", "machine-id", "modules-load.d"),
        *("ssh", "sysctl.d", "systemd"),
    }
    assert (root / "etc/machine-id").read_text() == ""
    assert (root / "etc/hostname").read_text() == "hedgerow\n"
    assert list((root / "opt/hedgerow").rglob("*.pyc")) == []
    units = root / "etc/systemd/system"
    unit = (units / "hedgerow.service").read_text()
    assert unit.count("[Unit]\nConditionPathExists=/etc/hedgerow/hedgerow.toml\n") == 1
    assert (
        unit.count("ExecStart=/opt/hedgerow/interpreter/interpreter.sh run /opt/hedgerow run ") == 1
    )
    links = (units / "multi-user.target.wants").iterdir()
    assert {path.name: str(path.readlink()) for path in links} == {
        name: f"/etc/systemd/system/{name}"
        for name in ("hedgerow.service", "hedgerow-first-start.service", "hedgerow-system.service")
    }
    assert json.loads((root / "usr/lib/hedgerow/system.json").read_text()) == {
        "version": image.version,
        "suite": "trixie",
        "architecture": "arm64",
        "built_s": EPOCH_S,
    }
    assert bed.lines("chroot") == [
        "/usr/sbin/groupadd --system --gid 880 hedgerow",
        "/usr/sbin/useradd --system --uid 880 --gid 880 --no-create-home"
        " --home-dir /var/lib/hedgerow --shell /usr/sbin/nologin hedgerow",
        "/usr/bin/env PYTHONHASHSEED=0 /usr/bin/python3 -m compileall -q -j1"
        " --invalidation-mode unchecked-hash /opt/hedgerow/releases",
    ]
    # Nothing is younger than the image, and what is older stays so.
    times = {name: int((root / "etc" / name).stat().st_mtime) for name in ("hosts", "hostname")}
    assert times == {"hosts": 5, "hostname": EPOCH_S}


def test_modes_in_an_image_are_not_those_of_whoever_builds_it(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    root = built[0].folder / "tree-rootfs"
    modes = {
        "proc": 0o555,
        **dict.fromkeys(("", "etc", "data", "etc/sysctl.d", "usr/lib/hedgerow"), 0o755),
        **dict.fromkeys(("etc/fstab", "etc/hostname", "usr/lib/hedgerow/system.json"), 0o644),
        "etc/systemd/system/hedgerow.service": 0o644,
        "usr/lib/hedgerow/grow-data": 0o755,
    }
    assert {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes} == modes


def test_the_roles_are_played_in_the_root_with_what_was_ordered(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, _ = built
    told = json.loads((bed.folder / "inventory").read_text())["images"]["hosts"]["root"]
    folder = Path(told.pop("image_about")).parent
    assert told == {
        "ansible_ssh_executable": str(folder / "in-chroot"),
        "ansible_ssh_transfer_method": "piped",
        "ansible_remote_tmp": "/tmp/.ansible",
        "gateway_source_dir": str(bed.project),
        "gateway_compiled": True,
        "gateway_python": "/usr/bin/python3",
        "image_roles": ["watchdog"],
        "image_kind": "cp313-aarch64",
    }
    [played] = bed.lines("played")
    assert played == (
        f"-m ansible playbook -i {folder}/inventory.json image.yml -e @{bed.folder}/variables.yml"
    )
    assert not folder.exists(), "a build leaves what it made beside"


def test_packages_come_from_the_archives_and_by_the_keys_that_were_named(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, _ = built
    keyring = f"{bed.folder}/keys.gpg"
    told = bed.lines("mmdebstrap")
    assert told[:2] == [
        f"deb [signed-by={keyring}] http://own/trixie ./",
        f"deb [signed-by={keyring}] http://b x",
    ]
    assert told[2:10] == [
        *("--quiet", "--variant=minbase", "--mode=root", "--architectures=arm64"),
        *("--include=python3", "--essential-hook=mkdir -p $1/boot/firmware"),
        *(f"--keyring={keyring}", "trixie"),
    ]
    assert set(told[-2:]) == {"TZ=UTC", f"SOURCE_DATE_EPOCH={EPOCH_S}"}


def test_each_file_system_of_a_card_is_at_its_place_with_its_own_content(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, _ = built
    part, mib = f"{bed.folder}/output/a.img.part", 1 << 20
    noted = [re.sub("-i [0-9a-f]{8} ", "-i ID ", line) for line in bed.lines("noted")]
    assert [line for line in noted if line.startswith("mkfs")] == [
        f"mkfs.vfat --invariant -F {bits} -s 1 -i ID -n {label} --offset={at * 2048} {part} {kib}"
        for bits, label, at, kib in (
            (16, "AUTOBOOT", 4, 16 << 10),
            (32, "bootfs", 20, 36 << 10),
            (32, "bootfs", 56, 36 << 10),
        )
    ]
    made = [line for line in noted if line.startswith("mke2fs")]
    # Logical partitions have 4 MiB before them, for their record.
    for line, label, at in zip(made, ("rootfs", "data"), (96, 120), strict=True):
        assert f" -L {label} " in line
        assert f" -E offset={at * mib},hash_seed=" in line
        assert line.endswith(f" {part} 8192k")
    fats = {
        int(folder.name) // mib: {path.name: path.read_text() for path in folder.iterdir()}
        for folder in (bed.folder / "fat").iterdir()
    }
    assert fats.keys() == {4, 20}, "the boot partition of slot B is empty"
    assert fats[4].keys() == {AUTOBOOT_NAME, "bootcode.bin"}
    assert fats[20].keys() == {"cmdline.txt", "bootcode.bin"}
    [disk_id] = re.findall(r"PARTUUID=([0-9a-f]{8})-05 panic=10\n", fats[20]["cmdline.txt"])
    assert disk_id != "00000000"
    fstab = (bed.folder / "tree-rootfs/etc/fstab").read_text()
    assert fstab == f"PARTUUID={disk_id}-05 / ext4\n"
    # Of 20 inodes 8 are free: the root's is the second, and others begin with the eleventh.
    assert bed.lines("debugfs") == [
        f"set_inode_field <{inode}> {name} @{EPOCH_S}"
        for inode in (2, 11, 12)
        for name in ("ctime", "atime")
    ]


def test_the_data_partition_begins_with_folders_of_root_and_of_the_service(
    built: tuple[BuildBed, BuiltImage],
) -> None:
    bed, _ = built
    data = bed.folder / "tree-data"
    modes = {
        str(path.relative_to(data)): stat.S_IMODE(path.stat().st_mode) for path in data.rglob("*")
    }
    assert modes == {
        "system": 0o700,
        "home": 0o755,
        "etc": 0o755,
        "etc/hedgerow": 0o750,
        "var": 0o755,
        "var/lib": 0o755,
        "var/lib/hedgerow": 0o700,
    }
    assert stat.S_IMODE(data.stat().st_mode) == 0o755
    assert bed.owners.keys() == {*modes, ""}
    of_others = {name: ids for name, ids in bed.owners.items() if ids != (0, 0)}
    assert of_others == {"var/lib/hedgerow": (880, 880), "etc/hedgerow": (0, 880)}


def test_an_image_without_a_gateway_has_none_and_says_version_0(bed: BuildBed) -> None:
    built = building.build(bed.order(has_gateway=False), bed.told.append)
    assert built.version.startswith("0-trixie-")
    assert built.packages == 1
    units = bed.folder / "tree-rootfs/etc/systemd/system"
    assert not (units / "hedgerow.service").exists()
    assert bed.outputs() == ["a.img", "a.img.sha256", "a.img.spdx.json"]
    assert (bed.folder / "output/a.img").stat().st_size == 128 << 20
    assert built.sha256 == bed.lines("output/a.img.sha256")[0].split()[0]
    assert bed.told[2:] == [f"image of {built.version}"]
    assert bed.lines("mmdebstrap")[:2] == [
        "deb http://deb.debian.org/debian trixie main non-free-firmware",
        "--quiet",
    ]
    assert not any("keyring" in line for line in bed.lines("mmdebstrap"))
    bed.write("bin/debugfs", "#!/bin/sh\necho 'Inode count: 20'\n")
    with pytest.raises(ImageBuildError, match=r"^debugfs does not say its Free inodes$"):
        building.build(bed.order("b.img"), bed.told.append)
    assert bed.outputs() == ["a.img", "a.img.sha256", "a.img.spdx.json"]


@pytest.mark.parametrize("name", ["etc/hosts", "etc/new"])
def test_what_is_in_a_root_is_told_by_its_digest(name: str, bed: BuildBed) -> None:
    root = bed.folder / "template"
    first = content.tree_digest(root, {"a": b"1"})
    assert content.tree_digest(root, {"a": b"1"}) == first
    assert content.tree_digest(root, {"a": b"2"}) != first
    assert content.tree_digest(root, {"b": b"1"}) != first
    bed.write(f"template/{name}", "another")
    other = content.tree_digest(root, {"a": b"1"})
    assert other != first
    (root / name).chmod(0o600)
    assert content.tree_digest(root, {"a": b"1"}) != other


def test_only_root_builds_and_only_what_can_be_built_is_begun(
    bed: BuildBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImageBuildError, match=r"^--suite: 'Trixie' is no name of a suite$"):
        building.build(replace(bed.order(), suite="Trixie"), bed.told.append)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ImageBuildError, match=r"^needs root: a root file system belongs to it$"):
        building.build(bed.order(), bed.told.append)
    assert bed.told == []


@pytest.mark.parametrize(
    ("name", "sign", "missing"),
    [
        ("a.img", "", "mtools"),
        ("a.img.xz", "", "mtools xz-utils"),
        ("a.img", "key", "gpg mtools"),
    ],
)
def test_each_program_that_is_missing_is_named_by_its_package_before_anything_runs(
    name: str, sign: str, missing: str, bed: BuildBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bed.folder / "bin"))
    for program in ("mcopy", "xz", "gpg"):
        (bed.folder / "bin" / program).unlink()
    with pytest.raises(ImageBuildError) as raised:
        building.build(bed.order(name, sign=sign), bed.told.append)
    assert str(raised.value) == f"not installed: sudo apt-get install {missing}"
    assert bed.told == []


def test_a_step_that_fails_is_told_in_its_own_words_and_leaves_no_image(bed: BuildBed) -> None:
    bed.write("bin/xz", '#!/bin/sh\nfor at do :; done\n>"$at.xz"\necho no room >&2; exit 1\n')
    with pytest.raises(ImageBuildError, match=r"^xz: no room$"):
        building.build(bed.order("a.img.xz", has_gateway=False), bed.told.append)
    assert bed.outputs() == []
    bed.write("bin/mmdebstrap", "#!/bin/sh\necho some; echo no archive >&2; exit 25\n")
    with pytest.raises(ImageBuildError) as raised:
        building.build(bed.order(), bed.told.append)
    assert str(raised.value) == "mmdebstrap ended with 25: some\n\nno archive\n"
    assert bed.told[-1] == "packages of trixie for arm64"


def test_a_program_that_can_not_be_run_is_named(
    bed: BuildBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ImageBuildError, match=r"^/nowhere/a: No such file or directory$"):
        file_systems.run(("/nowhere/a", "b"), b"", EPOCH_S)
    monkeypatch.setenv("PATH", str(bed.folder / "output"))
    with pytest.raises(ImageBuildError, match=r"^mmdebstrap: No such file or directory$"):
        RootFileSystem(bed.order(), bed.folder).bootstrap()


def test_a_key_that_gpg_does_not_have_signs_nothing(bed: BuildBed) -> None:
    bed.write("no-key", "")
    with pytest.raises(ImageBuildError, match=r"^--sign: gpg has no key 'nobody'$"):
        building.build(bed.order(sign="nobody", has_gateway=False), bed.told.append)
    assert bed.outputs() == []


def test_a_kernel_of_raspberry_pi_os_and_its_firmware_are_taken_as_its_own_hooks_left_them(
    tmp_path: Path,
) -> None:
    texts, firmware = tmp_path / "texts", tmp_path / "root/boot/firmware"
    (firmware / "overlays").mkdir(parents=True)
    texts.mkdir()
    for path in (firmware / "kernel8.img", firmware / "overlays/a.dtbo", firmware / "config.txt"):
        path.write_text("of the package")
    (texts / "config.txt").write_text("ours")
    assert boot_files.gathered(tmp_path / "root", texts, has_kernel=True) == {
        "kernel8.img": b"of the package",
        "overlays/a.dtbo": b"of the package",
        "config.txt": b"ours",
    }


def test_firmware_alone_is_no_system(tmp_path: Path) -> None:
    (tmp_path / "root/usr/lib/raspi-firmware").mkdir(parents=True)
    (tmp_path / "root/usr/lib/raspi-firmware/start4.elf").touch()
    (tmp_path / "texts").mkdir()
    with pytest.raises(ImageBuildError, match=r"^boot: no kernel \(vmlinuz-\*\)$"):
        boot_files.gathered(tmp_path / "root", tmp_path / "texts", has_kernel=True)
