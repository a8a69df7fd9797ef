"""What tests of files of offsets share: print-outs of 03_visualize_layout, and `swizzle fit` of a file."""

import json
import re
from pathlib import Path

import pytest
from command import tcprobe

DATA = Path(__file__).parent / "data" / "shared_memory"
PRINTED = sorted(path.name for path in DATA.glob("*.txt") if path.name != "swizzle_example.txt")
PLACE = re.compile(r"\([0-9]+, [0-9]+\)|line [0-9]+")


def swizzle(*words, code=0):
    return tcprobe("swizzle", *words, code=code)


def fitted(path, *options):
    return json.loads(swizzle("fit", path, "--json", *options).stdout)


@pytest.fixture
def write(tmp_path):
    """Writes a text to a file, and gives its path."""

    def file(text):
        path = tmp_path / "table.txt"
        path.write_text(text)
        return path

    return file
