"""Parts that pages in a browser share: components, log-in, sessions and rules for browsers."""
