"""Alerts of one gateway: by which rules, and what the configuration says of them."""
