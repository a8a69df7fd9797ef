"""Saved layouts of folders and files: what `tcprobe fit` is given."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tcprobe.ask.describe import holders
from tcprobe.errors import DataError, UsageError
from tcprobe.layout.csv import read_csv
from tcprobe.layout.table import Table
from tcprobe.store.choose import Layer, alone, default, some
from tcprobe.store.results import Results
from tcprobe.system.files import is_folder
from tcprobe.text import message


class Saved(NamedTuple):
    """A layout: its id, who has it, the table, and where it is: "published", or a folder or file."""

    layout: str
    who: str
    table: Table
    source: str


def tables(paths: Sequence[Path]) -> list[Saved]:
    """Every layout under `paths`; without one those measured into `./results`, and below them the published ones."""
    if paths:
        return [saved for path in paths for saved in _of(path)]
    nearest: dict[str, Saved] = {}  # each layout once, from the first folder that has it
    for layer in default().layers:
        if layer.name == layer.group:
            for saved in _of_folder(layer):
                nearest.setdefault(saved.layout, saved)
    return list(nearest.values())


def _of(path: Path) -> Iterator[Saved]:
    if is_folder(path):
        layer, *_ = alone(Results(path)).layers
        if not layer.results.layouts():
            raise UsageError(f"{path}: no saved tables there; CSV files are named one by one.", "no measurements")
        yield from _of_folder(layer)
    elif not os.path.exists(path):
        raise UsageError(f"{path}: no such file or folder.")
    elif path.suffix == ".csv":
        table = read_csv(path)
        yield Saved(table.id, "", table, str(path))
    elif path.suffix == ".json" and path.parent.name == "layouts":
        yield Saved(path.stem, "", Results(path.parent.parent).layout(path.stem), str(path))
    else:
        raise DataError(f"{path}: neither a folder of results, nor a file of layouts/, nor a CSV file.")


def _of_folder(layer: Layer) -> Iterator[Saved]:
    results, name, _ = layer
    who = _who(results)
    for layout in results.layouts():
        yield Saved(layout, who.get(layout, ""), results.layout(layout), name)


def _who(results: Results) -> dict[str, str]:
    """Layout id to the fragments that have it: the first, and how many more. A file that cannot be trusted is named."""
    names: dict[str, list[str]] = {}
    for name in results.archs():
        for method in results.methods(name):
            for experiment in results.experiments(name, method):
                # say so where a measurement names no layouts because it cannot be trusted
                key = (name, method, experiment)
                if not results.named_layouts(*key):
                    try:
                        results.measurement(*key)
                    except DataError as error:
                        print(message(f"Left out: {error}"), file=sys.stderr)
            for layout, ids in holders(results, name, method).items():
                names.setdefault(layout, []).extend(f"{name} {id_}" for id_ in ids)
    return {layout: some(ids, 1) for layout, ids in names.items()}
