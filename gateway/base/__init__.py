"""What every floor above stands on: files, clocks, tasks, the event log, TOML."""
