"""One gateway as a process: its configuration, what it keeps, shows, and runs."""
