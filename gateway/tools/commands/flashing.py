"""The command `hedgerow flash`: asks, shows how far it is, and says what came of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.base import replaced_file
from gateway.tools.commands import labels, output, progress_bar
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.first_start import new_card
from gateway.tools.first_start.new_card import NewCard
from gateway.tools.flashing import (
    authenticity,
    block_devices,
    boot_partition,
    fleet_file,
    image_folder,
    kit,
    one_card,
)
from gateway.tools.flashing.authenticity import Authenticity
from gateway.tools.flashing.block_devices import DiskFacts
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.errors import FlashError, RefusalError
from gateway.tools.flashing.kit import CardKit
from gateway.tools.flashing.one_card import CardOrder, FlashedCard


def run(options: argparse.Namespace) -> int:
    """Make the cards that the arguments name.

    Raises:
        WrongUseError: an argument is wrong; nothing is written.
        FailedError: a card was refused or could not be made; those before it are good.
        KeyboardInterrupt: Ctrl-C; a card that was being written is of no use.

    """
    try:
        return _flash(options)
    except FlashError as error:
        more = "" if isinstance(error, RefusalError) else "; the card is of no use as it is"
        raise FailedError(f"flash: {error}{more}", error.exit_code) from error


def _flash(options: argparse.Namespace) -> int:
    boot_partition.check_programs()
    devices = _chosen(options, fleet_file.read(options.inventory))
    codes = {one.id: new_card.made() for one in devices} if options.first_start else {}
    kits = [_kit(_with_wheels(one, options.wheels), codes.get(one.id)) for one in devices]
    has_folder = options.to.is_dir()
    if len(kits) > 1 and not has_folder and not _asks():
        raise WrongUseError("flash: several cards, and nobody to change them: name one ID a call")
    path = Path(options.image)
    if options.images is not None:
        path = image_folder.find(options.images, options.image)
    image = _checked_image(path, options)
    made: list[dict[str, Any]] = []
    for number, one in enumerate(kits):
        target = options.to / f"{one.device.id}.img" if has_folder else options.to
        if len(kits) > 1 and not has_folder and not _is_next(one, number, len(kits), target):
            continue
        order = CardOrder(path, target, options.first_boot, options.yes_really)
        card = _one(order, one, options)
        made.append(_as_json(one, target, path, image, card) | _told(codes.get(one.device.id)))
        if not options.json:
            sys.stdout.write(_in_words(one, target, card))
            for name, text in _told(codes.get(one.device.id)).items():
                sys.stdout.write(f"  {name.replace('_', ' ')} {text}\n")
            sys.stdout.flush()
    if options.labels is not None:
        _write_labels(options.labels, kits)
    if options.json:
        output.print_json(made)
    return 0


def _kit(one: CardDevice, code: NewCard | None) -> CardKit:
    first_start = None if code is None else code.card.as_text().encode()
    return kit.made(one, int(time.time()), first_start)


def _told(code: NewCard | None) -> dict[str, str]:
    """Return what the owner of a card is told, once."""
    if code is None:
        return {}
    return {"setup_code": code.code, "page_certificate_sha256": code.fingerprint}


def _chosen(options: argparse.Namespace, found: Sequence[CardDevice]) -> list[CardDevice]:
    by_id = {one.id: one for one in found}
    if options.all or (not options.devices and len(found) == 1):
        if options.devices:
            raise WrongUseError("flash: either --all or names")
        return list(found)
    if not options.devices:
        raise WrongUseError(
            f"flash: which device: {', '.join(by_id) or 'there is none'}, or --all?"
        )
    for name in options.devices:
        if name not in by_id:
            raise WrongUseError(f"flash: {name!r}: {options.inventory} has {', '.join(by_id)}")
    return [by_id[name] for name in dict.fromkeys(options.devices)]


def _with_wheels(device: CardDevice, wheels: Path | None) -> CardDevice:
    import msgspec  # noqa: PLC0415  # as the devices are its structs

    if device.wheels is not None or wheels is None:
        return device
    return msgspec.structs.replace(device, wheels=wheels)


def _checked_image(path: Path, options: argparse.Namespace) -> Authenticity:
    image = authenticity.check(path, options.sha256, options.keyring)
    if not image.is_checked:
        if not options.unverified:
            raise RefusalError(
                f"{path}: neither a checksum (--sha256, or beside it a .sha256 file or SHA256SUMS "
                "with its name) nor a signature (--keyring) vouches for it; --unverified takes it "
                "all the same"
            )
        output.complain(f"flash: nothing vouches for {path}: taken as it is")
    return image


# -- on a terminal ---------------------------------------------------------------------------------


def _asks() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    try:
        line = sys.stdin.readline()
    except UnicodeError:  # no answer that is known
        line = "\N{REPLACEMENT CHARACTER}\n"
    if not line:
        raise WrongUseError("flash: the input has ended")
    return line.strip().lower()


def _is_next(one: CardKit, number: int, count: int, target: Path) -> bool:
    """Return whether the card for a device is in; whoever changes cards may leave one out."""
    answer = _answer(
        f"\nCard {number + 1} of {count}, for {one.device.id} {one.title}: put it into {target} "
        "and press Enter (s leaves it out, q ends): "
    )
    if answer == "q":
        raise FailedError("flash: ended; the cards before this one are good")
    return answer != "s"


def _one(order: CardOrder, one: CardKit, options: argparse.Namespace) -> FlashedCard:
    def confirm(disk: DiskFacts, contents: str) -> None:
        if options.yes:
            return
        holds = f"it holds {contents}" if contents else "its beginning is blank"
        if not _asks():
            raise RefusalError(
                f"{disk.path}: {holds}, and there is nobody to ask whether to write over it: --yes "
                "(with Ansible: answer yes, or card_overwrite)"
            )
        if _answer(f"Write over all of {disk.described()}; {holds}? Type yes: ") != "yes":
            raise RefusalError(f"{disk.path}: not written over")

    try:
        return one_card.flash(order, one, confirm, progress_bar.show)
    except KeyboardInterrupt:
        if block_devices.is_block_device(order.target):
            output.complain(f"\nhedgerow: flash: interrupted; {order.target} may be of no use now")
        raise


# -- what came of it -------------------------------------------------------------------------------


def _as_json(
    one: CardKit, target: Path, path: Path, image: Authenticity, card: FlashedCard
) -> dict[str, Any]:
    return {
        "id": one.device.id,
        "target": str(target),
        "image": str(path),
        "image_sha256": image.sha256,
        "checksum_from": image.checksum_from,
        "signed_by": image.signed_by,
        **asdict(card),
    }


def _in_words(one: CardKit, target: Path, card: FlashedCard) -> str:
    mib = card.image_bytes / (1 << 20)
    seconds = card.write_s + card.verify_s + card.inject_s
    return (
        f"{one.device.id}: {target} is ready: {mib:.0f} MiB written and read back, "
        f"{card.injected_bytes} bytes of its own, {seconds:.0f} s\n"
    )


def _write_labels(file: Path, kits: Sequence[CardKit]) -> None:
    date = time.strftime("%Y-%m-%d")
    each = [labels.CardLabel(one.device.id, one.title, date) for one in kits]
    try:
        replaced_file.replace(file, labels.page(each).encode(), mode=0o644)
    except OSError as error:
        raise FailedError(f"flash: --labels: {file}: {error.strerror}") from error
