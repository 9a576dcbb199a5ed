"""The configuration by which a running gateway goes: a reload puts another one in its place."""

from __future__ import annotations

from gateway.process.configuration.config import GatewaySection, GatewaySettings


class SettingsInUse:
    """The one owner of a gateway's present settings.

    Args:
        settings: those of its start.

    Attributes:
        now: as given, or as they were last followed.

    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.now = settings

    def follow(self, settings: GatewaySettings) -> None:
        """Go by others from now on."""
        self.now = settings

    def own(self) -> GatewaySection:
        """Return what they say of the gateway itself; its place may move."""
        return self.now.gateway
