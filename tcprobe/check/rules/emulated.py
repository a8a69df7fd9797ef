"""Multiplies that the compiler makes of other instructions, because the arch has none of their type."""

from __future__ import annotations

from collections.abc import Iterator

from tcprobe.check import published
from tcprobe.check.rule import Finding, Severity
from tcprobe.isa import inventory
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.opcodes import of_kind
from tcprobe.sass.kernel import Kernel
from tcprobe.sass.lowering import Lowering, words

NAME = "emulated"
SEVERITY: Severity = "warning"
SAYS = "a multiply that the arch does not do in its own type, and that becomes other instructions"
FIX = "use the form that is native there"
EVIDENCE = (
    "tcprobe lower: what every form becomes on every arch, from machine code of 17 versions of ptxas.",
    "On an H200 mma.m16n8k32 of e4m3 takes 10.6 cycles of an SM, seven times as many as the form of f16 with "
    "half the k; wgmma of e4m3 reaches the peak (`tcprobe cost --table`).",
    "Of PTX its text says which form stands there. Of a cubin only the compiler's own routines show it, which "
    "it links in by name (__cuda_sm_8x_mma_...).",
)


def check(kernel: Kernel) -> Iterator[Finding]:
    """Of PTX a finding for each form that is not native; of a cubin one for each routine that multiplies."""
    if kernel.ptx is not None:
        yield from _of_text(kernel, kernel.ptx)
        return
    for routine in dict.fromkeys(kernel.code.routines):
        if "mma" in routine:
            calls = [i.address for i in kernel.instructions if i.mnemonic == "CALL"]
            text = f"{routine} of the compiler does a multiply that {kernel.arch} does not have; {FIX}"
            yield Finding(NAME, SEVERITY, min(calls, default=0), text, {"calls": len(calls)})


def _of_text(kernel: Kernel, ptx: str) -> Iterator[Finding]:
    known = published.lowerings(kernel.arch)
    for id_ in published.calls(ptx).get(kernel.name, ()):
        form, lowering = inventory.instructions()[id_], known.get(id_)
        if lowering is None or lowering.refused or lowering.native(form):
            continue
        native = _native(form, kernel.arch)
        beside = f"native is {native}" if native else f"{kernel.arch} has no native multiply of these types"
        counted: dict[str, int | float] = {"instructions": lowering.others + sum(lowering.opcodes.values())}
        cycles, taken = published.multiply_cycles(kernel.arch, id_), ""
        if cycles is not None:
            counted["cycles"] = round(cycles, 1)
            taken = f", {cycles:.1f} cycles of an SM"
        text = f"{form.name} is {words(lowering, form)} on {kernel.arch}{taken}; {beside}"
        yield Finding(NAME, SEVERITY, _address(kernel, lowering), text, counted)


def _address(kernel: Kernel, lowering: Lowering) -> int:
    """The first instruction of those that do it, or the first call."""
    wanted = [i for i in kernel.instructions if i.opcode in lowering.opcodes and i.mnemonic in of_kind("multiply")]
    calls = [i for i in kernel.instructions if i.mnemonic == "CALL"]
    return min((i.address for i in wanted or calls), default=0)


def _native(form: Instruction, arch: str) -> str | None:
    """A multiply of the same types that the arch does itself: of its own family, or a warpgroup's."""
    rows = inventory.instructions()
    own = [rows[id_] for id_, lowering in published.lowerings(arch).items() if lowering.native(rows[id_])]
    row = published.row_of(arch)
    groups = [i for i in rows.values() if row and i.described and i.target.on(row) and i.family in ("wgmma", "tcgen05")]
    alike = [
        other
        for other in (*own, *groups)
        if bool(other.metadata) == bool(form.metadata)
        and (_operand(other, "a"), other.bit_op) == (form.type("a"), form.bit_op)
    ]
    alike.sort(key=lambda other: (other.family != form.family, _operand(other, "d") != _operand(form, "d")))
    return alike[0].name if alike else None


def _operand(form: Instruction, name: str) -> str:
    """The type of an operand; none of forms that take another kind of factors."""
    return next((operand.type for operand in form.operands if operand.name == name), "")


FAILS = """
.version 8.4
.target sm_90
.address_size 64
.visible .entry fp8(.param .u64 out) .reqntid 32 {
.reg .b32 r<6>; .reg .f32 f<4>; .reg .b64 p;
ld.param.u64 p, [out];
mov.u32 r0, %tid.x; mov.u32 r1, r0; mov.u32 r2, r0; mov.u32 r3, r0; mov.u32 r4, r0; mov.u32 r5, r0;
mov.f32 f0, 0f00000000; mov.f32 f1, f0; mov.f32 f2, f0; mov.f32 f3, f0;
mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {f0, f1, f2, f3}, {r0, r1, r2, r3}, {r4, r5}, {f0, f1, f2, f3};
st.global.v4.f32 [p], {f0, f1, f2, f3};
ret;
}
"""
PASSES = FAILS.replace("sm_90", "sm_89")
