"""Tables for people fit a terminal of 80 columns, whatever the dump holds.
usage: tables_test.py PROGRAM
"""
import json
import os
import re
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

DEMO = ["--model", "demo", "--rollout-batch-size", "4", "--steps", "2"]
LONG = 9_100_000_000_000_000_000  # ids of 19 digits
# Lines to be copied, or words that cannot be parted: commands, paths, hashes.
COPIED = re.compile(r"rlreplay (show|objective|train|diff|verify|mismatch|export) |/tmp/|^command +")


def lines_of(long):
    """Two rollouts of groups of two, with numbers that print long."""
    for rollout in range(2):
        for i in range(4):
            at = long * LONG + rollout * 10 + i
            mask = [1] * (30 * i + 3)
            sample = {"rollout_id": rollout, "sample_id": at, "tokens": [5] + [6] * len(mask),
                      "prompt_length": 1, "loss_mask": mask}
            apart = [-1.2345678e-5 * (t + 1 + i) for t in range(len(mask))]
            yield {"schema": "rlreplay.sample/1", "log_probs": [-0.123456789 + a for a in apart],
                   "group_id": long * LONG + i // 2, "reward": -0.123456789 * i, "finish": "length",
                   "response": "wörter und nochmals Wörter " * 9} | sample
            yield {"schema": "rlreplay.train/1", "step_id": 0, "rank": 0,
                   "log_probs": [-0.123456789] * len(mask), "ref_log_probs": apart,
                   "advantages": [-1.23456789e-7 * i] * len(mask),
                   "returns": [-1.23456789e-7] * len(mask)} | sample


class Tables(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("demo", *DEMO)
        cls.dumps = [dump]
        cls.others = [cls.capture("other", *DEMO, "--lr", "0.0007")[0]]
        for name, long in [("short", 0), ("long", 1)]:
            path = cls.folder / f"{name}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines_of(long)))
            assert cls.run_program("import", path, "-o", cls.folder / name).returncode == 0
            cls.dumps.append(cls.folder / name)
            path.write_text(path.read_text().replace("-0.12345", "-0.12346"))
            cls.run_program("import", path, "-o", cls.folder / (name + " 2"))
            cls.others.append(cls.folder / (name + " 2"))

    def check(self, *arguments):
        result = self.run_program(*arguments)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        self.assertTrue(result.stdout)
        wide = [line for line in result.stdout.splitlines()
                if len(line) > 80 and not COPIED.search(line)]
        self.assertEqual(wide, [], arguments)
        return result.stdout

    def test_every_verb_that_prints_a_table(self):
        for dump, other in zip(self.dumps, self.others):
            for words in (["show"], ["show", "--samples"], ["mismatch"], ["objective"],
                          ["objective", "--all", "--calculate-per-token-loss", "--kl-coef", "0.1"]):
                with self.subTest(words=words, dump=dump.name):
                    self.check(words[0], dump, *words[1:])
            with self.subTest(words="diff", dump=dump.name):
                self.check("diff", dump, other)

    def test_events(self):
        self.check("show", self.dumps[0], "--event", "0.0/optimizer/0/weight/model.layers.0.mlp.down_proj.weight")
        self.check("show", self.dumps[0], "--step", "0.0")
        self.check("train", self.dumps[0], "--forward")

    def test_what_does_not_fit_is_not_left_out(self):
        shown = self.check("show", self.dumps[2], "--samples")
        for i in range(4):
            self.assertEqual(len(re.findall(rf"\b{LONG + i}\b", shown)), 5 if i < 2 else 1, shown)
        self.assertEqual(shown.count("    wörter und"), 8)
        self.assertIn("    text\n", shown)


if __name__ == "__main__":
    unittest.main()
