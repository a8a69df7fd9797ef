"""ptxas and nvdisasm: where they are, their versions, the archs that they know, and ptxas at work on probes.

They are searched in this order: the folder given (`--cuda`), CUDA_HOME, the wheels that come with tcprobe, PATH. A
folder may be a toolkit (with bin/), hold the programs itself, or be a target folder of pip install.

A refusal by ptxas concerns one kernel: ptxas names its line, or fails on that kernel alone (by a signal, or without a
message) although it assembles an empty one. Everything else is a failure of the tool.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import ARCHS, Arch, own
from tcprobe.isa.arch import version as target_version
from tcprobe.probes.ptx import Kernel, blame, module
from tcprobe.system import children
from tcprobe.system.children import MOST_BYTES, HungError, Scratch, one_line

WHEELS = ("nvidia.cuda_nvcc", "nvidia.cu13", "nvidia.cuda_nvdisasm")
HINT = "pip install tcprobe brings them on Linux and Windows; or name a CUDA toolkit with --cuda or CUDA_HOME."
LIMIT = 120.0  # seconds for one call of a tool, unless `--limit` is given
# signals by which a program ends itself on bad input, rather than being ended by others
CRASHES = frozenset(getattr(signal, f"SIG{name}", None) for name in ("SEGV", "ABRT", "BUS", "FPE", "ILL")) - {None}
TOO_LARGE = -getattr(signal, "SIGXFSZ", 0) or None
NOT_RUN = (126, 127)  # exit codes of a shell that cannot run a program


@dataclass(frozen=True)
class Toolchain:
    """Paths and versions (as "12.9.86") of both programs, and how many seconds a call may take."""

    ptxas: str
    nvdisasm: str
    ptxas_version: str
    nvdisasm_version: str
    limit: float = LIMIT

    @property
    def name(self) -> str:
        return f"ptxas {self.ptxas_version}, nvdisasm {self.nvdisasm_version}"

    @property
    def archs(self) -> tuple[Arch, ...]:
        """The archs that this ptxas assembles for."""
        targets = known_targets(self.ptxas, self.limit)
        return tuple(row for row in ARCHS if row.name in targets)


def toolchain_of(ptxas: str, nvdisasm: str, limit: float = LIMIT) -> Toolchain:
    """The toolchain of two programs."""
    return Toolchain(ptxas, nvdisasm, version(ptxas, limit), version(nvdisasm, limit), limit)


def find(folder: Path | None = None, limit: float = LIMIT) -> Toolchain:
    """The toolchain in `folder`, or the first found; EnvironmentUnfitError says what is missing.

    `folder` must have ptxas, since it names a compiler; nvdisasm may come from elsewhere.
    """
    return toolchain_of(compiler(folder), _find("nvdisasm", folder), limit)


def compiler(folder: Path | None = None) -> str:
    """The ptxas in a folder, or the first found; EnvironmentUnfitError if there is none."""
    path = _in(folder, "ptxas") if folder else _find("ptxas", None)
    if not path:
        raise EnvironmentUnfitError(
            f"{folder} has no ptxas, nor has its bin, or a wheel in it: name the folder of a CUDA toolkit."
        )
    return path


@cache
def disassembler(limit: float = LIMIT) -> Toolchain:
    """nvdisasm alone, for code of other compilers; EnvironmentUnfitError if there is none."""
    nvdisasm = _find("nvdisasm", None)
    return Toolchain("", nvdisasm, "", version(nvdisasm, limit), limit)


def program(name: str) -> str:
    """A program of a CUDA toolkit, the first found; EnvironmentUnfitError if there is none."""
    return _find(name, None)


def _find(program: str, folder: Path | None) -> str:
    path = next(_found(program, folder), None)
    if not path:
        where = ", ".join(str(p) for p in (folder, os.environ.get("CUDA_HOME"), "the installed wheels", "PATH") if p)
        raise EnvironmentUnfitError(f"{program} was not found in {where}. {HINT}")
    return path


def _found(program: str, folder: Path | None) -> Iterator[str]:
    """Every program of this name in the places that are searched, in their order."""
    for place in (folder, os.environ.get("CUDA_HOME"), *_wheel_folders()):
        path = _in(Path(place), program) if place else None
        if path:
            yield path
    on_path = shutil.which(program)
    if on_path:
        yield os.path.abspath(on_path)


def compilers() -> list[str]:
    """Every ptxas that is found without a folder given, the one that `find` takes first."""
    return list(dict.fromkeys(_found("ptxas", None)))


def newer_than(cuda: str, arch: Arch) -> str | None:
    """The newest ptxas that is installed, knows an arch and is later than a CUDA version; None if there is none."""
    versions = {}
    for program in compilers():
        with suppress(EnvironmentUnfitError):
            if arch.name in known_targets(program):
                versions[tuple(map(int, version(program).split(".")))] = program
    newest = max(versions, default=(0,))
    return versions[newest] if newest[:2] > tuple(map(int, cuda.split("."))) else None


def _in(folder: Path, program: str) -> str | None:
    """The program in a folder, its bin, or a wheel installed there (`pip install --target`); None if it is in none.

    EnvironmentUnfitError if it is not executable.
    """
    wheels = (folder.joinpath(*wheel.split("."), "bin") for wheel in WHEELS)
    for candidate in (place / program for place in (folder, folder / "bin", *wheels)):
        if candidate.is_file() and not os.access(candidate, os.X_OK):
            raise EnvironmentUnfitError(f"{candidate} is not executable: chmod +x, or name another folder by --cuda.")
        path = shutil.which(program, path=str(candidate.parent))
        if path:
            return os.path.abspath(path)
    return None


def _wheel_folders() -> list[Path]:
    places = []
    for name in WHEELS:
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        places += [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    return places


@cache
def version(program: str, limit: float = LIMIT) -> str:
    """The release that `program --version` prints; EnvironmentUnfitError if it prints none."""
    text = call([program, "--version"], limit).stdout
    match = re.search(r"\bV(\d{1,4}\.\d{1,4}\.\d{1,4})\b", text)
    if not match:
        raise EnvironmentUnfitError(f"{program} --version prints no version: {one_line(text)!r}. {HINT}")
    return match[1]


@cache
def known_targets(ptxas: str, limit: float = LIMIT) -> frozenset[str]:
    """Every sm_XX that ptxas names in its help."""
    return frozenset(re.findall(r"sm_\d+(?=')", call([ptxas, "--help"], limit).stdout))


def call(command: Sequence[str], limit: float = LIMIT) -> CompletedProcess[str]:
    """Run a tool that should not crash; EnvironmentUnfitError as `attempt`, and if it crashes."""
    try:
        with Scratch() as scratch:
            return check_survived(attempt(scratch, command, limit))
    except OSError as error:
        raise EnvironmentUnfitError(f"no temporary folder for {command[0]}: {error.strerror}.") from None


def attempt(scratch: Scratch, command: Sequence[str], limit: float) -> CompletedProcess[str]:
    """Run a tool, which may refuse its input or crash (returncode -n, n one of CRASHES).

    EnvironmentUnfitError if it cannot be run, does not answer within `limit` seconds, is ended by another signal, or
    prints too much.
    """
    try:
        completed = scratch.call(command, limit)
    except OSError as error:
        raise EnvironmentUnfitError(f"{command[0]} cannot be run: {error.strerror}. {HINT}") from None
    except HungError as error:
        raise EnvironmentUnfitError(f"{command[0]} {error} (`tcprobe run --limit`) and was stopped.") from None
    if completed.returncode in NOT_RUN:
        raise EnvironmentUnfitError(f"{command[0]} cannot be run: {one_line(completed.stderr)}. {HINT}")
    if max(len(completed.stdout), len(completed.stderr)) >= MOST_BYTES or completed.returncode == TOO_LARGE:
        most = f"{MOST_BYTES >> 20} MB, or than `ulimit -f` allows"
        raise EnvironmentUnfitError(f"{command[0]} was stopped: it wrote more than {most}.")
    return completed if -completed.returncode in CRASHES else check_survived(completed)


def check_survived(completed: CompletedProcess[str]) -> CompletedProcess[str]:
    """`completed`; EnvironmentUnfitError if a signal ended it, StarvedError if that was SIGKILL."""
    if children.exit_code(completed.returncode) < 0:
        raise EnvironmentUnfitError(f"{completed.args[0]} was ended by signal {-completed.returncode}. {HINT}")
    return completed


EMPTY = ".version {ptx}\n.target {arch}\n.address_size 64\n.visible .entry nothing(.param .u32 p) {{ ret; }}\n"
MOST_STUMBLES = 100  # unexplained failures on parts of one module; finding 16 refused kernels of 83 takes at most 60


LEVELS = {False: "1", True: "3"}  # of optimisation by `Kernel.optimised`, the same as for the driver


@dataclass(frozen=True)
class Ptxas:
    """A ptxas in place of the driver's compiler; `limit` is the time for one call, in seconds."""

    program: str
    limit: float

    @property
    def name(self) -> str:
        return f"ptxas {version(self.program, self.limit)}"

    def require(self, arch: Arch) -> None:
        """EnvironmentUnfitError unless it assembles for an arch."""
        if arch.name not in known_targets(self.program, self.limit):
            raise EnvironmentUnfitError(f"{self.program} ({self.name}) does not know {arch.name}: name another --cuda.")

    def assemble(self, arch: Arch, text: str, optimised: bool) -> tuple[bytes, str]:
        """(cubin, ""), or (b"", why there is none); EnvironmentUnfitError if ptxas cannot be run."""
        try:
            with Scratch() as scratch:
                cubin = scratch.folder / "probes.cubin"
                command = ptxas_command(self.program, arch, text, cubin)
                completed = attempt(scratch, [*command, f"-O{LEVELS[optimised]}"], self.limit)
                cubin_bytes = cubin.read_bytes() if completed.returncode == 0 and cubin.is_file() else b""
                return cubin_bytes, "" if cubin_bytes else completed.stderr.strip() or _failure_words(completed)
        except OSError as error:
            raise EnvironmentUnfitError(f"no temporary files for the probes: {error.strerror}.") from None


def ptxas_command(program: str, arch: Arch, text: str, cubin: Path) -> list[str]:
    """The command that assembles a module; its text is written to a file beside the cubin."""
    source = cubin.with_suffix(".ptx")
    source.write_text(text)
    target = text.split("\n.target ", 1)[1].split("\n", 1)[0]
    return [program, "-arch", own(arch, target), str(source), "-o", str(cubin)]


@dataclass
class Assembler:
    """Assembles modules for `row` into the file `cubin`. `stumbles` counts failures of ptxas without a reason."""

    tools: Toolchain
    row: Arch
    scratch: Scratch
    cubin: Path
    stumbles: int = 0

    def assemble(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Assemble all kernels that ptxas takes; returns its words by name of each kernel that it refuses.

        EnvironmentUnfitError if ptxas fails otherwise.
        """
        refused: dict[str, str] = {}
        pending = sorted(kernels, key=lambda k: target_version(k.target.ptx))
        while pending and (words := self._refusals(pending)):
            refused |= words
            pending = [k for k in pending if k.name not in words]
        if not pending:
            self.cubin.unlink(missing_ok=True)
        return refused

    def assemble_nothing(self) -> bool:
        """Whether ptxas assembles a kernel that does nothing."""
        completed = self._ptxas(EMPTY.format(ptx=self.row.ptx, arch=self.row.name))
        return completed.returncode == 0 and self.cubin.is_file()

    def _refusals(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """Assemble; the kernels that are refused, empty if it worked."""
        completed = self._ptxas(module(kernels, self.row))
        if completed.returncode == 0 and self.cubin.is_file():
            return {}
        return blame(completed.stderr, kernels) or self._bisect(kernels, _failure_words(completed))

    def _ptxas(self, text: str) -> CompletedProcess[str]:
        self.cubin.unlink(missing_ok=True)
        return attempt(self.scratch, ptxas_command(self.tools.ptxas, self.row, text, self.cubin), self.tools.limit)

    def _bisect(self, kernels: Sequence[Kernel], words: str) -> dict[str, str]:
        """ptxas failed without naming a kernel: find the kernel by bisection, or that ptxas is unfit."""
        if not self.stumbles and not self.assemble_nothing():
            raise self.unfit(words)
        self.stumbles += 1
        if self.stumbles > MOST_STUMBLES:
            raise self.unfit(words)
        if len(kernels) == 1:
            return {kernels[0].name: words}
        half = len(kernels) // 2
        return self._refusals(kernels[:half]) | self._refusals(kernels[half:])

    def unfit(self, words: str) -> EnvironmentUnfitError:
        """The error for a ptxas that does not work, with its words."""
        return EnvironmentUnfitError(f"{self.tools.ptxas} cannot assemble the probes for {self.row.name}: {words}.")


def _failure_words(completed: CompletedProcess[str]) -> str:
    if completed.returncode < 0:
        return f"ptxas ended by signal {-completed.returncode}"
    return one_line(completed.stderr) or (
        f"ptxas ended with code {completed.returncode}" if completed.returncode else "no cubin came"
    )
