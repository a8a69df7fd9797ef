"""ptxas and nvdisasm: where they are found, in which versions, and for which archs they work.

Order of search: the folder given (`--cuda`), CUDA_HOME, the wheels that come with tcprobe, PATH. A folder may
be a toolkit (with bin/), hold the programs itself, or be what wheels were installed into.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import ARCHS, Arch
from tcprobe.system import children
from tcprobe.system.children import MOST_BYTES, HungError, Scratch, one_line

WHEELS = ("nvidia.cuda_nvcc", "nvidia.cu13", "nvidia.cuda_nvdisasm")
HINT = "pip install tcprobe brings them on Linux and Windows; or name a CUDA toolkit with --cuda or CUDA_HOME."
LIMIT = 120.0  # seconds for one call of a tool, where `--limit` says nothing else
# how a program ends that stumbles over its input, rather than being ended by somebody
CRASHES = frozenset(getattr(signal, f"SIG{name}", None) for name in ("SEGV", "ABRT", "BUS", "FPE", "ILL")) - {None}
TOO_LARGE = -getattr(signal, "SIGXFSZ", 0) or None
NOT_RUN = (126, 127)  # as a shell says that a program is not one


@dataclass(frozen=True)
class Toolchain:
    """Paths and versions ("12.9.86") of the two programs, and how many seconds a call of one may take."""

    ptxas: str
    nvdisasm: str
    ptxas_version: str
    nvdisasm_version: str
    limit: float = LIMIT

    @property
    def name(self) -> str:
        """As provenance has it."""
        return f"ptxas {self.ptxas_version}, nvdisasm {self.nvdisasm_version}"

    @property
    def archs(self) -> tuple[Arch, ...]:
        """The archs that this ptxas assembles for."""
        known = known_targets(self.ptxas, self.limit)
        return tuple(row for row in ARCHS if row.name in known)

    def disassembles_as(self, arch: Arch) -> str:
        """The name for `nvdisasm --binary`. Volta's encoding is Turing's, and nvdisasm 13 has only that."""
        return "SM75" if arch.number < 75 else f"SM{arch.number}"


def of(ptxas: str, nvdisasm: str, limit: float = LIMIT) -> Toolchain:
    """The toolchain of two programs."""
    return Toolchain(ptxas, nvdisasm, version(ptxas, limit), version(nvdisasm, limit), limit)


def find(folder: Path | None = None, limit: float = LIMIT) -> Toolchain:
    """The toolchain in `folder`, or the first found; EnvironmentUnfitError says what is missing.

    `folder` names a compiler, so it must have ptxas; where it lacks nvdisasm, that is taken from elsewhere.
    """
    return of(compiler(folder), _find("nvdisasm", folder), limit)


def compiler(folder: Path | None = None) -> str:
    """The ptxas of a folder, or the first found; EnvironmentUnfitError if there is none."""
    path = _in(folder, "ptxas") if folder else _find("ptxas", None)
    if not path:
        raise EnvironmentUnfitError(
            f"{folder} has no ptxas, nor has its bin, or a wheel in it: name the folder of a CUDA toolkit."
        )
    return path


@cache
def disassembler(limit: float = LIMIT) -> Toolchain:
    """nvdisasm alone, for code that another compiler made; EnvironmentUnfitError if it is nowhere."""
    nvdisasm = _find("nvdisasm", None)
    return Toolchain("", nvdisasm, "", version(nvdisasm, limit), limit)


def _find(program: str, folder: Path | None) -> str:
    for place in (folder, os.environ.get("CUDA_HOME"), *_wheel_folders()):
        path = _in(Path(place), program) if place else None
        if path:
            return path
    path = shutil.which(program)
    if not path:
        where = ", ".join(str(p) for p in (folder, os.environ.get("CUDA_HOME"), "the installed wheels", "PATH") if p)
        raise EnvironmentUnfitError(f"{program} was not found in {where}. {HINT}")
    return os.path.abspath(path)


def _in(folder: Path, program: str) -> str | None:
    """The program in a folder, its bin or that of a wheel installed there (`pip install --target`), None if in none.

    EnvironmentUnfitError if it may not be run.
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
    """Run a tool that is not expected to crash; EnvironmentUnfitError as `attempt`, and if it crashes."""
    try:
        with Scratch() as scratch:
            return survived(attempt(scratch, command, limit))
    except OSError as error:
        raise EnvironmentUnfitError(f"no temporary folder for {command[0]}: {error.strerror}.") from None


def attempt(scratch: Scratch, command: Sequence[str], limit: float) -> CompletedProcess[str]:
    """Run a tool, which may refuse its input or crash (returncode -n, n one of CRASHES).

    EnvironmentUnfitError if it cannot be run, gives no answer within `limit` seconds, is ended by any other signal, or
    prints more than any tool does.
    """
    try:
        done = scratch.call(command, limit)
    except OSError as error:
        raise EnvironmentUnfitError(f"{command[0]} cannot be run: {error.strerror}. {HINT}") from None
    except HungError as error:
        raise EnvironmentUnfitError(f"{command[0]} {error} (`tcprobe run --limit`) and was stopped.") from None
    if done.returncode in NOT_RUN:
        raise EnvironmentUnfitError(f"{command[0]} cannot be run: {one_line(done.stderr)}. {HINT}")
    if max(len(done.stdout), len(done.stderr)) >= MOST_BYTES or done.returncode == TOO_LARGE:
        most = f"{MOST_BYTES >> 20} MB, or than `ulimit -f` allows"
        raise EnvironmentUnfitError(f"{command[0]} was stopped: it wrote more than {most}.")
    return done if -done.returncode in CRASHES else survived(done)


def survived(done: CompletedProcess[str]) -> CompletedProcess[str]:
    """`done`; EnvironmentUnfitError if a signal ended it, StarvedError if that was 9."""
    if children.lived(done.returncode) < 0:
        raise EnvironmentUnfitError(f"{done.args[0]} was ended by signal {-done.returncode}. {HINT}")
    return done
