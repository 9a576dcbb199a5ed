"""Who gets what is short: turns and room, shared out between users and hosts."""
