"""One build: a root, an image of it, its bill of materials, its checksum and its signature."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.tools.system_image import boot_files, content, file_systems, packages, spdx
from gateway.tools.system_image import root_file_system as roots
from gateway.tools.system_image.content import ImageContent
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageLayout
from gateway.tools.system_image.order import ImageOrder
from gateway.tools.system_image.root_file_system import RootFileSystem
from gateway.tools.system_image.spdx import BilledImage
from gateway.tools.system_slots.installing import ABOUT, KEYRING
from light_dataclasses import dataclass

PROGRAMS = {**file_systems.PROGRAMS, "mmdebstrap": "mmdebstrap", "unshare": "util-linux"}
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that was built.

    Attributes:
        image: its file; beside it are ``.sha256``, ``.spdx.json`` and, if signed, ``.sig`` of both.
        version: of the system.
        sha256: of the file.
        packages: how many are in it.

    """

    image: Path
    version: str
    sha256: str
    packages: int


def build(order: ImageOrder, tell: Callable[[str], None]) -> BuiltImage:
    """Build an image.

    Args:
        order: what of.
        tell: is told of each step.

    Raises:
        ImageBuildError: it can't be built; no image is left.
        OSError: a file can't be read or written.

    """
    order.check()
    if os.geteuid() != 0:
        raise ImageBuildError("needs root: a root file system belongs to it")
    compresses = {"xz": "xz-utils"} if order.output.suffix == ".xz" else {}
    signs = {"gpg": "gpg"} if order.sign else {}
    file_systems.check_programs({**PROGRAMS, **compresses, **signs})
    # Modes in an image are the same whoever builds it, and others than root can read it.
    with _umask(0o022), tempfile.TemporaryDirectory(prefix="hedgerow-image-") as folder:
        root = RootFileSystem(order, Path(folder))
        tell(f"packages of {order.suite} for {order.architecture}")
        root.bootstrap()
        tell("roles and gateway")
        wheels = root.provision()
        root.clean()
        if order.sign:
            _export_key(order, root.path / str(KEYRING).lstrip("/"))
        return _written(order, root.path, wheels, tell)


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _written(order: ImageOrder, root: Path, wheels: str, tell: Callable[[str], None]) -> BuiltImage:
    texts = order.project / "deploy/image/boot"
    boot = boot_files.gathered(root, texts, has_kernel=order.has_kernel)
    # They are on the boot partition, which is mounted there.
    for path in (root / "boot/firmware").iterdir():
        content.remove_tree(path) if path.is_dir() else path.unlink()
    digest = content.tree_digest(root, boot)
    version = f"{_own_version(wheels)}-{order.suite}-{digest[:12]}"
    (root / ABOUT).write_text(roots.about(order, version))
    listed = packages.debian(root)
    listed += packages.wheels(Path(wheels)) if wheels else []
    tell(f"image of {version}")
    ids = (roots.SERVICE_ID, roots.SERVICE_ID)
    raw = order.output.with_suffix("") if order.output.suffix == ".xz" else order.output
    part = raw.with_name(f"{raw.name}.part")
    try:
        made = ImageContent(root, boot, ids, order.epoch_s)
        content.write(made, ImageLayout(order.sizes), digest, part)
        if order.output.suffix == ".xz":
            tell("packing")
            # In blocks, whatever processors the builder has: the same bytes from each.
            packed = ("xz", "--threads=2", "--block-size=24MiB", "-6", "--force", part)
            file_systems.run(packed, b"", order.epoch_s)
            part = part.with_name(f"{part.name}.xz")
        part.rename(order.output)
    finally:
        for left in (raw.with_name(f"{raw.name}.part"), raw.with_name(f"{raw.name}.part.xz")):
            left.unlink(missing_ok=True)
    sha256 = _sha256(order.output)
    order.output.with_name(f"{order.output.name}.sha256").write_text(
        f"{sha256}  {order.output.name}\n"
    )
    bill = order.output.with_name(f"{order.output.name}.spdx.json")
    billed = BilledImage(order.output.name, version, sha256, order.epoch_s, order.base.distribution)
    bill.write_text(json.dumps(spdx.document(billed, listed), indent=1) + "\n")
    if order.sign:
        tell(f"signature of {order.sign}")
        for file in (order.output, bill):
            _sign(order, file)
    return BuiltImage(order.output, version, sha256, len(listed))


def _own_version(wheels: str) -> str:
    return Path(wheels).name.partition("-")[0] if wheels else "0"


def _export_key(order: ImageOrder, to: Path) -> None:
    """The system takes images of whoever signed it."""
    command = ("gpg", "--batch", "--yes", "--output", to, "--export", order.sign)
    file_systems.run(command, b"", order.epoch_s)
    if not to.is_file():
        raise ImageBuildError(f"--sign: gpg has no key {order.sign!r}")
    to.chmod(0o644)


def _sign(order: ImageOrder, file: Path) -> None:
    signature = file.with_name(f"{file.name}.sig")
    file_systems.run(
        ("gpg", "--batch", "--yes", "--local-user", order.sign, "--output", signature,
         "--detach-sign", file), b"", order.epoch_s,
    )  # fmt: skip


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
