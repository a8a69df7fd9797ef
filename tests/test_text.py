"""Text from outside, made safe: on a line, in a comment, on a page; and what tools say, recorded so."""

import ast
import os
import stat

import pytest
from click.testing import CliRunner
from hostile_texts import MMA, REFUSED, readable, stripped
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.cli import main
from tcprobe.sass.lowering import Lowering
from tcprobe.store.finding import PROVENANCE, Measurement
from tcprobe.store.results import Results
from tcprobe.text import MOST_MESSAGE, comment, escaped, markdown, message, one_line, plain

posix = pytest.mark.skipif(os.name != "posix", reason="needs a shell script as ptxas")


@given(st.text(max_size=700))
def test_escaped_text_can_be_printed_and_plain_text_stays(text):
    assert escaped(text).isprintable()
    assert plain(one_line(text))
    assert not text.isprintable() or escaped(text) == text
    assert not plain(text) or one_line(text) == text
    assert readable(comment(text))
    assert "\n" not in markdown(text)


@given(st.text(max_size=3000))
def test_a_message_is_one_line_of_bounded_length_with_both_ends(text):
    found = message(text)
    assert found.isprintable()
    assert len(found) <= MOST_MESSAGE
    assert found == escaped(text) or (found[:400], found[-400:]) == (escaped(text)[:400], escaped(text)[-400:])


@given(st.text(alphabet="*/\"'->?\\ \nae#{}", max_size=30))
def test_a_comment_ends_with_its_line_in_every_language(text):
    safe = comment(text)
    assert stripped(f"// {safe}\nnext();") == "\nnext();"
    assert stripped(f"/* {safe} */next();").strip() == "next();"
    assert ast.dump(ast.parse(f'"""{"x"}"""\n# {safe}\nnext()')) == ast.dump(ast.parse('"""x"""\nnext()'))
    assert '"""' not in safe
    assert "-->" not in safe


@pytest.mark.parametrize(
    "character",
    [
        "\n",
        "\r",
        "\x1b",
        "\x7f",
        "\x85",
        "\x9b",
        "\u2028",
        "\u2029",
        "\u200e",
        "\u200f",
        *map(chr, range(0x202A, 0x202F)),
        *map(chr, range(0x2066, 0x206A)),
        "\ud800",
    ],
)
def test_no_character_that_moves_anything_is_plain(character):
    assert not plain(f"a{character}b")
    assert escaped(f"a{character}b").isascii()


def test_what_tools_say_is_recorded_on_one_printable_line(tmp_path):
    provenance = dict.fromkeys(PROVENANCE, "\x1b]0;evil\x07")
    words = "ptxas\nfatal\t: \x1b[31m" + "x" * 1000
    found = Measurement(REFUSED, "sm_90", "live", "refused", provenance, words=words)
    assert plain(found.words)
    assert found.words.startswith("ptxas\\nfatal\\t: \\x1b[31mxxx")
    Results(tmp_path).write(found)
    assert Results(tmp_path).measurement("sm_90", "live", REFUSED) == found
    assert found.provenance["compiler"] == "\\x1b]0;evil\\x07"
    lowering = Lowering(refused=words)
    Results(tmp_path).write_lowering("sm_90", "a\nb", {MMA: lowering.to_json()})
    saved = Results(tmp_path).lowering("sm_90")
    assert (saved["compiler"], saved["instructions"][MMA]["refused"]) == ("a\\nb", lowering.refused)
    assert Lowering().refused is None


FAKE = """#!/bin/sh
case "$*" in
  *--version*) echo "release 12.9, V12.9.86";;
  *--help*) echo "allowed 'sm_75'";;
  *) printf 'ptxas x, line 20; error   : \\033]0;evil\\007Feature\\r evil\\302\\233\\n' >&2; exit 255;;
esac
"""


@posix
def test_what_a_hostile_ptxas_says_reaches_neither_terminal_nor_file(tmp_path):
    for name in ("ptxas", "nvdisasm"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    command = ["lower", MMA, "--arch", "sm_75", "--cuda", str(tmp_path / "bin"), "--save", str(tmp_path / "r")]
    done = CliRunner().invoke(main, command)
    assert readable(done.stdout + done.stderr)
    assert "Feature" in done.stdout + done.stderr
    for path in (tmp_path / "r").rglob("*.json"):
        assert readable(path.read_text())
