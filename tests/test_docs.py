"""Every block of the README and of docs/ is run: console blocks, Python sessions, CUDA code."""

import doctest
import functools
import json
import re
import shlex
import sys
from pathlib import Path

import click
import nvrtc
import pytest
from click.testing import CliRunner

from tcprobe import emit
from tcprobe.cli import main
from tcprobe.isa.names import resolve
from tcprobe.store.cell import for_emit
from tcprobe.store.results import published

ROOT = Path(__file__).parent.parent
TALKS = (
    "$ tcprobe convert",
    "$ tcprobe reduce",
)  # on a terminal both streams are seen: words on one, code on the other
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(kind):
    """(page, text) of all fenced blocks of a kind."""
    pattern = rf"```{kind}\n(.*?)```"
    return [(p.name, text) for p in PAGES for text in re.findall(pattern, p.read_text("utf-8"), re.DOTALL)]


def name(value):
    return value.strip().splitlines()[0] if "\n" in value else value


@pytest.mark.parametrize(("page", "text"), blocks("console"), ids=name)
def test_commands_print_what_the_page_says(page, text, monkeypatch, tmp_path):
    """The command's real output, in order; `...` stands for lines left out. What it writes goes elsewhere."""
    command, *expected = text.strip().splitlines()
    monkeypatch.chdir(ROOT)
    runner = CliRunner(env={"COLUMNS": "120", "PATH": "", "CUDA_HOME": None})
    words = shlex.split(command.removeprefix("$ tcprobe "))
    words = [
        str(tmp_path / word) if before == "-o" else word for before, word in zip(["", *words], words, strict=False)
    ]
    done = runner.invoke(main, words)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code in (0, 1), done.output
    printed, position, free = (done.output if command.startswith(TALKS) else done.stdout).splitlines(), 0, False
    for line in expected:
        if line.strip() == "...":
            free = True
            continue
        at = printed.index(line, position) if line in printed[position:] else -1
        assert at >= 0, (page, line)
        assert free or at == position, (page, line, printed[position])
        position, free = at + 1, False
    assert free or position == len(printed), printed[position:]


def figures():
    """(page, paragraph, a number of it, where it stands) of every `<!-- results: NUMBER = [HOW] FILES: PATH -->`.

    FILES is below results/, PATH leads through a finding's body; `/ PATH` divides by another number of the same file.
    HOW is of several files: min, max, sum, or their count, which needs no PATH.
    """
    for page in PAGES:
        for block in page.read_text("utf-8").split("\n\n"):
            paragraph, _, mark = block.partition("\n<!-- results: ")
            for line in mark.removesuffix(" -->").splitlines():
                yield page.name, paragraph, *line.strip().removesuffix(" -->").split(" = ")


def _number_in(file, path):
    return functools.reduce(lambda at, key: at[int(key) if key.isdigit() else key], path.split("."), file)


@pytest.mark.parametrize(("page", "paragraph", "number", "place"), list(figures()))
def test_numbers_that_stand_in_results_are_those_of_results(page, paragraph, number, place):
    """To as many digits as the page has; a share in percent."""
    assert re.search(rf"(?<![\d.,]){re.escape(number.removesuffix(' %'))}(?![\d]|[.,]\d)", paragraph), number
    how, files, path, below = re.fullmatch(r"(?:(\w+) )?(\S+?)(?:: (\S+))?(?: / (\S+))?", place).groups()
    bodies = [json.loads(file.read_text())["body"] for file in (ROOT / "results").glob(files)]
    assert bodies if how else len(bodies) == 1, files
    found = [_number_in(body, path) / (_number_in(body, below) if below else 1) for body in bodies if path]
    value = {"min": min, "max": max, "sum": sum, "count": lambda _: len(bodies), None: max}[how](found)
    value *= 100 if number.endswith("%") else 1
    digits = len(number.removesuffix(" %").partition(".")[2])
    assert f"{value:,.{digits}f}" == number.removesuffix(" %"), value


@pytest.mark.parametrize(("page", "text"), blocks("python"), ids=name)
def test_python_sessions(page, text):
    """All sessions of a page in one namespace, in order: each is run after those above it."""
    above = [t for p, t in blocks("python") if p == page]
    source = "\n".join(above[: above.index(text) + 1])
    test = doctest.DocTestParser().get_doctest(source, {}, page, page, 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test)
    assert found.attempted
    assert found.failed == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the NVRTC wheel that the dev extra names is a Linux one")
@pytest.mark.parametrize(("page", "text"), blocks("cuda"), ids=name)
def test_cuda_blocks_compile_with_the_header(page, text):
    """Their first line names what the header that they include is of; a second one may name the target."""
    names, target = text.splitlines()[0].removeprefix("// header: ").split(), re.match(".*\n// target: (.*)", text)
    fragments = [fragment for name in names for fragment in resolve(name).some_fragments]
    header = emit.emit("cuda", for_emit(fragments, "all", published()))
    lib = nvrtc.library()
    for arch in (target[1],) if target else ("sm_80", "sm_90"):
        done, log = nvrtc.compile_cuda(lib, header + text, f"-arch={arch}", "-std=c++17")
        assert (done, log) == (True, ""), (page, log)


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.S | re.M)  # CuTe's smem_ptr[16b](unset)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert target.startswith("http") or (page.parent / target).exists(), (page.name, target)


def test_every_command_option_and_format_is_documented():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    commands = dict(every_command(main))
    missing = [f"tcprobe {name}" for name in commands if not re.search(rf"tcprobe {name}\b", text)]
    options = [p.opts for command in commands.values() for p in command.params if isinstance(p, click.Option)]
    missing += [names for names in options if not any(re.search(rf"{name}\b", text) for name in names)]
    missing += [name for name in emit.names() if not re.search(rf"(?<![\w-]){name}(?![\w-])", text, re.I)]
    assert missing == []


def every_command(group, path=()):
    """Name and command of everything that can be called."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_what_recipes_give_to_other_tools_fits_check(tmp_path):
    """VS Code's pattern takes a line of `check` with a source line apart; the hook is a command that there is."""
    text = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    matcher = json.loads(next(block for page, block in blocks("json") if page == "recipes.md"))["pattern"]
    line = "warning: bank-conflicts: gemm (sm_80, gemm.cubin) at 0x0df0, /src/gemm.cu:120: LDS takes 8 wavefronts"
    found = re.match(matcher["regexp"], line)
    parts = {name: found[matcher[name]] for name in ("severity", "code", "file", "line", "message")}
    assert parts == {
        "severity": "warning",
        "code": "bank-conflicts",
        "file": "/src/gemm.cu",
        "line": "120",
        "message": "LDS takes 8 wavefronts",
    }
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    words = re.search(r"entry: tcprobe (.*)", hook)[1].split()
    (tmp_path / "k.ptx").write_text("not PTX")
    assert CliRunner().invoke(main, [*words, str(tmp_path / "k.ptx")]).exit_code in (3, 4)
    assert f"id: {re.search(r'- id: (.*)', hook)[1]}" in text
