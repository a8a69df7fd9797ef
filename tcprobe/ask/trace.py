"""The question `trace`: what feeds an element of D, or what a slot or a byte feeds, wherever the operands are."""

import json
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Literal, NamedTuple

import click

from tcprobe.ask import registers
from tcprobe.ask.operand import (
    OF_DESCRIPTORS,
    RANGE,
    BaseOffsetOption,
    DescriptorSwizzleOption,
    LboOption,
    LoadOption,
    MajorName,
    MajorOption,
    MOption,
    NOption,
    OperandAnswer,
    OperandOptions,
    Range,
    SboOption,
    SelectorOption,
    StartOption,
    VectorOption,
    given,
    require_no_tensor_memory,
)
from tcprobe.ask.registers import TraceAnswer
from tcprobe.errors import UsageError
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Role
from tcprobe.question import terminal, words
from tcprobe.question.answers import Meta
from tcprobe.question.arguments import arch_name, word
from tcprobe.question.declare import NameWords, Option, command, note
from tcprobe.question.options import Number
from tcprobe.question.shared import ArchOption, JsonOption, OnlyOption, ResultsOption
from tcprobe.store import names
from tcprobe.store.cell import Cell, selected
from tcprobe.store.choose import layers

TracedOperand = Literal["a", "b", "c", "e", "a_smem", "b_smem"]
PlaceOfA = Literal["registers", "shared", "tensor"]


class TraceRequest(NamedTuple):
    """What is asked: an element of D, a slot or a byte of an operand; where A is, what is contiguous, who reads D."""

    row: Range
    col: Range
    product: int | None
    operand: TracedOperand | None
    lane: Range
    element: Range
    byte: Range
    a_in: PlaceOfA | None
    a_major: MajorName | None
    b_major: MajorName | None
    ld: str | None

    @property
    def asked(self) -> set[str]:
        """What is given of an element, a slot and a byte."""
        names = ("row", "col", "operand", "lane", "element", "byte")
        return {name for name in names if getattr(self, name) is not None}


def trace(
    name: Annotated[str, NameWords("INSTRUCTION")],
    *,
    row: Annotated[
        Range, Option("--row", "Row of the D element, or a range: 3, 0-7.", reads=RANGE, word=words.ELEMENT_OF_D)
    ] = None,
    col: Annotated[Range, Option("--col", "Column of the D element, or a range.", reads=RANGE)] = None,
    product: Annotated[
        int | None, Option("--product", "Which product, where a warp holds several (m8n8k4 of f16).", reads=Number())
    ] = None,
    operand: Annotated[
        TracedOperand | None, Option("--operand", "Say what a slot, or a byte, of this operand feeds instead.")
    ] = None,
    lane: Annotated[Range, Option("--lane", "With --operand: the slot's lane, or a range.", reads=RANGE)] = None,
    element: Annotated[Range, Option("--i", "With --operand: the slot's i, or a range.", reads=RANGE)] = None,
    byte: Annotated[
        Range, Option("--byte", "With --operand a_smem or b_smem: bytes from the start address.", reads=RANGE)
    ] = None,
    a_in: Annotated[
        PlaceOfA | None, Option("--a-in", "Where A is. Default: registers for wgmma, shared for tcgen05.mma.")
    ] = None,
    m: MOption = None,
    n: NOption = None,
    vector: VectorOption = None,
    a_major: Annotated[
        MajorName | None, Option("--a-major", "With tcgen05.mma: what is contiguous in A. Default: --major, or k.")
    ] = None,
    b_major: Annotated[
        MajorName | None, Option("--b-major", "With tcgen05.mma: what is contiguous in B. Default: --major, or k.")
    ] = None,
    ld: LoadOption = None,
    swizzle: DescriptorSwizzleOption = None,
    major: MajorOption = None,
    lbo: LboOption = None,
    sbo: SboOption = None,
    base_offset: BaseOffsetOption = None,
    start: StartOption = None,
    selector: SelectorOption = None,
    arch: ArchOption = None,
    results: ResultsOption = None,
    only: OnlyOption = False,
) -> Iterator[OperandAnswer]:
    """Show all slots of A, B and C that feed one element of D, in k order; or what a slot of A, B or C feeds.

    For a sparse multiply also the metadata field (E) that picks one of the rows of B that an A slot can meet. For wgmma
    the bytes of B behind a descriptor (--swizzle, --major, --lbo, --sbo, --base-offset, --start), and with --a-in
    shared those of A behind the same one; or what a byte of them feeds. For tcgen05.mma the cells of D, of A with
    --a-in tensor, of metadata and scales, and the bytes of A and B. Other scales are left out: `where` of scale_a and
    scale_b says which byte scales what. Ranges give one answer after the other; --json prints one object per line.
    """
    options = OperandOptions(
        layers(results, only), arch_name(arch), selector, swizzle, major, lbo, sbo, base_offset, start, m, n, vector
    )
    traced = TraceRequest(row, col, product, operand, lane, element, byte, a_in, a_major, b_major, ld)
    if "tcgen05" in word("name", name).lower():
        from tcprobe.ask.tensor_memory import tensor_form

        if (form := tensor_form(name)) and form.multiplies:
            return _in_tensor_memory(form, options, traced)
    require_no_tensor_memory(options, traced)
    multiply, tables, remark = names.multiply(name, options.arch, options.layers)
    tables = {o: cell for o, cell in tables.items() if cell.fragment.role is not Role.SCALE}
    note(remark)
    return (_in_shared_memory if multiply.described else _in_registers)(multiply, tables, options, traced)


def _in_registers(
    instruction: Instruction, tables: Mapping[str, Cell], options: OperandOptions, traced: TraceRequest
) -> Iterator[OperandAnswer]:
    """Of a multiply whose operands are all in registers, under each selector of metadata, or the one that is given."""
    smem = [f"`operand` {traced.operand}"] if traced.operand in ("a_smem", "b_smem") else []
    if wrong := smem + given(("byte", "a_in", *OF_DESCRIPTORS), options, traced):
        raise UsageError(f"{instruction.id} has no operand in shared memory (wgmma has): remove {', '.join(wrong)}.")
    asked, operand = traced.asked, traced.operand
    if asked == {"operand", "lane", "element"}:
        pairs = list(product(traced.lane or (), traced.element or ()))
    elif asked == {"row", "col"}:
        pairs = list(product(traced.row or (), traced.col or ()))
    else:
        raise UsageError("give `row` and `col`, or `operand`, `lane` and `element`.")
    if operand and traced.product is not None:
        raise UsageError("`product` needs `row` and `col`; a slot belongs to one product only.")
    metadata = tables.get("e")
    selectors = metadata.fragment.selectors if metadata and options.selector is None else (options.selector,)
    for selector, (first, second) in product(selectors, pairs):
        cells = dict(zip(tables, selected(tables.values(), selector), strict=True))
        if operand:
            yield registers.feeds(instruction, cells, operand, first, second)
        else:
            yield registers.trace(instruction, cells, first, second, traced.product)


def _in_shared_memory(
    instruction: Instruction, tables: Mapping[str, Cell], options: OperandOptions, traced: TraceRequest
) -> Iterator[OperandAnswer]:
    """Of a multiply with factors behind descriptors: of an element of D, a byte, or a slot of A."""
    from tcprobe.ask.shared_operand import SharedMultiply, fed_by_byte, fed_by_slot, shared_map_by, trace_element

    _check_shared(instruction, options.selector, traced)
    options = options._replace(layers=tables["d"].layers)
    a, b = (shared_map_by(one, options) for one in instruction.described)
    in_shared = traced.a_in == "shared" or traced.operand == "a_smem"
    memory = SharedMultiply(instruction, tables, b, a if in_shared else None)
    asked = traced.asked
    if asked == {"row", "col"}:
        yield from (trace_element(memory, *at) for at in product(traced.row or (), traced.col or ()))
    elif asked == {"operand", "byte"} and traced.operand in ("a_smem", "b_smem"):
        yield from (fed_by_byte(memory, traced.operand, byte) for byte in traced.byte or ())
    elif asked == {"operand", "lane", "element"} and traced.operand == "a" and traced.a_in != "shared":
        yield from (fed_by_slot(memory, *at) for at in product(traced.lane or (), traced.element or ()))
    else:
        raise UsageError(
            "give `row` and `col`, or `operand` a with `lane` and `element`, or `operand` a_smem or b_smem with `byte`."
        )


def _check_shared(instruction: Instruction, selector: int | None, traced: TraceRequest) -> None:
    """UsageError for options that say nothing of a multiply with factors behind descriptors."""
    for name, number in (("product", traced.product), ("selector", selector)):
        if number is not None and (name == "product" or instruction.metadata is None):
            raise UsageError(f"`{name}` does not apply to {instruction.id}: remove it.")
    if instruction.metadata and selector not in (None, *instruction.metadata.selectors):
        known = ", ".join(map(str, instruction.metadata.selectors))
        raise UsageError(f"{instruction.metadata.id} has no selector {selector}: it has {known}.")
    if traced.operand == "a_smem" and traced.a_in == "registers":
        raise UsageError("a_smem is A in shared memory: remove `a_in`, or give `a_in` shared.")
    if traced.a_in == "tensor":
        raise UsageError(
            f"{instruction.id} has A in registers or in shared memory; tcgen05.mma has it in tensor memory."
        )


def _in_tensor_memory(
    instruction: Instruction, options: OperandOptions, traced: TraceRequest
) -> Iterator[OperandAnswer]:
    """Of a tcgen05.mma, for every element that is asked about; UsageError for what it does not have."""
    from tcprobe.ask.tensor_memory import check_arch, parse_load
    from tcprobe.ask.trace_tensor_memory import TensorTraceRequest, trace_element

    check_arch(instruction, options.arch)
    foreign = ("product", "operand", "lane", "element", "byte", "lbo", "sbo", "base_offset", "start")
    if wrong := given(foreign, options, traced):
        raise UsageError(f"{instruction.id}: give `row` and `col` of D; {wrong[0]} does not apply to it.")
    if traced.row is None or traced.col is None:
        raise UsageError(f"{instruction.id}: give `row` and `col` of D.")
    if traced.a_in == "registers":
        raise UsageError(f"{instruction.id} has A in shared or in tensor memory: `a_in` shared or tensor.")
    in_tensor = traced.a_in == "tensor"
    if in_tensor and traced.a_major:
        raise UsageError("`a_major` needs A in shared memory.")
    a, b = (each or options.major or "k" for each in (traced.a_major, traced.b_major))
    request = TensorTraceRequest(
        options.m,
        options.n,
        options.swizzle.span if options.swizzle else 0,
        in_tensor,
        options.selector,
        options.vector,
        ("k" if in_tensor else a, b),
        parse_load(traced.ld) if traced.ld else None,
        options.layers,
        options.arch,
    )
    yield from (trace_element(instruction, request, *at) for at in product(traced.row, traced.col))


def _printed() -> object:
    from tcprobe.ask.shared_operand import SharedTraceAnswer
    from tcprobe.ask.trace_tensor_memory import TensorTraceAnswer

    kinds = TraceAnswer | SharedTraceAnswer | TensorTraceAnswer
    return Annotated[kinds, Meta(description="What feeds a D element, or what a slot feeds, one object an answer.")]


@command(trace, short="Which slots feed an element of D, or what a slot feeds.", json=_printed)
def print_trace(answers: Iterator[OperandAnswer], *, as_json: JsonOption = False) -> None:
    """Each answer as it is found."""
    for answer in answers:
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            terminal.lines(answer.in_words, answer.about)
