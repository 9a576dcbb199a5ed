"""A client of raw bytes over a websocket."""

from __future__ import annotations

from raw_client import TIMEOUT_S, Address
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol


class WebSocketClient:
    """One websocket.

    Args:
        address: the broker's listener for websockets.
        subprotocols: what the client offers.

    """

    def __init__(self, address: Address, *subprotocols: str) -> None:
        host, port = address
        self._socket: ClientConnection = connect(
            f"ws://{host}:{port}/mqtt",
            subprotocols=[Subprotocol(name) for name in subprotocols],
            compression=None,
            proxy=None,
            open_timeout=TIMEOUT_S,
        )
        self._input = b""

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the server selected."""
        return self._socket.subprotocol

    def send(self, *frames: bytes | str) -> None:
        """Send frames: binary for bytes, else text."""
        for frame in frames:
            self._socket.send(frame)

    def expect(self, data: bytes) -> None:
        """The next bytes, in whatever binary frames they come."""
        while len(self._input) < len(data):
            frame = self._socket.recv(TIMEOUT_S)
            assert isinstance(frame, bytes), f"a frame that is not binary: {frame!r}"
            self._input += frame
        taken, self._input = self._input[: len(data)], self._input[len(data) :]
        assert taken == data

    def expect_end(self) -> None:
        """The broker must close without another packet."""
        try:
            frame = self._socket.recv(TIMEOUT_S)
        except ConnectionClosed:
            return
        raise AssertionError(f"expected the end, got {frame!r}")

    def close(self) -> None:
        """Close."""
        self._socket.close()
