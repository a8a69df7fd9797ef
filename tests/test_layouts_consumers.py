"""Layouts' texts against what CuTe DSL and Triton make of them: a sample here, more with --all and in benchmarks/."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def counted(part, *options):
    """Equal and different ones by the benchmark, in a process of its own: Triton aborts on what it does not expect."""
    command = [sys.executable, str(ROOT / "benchmarks" / "layout_texts.py"), "--part", part, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("|")]
    assert rows, done.stderr[-2000:]
    return sum(int(row[2]) for row in rows), [line for line in done.stdout.splitlines() if line.startswith("wrong")]


@pytest.mark.consumer("cutlass")
@pytest.mark.parametrize("size", [20, pytest.param(500, marks=pytest.mark.full)])
def test_cute_makes_the_same_of_tiled_multiplies_and_copies(size):
    equal, wrong = counted("cute", "--seed", "7", "--mma", str(size), "--copies", str(size))
    assert equal >= 2 * size
    assert wrong == []


@pytest.mark.consumer("triton")
@pytest.mark.parametrize("size", [60, pytest.param(800, marks=pytest.mark.full)])
def test_triton_makes_the_same_of_its_layouts(size):
    equal, wrong = counted("triton", "--seed", "7", "--triton", str(size))
    assert equal >= size // 2
    assert wrong == []


@pytest.mark.consumer("triton")
@pytest.mark.full
def test_triton_has_the_same_layouts_in_compiled_programs():
    equal, wrong = counted("compiled", "--compiled", "4")
    assert equal >= 100
    assert wrong == []
