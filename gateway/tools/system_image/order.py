"""Order of an image: which system, from where, with what."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageSizes
from light_dataclasses import dataclass

ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}
"""Debian's names, and those of machines."""
PYTHONS = {"bookworm": "cp311", "trixie": "cp313"}
"""The Python of each suite, as wheels are named."""
PACKAGES = (
    "python3 python3-venv systemd systemd-sysv dbus udev kmod openssh-server sudo iproute2 "
    "netplan.io systemd-resolved cloud-init tzdata nftables ca-certificates mtools gpgv fdisk "
    "dosfstools e2fsprogs wpasupplicant wireless-regdb iputils-ping less zstd"
)
"""The packages that a Pi needs beside its kernel."""


@dataclass(frozen=True, slots=True)
class SystemBase:
    """The distribution that a system is made from.

    Attributes:
        distribution: as package URLs have it.
        mirrors: of its archive, as sources.list(5) has them after ``deb``; {suite} is filled in.
        kernel: packages of the kernel and the firmware.

    """

    distribution: str
    mirrors: tuple[str, ...]
    kernel: tuple[str, ...]


BASES = {
    "debian": SystemBase(
        "debian",
        ("http://deb.debian.org/debian {suite} main non-free-firmware",),
        ("linux-image-arm64", "raspi-firmware", "firmware-brcm80211"),
    ),
    "raspios": SystemBase(
        "raspbian",
        (
            "http://deb.debian.org/debian {suite} main contrib non-free non-free-firmware",
            "http://archive.raspberrypi.com/debian {suite} main",
        ),
        ("linux-image-rpi-v8", "linux-image-rpi-2712", "raspi-firmware", "firmware-brcm80211"),
    ),
}


@dataclass(frozen=True, slots=True)
class ImageOrder:
    """An order for an image.

    Attributes:
        project: the checkout.
        base: of `BASES`.
        suite: of Debian.
        architecture: of `ARCHITECTURES`.
        mirrors: instead of the base's.
        keyring: whose archives are trusted; None: the builder's own.
        packages: what is installed.
        has_kernel: whether the kernel and the firmware are.
        has_gateway: whether the gateway is.
        is_compiled: whether mypyc compiles its hot packages.
        roles: of deploy/ansible, for the root.
        variables: a file of Ansible's variables for them; None: none.
        sizes: of the partitions.
        epoch_s: the time of all that is in the image, in seconds since 1970.
        output: the image's file.
        sign: whose key of OpenPGP signs; empty: nobody's.

    """

    project: Path
    base: SystemBase
    suite: str
    architecture: str
    mirrors: tuple[str, ...]
    keyring: Path | None
    packages: tuple[str, ...]
    has_kernel: bool
    has_gateway: bool
    is_compiled: bool
    roles: tuple[str, ...]
    variables: Path | None
    sizes: ImageSizes
    epoch_s: int
    output: Path
    sign: str

    @property
    def kind(self) -> str:
        """Of the wheels; empty without a gateway.

        Raises:
            ImageBuildError: no wheels are made for the suite.

        """
        if not self.has_gateway:
            return ""
        if self.suite not in PYTHONS:
            raise ImageBuildError(f"--suite: {self.suite!r} is not {' or '.join(PYTHONS)}")
        return f"{PYTHONS[self.suite]}-{ARCHITECTURES[self.architecture]}"

    def check(self) -> None:
        """Refuse what can't be built, before anything is.

        Raises:
            ImageBuildError: it names the argument.

        """
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", self.suite):
            raise ImageBuildError(f"--suite: {self.suite!r} is no name of a suite")
        if self.has_kernel and self.architecture != "arm64":
            raise ImageBuildError("--arch: a Pi's kernel is arm64's: give --no-kernel for others")
        for name in self.packages:
            if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
                raise ImageBuildError(f"--packages: {name!r} is no name of a package")
        if self.output.suffix not in (".img", ".xz"):
            raise ImageBuildError(
                f"--output: {self.output} ends neither with .img nor with .img.xz"
            )
        for name, file in (("--keyring", self.keyring), ("--variables", self.variables)):
            if file is not None and not file.is_file():
                raise ImageBuildError(f"{name}: {file} is no file")
        _ = self.kind
        self.sizes.check()
