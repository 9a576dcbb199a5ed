"""Programs of others that making a card calls, and how one comes by them."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence

from gateway.tools.flashing.errors import RefusalError


def check(programs: Sequence[str], package: str, *, brewed: str) -> None:
    """Check that programs are installed.

    Args:
        programs: their names.
        package: the package of Debian that has them.
        brewed: that of Homebrew, for macOS.

    Raises:
        RefusalError: one is not; the message tells how to install it.

    """
    for program in programs:
        if shutil.which(program) is None:
            how = f"sudo apt-get install {package}"
            if platform.system() == "Darwin":
                how = f"brew install {brewed}"
            raise RefusalError(f"{program} is not installed: {how}")
