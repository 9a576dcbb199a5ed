"""A gateway's own page: what people see and do in a browser, and the REST API below it."""
