"""One gateway process: its parts, their order, and the system around it."""
