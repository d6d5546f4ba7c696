"""Where embedding tables go: tables, placements, their expected times, the search among them."""
