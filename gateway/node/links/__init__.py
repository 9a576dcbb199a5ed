"""Links between gateways: sockets and timers around the pure cores of `tree_handler`."""
