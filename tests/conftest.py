"""Tests marked `gpu` run where CuPy finds a GPU; everything else needs neither GPU nor network."""

import functools
import gc
import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec

import kept_tools
import one_thread
import pytest
from hypothesis import HealthCheck, settings

from tcprobe.errors import EnvironmentUnfitError
from tcprobe.sass import toolchain
from tcprobe.system.children import Scratch

assert one_thread  # imported before NumPy
pytest_plugins = ("sampling", "failures", "printouts", "site_chromium")
os.environ.pop("COLUMNS", None)  # answers keep to its width
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts its background jobs
    signal.signal(signal.SIGINT, signal.default_int_handler)
# what is read of the published tables stays: to look it over took a tenth of the time
gc.set_threshold(100_000, 50, 100)
QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
# The same examples each time, so that what is green stays so; TCPROBE_EXAMPLES=random tries others.
ALIKE = os.environ.get("TCPROBE_EXAMPLES") != "random"
settings.register_profile("tcprobe", deadline=None, suppress_health_check=QUIET, print_blob=True, derandomize=ALIKE)
settings.load_profile("tcprobe")
# The first starts commands whose memory is measured, where a worker that has grown counts in. Then come those that take
# longest with --all, so that workers end together; the files of the site build it once, but for one with its own.
FIRST = (
    "smoke",
    "site",
    "site_hostile",
    "prices",
    "check_rules",
    "emitted_code",
    "repack",
    "check_emitted",
    "targets",
    "suggestions",
    "instructions",
    "meaning",
    "cost_tcgen05",
    "json",
    "kernel",
    "read_tables",
    "read",
    "emulate_tensor_memory",
    "every_layout",
    "tensor_multiply",
    "hostile_text",
    "order_few",
    "first_tries",
    "kernel_blackwell",
    "kinds",
    "emulate_order",
    "foreign",
    "order_reveal",
    "costs",
    "header",
    "convert",
    "origin",
    "contribute",
    "agree",
    "mutations",
    "damage",
    "faults",
    "contradictions",
    "block_scale",
    "runner",
    "wgmma_probes",
    "sparse",
    "docs",
)
CONSUMERS = ("cutlass", "jax", "numba", "tinygrad", "triton")


@functools.cache
def gpu_missing() -> str | None:
    try:
        import cupy

        return None if cupy.cuda.runtime.getDeviceCount() else "no GPU is visible"
    except Exception as error:  # CuPy missing, or the driver is
        return f"no GPU: {error}"


@functools.cache
def consumer_missing(*needed: str) -> str | None:
    """What is not installed of the consumers extra, or of the packages that a test names in its mark; a run of these
    tests alone (`-m consumer`) skips none.
    """
    lacking = [name for name in needed or CONSUMERS if find_spec(name) is None]
    return f"not installed: {', '.join(lacking)}; python3 tools/dev.py test --consumers" if lacking else None


def group(nodeid):
    """What one worker runs whole: a file, or all those of the site of published tables."""
    name = nodeid.partition("::")[0].rpartition("/")[2].removeprefix("test_").removesuffix(".py")
    return "site" if name.startswith("site") and name != "site_hostile" else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file goes to one worker, which then makes only once what its tests share."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group(nodeid)

    config.option.loadscopereorder = False
    return ByGroup(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_finish():
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def tools_once(tmp_path_factory):
    """The real ptxas, nvdisasm and nvcc run once for each input, whichever worker asks."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kept-tools"
    folder.mkdir(exist_ok=True)
    tools = set()
    for name in ("ptxas", "nvdisasm", "nvcc"):
        with suppress(EnvironmentUnfitError):
            tools.add(os.path.realpath(toolchain.program(name)))
    Scratch.call = kept_tools.keeping(folder, tools, Scratch.call)


def pytest_collection_modifyitems(items, config):
    if hasattr(config, "workerinput"):
        order = {name: at for at, name in enumerate(FIRST)}
        items.sort(key=lambda item: order.get(group(item.nodeid), len(order)))
    alone = config.getoption("markexpr") == "consumer" and sys.platform == "linux"  # they have Linux wheels
    for item in items:
        consumer = item.get_closest_marker("consumer")
        if consumer and not alone and (lacking := consumer_missing(*consumer.args)):
            item.add_marker(pytest.mark.skip(reason=lacking))
        if item.get_closest_marker("gpu") and gpu_missing():
            item.add_marker(pytest.mark.skip(reason=gpu_missing()))


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Programs that tests start find modules compiled, also where Python may leave no bytecode beside sources."""
    if not sys.dont_write_bytecode:
        yield
        return
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "bytecode"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(folder))
        yield


@pytest.fixture
def golden(request):
    """Compare text with a file of tests/golden, or write it with --update-golden."""
    folder = request.path.parent / "golden"

    def check(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.read_text() == text

    return check
