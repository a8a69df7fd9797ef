"""Scale factors from the host's layout to where a multiply reads them: a lane's register, or tensor memory.

>>> from tcprobe.ask.scales import scales_in_registers
>>> from tcprobe.store.cell import load
>>> found = scales_in_registers(load("nvfp4 scale_a"))
>>> str(found.line), found.vector, found.reads(block=6)
('((lane & 1) << 3) + (lane >> 2)', 4, ScaleRead(word=1, multiply=1, byte_id=0, scale=2))

The host's layout is CUTLASS's SfAtom (`references.tensor_memory`): 4 blocks of a line are one word. A lane loads the
register of scales as it is, and byte-id takes from it what one multiply needs. Through tcgen05.cp an atom becomes 4
columns of tensor memory as it is.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import click

from tcprobe.ask.operand import MOption, MulticastOption, NOption, VectorOption
from tcprobe.ask.tensor_memory import MemoryOperand, OperandVariant, check_arch, placement, vector_of
from tcprobe.ask.tensor_memory import operand as find_operand
from tcprobe.code.cuda import origin
from tcprobe.code.names import FUNCTION, require_legal
from tcprobe.code.templates import fill
from tcprobe.errors import AmbiguousError, UsageError
from tcprobe.fit import fitted
from tcprobe.fit.formula import Formula
from tcprobe.isa.names import resolve
from tcprobe.isa.names.words import read
from tcprobe.isa.operand import Role
from tcprobe.layout.table import slot_table
from tcprobe.question import terminal
from tcprobe.question.answers import UNSET, Answer, UnsetType, plain
from tcprobe.question.arguments import arch_name, checked
from tcprobe.question.declare import NameWords, Option, command
from tcprobe.question.options import Number, Numbers, is_redirected
from tcprobe.question.shared import JsonOption, NameOption, OneArch, OnlyOption, ResultsOption, find_cell
from tcprobe.references import tensor_memory
from tcprobe.references.tensor_memory import BLOCKS, LINES, TensorCell
from tcprobe.store.cell import Cell, selections
from tcprobe.store.choose import layers
from tcprobe.text import Whole, any_of, quoted
from tcprobe.values import Json

CODE = Path(__file__).with_suffix(".cuh")


class ScaleAnswer(Answer, kw_only=True):
    """Where one scale is: in the host's layout, and for the multiply."""

    line: int
    block: int
    blocks: int
    offset: int
    source: str
    word: int
    multiply: int
    byte_id: int
    scale: int
    tmem: tuple[TensorCell, ...] | UnsetType = UNSET
    lanes: tuple[int, ...] | UnsetType = UNSET
    bit: int | UnsetType = UNSET


class ScalesAnswer(Answer):
    """Scale factors: where each is in the host's layout (offset, in bytes) and for the multiply: `lanes` and their
    `bit`, or the cells of tensor memory; `byte_id` is the ID in an instruction descriptor there.
    """

    id: str
    vector: int
    evidence: str
    scales: list[ScaleAnswer]
    code: str


class ScaleRead(NamedTuple):
    """Which multiply along k takes a block, from which word of a line, by which byte-id, as which of its scales."""

    word: int
    multiply: int
    byte_id: int
    scale: int

    @classmethod
    def of(cls, block: int, vector: int) -> "ScaleRead":
        """Where a multiply that takes `vector` scales reads a block of k."""
        return cls(block // BLOCKS, block // vector, block % BLOCKS // vector * vector, block % vector)


@dataclass(frozen=True)
class LoadedScales:
    """`line` is the row of A, or column of B, whose scales a lane's register has; a multiply takes `vector` of them."""

    cell: Cell
    line: Formula
    vector: int

    @property
    def id(self) -> str:
        """The fragment's."""
        return self.cell.fragment.id

    @property
    def evidence(self) -> str:
        """What the table of the register rests on, in words."""
        return self.cell.evidence

    @property
    def goes(self) -> str:
        """The way of the scales in a sentence."""
        ids = any_of([str(one) for one in range(0, BLOCKS, self.vector)], "or")
        return (
            f"A lane loads the 4 blocks of line {self.line} as one register; a multiply takes {self.vector} of them, "
            f"from byte-id {ids} on."
        )

    def reads(self, block: int) -> ScaleRead:
        """Where a multiply reads a block of k."""
        return ScaleRead.of(block, self.vector)

    def code(self, name: str, qualifier: str = "__device__ ") -> str:
        """CUDA: the host's offset, and a lane's register."""
        ids = ", ".join(map(str, range(0, BLOCKS, self.vector)))
        return fill(
            CODE,
            copy=False,
            operand=self.cell.fragment.id,
            name=name,
            vector=self.vector,
            ids=ids,
            line=self.line,
            qualifier=qualifier,
            origin=origin(self.cell),
        )


@dataclass(frozen=True)
class CopiedScales:
    """Scales in tensor memory: `lines` of a CTA, `vector` of a multiply; `evidence` of where it reads them."""

    operand: MemoryOperand
    variant: OperandVariant
    lines: int
    vector: int
    evidence: str

    @property
    def id(self) -> str:
        """The operand's."""
        return self.operand.id

    @property
    def goes(self) -> str:
        """The way of the scales in a sentence."""
        return (
            f"tcgen05.cp copies an atom as it is into 4 columns of tensor memory; {self.lines} lines take "
            f"{4 * self.atoms}. The ID in the instruction descriptor selects {self.vector} of 4 blocks."
        )

    @property
    def atoms(self) -> int:
        """Atoms of 128 lines, the last one filled up."""
        return -(-self.lines // LINES)

    def cells(self, line: int, block: int) -> tuple[TensorCell, ...]:
        """Where tcgen05.cp puts a scale, the blocks of 4 behind each other; UsageError for no such line."""
        if not 0 <= line < self.lines:
            raise UsageError(f"{self.operand.id} has no line {line} in a CTA: it has {self.lines}.")
        group, inside = divmod(block, BLOCKS)
        column = (group * self.atoms + line // LINES) * 4 + line % LINES // 32
        return tuple(TensorCell(0, line % 32 + 32 * warp, column, 8 * inside) for warp in range(4))

    def reads(self, block: int) -> ScaleRead:
        """Where a multiply reads a block of k; byte_id is the ID in the instruction descriptor."""
        return ScaleRead.of(block, self.vector)

    def code(self, name: str, qualifier: str = "__device__ ") -> str:
        """CUDA: the host's offset, and the copy of the atoms of 4 blocks."""
        group = 2 if "cta_group::2" in self.operand.form.id else 1
        return fill(
            CODE,
            copy=True,
            qualifier=qualifier,
            operand=self.operand.id,
            name=name,
            lines=self.lines,
            columns=4 * self.atoms,
            atoms=self.atoms,
            group=group,
            evidence=self.evidence,
        )


def scales_in_registers(cell: Cell) -> LoadedScales:
    """Scales of mma in a lane's register; UsageError for what is not a scale, or where lanes have no line of their own.

    The line of a lane is the same under every byte-id and thread-id that reads it.
    """
    fragment = cell.fragment
    if fragment.role is not Role.SCALE:
        raise UsageError(f"{fragment.id} holds no scales: name an operand scale_a or scale_b.")
    by_row, lines = fragment.operand == "scale_a", dict[int, int]()
    for selected_cell in selections(cell):
        for slot, element in enumerate(selected_cell.table.cells):
            if element is not None:
                lane, i = divmod(slot, selected_cell.table.elements)
                line, block = element if by_row else element[::-1]
                first = fragment.picked(selected_cell.selector or 0)["byte_id"]
                if lines.setdefault(lane, line) != line or i != first + block:
                    raise UsageError(
                        f"{fragment.id}: lane {lane} reads scales that are not in one word of the host's layout."
                    )
    table = slot_table(fragment.threads, 1, {"row": tuple(lines.get(lane) for lane in range(fragment.threads))})
    formula = fitted(table).formulas["row"]
    if formula is None or len(lines) < fragment.threads:
        raise UsageError(f"{fragment.id}: the lines of its lanes have no closed form.")
    return LoadedScales(cell, formula, min(fragment.rows, fragment.cols))


def scales_in_tensor_memory(in_memory: MemoryOperand, variant: OperandVariant) -> CopiedScales:
    """Scales of tcgen05.mma; UsageError where the copied atoms are not where the multiply reads them.

    Measured places count; where none are measured, those that CUTLASS states where sources differ.
    """
    if not in_memory.name.startswith("scale_"):
        raise UsageError(f"{in_memory.id} holds no scales: name an operand scale_a or scale_b.")
    vector = variant.vector or tensor_memory.vectors(in_memory.form)[0]
    if BLOCKS % vector:
        raise UsageError(f"{in_memory.id}: {vector} scales per row do not divide an atom's 4.")
    in_tmem = placement(in_memory, variant._replace(selector=0, vector=vector))
    is_a, statement = in_memory.name == "scale_a", in_tmem.statements[0 if in_tmem.measured_places else -1]
    ctas = 2 if "cta_group::2" in in_memory.form.id and is_a else 1
    lines = (statement.rows if is_a else statement.cols) // ctas
    evidence = in_tmem.evidence if in_tmem.measured_places else f"documented only, by {statement.source}"
    scales = CopiedScales(in_memory, variant._replace(vector=vector), lines, vector, evidence)
    for line in range(lines):
        element = (line, 0) if is_a else (0, line)
        if set(scales.cells(line, 0)) != {cell for cell in statement.holding(*element) if cell.cta == 0}:
            raise UsageError(
                f"{in_memory.id} of M {in_tmem.m}, N {in_tmem.n} is not the same in all lanes: {statement.source}; an "
                "atom cannot be copied unchanged."
            )
    return scales


def scale_json(scale_path: LoadedScales | CopiedScales, line: int, block: int, blocks: int) -> Json:
    """Where one scale is, on the host and for the multiply; UsageError where there is no such block."""
    if not 0 <= block < blocks:
        raise UsageError(f"a line has {blocks} blocks, counted from 0: there is no block {block}.")
    read, offset = scale_path.reads(block), tensor_memory.scale_offset(line, block, blocks)
    where: dict[str, Any] = (
        {"tmem": scale_path.cells(line, block)}
        if isinstance(scale_path, CopiedScales)
        else {"lanes": _lanes(scale_path, line), "bit": block % BLOCKS * 8}
    )
    answer = ScaleAnswer.of(
        read, line=line, block=block, blocks=blocks, offset=offset, source=tensor_memory.SCALE_SOURCE, **where
    )
    return plain(answer)


def _lanes(scale_path: LoadedScales, line: int) -> Iterator[int]:
    lines = max(scale_path.cell.fragment.rows, scale_path.cell.fragment.cols)
    return (lane for lane in range(scale_path.cell.fragment.threads) if scale_path.line(lane=lane, i=0) == line % lines)


# the question

MOST_ANSWERS = 1 << 14  # of one call, which take seconds


@checked
def scales(
    name: Annotated[str | Cell, NameWords("FRAGMENT", "one", "one")],
    m: MOption = None,
    n: NOption = None,
    vector: VectorOption = None,
    arch: OneArch = None,
    *,
    multicast: MulticastOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> LoadedScales | CopiedScales:
    """Say where the scales of FRAGMENT, a scale_a or scale_b, are in the host's layout (CUTLASS's SfAtom), and print
    the code.

    For mma the code loads a lane's register, from which byte-id selects what a multiply needs. For tcgen05.mma (--m,
    --n, --scale-vec) it copies atoms from shared into tensor memory. --line and --block locate single scales.
    \f
    The answer's `code` takes a name; `scale_json` locates a scale.

    >>> import tcprobe
    >>> form = "mma.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> tcprobe.scales(f"{form}.scale_a").vector
    2
    """
    folders, on = layers(results, only), arch_name(arch)
    if isinstance(name, str):
        _check_named(name)
    in_memory = find_operand(name) if isinstance(name, str) and "tcgen05" in name.lower() else None
    if in_memory is not None:
        check_arch(in_memory.form, on)
        vector = vector_of(in_memory, vector)
        return scales_in_tensor_memory(in_memory, OperandVariant(m, n, 0, vector, layers=folders, name=on))
    for parameter, value in {"m": m, "n": n, "vector": vector, "multicast": multicast}.items():
        if value is not None:
            example = "tcgen05.mma.cta_group::1.kind::f16.d"
            raise UsageError(f"`{parameter}` needs an operand in tensor memory, such as {example}.")
    return scales_in_registers(find_cell(name, arch, folders))


def _check_named(name: str) -> None:
    """AmbiguousError where a name means a multiply with scales, but none of its operands."""
    if read(name).operand:
        return
    ids = [row.id for row in resolve(name).instructions if any(operand.name == "scale_a" for operand in row.operands)]
    size = next((part for part in read(name).plain if part.startswith("scale_vec::")), "").replace("x", "X")
    more = {id_: f" {size} " if size and size not in id_ else "." for id_ in ids}  # tcgen05's ids do not have it
    choices = [f"{id_}{more[id_]}{operand}" for id_ in ids for operand in ("scale_a", "scale_b")]
    if choices:
        raise AmbiguousError(f"{quoted(name)} names no operand: scale_a or scale_b.", name, choices[:6])


@command(scales, short="Scale factors: from the host's layout to registers or tensor memory.", json=ScalesAnswer)
def print_scales(
    found: LoadedScales | CopiedScales,
    *,
    lines: Annotated[
        list[int] | None,
        Option("--line", "Row of A, or column of B, or a range: where its scales are.", reads=Numbers()),
    ] = None,
    scaled: Annotated[
        list[int] | None, Option("--block", "With --line: which block of k, or a range. Default: all.", reads=Numbers())
    ] = None,
    blocks: Annotated[
        int | None, Option("--blocks", "Blocks in a line of the whole matrix. Default: 4.", reads=Number(1))
    ] = None,
    function: NameOption = None,
    as_json: JsonOption = False,
) -> None:
    """The code; or where single scales are; as JSON both."""
    if lines is None and (scaled, blocks) != (None, None):
        raise UsageError("`scaled` and `blocks` need `lines`; the code takes every block.")
    if lines is not None and function and not as_json:
        raise UsageError("`function` is for the code, which `lines` leaves out: remove one of them, or give `as_json`.")
    lines, count = lines or [], blocks or 4
    wanted = range(count) if scaled is None else scaled
    if len(lines) * len(wanted) > MOST_ANSWERS:
        raise UsageError(
            f"{len(lines)} lines of {len(wanted)} blocks: at most {MOST_ANSWERS} scales are located at once; "
            "take fewer lines, or some of the blocks by `scaled`."
        )
    located = [scale_json(found, line, block, count) for line in lines for block in wanted]
    code = found.code(require_legal(function or "scales", FUNCTION))
    if as_json:
        click.echo(json.dumps(plain(ScalesAnswer.of(found, scales=located, code=code))))
    elif located:
        for scale in located:
            click.echo(_located_in_words(scale))
        terminal.line(found.evidence)
    else:
        aside = is_redirected()
        terminal.lines(about(found), found.id, err=aside)
        click.echo(code if aside else f"\n{code}", nl=False)


SHOWN = (0, 1, 31, 32, 64, 96, 127)  # lines by which the pattern shows


def about(found: LoadedScales | CopiedScales) -> Iterator[str]:
    """A sentence and a picture of the host's layout."""
    yield f"{found.id}: the host stores 128 lines x 4 blocks of k in 512 bytes (CUTLASS's SfAtom). {found.goes}"
    yield Whole(f"{'line':>6}   byte of block 0     1     2     3")
    for line, next_line in zip(SHOWN, (*SHOWN[1:], None), strict=True):
        bytes_ = (tensor_memory.scale_offset(line, block, BLOCKS) for block in range(BLOCKS))
        yield Whole(f"{line:>6}{'':12}{''.join(f'{byte:>6}' for byte in bytes_)}")
        if next_line is not None and next_line > line + 1:
            yield Whole(f"{'...':>6}")
    yield found.evidence


def _located_in_words(located: Json) -> str:
    cells = [f"lane {cell['lane']}, column {cell['column']}, bit {cell['bit']}" for cell in located.get("tmem", ())]
    if cells:
        where = f"tensor memory {'; '.join(cells)}"
    else:
        where = f"lanes {', '.join(map(str, located['lanes']))}, bits {located['bit']}..{located['bit'] + 7}"
    read_by = f"multiply {located['multiply']}, ID {located['byte_id']}, its scale {located['scale']}"
    return f"line {located['line']}, block {located['block']}: byte {located['offset']}; {where}; {read_by}"
