"""A trainer that knows nothing of rlreplay is gated from nothing by what docs/golden.md says, and its two snippets for
continuous integration do as they stand.

usage: gate_trainer_test.py PROGRAM"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

from support import Case

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

Case.program = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "tests/bisect/numpy_trainer.py").read_text()
PAGE = (ROOT / "docs/golden.md").read_text()
TRAINER = re.search(r"## Your own trainer.*?```sh\n(.*?)```", PAGE, re.S)[1].splitlines()

HOOK = re.search(r"entry: (.*)", (ROOT / ".pre-commit-hooks.yaml").read_text())[1]


def scripts_of_ci():
    """The commands of each block of YAML on the page."""
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        yield re.findall(r"^ *(?:- )?(rlreplay .*)$", block, re.M)


class Trainer(Case):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        programs = self.tree / "bin"
        programs.mkdir(parents=True)
        python = programs / "python"
        python.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} \"$@\"\n")
        python.chmod(0o755)
        path = [str(programs), os.path.dirname(Case.program), os.environ["PATH"]]
        self.environment = {**os.environ, "PATH": os.pathsep.join(path), "HOME": str(self.tree),
                            "GIT_CONFIG_GLOBAL": "/dev/null"}
        for who in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{who}_NAME": "n", f"GIT_{who}_EMAIL": "e@x"}
        self.environment.pop("CI", None)
        (self.tree / "train.py").write_text(SCRIPT)
        (self.tree / ".gitignore").write_text("bin\ngolden.*\n")
        self.run_lines(["git init -q", "git add .", "git commit -qm 'A trainer'"])

    def run_lines(self, lines, code=0, **variables):
        result = subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=self.tree, text=True, capture_output=True,
                                env={**self.environment, **variables})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout

    def test_the_page_is_followed(self):
        self.assertLess(len(TRAINER), 10)
        self.assertIn("match: goldens/train@", self.run_lines(TRAINER))
        scripts = list(scripts_of_ci())
        self.assertEqual([len(lines) for lines in scripts], [3, 3])
        for lines in scripts:
            self.run_lines(lines, CI="true")
        self.run_lines([HOOK + " goldens/*.txt"])
        (self.tree / "train.py").write_text(SCRIPT.replace("rewards.std()", "rewards.std(ddof=1)"))
        self.run_lines(["git commit -qam 'Another estimate'"])
        for lines, word in zip(scripts, ("::error file=goldens/train@", "regression: ")):
            said = self.run_lines(lines, code=1, CI="true")
            self.assertIn(word, said)
            self.assertIn("of 11 values differ", said)
        self.assertIn("<failure", (self.tree / "golden.xml").read_text())
        self.assertIn('"critical"', (self.tree / "golden.json").read_text())
        self.assertEqual(self.run_lines(["git status --porcelain"]), "")
        self.run_lines(TRAINER[2:], code=1)
        self.run_lines(["rlreplay golden accept goldens --reason 'an unbiased estimate'", *TRAINER[1:]])


if __name__ == "__main__":
    unittest.main()
