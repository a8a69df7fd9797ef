"""CuTe DSL (nvidia-cutlass-dsl): the thread-value layouts of MMA atoms, as cute.make_mma_atom makes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from tcprobe.audit.statement import StatedPlace, Statement, statement
from tcprobe.isa.operand import MULTIPLIED, OF_WARPGROUP

PACKAGE = "nvidia-cutlass-dsl"
REPORTED: Mapping[str, str] = {}
NAMES = {"a": "tv_layout_A", "b": "tv_layout_B", "d": "tv_layout_C"}
KINDS = {
    "f16": "Float16",
    "bf16": "BFloat16",
    "f32": "Float32",
    "s32": "Int32",
    "s8": "Int8",
    "u8": "Uint8",
    "e4m3": "Float8E4M3FN",
    "e5m2": "Float8E5M2",
}
HOW = "warpgroup.OperandSource.RMEM, warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K"
WIDTHS = (8, 24, 128)


class DslAtom(NamedTuple):
    """A multiply: its form here, m n k, and the operation as Python in CuTe DSL."""

    form: str
    shape: tuple[int, int, int]
    operation: str


def atoms() -> Iterator[DslAtom]:
    """Multiplies of a warp, and of a warpgroup with A in registers."""
    for into, out in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32")):
        for k in (8, 16):
            shape = (16, 8, k)
            yield DslAtom(
                f"mma.m16n8k{k}.row.col.{out}.{into}.{into}.{out}",
                shape,
                f"warp.MmaF16BF16Op(cutlass.{KINDS[into]}, cutlass.{KINDS[out]}, {shape})",
            )
    for k in (4, 8):
        yield DslAtom(f"mma.m16n8k{k}.row.col.f32.tf32.tf32.f32", (16, 8, k), f"warp.MmaTF32Op({(16, 8, k)})")
    for into in ("e4m3", "e5m2"):
        for out, k in (("f32", 32), ("f16", 32), ("f32", 16), ("f16", 16)):
            shape = (16, 8, k)
            yield DslAtom(
                f"mma.m16n8k{k}.row.col.{out}.{into}.{into}.{out}",
                shape,
                f"warp.MmaFP8Op(cutlass.{KINDS[into]}, cutlass.{KINDS[out]}, {shape})",
            )
    for n in WIDTHS:
        for into in ("f16", "bf16"):
            shape = (64, n, 16)
            yield DslAtom(
                f"wgmma.mma_async.m64n{n}k16.f32.{into}.{into}",
                shape,
                f"warpgroup.MmaF16BF16Op(cutlass.{KINDS[into]}, cutlass.Float32, {shape}, {HOW})",
            )
        shape = (64, n, 32)
        yield DslAtom(
            f"wgmma.mma_async.m64n{n}k32.f32.e4m3.e4m3",
            shape,
            f"warpgroup.MmaF8Op(cutlass.Float8E4M3FN, cutlass.Float8E4M3FN, cutlass.Float32, {shape}, {HOW})",
        )
        yield DslAtom(
            f"wgmma.mma_async.m64n{n}k32.s32.s8.s8",
            shape,
            f"warpgroup.MmaI8Op(cutlass.Int8, cutlass.Int8, cutlass.Int32, {shape}, {HOW})",
        )


def statements() -> Iterator[Statement]:
    """A, B and D of each; of a warpgroup's B, which is in shared memory, nothing."""
    os.environ["CUTE_DSL_ARCH"] = "sm_90a"
    import cutlass
    from cutlass import cute
    from cutlass.cute.nvgpu import warp, warpgroup

    makers = {
        "MmaF16BF16Op": (warp, warpgroup),
        "MmaTF32Op": (warp,),
        "MmaFP8Op": (warp,),
        "MmaF8Op": (warpgroup,),
        "MmaI8Op": (warpgroup,),
    }
    wgmma_options = (warpgroup.OperandSource.RMEM, warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K)
    collected: list[Statement] = []

    @cute.jit  # type: ignore[untyped-decorator]
    def compare() -> None:
        collected.extend(
            atom_statement
            for atom in atoms()
            for atom_statement in _operands(cute, atom, _operation(cutlass, makers, wgmma_options, atom))
        )

    compare()
    yield from collected


def _operation(
    cutlass: ModuleType, makers: Mapping[str, tuple[Any, ...]], wgmma_options: tuple[Any, ...], dsl_atom: DslAtom
) -> Any:
    """The operation that `operation` spells."""
    place, _, rest = dsl_atom.operation.partition(".")
    name, _, arguments = rest.partition("(")
    kinds = [
        getattr(cutlass, word.removeprefix("cutlass.")) for word in arguments.split(", ") if word.startswith("cutlass")
    ]
    group = place == "warpgroup"
    return getattr(makers[name][-1 if group else 0], name)(*kinds, dsl_atom.shape, *(wgmma_options if group else ()))


def _operands(cute: ModuleType, dsl_atom: DslAtom, operation: Any) -> Iterator[Statement]:
    mma_atom = cute.make_mma_atom(operation)
    m, n, k = dsl_atom.shape
    sizes = {"a": (m, k), "b": (k, n), "d": (m, n)}
    for operand in OF_WARPGROUP if m == 64 else MULTIPLIED:
        layout = getattr(mma_atom, NAMES[operand])
        threads = 128 if m == 64 else 32
        rows, cols = sizes[operand]
        name = f"make_mma_atom({dsl_atom.operation.partition('(')[0]}) {m}x{n}x{k}, {NAMES[operand]} of {dsl_atom.form}"
        code = CODE.format(
            operation=dsl_atom.operation,
            name=NAMES[operand],
            threads=threads,
            count=rows * cols // threads,
            place=f"divmod(at, {cols})" if operand == "b" else f"divmod(at, {rows})[::-1]",
        )
        yield statement(
            name,
            f"{dsl_atom.form}.{operand}",
            (threads, rows * cols // threads),
            _place(layout, rows, cols, operand),
            atom=dsl_atom.form,
            code=code,
        )


def _place(their_layout: Any, rows: int, cols: int, operand: str) -> Callable[[int, int], StatedPlace]:
    def place(thread: int, i: int) -> StatedPlace:
        element = int(their_layout((thread, i)))
        return divmod(element, cols) if operand == "b" else (element % rows, element // rows)

    return place


CODE = """\
import os
os.environ["CUTE_DSL_ARCH"] = "sm_90a"
import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import warp, warpgroup
held = {{}}
@cute.jit
def read():
    layout = cute.make_mma_atom({operation}).{name}
    held.update({{(t, i): int(layout((t, i))) for t in range({threads}) for i in range({count})}})
read()
def stated(thread, i):
    at = held[thread, i]
    return {place}"""
