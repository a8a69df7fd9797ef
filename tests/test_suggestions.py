"""Every command that a message, a help, a hint or a page suggests is run: it answers, and what was asked."""

import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from test_every_command import FORMS

from tcprobe.cli import examples, hints, main
from tcprobe.isa import inventory

# commands about one name, with the options that one needs
ASKED = (
    "where {} --row 1 --col 0",
    "where {} --lane 1 --i 0",
    "show {}",
    "trace {} --row 0 --col 1",
    "emit {} --to csv",
    "emit {} --to cuda --arch sm_90",
    "list {}",
    "why-not {} --arch sm_80",
    "cost {} --arch sm_90",
    "lower {} --arch sm_90",
    "numerics {}",
    "banks {} --tile 64x64 --with ldmatrix.x4",
    "path {} --tile 64x64",
    "load {}",
    "convert {} m16n8k16 f16 f32 a",
    "reduce {} --over row",
    "compare {}",
    "scales {}",
)
ALLOWED = {"compare": (0, 1), "agree": (0, 1), "diff": (0, 1)}  # 1: it differs


def mistaken(name, operands):
    """Names that people write instead of a name and one of its operands."""
    parts = name.split(".")
    yield name
    yield from (f"{name}.{operand}" for operand in ("a", "b", "d", "scale_a", "x"))
    for operand in operands:
        yield from (f"{' '.join(parts)} {operand}", f"{' '.join(reversed(parts))} {operand}")
        yield from (f"{name}.{operand} 1,0", f"{' '.join(parts)} {operand} 1 0", f"{' '.join(parts)} {operand} 7")
        yield f"{name}.{operand} row 1 col 0"
    yield from (".".join(parts[:at] + parts[at + 1 :]) for at in range(len(parts)))
    yield from (" ".join(parts[:at] + parts[at + 1 :]) for at in range(len(parts)))
    yield from (".".join([*parts[:at], *reversed(parts[at : at + 2]), *parts[at + 2 :]]) for at in range(1, len(parts)))
    yield from (name[:-1], f"{name}x", f"{' '.join(parts)} foo", name.replace("m", "n", 1), f"{' '.join(parts[:2])}")


@cache
def requests():
    """Every command about every mistaken name."""
    made = []
    for name, _ in FORMS.values():
        row = inventory.instructions()[name]
        operands = [operand.name for operand in row.operands][:3]
        for wrong in dict.fromkeys(mistaken(name, operands)):
            made += [asked.format(wrong) for asked in ASKED]
    return made


def said(words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, shlex.split(words), prog_name="tcprobe")


def lines_to_paste(text):
    """Command lines that stand by themselves, without the program's name."""
    return re.findall(r"^  tcprobe (.+)$", text, re.MULTILINE)


def suggested(text):
    """All command lines of a text: by themselves, or in backticks."""
    return [*lines_to_paste(text), *re.findall(r"`tcprobe ([^`]+)`", text)]


@cache
def outcome(words):
    """The exit code and the words of a suggested command. One that is only named, such as `tcprobe path`, has a help;
    one that measures is read, not run.
    """
    command, rest = command_of(shlex.split(words))
    done = said(f"{words} --help" if not rest or command.name == "run" else words)
    return done.exit_code, done.output


def command_of(words):
    """The command that words begin with, and the words after it."""
    command = main
    while (
        words and isinstance(command, click.Group) and (below := command.get_command(click.Context(command), words[0]))
    ):
        command, words = below, words[1:]
    return command, words


def check(request, done):
    """What an answer suggests answers too, and keeps every value that was given."""
    for words in suggested(done.output):
        code, output = outcome(words)
        assert code in ALLOWED.get(words.split()[0], (0,)), (request, words, output)
    given = [value for option, value in re.findall(r" (--[a-z-]+) (\S+)", request)]
    numbers = re.findall(r"(?<=[ ,])[0-9]+(?=[ ,]|$)", request)
    pasted, kept = lines_to_paste(done.stderr), re.split(r"[ ,]", " ".join(suggested(done.stderr)))
    for words in pasted:
        missing = [value for value in given if value not in re.split(r"[ ,]", words)]
        assert not missing, (request, words, missing)
    # a command that takes no numbers is named beside the one that does
    assert not pasted or set(numbers) <= set(kept), (request, pasted, numbers)


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_suggested_for_a_wrong_name_answers_what_was_asked(asked, sample):
    """Every 11th of all wrong names, each command on its own ones."""
    wrong = requests()[ASKED.index(asked) :: len(ASKED)][ASKED.index(asked) % 11 :: 11]
    for request in sample(wrong, 41):
        done = said(request)
        assert done.exit_code in (0, 1, 2, 3), (request, done.output)
        check(request, done)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "request_",
    [
        "where tcgen05 cta_group::2 f16 d --row 70 --col 3 --strict",
        "where tcgen05 cta_group::2 f16 --row 70 --col 3",
        "scales tcgen05 nvfp4 --line 3",
        "show m16n8k16 bf16 d 3 5",
        "load shfl.sync.bfly.b32",
        "show cp.async.bulk.tensor",
        "where wgmma.m64n64k16.f32.bf16.bf16.b --row 1 --col 1",
    ],
)
def test_a_mistake_that_people_make_gets_a_command_that_works(request_):
    done = said(request_)
    assert done.exit_code == 2
    assert suggested(done.output)
    check(request_, done)


ABOUT = {
    "id": "mma.m16n8k16.row.col.f32.bf16.bf16.f32",
    "arch": "sm_90",
    "folder": "results",
    "type": "bf16",
    "form": "wgmma.mma_async.m64n64k16.f32.bf16.bf16",
}
IN_PLACE = {
    "operand in tensor memory": "tcgen05.mma.cta_group::1.kind::f16.d",
    "no registers": "tcgen05.mma.cta_group::1.kind::f16",
    "no table": f"{ABOUT['id']}.a",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("topic", hints.HINTS)
def test_every_hint_is_a_command_that_works(topic):
    """With the names that an error of its topic has."""
    about = ABOUT | {"id": IN_PLACE.get(topic, ABOUT["id"])}
    for words in suggested(hints.HINTS[topic].format(**about)):
        code, output = outcome(words)
        assert code in ALLOWED.get(words.split()[0], (0,)), (words, output)


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_a_help_prints_its_examples_so_that_they_can_be_pasted(name):
    """Both are run (test_first_tries); here what a terminal shows is what is run."""
    shown = said(f"{name} --help").stdout.partition("Examples:")[2].replace("\\\n", " ")
    pasted = [shlex.split(line) for line in shown.strip().splitlines()]
    assert pasted == [["tcprobe", *shlex.split(words)] for words in examples.EXAMPLES[name]]


ROOT = Path(__file__).parent.parent
TEXTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tcprobe").rglob("*.py")]


def test_every_command_in_a_text_exists_with_its_options():
    """Those in backticks, of documents and of the program; what stands in blocks of documents is run besides."""
    for path in TEXTS:
        for words in re.findall(r"`tcprobe ([^`\n]+)`", path.read_text("utf-8")):
            command, rest = command_of(words.replace("'", "").replace('"', "").split())
            known = {option for parameter in command.params for option in parameter.opts} | {"--help", "--version"}
            options = {word.partition("=")[0] for word in rest if re.match("--?[a-z]", word)}
            assert options <= known, (path.name, words, options - known)
            assert command is not main or not rest or re.match("[A-Z{-]", rest[0]), (path.name, words)
