"""What the sub-commands of `hedgerow` do, apart from reading their arguments."""
