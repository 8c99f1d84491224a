"""What the tests of rlbisect as a program share."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "e2e"))  # behind: it has a support.py, too

import json_schema
from histories import GIT_ENVIRONMENT, git, make_repository

FULL = os.environ.get("RLREPLAY_FULL") == "1"
SEED = int(os.environ.get("RLREPLAY_SEED", random.randrange(1 << 30)))


def snapshot(folder):
    """Every file of a checkout, the index and HEAD with it, byte for byte."""
    checkout = {path.relative_to(folder): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file() and ".git" not in path.relative_to(folder).parts}
    state = {name: (folder / ".git" / name).read_bytes() for name in ("HEAD", "index")}
    return checkout, state, git(folder, "worktree", "list"), git(folder, "for-each-ref")


class Case(unittest.TestCase):
    """A folder of its own, with spaces in its path, and a repository in it."""
    program = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rlbisect test "))
        self.addCleanup(shutil.rmtree, self.folder)
        self.temporary = self.folder / "tmp dir"
        self.temporary.mkdir()
        self.environment = {**GIT_ENVIRONMENT, "TMPDIR": str(self.temporary)}

    def repository(self, *revisions):
        """Commits that differ in run.sh, a line of shell each; returns path and hashes."""
        path = self.folder / "my repo"
        return path, make_repository(path, [{"run.sh": "#!/bin/sh\n" + text + "\n",
                                             "n.txt": str(i)} for i, text in enumerate(revisions)])

    def bisect(self, *arguments, folder=None, **options):
        """What it prints with --json must be as docs/json/ says."""
        command = [self.program, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, env=self.environment, cwd=folder,
                                **options)
        if "--json" in command:
            json_schema.check_output(command, result.stdout)
        return result

    def search(self, path, good, bad, *arguments, run="./run.sh", **options):
        result = self.bisect(f"{good}..{bad}", "--repo", path, "--run", run, "--json", *arguments, **options)
        lines = result.stdout.splitlines()
        return result, json.loads(lines[0]) if lines else {}

    def assert_nothing_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [])


def git_bisect(case, history):
    """The answer of the real git bisect, with the verdict of rlbisect."""
    good, bad = history.commits[0], history.commits[-1]
    clone = case.folder / (history.path.name + " clone")
    git(case.folder, "clone", "-q", str(history.path), str(clone))
    git(clone, "checkout", "-q", "--detach", good)
    reference = case.folder / (history.path.name + " reference")
    reference.mkdir()
    subprocess.run("./build.sh && ./run.sh", shell=True, cwd=clone, check=True,
                   env={**case.environment, "RLBISECT_OUT": str(reference)})
    git(clone, "bisect", "start", bad, good)
    result = subprocess.run(
        ["git", "-C", str(clone), "bisect", "run", case.program, "verdict", "--build", "./build.sh",
         "--run", "./run.sh", "--reference", str(reference)],
        capture_output=True, text=True, env=case.environment)
    log = git(clone, "bisect", "log").splitlines()
    possible = [line.split("[")[1][:40] for line in log if "possible first bad" in line]
    single = [line.split("[")[1][:40] for line in log if "# first bad commit" in line]
    case.assertTrue(single or possible, result.stdout + result.stderr)
    return set(single or possible)
