"""The site's scripts have the types that their JSDoc says: TypeScript checks them, as Deno's wheel has it.

So do the data of pages, which scripts take as those types: TypeScript reads them as literals.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from site_pages import pages

from tcprobe.pages import site

SCRIPTS = Path(site.__file__).parent / "static"
DENO = shutil.which("deno", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
WRONG = {
    "tcprobe.make(7);": "Argument of type '7' is not assignable to parameter of type 'keyof HTMLElementTagNameMap'",
    "tcprobe.mkae('p');": "'mkae' does not exist",
    "/** @type {Size} */ const size = { name: 'a' };": "missing the following properties",
    "document.querySelector('p').textContent;": "possibly 'null'",
    "const lanes = (cells) => cells;": "Parameter 'cells' implicitly has an 'any' type",
    "tcprobe.one('#a b, #a input').value;": "'value' does not exist on type 'HTMLElement | HTMLInputElement'",
    "/** @param {WayData} way */ tcprobe.pages.diff = (way) => way.command;": "not assignable to type '(data: Diff",
    "try { tcprobe.home.at(0); } catch (error) { error.message; }": "'error' is of type 'unknown'",
}
SILENT = ("@ts-ignore", "@ts-nocheck", "@ts-expect-error")
ANY = re.compile(r"[{<(|:,]\s*(any|\*|Function|[Oo]bject)\s*[}>)|,\[]")  # types that say nothing, in JSDoc
pytestmark = pytest.mark.skipif(not DENO, reason="no Deno here: pip install 'tcprobe[dev]'")


def checked(folder, tmp_path):
    """What TypeScript says of the scripts of a folder; nothing is fetched for it."""
    names = sorted(path.name for path in (*folder.glob("*.js"), *folder.glob("*[!d].ts")))
    return subprocess.run(
        [DENO, "check", "--no-remote", "--no-npm", "--no-lock", "--config", "tsconfig.json", *names],
        cwd=folder,
        env=os.environ | {"DENO_DIR": str(tmp_path / "kept"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_script_is_checked():
    """Each asks editors for the check, too; none has a line that silences it, or a type that says nothing."""
    for path in (*SCRIPTS.glob("*.js"), *SCRIPTS.glob("*.ts")):
        text = path.read_text("utf-8")
        assert path.suffix == ".ts" or text.startswith("// @ts-check\n"), path
        assert not [silent for silent in SILENT if silent in text], path
        said = text if path.suffix == ".ts" else "\n".join(re.findall(r"/\*\*.*?\*/", text, re.DOTALL))
        assert not ANY.findall(said), path


def test_no_rule_of_strict_is_off():
    assert '"strict": true' in (SCRIPTS / "tsconfig.json").read_text("utf-8")
    assert "false" not in (SCRIPTS / "tsconfig.json").read_text("utf-8")


def test_types_stand_in_one_place():
    assert not [path for path in SCRIPTS.glob("*.js") if "@typedef" in path.read_text("utf-8")]


@pytest.mark.full
def test_types(tmp_path):
    done = checked(SCRIPTS, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_wrong_types_are_found(tmp_path):
    folder = tmp_path / "static"
    shutil.copytree(SCRIPTS, folder)
    with (folder / "layout.js").open("a", encoding="utf-8") as script:
        script.writelines(f"{line}\n" for line in WRONG)
    done = checked(folder, tmp_path)
    assert done.returncode != 0
    assert all(said in done.stderr for said in WRONG.values()), done.stderr
    assert done.stderr.count("layout.js:") == len(WRONG)


def data():
    """By kind the data of a few pages as they stand there, and the table of words."""
    found: dict[str, list[str]] = {}
    for text in pages().values():
        if given := re.search(
            r'<script type="application/json" id="data">(\{"kind":"(\w+)".*?)</script>', text, re.DOTALL
        ):
            found.setdefault(given[2], []).append(given[1])
    some = {f"Datas['{kind}']": texts[:: max(1, len(texts) // 24)] for kind, texts in found.items()}
    return some | {"Words": [pages()["search.json"]]}


@pytest.mark.full
@pytest.mark.parametrize("damaged", [False, True])
def test_data_of_pages_have_the_types_that_scripts_take_them_as(damaged, tmp_path):
    """Every key is known, and none is missing; a key that is renamed is found, in every kind."""
    folder = tmp_path / "static"
    shutil.copytree(SCRIPTS, folder)
    shown = data()
    kinds = {name: texts[:1] if damaged else texts for name, texts in shown.items()}
    assert set(kinds) == {
        f"Datas['{k}']" for k in ("fact", "instruction", "home", "diff", "compare", "banks", "wgmma", "way")
    } | {"Words"}
    lines = []
    for name, texts in kinds.items():
        for text in texts:
            literal = re.sub(r'"(archs|types|tile|layouts|operands)":', r'"\1x":', text, count=1) if damaged else text
            lines.append(f"export const d{len(lines)}: {name} = {literal};")
    (folder / "pages.ts").write_text("\n".join(lines))
    done = checked(folder, tmp_path)
    assert (done.returncode != 0) is damaged, done.stderr[:4000]
    if damaged:
        assert {int(n) for n in re.findall(r"pages\.ts:(\d+)", done.stderr)} == set(range(1, len(lines) + 1))
