"""Certificates for gateways that are measured, from the program that makes a real fleet's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "deploy" / "fleet-certificates"


class FleetCertificates:
    """Those of one fleet's gateways and collectors.

    Args:
        folder: for the files; who names one that is in use adds to that fleet.
        gateway_ids: who gets one.

    Raises:
        subprocess.CalledProcessError: they can't be made.

    """

    def __init__(self, folder: Path, gateway_ids: Iterable[str]) -> None:
        self._folder = folder
        command = [sys.executable, str(PROGRAM), str(folder), *gateway_ids]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def mqtt(self, gateway_id: str) -> dict[str, str]:
        """Keys of a gateway's section ``mqtt``; links need a ``tls_port`` besides."""
        return {
            **self._own(gateway_id),
            "client_certificate": "optional",
            "client_ca_file": str(self._folder / "ca.pem"),
        }

    def collector(self, gateway_id: str) -> dict[str, str]:
        """Keys of a collector's section ``collector``."""
        return {**self._own(gateway_id), "ca_file": str(self._folder / "ca.pem")}

    def _own(self, gateway_id: str) -> dict[str, str]:
        return {
            "certificate_file": str(self._folder / f"{gateway_id}.pem"),
            "key_file": str(self._folder / f"{gateway_id}.key.pem"),
        }
