"""On a live GPU: the rule of banks is found again, and every pattern that is timed without ambiguity follows it."""

import pytest

from tcprobe.ask.bank_rules import rules_for
from tcprobe.isa.arch import arch
from tcprobe.isa.shared_memory import accesses
from tcprobe.run import runner
from tcprobe.run.backend import Worker
from tcprobe.run.campaign import select
from tcprobe.store.results import Results

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """(arch, results folder, findings by access) of a run."""
    folder = tmp_path_factory.mktemp("results")
    with runner.Session(Worker()) as session:
        device = runner.choose(session.devices)
        chosen = [e for e in select((), "banks") if e.target.on(arch(device.arch))]
        items = list(runner.measure(session, device, chosen, Results(folder)))
    return arch(device.arch), folder, {one.subject: one for one in items if not isinstance(one, runner.JobEnd)}


def test_every_access_of_the_arch_is_fitted(measured):
    """Without misfit, but for cp.async.ca, of which one pattern in a hundred may take a cycle more or less."""
    row, _, found = measured
    assert set(found) == {a.name for a in accesses().values() if a.target.on(row)}
    for name, finding in found.items():
        assert finding.status == "measured", (name, finding.words)
        fitted = finding.body
        assert fitted.patterns > 0.9 * (fitted.patterns + fitted.ambiguous), name
        assert fitted.misfits <= (0.01 if name.startswith("cp.async") else 0) * fitted.patterns, name
        assert fitted.r2 > 0.99, name
        assert bool(fitted.tags) == name.startswith("cp.async"), name


def test_the_rule_is_the_one_that_answers(measured, tmp_path):
    row, folder, _ = measured
    found = rules_for(row.name, Results(folder))
    assert found.arch == row.name
    if row.name == "sm_90":
        designed = rules_for(row.name, Results(tmp_path / "none"))
        apart = {name for name, rule in found.rules.items() if rule != designed.rules[name]}
        assert apart <= {"cp.async.ca.4", "cp.async.ca.8", "cp.async.ca.16"}
