"""Certificates for gateways that are measured, from the authority that makes a real fleet's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gateway.trust.certificates import founding
from gateway.trust.certificates.authority import Authority


class FleetCertificates:
    """Those of one fleet's gateways and collectors.

    Args:
        folder: for the files; who names one that is in use adds to that fleet.
        gateway_ids: those that get one.

    Raises:
        AuthorityError: they can't be made.

    """

    def __init__(self, folder: Path, gateway_ids: Iterable[str]) -> None:
        self._folder = folder
        is_there = (folder / "ca.pem").exists()
        authority = Authority(folder) if is_there else founding.found(folder)
        for gateway_id in gateway_ids:
            if not authority.has(gateway_id):
                authority.issue(gateway_id)

    def mqtt(self, gateway_id: str) -> dict[str, str]:
        """Return keys of a gateway's section ``mqtt``; links need a ``tls_port`` besides."""
        return {
            **self._own(gateway_id),
            "client_certificate": "optional",
            "client_ca_file": str(self._folder / "ca.pem"),
        }

    def collector(self, gateway_id: str) -> dict[str, str]:
        """Return keys of a collector's section ``collector``."""
        return {**self._own(gateway_id), "ca_file": str(self._folder / "ca.pem")}

    def _own(self, gateway_id: str) -> dict[str, str]:
        return {
            "certificate_file": str(self._folder / f"{gateway_id}.pem"),
            "key_file": str(self._folder / f"{gateway_id}.key.pem"),
        }
