"""What happened, in lines that are bounded whatever others do."""
