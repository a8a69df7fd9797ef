"""Every option and argument that takes a text file takes `-`, standard input, and answers as for the file."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tcprobe.cli import main

MMA = "mma.m16n8k16.row.col.f32.f16.f16.f32"
DOT = json.dumps({"a": ["0x3c00"] * 16, "b": ["0x3c00"] * 16, "c": "0x0"})
ACCESS = json.dumps({"op": "ld.shared.b32", "address": [4 * lane for lane in range(32)]})
OFFSETS = "row,col,offset\n" + "\n".join(f"{r},{c},{8 * r + c}" for r in range(8) for c in range(8))

COMMANDS = [
    (("numerics", MMA, "--cases", "{}"), DOT),
    (("banks", "--patterns", "{}", "--arch", "sm_90"), ACCESS),
    (("banks", "ld.shared.b32", "--address", "@{}", "--arch", "sm_90"), " ".join(str(4 * lane) for lane in range(32))),
    (("swizzle", "fit", "{}"), OFFSETS),
    (("compare", "{}", f"{MMA}.d"), "lane,i,row,col\n0,0,0,0\n0,1,0,1\n"),
]


@pytest.mark.parametrize(("words", "text"), COMMANDS, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_a_text_from_standard_input_is_answered_as_its_file(words, text, tmp_path):
    file = tmp_path / "text"
    file.write_text(text)
    of_file = CliRunner().invoke(main, [word.format(file) for word in words])
    of_input = CliRunner().invoke(main, [word.format("-") for word in words], input=text)
    assert of_file.exit_code == of_input.exit_code == 0, of_input.output
    assert of_input.stdout
    assert of_input.stdout == of_file.stdout.replace(str(file), "-")
