"""A gateway that has run, with something in each file of its folders, and backups of it."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from filled_gateway import filled

from gateway.backups import making


def filled_folders(folder: Path) -> Path:
    """Fill a folder with a gateway's two: ``gw`` is its configuration, ``state`` its state."""
    world = asyncio.run(filled(folder))
    config = world.gateway.folder
    text = (config / "gateway.toml").read_text()
    for file in ("tree.key", "revoked.pem", "oscore.toml"):
        shutil.copy(folder / file, config / file)
        (config / file).chmod(0o600)
        text = text.replace(f"{folder}/{file}", f"{config}/{file}")
    world.state.rename(folder / "state")
    text = text.replace(f"{config}/state", f"{folder}/state")
    (config / "hedgerow.toml").write_text(text)
    return folder


def archived(folder: Path, config: Path, state: Path) -> Path:
    """Make a backup of two folders, in another one."""
    made = folder / "backup.tar.gz"
    with made.open("wb") as out:
        making.write(out, config, state, lambda: None, folder)
    return made
