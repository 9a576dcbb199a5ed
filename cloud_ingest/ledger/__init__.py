"""Which numbers of each stream the tables have: what makes that each comes once."""
