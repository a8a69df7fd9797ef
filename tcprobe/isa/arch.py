"""One row per compute capability that has tensor cores, and which PTX targets it can run.

>>> from tcprobe.isa.arch import arch, runs
>>> runs(arch("sm_90"), "sm_80"), runs(arch("sm_90"), "sm_120a"), runs(arch("sm_121"), "sm_120f")
(True, False, True)
>>> arch("sm_103").targets
('sm_103', 'sm_103f', 'sm_103a')
>>> Target("sm_120a", "8.7", (("sm_120f", "8.8"),)).on(arch("sm_121"))
('sm_120f', '8.8')

Source: PTX ISA 9.1, section 11.1.2 (`.target`): a plain target runs on that compute capability and
every later one; a target with suffix `a` on that one alone; with suffix `f` on those of its family that are not older.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tcprobe import facts
from tcprobe.errors import RowError, UsageError
from tcprobe.text import any_of


class Arch(NamedTuple):
    """A compute capability: `number` is 10 x major + minor, `family` the first number of its `f` family.

    `shared_kib` is the shared memory that a block can have, in KiB; `peaks` the most dense multiply-adds that an SM can
    do per cycle, by type of A, as NVIDIA states them (`peaks_source`).
    """

    number: int
    generation: str
    ptx: str
    shared_kib: int
    family: int | None
    peaks: tuple[tuple[str, int], ...]
    peaks_source: str

    @property
    def name(self) -> str:
        """As `.target` names it: sm_90."""
        return f"sm_{self.number}"

    @property
    def compute_capability(self) -> str:
        """As the CUDA manual names it: 9.0."""
        return f"{self.number // 10}.{self.number % 10}"

    @property
    def targets(self) -> tuple[str, ...]:
        """Its own PTX targets, each with all that the one before it has: sm_103, sm_103f, sm_103a."""
        suffixes = ("", *("f" if self.family else ""), *("a" if self.number >= FIRST_SPECIFIC else ""))
        return tuple(self.name + suffix for suffix in suffixes)

    def peak(self, kind: str) -> int | None:
        """The most multiply-adds per cycle of an SM with A of a type; None where nothing is stated.

        A sparse multiply counts the products that it forms, so its peak is the dense one.
        """
        return dict(self.peaks).get(kind)

    def __str__(self) -> str:
        return self.name


FIRST_SPECIFIC = 90  # the first arch that has a target with suffix a
SUFFIXED = {"": "6.0", "a": "8.0", "f": "8.8"}  # PTX ISA version that brought a suffix (PTX ISA 9.1, release notes)


# CUDA toolkits by the PTX ISA version that they brought (PTX ISA, release notes); 8.6 came with 12.7, of which no
# toolkit was released
CUDA = {
    **{f"6.{n}": f"9.{n}" for n in range(3)},
    **{f"6.{n}": f"10.{n - 3}" for n in range(3, 6)},
    **{f"7.{n}": f"11.{n}" for n in range(9)},
    **{f"8.{n}": f"12.{n}" for n in range(6)},
    "8.6": "12.8",
    "8.7": "12.8",
    "8.8": "12.9",
    **{f"9.{n}": f"13.{n}" for n in range(6)},
}


def _peak(cell: str) -> tuple[str, int]:
    kind, _, rate = cell.partition(":")
    return kind, facts.number(rate)


# archs.csv: number; generation; PTX ISA version that introduced the target (PTX ISA 9.1, release notes); KiB of shared
# memory of a block (CUDA programming guide, technical specifications by compute capability; of sm_88 and sm_107, which
# it omits, the largest carve-out in CUDA 13.5's cuda_occupancy.h, less the 1 KiB that a block reserves; the 328 KiB of
# sm_107 are for kernels that ask for oversized shared memory); family; multiply-adds per cycle per SM by type of A, and
# the whitepaper that states the peak rates they follow from (over SMs, boost clock and two operations)
ARCHS = facts.read(
    __file__,
    "archs.csv",
    Arch,
    number=facts.number,
    shared_kib=facts.number,
    family=facts.optional(facts.number),
    peaks=lambda cell: tuple(map(_peak, facts.words(cell))),
)
BY_NAME = {a.name: a for a in ARCHS}  # as measurements name them; what people type is for `arch`
WARP = 32  # threads of a warp, on every arch (PTX ISA 9.1, section 3.1)
WARPGROUP = 128  # threads of four warps next to each other, the first a multiple of four (PTX ISA 9.1, section 9.7.15)
RENAMED = {101: 110}  # CUDA 13 release notes: sm_101 is sm_110
_WRITTEN = r"(?:sm_?|compute_?|cc ?)?([0-9]{2,3}|[0-9]{1,2}\.[0-9])([af]?)"


def arch(name: str) -> Arch:
    """The row of a name: sm_90, sm_90a, compute_90, 90, 9.0, also that of a GPU or a generation (H100, Hopper).

    UsageError where it means none, with the nearest names, or several. sm_101 is called sm_110 since CUDA 13.
    """
    exact = BY_NAME.get(name)
    return exact or _row_of(name)


def _row_of(name: str) -> Arch:
    written = re.fullmatch(_WRITTEN, name.strip().lower())
    if written:
        number = RENAMED.get(digits := int(written[1].replace(".", "")), digits)
        exact = BY_NAME.get(f"sm_{number}")
        if exact and f"sm_{number}{written[2]}" in exact.targets:
            return exact
        if 20 <= number < ARCHS[0].number:
            raise UsageError(f"sm_{number} has no tensor cores; {ARCHS[0].name} is the first with them.")
        raise _unknown(name, f"sm_{number}")
    numbers, generation = archs_of_gpu(name), bare_gpu_name(name)
    rows = [row for row in ARCHS if row.number in numbers] or [
        row for row in ARCHS if row.generation.partition(" ")[0].lower() == generation
    ]
    if len(rows) > 1:
        listed = ", ".join(row.name + gpu_words(row.number) for row in rows)
        raise UsageError(f"{name!r} means several archs: {listed}. Choose one.")
    if not rows:
        raise _unknown(name, name.lower())
    return rows[0]


class _Gpus(NamedTuple):
    """GPUs of an arch: what is shown, and a pattern of the name without spaces, "NVIDIA", "GeForce" and the like."""

    arch: int
    shown: str
    pattern: str


# gpus.csv: NVIDIA, "CUDA GPU Compute Capability" (developer.nvidia.com/cuda/gpus, and its legacy page); of Rubin CUDA
# 13.4's release notes
_NOISE = r"nvidia|geforce|tesla|quadro|jetson|agx|[\s_-]+"


@cache
def gpus() -> tuple[_Gpus, ...]:
    """All rows of gpus.csv; RowError for an arch that there is not."""
    archs = facts.one_of(*(str(row.number) for row in ARCHS))
    return facts.read(__file__, "gpus.csv", _Gpus, arch=lambda cell: int(archs(cell)))


def archs_of_gpu(name: str) -> list[int]:
    """The archs (80 for sm_80) of the GPU that `name` means; none where it is not a GPU's.

    >>> [archs_of_gpu(name) for name in ("H100", "RTX 4090", "T4000")]
    [[90], [89], [110]]
    """
    wanted = bare_gpu_name(name)
    if not wanted.isalnum():  # what is dotted is a fragment's name
        return []
    return list(dict.fromkeys(row.arch for row in gpus() if re.fullmatch(row.pattern, wanted)))


def bare_gpu_name(name: str) -> str:
    """A name without what goes before or between: NVIDIA, GeForce, spaces."""
    return re.sub(_NOISE, "", name.lower())


def gpu_words(number: int) -> str:
    """GPUs of an arch, in brackets; nothing where none is named."""
    shown = ", ".join(row.shown for row in gpus() if row.arch == number and row.shown)
    return f" ({shown})" if shown else ""


def _unknown(name: str, like: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(like, BY_NAME, n=3, cutoff=0.5)
    hint = f"; did you mean {any_of(near, 'or')}?" if near else "."
    return UsageError(f"unknown arch {name[:60]!r}{hint} Known: {', '.join(BY_NAME)}, and GPUs by name (h100).")


def is_target(target: str) -> bool:
    """Whether `target` is a PTX target of a known arch: sm_80, sm_120a, sm_120f."""
    row = BY_NAME.get(target.rstrip("af"))
    return row is not None and target in row.targets


def runs(device: Arch, target: str) -> bool:
    """Whether code for PTX target `target` can run on `device`."""
    return covers(device.targets[-1], target)


@cache
def covers(own: str, target: str) -> bool:
    """Whether PTX target `own` has all that `target` has: sm_103a what sm_100f has, sm_100a not what sm_103f has."""
    (device, suffix), (needed, kind) = _parts(own), _parts(target)
    if kind == "a":
        return own == target
    if kind == "f":
        return bool(suffix) and device.family == needed.family and device.number >= needed.number
    return device.number >= needed.number


def own(device: Arch, target: str) -> str:
    """The device's own target for code that needs `target`: sm_103f for sm_100f on sm_103."""
    return device.name + _parts(target)[1]


def _parts(target: str) -> tuple[Arch, str]:
    """The arch of a target, and its suffix."""
    if not is_target(target):
        raise UsageError(f"{target[:60]!r} is not a PTX target such as sm_80, sm_120a or sm_120f.")
    row = BY_NAME[target.rstrip("af")]
    return row, target.removeprefix(row.name)


def least_ptx(target: str) -> str:
    """The PTX ISA version that brought a target."""
    row, suffix = _parts(target)
    return max(row.ptx, SUFFIXED[suffix], key=lambda text: tuple(map(int, text.split("."))))


def least_cuda(ptx: str, target: str) -> str:
    """The first CUDA toolkit that compiles a form of a PTX ISA version for a target: 12.8 for 8.7 and sm_120a.

    Of a PTX ISA version that no known toolkit brought it is "with PTX ISA 9.6".
    """
    needed = max(ptx, least_ptx(target), key=version)
    return CUDA.get(needed, f"with PTX ISA {needed}")


def holder_name(number: int, threads: int) -> str:
    """A lane of a warp, or a thread of several warps with its warp and lane.

    >>> holder_name(4, 32), holder_name(36, 128)
    ('lane 4', 'thread 36 (warp 1, lane 4)')
    """
    return f"lane {number}" if threads <= WARP else f"thread {number} (warp {number // WARP}, lane {number % WARP})"


# the least PTX target and PTX ISA version of a form
@cache
def version(text: str) -> tuple[int, int]:
    """A PTX ISA version "8.7" as (8, 7); RowError if it is not one."""
    if not re.fullmatch(r"[0-9]+\.[0-9]+", text):
        raise RowError(f"{text!r} is not a PTX ISA version such as 7.0.")
    major, minor = text.split(".")
    return int(major), int(minor)


@dataclass(frozen=True)
class Target:
    """Least PTX target and PTX ISA version; `others` are further targets, each with its own version.

    Versions are the least that ptxas takes; `stated` is the one that PTX ISA states, where that is another.
    """

    name: str
    ptx: str
    others: tuple[tuple[str, str], ...] = ()
    stated: str | None = None

    def __post_init__(self) -> None:
        for name, ptx in (*self.options, *([(self.name, self.stated)] if self.stated else [])):
            if not is_target(name):
                raise RowError(f"{name!r} is not a PTX target of a GPU with tensor cores.")
            least = least_ptx(name)
            if version(ptx) < version(least):
                raise RowError(f"PTX {ptx} does not know {name}, which came with PTX {least}.")

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """All (target, PTX version) pairs under which the form is allowed."""
        return ((self.name, self.ptx), *self.others)

    def stated_for(self, name: str, ptx: str) -> str | None:
        """The PTX version that PTX ISA states for an option, where it is not the one that ptxas takes."""
        stated = max(self.stated or ptx, least_ptx(name), key=version)
        return stated if stated != ptx else None

    def at_least(self, ptx: str) -> Target:
        """The same target with a PTX version not below `ptx`."""
        (name, least), *others = ((name, max(own, ptx, key=version)) for name, own in self.options)
        return target(name, least, tuple(others), self.stated)

    def alone(self, name: str) -> Target:
        """Target `name` and no other, with a PTX version that knows both."""
        return target(name, max(self.ptx, least_ptx(name), key=version))

    def on(self, device: Arch) -> tuple[str, str] | None:
        """The (target, PTX version) to compile with for `device`, None where the form is not allowed."""
        return next((option for option in self.options if runs(device, option[0])), None)

    def own(self, device: Arch) -> str:
        """The device's own target to compile with: that of `on`, the plain one where the form is not allowed."""
        option = self.on(device)
        return own(device, option[0]) if option else device.name

    def every(self, device: Arch) -> tuple[str, ...]:
        """All of the device's own targets for which the form can be compiled, the least first."""
        return tuple(own for own in device.targets if any(covers(own, name) for name, _ in self.options))


target = cache(Target)  # many forms have the same one


def read_target(cell: str) -> Target:
    """The target of a table's cell: sm_120a:8.7|sm_120f:8.8, and |stated:8.8 for what PTX ISA states; RowError."""
    options = [tuple(part.split(":")) for part in cell.split("|")]
    if any(len(option) != 2 for option in options):
        raise RowError("expected targets with PTX versions, such as sm_120a:8.7|sm_120f:8.8.")
    stated = options.pop()[1] if options[-1][0] == "stated" else None
    if not options:
        raise RowError("expected a target before what is stated, such as sm_120a:8.7.")
    (name, ptx), *others = options
    return target(name, ptx, tuple(others), stated)
