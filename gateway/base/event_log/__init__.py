"""Log of events, in lines that are bounded whatever others do."""
