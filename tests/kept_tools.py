"""What the real ptxas, nvdisasm and nvcc said of an input, kept in a folder for all workers of a run: tests ask them
the same many times, and nvdisasm takes 0.2 s to start. Wrapped tools, and tools of other processes, run each time.
"""

import hashlib
import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess

LEAST_LIMIT = 60  # seconds: a call that may take less is about the limit
HERE = "{scratch}"  # stands for the folder, whose name is another each time


def keeping(folder, tools, call):
    """`Scratch.call` that runs each of `tools` on an input once."""

    def kept(scratch, command, limit):
        if os.path.realpath(command[0]) not in tools or limit < LEAST_LIMIT:
            return call(scratch, command, limit)
        made = Path(command[command.index("-o") + 1]) if "-o" in command else None
        answer = folder / key(scratch.folder, command, made)
        if answer.is_file():
            scratch._check()
            return again(scratch.folder, command, made, json.loads(answer.read_bytes()))
        done = call(scratch, command, limit)
        if done.returncode >= 0:
            keep(answer, scratch.folder, done, made)
        return done

    return kept


def key(scratch, command, made):
    """A name for the command and the content of the files that it names."""
    digest = hashlib.sha256()
    for word in command:
        digest.update(word.replace(str(scratch), HERE).encode() + b"\0")
        if Path(word).parent == scratch and Path(word) != made:
            digest.update(hashlib.sha256(Path(word).read_bytes()).digest())
    return digest.hexdigest()


def keep(answer, scratch, done, made):
    said = [words.replace(str(scratch), HERE) for words in (done.stdout, done.stderr)]
    content = made.read_bytes().hex() if made and made.is_file() else None
    part = answer.with_name(uuid.uuid4().hex)
    part.write_text(json.dumps({"code": done.returncode, "said": said, "made": content}))
    with suppress(PermissionError):  # where another worker reads it, on Windows
        os.replace(part, answer)


def again(scratch, command, made, kept):
    if kept["made"] is not None:
        made.write_bytes(bytes.fromhex(kept["made"]))
    return CompletedProcess(command, kept["code"], *(words.replace(HERE, str(scratch)) for words in kept["said"]))
