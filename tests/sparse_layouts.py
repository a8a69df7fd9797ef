"""Sparse multiplies with any layouts and any metadata map, and as PTX states them; their runs on an emulated core."""

import random

from emulation import SM_90, shuffled, table_of

from tcprobe.isa import inventory
from tcprobe.layout.table import Table, selected
from tcprobe.probes.experiment import Context
from tcprobe.references import Claim, ptx_isa
from tcprobe.run.emulator import Emulator

SPARSE = {row.id: row for row in inventory.instructions().values() if row.family == "mma.sp"}
# one of each shape and width, the small ones first
KINDS = {
    "tf32": "mma.sp.m16n8k8.row.col.f32.tf32.tf32.f32",
    "f16": "mma.sp.m16n8k16.row.col.f16.f16.f16.f16",
    "f32": "mma.sp::ordered_metadata.m16n8k16.row.col.f32.bf16.bf16.f32",
    "wide tf32": "mma.sp.m16n8k16.row.col.f32.tf32.tf32.f32",
    "bytes": "mma.sp.m16n8k32.row.col.s32.u8.s8.s32",
    "wide f16": "mma.sp.m16n8k32.row.col.f32.f16.f16.f32",
    "nibbles": "mma.sp.m16n8k64.row.col.s32.s4.u4.s32",
    "fp8": "mma.sp::ordered_metadata.m16n8k64.row.col.kind::f8f6f4.f16.e2m1.e3m2.f16",
    "wide nibbles": "mma.sp.m16n8k128.row.col.s32.s4.s4.s32",
}
CONTEXT = Context(SM_90, lambda _: None)


def metadata_map(e, rng: random.Random) -> Table:
    """By selector any field for each unit of A, at most one each."""
    units = [row * e.cols + col for row in range(e.rows) for col in range(0, e.cols, e.span)]
    tables = []
    for _ in e.selectors:
        held = [*units, *[None] * (e.slots - len(units))]
        rng.shuffle(held)
        tables.append(table_of(e, held))
    return selected(tables)


def layouts(row, seed: int) -> dict[str, Table]:
    rng = random.Random(seed)
    return {f.id: metadata_map(f, rng) if f.operand == "e" else shuffled(f, rng) for f in row.fragments}


def documented(row, seed: int) -> dict[str, Table]:
    """As PTX states it; where it shows figures only, at random."""
    claims = {f.id: ptx_isa.claim(f, SM_90) for f in row.fragments}
    return {
        id_: claim.meant if isinstance(claim, Claim) else table
        for (id_, table), claim in zip(layouts(row, seed).items(), claims.values(), strict=True)
    }


def outputs(experiment, tables):
    launches = experiment.launches()
    return launches, Emulator(tables, name="sm_120").run(launches)
