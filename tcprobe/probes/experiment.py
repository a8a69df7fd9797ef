"""What an experiment is: it plans launches, decodes the outputs, and concludes a finding.

All three steps are pure functions. A backend runs the launches, in a process of its own. A `Dialogue` launches in
rounds, and plans each from what came back before.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tcprobe.errors import UnmeasuredError
from tcprobe.isa.arch import Arch, Target
from tcprobe.isa.fragment import Fragment
from tcprobe.isa.instruction import Instruction
from tcprobe.layout.arrays import Array, Bytes
from tcprobe.layout.table import StructureHash, Table, Tables
from tcprobe.probes.ptx import Kernel, Launch

if TYPE_CHECKING:
    from tcprobe.references.shared_memory.tensor_map import TensorMap

Readout = dict[str, Array]
Unread = Mapping[str, tuple[tuple[int, ...], ...]]
KnownTable = Callable[[Fragment], Table | None]  # of a fragment on the device in question
EVENTS = ("refused", "fault", "hangs", "unsound")  # that can be findings without a reading
OWN_RULE = "own rule: lowest slot first"


@dataclass(frozen=True)
class Context:
    """The device that a reading comes from; `known_table` gives tables measured there before."""

    device: Arch
    known_table: KnownTable


@dataclass(frozen=True)
class Conclusion:
    """`tables` by operand; `numbering` says what rows, columns and k were numbered by.

    `structure` is set for multiplies. `unread` has, for operands of which some slots are never read, their i, lane by
    lane.
    """

    tables: Tables
    numbering: str
    structure: StructureHash | None = None
    unread: Unread = field(default_factory=dict)


class Experiment(Protocol):
    """`id` names the measurement; `fragments` are the operands whose tables it gives or checks.

    `methods`: "live" on a GPU, "sass" from the probe's own machine code. `early`: other experiments depend on it, so it
    runs first. `group`: the name under which summaries count it.
    """

    @property
    def id(self) -> str: ...
    @property
    def fragments(self) -> tuple[Fragment, ...]: ...
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def early(self) -> bool: ...
    @property
    def group(self) -> str: ...
    def launches(self) -> Sequence[Launch]:
        """What to run, in order."""

    def decode(self, launches: Sequence[Launch], outputs: Sequence[Bytes]) -> Readout:
        """The reading; ProbeError if outputs contradict each other."""

    def conclude(self, reading: Readout, context: Context) -> Conclusion:
        """The tables; ProbeError if the reading is not a layout, or contradicts what is known."""


@dataclass(frozen=True)
class FormExperiment:
    """What experiments on one instruction share; they measure all its operands in registers, on a GPU."""

    instruction: Instruction
    methods: tuple[str, ...] = ("live",)
    early: bool = False

    @property
    def id(self) -> str:
        return self.instruction.id

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The instruction's operands in registers."""
        return self.instruction.fragments

    @property
    def group(self) -> str:
        return self.instruction.family


class TimedCode(NamedTuple):
    """Opcodes in a timed loop, and opcodes outside it but between the readings of the clock.

    `reads`: how many registers of even and of odd numbers the loop's instructions read, but for those that are reused.
    """

    loop: tuple[str, ...]
    beside: tuple[str, ...]
    reads: tuple[int, int] = (0, 0)


class Bench(Protocol):
    """A device, as a dialogue uses it; kernels are compiled for it."""

    @property
    def device(self) -> Arch: ...
    def run(self, launches: Sequence[Launch]) -> list[Bytes]:
        """The outputs of all launches."""

    def known_table(self, fragment: Fragment) -> Table | None:
        """The table of a fragment on the device, measured or published; None if there is none."""

    def timed_code(self, kernel: Kernel) -> TimedCode:
        """The opcodes that a kernel times, from the machine code that runs."""

    def shared_bytes(self) -> int:
        """Bytes of shared memory of an SM."""

    def map_result(self, tensor_map: TensorMap) -> str:
        """The name of the driver's result code for a tensor map; CUDA_SUCCESS if it accepts the map."""


class Dialogue(ABC):
    """An experiment that launches in rounds and concludes the body of a finding of its `kind`."""

    kind: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = ("live",)
    early: ClassVar[bool] = False

    @property
    @abstractmethod
    def id(self) -> str:
        """The subject of the finding."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What a device needs to run it."""

    @abstractmethod
    def kernels(self) -> Sequence[Kernel]:
        """All kernels that it may launch."""

    @abstractmethod
    def measure(self, bench: Bench) -> Readout:
        """The reading; ProbeError if the device's answers contradict each other."""

    @abstractmethod
    def conclude(self, reading: Readout, context: Context) -> Any:
        """The Body of the kind; ProbeError if the reading cannot be right."""

    def instead(self, event: str, words: str) -> Any:
        """The Body if the lack of a reading is itself a finding, else None.

        `event` is one of EVENTS: "refused" by the compiler, "fault" or "hangs" of the device, "unsound" answers.
        `words` describe the event.
        """
        return None


@dataclass(frozen=True)
class FormDialogue(Dialogue):
    """What dialogues on one form share."""

    row: Instruction

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def target(self) -> Target:
        return self.row.target


def stated_tables(fragments: Sequence[Fragment], device: Arch) -> Iterator[tuple[str, dict[str, Table]]]:
    """(name, tables by operand) of each reference that states the tables of all `fragments`."""
    from tcprobe.references import Claim, claim_of, references

    for reference in references():
        claims = {f.operand: claim_of(reference, f, device) for f in fragments}
        tables = {operand: claim.meant for operand, claim in claims.items() if isinstance(claim, Claim)}
        if len(tables) == len(claims):
            yield reference.NAME, tables


def known_tables(instruction: Instruction, known_table: KnownTable, run_command: str) -> dict[str, Table]:
    """The tables of all fragments by operand; UnmeasuredError if one is unknown: `run_command` measures it."""
    tables = {fragment.operand: known_table(fragment) for fragment in instruction.fragments}
    if missing := [operand for operand, table in tables.items() if table is None]:
        raise UnmeasuredError(
            f"{instruction.id} is not measured: no table of {', '.join(missing)}; `{run_command}` makes it."
        )
    return {operand: table for operand, table in tables.items() if table is not None}


def array_of_text(lines: Sequence[str]) -> Array:
    """Lines of text as an array for a reading."""
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def text_lines(array: Array) -> list[str]:
    """The inverse of `array_of_text`."""
    return array.tobytes().decode().split("\n") if array.size else []


def kernels(experiment: Experiment | Dialogue) -> list[Kernel]:
    """The kernels of an experiment, each once."""
    if isinstance(experiment, Dialogue):
        return list({kernel.name: kernel for kernel in experiment.kernels()}.values())
    return list({launch.kernel.name: launch.kernel for launch in experiment.launches()}.values())


def ptx_hash(kernels: Sequence[Kernel]) -> str:
    """Hash of the kernels' texts, 16 hex digits."""
    return hashlib.sha256("\n".join(k.text for k in kernels).encode()).hexdigest()[:16]
