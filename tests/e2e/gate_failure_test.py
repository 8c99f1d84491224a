"""What a gate says where it cannot judge: damaged files, runs that fail, places that cannot be written.

usage: gate_failure_test.py PROGRAM"""
import os
import pathlib
import subprocess
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = "cat numbers.json > $RLBISECT_OUT/metrics.json"
NUMBERS = '{"loss": [0.75, 0.5], "grad_norm": [1.5, 1.25]}'
OTHERS = RUN + "; echo '{\"loss\": [9]}' >$RLBISECT_OUT/metrics.json"


class GateFailure(Case):
    def setUp(self):
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        self.tree.mkdir()
        git = ["git", "-c", "user.name=n", "-c", "user.email=e@x"]
        (self.tree / "numbers.json").write_text(NUMBERS)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A training run"]):
            subprocess.run([*git, *words], cwd=self.tree, check=True)

    def golden(self, *words, code=0):
        environment = {k: v for k, v in os.environ.items() if k != "CI"}
        result = subprocess.run([Case.program, "golden", *words], cwd=self.tree, text=True, timeout=300,
                                capture_output=True, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def record(self, name="train.txt"):
        (self.tree / "goldens").mkdir(exist_ok=True)
        self.golden("record", f"goldens/{name}", "--run", RUN, "--class", "any")

    def pending(self):
        return list((self.tree / ".git/rlreplay/pending").rglob("*.txt"))

    def test_a_damaged_file_is_not_passed_over(self):
        """Whatever its first line has become: a folder with it is not green."""
        check = ["check", "goldens", "--run-recorded"]
        self.record()
        self.record(name="other.txt")
        whole, file = (self.tree / "goldens/other.txt").read_text(), self.tree / "goldens/other.txt"
        for text in ("<<<<<<< HEAD\n" + whole, whole.split("\n", 1)[1], "\ufeff" + whole, "\n" + whole, whole[:10]):
            with self.subTest(text[:20]):
                file.write_text(text)
                said = self.golden(*check, code=3).stdout
                self.assertIn("match: goldens/train.txt", said)
                self.assertIn("not judged: goldens/other.txt", said)
        file.unlink()
        for make in (lambda: file.symlink_to("nowhere"), lambda: os.mkfifo(file)):
            make()
            self.assertIn("not judged: goldens/other.txt", self.golden(*check, code=3).stdout)
            file.unlink()
        (self.tree / "goldens/notes.txt").write_text("why these are golden\n")
        self.golden(*check)

    def test_a_run_that_fails_after_its_numbers_is_not_judged(self):
        self.record()
        failing = ["--run", RUN + "; exit 3"]
        self.assertIn("failed with exit code 3", self.golden("check", "goldens", *failing, code=3).stdout)
        self.golden("record", "goldens/new.txt", *failing, "--class", "any", code=3)
        self.assertFalse((self.tree / "goldens/new.txt").exists())
        self.golden("check", "goldens", "--run", OTHERS, code=1)
        self.assertEqual(len(self.pending()), 1)
        self.golden("check", "goldens", *failing, code=3)
        self.assertEqual(self.pending(), [], "a candidate outlived a later check")
        said = self.golden("check", "goldens/train.txt", "--run", "exit 7", code=2).stderr
        self.assertIn("nothing but its exit code, 7", said)

    def test_a_blank_reason_is_none(self):
        self.record()
        self.golden("check", "goldens", "--run", OTHERS, code=1)
        self.golden("accept", "goldens", "--reason", " ", code=2)
        self.assertEqual(len(self.pending()), 1)

    def test_a_difference_is_said_where_no_candidate_can_be_kept(self):
        self.record()
        (self.tree / ".git/rlreplay").write_text("in the way of a folder\n")
        said = self.golden("check", "goldens", "--run", OTHERS, code=1)
        self.assertIn("regression: goldens/train.txt", said.stdout)
        self.assertIn("rlreplay: no candidate is kept: ", said.stderr)


if __name__ == "__main__":
    unittest.main()
