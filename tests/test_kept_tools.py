"""Tools that tests run once for each input: the answer that is kept is the answer."""

import os
import stat

import pytest
from kept_tools import LEAST_LIMIT, keeping

from tcprobe.system.children import Scratch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="makes a shell script")
# says where it works, writes what it reads; 3 where it reads "no", dies where it reads "die"
TOOL = 'echo call >> "$0.calls"; pwd; grep -q die "$1" && kill -SEGV $$; grep -q no "$1" && exit 3; cat "$1" > "$3"'


@pytest.fixture
def tool(tmp_path):
    path = tmp_path / "tool"
    path.write_text(f"#!/bin/sh\n{TOOL}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    (tmp_path / "kept").mkdir()
    kept = keeping(tmp_path / "kept", {str(path)}, Scratch.call)

    def ask(text, limit=LEAST_LIMIT):
        """(code, whether it said where it is, what it wrote), and how often it was run until now."""
        with Scratch() as scratch:
            given, made = scratch.folder / "given", scratch.folder / "made"
            given.write_text(text)
            done = kept(scratch, [str(path), str(given), "-o", str(made)], limit)
            answer = done.returncode, done.stdout == f"{scratch.folder}\n", made.read_text() if made.exists() else None
        return answer, len((tmp_path / "tool.calls").read_text().splitlines())

    return ask


def test_an_input_is_given_to_the_tool_once(tool):
    assert tool("a") == tool("a") == ((0, True, "a"), 1)
    assert tool("b") == ((0, True, "b"), 2)
    assert tool("no") == tool("no") == ((3, True, None), 3)
    assert tool("a") == ((0, True, "a"), 3)


def test_a_crash_and_a_call_with_a_short_limit_are_not_kept(tool):
    assert tool("die") == ((-11, True, None), 1)
    assert tool("die") == ((-11, True, None), 2)
    assert tool("a", 5) == ((0, True, "a"), 3)
    assert tool("a", 5) == ((0, True, "a"), 4)
