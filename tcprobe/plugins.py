"""Modules that are found by being in a package: sources of references, formats, files of rows.

A plug-in is a module with a set of names: NAMES in capitals are data, others are functions. One that lacks a name, or
cannot be imported, is an error and never left out in silence.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from types import ModuleType

from tcprobe.errors import RowError, TcprobeError


def module_names(package: str, apart: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the package's modules, sorted, without importing them; those `apart` are not plug-ins."""
    folders = importlib.import_module(package).__path__
    names = {name.removesuffix(".py") for folder in folders for name in os.listdir(folder) if name.endswith(".py")}
    return tuple(sorted(names - {"__init__", *apart}))


def load(package: str, name: str, names: Sequence[str]) -> ModuleType:
    """One plug-in; RowError if it cannot be imported or lacks one of `names`."""
    try:
        module = importlib.import_module(f"{package}.{name}")
    except TcprobeError:
        raise
    except Exception as error:
        raise RowError(f"{package}.{name} cannot be imported: {type(error).__name__}: {error}.") from error
    wrong = [wanted for wanted in names if not _has(module, wanted)]
    if wrong:
        raise RowError(f"{package}.{name} lacks {', '.join(wrong)}: a module of {package} needs {', '.join(names)}.")
    return module


def discover(package: str, names: Sequence[str], apart: Sequence[str] = ()) -> dict[str, ModuleType]:
    """All plug-ins of a package by module name, sorted; RowError as `load`."""
    return {name: load(package, name, names) for name in module_names(package, apart)}


def _has(module: ModuleType, name: str) -> bool:
    value = getattr(module, name, None)
    return value is not None and (name.isupper() or callable(value))
