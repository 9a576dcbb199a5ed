"""`deploy/image/build`: its arguments."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway.base import exit_codes
from gateway.tools.system_image import building
from gateway.tools.system_image.errors import ImageBuildError
from gateway.tools.system_image.layout import ImageSizes
from gateway.tools.system_image.order import ARCHITECTURES, BASES, PACKAGES, ImageOrder

ROLES = ("sd_card", "watchdog")
_EPOCH = "SOURCE_DATE_EPOCH"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build an image; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        built = building.build(_order(options), _tell)
    except (ImageBuildError, OSError) as error:
        sys.stderr.write(f"image: {error}\n")
        return exit_codes.FAILED
    sys.stdout.write(f"{built.sha256}  {built.image}  {built.version}\n")
    return 0


def _tell(step: str) -> None:
    sys.stderr.write(f"{step}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deploy/image/build",
        description="Build an image of a whole system with two slots (docs/system-image.md).",
    )
    sizes = ImageSizes()
    parser.add_argument("--project", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--suite", default="trixie", help="of Debian (default: trixie)")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="arm64", help="default: arm64")
    parser.add_argument("--base", choices=BASES, default="debian", help="default: debian")
    parser.add_argument(
        "--mirror",
        action="append",
        default=[],
        metavar="LINE",
        help="instead of the base's archives: 'URL {suite} COMPONENT...'; may be repeated",
    )
    parser.add_argument("--keyring", type=Path, help="keyring of the archives that are trusted")
    parser.add_argument("--packages", default=PACKAGES, help="instead of the usual ones")
    parser.add_argument("--more-packages", default="", help="beside them")
    parser.add_argument("--no-kernel", action="store_true", help="no kernel and no firmware")
    parser.add_argument("--no-gateway", action="store_true", help="no gateway: for tests")
    parser.add_argument("--compiled", action="store_true", help="with mypyc's wheel")
    parser.add_argument(
        "--roles", default=",".join(ROLES), help="of sd_card, watchdog, time and firewall"
    )
    parser.add_argument("--variables", type=Path, help="Ansible's, for the roles: YAML or JSON")
    for name in ("boot", "root", "data"):
        parser.add_argument(
            f"--{name}-mib", type=int, default=getattr(sizes, name), help="size of the partition"
        )
    parser.add_argument("--sign", default="", metavar="KEY", help="a key of gpg's to sign with")
    parser.add_argument("--output", type=Path, required=True, help="ends with .img or .img.xz")
    return parser


def _order(options: argparse.Namespace) -> ImageOrder:
    return ImageOrder(
        project=options.project.resolve(),
        base=BASES[options.base],
        suite=options.suite,
        architecture=options.arch,
        mirrors=tuple(options.mirror),
        keyring=options.keyring,
        packages=tuple(f"{options.packages} {options.more_packages}".replace(",", " ").split()),
        has_kernel=not options.no_kernel,
        has_gateway=not options.no_gateway,
        is_compiled=options.compiled,
        roles=tuple(options.roles.replace(",", " ").split()),
        variables=options.variables,
        sizes=ImageSizes(options.boot_mib, options.root_mib, options.data_mib),
        epoch_s=_epoch_s(options.project),
        output=options.output.resolve(),
        sign=options.sign,
    )


def _epoch_s(project: Path) -> int:
    """Return what `SOURCE_DATE_EPOCH` says, else when the checkout was committed.

    Raises:
        ImageBuildError: neither says a time.

    """
    told = os.environ.get(_EPOCH)
    if told is None:
        command = ("git", "-C", str(project), "log", "-1", "--format=%ct")
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own
        told = done.stdout.strip()
    if not (told.isascii() and told.isdigit()):
        raise ImageBuildError(f"{_EPOCH}: {told!r} is no time in seconds since 1970")
    return int(told)


if __name__ == "__main__":
    sys.exit(main())
