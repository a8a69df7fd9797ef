"""Opcodes that only emulated multiplies have: exact, or refused."""
