"""Listeners for clients: TCP, TLS and websockets, up to the first packet."""
