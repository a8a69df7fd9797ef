"""Things that go wrong around `tcprobe run`: broken toolchains, broken environments, and what they must not lead to.

`attempt` runs the command with one fault and says what came of it. It must end with a message and an exit code, leave
no process, temporary folder or half file, and save no table that is not right.
"""

import os
import stat
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from tcprobe.sass import toolchain
from tcprobe.store.results import Results, published

PYTHON = (sys.executable, "-m", "tcprobe")
RUN = ("run", "wmma.m8n8k4.*", "--arch", "sm_80", "--method", "sass")
MOST_SECONDS = 600  # of a command that cannot end; on a machine with other work half a second becomes ten
BRIEF = 2  # seconds for a call of a tool that hangs


@dataclass(frozen=True)
class Fault:
    """`program` is replaced by a shell script in which $REAL is the real one; or the shell runs `around`.

    `around` is a shell command with the tool's own as "$@"; {trial} is a folder of the trial. `codes` are the exit
    codes that are right; `refuses` says that refusals are not an error of tcprobe's, since the tool states them.
    """

    name: str
    program: str = ""
    script: str = ""
    around: str = '"$@"'
    codes: tuple[int, ...] = (3,)
    environment: dict[str, str] = field(default_factory=dict)
    refuses: bool = False
    limit: int = 120  # seconds for one call of a tool


@dataclass
class Outcome:
    """What came of a fault: `wrong` lists what must not be."""

    code: int | None
    errors: str
    wrong: list[str]


COMPILE = 'case "$1" in --version|--help) exec "$REAL" "$@";; esac\n'
ONLY_VERSION = 'case "$1" in --version) ;; *) exec "$REAL" "$@";; esac\n'
ONLY_HELP = 'case "$1" in --help) ;; *) exec "$REAL" "$@";; esac\n'
PROBES = 'grep -q mma "$3" || exec "$REAL" "$@"\n'  # all else works, a kernel that does nothing for instance
NAMED = 'grep -n "ret;" "$3" | sed "s/:.*//; s/.*/ptxas x, line &; error : \x1b[31mno\x1b[0m/" >&2; exit 255'


def ptxas(name, script, **more):
    """A ptxas that goes wrong when it compiles: $3 is the source, $5 the cubin."""
    return Fault(f"ptxas {name}", "ptxas", COMPILE + script, **more)


def nvdisasm(name, script, **more):
    """An nvdisasm that goes wrong when it disassembles."""
    return Fault(f"nvdisasm {name}", "nvdisasm", COMPILE + script, **more)


TOOLS = (
    ptxas("hangs", "sleep 1000", limit=BRIEF),
    ptxas(
        "hangs with children that ignore SIGTERM",
        'trap "" TERM; (trap "" TERM; sleep 1000) & sleep 1000; sleep 1000',
        limit=BRIEF,
    ),
    ptxas("dies by SIGSEGV", "kill -SEGV $$"),
    ptxas("dies by SIGABRT", "kill -ABRT $$"),
    ptxas("is killed", "kill -KILL $$"),
    ptxas("is terminated", "kill -TERM $$"),
    ptxas("exits with 1 silently", "exit 1"),
    ptxas("exits with 255 and words", "echo out of licences >&2; exit 255"),
    ptxas("writes no cubin", "exit 0"),
    ptxas("writes an empty cubin", ': > "$5"'),
    ptxas("writes garbage", 'echo garbage > "$5"'),
    ptxas("writes a folder", 'mkdir "$5"'),
    ptxas("writes a FIFO", 'mkfifo "$5"'),
    ptxas("writes half a cubin", '"$REAL" "$@"; head -c $(($(wc -c < "$5") / 2)) "$5" > "$5.x"; mv "$5.x" "$5"'),
    ptxas("writes 64 bytes of a cubin", '"$REAL" "$@"; head -c 64 "$5" > "$5.x"; mv "$5.x" "$5"'),
    ptxas("writes all but 100 bytes", '"$REAL" "$@"; head -c -100 "$5" > "$5.x"; mv "$5.x" "$5"', codes=(0, 3)),
    ptxas("writes a cubin of zeros", '"$REAL" "$@"; head -c $(wc -c < "$5") /dev/zero > "$5.x"; mv "$5.x" "$5"'),
    ptxas("writes and dies", '"$REAL" "$@"; kill -SEGV $$'),
    ptxas("writes and exits with 1", '"$REAL" "$@"; exit 1'),
    ptxas("talks without end", "yes y >&2"),
    ptxas("prints without end", "yes"),
    ptxas("writes without end", 'exec cat /dev/zero > "$5"'),
    ptxas("has escapes in its words", "printf '\\033[31m\\033]0;title\\007dead\\n' >&2; exit 1"),
    ptxas("has words that are not UTF-8", "printf '\\377\\376dead\\n' >&2; exit 1"),
    ptxas("names a line that is not there", "echo 'ptxas x, line 999999; error : no' >&2; exit 255"),
    ptxas("names a line of twenty digits", "echo 'ptxas x, line 99999999999999999999; error : no' >&2; exit 255"),
    ptxas("names the header", "echo 'ptxas x, line 1; fatal : no' >&2; exit 255"),
    ptxas("names every kernel, with escapes", PROBES + NAMED, codes=(0,), refuses=True),
    ptxas("leaves out a kernel", 'awk \'/^.visible/{n++} n!=2\' "$3" > "$3.x"; "$REAL" "$1" "$2" "$3.x" "$4" "$5"'),
    ptxas("assembles for another arch", 'sed s/sm_80/sm_75/ "$3" > "$3.x"; "$REAL" "$1" sm_75 "$3.x" "$4" "$5"'),
    ptxas("is slow", 'sleep 0.5; exec "$REAL" "$@"', codes=(0,)),
    ptxas("warns", 'echo "ptxas warning : hm" >&2; exec "$REAL" "$@"', codes=(0,)),
    ptxas("leaves a child behind", 'sleep 1000 & exec "$REAL" "$@"', codes=(0,)),
    ptxas("closes its output", 'exec >&- 2>&-; exec "$REAL" "$@"', codes=(0,)),
    Fault("ptxas --version hangs", "ptxas", ONLY_VERSION + "sleep 1000", limit=BRIEF),
    Fault("ptxas --version is garbage", "ptxas", ONLY_VERSION + "echo garbage"),
    Fault("ptxas --version is not UTF-8", "ptxas", ONLY_VERSION + "printf '\\377\\376V\\377'"),
    Fault("ptxas --version does not end", "ptxas", ONLY_VERSION + "yes V"),
    Fault("ptxas --version dies", "ptxas", ONLY_VERSION + "kill -SEGV $$"),
    Fault("ptxas --version has escapes", "ptxas", ONLY_VERSION + "printf 'V12.9.86\\033[31m'", codes=(0,)),
    Fault("ptxas --help is garbage", "ptxas", ONLY_HELP + "echo garbage", codes=(2,)),
    Fault("ptxas --help hangs", "ptxas", ONLY_HELP + "sleep 1000", limit=BRIEF),
    nvdisasm("hangs", "sleep 1000", limit=BRIEF),
    nvdisasm("dies by SIGSEGV", "kill -SEGV $$"),
    nvdisasm("exits with 1 silently", "exit 1"),
    nvdisasm("prints garbage", "echo garbage"),
    nvdisasm("prints nothing", "exit 0"),
    nvdisasm("prints half", '"$REAL" "$@" | head -50'),
    nvdisasm("prints all twice", '"$REAL" "$@"; "$REAL" "$@"'),
    nvdisasm("prints without end", "yes /*0000*/"),
    nvdisasm("prints for another arch", 'exec "$REAL" --binary SM100 "$3"'),
    nvdisasm("is not UTF-8", "printf '\\377\\376\\033[31m'; exit 1"),
    nvdisasm("exits with 1 after all is printed", '"$REAL" "$@"; exit 1'),
)
OFFERED = (
    Fault("ptxas may not be run", "ptxas", "chmod -x"),
    Fault("ptxas is an empty file", "ptxas", "empty"),
    Fault("ptxas is text", "ptxas", "text"),
    Fault("ptxas has no interpreter", "ptxas", "interpreter"),
    Fault("ptxas is a folder", "ptxas", "folder"),
    Fault("ptxas leads nowhere", "ptxas", "nowhere", codes=(3,)),
)
MARKS = " ".join(f"{name}=${name}" for name in ("TCPROBE_TRIAL", "TMPDIR", "PYTHONDONTWRITEBYTECODE"))
ENVIRONMENTS = (
    Fault("no HOME", around='env -u HOME "$@"', codes=(0,)),
    Fault("an empty environment", around=f'env -i {MARKS} "$@"', codes=(0,)),
    Fault("no PATH", environment={"PATH": ""}, codes=(0,)),
    Fault("CUDA_HOME leads nowhere", environment={"CUDA_HOME": "/nowhere"}, codes=(0,)),
    Fault("a C locale", environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, codes=(0,)),
    Fault("ASCII only", environment={"PYTHONIOENCODING": "ascii"}, codes=(0,)),
    Fault("TMPDIR is missing", environment={"TMPDIR": "/nowhere"}, codes=(0,)),
    Fault("TMPDIR cannot be written", environment={"TMPDIR": "/proc"}, codes=(0,)),
    Fault("COLUMNS is not a number", environment={"COLUMNS": "abc"}, codes=(0,)),
    Fault("COLUMNS is 0", environment={"COLUMNS": "0"}, codes=(0,)),
    Fault("a full standard output", around='"$@" > /dev/full'),
    Fault("a closed standard output", around='"$@" >&-'),
    Fault("a full standard error", around='"$@" 2> /dev/full', codes=(0,)),
    Fault("a closed standard error", around='"$@" 2>&-', codes=(0,)),
    Fault("all streams closed", around='"$@" <&- >&- 2>&-'),
    Fault("nobody reads", around='"$@" | true', codes=(0,)),
    Fault("a working directory that is gone", around='mkdir x; cd x; rmdir {trial}/x; "$@"', codes=(0,)),
    Fault("10 open files", around='ulimit -n 10; "$@"'),
    Fault("14 open files", around='ulimit -n 14; "$@"', codes=(0, 3)),
    Fault("files of 512 bytes", around='ulimit -f 1; "$@"'),
    Fault("300 MB of memory", around='ulimit -v 300000; "$@"', codes=(0, 3)),
    Fault("results are a file", around=': > {trial}/r; "$@"', codes=(2,)),
    Fault("results lie in /proc", around='ln -s /proc/self/x {trial}/r; "$@"'),
)
FAULTS = (*TOOLS, *OFFERED, *ENVIRONMENTS)


def place(fault: Fault, folder: Path) -> None:
    """Make the broken program in `folder`."""
    path, real = folder / fault.program, getattr(toolchain.find(), fault.program)
    if fault.program != "ptxas":
        (folder / "ptxas").symlink_to(toolchain.find().ptxas)
    match fault.script:
        case "empty" | "text" | "interpreter" as kind:
            path.write_text({"empty": "", "text": "hello\n", "interpreter": "#!/nowhere/sh\n"}[kind])
        case "folder":
            path.mkdir()
        case "nowhere":
            path.symlink_to("/nowhere/ptxas")
        case script:
            path.write_text(f"#!/bin/sh\nREAL='{real}'\n{script}\n")
    if fault.script not in ("chmod -x", "folder", "nowhere"):
        path.chmod(path.stat().st_mode | stat.S_IEXEC)


def command(fault: Fault, trial: Path) -> list[str]:
    """The command with the fault, with results in {trial}/r."""
    more = []
    if fault.program:
        (trial / "cuda").mkdir()
        place(fault, trial / "cuda")
        more = ["--cuda", str(trial / "cuda"), "--limit", str(fault.limit)]
    shell = fault.around.replace("{trial}", str(trial))
    return ["/bin/sh", "-c", shell, "sh", *PYTHON, *RUN, "--results", str(trial / "r"), *more]


def attempt(fault: Fault, trial: Path) -> Outcome:
    """Run the command with the fault in the folder `trial`."""
    environment = start_environment(trial) | fault.environment
    try:
        done = subprocess.run(
            command(fault, trial), capture_output=True, timeout=MOST_SECONDS, check=False, env=environment, cwd=trial
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, "", ["hung"])
    errors = done.stderr.decode(errors="replace")
    wrong = [*unclear(fault, done.returncode, errors), *left(environment), *untrue(fault, trial / "r", done.returncode)]
    return Outcome(done.returncode, errors, wrong)


def start_environment(trial: Path) -> dict[str, str]:
    """An environment by which the processes and the temporary folders of a trial are found again.

    Nothing is compiled for others: under a limit of file sizes Python leaves half of a .pyc, on which they stumble.
    """
    (trial / "tmp").mkdir()
    own = {"TMPDIR": str(trial / "tmp"), "TCPROBE_TRIAL": uuid.uuid4().hex, "PYTHONDONTWRITEBYTECODE": "1"}
    return os.environ | own


def unclear(fault: Fault, code: int, errors: str) -> list[str]:
    """Complaints about the message and the exit code."""
    found = ["crashed"] if "Traceback" in errors or "internal error" in errors or code < 0 else []
    if code not in fault.codes:
        found.append(f"exit code {code}")
    if code not in (0, 1) and "2>" not in fault.around and "-f 1" not in fault.around and "Error: " not in errors:
        found.append("no message")
    if any(ord(c) < 32 and c not in "\n\t" for c in errors):
        found.append("control characters")
    return found


def left(environment: dict[str, str], patience: float = 60.0) -> list[str]:
    """Processes and temporary files that are still there; a guard may take a moment."""
    end = time.monotonic() + patience
    while (found := _left(environment)) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _left(environment: dict[str, str]) -> list[str]:
    mark, found = f"TCPROBE_TRIAL={environment['TCPROBE_TRIAL']}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(f"process {path.parent.name} left")
        except OSError:
            continue
    return found + [f"{path} left" for path in _temporary(environment)]


def _temporary(environment: dict[str, str]) -> list[Path]:
    """What is in the trial's folder for temporary files, where it has one."""
    folder = Path(environment["TMPDIR"])
    return list(folder.iterdir()) if folder.name == "tmp" else []


def untrue(fault: Fault, root: Path, code: int) -> list[str]:
    """Tables that are not the published ones, files that are not whole, and an exit code 0 with something missing."""
    if not root.is_dir():
        return []
    found = [f"part file {path.name}" for path in root.rglob("*.part")]
    saved, right = Results(root), published()
    measured = 0
    for name in saved.archs():
        for m in saved.measurements(name, "sass"):  # reads and checks every file
            theirs = right.measurement(name, "sass", m.experiment)
            measured += m.status == "measured"
            if m.status == "measured" and m.tables != theirs.tables:
                found.append(f"wrong accepted: {m.experiment}")
            if m.status != "measured" and not fault.refuses:
                found.append(f"{m.status}: {m.experiment}")
    if code == 0 and measured != 5 and not fault.refuses:
        found.append(f"exit code 0 with {measured} of 5 tables")
    return found
