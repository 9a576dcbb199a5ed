"""The cloud side: a collector that joins the tree, and the Spark job over what it spooled."""
