"""What the names, folders and files of a command line mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcprobe.errors import UsageError
from tcprobe.isa import arch
from tcprobe.isa.fragment import Fragment
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
    """Folders alone, each before those after it; without any, `default`. UsageError if one is missing."""
    missing = next((folder for folder in folders if not is_folder(folder)), None)
    if missing is not None:
        raise UsageError(f"{missing}: no such folder.", "no folder", folder=str(missing))
    return Layers([layer for folder in folders for layer in alone(Results(folder)).layers]) if folders else default()


def archs_of(name: str | None, layers: Layers) -> list[str]:
    """The arch that --arch names; without it, and for "all", every arch that has measurements, ascending."""
    return layers.archs() if name in (None, "all") else [arch.arch(at).name for at in (name or "").split(",")]


def no_table(fragment: Fragment, name: str | None, layers: Layers) -> UsageError:
    """Why there is nothing to show of a fragment."""
    archs = archs_of(name, layers)
    saved = next(layers.saved(fragment.experiment, archs), None)
    words = f" {saved.measured.arch} {saved.measured.status} it: {saved.measured.words}." if saved else ""
    where = f" on {archs[0]}" if len(archs) == 1 else ""
    at = archs[0] if archs else "sm_90"
    words = f"no table of {fragment.id}{where} in {layers.words}.{words}"
    return UsageError(words, "no table", id=fragment.id, arch=at)


def some(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
