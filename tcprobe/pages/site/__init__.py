"""The static site: a page for every fact, made from the tables alone."""
