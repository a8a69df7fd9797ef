"""A numeric tensor core for tests: it computes by the model, with any parameters, what the kernels would."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tcprobe.arithmetic.parameters import Arithmetic, Integers, Subnormals, chained, subject, types_of
from tcprobe.isa import arch, names
from tcprobe.probes import dialogues
from tcprobe.probes.numerics import Images, model_results
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.store.choose import alone
from tcprobe.store.finding import PROVENANCE, Finding
from tcprobe.store.results import published

FP8 = (tuple(k for k in range(32) if k % 4 < 2), tuple(k for k in range(32) if k % 4 > 1))
SINGLE, HALF, DOUBLE = "0x7fffffff", "0x7fff", "0x7fffffffffffffff"
ALL, SOME = Subnormals(), Subnormals(d=None)
MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
MMA_BF16, MMA_FP8 = "mma.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA_FP8, F64 = "wgmma.mma_async.m64n8k32.f32.e4m3.e4m3", "mma.m8n8k4.row.col.f64.f64.f64.f64"
M8N8K4 = "mma.m8n8k4.row.row.f32.f16.f16.f32"
TF32, S8 = "mma.m16n8k8.row.col.f32.tf32.tf32.f32", "mma.m16n8k32.row.col.s32.s8.s8.s32"


def rule(groups, kept, bits, **more):
    """Parameters as a GPU could have them."""
    rounding = "toward zero" if bits in (13, 23) else "nearest even"
    more = {"rounding": rounding, **more}
    nan = {10: HALF, 52: DOUBLE}.get(bits, SINGLE)
    return Arithmetic(groups, kept, bits, **{"nan": nan, "negative_zero": False, **more})


# what a trial on one H200 found, and other archs' parameters put into forms of sm_90
WIDE = {"exponent_floor": -133, "overflow": "infinity"}
RULES = {
    MMA: rule(chained(16, 16), 25, 23),
    "mma.m16n8k16.row.col.f16.f16.f16.f16": rule(chained(16, 16), 25, 10, overflow="infinity"),
    MMA_BF16: rule(chained(16, 16), 25, 23, **WIDE),
    TF32: rule(chained(8, 8), 25, 23, unread_bits=13, **WIDE),
    "mma.m16n8k4.row.col.f32.tf32.tf32.f32": rule(chained(4, 4), 25, 23, unread_bits=13, **WIDE),
    MMA_FP8: rule(FP8, 25, 23, c="after"),
    "mma.m16n8k32.row.col.f16.e4m3.e4m3.f16": rule(FP8, 25, 10, c="after", overflow="infinity"),
    "mma.m16n8k32.row.col.f32.e4m3.e5m2.f32": rule(FP8, 25, 23, c="after", normalized=("a",)),
    "mma.m16n8k32.row.col.f32.e5m2.e4m3.f32": rule(FP8, 25, 23, c="after", normalized=("b",)),
    "wmma.mma.row.row.m16n16k16.f16.f32": rule(
        chained(16, 16), 25, 10, overflow="infinity", subnormals=Subnormals(c=None), through_f32="toward zero"
    ),
    "wgmma.mma_async.m64n8k32.f32.e5m2.e4m3": rule(chained(32, 32), 13, 13),
    WGMMA_FP8: rule(chained(32, 32), 13, 13),
    "wgmma.mma_async.m64n8k32.f16.e5m2.e5m2": rule(chained(32, 32), 13, 10, overflow="infinity"),
    "wgmma.mma_async.sp.m64n8k32.f32.bf16.bf16": rule(chained(16, 16), 25, 23, **WIDE),
    "mma.sp.m16n8k32.row.col.f32.f16.f16.f32": rule(chained(16, 16), 25, 23),
    "wmma.mma.row.row.m16n16k16.f32.f16": rule(chained(16, 16), 25, 23, subnormals=SOME, normalized=("c",)),
    F64: rule(chained(4, 1), None, 52, negative_zero=True, overflow="infinity"),
    M8N8K4: rule(chained(4, 4), None, 23, c="before", rounding="nearest even"),
    "mma.m8n8k4.row.row.f32.f16.f16.f16": rule(
        chained(4, 4), None, 23, c="before", rounding="nearest even", subnormals=SOME
    ),
    "mma.m8n8k4.row.row.f16.f16.f16.f16": rule(
        chained(4, 2), None, 10, c="before", overflow="infinity", negative_zero=True, through_f32="nearest even"
    ),
    S8: Integers("wraps", "clamps"),
    "mma.m16n8k64.row.col.s32.s4.u4.s32": Integers("wraps", "clamps"),
    "wgmma.mma_async.m64n8k256.s32.b1.b1.and.popc": Integers("wraps"),
    "mma.m16n8k256.row.col.s32.b1.b1.s32.xor.popc": Integers("wraps"),
}


@cache
def layers():
    return alone(published())


class Core:
    """A bench and the core behind it, with one rule for all forms."""

    def __init__(self, rule, name="sm_90", documented=False):
        self.rule, self.device, self.documented = rule, arch.arch(name), documented

    def run(self, launches):
        return [launch.kernel.op.emulate(launch, self) for launch in launches]

    def known_table(self, fragment):
        if self.documented:
            said = (reference.claim(fragment, self.device) for reference in (ptx_isa, cute))
            return next(claim.meant for claim in said if isinstance(claim, Claim))
        found = layers().choose(fragment, [self.device.name])
        return found.table(fragment) if found else None

    def computed(self, row, operands, satfinite):
        return model_results(row, self.rule, Images(*operands), satfinite)


def experiment(id_, forms=1, cases=1024):
    """The experiment of a form, on so many forms and cases."""
    found = dialogues("numerics")[subject(names.resolve(id_).instruction)]
    return replace(found, rows=found.rows[:forms], cases=cases)


def measured(id_, rule, forms=1, cases=1024):
    """What the experiment finds on a core."""
    probe = experiment(id_, forms, cases)
    return probe.conclude(probe.measure(Core(rule)), None)


def finding(id_, rule, method="live"):
    """A finding as it is saved."""
    said = dict.fromkeys(PROVENANCE, "x")
    return Finding(
        "numerics", subject(names.resolve(id_).instruction), "sm_90", method, "measured", said, measured(id_, rule)
    )


def wide(kinds):
    """Whether products go below the floor."""
    return types_of(names.resolve(kinds).instruction).a in ("bf16", "tf32")
