"""Layouts that other people's packages state, compared with the tables: who states what, and where it differs."""
