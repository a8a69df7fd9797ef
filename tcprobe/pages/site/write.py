"""A folder written whole or not at all, and only where nothing foreign is in the way."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tcprobe.errors import DataError, EnvironmentUnfitError, UsageError
from tcprobe.system import files
from tcprobe.text import quoted

MOST_LISTED = 16 << 20  # bytes of the list of a site's files
MARK = ".tcprobe-site"  # names every file of a site, so that a later one can take its place
_PART = re.compile(r"\.tcprobe-site-([1-9][0-9]*)-[0-9a-f]{16}\.part")


def require_place(folder: Path) -> None:
    """UsageError where the folder has files that are not of a site written before; EnvironmentUnfitError where none
    can be made."""
    require_ours(folder)
    with _part(Path(os.path.realpath(folder)), folder) as part:
        part.mkdir(parents=True)


def require_ours(folder: Path) -> None:
    """UsageError where the folder has files that are not of a site written before."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is something else of that name.")
    listed = _written_names(folder)
    foreign = next((name for name in _names(folder) if name not in listed), None)
    if foreign is not None:
        raise UsageError(
            f"{folder} has files that are not part of a site, such as {quoted(foreign)}; nothing was changed. "
            "Choose another folder."
        )


def _written_names(folder: Path) -> set[str]:
    try:
        listed = files.read(folder / MARK, MOST_LISTED)
    except DataError:
        return set()
    return set() if listed is None else {MARK, *listed.decode("utf-8", "replace").splitlines()}


def _names(folder: Path) -> Iterator[str]:
    """Relative names of all that is not a folder, one folder after the other."""
    for path, folders, names in os.walk(folder):
        relative = Path(path).relative_to(folder)
        folders.sort()
        links = [name for name in folders if Path(path, name).is_symlink()]
        yield from ((relative / name).as_posix() for name in sorted([*names, *links]))


def write(folder: Path, pages: Mapping[str, str]) -> None:
    """Write a site into a folder that is missing, empty, or holds a site; EnvironmentUnfitError if it cannot be."""
    require_ours(folder)
    destination = Path(os.path.realpath(folder))
    _sweep(destination.parent)
    with _part(destination, folder) as draft:
        _fill(draft, {**pages, MARK: "".join(f"{name}\n" for name in sorted(pages))})
        _exchange(draft, destination)


@contextmanager
def _part(destination: Path, folder: Path) -> Iterator[Path]:
    """A name beside the target, where nothing is left in the end; EnvironmentUnfitError where there can be none."""
    draft = destination.parent / f".tcprobe-site-{os.getpid()}-{os.urandom(8).hex()}.part"
    try:
        yield draft
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot write {folder}: {error.strerror}. Free space, or choose another place."
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fill(draft: Path, pages: Mapping[str, str]) -> None:
    draft.mkdir(parents=True)
    for folder in {(draft / name).parent for name in pages}:
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (draft / name).write_bytes(text.encode())


def _exchange(draft: Path, destination: Path) -> None:
    """The new folder in the place of the old one, which comes back where that fails."""
    if not destination.exists():
        draft.rename(destination)
        return
    draft.chmod(destination.stat().st_mode & 0o777)
    old = draft.with_name(f".tcprobe-site-{os.getpid()}-{os.urandom(8).hex()}.part")
    destination.rename(old)
    try:
        draft.rename(destination)
    except BaseException:
        old.rename(destination)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what killed writers left; a folder of a process that is there stays."""
    with suppress(OSError):
        for name in os.listdir(folder):
            match = _PART.fullmatch(name)
            if match and not files.alive(int(match[1])):
                shutil.rmtree(folder / name, ignore_errors=True)
