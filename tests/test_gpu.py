"""On a live GPU: everything is measured or refused, twice the same, as others document it, and faults stay alone."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tcprobe.ask.compare import verdicts
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.arch import Target, arch
from tcprobe.isa.names import select
from tcprobe.probes.experiment import Dialogue, kernels
from tcprobe.probes.ptx import Kernel, Launch, entry
from tcprobe.probes.wmma import MemoryExperiment, memory_table
from tcprobe.run import campaign, runner
from tcprobe.run.backend import Worker
from tcprobe.run.gpu import Gpu
from tcprobe.run.machine_code import Sass
from tcprobe.run.machine_code import run as read_code
from tcprobe.sass import toolchain
from tcprobe.sass.cubin import assemble
from tcprobe.store.results import Results, published

pytestmark = pytest.mark.gpu
HERE = Path(__file__).parent

try:
    TOOLS = toolchain.find()
except EnvironmentUnfitError:
    TOOLS = None

# bodies that turn eight random words %a0-%a7 of a lane into four results %d0-%d3
RANDOM = {
    "wide": "mad.wide.u32 %w0, %a0, %a1, %w1; mad.wide.s32 %w1, %a2, %a3, %w0; mul.hi.u32 %d2, %a4, 16;"
    "mov.u32 %d3, %ldm;",
    "add64": "add.u64 %w0, %w0, %w1; add.u64 %w1, %w0, %w1; mov.u32 %d2, %lane; mov.u32 %d3, %x;",
    "shifts": "shr.u32 %d2, %a0, 7; shl.b32 %d3, %a1, 5; shl.b64 %w0, %w0, 3; add.u64 %w0, %w0, %w1;",
    "logic": "lop3.b32 %d2, %a0, %a1, %a2, 0xe2; lop3.b32 %d3, %a3, %a4, %a5, 0x96; and.b32 %t, %a6, 28;"
    "mov.b64 %w0, {%t, %a7};",
    "choice": "and.b32 %t, %a0, 2; setp.ne.u32 %p, %t, 0; selp.b32 %d2, %a1, %a2, %p; selp.b32 %d3, %a3, %a4, %p;",
    "bytes": "prmt.b32 %d2, %a0, %a1, 0x5410; prmt.b32 %d3, %a2, %a3, 0x7632; mov.b64 %w0, {%a4, %a5};",
    "products": "mad.lo.u32 %d2, %a0, %a1, %a2; mad.lo.u32 %d3, %a3, %ldm, %a4; mad.lo.u32 %t, %a5, 24, %a6;",
    "turn": "movmatrix.sync.aligned.m8n8.trans.b16 %d2, %a0; movmatrix.sync.aligned.m8n8.trans.b16 %d3, %a1;",
}


def random_kernel(name):
    """Eight words in, two 64-bit sums and two results out, each lane its own."""
    registers = [".reg .b32 %a<8>, %d<4>, %t;", ".reg .b64 %w<2>;", ".reg .pred %p;"]
    body = [
        "mad.lo.u32 %image, %x, 32, %lane;",
        "mad.wide.u32 %in, %image, 32, %in;",
        "mad.wide.u32 %out, %image, 16, %out;",
        "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%in];",
        "ld.global.v4.b32 {%a4, %a5, %a6, %a7}, [%in+16];",
        "mov.b64 %w0, {%a0, %a5}; mov.b64 %w1, {%a3, %a6}; mov.u32 %t, %a7;",
        RANDOM[name],
        "mov.b64 {%d0, %d1}, %w0; xor.b32 %d1, %d1, %t;",
        "st.global.v4.b32 [%out], {%d0, %d1, %d2, %d3};",
    ]
    return Kernel(
        f"random_{name}", None, entry(f"random_{name}", ("in", "out"), registers, body), Target("sm_75", "7.8")
    )


def tables(patterns=()):
    """The experiments that conclude tables."""
    return [one for one in campaign.select(patterns) if not isinstance(one, Dialogue)]


def run(root, worker=Worker(), patterns=()):  # noqa: B008
    results = Results(root)
    with runner.Session(worker) as session:
        device = runner.choose(session.devices)
        items = list(runner.measure(session, device, tables(patterns), results))
    return device, {m.experiment: m for m in items if not isinstance(m, runner.JobEnd)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    device, found = run(root)
    return root, device, found


def too_new(measurement):
    """Whether the driver's compiler is too old for the form, which another compiler brought to the published tables."""
    return measurement.status == "refused" and measurement.words.startswith("needs PTX")


def test_everything_is_measured_or_refused_for_a_reason(whole):
    _, device, found = whole
    assert set(found) == {e.id for e in tables()}
    assert Counter(m.status for m in found.values())["failed"] == 0
    here = arch(device.arch)
    for m in found.values():
        allowed = all(f.target.on(here) for e in tables() if e.id == m.experiment for f in e.fragments)
        assert (m.status == "measured") == (allowed and not too_new(m)), (m.experiment, m.words)
        assert m.status == "measured" or "not supported" in m.words or "Unsupported .version" in m.words


def test_two_runs_write_the_same_bytes(whole, tmp_path):
    root, _, _ = whole
    run(tmp_path)
    trees = [{p.relative_to(r): p.read_bytes() for p in r.rglob("*.json")} for r in (root, tmp_path)]
    assert trees[0] == trees[1]


def test_the_references_are_confirmed(whole):
    _, device, found = whole
    for fragment in select(device=arch(device.arch)):
        measured = found[fragment.experiment]
        for verdict in [] if too_new(measured) else verdicts(fragment, measured):
            assert not verdict.unexplained, (fragment.id, verdict)
            if fragment.family == "mma" and verdict.reference == "PTX ISA":
                assert verdict.verdict == "confirmed" or verdict.erratum
    mma = [m for m in found.values() if m.status == "measured" and m.experiment.startswith("mma")]
    assert {m.numbering for m in mma} == {"PTX ISA"}


def test_the_published_tables_are_these(whole):
    _, device, found = whole
    for m in published().measurements(device.arch, "live"):
        now = found[m.experiment]
        if too_new(now) and m.status == "measured":
            continue
        assert (m.status, m.tables, m.structure, m.unread) == (now.status, now.tables, now.structure, now.unread)


FEW = ("mma.m16n8k8.row.col.f32.*", "wmma.m8n8k4.*")
CULPRIT = "mma.m16n8k8.row.col.f32.bf16.bf16.f32"


@pytest.mark.parametrize(
    ("mode", "limit", "words"),
    [
        ("trap", 30, ""),
        ("wild", 30, ""),
        ("loop", 30, "did not end within 5 s on the device"),
        ("loop", 3, "no answer for 3 s"),
    ],
)
def test_a_fault_costs_its_own_experiment_only(tmp_path, mode, limit, words):
    worker = Worker((sys.executable, str(HERE / "faulty_gpu_worker.py"), mode, CULPRIT), limit)
    _, found = run(tmp_path, worker, FEW)
    assert {e for e, m in found.items() if m.status != "measured"} == {CULPRIT}
    assert found[CULPRIT].status == "failed"
    assert words in found[CULPRIT].words
    assert found[CULPRIT].words


@pytest.mark.parametrize(("mode", "words"), [("bad", "such"), ("future", "needs PTX 99.9")])
def test_what_the_driver_rejects_is_refused_in_its_words(tmp_path, mode, words):
    """An instruction and a PTX version that no driver knows: refused alone, the rest measured."""
    worker = Worker((sys.executable, str(HERE / "faulty_gpu_worker.py"), mode, CULPRIT))
    _, found = run(tmp_path, worker, FEW)
    assert {e for e, m in found.items() if m.status != "measured"} == {CULPRIT}
    assert found[CULPRIT].status == "refused"
    assert words in found[CULPRIT].words


def test_the_command(tmp_path):
    command = [sys.executable, "-m", "tcprobe", "run", "mma.m16n8k8.*", "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout
    missing = "sm_70" if published().archs() != ["sm_70"] else "sm_75"
    refused = subprocess.run([*command, "--arch", missing], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert f"no visible GPU of arch {missing}; there are: 0:" in refused.stderr


@pytest.mark.skipif(TOOLS is None, reason="no ptxas or nvdisasm here")
@pytest.mark.parametrize("name", sorted(RANDOM))
def test_opcodes_against_the_gpu(name):
    """Small PTX programs with random inputs: the reader's registers are the GPU's, bit by bit.

    The opcodes that the programs become on this GPU's arch are printed; together they are those of its probes.
    """
    import cupy

    device = cupy.cuda.Device()
    row = arch(f"sm_{device.compute_capability}")
    kernel = random_kernel(name)
    code, refused = assemble(TOOLS, [kernel], row)
    assert not refused
    rng = np.random.default_rng(5)
    data = rng.integers(0, 1 << 32, (4, 32 * 8), np.uint32).view(np.uint8)
    launch = Launch(kernel, (4, 1, 1), (data,), 24, 4 * 32 * 16)
    ours = read_code(code[kernel.name], launch)
    gpu = Gpu()
    gpu.open(device.id)
    assert gpu.load([kernel]) == {}
    assert np.array_equal(gpu.run([launch])[0], ours), Counter(code[kernel.name].opcodes)


@pytest.mark.skipif(TOOLS is None, reason="no ptxas or nvdisasm here")
def test_machine_code_of_this_gpu_gives_the_live_tables(whole):
    _, device, found = whole
    backend = Sass(device.arch, TOOLS)
    for experiment in tables():
        if isinstance(experiment, MemoryExperiment) and found[experiment.id].status == "measured":
            launches = experiment.launches()
            assert backend.load(kernels(experiment)) == {}
            reading = experiment.decode(launches, backend.run(launches))
            table = memory_table(experiment.fragments[0], reading["elements"].tolist())
            assert all(t == table for t in found[experiment.id].tables.values())
