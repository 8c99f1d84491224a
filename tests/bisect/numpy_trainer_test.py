"""The worked example of docs/bisect.md, a trainer of its own with NumPy: the commit is found, and the page shows
the script and what is printed.
usage: numpy_trainer_test.py PROGRAM
"""
import os
import pathlib
import re
import sys
import unittest

from histories import make_repository
from support import Case

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

Case.program = os.path.abspath(sys.argv.pop(1))
SCRIPT = pathlib.Path(__file__).with_name("numpy_trainer.py").read_text()
PAGE = pathlib.Path(__file__).parents[2].joinpath("docs/bisect.md").read_text()
COUNT, CULPRIT = 16, 10


class NumpyTrainer(Case):
    def setUp(self):
        super().setUp()
        changed = SCRIPT.replace("rewards.std()", "rewards.std(ddof=1)")
        self.assertNotEqual(changed, SCRIPT)
        self.path = self.folder / "bandit"
        self.commits = make_repository(self.path, [
            {"NOTES": f"{i}\n", "train.py": changed if i >= CULPRIT else SCRIPT} for i in range(COUNT)])
        self.run_command = f"'{sys.executable}' train.py"

    def test_the_commit_is_found(self):
        result, found = self.search(self.path, self.commits[0], "main", run=self.run_command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(found["confirmed"])
        self.assertEqual(found["interval"], [self.commits[CULPRIT]])
        self.assert_nothing_left()

    def test_what_the_page_shows(self):
        self.assertIn(SCRIPT, PAGE)
        result = self.bisect(f"{self.commits[0]}..main", "--repo", self.path, "--run", self.run_command)
        line = re.search(r"bad: grad_norm at step 0: .*", result.stdout)
        self.assertIsNotNone(line, result.stdout + result.stderr)
        shape = re.compile(r"grad_norm at step 0: [\d.]+ where the reference has [\d.]+ \(6 of 11 numbers differ\)")
        self.assertRegex(line[0], shape)
        self.assertRegex(PAGE, shape)

    def test_what_repeats_in_spite_of_the_change_is_not_enough(self):
        result, found = self.search(self.path, self.commits[0], self.commits[CULPRIT - 1], run=self.run_command)
        self.assertEqual((result.returncode, found["confirmed"]), (1, False), result.stderr)


if __name__ == "__main__":
    unittest.main()
