"""Saved layouts of folders and files: what `tcprobe fit` is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tcprobe.describe import holders, some
from tcprobe.errors import DataError, UsageError
from tcprobe.files import is_folder
from tcprobe.foreign import read_csv
from tcprobe.results import Results, default
from tcprobe.table import Table


def tables(paths: Sequence[Path]) -> list[tuple[str, str, Table]]:
    """(layout id, who has it, table) of every layout under `paths`."""
    found = []
    for path in paths or (default().root,):
        if is_folder(path):
            results = Results(path)
            if not results.layouts():
                raise UsageError(
                    f"{path}: no saved tables there. `tcprobe run` makes them; CSV files are named one by one."
                )
            who = _who(results)
            found += [(layout, who.get(layout, ""), results.layout(layout)) for layout in results.layouts()]
        elif not os.path.exists(path):
            raise UsageError(f"{path}: no such file or folder.")
        elif path.suffix == ".csv":
            table = read_csv(path)
            found.append((table.id, str(path), table))
        elif path.suffix == ".json" and path.parent.name == "layouts":
            results = Results(path.parent.parent)
            found.append((path.stem, str(path), results.layout(path.stem)))
        else:
            raise DataError(f"{path}: neither a folder of results, nor a file of layouts/, nor a CSV file.")
    return found


def _who(results: Results) -> dict[str, str]:
    """Layout id to the fragments that have it: the first, and how many more."""
    names: dict[str, list[str]] = {}
    for name in results.archs():
        for method in results.methods(name):
            for layout, ids in holders(results, name, method).items():
                names.setdefault(layout, []).extend(f"{name} {id_}" for id_ in ids)
    return {layout: some(ids, 1) for layout, ids in names.items()}
