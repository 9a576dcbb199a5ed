"""A layer between a socket's transport and the protocol above it, such as TLS or a websocket.

A layer is the protocol of the transport below it. To what it carries it is a transport like any
other, `LayerTransport`, whose writes it turns into its own bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, cast


class Layer(Protocol):
    """A layer, as its `LayerTransport` uses it."""

    carried: asyncio.Protocol

    def send(self, data: bytes) -> None:
        """Send what the carried protocol has written."""

    def close(self) -> None:
        """Send what the layer says at its end, and close."""


class LayerTransport(asyncio.Transport):
    """The transport that a layer gives the protocol which it carries.

    Args:
        below: the transport of the layer.
        layer: the layer.

    """

    def __init__(self, below: asyncio.Transport, layer: Layer) -> None:
        super().__init__()
        self.below = below
        self._layer = layer
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport below knows."""
        return self.below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether it is closing or closed."""
        return self._is_closing or self.below.is_closing()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Carry another protocol from now on."""
        self._layer.carried = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return what is carried."""
        return self._layer.carried

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the carried protocol is told to pause."""
        self.below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return bytes that are not sent yet."""
        return self.below.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Do not read for now."""
        if not self.below.is_closing():
            self.below.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if not self.below.is_closing():
            self.below.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send."""
        if data and not self.is_closing():
            self._layer.send(bytes(data))

    def can_write_eof(self) -> bool:
        """Return False: a layer's end is more than the end of the bytes."""
        return False

    def close(self) -> None:
        """Send what is written, and close the layer and what carries it."""
        if not self._is_closing:
            self._is_closing = True
            self._layer.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closing = True
        self.below.abort()
