"""Interests and whereabouts of gateways, and routed mode (C4)."""
