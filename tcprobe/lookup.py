"""What the names, folders and files of a command line mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tcprobe import arch, inventory
from tcprobe.errors import UsageError
from tcprobe.files import is_folder
from tcprobe.instruction import Fragment
from tcprobe.measurement import METHODS, Measurement
from tcprobe.results import Results, default


def folder_of(folder: Path | None) -> Results:
    """The results of --results, or the default; UsageError if the folder is missing."""
    if folder is None:
        return default()
    if not is_folder(folder):
        raise UsageError(f"{folder}: no such folder. `tcprobe run --results {folder}` makes it.")
    return Results(folder)


def archs_of(name: str | None, results: Results) -> list[str]:
    """The arch that --arch names; without it, and for "all", every arch that has measurements, ascending."""
    return results.archs() if name in (None, "all") else [arch.arch(name or "").name]


def chosen(patterns: Sequence[str]) -> list[Fragment]:
    """Fragments of names that must be unique, and of patterns and instructions that may mean several."""
    found: list[Fragment] = []
    for pattern in patterns:
        several = any(c in pattern for c in "*?[") or inventory.short(pattern) in inventory.instructions()
        found += inventory.select_or_fail(pattern) if several else [inventory.resolve(pattern)]
    return list(dict.fromkeys(found))


def measured(fragment: Fragment, name: str | None, results: Results) -> list[Measurement]:
    """The fragment's measurements, one an arch: all of them for "all", else the one with the strongest method.

    Of several archs with that method the newest.
    """
    archs = archs_of(name, results)
    if name == "all":
        return [saved[0] for a in archs if (saved := results.find(a, fragment)) and saved[1]]
    for method in METHODS:
        for a in reversed(archs):
            found = results.measurement(a, method, fragment.experiment)
            if found and fragment.operand in found.tables:
                return [found]
    return []


def no_table(fragment: Fragment, name: str | None, results: Results) -> UsageError:
    """Why there is nothing to show of a fragment."""
    archs = archs_of(name, results)
    saved = [(a, found[0]) for a in archs if (found := results.find(a, fragment))]
    words = "".join(f" {a} {m.status} it: {m.words}." for a, m in saved[:1])
    where = f" on {archs[0]}" if len(archs) == 1 else ""
    return UsageError(
        f"no table of {fragment.id}{where} in {results.root}.{words} "
        f"`tcprobe why-not {fragment.id} --arch {archs[0] if archs else 'sm_90'}` says more."
    )
