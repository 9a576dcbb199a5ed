"""A gateway says how it is: a status record on a topic that replicates, for the fleet's watch."""
