"""On a live GPU: the rule of banks is found again, and every pattern that is timed without ambiguity follows it."""

import pytest

from tcprobe.ask.bank_rules import document, rules_for
from tcprobe.isa.shared_memory import accesses
from tcprobe.run import banks
from tcprobe.store.results import Results
from tcprobe.store.surveys import BANKS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def swept():
    return banks.on_gpu(0, 300)


def test_every_access_of_the_arch_is_fitted(swept):
    """Without misfit, but for cp.async.ca, of which one pattern in a hundred may take a cycle more or less."""
    row, _, found = swept
    assert list(found) == [a.name for a in accesses().values() if a.target.on(row)]
    for name, fitted in found.items():
        assert isinstance(fitted, banks.Fitted), (name, fitted)
        assert fitted.steady.mean() > 0.9, name
        assert len(fitted.misfits) <= (0.01 if name.startswith("cp.async") else 0) * fitted.steady.sum(), name
        assert fitted.r2 > 0.99, name
        assert bool(fitted.tags) == name.startswith("cp.async"), name


def test_the_rule_is_the_one_that_answers(swept, tmp_path):
    row, provenance, found = swept
    results = Results(tmp_path)
    BANKS.write(results, row.name, document(row.name, provenance, banks.report(found)["accesses"]))
    measured = rules_for(row.name, results)
    assert measured.arch == row.name
    if row.name == "sm_90":
        designed = rules_for(row.name, Results(tmp_path / "none"))
        apart = {name for name, rule in measured.rules.items() if rule != designed.rules[name]}
        assert apart <= {"cp.async.ca.4", "cp.async.ca.8", "cp.async.ca.16"}
