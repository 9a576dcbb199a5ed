"""Topics: who subscribed, and where a message goes. No I/O, no clock."""
