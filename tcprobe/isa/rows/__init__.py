"""One file of rows per family of instructions: a module with INSTRUCTIONS. Adding a family is adding a file."""
