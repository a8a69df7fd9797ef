"""Costs on the GPU: the loops that the driver's compiler makes are those that were written, and integers come back."""

import pytest
from click.testing import CliRunner
from cost_model import HOPPER, MMA, WGMMA
from test_cost_mutations import WORDS, emptied, halved, hoisted, mutated

from tcprobe.cli import main
from tcprobe.errors import ProbeError
from tcprobe.isa.arch import arch
from tcprobe.probes import dialogues
from tcprobe.probes.experiment import Context
from tcprobe.store import kinds
from tcprobe.store.finding import PROVENANCE, Finding

pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu():
    from tcprobe.run.gpu import Gpu

    backend = Gpu()
    backend.open(0)
    if arch(backend.devices()[0].arch) != HOPPER:
        pytest.skip("the integers are those of sm_90")
    backend.device = HOPPER
    return backend


def concluded(gpu, id_):
    experiment = dialogues("cost")[id_]
    assert not gpu.load(experiment.kernels())
    body = experiment.conclude(experiment.measure(gpu), Context(HOPPER, lambda _: None))
    kinds.check(Finding("cost", id_, "sm_90", "live", "measured", dict.fromkeys(PROVENANCE, "x"), body))
    return body


def test_the_hardware_counts_in_integers(gpu):
    body = concluded(gpu, MMA)
    assert body.latency == pytest.approx({"a": 24.0, "b": 24.0, "c": 24.0}, rel=0.02)
    assert body.interval.cycles == pytest.approx(1.5, rel=0.02)


def test_a_warpgroup_reaches_the_peak(gpu):
    body = concluded(gpu, WGMMA)
    assert min(f.cycles for f in body.interval) == pytest.approx(128, rel=0.02)


@pytest.mark.parametrize("change", [emptied, halved, hoisted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("id_", [MMA, "ldmatrix.m8n8.x4.shared.b16"])
def test_the_drivers_compiler_is_read_too(gpu, id_, change):
    experiment = dialogues("cost")[id_]
    kernels = [
        mutated(k, change(WORDS[id_]))
        for k in experiment.kernels()
        if "second." not in k.op.variant and "once" not in k.op.variant
    ]
    assert not gpu.load([k for k in experiment.kernels() if "second." in k.op.variant or "once" in k.op.variant])
    assert not gpu.load(kernels)
    with pytest.raises(ProbeError):
        experiment.conclude(experiment.measure(gpu), Context(HOPPER, lambda _: None))


def test_a_run_saves_and_answers(tmp_path):
    folder = tmp_path / "results"
    done = CliRunner().invoke(main, ["run", "--family", "cost", MMA, "--results", str(folder)])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(main, ["cost", MMA, "--results", str(folder), "--only"])
    assert shown.exit_code == 0, shown.output
    assert "HMMA.16816.F32" in shown.output
