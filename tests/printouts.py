"""What tests of files of offsets share: print-outs of 03_visualize_layout, and `swizzle fit` of a file."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tcprobe.cli import main

DATA = Path(__file__).parent / "data" / "shared_memory"
PRINTED = sorted(path.name for path in DATA.glob("*.txt") if path.name != "swizzle_example.txt")
PLACE = re.compile(r"\([0-9]+, [0-9]+\)|line [0-9]+")


def tcprobe(*arguments, code=0):
    done = CliRunner().invoke(main, ["swizzle", *map(str, arguments)])
    assert done.exit_code == code, (done.output, done.exception)
    assert "Traceback" not in done.output
    return done


def fitted(path, *options):
    return json.loads(tcprobe("fit", path, "--json", *options).stdout)


@pytest.fixture
def write(tmp_path):
    """Writes a text to a file, and gives its path."""

    def file(text):
        path = tmp_path / "table.txt"
        path.write_text(text)
        return path

    return file
