"""What has passed through the broker, and how it is told."""
