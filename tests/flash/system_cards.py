"""Images of small systems, and cards of them whose partitions are files."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pi_firmware

from gateway.tools.system_image import content
from gateway.tools.system_image.content import ImageContent
from gateway.tools.system_image.layout import ImageLayout, ImageSizes
from gateway.tools.system_slots.board import Board
from gateway.tools.system_slots.folder import SystemFolder
from gateway.tools.system_slots.installing import ABOUT
from gateway.tools.system_slots.slots import Slot

EPOCH_S = 1_790_000_000
SIZES = ImageSizes(boot=36, root=8, data=8)
LAYOUT = ImageLayout(SIZES)
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
COMMAND_LINE = f"console=tty1 root=PARTUUID={content.NO_DISK_ID}-05 rootwait panic=10\n"
FSTAB = f"""/dev/root / ext4 defaults,noatime 0 1
PARTUUID={content.NO_DISK_ID}-02 /boot/firmware vfat defaults 0 2
PARTUUID={content.NO_DISK_ID}-07 /data ext4 defaults,noatime 0 2
"""
PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\nhedgerow:x:880:880::/var/lib/hedgerow:/usr/sbin/nologin\n"
)
GROUP = "root:x:0:\nsudo:x:27:\nhedgerow:x:880:\n"


def small_root(root: Path, version: str, more: Mapping[str, str] | None = None) -> Path:
    """A root with no more than what is looked at."""
    about = {"version": version, "suite": "trixie", "architecture": ARCHITECTURE}
    texts = {
        "etc/fstab": FSTAB,
        "etc/passwd": PASSWD,
        "etc/group": GROUP,
        "etc/machine-id": "",
        "etc/hostname": "image\n",
        ABOUT: json.dumps(about),
        **{f"usr/share/doc/{n}/copyright": f"License {n}\n" for n in range(40)},
        **(more or {}),
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "bin").symlink_to("usr/bin")
    return root


def make_image(image: Path, root: Path) -> Path:
    """The image of a root."""
    boot = {
        "cmdline.txt": COMMAND_LINE.encode(),
        "config.txt": b"arm_64bit=1\n",
        "overlays/README": b"none\n",
        "user-data": b"#cloud-config\n",
        "vmlinuz": b"kernel" * 9000,
    }
    made = ImageContent(root, boot, (880, 880), EPOCH_S)
    content.write(made, LAYOUT, content.tree_digest(root, boot), image)
    return image


@dataclass
class Signer:
    """A key of OpenPGP of a test's own."""

    home: Path

    def __post_init__(self) -> None:
        self.home.mkdir(mode=0o700)
        self._gpg("--passphrase", "", "--quick-generate-key", "builder@example.org", "ed25519")
        self.keyring.write_bytes(self._gpg("--export"))

    @property
    def keyring(self) -> Path:
        return self.home / "keyring.pgp"

    def sign(self, image: Path) -> None:
        signature = image.with_name(f"{image.name}.sig")
        signature.unlink(missing_ok=True)
        self._gpg("--detach-sign", "--output", str(signature), str(image))

    def _gpg(self, *arguments: str) -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout


@dataclass
class CardInFiles:
    """A card; partition N is the file ``pN``, the running root a folder."""

    folder: Path
    image: Path
    tries_next: bool = False
    restarts: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        with self.image.open("rb") as source:
            for number, one in LAYOUT.partitions.items():
                source.seek(one.start_bytes)
                with (self.folder / f"p{number}").open("wb") as file:
                    file.write(source.read(one.size_bytes if number != 4 else 512))
        self.start()

    def start(self) -> Slot:
        """Start as the firmware does; return the slot of the system that starts."""
        is_try, self.tries_next = self.tries_next, False
        partition = pi_firmware.start(self.folder / "p1", self.folder / "firmware", is_try=is_try)
        return Slot.booted_from(partition)

    def board(self) -> Board:
        """Return the board as the device sees it; the card notes a restart."""
        card = self

        class NotedBoard(Board):
            def restart(self, *, is_try: bool) -> None:
                card.restarts.append(is_try)
                card.tries_next = is_try

        return NotedBoard(self.folder / "firmware", f"{self.folder}/p")

    def data(self) -> SystemFolder:
        """The folder on its data partition."""
        return SystemFolder(self.folder / "system")

    def files(self, number: int, name: str) -> bytes:
        """A file of a partition, by mtools or debugfs."""
        path = self.folder / f"p{number}"
        if number in (1, 2, 3):
            command = ["mtype", "-i", str(path), f"::/{name}"]
        else:
            command = ["debugfs", "-R", f"cat /{name}", str(path)]
        return subprocess.run(command, capture_output=True, check=True).stdout


def running_root(folder: Path, disk_id: str) -> Path:
    """The root that runs on such a card, with what a device has of its own."""
    root = small_root(folder, "1")
    (root / "etc/fstab").write_text(FSTAB.replace(content.NO_DISK_ID, disk_id))
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/hostname").write_text("gw-north\n")
    (root / "etc/passwd").write_text(PASSWD + "anna:x:1000:1000::/home/anna:/bin/bash\n")
    (root / "etc/group").write_text(
        GROUP.replace("sudo:x:27:", "sudo:x:27:anna") + "anna:x:1000:\n"
    )
    ssh = root / "etc/ssh"
    ssh.mkdir()
    (ssh / "ssh_host_ed25519_key").write_text("of this device\n")
    (ssh / "ssh_host_ed25519_key").chmod(0o600)
    return root


def copied_slowly(source: Path, target: Path) -> Path:
    """A tree with the same content, whose files were made in another order and later."""
    target.mkdir()
    for path in sorted(source.rglob("*"), reverse=True):
        made = target / path.relative_to(source)
        made.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            made.symlink_to(path.readlink())
        elif path.is_file():
            shutil.copy2(path, made)
    for path in [source, *source.rglob("*")]:
        if path.is_dir():
            shutil.copystat(path, target / path.relative_to(source))
    return target
