"""On a live GPU of sm_90: warpgroup forms give the published tables, descriptors and products what these say."""

import pytest
from bench import concluded

from tcprobe.isa import inventory
from tcprobe.probes import descriptors
from tcprobe.probes.descriptors import DescriptorExperiment, ProductExperiment
from tcprobe.run import runner, verify
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.run.gpu import Gpu
from tcprobe.run.verify import verifiable
from tcprobe.store.cell import operands
from tcprobe.store.results import Results, published

pytestmark = pytest.mark.gpu
PATTERNS = ("wgmma.mma_async.m64n24k*", "wgmma.mma_async.m64n104k*", "wgmma.mma_async.sp.m64n24k*")


@pytest.fixture(scope="module")
def gpu():
    found = Gpu()
    found.open(0)
    if found.devices()[0].arch != "sm_90":
        pytest.skip("wgmma is sm_90's alone")
    return found


def test_forms_give_the_published_tables(gpu, tmp_path):
    with runner.Session(Worker()) as session:
        device = runner.choose(session.devices)
        items = list(runner.measure(session, device, select(PATTERNS), Results(tmp_path)))
    measured = [m for m in items if not isinstance(m, runner.JobEnd)]
    assert len(measured) > 30
    for found in measured:
        assert found.status == "measured", (found.experiment, found.words)
        known = published().measurement("sm_90", "live", found.experiment)
        assert (dict(found.tables), found.structure) == (dict(known.tables), known.structure)


def test_descriptors_lead_where_the_formula_says(gpu):
    for case in descriptors.cases(6):
        found = concluded(DescriptorExperiment(case), gpu).case
        assert found.agree == found.elements, (case.operand.id, case.major, case.swizzle)


def test_products_through_random_descriptors(gpu):
    names = (
        "m64n40k16.f32.bf16.bf16",
        "m64n96k32.f16.e5m2.e4m3",
        "m64n16k256.s32.b1.b1.and.popc",
        "sp.m64n72k32.f16.f16.f16",
        "sp.m64n48k64.s32.s8.u8",
    )
    for name in names:
        found = concluded(ProductExperiment(inventory.instructions()[f"wgmma.mma_async.{name}"], 3), gpu).products
        assert (found.products >= 6, found.wrong) == (True, 0), name


def test_every_type_swizzle_and_major_is_verified_by_emitted_code(gpu):
    rows = [row for row in verifiable() if row.described]
    assert {row.shape.n for row in rows} == {8, 24, 64, 128, 256}
    tabled = [(row, operands(row, "sm_90", published())) for row in rows]
    found = list(verify.verify(gpu, tabled, seed=8))
    assert len(found) == sum(len(list(verify.cases(*pair))) for pair in tabled)
    for one in found:
        assert one.good, (one.instruction.id, str(one.case), one.first, one.noticed)
