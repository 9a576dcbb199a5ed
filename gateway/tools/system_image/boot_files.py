"""The files of a boot partition: firmware, kernel, device trees, and what says which is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.tools.system_image.errors import ImageBuildError

_FIRMWARE = "usr/lib/raspi-firmware"
_KERNEL_LINES = "kernel=vmlinuz\ninitramfs initrd.img followkernel\n"


def gathered(root: Path, texts: Path, *, has_kernel: bool) -> Mapping[str, bytes]:
    """Return all files by their paths.

    Args:
        root: of the system.
        texts: the folder of what is the same in each image.
        has_kernel: whether there has to be a kernel.

    Raises:
        ImageBuildError: there is none, or no firmware.
        OSError: a file can't be read.

    """
    files = {path.name: path.read_bytes() for path in sorted(texts.iterdir())}
    if not has_kernel:
        return files
    # Raspberry Pi OS's own hooks put all there; Debian's packages have it in several places.
    copied = _below(root / "boot/firmware")
    if any(name.startswith("kernel") for name in copied):
        return {**copied, **files}
    firmware = {
        name: data
        for name, data in _below(root / _FIRMWARE).items()
        if Path(name).suffix in (".elf", ".dat", ".bin", ".dtbo") or "LICEN" in name.upper()
    }
    if not firmware:
        raise ImageBuildError(f"{_FIRMWARE}: no firmware: the package raspi-firmware has it")
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise ImageBuildError("boot: no kernel (vmlinuz-*)")
    version = kernels[-1].name.removeprefix("vmlinuz-")
    trees = root / f"usr/lib/linux-image-{version}/broadcom"
    files["config.txt"] += _KERNEL_LINES.encode()
    return {
        **firmware,
        **{path.name: path.read_bytes() for path in sorted(trees.glob("bcm2*.dtb"))},
        "vmlinuz": kernels[-1].read_bytes(),
        "initrd.img": (root / f"boot/initrd.img-{version}").read_bytes(),
        **files,
    }


def _below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
