"""Numbers of each stream that the tables have: by these each message comes once."""
