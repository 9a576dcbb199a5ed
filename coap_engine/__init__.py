"""CoAP (RFC 7252 and what belongs to it) without sockets, clocks or random numbers of its own."""
