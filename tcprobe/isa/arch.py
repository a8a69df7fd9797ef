"""One row per compute capability that has tensor cores, and which PTX targets it can run.

>>> from tcprobe.isa.arch import arch, runs
>>> runs(arch("sm_90"), "sm_80"), runs(arch("sm_90"), "sm_120a"), runs(arch("sm_121"), "sm_120f")
(True, False, True)
>>> arch("sm_103").targets
('sm_103', 'sm_103f', 'sm_103a')

Source: PTX ISA 9.1, section 11.1.2 (`.target`): a plain target runs on that compute capability and
every later one; a target with suffix `a` on that one alone; with suffix `f` on those of its family that are not older.
"""

import re
from typing import NamedTuple

from tcprobe.errors import UsageError


class Arch(NamedTuple):
    """A compute capability: `number` is 10 x major + minor, `family` the first number of its `f` family.

    `shared_kib` is the shared memory that a block can have, in KiB.
    """

    number: int
    generation: str
    ptx: str
    shared_kib: int
    family: int | None = None

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

    def __str__(self) -> str:
        return self.name


FIRST_SPECIFIC = 90  # the first arch that has a target with suffix a
SUFFIXED = {"": "6.0", "a": "8.0", "f": "8.8"}  # PTX ISA version that brought a suffix (PTX ISA 9.1, release notes)
# number, generation, PTX ISA version that introduced the target (PTX ISA 9.1, release notes), KiB of shared memory of a
# block (CUDA programming guide, technical specifications by compute capability; of sm_88 and sm_107, which it omits,
# the largest carve-out in CUDA 13.5's cuda_occupancy.h, less the 1 KiB that a block reserves; sm_107's 328 KiB are for
# kernels that ask for oversized shared memory), family
ARCHS = (
    Arch(70, "Volta", "6.0", 96),
    Arch(72, "Volta (Xavier)", "6.1", 96),
    Arch(75, "Turing", "6.3", 64),
    Arch(80, "Ampere", "7.0", 163),
    Arch(86, "Ampere", "7.1", 99),
    Arch(87, "Ampere (Orin)", "7.4", 163),
    Arch(88, "Ampere", "9.0", 99),
    Arch(89, "Ada", "7.8", 99),
    Arch(90, "Hopper", "7.8", 227),
    Arch(100, "Blackwell", "8.6", 227, 100),
    Arch(103, "Blackwell", "8.8", 227, 100),
    Arch(107, "Rubin", "9.4", 227, 100),
    Arch(110, "Blackwell (Thor)", "9.0", 227, 110),
    Arch(120, "Blackwell", "8.7", 99, 120),
    Arch(121, "Blackwell (GB10)", "8.8", 99, 120),
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
    from tcprobe.isa import gpus

    numbers, generation = gpus.numbers(name), gpus.bare(name)
    rows = [row for row in ARCHS if row.number in numbers] or [
        row for row in ARCHS if row.generation.partition(" ")[0].lower() == generation
    ]
    if len(rows) > 1:
        listed = ", ".join(row.name + gpus.gpu_words(row.number) for row in rows)
        raise UsageError(f"{name!r} means several archs: {listed}. Choose one.")
    if not rows:
        raise _unknown(name, name.lower())
    return rows[0]


def _unknown(name: str, like: str) -> UsageError:
    import difflib

    near = difflib.get_close_matches(like, BY_NAME, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return UsageError(f"unknown arch {name[:60]!r}{hint} Known: {', '.join(BY_NAME)}, and GPUs by name (h100).")


def is_target(target: str) -> bool:
    """Whether `target` is a PTX target of a known arch: sm_80, sm_120a, sm_120f."""
    row = BY_NAME.get(target.rstrip("af"))
    return row is not None and target in row.targets


def runs(device: Arch, target: str) -> bool:
    """Whether code for PTX target `target` can run on `device`."""
    return covers(device.targets[-1], target)


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


def holder_name(number: int, threads: int) -> str:
    """A lane of a warp, or a thread of several warps with its warp and lane.

    >>> holder_name(4, 32), holder_name(36, 128)
    ('lane 4', 'thread 36 (warp 1, lane 4)')
    """
    return f"lane {number}" if threads <= WARP else f"thread {number} (warp {number // WARP}, lane {number % WARP})"
