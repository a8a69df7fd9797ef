"""On a live GPU: the parameters are found, every case follows them, and the header gives the same bits there."""

import numeric_core as core
import numpy as np
import pytest

from tcprobe.arithmetic.gemm import gemm
from tcprobe.arithmetic.header import Entry, header
from tcprobe.arithmetic.model import dot
from tcprobe.arithmetic.parameters import Arithmetic, types_of
from tcprobe.isa import names
from tcprobe.probes import dialogues
from tcprobe.probes.numerics import Images, MultiplySize, _run, _tabled_form, floats
from tcprobe.run.gpu import Gpu
from tcprobe.run.worker import WorkerBench

pytestmark = pytest.mark.gpu
FLOATS = [id_ for id_, rule in core.RULES.items() if isinstance(rule, Arithmetic)]


@pytest.fixture(scope="module")
def gpu():
    backend = Gpu()
    devices = backend.devices()
    backend.open(0)
    return backend, WorkerBench(backend, devices[0], None)


@pytest.mark.parametrize("id_", [core.MMA, core.MMA_BF16, core.MMA_FP8, core.TF32, core.F64])
def test_parameters_are_those_of_the_trial(gpu, id_):
    backend, bench = gpu
    if bench.device.name != "sm_90":
        pytest.skip("the trial was on sm_90")
    probe = dialogues("numerics")[id_]
    assert backend.load(probe.kernels()) == {}
    body = probe.conclude(probe.measure(bench), None)
    assert (body.floats.groups, body.floats.fraction_bits, body.wrong) == (
        core.RULES[id_].groups,
        core.RULES[id_].fraction_bits,
        0,
    )


@pytest.mark.parametrize("id_", FLOATS)
def test_the_header_gives_the_same_bits_on_the_device(gpu, id_):
    backend, _ = gpu
    row, rule = names.resolve(id_).instruction, core.RULES[id_]
    k, images = rule.products, 112
    made = floats(types_of(row), MultiplySize(1, 8, 8, k), images, seed=5)
    a, b = (np.broadcast_to(x, (images, 1, 8, 8, k)) for x in (made.a[..., :, None, :], made.b[..., None, :, :]))
    expected = dot(types_of(row), rule, (a, b, made.c)).reshape(-1).astype(np.uint64)
    text = (
        header([Entry("form", id_, types_of(row), rule)])
        + """
extern "C" __global__ void run(const unsigned long long* a, const unsigned long long* b, const unsigned long long* c,
                               unsigned long long* d) {
  using F = tcprobe::numerics::form;
  const int i = blockIdx.x * 32 + threadIdx.x;
  d[i] = tcprobe::numerics::dot<F>(a + i * F::products, b + i * F::products, c[i]);
}
"""
    )
    backend.compile_cuda(text, ["run"])
    given = [np.ascontiguousarray(x.reshape(len(expected), -1), np.uint64) for x in (a, b, made.c)]
    d = np.zeros(len(expected), np.uint64)
    backend.call("run", len(expected) // 32, given, d)
    assert (d == expected).all()


def test_a_gemm_of_many_multiplies(gpu):
    """D of one multiply as C of the next, on the device and in the model."""
    backend, bench = gpu
    row, rng = names.resolve(core.MMA_BF16).instruction, np.random.default_rng(9)
    form = _tabled_form(row, bench)
    assert backend.load([form.kernel]) == {}
    a, b = (floats(types_of(row), MultiplySize(1, 16, 8, 64), 3, seed=9)[n][1, 0] for n in (0, 1))
    c = rng.normal(size=(16, 8)).astype(np.float32).view(np.uint32)
    d = c
    for at in range(0, 64, 16):
        part = slice(at, at + 16)
        d = _run(bench, form, Images(a[None, None, :, part], b[None, None, :, part], d[None, None]))[0, 0]
    if bench.device.name == "sm_90":
        assert (gemm(types_of(row), core.RULES[core.MMA_BF16], (a, b.T.copy(), c)) == d).all()
