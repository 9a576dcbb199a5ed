"""The two builds of a gateway: what mypyc compiled, and the sources as they stand.

The compiled one is what is measured as ours, where `make compiled` has made it of these sources.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_COMPILED_PYTHON = _ROOT / ".venv-compiled" / "bin" / "python"
_CHECK = _ROOT / "deploy" / "compiled"


@dataclass(frozen=True, slots=True)
class Build:
    """A Python that has the packages of one build.

    Attributes:
        name: as ``hedgerow --version`` tells it.
        python: its path.

    """

    name: str
    python: str

    def command(self, program: str) -> list[str]:
        """Return the command that runs a module, ``gateway.tools.cli`` say; arguments may follow.

        A program of ``benchmarks`` is named by its file: it is in no wheel.
        """
        if self is INTERPRETED:
            return [self.python, "-m", program]
        # Or the sources would be imported before the wheel's, by the present folder or PYTHONPATH.
        python = [self.python, "-P", "-E"]
        if program.startswith("benchmarks."):
            return [*python, str(_ROOT / f"{program.replace('.', '/')}.py")]
        return [*python, "-m", program]


INTERPRETED = Build("interpreted", sys.executable)
"""The sources beside this program."""


@cache
def compiled() -> Build | None:
    """Return the compiled build, or None if there is none of the sources as they are now."""
    if not _COMPILED_PYTHON.exists():
        return None
    check = subprocess.run([_CHECK, "--is-current"], check=False, capture_output=True)
    return None if check.returncode else Build("compiled", str(_COMPILED_PYTHON))


def ours() -> Build:
    """Return the build that is measured as ours."""
    return compiled() or INTERPRETED


def missing() -> list[str]:
    """Return a line if ours has to be the interpreted build."""
    if compiled() is not None:
        return []
    return ["no compiled build of these sources (make compiled): ours is the INTERPRETED one"]
