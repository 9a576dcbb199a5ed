"""Statistics of what has passed through the broker, and how they are told."""
