"""--steps opens nothing outside of the steps that it names: other units are damaged."""
import shutil
import sys
import unittest

import support

RUN = ("--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2", "--weights", "all")
CHOSEN = "1.0..2.0"


class ChosenSteps(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole, _ = cls.capture("whole", *RUN, "--steps", "4")
        cls.torn = cls.folder / "torn"
        shutil.copytree(cls.whole, cls.torn)
        cls.left_out = []
        for unit in cls.torn.rglob("*.h5"):
            name = unit.relative_to(cls.torn).parts[1].removesuffix(".h5")
            kind, rollout = unit.relative_to(cls.torn).parts[0], name.split("-")[0]
            # A state may be stored as a difference from one before it.
            if rollout in ("1", "2") or (kind, rollout) == ("weights", "0"):
                continue
            data = bytearray(unit.read_bytes())
            data[len(data) // 2] ^= 1
            unit.write_bytes(data)
            cls.left_out.append(unit)
        assert len(cls.left_out) >= 5, cls.left_out

    def output(self, *arguments, dump, code=0):
        done = self.run_program(*arguments, dump, "--steps", CHOSEN)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout.replace(str(dump), "DUMP")

    def test_every_unit_that_is_read_matters(self):
        for arguments in (("mismatch",), ("diff", self.whole), ("export", "--to", "jsonl", "-o", "-")):
            with self.subTest(verb=arguments[0]):
                done = self.run_program(*arguments, self.torn)
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)

    def test_mismatch_measures_them_alone(self):
        self.assertEqual(self.output("mismatch", dump=self.torn), self.output("mismatch", dump=self.whole))
        one, = self.lines("mismatch", self.torn, "--steps", "1.0")
        two, = self.lines("mismatch", self.torn, "--steps", CHOSEN)
        self.assertLess(one["tokens"], two["tokens"])

    def test_diff_compares_them_alone(self):
        for a, b in ((self.whole, self.torn), (self.torn, self.whole)):
            found, = self.lines("diff", a, b, "--steps", CHOSEN)
            self.assertTrue(found["identical"])
            self.assertIn(f"of --steps {CHOSEN} alone: nothing else was opened", found["notes"])
        other, _ = self.capture("other", *RUN, "--steps", "4", "--lr", "1e-3")
        self.lines("diff", other, self.torn, "--steps", "1", code=1)

    def test_export_writes_them_alone(self):
        lines = self.output("export", "--to", "jsonl", "-o", "-", dump=self.torn)
        self.assertEqual(lines, self.output("export", "--to", "jsonl", "-o", "-", dump=self.whole))
        whole = self.run_program("export", self.whole, "--to", "jsonl", "-o", "-").stdout.splitlines()
        self.assertEqual(lines.splitlines(), [line for line in whole if '"rollout_id":1,' in line
                                              or '"rollout_id":2,' in line])
        refused = self.run_program("export", self.torn, "--to", "slime", "-o", self.folder / "files",
                                   "--steps", CHOSEN)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("files of a framework hold whole rollouts", refused.stderr)

    def test_train_opens_them_alone(self):
        for more in (), ("--each-step",), ("-o", self.folder / "again"):
            done = self.run_program("train", self.torn, "--steps", CHOSEN, *more)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("identical", done.stdout)
        refused = self.run_program("train", self.torn, "--steps", "3")
        self.assertEqual(refused.returncode, 3, refused.stdout + refused.stderr)

    def test_a_step_without_a_sample_is_read_alone(self):
        step = self.run_program("train", self.torn, "--steps", CHOSEN, "--without-sample", "8")
        self.assertEqual(step.returncode, 0, step.stdout + step.stderr)

    def test_steps_that_are_not_there(self):
        for verb in (("mismatch",), ("diff", self.whole), ("export", "--to", "jsonl", "-o", "-")):
            done = self.run_program(*verb, self.torn, "--steps", "2..7")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("the dump has 4 steps, counted from 0: the last is 3", done.stderr)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
