"""What a new gateway, or a new fleet, is given: configuration, policy, keys and a unit."""
