"""Maps between slots and elements, apart from any hardware: tables, linear algebra over GF(2), CSV files."""
