"""Instructions: a module a group, each with OPCODES, found by being in this folder (`emulate/compiled.py`)."""
