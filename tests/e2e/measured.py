"""A program, and what it took. Linux counts in the peak of a process what the one that started it had
ever held, so it is started by one that holds next to nothing."""
import json
import os
import pathlib
import resource
import subprocess
import sys
from typing import NamedTuple


class Measured(NamedTuple):
    """Exit code, negative after a signal; processor seconds of the user; most bytes held."""
    code: int
    seconds: float
    peak: int


def measured(command, output):
    """Runs a command whose stdout and stderr are `output`."""
    reader, writer = os.pipe()
    with open(reader) as report:
        try:
            starter = [sys.executable, "-I", "-S", str(pathlib.Path(__file__)), str(writer)]
            subprocess.run([*starter, *map(str, command)], stdout=output, stderr=output,
                           pass_fds=[writer], check=True)
        finally:
            os.close(writer)
        return Measured(*json.load(report))


def start(report, command):
    code = subprocess.run(command).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.write(report, json.dumps([code, used.ru_utime, used.ru_maxrss << 10]).encode())


if __name__ == "__main__":
    start(int(sys.argv[1]), sys.argv[2:])
