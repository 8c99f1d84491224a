"""A program, and what it took. Linux counts in the peak of a process what the one that started it had
ever held, so it is started by one that holds next to nothing."""
import json
import os
import pathlib
import resource
import subprocess
import sys
from typing import NamedTuple

PATIENCE = 60  # seconds of a processor, for programs that need a few: what takes the square of its input is killed


class Measured(NamedTuple):
    """Exit code, negative after a signal; most bytes held."""
    code: int
    peak: int


def impatient():
    """To be called in a child before it becomes the program."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 5))  # SIGXCPU first, which says what it was


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
    code = subprocess.run(command, preexec_fn=impatient).returncode
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    os.write(report, json.dumps([code, peak]).encode())


if __name__ == "__main__":
    start(int(sys.argv[1]), sys.argv[2:])
