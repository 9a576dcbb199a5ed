"""What an operator's programs ask over HTTP: metrics and health."""
