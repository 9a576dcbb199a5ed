"""One gateway's configuration: the file, its sections, what values may be."""
