"""Events as SVG: pure functions from data to elements, for a page that needs no network."""
