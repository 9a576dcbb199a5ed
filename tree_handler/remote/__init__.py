"""Requests between gateways: asked, repeated, executed once, kept and watched (sans-I/O)."""
