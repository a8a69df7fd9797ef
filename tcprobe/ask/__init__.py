"""Questions answered from tables: who holds what, what feeds what, comparing, converting."""
