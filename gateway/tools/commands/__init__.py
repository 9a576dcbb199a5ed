"""Work of the sub-commands of `hedgerow`, apart from reading their arguments."""
