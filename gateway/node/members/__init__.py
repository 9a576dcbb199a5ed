"""The gateways of the fleet, as each of them knows them by their records."""
