"""The command `tcprobe`, run in the process of the test."""

from click.testing import CliRunner

from tcprobe.cli import main


def tcprobe(*words, code=0, text=None):
    """What the command says of these words and `text` on standard input; it ends with `code`, without a traceback."""
    done = CliRunner().invoke(main, [str(word) for word in words], input=text)
    assert done.exit_code == code, (words, done.output, done.exception)
    assert "Traceback" not in done.output
    return done
