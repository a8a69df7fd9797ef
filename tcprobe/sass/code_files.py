"""Files with code of GPUs: cubins, PTX, and what holds fatbins; folders of them, such as a compiler's cache.

Where a file has no cubin for an arch, its PTX is assembled.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from mmap import mmap
from pathlib import Path
from typing import NamedTuple

from tcprobe.errors import DataError, UsageError
from tcprobe.isa.arch import ARCHS, own
from tcprobe.sass.elf import Cubin, cubin
from tcprobe.sass.image import Entry, entries
from tcprobe.sass.toolchain import Toolchain, attempt, compilers, version
from tcprobe.system import children, files
from tcprobe.system.children import Scratch

MOST_FILES = 10_000  # of a folder
SUFFIXES = (".cubin", ".ptx", ".fatbin", ".so", ".o", ".a", ".exe", ".dll", ".obj", ".lib", ".bin")
_TARGET = re.compile(r"^\s*\.target\s+(sm_([0-9]{2,3})[af]?)", re.MULTILINE)
# of ptxas about what is newer than it: a PTX version, or an arch
_TOO_NEW = re.compile(r"Unsupported \.version|is not defined for option 'gpu-name'|Unsupported \.target")


class Compiled(NamedTuple):
    """A cubin of a file, its bytes, and the PTX that it was made of where the file has that alone."""

    cubin: Cubin
    raw: bytes
    ptx: str | None = None


class CodeFiles:
    """Opens files; what cannot be read of one is told to `complaints`, another compiler that was needed to `notes`.

    With `archs` only code for these, as "sm_90". With `try_others`, PTX that is newer than the ptxas of `tools` is
    assembled by the first that knows it.
    """

    def __init__(self, tools: Toolchain, archs: Sequence[str] = (), try_others: bool = False) -> None:
        self._tools, self._archs, self._others = tools, tuple(archs), try_others
        self.complaints: list[str] = []
        self.notes: list[str] = []

    def read(self, path: Path) -> Iterator[Compiled]:
        """The code in a file, cubin by cubin; DataError where nothing in it can be read."""
        raw = files.contents(path)
        if raw is None:
            raise DataError(f"{path}: no such file.")
        try:
            yield from self._codes(raw, str(path))
        except DataError as error:
            raise DataError(f"{path}: {error}") from None

    def _codes(self, raw: bytes | mmap, path: str) -> Iterator[Compiled]:
        """The cubins of the archs that are wanted, and what is assembled of PTX where there are none.

        Cubins of other archs, and PTX that is not needed, are not unpacked.
        """
        there = entries(raw)
        archs, unread, others = set[str](), [str(e) for e in there if isinstance(e, DataError)], set[str]()
        cubins, texts = ([e for e in there if isinstance(e, Entry) and e.kind == kind] for kind in ("cubin", "PTX"))
        for entry in cubins:
            if self._archs and entry.arch and entry.arch not in self._archs:
                others.add(entry.arch)
                continue
            try:
                image = entry.unpacked()
                code = Compiled(cubin(image), image)
            except DataError as error:
                unread.append(str(error))
                continue
            archs.add(code.cubin.arch)
            if not self._archs or code.cubin.arch in self._archs:
                yield code
        missing = [name for name in self._archs if name not in archs] if archs or self._archs else [None]
        for entry in texts if missing else ():
            try:
                text = entry.unpacked().rstrip(b"\0").decode(errors="backslashreplace")
            except DataError as error:
                unread.append(str(error))
                continue
            for name in missing:
                yield self._assemble(text, name)
                archs.add(name or "")
        if unread and not archs and not others:
            raise DataError(unread[0])
        repeats = Counter(unread).items()
        self.complaints += [f"{path}: {words}" + (f" ({n} times)" if n > 1 else "") for words, n in repeats]
        if self._archs and not texts and archs.isdisjoint(self._archs):
            known = ", ".join(sorted(archs | others)) or "none that can be read"
            raise UsageError(f"{path} has no code for {', '.join(self._archs)}, and no PTX; it has {known}.")

    def _assemble(self, text: str, name: str | None) -> Compiled:
        """PTX assembled for an arch, or for that of its target."""
        target = _TARGET.search(text)
        if target is None:
            raise DataError("PTX without a .target.")
        name = name or f"sm_{target[2]}"
        row = next((row for row in ARCHS if row.name == name), None)
        to = own(row, target[1]) if row else name
        refused: list[str] = []
        for ptxas in self._compilers():
            raw, words = self._assembled(ptxas, to, text)
            if raw:
                by = f"{ptxas} {version(ptxas, self._tools.limit)}"
                self.notes += [f"PTX assembled for {to} by {by}, because {words}." for words in refused[:1]]
                return Compiled(cubin(raw), raw, text)
            refused.append(f"{ptxas} does not assemble this PTX for {to}: {words}")
            if not _TOO_NEW.search(words):
                break
        raise DataError(f"{'; '.join(refused)}.")

    def _compilers(self) -> Iterator[str]:
        """The ptxas that was chosen, then, unless it was named, the others that are here."""
        yield self._tools.ptxas
        if self._others:
            yield from (ptxas for ptxas in compilers() if ptxas != self._tools.ptxas)

    def _assembled(self, ptxas: str, to: str, text: str) -> tuple[bytes, str]:
        """(cubin, ""), or (b"", why this ptxas gives none)."""
        with Scratch() as scratch:
            source, output = scratch.folder / "text.ptx", scratch.folder / "text.cubin"
            source.write_text(text)
            run = attempt(scratch, [ptxas, "-lineinfo", "-arch", to, str(source), "-o", str(output)], self._tools.limit)
            if run.returncode == 0 and output.is_file():
                return output.read_bytes(), ""
            return b"", children.one_line(run.stderr.replace(str(source), "line")) or "it gave no reason"


def code_files(path: Path) -> list[Path]:
    """The files that a folder has of these kinds, such as a compiler's cache; PTX only where no cubin is beside it."""
    walk = os.walk(path)  # which passes over folders that vanish, as those of a compiler's cache do
    named = (Path(folder, name) for folder, _, names in walk for name in names if name.endswith(SUFFIXES))
    there = sorted(p for p in named if p.suffix in SUFFIXES and p.is_file())[: MOST_FILES + 1]
    if len(there) > MOST_FILES:
        raise UsageError(f"{path} has more than {MOST_FILES} files with code; name a folder inside.")
    if not there:
        raise UsageError(f"{path} has no files {', '.join(SUFFIXES)}.")
    cubins = {p.with_suffix("") for p in there if p.suffix == ".cubin"}
    return [p for p in there if p.suffix != ".ptx" or p.with_suffix("") not in cubins]
