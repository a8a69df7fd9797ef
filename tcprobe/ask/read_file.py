"""What the code in a file does with matrices: of every function its matrix instructions, and what is known of them.

A file is a cubin, PTX, or anything that holds fatbins. Where it has no cubin for an arch, its PTX is assembled.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tcprobe.ask.opcode_origins import Origin, Origins
from tcprobe.errors import DataError, UsageError
from tcprobe.isa.arch import ARCHS, own
from tcprobe.sass import matrix_code
from tcprobe.sass.image import Cubin, FunctionCode, cubin, images
from tcprobe.sass.matrix_code import LOCAL, SourceLine, is_matrix, source_lines
from tcprobe.sass.toolchain import Toolchain, attempt, compilers, version
from tcprobe.system import children, files
from tcprobe.system.children import Scratch
from tcprobe.text import escaped
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.code_tables import CodeTable
    from tcprobe.store.choose import Layers

MOST_BYTES = 512 << 20  # of a file that is read
MOST_FILES = 10_000  # of a folder
SUFFIXES = (".cubin", ".ptx", ".fatbin", ".so", ".o", ".a", ".exe", ".dll", ".obj", ".lib", ".bin")
WITH_LINES = 20  # cubins of a file whose line information is read: each takes half a second
_TARGET = re.compile(r"^\s*\.target\s+(sm_([0-9]{2,3})[af]?)", re.MULTILINE)
# of ptxas about what is newer than it: a PTX version, or an arch
_TOO_NEW = re.compile(r"Unsupported \.version|is not defined for option 'gpu-name'|Unsupported \.target")
_HEAD = re.compile(r"\.(?:entry|func)\s+(?:\([^()]{0,2000}\)\s*)?([\w$%]{1,1000})")
_CALL = re.compile(
    r"^\s*(?:@!?%\w+\s+)?((?:w?mma|wgmma|tcgen05|ldmatrix|stmatrix|movmatrix)\.[\w.:]{1,200})", re.MULTILINE
)


@dataclass(frozen=True)
class Use:
    """A matrix opcode of a function: how often it stands there, for which source lines, and where it comes from."""

    opcode: str
    count: int
    lines: dict[SourceLine, int]
    origins: tuple[Origin, ...]

    @property
    def native(self) -> bool | None:
        """Whether some form becomes it in its own type; None where no form is known to become it."""
        return any(origin.native for origin in self.origins) if self.origins else None

    def to_json(self) -> Json:
        """Plain data."""
        lines = [{"file": line.file, "line": line.line, "count": n} for line, n in self.lines.items()]
        return {
            "opcode": self.opcode,
            "count": self.count,
            "native": self.native,
            "lines": lines,
            "forms": [origin.to_json() for origin in self.origins],
        }


@dataclass(frozen=True)
class FunctionReading:
    """A function of a file. `ptx` counts its PTX instructions by name where the file has them as text, else None.

    `unread` counts words of its code that nvdisasm does not take; `holds` is the table that it shows, or why none,
    where that was asked for.
    """

    file: str
    arch: str
    function: FunctionCode
    uses: tuple[Use, ...]
    local: dict[str, int]
    unread: int
    ptx: dict[str, int] | None = None
    holds: CodeTable | str | None = None

    @property
    def name(self) -> str:
        """The function's, with what cannot be printed spelt out."""
        return escaped(self.function.name)

    def to_json(self) -> Json:
        """Plain data."""
        f = self.function
        return {
            "file": self.file,
            "arch": self.arch,
            "name": self.name,
            "registers": f.registers,
            "stack": f.stack,
            "local_loads": self.local.get("LDL", 0),
            "local_stores": self.local.get("STL", 0),
            "routines": list(f.routines),
            "instructions": [use.to_json() for use in self.uses],
            "ptx": None if self.ptx is None else [{"name": n, "count": c} for n, c in self.ptx.items()],
            "unread": self.unread,
            **self._tables(),
        }

    def _tables(self) -> Json:
        if self.holds is None:
            return {}
        if isinstance(self.holds, str):
            return {"tables": [], "not_seen": self.holds}
        return {"tables": [self.holds.to_json(self.file, self.name)]}


class Compiled(NamedTuple):
    """A cubin of a file, its bytes, and the PTX that it was made of where the file has that alone."""

    cubin: Cubin
    raw: bytes
    ptx: str | None = None


class Reader:
    """Reads files; what cannot be read of one is told to `complaints`, another compiler that was needed to `notes`.

    With `try_others`, PTX that is newer than the ptxas of `tools` is assembled by the first that knows it.
    """

    def __init__(
        self,
        tools: Toolchain,
        origins: Origins,
        archs: Sequence[str] = (),
        tables_of: Layers | None = None,
        try_others: bool = False,
    ) -> None:
        self._tools, self._origins, self._archs, self._tables_of = tools, origins, tuple(archs), tables_of
        self._others = try_others
        self.complaints: list[str] = []
        self.notes: list[str] = []

    def read(self, path: Path) -> Iterator[FunctionReading]:
        """The functions of a file, arch by arch; DataError where nothing in it can be read."""
        raw = files.read(path, MOST_BYTES)
        if raw is None:
            raise DataError(f"{path}: no such file.")
        try:
            codes = list(self._codes(raw, str(path)))
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        for name in dict.fromkeys(code.cubin.arch for code in codes):
            yield from self._of_arch(str(path), name, [code for code in codes if code.cubin.arch == name])

    def _codes(self, raw: bytes, path: str) -> Iterator[Compiled]:
        """The cubins of the archs that are wanted, and what is assembled of PTX where there are none."""
        texts, archs, unread = [], [], []
        for image in images(raw):
            try:
                if image.data is None:
                    unread.append(image.words)
                elif image.kind == "PTX":
                    texts.append(_text(image.data))
                else:
                    code = Compiled(cubin(image.data), image.data)
                    archs.append(code.cubin.arch)
                    if not self._archs or code.cubin.arch in self._archs:
                        yield code
            except DataError as error:
                unread.append(str(error))
        if unread and not texts and not archs:
            raise DataError(unread[0])
        self.complaints += [f"{path}: {words}{_times(n)}" for words, n in Counter(unread).items()]
        missing = [name for name in self._archs if name not in archs] if archs or self._archs else [None]
        for name in missing if texts else ():
            yield from (self._assemble(text, name) for text in texts)
        if self._archs and not texts and len(missing) == len(self._archs):
            there = ", ".join(sorted(set(archs))) or "none that can be read"
            raise UsageError(f"{path} has no code for {', '.join(self._archs)}, and no PTX; it has {there}.")

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

    def _of_arch(self, path: str, name: str, cubins: Sequence[Compiled]) -> Iterator[FunctionReading]:
        functions = [(code, function) for code in cubins for function in code.cubin.functions]
        places = matrix_code.find(self._tools, name, [function.code for _, function in functions])
        lines: dict[int, dict[str, dict[int, SourceLine]]] = {}
        holds = self._holds(name, [function for _, function in functions])
        for (code, function), decoded, shows in zip(functions, places, holds, strict=True):
            matrix = {address: opcode for address, opcode in decoded.opcodes.items() if is_matrix(opcode)}
            if matrix and code.cubin.lines and id(code) not in lines and len(lines) < WITH_LINES:
                lines[id(code)] = source_lines(self._tools, code.raw)
            ptx = None if code.ptx is None else ptx_calls(code.ptx).get(function.name, {})
            uses = self._uses(name, matrix, lines.get(id(code), {}).get(function.name, {}), ptx)
            local = Counter(s for o in decoded.opcodes.values() if (s := matrix_code.stem(o)) in LOCAL)
            yield FunctionReading(path, name, function, uses, dict(local), decoded.unread, ptx, shows)

    def _holds(self, name: str, functions: Sequence[FunctionCode]) -> Sequence[CodeTable | str | None]:
        """The table that each function shows, where that is asked for."""
        row = next((row for row in ARCHS if row.name == name), None)
        if self._tables_of is None or row is None:
            return [None] * len(functions)
        from tcprobe.ask.code_tables import tables

        return tables(self._tools, row, functions, self._tables_of)

    def _uses(
        self, arch: str, matrix: dict[int, str], line_of: dict[int, SourceLine], ptx: Mapping[str, int] | None
    ) -> tuple[Use, ...]:
        uses = []
        for opcode, count in sorted(Counter(matrix.values()).items()):
            by_line = Counter(line_of[place] for place, other in matrix.items() if other == opcode and place in line_of)
            uses.append(Use(opcode, count, dict(sorted(by_line.items())), self._origins.find(arch, opcode, ptx)))
        return tuple(uses)


def ptx_calls(text: str) -> dict[str, dict[str, int]]:
    """The matrix instructions of every function of a PTX text, by name, with counts."""
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head[1]: dict(Counter(_CALL.findall(text, head.end(), end))) for head, end in zip(heads, ends, strict=True)}


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="backslashreplace")


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
