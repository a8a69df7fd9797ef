"""On a live GPU: boxes lie where the rules of tensor maps say, and the driver refuses what they say."""

import pytest

from tcprobe.isa.arch import arch
from tcprobe.isa.tensor_map import SPANS, SWIZZLES
from tcprobe.probes.tensor_maps import TARGET
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.store.results import Results

pytestmark = pytest.mark.gpu


def run(folder):
    """(arch, findings by subject) of a run."""
    with runner.Session(Worker()) as session:
        device = runner.choose(session.devices)
        if not TARGET.on(arch(device.arch)):
            pytest.skip(f"{device.arch} has no tensor maps")
        items = list(runner.measure(session, device, select((), "tma"), Results(folder)))
    return device.arch, {one.subject: one for one in items if not isinstance(one, runner.JobEnd)}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return run(tmp_path_factory.mktemp("results"))


def test_every_mode_is_the_one_that_answers(measured):
    name, found = measured
    assert {one.status for one in found.values()} == {"measured"}
    if name != "sm_90":
        pytest.skip("the rules are those of sm_90")
    modes = {subject: one.body.mode for subject, one in found.items() if one.body.mode}
    assert {subject: (mode.pitch, mode.swizzle) for subject, mode in modes.items()} == {
        mode: (SPANS.get(n, "row"), (n, 4, 3)) for mode, n in SWIZZLES.items() if n in (0, *SPANS)
    }
    assert {(mode.misfits, len(mode.lost)) for mode in modes.values()} == {(0, 0)}
    assert all(one.body.maps.unlike_rules == [] for one in found.values() if one.body.maps)
    assert all(call.fits for call in found["encodings"].body.calls)
    assert all("misaligned" in one.body.fault.words for one in found.values() if one.body.fault)


def test_twice_the_same(measured, tmp_path):
    assert run(tmp_path) == measured
