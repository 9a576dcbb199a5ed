"""State that a gateway keeps on its disk from one life to the next."""
