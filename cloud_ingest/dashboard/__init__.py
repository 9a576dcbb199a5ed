"""The dashboard: read models over the tables, and a web page that shows them."""
