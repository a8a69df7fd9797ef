"""The folders of findings that a command line means, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcprobe.errors import UsageError
from tcprobe.store.choose import HERE, Layers, alone, default, over_published
from tcprobe.store.results import Results
from tcprobe.system.files import is_folder

if TYPE_CHECKING:
    from pathlib import Path


def layers(folder: Path | None, only: bool = False) -> Layers:
    """The folder of --results over the published tables, or alone; without one `./results`, if it has tables.

    UsageError if the folder is missing.
    """
    if folder is None and not only:
        return default()
    place = folder or HERE
    if not is_folder(place):
        raise UsageError(f"{place}: no such folder.", "no folder", folder=str(place))
    return alone(Results(place)) if only else over_published(place)


def side_by_side(folders: Sequence[Path]) -> Layers:
    """Folders alone, each coming before those after it; without any `default`. UsageError if one is missing."""
    missing = next((folder for folder in folders if not is_folder(folder)), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such folder.", "no folder", folder=str(missing))
    return Layers([layer for folder in folders for layer in alone(Results(folder)).layers]) if folders else default()
