"""The suite itself: a sample by default, everything with --all, failures when they happen."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LAWS = """
import pytest
from hypothesis import given, strategies
from sampling import examples

@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", range(7))
def test_some_parameters(case):
    assert case != 3, "told at once"

@pytest.mark.full
@pytest.mark.parametrize("case", range(5))
def test_not_at_all(case):
    pass

def test_some_cases(sample):
    print("cases", sample(range(10), 4))

tried = []

@examples(60, derandomize=True)
@given(strategies.integers())
def test_some_examples(number):
    tried.append(number)

def test_last():
    print("examples", len(tried))
"""


@pytest.fixture
def run(tmp_path):
    def result(*options):
        (tmp_path / "test_laws.py").write_text(LAWS)
        command = [sys.executable, "-m", "pytest", "-s", "-p", "sampling", "-p", "failures", "-p", "no:cacheprovider"]
        env = os.environ | {"PYTHONPATH": str(HERE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=False
        )
        return done.stdout

    return result


def test_a_run_takes_a_sample_and_says_what_all_adds(run):
    text = run()
    assert "cases [0, 4, 8]" in text
    assert "examples 12" in text
    assert re.search(r"^ +16  test_laws.py$", text, re.MULTILINE), text  # 4 of 7, 5, 7 of 10
    assert "1 failed, 5 passed, 9 deselected" in text


def test_everything_is_run_with_all(run):
    text = run("--all")
    assert "cases [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" in text
    assert "examples 60" in text
    assert "what --all adds" not in text
    assert "1 failed, 14 passed" in text


def test_a_failure_is_printed_when_it_happens_and_only_then(run):
    text = run()
    assert text.count("AssertionError: told at once") == 2  # there, and in the list of failures
    assert text.index("assert case != 3") < text.index("cases [0")
