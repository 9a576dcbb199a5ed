"""The base of every floor above: files, clocks, tasks, the event log, TOML."""
