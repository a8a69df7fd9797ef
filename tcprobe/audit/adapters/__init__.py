"""What packages of the index state, one module a package, in the package's own terms.

An adapter is a module of this package with PACKAGE (its name on the index), REPORTED (known reports of its errors, by
the beginning of a layout's name) and `statements() -> Iterator[Statement]`. It imports its package inside `statements`,
which runs in a process of its own: `audit.child`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Protocol

from tcprobe.audit.statement import Statement
from tcprobe.plugins import load, module_names

NAMES = ("PACKAGE", "REPORTED", "statements")


class Adapter(Protocol):
    """The names that an adapter has."""

    PACKAGE: str
    REPORTED: Mapping[str, str]

    def statements(self) -> Iterator[Statement]:
        """All layouts that the package states."""


@cache
def adapters() -> dict[str, tuple[str, Adapter]]:
    """(module, adapter) by the package's name, sorted."""
    modules = {name: load(__name__, name, NAMES) for name in module_names(__name__)}
    return {module.PACKAGE: (name, module) for name, module in sorted(modules.items(), key=lambda m: m[1].PACKAGE)}
