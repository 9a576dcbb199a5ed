"""What pages in a browser share: their components, log-in, sessions and rules for browsers."""
