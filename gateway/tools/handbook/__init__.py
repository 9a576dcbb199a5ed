"""What the command line says of itself: the page of commands, and its manual pages."""
