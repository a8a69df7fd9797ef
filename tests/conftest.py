"""Tests marked `gpu` run where CuPy finds a GPU; everything else needs neither GPU nor network."""

import functools
import sys
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("tcprobe", deadline=None, suppress_health_check=QUIET, print_blob=True)
settings.load_profile("tcprobe")
CONSUMERS = ("cutlass", "jax", "numba", "tinygrad", "triton")


@functools.cache
def gpu_missing() -> str | None:
    try:
        import cupy

        return None if cupy.cuda.runtime.getDeviceCount() else "no GPU is visible"
    except Exception as error:  # CuPy missing, or the driver is
        return f"no GPU: {error}"


@functools.cache
def consumer_missing() -> str | None:
    """What of the consumers extra is not installed; a run of these tests alone (`-m consumer`) skips none."""
    lacking = [name for name in CONSUMERS if find_spec(name) is None]
    return f"not installed: {', '.join(lacking)}; python3 tools/dev.py test --consumers" if lacking else None


def pytest_collection_modifyitems(items, config):
    alone = config.getoption("markexpr") == "consumer" and sys.platform == "linux"  # they have Linux wheels
    for item in items:
        if item.get_closest_marker("consumer") and not alone and consumer_missing():
            item.add_marker(pytest.mark.skip(reason=consumer_missing()))
        if item.get_closest_marker("gpu") and gpu_missing():
            item.add_marker(pytest.mark.skip(reason=gpu_missing()))


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


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
