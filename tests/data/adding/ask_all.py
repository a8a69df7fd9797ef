"""The tcprobe that Python finds, asked several things in one process: a list of argument lists, as JSON, on stdin.

Prints for each of them its exit code and what it printed to stdout and stderr.
"""

import contextlib
import io
import json
import sys

from tcprobe.cli import main


def answer(arguments):
    """(exit code, stdout, stderr) of a command line."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["tcprobe", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            return end.code or 0, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


json.dump([answer(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
