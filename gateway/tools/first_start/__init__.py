"""The first start of a gateway that has no owner yet: a page on the local link sets it up."""
