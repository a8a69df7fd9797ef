"""Pages of a results folder, made from its tables alone."""
