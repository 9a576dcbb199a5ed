"""Shares of what is short: turns and room, between users and hosts."""
