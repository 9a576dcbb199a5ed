"""The way in: from the bytes of a client to what the log is handed."""
