"""What `golden check --on-fail bisect` searches: the gate's question, where and how long the check runs.

usage: gate_search_test.py PROGRAM"""
import os
import subprocess
import sys
import unittest

from gate_case import NUMBERS, RUN, GateCase

GateCase.program = os.path.abspath(sys.argv.pop(1))
CHECK = ["check", "goldens", "--run-recorded", "--on-fail", "bisect"]
IGNORED = "search: bit for bit, the file's tolerances are ignored"


class Search(GateCase):
    def change(self, loss, message):
        self.numbers(NUMBERS.replace("0.75", loss))
        self.save(message)

    def save(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def history(self, *tolerance):
        """A harmless change and a guilty one after a golden file with a tolerance."""
        self.record(*tolerance)
        self.save("Gate it")
        for loss, message in (("0.7500000000000001", "HARMLESS"), ("0.25", "GUILTY"), ("0.25", "Later")):
            self.change(loss, message)
        return self.golden(*CHECK, code=1).stdout

    def hang_between(self):
        """A script that is gated, then hangs for a commit, and a guilty change after it."""
        (self.tree / "run.sh").write_text(RUN)
        self.save("A script")
        self.record(run="sh run.sh")
        self.save("Gate it")
        (self.tree / "run.sh").write_text("sleep 1000")
        self.save("Hangs")
        (self.tree / "run.sh").write_text(RUN)
        self.change("0.25", "GUILTY")

    def test_an_absolute_bound_is_searched_with(self):
        said = self.history("--tolerance", "step * loss=0.001 absolute: two kinds of cards")
        self.assertRegex(said, r"culprit +\w+ GUILTY ")
        self.assertRegex(said, "compared +loss of metrics.json, within 0.001\n")
        self.assertNotIn("ignored", said)

    def test_exact_numbers_are_searched_for_alone(self):
        said = self.history("--tolerance", "step * grad_norm=4 ulps: two kinds of cards")
        self.assertRegex(said, r"culprit +\w+ HARMLESS ")
        self.assertRegex(said, "compared +loss of metrics.json, bit for bit\n")
        self.assertNotIn("ignored", said)

    def test_a_search_that_holds_no_tolerance_says_so(self):
        for tolerance in (["step * loss=100 ulps: a"], ["step * loss=1e-6 relative: a"],
                          ["step 0 loss=0.001 absolute: a", "--tolerance", "step 1 loss=0.01 absolute: b"],
                          ["step * loss=0.001 absolute: a", "--tolerance", "step * loss*=4 ulps: b"]):
            with self.subTest(tolerance):
                self.file().unlink(missing_ok=True)
                self.change("0.75", "As at first")
                said = self.history("--tolerance", *tolerance)
                self.assertLess(said.index(IGNORED), said.index("culprit"))
                self.assertRegex(said, r"culprit +\w+ HARMLESS ")
                self.assertIn("\nconfirmed  the first change of bits, tolerances ignored: bad in 2 of 2", said)

    def test_drift_is_the_first_change_of_bits(self):
        self.record("--tolerance", "step * loss=100 ulps: cards")
        self.save("Gate it")
        self.change("0.7500000000000001", "GUILTY")
        self.save("Later")
        said = self.golden(*CHECK, code=1).stdout
        self.assertIn("code drift: ", said)
        self.assertRegex(said, r"culprit +\w+ GUILTY ")
        self.assertNotIn("ignored", said)

    def test_a_commit_that_hangs_is_left_out(self):
        self.hang_between()
        self.save("Later")
        said = self.golden(*CHECK, "--time-limit", "5", code=1).stdout
        self.assertIn("Hangs", said)
        self.assertIn("GUILTY", said)
        self.assertIn("--timeout 5", said)

    def test_a_verdict_stands_before_the_search(self):
        self.hang_between()
        with subprocess.Popen([self.program, "golden", *CHECK, "--time-limit", "60"], cwd=self.tree, text=True,
                              stdout=subprocess.PIPE, env=self.environment) as process:
            self.assertIn("regression: goldens/train.txt", process.stdout.readline())
            self.assertIsNone(process.poll())
            process.terminate()
            process.communicate(timeout=100)

    def test_a_command_is_run_where_the_check_runs_it(self):
        package = self.tree / "a pkg"
        package.mkdir()
        (package / "run.sh").write_text("cat mine.json > $RLBISECT_OUT/metrics.json")
        (package / "mine.json").write_text(NUMBERS)
        self.save("A package")
        self.tree = package
        self.record(run="sh run.sh")
        self.save("Gate it")
        (package / "mine.json").write_text(NUMBERS.replace("0.75", "0.25"))
        self.save("GUILTY")
        self.save("Later")
        said = self.golden(*CHECK, code=1).stdout
        self.assertRegex(said, r"culprit +\w+ GUILTY ")
        self.tree = package.parent.parent
        said = self.golden("check", f"{package}/goldens", "--run", f"cd '{package}'; sh run.sh", *CHECK[3:], code=1)
        self.assertIn("no search: the working folder is not in the file's checkout", said.stdout)


if __name__ == "__main__":
    unittest.main()
