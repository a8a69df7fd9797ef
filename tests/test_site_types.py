"""The site's scripts have the types that their JSDoc says: TypeScript checks them, as Deno's wheel has it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.pages import site

SCRIPTS = Path(site.__file__).parent / "static"
DENO = shutil.which("deno", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
WRONG = {
    "tcprobe.make(7);": "'number' is not assignable to parameter of type 'string'",
    "tcprobe.mkae('p');": "'mkae' does not exist",
    "/** @type {Size} */ const size = { name: 'a' };": "missing the following properties",
    "document.querySelector('p').textContent;": "possibly 'null'",
}
pytestmark = pytest.mark.skipif(not DENO, reason="no Deno here: pip install 'tcprobe[dev]'")


def checked(folder, tmp_path):
    """What TypeScript says of the scripts of a folder; nothing is fetched for it."""
    names = sorted(path.name for path in folder.glob("*.js"))
    return subprocess.run(
        [DENO, "check", "--no-remote", "--no-npm", "--no-lock", "--config", "tsconfig.json", *names],
        cwd=folder,
        env=os.environ | {"DENO_DIR": str(tmp_path / "kept"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_script_is_checked():
    """None opts out: each asks editors for the check, too, and none has a line that silences it."""
    for path in SCRIPTS.glob("*.js"):
        text = path.read_text("utf-8")
        assert text.startswith("// @ts-check\n"), path
        assert "@ts-ignore" not in text, path
        assert "@ts-nocheck" not in text, path


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
