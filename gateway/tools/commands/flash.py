"""`hedgerow flash`: its arguments."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gateway.tools.commands.parser import word_or_file


def add(commands: Any) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.

    """
    flash = commands.add_parser(
        "flash",
        help="make SD cards from which Pis come up as gateways by themselves",
        description="Write a base image (Raspberry Pi OS Lite, 64 bits) to a card, read it back, "
        "and give it what one device's first boot needs: host name, user and key, network, and "
        "the gateway with its configuration, so that the Pi needs neither ssh nor the internet. "
        "Mounted disks and those of this system are refused. docs/flash.md tells it all.",
    )
    _add_what(flash)
    _add_trust(flash)
    _add_how(flash)
    flash.set_defaults(command=_run)


def _add_what(flash: argparse.ArgumentParser) -> None:
    flash.add_argument(
        "devices", nargs="*", metavar="ID", help="devices of the inventory (or --all)"
    )
    flash.add_argument("--all", action="store_true", help="all of them, one card after the other")
    flash.add_argument(
        "--inventory",
        type=Path,
        metavar="FILE",
        required=True,
        help="tells of the devices: TOML, or YAML (- from standard input)",
    )
    flash.add_argument(
        "--image",
        type=word_or_file,
        metavar="FILE",
        required=True,
        help="the base image: .img, or packed as .img.xz, .img.gz or .zip",
    )
    flash.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="a folder of images: --image is then the name of one in it, or a part of the name "
        "that no other has",
    )
    flash.add_argument(
        "--to",
        type=Path,
        metavar="DISK",
        required=True,
        help="the card's disk, such as /dev/sdb; or an image file that is not there yet; or a "
        "folder, which gets ID.img",
    )
    flash.add_argument(
        "--wheels",
        type=Path,
        metavar="FILE",
        help="the archive that the first boot installs from, where the inventory names none",
    )


def _add_how(flash: argparse.ArgumentParser) -> None:
    flash.add_argument(
        "--first-boot",
        choices=("auto", "cloud-init", "firstrun", "rpi-preseed"),
        default="auto",
        help="mechanism that tells the first boot what to do; firstrun is for Raspberry Pi OS 12, "
        "rpi-preseed for images that have it (default: cloud-init where the image has it, else "
        "firstrun)",
    )
    flash.add_argument(
        "--first-start",
        action="store_true",
        help="give it no configuration, and have a browser on its link set it up: the setup "
        "code of each card, and the fingerprint of its page, are told here (docs/first-start.md)",
    )
    flash.add_argument("-y", "--yes", action="store_true", help="do not ask before writing over")
    flash.add_argument(
        "--yes-really", action="store_true", help="also write over a disk that is not removable"
    )
    flash.add_argument(
        "--labels", type=Path, metavar="FILE", help="write labels of these devices, in HTML"
    )
    flash.add_argument("--json", action="store_true", help="for scripts")


def _add_trust(flash: argparse.ArgumentParser) -> None:
    flash.add_argument(
        "--sha256",
        metavar="HEX",
        help="SHA-256 that the image's file has to have (default: what FILE.sha256 beside "
        "it says, or else "
        "SHA256SUMS)",
    )
    flash.add_argument(
        "--keyring",
        type=Path,
        metavar="FILE",
        help="keyring for the signature beside the image: FILE.sig or FILE.asc, or that of "
        "SHA256SUMS (OpenPGP, by gpgv)",
    )
    flash.add_argument(
        "--unverified",
        action="store_true",
        help="take an image that neither a checksum nor a signature vouches for",
    )


def _run(options: argparse.Namespace) -> int:
    from gateway.tools.commands import flashing  # noqa: PLC0415  # a gateway that runs makes no cards

    return flashing.run(options)
