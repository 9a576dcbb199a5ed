"""Files of a gateway that follow its enrolment service."""

from __future__ import annotations

from collections.abc import Callable

from gateway.process.access import secure_files
from gateway.process.configuration.config import GatewaySettings
from gateway.trust.enrolment import following
from gateway.trust.enrolment.following import FollowedFiles, TrustFollower


def follower(settings: GatewaySettings, changed: Callable[[], None]) -> TrustFollower | None:
    """Return what asks a gateway's service; None where the configuration names none.

    Args:
        settings: of the gateway.
        changed: called when files are new.

    """
    mqtt, keys = settings.mqtt, settings.keys
    certificate, authorities = mqtt.certificate_file, mqtt.client_ca_file
    if keys.service is None or certificate is None or authorities is None:
        return None

    def files() -> FollowedFiles:
        # The key alone may be encrypted: then it is another file in memory for each that it was.
        tls = secure_files.tls_files(mqtt, keys.password_file)
        assert tls is not None  # a section with a certificate has a key
        return FollowedFiles(certificate, tls.key, authorities, mqtt.client_crl_file)

    return following.TrustFollower(keys.service, files, keys.interval_s, changed)
