"""Find the names that CUDA's headers and NVRTC declare for every program: tcprobe/code/taken.txt.

    python3 tools/taken_names.py            # needs nvcc on PATH, and NVRTC's wheel in this Python

Every identifier of the preprocessed headers is tried as a namespace, as a type and as a function of its own. One that
nvcc or NVRTC refuses is taken, and so is a macro. Names that a rule of `tcprobe.code.names` refuses are left out. Names
of the file stay in it: other versions of the headers declared them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
LIST = ROOT / "tcprobe" / "code" / "taken.txt"
CUDA = ("runtime", "fp16", "bf16", "fp8", "fp6", "fp4", "pipeline")
C = ("assert", "float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string", "time")
HEADERS = ("cuda.h", "mma.h", "cooperative_groups.h", *(f"cuda_{name}.h" for name in CUDA), *(f"c{name}" for name in C))
INCLUDED = "".join(f"#include <{header}>\n" for header in HEADERS)
USES = ("namespace {name} {{}}", "struct {name} {{}};", "struct own_{at} {{}}; __device__ void {name}(own_{at}) {{}}")
_WORD = re.compile(r"\b[A-Za-z][A-Za-z0-9_]*\b")
_ERROR = re.compile(r"\((\d+)\): (?:catastrophic )?error")


def nvcc(text: str, *options: str) -> tuple[str, str]:
    """(standard output, messages) of nvcc on a text of CUDA C++."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "names.cu")
        source.write_text(text)
        done = subprocess.run(
            ["nvcc", "-arch=sm_90", *options, str(source)], capture_output=True, text=True, check=False, cwd=folder
        )
        return done.stdout, done.stderr + done.stdout


def refused(candidates: list[str], before: str, compiled: Callable[[str], str]) -> set[str]:
    """The names of which some use is an error, each in a line alone; compiled again until what is left compiles."""
    taken: set[str] = set()
    for use in USES:
        left = [name for name in candidates if name not in taken]
        while left:
            lines = [use.format(name=name, at=at) for at, name in enumerate(left)]
            words = compiled(before + "\n".join(lines) + "\n")
            first = before.count("\n") + 1
            wrong = {left[int(at) - first] for at in _ERROR.findall(words) if 0 <= int(at) - first < len(left)}
            if not wrong:
                break
            taken |= wrong
            left = [name for name in left if name not in wrong]
    return taken


def find() -> list[str]:
    """The names that are taken, those of the file included, without those that a rule refuses."""
    import nvrtc

    from tcprobe.code.names import is_ruled_out

    headers, _ = nvcc(INCLUDED, "-E")
    macros = re.findall(r"#define (\w+)", nvcc(INCLUDED, "-E", "-Xcompiler", "-dM")[0])
    words = set(_WORD.findall(re.sub(r"(?m)^#.*$", "", headers))) | set(macros) | set(LIST.read_text().split())
    candidates = sorted(name for name in words if name[:1].isalpha() and not is_ruled_out(name))
    library = nvrtc.library()
    assert library is not None, "NVRTC's wheel is not installed"
    found = refused(candidates, INCLUDED, lambda text: nvcc(text, "-cubin", "-Xcudafe", "--error_limit=100000")[1])
    found |= refused(candidates, "", lambda text: nvrtc.compile_cuda(library, text, "-arch=compute_90")[1])
    return sorted(found | (set(macros) & set(candidates)) | set(LIST.read_text().split()))


if __name__ == "__main__":
    LIST.write_text("\n".join(find()) + "\n")
    print(f"{len(LIST.read_text().split())} names in {LIST}")
