"""What `import tcprobe` gives: a function a command, which takes names as the commands do and returns values.

>>> import tcprobe
>>> tcprobe.arch("h100").name, tcprobe.fragment("wmma 16x16x16 accumulator float", arch="a100").at(lane=5, i=2)
('sm_90', (9, 2))
>>> d, a = "mma.m16n8k16.row.col.f32.f16.f16.f32.d", "mma.m16n8k16.row.col.f32.f16.f16.f32.a"
>>> tcprobe.convert(d, a).costs
{'cvt': 4}
>>> [cost.wavefronts for cost in tcprobe.banks(a, tile=(64, 64), access=["ldmatrix.x4"]).costs]
[512]

All raise `tcprobe.errors.UsageError` for a name or number that means nothing, with what to do. `arch` is sm_90, 9.0,
(9, 0), h100 or hopper; without one the arch whose measurement counts most. `results` is a folder that takes precedence
over the published tables, with `only` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcprobe import question
from tcprobe.api.values import FragmentAnswer, MultiplyAnswer, answer_of
from tcprobe.errors import DataError, UsageError, check_choice
from tcprobe.isa.arch import Arch
from tcprobe.isa.arch import arch as named
from tcprobe.question.arguments import ArchName, Sizes, TypeName, arch_name, checked, element_type, word
from tcprobe.question.shared import tiled_name
from tcprobe.store import names
from tcprobe.store.cell import Cell, selection
from tcprobe.store.choose import layers

if TYPE_CHECKING:
    from tcprobe.api.layout import LayoutAnswer
    from tcprobe.ask.load.repack import Repacking
    from tcprobe.ask.read_file import FunctionReading
    from tcprobe.check.code_check import KernelCheck


def __getattr__(name: str) -> Any:
    """The Python function of a question, which is in the file of that question."""
    if name in question.names():
        return question.function(name)
    raise AttributeError(f"there is no tcprobe.{name}")


@checked
def fragment(
    name: str,
    arch: ArchName | None = None,
    selector: int | None = None,
    results: Path | None = None,
    only: bool = False,
) -> FragmentAnswer:
    """The table of the fragment that `name` means; of several that share one the first.

    >>> import tcprobe
    >>> tcprobe.fragment("mma m16n8k16 bf16 a").bases["register"]
    [(0, 1), (8, 0), (0, 8)]
    """
    cell = names.find_cell(word("name", name), arch_name(arch), layers(results, only)).cell
    return answer_of(cell if selector is None else selection(cell, selector))


@checked
def layout(
    text: str,
    tile: Sizes | None = None,
    kind: TypeName | None = None,
    warps: str | None = None,
    permute: str | None = None,
    arch: ArchName | None = None,
    results: Path | None = None,
    only: bool = False,
) -> LayoutAnswer:
    """What a layout's text means, as a fragment: CuTe's, Triton's or Gluon's, or a fragment over a CTA's tile.

    `tile` is the tile that it is over, (rows, columns), with `warps` m, n and k; `kind` the elements' type.

    >>> import tcprobe
    >>> found = tcprobe.layout("((4,8),(2,2,2)):((32,1),(16,8,128))", tile=(16, 16), kind="f16")
    >>> found.at(lane=12, i=5), found.agrees("mma.m16n8k16.row.col.f32.f16.f16.f32.a")
    ((3, 9), True)
    """
    from tcprobe.api.layout import layout_of

    element = None if kind is None else element_type(kind)
    named = tiled_name(word("text", text), tile, warps, permute, element)
    return layout_of(word("text", named), arch_name(arch), layers(results, only))


@checked
def instruction(
    name: str, arch: ArchName | None = None, results: Path | None = None, only: bool = False
) -> MultiplyAnswer:
    """The multiply that `name` means, with the tables of its operands."""
    row, cells, _ = names.multiply(word("name", name), arch_name(arch), layers(results, only))
    return MultiplyAnswer(row, {operand: FragmentAnswer.from_cell(cell) for operand, cell in cells.items()})


@checked
def arch(name: ArchName) -> Arch:
    """An arch by any of its names: sm_90, 90a, 9.0, h100, hopper; (9, 0) as CUDA gives a compute capability."""
    return named(arch_name(name) or "")


@checked
def repack(
    name: str | Cell,
    stored_type: TypeName,
    target_type: TypeName | None = None,
    group: int | None = None,
    zeros: bool = False,
    arch: ArchName | None = None,
) -> Repacking:
    """The order in which weights of `stored_type` are stored for a factor, so that one load brings several k steps.

    `group` elements of k have a scale in common, with `zeros` a zero point each; `.code` loads and converts.

    >>> import tcprobe
    >>> tcprobe.repack("mma.m16n8k16.row.col.f32.f16.f16.f32.b", "s4", arch="sm_80").loads
    1
    """
    from tcprobe.ask.load.repack import repack as repacked
    from tcprobe.ask.load.repack import with_zeros

    target = None if target_type is None else element_type(target_type)
    weights = repacked(cell_of(name, arch), element_type(stored_type), target, group, layers(None))
    return with_zeros(weights) if zeros else weights


@checked
def read(
    path: Path, arch: ArchName | None = None, cuda: Path | None = None, with_tables: bool = False
) -> list[FunctionReading]:
    """The matrix instructions of each function in a cubin, PTX, library or executable, or in a folder of such files.

    `with_tables` runs functions that only load and store fragments, and shows what each lane holds. DataError where
    part of a file cannot be read; `api.Reader` reads the rest.
    """
    from tcprobe.ask.read import readings

    found = list(readings([path], arch=arch, cuda=cuda, with_tables=with_tables))
    if unread := next((answer for answer in found if isinstance(answer, DataError)), None):
        raise unread
    return [answer for answer in found if not isinstance(answer, DataError)]


@checked
def check(
    path: Path,
    rule: str | Sequence[str] = (),
    kernel: str | None = None,
    min: str = "note",  # noqa: A002
    baseline: Path | None = None,
    arch: ArchName | None = None,
    cuda: Path | None = None,
    min_cycles: int | None = None,
) -> list[KernelCheck]:
    """What is wrong or slow in the kernels of a file or a folder: of each function what the rules find.

    `rule` and `kernel` choose, `min` is the least severity: error, warning or note, `min_cycles` the least cost of a
    warning. With `baseline` only what is not in that file. DataError where part of a file cannot be read.
    """
    from tcprobe.check.question import checks
    from tcprobe.check.rule import SEVERITIES

    check_choice("min", min, SEVERITIES)
    names = [rule] if isinstance(rule, str) else rule
    least = next(severity for severity in SEVERITIES if severity == min)
    found = checks(
        [path], rule=names, kernel=kernel, min=least, baseline=baseline, arch=arch, min_cycles=min_cycles, cuda=cuda
    )
    kernels = list(found.kernels)
    if found.complaints:
        raise DataError(found.complaints[0])
    return kernels


def cell_of(name: str | Cell, arch: ArchName | None) -> Cell:
    """The cell of a name; a cell stays itself. UsageError where that is of another arch than the one given."""
    if isinstance(name, Cell) and arch is not None and named(arch_name(arch) or "").name != name.arch:
        raise UsageError(f"the table is that of {name.arch}: give `arch` with a name, or not at all.")
    return name if isinstance(name, Cell) else fragment(name, arch)
