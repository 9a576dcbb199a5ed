"""A gateway among others: links to neighbours, members, what is signed."""
