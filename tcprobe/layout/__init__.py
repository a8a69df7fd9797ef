"""Maps between slots and elements, independent of any hardware: tables, linear algebra over GF(2), CSV files."""
