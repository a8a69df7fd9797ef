"""Measuring: what runs where, the processes that it takes, and what is concluded from their readings."""
