"""Two of a kind compared: the tables or the arithmetic of two archs, folders or compilers; two orders."""
