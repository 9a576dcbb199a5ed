"""Health of this machine's gateway as it says itself, for a system on trial."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.releases import health

CONFIG = Path("/etc/hedgerow/hedgerow.toml")
_KEYS = "psk"
_ANSWER_S = 2
_ASKED_S = 30.0
_MOST_BYTES = 4 << 20


class GatewayHealth:
    """Asks as Ansible does when a release is on trial: ``hedgerow status --json``.

    Args:
        config: the gateway's configuration.

    """

    def __init__(self, config: Path = CONFIG) -> None:
        self._config = config

    def has_gateway(self) -> bool:
        """Return whether there is one to be asked."""
        return self._config.exists()

    def status(self) -> dict[str, Any]:
        """Return what it says; empty if it does not answer."""
        keys = self._config.with_name(_KEYS)
        command = [sys.executable, "-m", "gateway.tools.cli", "status", "--json"]
        command += ["--timeout", str(_ANSWER_S), "--config", str(self._config)]
        command += ["--psk-file", str(keys)] if keys.exists() else []
        try:
            done = subprocess.run(command, capture_output=True, timeout=_ASKED_S, check=False)  # noqa: S603  # our own
            told = json.loads(done.stdout[:_MOST_BYTES]) if done.returncode == 0 else {}
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return {}
        return told if isinstance(told, dict) else {}

    def complaints(self, before: Mapping[str, Any], *, has_to_run: bool) -> list[str]:
        """Return why the gateway is less healthy than it was; empty if it is not.

        Args:
            before: its status before the upgrade; empty if it did not answer.
            has_to_run: whether there was one.

        """
        if not has_to_run and not self.has_gateway():
            return []
        after = self.status()
        # To whom it tells nothing of its neighbours it did not before, either.
        if after and before and "neighbours" not in after and "neighbours" not in before:
            return []
        return health.complaints(after, before)
