"""Matrix moves on a live GPU: measured as PTX states them, random data predicted from the tables, faults, idle lanes.

Only what the GPU has is measured; the rest is refused in the driver's words.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tcprobe.ask.compare import CONFIRMED, verdicts
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa import inventory
from tcprobe.isa.arch import WARP, arch
from tcprobe.isa.rows.moves import ROW_BYTES
from tcprobe.probes.moves import FAMILIES, SIZE, in_registers, kernel
from tcprobe.probes.ptx import Launch, thread_bytes
from tcprobe.references import Claim, cute, ptx_isa
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.run.gpu import Gpu
from tcprobe.sass import toolchain
from tcprobe.sass.moves import derive_moves
from tcprobe.store.finding import Measurement
from tcprobe.store.results import Results, published

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent
NEWER = {row.id for row in inventory.instructions().values() if ".s8.s4" in row.id}  # test_w4a8.py, by another compiler
FORMS = [row for row in inventory.instructions().values() if row.family in FAMILIES and row.id not in NEWER]
SEEDS = range(4)

try:
    TOOLS = toolchain.find()
except EnvironmentUnfitError:
    TOOLS = None


def run(root, worker=Worker(), patterns=tuple(f"{family}.*" for family in FAMILIES)):  # noqa: B008
    """As `tcprobe run` does it: measurements by experiment, on the first device."""
    results = Results(root)
    with runner.Session(worker) as session:
        device = runner.choose(session.devices)
        items = list(runner.measure(session, device, select(patterns), results))
    return device, {m.experiment: m for m in items if isinstance(m, Measurement)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("moves")
    device, found = run(root)
    return root, device, found


@pytest.fixture(scope="module")
def gpu(whole):
    found = Gpu()
    found.open(whole[1].index)
    allowed = [form for form in FORMS if form.target.on(arch(whole[1].arch))]
    assert found.load([kernel(form) for form in allowed]) == {}
    return found, allowed


def test_every_form_is_measured_or_refused_for_a_reason(whole):
    _, device, found = whole
    here = arch(device.arch)
    assert set(found) == {form.id for form in FORMS} | NEWER
    for form in FORMS:
        m = found[form.id]
        assert m.status == ("measured" if form.target.on(here) else "refused"), (form.id, m.words)
        assert m.status == "measured" or m.words
    if device.arch == "sm_90":
        assert Counter(found[form.id].status for form in FORMS) == {"measured": 13, "refused": 15}


def test_every_table_is_what_is_documented(whole):
    _, device, found = whole
    here = arch(device.arch)
    for form in (form for form in FORMS if form.target.on(here)):
        for f in form.fragments:
            claims = [claim for r in (ptx_isa, cute) if isinstance(claim := r.claim(f, here), Claim)]
            assert claims, f.id
            assert all(found[form.id].tables[f.operand] == claim.meant for claim in claims), f.id
            for verdict in verdicts(f, found[form.id]):
                assert not verdict.unexplained, (f.id, verdict)
                stated = verdict.verdict == CONFIRMED or verdict.erratum
                assert stated or verdict.reference not in ("PTX ISA", "CuTe") or len(claims) < 2, (f.id, verdict)


def test_two_runs_write_the_same_bytes(whole, tmp_path):
    run(tmp_path)
    trees = [{p.relative_to(r): p.read_bytes() for p in r.rglob("*.json")} for r in (whole[0], tmp_path)]
    assert trees[0] == trees[1]


def test_the_published_tables_are_these(whole):
    _, device, found = whole
    for m in published().measurements(device.arch, "live"):
        if m.experiment in found and m.experiment not in NEWER:
            assert (m.status, m.tables) == (found[m.experiment].status, found[m.experiment].tables)


# random data, predicted from the measured tables alone


def addresses(rng, form, idle=None):
    """A random row for each lane, in bytes from the start of shared memory; `idle` for lanes beyond the rows."""
    rows = rng.permutation(SIZE // ROW_BYTES)[:WARP].astype(np.uint32) * np.uint32(ROW_BYTES)
    if idle is not None:
        rows[form.fragment("address").rows :] = idle
    return rows[None]


def moved(form, image, rows=None):
    """The launch of a form's kernel on one image of memory or registers."""
    held, loads = form.fragments[0] if rows is None else in_registers(form), form.family != "stmatrix"
    registers = WARP * thread_bytes(held)
    inputs = (image[None],) if rows is None else (image[None], rows.view(np.uint8))
    return Launch(kernel(form), (1, 1, 1), inputs, 0, registers if loads else SIZE)


def words(raw, bits):
    return raw.view({8: np.uint8, 16: np.uint16}[bits])


def lanes_of(table):
    return {row: lane for lane, row in enumerate(table.values["row"]) if row is not None}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_data_goes_where_the_tables_say(whole, gpu, seed):
    """NumPy moves bytes by the tables; forms that widen 6 and 4 bits are left to their bit by bit measurement."""
    device, forms = gpu
    rng = np.random.default_rng(seed)
    for form in (form for form in forms if "x16" not in form.id):
        tables = whole[2][form.id].tables
        operand = form.fragments[0] if form.family == "movmatrix" else in_registers(form)
        bits, cells = operand.slot_bits, tables[operand.operand].cells
        registers = rng.integers(0, 256, WARP * thread_bytes(operand), np.uint8)
        if form.family == "movmatrix":
            out = words(device.run([moved(form, registers)])[0], bits)
            holder = {cell: slot for slot, cell in enumerate(tables["a"].cells)}
            wanted = words(registers, bits)[[holder[cell] for cell in tables["d"].cells]]
            assert np.array_equal(out, wanted), form.id
            continue
        rows, lane_of = addresses(rng, form), lanes_of(tables["address"])
        places = [rows[0, lane_of[row]] * 8 // bits + col for row, col in cells]
        memory = rng.integers(0, 256, SIZE, np.uint8)
        if form.family == "ldmatrix":
            out = words(device.run([moved(form, memory, rows)])[0], bits)
            assert np.array_equal(out, words(memory, bits)[places]), form.id
        else:
            out = words(device.run([moved(form, registers, rows)])[0], bits)
            assert np.array_equal(out[places], words(registers, bits)), form.id
            untouched = np.setdiff1d(np.arange(len(out)), places)
            assert len(set(out[untouched].tolist())) == 1, form.id  # the poison that memory was full of


# which addresses count


@pytest.mark.parametrize("idle", [0x3, 0xFFFFFFF1, 0x7FFFFFF0, 0x00FFFFFD], ids=hex)
def test_addresses_of_other_lanes_may_be_anything(whole, gpu, idle):
    """Odd ones, misaligned ones, ones far outside of shared memory."""
    device, forms = gpu
    if arch(whole[1].arch).number < 80:
        pytest.skip("PTX ISA: up to sm_75 every lane must hold a valid address")
    rng = np.random.default_rng(9)
    image = rng.integers(0, 256, SIZE, np.uint8)
    for form in (form for form in forms if form.family != "movmatrix" and form.fragment("address").rows < WARP):
        given = image if form.family == "ldmatrix" else image[: WARP * thread_bytes(in_registers(form))]
        plain = addresses(np.random.default_rng(1), form)
        wild = addresses(np.random.default_rng(1), form, idle)
        both = [device.run([moved(form, given, rows)])[0].copy() for rows in (plain, wild)]
        assert np.array_equal(*both), form.id


FAULT = """
import sys
import numpy as np
from tcprobe.isa import inventory
from tcprobe.isa.names import resolve
from tcprobe.probes.moves import kernel, launch, patterns
from tcprobe.run.backend import BackendFaultError
from tcprobe.run.gpu import Gpu

form, gpu = resolve(sys.argv[1]).instruction, Gpu()
gpu.open(0)
assert gpu.load([kernel(form)]) == {}
rows = patterns()[:1].copy()
rows[0, 5] = int(sys.argv[2], 0)
try:
    gpu.run([launch(form, rows)])
except BackendFaultError as error:
    sys.exit(f"fault: {error}")
"""


@pytest.mark.parametrize("name", ["ldmatrix.m8n8.x1.shared.b16", "stmatrix.m8n8.x4.trans.shared.b16"])
@pytest.mark.parametrize(("address", "expected"), [("0x58", "misaligned"), ("0x7ffffff0", "")])
def test_a_bad_address_that_counts_is_a_fault(gpu, name, address, expected):
    """In a process of its own: misaligned (error 716), or outside of shared memory (715 on an H200)."""
    if name not in {form.id for form in gpu[1]}:
        pytest.skip(f"this GPU has no {name}")
    done = subprocess.run([sys.executable, "-c", FAULT, name, address], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "fault: " in done.stderr
    assert expected in done.stderr


def test_a_fault_costs_its_own_experiment_only(tmp_path):
    culprit = "ldmatrix.m8n8.x2.shared.b16"
    worker = Worker((sys.executable, str(HERE / "faulty_gpu_worker.py"), "trap", culprit), 30)
    _, found = run(tmp_path, worker, ("ldmatrix.m8n8*", "movmatrix.*"))
    assert {e for e, m in found.items() if m.status != "measured"} == {culprit}
    assert found[culprit].status == "failed"


@pytest.mark.skipif(TOOLS is None, reason="no ptxas or nvdisasm here")
def test_machine_code_of_this_gpu_gives_the_live_tables(whole):
    _, device, found = whole
    row = arch(device.arch)
    derived = derive_moves(TOOLS, row, FORMS, lambda f: published().table(row.name, "sass", f))
    assert len(derived) == (4 if row.number == 75 else 6)
    for m in derived:
        assert all(found[m.experiment].tables[operand] == table for operand, table in m.tables.items()), m.experiment
