"""ptxas and nvdisasm: where they are found, in which versions, and for which archs they work.

Order of search: the folder given (`--cuda`), CUDA_HOME, the wheels that come with tcprobe, PATH. A folder may
be a toolkit (with bin/) or hold the programs itself.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import ARCHS, Arch

WHEELS = ("nvidia.cuda_nvcc", "nvidia.cu13", "nvidia.cuda_nvdisasm")
HINT = "pip install tcprobe brings them on Linux and Windows; or name a CUDA toolkit with --cuda or CUDA_HOME."
LIMIT = 120.0  # seconds for one call of a tool


@dataclass(frozen=True)
class Toolchain:
    """Paths and versions ("12.9.86") of the two programs."""

    ptxas: str
    nvdisasm: str
    ptxas_version: str
    nvdisasm_version: str

    @property
    def name(self) -> str:
        """As provenance has it."""
        return f"ptxas {self.ptxas_version}, nvdisasm {self.nvdisasm_version}"

    @property
    def archs(self) -> tuple[Arch, ...]:
        """The archs that this ptxas assembles for."""
        known = known_targets(self.ptxas)
        return tuple(row for row in ARCHS if row.name in known)

    def disassembles_as(self, row: Arch) -> str:
        """The name for `nvdisasm --binary`. Volta's encoding is Turing's, and nvdisasm 13 has only that."""
        return "SM75" if row.number < 75 else f"SM{row.number}"


def of(ptxas: str, nvdisasm: str) -> Toolchain:
    """The toolchain of two programs."""
    return Toolchain(ptxas, nvdisasm, version(ptxas), version(nvdisasm))


def find(folder: Path | None = None) -> Toolchain:
    """The toolchain in `folder`, or the first found; EnvironmentUnfitError says what is missing."""
    return of(*(_find(program, folder) for program in ("ptxas", "nvdisasm")))


def _find(program: str, folder: Path | None) -> str:
    """`folder` may lack one of the programs; it is then taken from elsewhere."""
    for place in (folder, os.environ.get("CUDA_HOME"), *_wheel_folders()):
        for candidate in (Path(place), Path(place) / "bin") if place else ():
            found = shutil.which(program, path=str(candidate))
            if found:
                return found
    found = shutil.which(program)
    if not found:
        where = ", ".join(str(p) for p in (folder, os.environ.get("CUDA_HOME"), "the installed wheels", "PATH") if p)
        raise EnvironmentUnfitError(f"{program} was not found in {where}. {HINT}")
    return found


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
def version(program: str) -> str:
    """The release that `program --version` prints; EnvironmentUnfitError if it prints none."""
    text = call([program, "--version"]).stdout
    match = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    if not match:
        raise EnvironmentUnfitError(f"{program} --version prints no version: {text.strip()[:200]!r}. {HINT}")
    return match[1]


@cache
def known_targets(ptxas: str) -> frozenset[str]:
    """Every sm_XX that ptxas names in its help."""
    return frozenset(re.findall(r"sm_\d+(?=')", call([ptxas, "--help"]).stdout))


def call(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a tool; EnvironmentUnfitError if it cannot be run, dies of a signal, or takes longer than LIMIT."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    except OSError as error:
        raise EnvironmentUnfitError(f"{command[0]} cannot be run: {error.strerror}. {HINT}") from None
    except subprocess.TimeoutExpired:
        raise EnvironmentUnfitError(f"{command[0]} gave no answer within {LIMIT:g} s and was stopped.") from None
    if done.returncode < 0:
        raise EnvironmentUnfitError(f"{command[0]} was ended by signal {-done.returncode}. {HINT}")
    return done
