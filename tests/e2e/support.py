"""What the tests of whole programs share."""
import json
import os
import pathlib
import pickle
import pty
import random
import shutil
import subprocess
import tempfile
import time
import unittest
import zipfile

import json_schema

FULL = os.environ.get("RLREPLAY_FULL") == "1"
CLOSING = ("rlreplay.replay/1", "rlreplay.rollout.replay/1")
SEED = int(os.environ.get("RLREPLAY_SEED", random.randrange(1 << 30)))
STAGED = ".rlreplay-new"  # beside a name, what is to take it
os.environ.pop("CI", None)  # where it is set no golden file is written: who tests that sets it


def files(path):
    """The content of each file below a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def wait_for(condition):
    deadline = time.monotonic() + 300  # of what hangs, not of what is slow
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.002)


def memory_folder():
    """A folder that goes with the process, as all that are made from now on: in memory where there is room
    for it, since a disk would spend the time on making small files durable."""
    if os.path.isdir("/dev/shm"):
        tempfile.tempdir = "/dev/shm"
    return tempfile.TemporaryDirectory(prefix="rlreplay test ")


class Case(unittest.TestCase):
    """A folder of its own for the class, with a space in its path, and the programs."""
    program = None  # rlreplay
    rlbisect = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay test "))
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    @classmethod
    def run_program(cls, *arguments, program=None, **options):
        """What it prints with --json must be as docs/json/ says."""
        command = [str(program or cls.program), *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
        if {"--json", "--help-json"} & set(command):
            json_schema.check_output(command, result.stdout)
        return result

    @classmethod
    def lines(cls, *arguments, code=0, program=None):
        """The JSON lines that the program prints, but the closing one of a replay; its exit code
        must be `code`."""
        result = cls.run_program(*arguments, "--json", program=program)
        if result.returncode != code:
            raise AssertionError(f"{arguments}: exit {result.returncode}, not {code}\n"
                                 f"{result.stdout[-2000:]}{result.stderr[-2000:]}")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        return [line for line in lines if line.get("schema") not in CLOSING]

    @classmethod
    def closing(cls, *arguments, code=0):
        """The closing line of a replay: what was compared."""
        result = cls.run_program(*arguments, "--json")
        if result.returncode != code:
            raise AssertionError(f"{arguments}: exit {result.returncode}, not {code}\n"
                                 f"{result.stdout[-2000:]}{result.stderr[-2000:]}")
        return json.loads(result.stdout.splitlines()[-1])

    @classmethod
    def terminal(cls, stream, *arguments, **environment):
        """What the program writes to "stdout" or "stderr" where that is a terminal."""
        leader, follower = pty.openpty()
        variables = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        process = subprocess.Popen([cls.program, *map(str, arguments)],
                                   **{"stdout": subprocess.DEVNULL, stream: follower},
                                   env={**variables, "TERM": "xterm", **environment})
        os.close(follower)
        out = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
        os.close(leader)
        if process.wait() != 0:
            raise AssertionError(f"{arguments}: exit {process.returncode}\n{out.decode()}")
        return out.decode().replace("\r\n", "\n")

    @classmethod
    def capture(cls, name, *arguments):
        """Captures into a dump of this name; returns its path and the lines of its steps."""
        path = cls.folder / name
        return path, cls.lines("capture", *arguments, "-o", path)


def save(path, content):
    """A file as torch.save writes it, of lists and numbers alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(path.stem + "/data.pkl", pickle.dumps(content, 2))
        archive.writestr(path.stem + "/version", "3\n")


def bits(step):
    """What two runs of the same step must agree on, of a JSON line of it."""
    return {key: value for key, value in step.items()
            if key.endswith(("_digest", "_bits", "_id"))}


def patched(path):
    """A dump in memory, to be changed and written. Skips the test where the packages for it lack."""
    try:
        from dump_patch import Patched
    except ImportError as lacks:
        raise unittest.SkipTest(str(lacks)) from lacks
    return Patched(path)


def root(program, path):
    result = subprocess.run([program, "verify", "--json", str(path)], capture_output=True,
                            text=True, check=True)
    return json.loads(result.stdout)["root"]
