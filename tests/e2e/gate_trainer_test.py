"""A trainer that knows nothing of rlreplay is gated from nothing by what docs/golden.md says, and its two snippets for
continuous integration do as they stand.

usage: gate_trainer_test.py PROGRAM"""
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/golden.md").read_text()
TRAINER = re.search(r"## Your own trainer.*?```sh\n(.*?)```", PAGE, re.S)[1].splitlines()

MACHINE = platform.machine()
HOOK = re.search(r"entry: (.*)", (ROOT / ".pre-commit-hooks.yaml").read_text())[1]


def scripts_of_ci():
    """The commands of each block of YAML on the page."""
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        yield re.findall(r"^ *(?:- )?(rlreplay .*)$", block, re.M)


def find_python(package):
    """One that has it: the test's own, or the system's, where Debian puts python3-torch."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0:
            return python
    return None


class Trainer:
    """A script, what of it a commit changes, and the package that it needs."""

    def setUp(self):
        super().setUp()
        interpreter = find_python(self.package)
        if interpreter is None:
            self.skipTest(f"no Python here has {self.package}")
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        programs = self.tree / "bin"
        programs.mkdir(parents=True)
        python = programs / "python"
        python.write_text(f"#!/bin/sh\nexec {shlex.quote(interpreter)} \"$@\"\n")
        python.chmod(0o755)
        path = [str(programs), os.path.dirname(Case.program), os.environ["PATH"]]
        self.environment = {**os.environ, "PATH": os.pathsep.join(path), "HOME": str(self.tree),
                            "GIT_CONFIG_GLOBAL": "/dev/null"}
        for who in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{who}_NAME": "n", f"GIT_{who}_EMAIL": "e@x"}
        self.environment.pop("CI", None)
        (self.tree / "train.py").write_text(self.script)
        (self.tree / ".gitignore").write_text("bin\ngolden.*\n")
        self.run_lines(["git init -q", "git add .", "git commit -qm 'A trainer'"])

    def run_lines(self, lines, code=0, **variables):
        result = subprocess.run(["bash", "-ec", "\n".join(lines)], cwd=self.tree, text=True, capture_output=True,
                                env={**self.environment, **variables})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout

    def change(self, message):
        changed = self.script.replace(*self.edit)
        self.assertNotEqual(changed, self.script)
        (self.tree / "train.py").write_text(changed)
        self.run_lines([f"git commit -qam '{message}'"])

    def test_the_page_is_followed(self):
        self.assertLess(len(TRAINER), 10)
        self.assertIn(f"match: goldens/train@{MACHINE}.txt, {self.values} values", self.run_lines(TRAINER))
        self.change("Another estimate")
        said = self.run_lines(TRAINER[2:], code=1)
        self.assertRegex(said, f"regression: .*, [1-9][0-9]* of {self.values} values differ\n")
        self.assertIn("  step 0 grad_norm: ", said)
        self.run_lines(["rlreplay golden accept goldens --reason 'another estimate'"])
        self.assertIn("another estimate", (self.tree / f"goldens/train@{MACHINE}.txt").read_text())


class TorchTrainer(Trainer, Case):
    package, values = "torch", 16
    script = (ROOT / "tests/e2e/torch_trainer.py").read_text()
    edit = ("rewards.std(1, keepdim", "rewards.std(1, unbiased=False, keepdim")

    def test_the_page_shows_what_it_does(self):
        shown = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
        for part in shown.split("...\n"):
            self.assertIn(part, self.script)
        self.assertLessEqual(self.script.count("\n"), 30)


class NumpyTrainer(Trainer, Case):
    package, values = "numpy", 11
    script = (ROOT / "tests/bisect/numpy_trainer.py").read_text()
    edit = ("rewards.std()", "rewards.std(ddof=1)")

    def test_its_snippets_of_ci(self):
        self.run_lines(TRAINER[:2])
        scripts = list(scripts_of_ci())
        self.assertEqual([len(lines) for lines in scripts], [3, 3])
        for lines in scripts:
            self.run_lines(lines, CI="true")
        self.run_lines([HOOK + " goldens/*.txt"])
        self.change("Another estimate")
        for lines, word in zip(scripts, ("::error file=goldens/train@", "regression: ")):
            said = self.run_lines(lines, code=1, CI="true")
            self.assertIn(word, said)
            self.assertIn("of 11 values differ", said)
        self.assertIn("<failure", (self.tree / "golden.xml").read_text())
        self.assertIn('"critical"', (self.tree / "golden.json").read_text())
        self.assertEqual(self.run_lines(["git status --porcelain"]), "")


if __name__ == "__main__":
    unittest.main()
