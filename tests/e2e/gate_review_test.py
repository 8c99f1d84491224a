"""What a review leaves alone: what has changed since it was shown, or is gone.

usage: gate_review_test.py PROGRAM"""
import os
import pty
import subprocess
import sys
import unittest

from gate_case import NUMBERS, GateCase

GateCase.program = os.path.abspath(sys.argv.pop(1))


class Review(GateCase):
    def setUp(self):
        super().setUp()
        for name in ("a.txt", "b.txt", "c.txt"):
            self.record(name=name)
        self.check("0.25")
        self.keyboard, theirs = pty.openpty()
        self.addCleanup(os.close, self.keyboard)
        self.process = subprocess.Popen([self.program, "golden", "review", "goldens"], cwd=self.tree, text=True,
                                        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=self.environment)
        os.close(theirs)
        self.shown = ""
        while "[q]uit? " not in self.shown:
            self.shown += os.read(self.process.stdout.fileno(), 65536).decode()
            self.assertTrue(self.shown)

    def check(self, loss):
        self.numbers(NUMBERS.replace("0.75", loss))
        self.golden("check", "goldens", "--run-recorded", code=1)

    def answer(self, keys, code):
        os.write(self.keyboard, keys)
        said = self.process.communicate(timeout=300)
        self.assertEqual(self.process.returncode, code, said)
        return said

    def test_a_candidate_that_nobody_saw_is_not_rejected(self):
        self.check("0.125")
        said = self.answer(b"r\n", 3)
        self.assertIn("has changed meanwhile, and is left as it is", said[1])
        self.assertNotIn("rejected: ", said[0])
        self.assertEqual(len(self.kept()), 3)

    def test_one_that_was_accepted_elsewhere_is_not_rejected(self):
        self.golden("accept", "goldens/a.txt", "--reason", "why")
        said = self.answer(b"r\n", 3)
        self.assertIn("has changed meanwhile, and is left as it is", said[1])
        self.assertNotIn("rejected: ", said[0])

    def test_a_review_goes_on_behind_a_candidate_that_is_gone(self):
        self.golden("reject", "goldens/b.txt")
        said = self.answer(b"s\nr\n", 0)[0]
        self.assertIn("goldens/b.txt: its candidate is gone: it was accepted or rejected elsewhere\n", said)
        self.assertIn("rejected: goldens/c.txt\n", said)
        self.assertIn("0 accepted, 1 rejected, 1 still pending\n", said)


if __name__ == "__main__":
    unittest.main()
