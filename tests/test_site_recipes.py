"""Recipes, kernels and ways of elements on the site: what pages show is what the commands beside it print."""

import json
import random
import re
import shlex
import shutil
import subprocess
from functools import cache
from html import unescape

import pytest
from click.testing import CliRunner
from site_pages import data_of, facts, pages

from tcprobe.cli import main
from tcprobe.kernel.explain import explain
from tcprobe.pages.site import kernel_pages
from tcprobe.pages.site.kernel_pages import ways
from tcprobe.pages.site.recipe_pages import answers, recipes
from tcprobe.store import surveys
from tcprobe.store.choose import alone
from tcprobe.store.results import published

NODE = shutil.which("node") or shutil.which("nodejs")
ASKED = [(recipe, one) for recipe in recipes() for one in recipe.commands]
KERNELS = [(arch, kind) for arch, kinds in kernel_pages.KERNELS.items() for kind in kinds]
PRE = re.compile(r"<pre(?: class=\"code\")?>(.*?)</pre>", re.DOTALL)


@cache
def made_kernels():
    return kernel_pages.kernels(alone(published()))


def printed(command):
    done = CliRunner().invoke(main, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    return done.stdout


def blocks(page):
    return [unescape(text) for text in PRE.findall(pages()[page])]


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_a_recipe_has_every_case(recipe):
    """On the published tables none is left out, and each stands on the page with its command and its code."""
    found = list(answers(recipe.commands, alone(published())))
    assert [asked for asked, _ in found] == list(recipe.commands)
    shown = blocks(f"recipes/{recipe.name}.html")
    assert shown == [text for asked, answer in found for text in (asked.command, answer.code)]
    heads = [asked.head for asked in recipe.commands]
    assert len(set(heads)) == len(heads)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("asked", [one for _, one in ASKED], ids=lambda asked: asked.command)
def test_code_of_a_recipe_is_what_its_command_prints(asked):
    stdout = printed(asked.command)
    code = asked.answer(alone(published())).code
    assert code.strip() in stdout  # within the guard of a header, where the command prints one
    assert len(code.splitlines()) > 3


@pytest.mark.full
def test_words_of_a_recipe_are_what_its_command_says():
    """Reductions say the lines of `reduce`; costs of a conversion are those of its JSON."""
    for recipe, asked in ASKED:
        answer = asked.answer(alone(published()))
        if recipe.name == "softmax":
            done = CliRunner().invoke(main, shlex.split(asked.command)[1:])
            assert all(line in done.stderr for line in answer.lines), asked.command
        if recipe.name == "p-as-a":
            said = json.loads(printed(f"{asked.command} --json"))
            cost = ", ".join(f"{n} {name}" for name, n in said["costs"].items()) or "no instruction"
            assert said["summary"] in answer.lines
            assert any(line.startswith(f"per lane: {cost}") for line in answer.lines)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("arch", "kind"), KERNELS)
def test_a_kernel_s_page_has_what_its_command_prints(arch, kind):
    made = made_kernels()[KERNELS.index((arch, kind))]
    assert (made.arch, made.type) == (arch, kind)
    assert blocks(made.code) == [made.command, printed(made.command)]


def test_every_kernel_has_both_pages():
    assert [(made.arch, made.type) for made in made_kernels()] == KERNELS
    for made in made_kernels():
        assert {made.code, made.way} <= set(pages())
        said = printed(f"{made.command} --explain {' '.join(map(str, kernel_pages.SHOWN))}")
        listed = [
            unescape(re.sub(r"<span.*?</span>", "", line)) for line in re.findall(r"<li>(.*?)</li>", pages()[made.way])
        ]
        assert listed == [line.strip() for line in said.splitlines() if line.startswith("  ")]


RUN = """
const { readFileSync } = require("fs");
require("vm").runInThisContext(readFileSync(process.argv[1], "utf8"));
const { kernels, asked } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map(([which, operand, at]) => tcprobe.way.said(kernels[which], operand, at))));
"""


@pytest.mark.skipif(not NODE, reason="no Node.js to run the script in; a browser test runs it too")
def test_the_script_says_the_way_of_any_element(tmp_path, sample):
    """As `kernel gemm --explain` does, of elements in any tile."""
    pick, asked, expected = random.Random(7), [], []
    for number, made in enumerate(made_kernels()):
        for _ in range(len(sample(range(300), 10))):
            at = [pick.randrange(1 << pick.randrange(1, 14)) for _ in range(3)]
            for operand, way in zip("abd", explain(made.kernel, tuple(at)), strict=True):
                asked.append([number, operand, at])
                expected.append(way["steps"])
    script = tmp_path / "way.js"
    script.write_text(pages()["way.js"])
    given = json.dumps({"kernels": [data_of(pages()[made.way]) for made in made_kernels()], "asked": asked})
    done = subprocess.run([NODE, "-e", RUN, str(script)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for one, found, wanted in zip(asked, json.loads(done.stdout), expected, strict=True):
        assert found == wanted, one


def test_ways_that_are_neither_sums_nor_xors_are_refused(monkeypatch):
    """No page says what it did not prove."""
    kernel = made_kernels()[0].kernel

    def crooked(_, at):
        return [{"element": "", "steps": [f"byte {at[0] * at[1] + at[0] // 3}"]} for _ in "abd"]

    monkeypatch.setattr("tcprobe.pages.site.kernel_pages.explain", crooked)
    with pytest.raises(ValueError, match="neither a sum nor an XOR"):
        ways(kernel)


def test_pages_of_audits_and_compilers_say_what_is_published():
    root = published().root
    audits, survey = surveys.load_audits(root), surveys.load_survey(root)
    for page in ("errata.html", "audit.html"):
        text = unescape(pages()[page])
        assert all(found.words in text and found.name in text for one in audits for found in one.findings)
    rows = re.findall(
        r"<tr><td>(.*?)</td><td>(.*?)</td><td>(\d+)</td><td>(\d+)</td><td>(\d+)</td></tr>", pages()["audit.html"]
    )
    assert [(a, b, int(c), int(d), int(e)) for a, b, c, d, e in rows] == [
        (one.package, one.version, one.agree, one.differ, one.not_covered) for one in audits
    ]
    text = unescape(pages()["compilers.html"])
    assert all(version in text for version in survey.versions)
    assert f"{survey.tables} tables of fragments and {survey.lowerings} lowerings" in text


def test_pages_of_links_lead_to_archs_that_have_it():
    """Pages that recipes name exist, and take the arch of the recipe."""
    for recipe in recipes():
        for page, arch in re.findall(r'href="\.\./(f/[^"?]+)\?arch=(sm_\d+)', pages()[f"recipes/{recipe.name}.html"]):
            fact = next(one for one in facts().facts.values() if page == f"f/{one.id.replace('::', '--')}.html")
            assert arch in fact.cells
