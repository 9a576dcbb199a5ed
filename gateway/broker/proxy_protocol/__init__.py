"""PROXY protocol: a proxy in front says from where a connection came that it passes on."""
