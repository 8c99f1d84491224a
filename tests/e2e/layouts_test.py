"""Training in parallel layouts: the same dumps, replays across layouts, and the matrix of one step.

usage: layouts_test.py PROGRAM"""
import os
import subprocess
import sys
import unittest

from support import Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--steps", "2", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
       "--rollout-max-response-len", "6", "--weights", "all"]


class Layouts(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone, cls.steps = cls.capture("alone", *RUN, "--record", "ops")

    def judged(self, code, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_a_capture_in_a_layout_is_the_capture_of_one_rank(self):
        for layout in ("dp=2,tp=2,zero=1", "tp=2,pp=2,cp=2,sp=1"):
            with self.subTest(layout):
                path, steps = self.capture("in " + layout, *RUN, "--record", "ops", "--layout", layout)
                for here, there in zip(steps, self.steps, strict=True):
                    for key in ("loss_bits", "grad_norm_bits"):
                        self.assertEqual(here[key], there[key])
                self.judged(0, "verify", "--deep", path)
                self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)
                self.judged(0, "train", path)
                self.judged(0, "train", path, "--layout", "pp=2,cp=2")

    def test_a_capture_goes_on_in_another_layout(self):
        path = self.folder / "goes on"
        begun = subprocess.Popen([self.program, "capture", *RUN, "--record", "ops", "--layout", "dp=3", "-o", path],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: begun.poll() is not None or (path / "train").exists())
        begun.kill()
        begun.wait()
        self.judged(0, "capture", "--resume", "--layout", "tp=4", "-o", path)
        self.judged(0, "diff", self.alone, path)

    def test_the_matrix_of_one_step(self):
        result = self.judged(0, "layouts", self.alone, "--ranks", "2")
        self.assertIn("dp=1,tp=2,pp=1,cp=1", result.stdout)
        self.assertTrue(result.stdout.endswith("5 layouts: all identical\n"), result.stdout)
        lines = self.lines("layouts", self.alone, "--try", "dp=2,tp=2;tp=8", "--step", "1.0")
        self.assertEqual([line["layout"] for line in lines],
                         ["dp=2,tp=2,pp=1,cp=1", "dp=1,tp=8,pp=1,cp=1"])
        self.assertTrue(all(line["identical"] and line["events"] > 100 for line in lines))

    def test_a_record_with_another_number_differs_in_every_layout(self):
        disturbed = self.folder / "disturbed"
        self.judged(1, "train", self.alone, "--inject", "0.0/backward/0/down/dx:5:1", "-o", disturbed)
        lines = self.lines("layouts", disturbed, "--try", ";tp=2", "--step", "0.0", code=1)
        self.assertEqual([(line["identical"], line["first_difference"]) for line in lines],
                         [(False, "backward/0/down/dx")] * 2)
        result = self.judged(1, "layouts", disturbed, "--try", "dp=2", "--step", "0.0")
        self.assertIn("1 layout: 1 NOT identical to the record", result.stdout)

    def test_what_does_not_go_is_refused_by_name(self):
        for code, words, arguments in (
                (2, "\"xp=2\" is none of dp=", ["train", "--model", "demo", "--layout", "xp=2"]),
                (4, "tp must divide 8", ["train", "--model", "demo", "--layout", "tp=3"]),
                (4, "of 4 ranks these do", ["train", "--model", "demo", "--layout", "pp=4"]),
                (4, "runs in one rank", ["train", "--model", "demo", "--layout", "dp=2", "--kernels",
                                         "torch"]),
                (4, "share the steps", ["capture", *RUN, "--rollout-only", "--layout", "dp=2", "-o",
                                        self.folder / "none"]),
                (4, "--inject", ["train", self.alone, "--layout", "dp=2", "--inject",
                                 "0.0/backward/0/down/dx:5:1"]),
                (2, "--try", ["layouts", self.alone, "--try", "dp=x"]),
                (4, "pp is larger", ["layouts", self.alone, "--try", "pp=3"])):
            with self.subTest(arguments):
                result = self.judged(code, *arguments)
                self.assertIn(words, result.stderr.replace("\n", " "))


if __name__ == "__main__":
    unittest.main()
