"""Answers questions for answers.py: a list of them on stdin as JSON; on stdout as JSON for each [exit, output, errors].

Everything is imported once; each question is asked in a fork of this process, in the folder it was started in.
"""

import json
import os
import shlex
import signal
import sys
import tempfile

LIMIT = 120  # seconds a question


def main():
    root = os.path.realpath(sys.argv[1])
    sys.path.insert(0, root)
    from tcprobe.cli import main as group

    for name in group.list_commands(None):  # what a question imports is here already
        group.get_command(None, name)
    asked = json.load(sys.stdin)
    json.dump([answer(question, root) for question in asked], sys.stdout)


def answer(question, root):
    """The exit code of a question, and what it wrote on stdout and on stderr, with the code's folder as ROOT."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        if not (child := os.fork()):
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            signal.alarm(LIMIT)
            reply(question)
        status = os.waitpid(child, 0)[1]
        texts = []
        for stream in (output, errors):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "surrogateescape").replace(root, "ROOT"))
    return [os.waitstatus_to_exitcode(status), *texts]


def reply(question):
    """Answer on this process's streams and end it."""
    code = 70
    try:
        if question.startswith("["):
            code = call(*json.loads(question))
        else:
            sys.argv = ["tcprobe", *shlex.split(question)]
            from tcprobe.__main__ import main as command

            command()
            code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def call(name, given, options):
    """Call a function of `tcprobe`, and print what it returns, or its error."""
    import tcprobe

    try:
        print(value(getattr(tcprobe, name)(*given, **options)))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


def value(answered):
    """What a program sees of an answer: its JSON or its text, not where it is in memory."""
    text = answered.to_json() if hasattr(answered, "to_json") else answered
    return text if " at 0x" not in repr(text) else type(answered).__name__


if __name__ == "__main__":
    main()
