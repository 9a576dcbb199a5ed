"""The ways on which alerts leave the house: each a class that takes records, or says why not."""
