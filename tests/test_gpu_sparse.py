"""On a live GPU: every sparse form and selector is measured, and its tables alone predict random products."""

import numpy as np
import pytest

from tcprobe.ask.compare import verdicts
from tcprobe.isa import inventory
from tcprobe.isa.arch import arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.instruction import sparsity
from tcprobe.layout.structure import columns, elements
from tcprobe.probes.ptx import Launch
from tcprobe.probes.slots import pack, unpack
from tcprobe.probes.sparse import index_table, product_kernel, random_metadata
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.run.gpu import Gpu
from tcprobe.run.verify import verify
from tcprobe.store.cell import operands
from tcprobe.store.results import Results, published

pytestmark = pytest.mark.gpu
SPARSE = {row.id: row for row in inventory.instructions().values() if row.family == "mma.sp"}
IMAGES = 4
DECODE = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    results = Results(tmp_path_factory.mktemp("sparse"))
    with runner.Session(Worker()) as session:
        device = runner.choose(session.devices)
        chosen = [experiment for experiment in select(["mma.sp*"]) if experiment.id in SPARSE]
        items = list(runner.measure(session, device, chosen, results))
    return device, {m.experiment: m for m in items if not isinstance(m, runner.JobEnd)}


def matrix(fragment, table, slots):
    """Slots of images as matrices, by the measured table."""
    found = np.zeros((len(slots), fragment.rows, fragment.cols), np.int64)
    row, col, _ = elements(table)
    found[:, row, col] = slots
    return found


def test_every_form_that_the_gpu_has_is_measured(whole):
    device, found = whole
    assert set(found) == set(SPARSE)
    for row in SPARSE.values():
        measured = found[row.id]
        assert (measured.status == "measured") == bool(row.target.on(arch(device.arch))), (row.id, measured.words)
        if measured.status == "measured":
            assert measured.numbering == "PTX ISA"
            assert measured.structure.triples == row.triples


def test_the_references_are_confirmed(whole):
    _, found = whole
    for row in SPARSE.values():
        if found[row.id].status == "measured":
            for fragment in row.fragments:
                assert not any(v.unexplained for v in verdicts(fragment, found[row.id])), fragment.id


def test_the_lanes_are_those_that_the_text_of_ptx_names(whole):
    """PTX ISA 9.1, section 9.7.14.6.1: the lanes of a quad that hold the metadata for each selector."""
    _, found = whole
    for row in SPARSE.values():
        if found[row.id].status == "measured":
            e = found[row.id].tables["e"]
            count = e.space.axes[0].size
            for selector in range(count):
                table = e.selection(selector)
                read = {lane for lane in range(32) if any(table.cells[lane * table.elements :][: table.elements])}
                assert read == {lane for lane in range(32) if lane % 4 * count // 4 == selector}, (row.id, selector)


def test_both_variants_have_the_same_tables(whole):
    _, found = whole
    for row in SPARSE.values():
        plain = row.id.replace("::ordered_metadata", "")
        if plain in SPARSE and found[plain].status == "measured":
            assert found[row.id].tables == found[plain].tables, row.id


def random_slots(fragment, generator):
    """Small whole numbers that every type holds exactly, and their patterns."""
    kind = dtype(fragment.type)
    least = 0 if fragment.type in ("u4", "u8") else -2
    numbers = generator.integers(least, 3, (IMAGES, fragment.slots))
    patterns = {n: kind.pattern(int(n), fragment.slot_bits) for n in range(least, 3)}
    return numbers, pack(np.vectorize(patterns.__getitem__)(numbers), fragment.slot_bits)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_products_are_those_that_the_tables_predict(whole, seed):
    _, found = whole
    gpu, generator = Gpu(), np.random.default_rng(seed)
    gpu.open(0)
    todo = [
        (row, s) for row in SPARSE.values() if found[row.id].status == "measured" for s in row.fragment("e").selectors
    ]
    assert not gpu.load([product_kernel(row, s) for row, s in todo])
    for row, selector in todo:
        tables, d, e = found[row.id].tables, row.fragment("d"), row.fragment("e")
        rule = sparsity(e)
        numbers, images = zip(*(random_slots(row.fragment(o), generator) for o in "abc"), strict=True)
        metadata = random_metadata(rule, IMAGES, generator)
        size = IMAGES * d.slots * d.slot_bits // 8
        launch = Launch(product_kernel(row, selector), (IMAGES, 1, 1), (*images, metadata), 0, size)
        raw = unpack(gpu.run([launch])[0].reshape(IMAGES, -1), d.slot_bits).view(DECODE[d.type])
        a, b, c = (matrix(row.fragment(o), tables[o], n) for o, n in zip("abc", numbers, strict=True))
        index = np.zeros((IMAGES, e.rows, e.cols), np.int64)
        cells = np.array([(s, *cell) for s, cell in enumerate(tables["e"].selection(selector).cells) if cell])
        fields = index_table(rule)[unpack(metadata, 4)].reshape(len(metadata), -1)
        index[:, cells[:, 1], cells[:, 2]] = fields[:, cells[:, 0]]
        stored = np.arange(e.cols)
        k = columns(rule, stored, index[:, :, stored - stored % e.span])
        dense = np.zeros((IMAGES, row.shape.m, row.shape.k), np.int64)
        np.put_along_axis(dense, k, a, axis=2)
        got = matrix(d, tables["d"], raw.astype(np.int64))
        assert np.array_equal(got, dense @ b + c), (row.id, selector)


def test_every_form_and_selector_is_verified_with_metadata_built_by_the_header(whole):
    device, _ = whole
    gpu = Gpu()
    gpu.open(0)
    results, row = published(), arch(device.arch)
    todo = [(i, operands(i, row.name, results)) for i in SPARSE.values() if i.target.on(row)]
    found = list(verify(gpu, todo, seed=5))
    assert len(found) == sum(len(i.fragment("e").selectors) for i, _ in todo)
    for one in found:
        assert one.good, (one.instruction.id, one.case.selector, one.first)
