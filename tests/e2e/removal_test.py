"""One sample taken out of a recorded step: rlreplay train --without-sample.

usage: removal_test.py PROGRAM"""
import os
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--num-rollout", "2", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
       "--rollout-max-response-len", "6", "--global-batch-size", "3", "--record", "ops"]


class Removal(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *RUN, "--weights", "all")

    def removed(self, sample, *arguments, dump=None, code=0):
        *steps, verdict = self.lines("train", dump or self.dump, "--without-sample", str(sample), *arguments,
                                     code=code)
        return steps, verdict

    def test_the_step_is_taken_whole_and_without_the_sample(self):
        steps, verdict = self.removed(4)
        self.assertEqual((verdict["step"], verdict["sample"], verdict["identical"]), ("0.1", 4, True))
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in steps], [(0, 1), (0, 1), (1, 0), (1, 1)])
        whole, without, *later = steps
        self.assertEqual(whole["grad_norm"], verdict["grad_norm"])
        self.assertEqual(without["grad_norm"], verdict["grad_norm_without"])
        self.assertNotEqual(whole["grad_norm_bits"], without["grad_norm_bits"])
        self.assertFalse(any(s["identical"] for s in later))
        self.assertTrue(any(g["touched"] == g["elements"] and g["norm"] > 0 for g in verdict["gradients"]))

    def test_no_layout_and_no_micro_batch_is_seen_in_it(self):
        want = self.removed(1, "--steps", "0.0")[1]
        for words in (["--layout", "dp=2,tp=2"], ["--layout", "pp=2,zero=0", "--micro-batch-size", "1"]):
            self.assertEqual(self.removed(1, "--steps", "0.0", *words)[1], want)

    def test_a_record_that_the_step_does_not_give_is_a_finding(self):
        disturbed = self.folder / "disturbed"
        self.run_program("train", self.dump, "--inject", "0.0/backward/0/down/dx:5:1", "-o", disturbed)
        self.assertFalse(self.removed(1, "--steps", "0.0", dump=disturbed, code=1)[1]["identical"])

    def test_a_table_for_people(self):
        said = self.run_program("train", self.dump, "--without-sample", "8").stdout
        self.assertIn("step 1.0 twice from its recorded state: as recorded (identical), then\n", said)
        self.assertIn("more parameters (--all lists them)\nthe steps behind it ran freely", said)

    def test_what_does_not_go_is_refused_by_name(self):
        one, _ = self.capture("one", *RUN[:-4], "--global-batch-size", "1", "--weights", "first")
        for code, words, arguments in (
                (2, "ids from 0 to 11", [self.dump, "--without-sample", "99"]),
                (2, "-1 is no id", [self.dump, "--without-sample", "-1"]),
                (2, "ids from 0 to 2", [self.dump, "--without-sample", "4", "--steps", "0.0..0.0"]),
                (2, "is the only one of step 0.0", [one, "--without-sample", "0"]),
                (2, "not with --each-step", [self.dump, "--without-sample", "4", "--each-step"]),
                (2, "are for --from", ["--model", "demo", "--without-sample", "4"]),
                (4, "--kernels torch", [self.dump, "--without-sample", "4", "--kernels", "torch"])):
            with self.subTest(words):
                result = self.run_program("train", *arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(words, result.stderr.replace("\n", " "))

    def test_the_state_before_the_step_is_needed(self):
        first, _ = self.capture("first", *RUN, "--weights", "first")
        self.removed(1, dump=first)
        result = self.run_program("train", first, "--without-sample", "4")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no state before step 0.1", result.stderr.replace("\n", " "))


if __name__ == "__main__":
    unittest.main()
