"""The folders of findings that a command line means, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcprobe.errors import UsageError
from tcprobe.store.choose import Layers, alone, default, over_published
from tcprobe.store.results import Results
from tcprobe.system.files import is_folder


def layers(folder: Path | None, only: bool = False) -> Layers:
    """The folder of --results over the published tables, or alone; without one `./results`, if it has tables.

    UsageError if the folder is missing.
    """
    if folder is None and not only:
        return default()
    folder = folder or Path("results")
    if not is_folder(folder):
        raise UsageError(f"{folder}: no such folder.", "no folder", folder=str(folder))
    return alone(Results(folder)) if only else over_published(folder)


def side_by_side(folders: Sequence[Path]) -> Layers:
    """Folders alone, each coming before those after it; without any `default`. UsageError if one is missing."""
    missing = next((folder for folder in folders if not is_folder(folder)), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such folder.", "no folder", folder=str(missing))
    return Layers([layer for folder in folders for layer in alone(Results(folder)).layers]) if folders else default()
