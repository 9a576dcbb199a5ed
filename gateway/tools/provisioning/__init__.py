"""Provisioning of a new gateway, or a new fleet: configuration, policy, keys and a unit."""
