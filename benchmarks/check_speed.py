"""What `tcprobe check` takes for distinct kernels: python benchmarks/check_speed.py FOLDER [--findings FILE]

FOLDER has cubins, for example those of `tcprobe kernel gemm` for several archs, types and tiles, or a compiler's cache.
Prints kernels, instructions, seconds of CPU of the command with the tools that it calls, those of nvdisasm alone for
the same code, the limit of ten seconds and twice nvdisasm per 1,000 kernels, and the most memory of one process.
Processor seconds, so that other work on the machine does not count. --findings keeps the JSON lines: those of two
versions are to be equal byte for byte.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tcprobe.sass import toolchain
from tcprobe.sass.code_files import CodeFiles, code_files
from tcprobe.sass.disassemble import batches

FIXED, PER = 10.0, 1000  # seconds for so many kernels, beside twice nvdisasm's


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--findings", type=Path)
    arguments = parser.parse_args()
    tools = toolchain.find(None)
    functions = [
        (compiled.cubin.arch, function)
        for path in code_files(arguments.folder)
        for compiled in CodeFiles(tools).read(path)
        for function in compiled.cubin.functions
    ]
    alone = sum(disassembled(tools, arch, codes) for arch, codes in by_arch(functions))
    with tempfile.TemporaryFile() as kept:
        seconds, megabytes = measured(
            [sys.executable, "-m", "tcprobe", "check", str(arguments.folder), "--json"], kept, (0, 1)
        )
        kept.seek(0)
        found = kept.read()
    if arguments.findings:
        arguments.findings.write_bytes(found)
    limit = FIXED * max(1, len(functions) / PER) + 2 * alone
    instructions = sum(len(function.code) // 16 for _, function in functions)
    print(f"{len(functions)} kernels, {len({f.code for _, f in functions})} distinct, {instructions} instructions")
    print(f"check {seconds:.1f} s of CPU, nvdisasm alone {alone:.1f} s, limit {limit:.1f} s; {megabytes:.0f} MB")
    sys.exit(seconds > limit or megabytes > 300)


def by_arch(functions):
    """Code of one arch in pieces as `check` disassembles it."""
    ordered = sorted(functions, key=lambda each: each[0])
    for arch, group in groupby(ordered, key=lambda each: each[0]):
        for part in batches(group):
            yield arch, b"".join(function.code for _, function in part)


def disassembled(tools, arch, code):
    """Seconds of CPU of nvdisasm for machine code."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "code.bin"
        image.write_bytes(code)
        number = max(75, int(arch.removeprefix("sm_")))
        return measured([tools.nvdisasm, "--binary", f"SM{number}", str(image)], subprocess.DEVNULL, (0,))[0]


def measured(command, stdout, codes):
    """Seconds of CPU of a command and its children, and the megabytes of the largest of them; it ends with a code."""
    process = subprocess.Popen(command, stdout=stdout)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in codes:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
