"""A run takes a sample of each slow law, with --all everything; its end says what --all adds.

Of a slow law a test takes one of:
- `@pytest.mark.sampled(7)`: every 7th of its parameters
- the fixture `sample`: every so many of the cases that the test goes through itself; `whole`: fewer of them
- `@examples(60)`: Hypothesis tries 60, in a sample a fifth, or another share
- `@pytest.mark.full`: no case, where another test is the law's sample
- nothing, if a browser opens it: every 48th of these tests
"""

from collections import Counter

import pytest
from hypothesis import settings

LEFT_OUT = "cases left out"
TESTS = pytest.StashKey[dict[str, int]]()  # tests left out, by file
OPENED = 48  # of how many tests that a browser opens one is taken
TOGETHER = 16  # cases that share a start of a slow tool
SHARE = 5  # of how many of Hypothesis's examples one is taken


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every case where tests take a sample, and tests marked full")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    if not config.getoption("--all"):
        settings.register_profile("sample", settings(), max_examples=settings().max_examples // SHARE)
        settings.load_profile("sample")


def examples(most, share=SHARE, **how):
    """Settings of a property that Hypothesis tries `most` times with --all, else a share of them; 100 are its own
    default.
    """
    all_ = settings().max_examples >= settings.get_profile("default").max_examples
    return settings(max_examples=most if all_ else max(most // share, 3), **how)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items, config):
    """Leave out what a sample does not need, of the tests that are asked for."""
    if config.getoption("--all"):
        return
    before, kept, left = Counter(), [], []
    for item in items:
        law = item.nodeid.partition("[")[0]
        sampled = item.get_closest_marker("sampled")
        opened = "browser" in item.fixturenames
        out = (
            item.get_closest_marker("full")
            or (sampled and before[law] % sampled.args[0])
            or (opened and before["browser"] % OPENED)
        )
        (left if out else kept).append(item)
        before[law] += 1
        before["browser"] += opened
    items[:] = kept
    config.hook.pytest_deselected(items=left)
    config.stash[TESTS] = dict(Counter(item.nodeid.partition("::")[0] for item in left))


def pytest_sessionfinish(session):
    """Workers of pytest-xdist all leave out the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT_OUT] = session.config.stash.get(TESTS, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    if output := getattr(node, "workeroutput", None):
        node.config.stash[TESTS] = output[LEFT_OUT]


def evenly(cases, every):
    """The first of every so many."""
    return cases[::every]


@pytest.fixture
def whole(request):
    """Whether every case is asked for."""
    return request.config.getoption("--all")


@pytest.fixture
def law(request):
    """The parameters of every case of a test that is taken: so that cases make together what is slow to start."""
    own, path = request.node.originalname, request.path
    return [item.callspec.params for item in request.session.items if (item.originalname, item.path) == (own, path)]


@pytest.fixture
def together(law, request):
    """The one parameter of up to 16 cases that are taken, this one among them."""
    [name] = request.node.callspec.params
    values = [params[name] for params in law]
    first = values.index(request.node.callspec.params[name]) // TOGETHER * TOGETHER
    return tuple(values[first : first + TOGETHER])


@pytest.fixture
def sample(request):
    """Every so many of the cases, all of them with --all."""

    def taken(cases, every: int, how=evenly) -> list:
        cases = list(cases)
        some = cases if request.config.getoption("--all") else how(cases, every)
        request.node.user_properties.append((LEFT_OUT, len(cases) - len(some)))
        return some

    return taken


def left_out(reports):
    """By file how many cases tests left out that ran."""
    found = Counter()
    for report in reports:
        cases = sum(n for name, n in getattr(report, "user_properties", ()) if name == LEFT_OUT)
        found[report.nodeid.partition("::")[0]] += cases * (report.when == "call")
    return +found


def pytest_terminal_summary(terminalreporter, config):
    stats = terminalreporter.stats
    reports = (report for outcome in ("passed", "failed") for report in stats.get(outcome, ()))
    found = left_out(reports) + Counter(config.stash.get(TESTS, {}))
    if not found:
        return
    terminalreporter.section("what --all adds")
    for file, count in found.most_common():
        terminalreporter.write_line(f"{count:>8,}  {file}")
    terminalreporter.write_line(f"{found.total():>8,}  cases; and {SHARE} times as many examples of each property")
