"""An order of k: the other factor is said where there is one, whole and in registers, and each k keeps its scale."""

import pytest
from test_convert import arrives

from tcprobe.ask.convert.conversion import other_factor, plan_conversion
from tcprobe.errors import UsageError
from tcprobe.isa import inventory
from tcprobe.isa.operand import Role
from tcprobe.store.cell import load

FACTORS = [
    f
    for row in inventory.instructions().values()
    if row.products == 1 and row.shape.n <= 32 and row.shape.k <= 64
    for f in row.factors
    if f.elements <= 16 and not (row.metadata and f.operand == "a")
]
SOURCES = (
    "mma.m16n8k16.row.col.f32.f16.f16.f32.d",
    "wgmma.mma_async.m64n32k32.f32.e4m3.e4m3.d",
    "mma.m16n8k32.row.col.s32.s8.s8.s32.d",
)


def _with_order(factor):
    """The conversions to a factor that an order of k makes, from accumulators and from the factor itself."""
    for name in ("sm_90", "sm_120"):
        for source in (*SOURCES, factor.id):
            for transpose in (False, True):
                try:
                    yield plan_conversion(load(source, name), load(factor.id, name), transpose, permute_k=True)
                except UsageError:
                    continue


@pytest.mark.parametrize("family", sorted({f.family for f in FACTORS}))
def test_the_other_factor_and_the_scales(family, sample):
    """B of a warpgroup is in no register; metadata choose k of sparse A; a scale belongs to a block of k."""
    tried = 0
    for factor in sample([f for f in FACTORS if f.family == family], 41):
        row = inventory.instructions().get(factor.experiment)
        scales = [f.cols for f in row.of_role(Role.SCALE) if f.operand == "scale_a"] if row else []
        for found in _with_order(factor):
            tried += 1
            order, said = found.tiling.order, found.to_json()["load"]
            assert list(found.in_words)
            assert found.plan is None or arrives(found)
            if scales:
                block = row.shape.k // scales[0]
                assert [k // block for k in order] == [place // block for place in range(len(order))]
            others = [f for f in row.factors if f.id != factor.id] if row else []
            if said is None:
                assert not others or row.metadata or len(order) != row.shape.k
                continue
            assert said["id"] == others[0].id
            table = other_factor(found.tiling)[1]
            assert set(table.values["row" if factor.operand == "a" else "col"]) == set(range(row.shape.k))
    assert tried
