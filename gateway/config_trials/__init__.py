"""A gateway's configuration is changed on trial: what does not come up goes back by itself."""
