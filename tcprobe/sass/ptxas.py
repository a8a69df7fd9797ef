"""Runs ptxas on a module of probes: a cubin of the kernels that it takes, and why it refuses the others.

A refusal concerns one kernel: ptxas names its line, or fails on that kernel alone (by a signal, or without a message)
although it assembles an empty one. Everything else is a failure of the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import Arch, own
from tcprobe.isa.target import version
from tcprobe.probes.ptx import Kernel, blame, module
from tcprobe.sass.toolchain import Toolchain, attempt, known_targets
from tcprobe.sass.toolchain import version as release
from tcprobe.system.children import Scratch, one_line

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
        """The name in provenance."""
        return f"ptxas {release(self.program, self.limit)}"

    def require(self, arch: Arch) -> None:
        """EnvironmentUnfitError unless it assembles for an arch."""
        if arch.name not in known_targets(self.program, self.limit):
            raise EnvironmentUnfitError(f"{self.program} ({self.name}) does not know {arch.name}: name another --cuda.")

    def assemble(self, arch: Arch, text: str, optimised: bool) -> tuple[bytes, str]:
        """(cubin, ""), or (b"", why there is none); EnvironmentUnfitError if ptxas cannot be run."""
        try:
            with Scratch() as scratch:
                cubin = scratch.folder / "probes.cubin"
                command = call(self.program, arch, text, cubin)
                completed = attempt(scratch, [*command, f"-O{LEVELS[optimised]}"], self.limit)
                cubin_bytes = cubin.read_bytes() if completed.returncode == 0 and cubin.is_file() else b""
                return cubin_bytes, "" if cubin_bytes else completed.stderr.strip() or _words(completed)
        except OSError as error:
            raise EnvironmentUnfitError(f"no temporary files for the probes: {error.strerror}.") from None


def call(program: str, arch: Arch, text: str, cubin: Path) -> list[str]:
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
        pending = sorted(kernels, key=lambda k: version(k.target.ptx))
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
        return blame(completed.stderr, kernels) or self._bisect(kernels, _words(completed))

    def _ptxas(self, text: str) -> CompletedProcess[str]:
        self.cubin.unlink(missing_ok=True)
        return attempt(self.scratch, call(self.tools.ptxas, self.row, text, self.cubin), self.tools.limit)

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


def _words(completed: CompletedProcess[str]) -> str:
    if completed.returncode < 0:
        return f"ptxas ended by signal {-completed.returncode}"
    return one_line(completed.stderr) or (
        f"ptxas ended with code {completed.returncode}" if completed.returncode else "no cubin came"
    )
