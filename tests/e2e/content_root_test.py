"""The content root is what format/SPEC.md section 7 says, computed a second time in Python from what h5py
reads. usage: content_root_test.py RLREPLAY RLBISECT"""
import copy
import random
import shutil
import sys
import unittest

import numpy

import content
from dump_patch import STORED, Array, Patched
from equal_case import LINE, SMALL, EqualCase
from random_dump import random_dump
from support import FULL, SEED, Case

Case.program, Case.rlbisect = sys.argv[1:3]
del sys.argv[1:3]


class ContentRoot(EqualCase):
    def test_the_root_of_random_dumps_is_what_the_specification_says(self):
        choose = random.Random(SEED)
        print("seed", SEED)
        for i in range(300 if FULL else 30):
            with self.subTest(i):
                self.assert_specified(random_dump(choose).write(self.folder / "random"))
        for i in range(30 if FULL else 5):
            with self.subTest(imported=i):
                path = self.imported("random lines", *self.random_lines(choose))
                self.assert_specified(path)
                shutil.rmtree(path)

    @staticmethod
    def random_lines(choose):
        """Samples of a rollout and of a step of one or two ranks."""
        lines, ranks = [], choose.randrange(1, 3)
        for s in range(4):
            tokens = [choose.randrange(9) for _ in range(choose.randrange(2, 5))]
            numbers = [choose.choice((0.0, -0.0, 0.1, -1.5)) for _ in tokens[1:]]
            lines.append({**LINE, "sample_id": s, "tokens": tokens, "log_probs": numbers,
                          "reward": choose.choice((0, 0.1, 1))})
            step = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "rank": s % ranks,
                    "sample_id": s, "length": len(tokens), "prompt_length": 1,
                    "advantages": numbers}
            if choose.random() < 0.5:
                step["loss_mask"] = [1 for _ in numbers]
            lines.append(step)
        for rank in range(ranks):
            lines.append({"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": rank,
                          "scalars": {"loss": choose.choice((0.1, 2.0))}})
        return lines

    def test_the_example_of_the_specification(self):
        arrays = {"0/sample_id": ([7], "u64"), "0/offsets": ([0, 3], "u64"),
                  "0/tokens": ([11, 22, 33], "i32")}
        dump = Patched.__new__(Patched)
        dump.meta, dump.unstable = {"ranks": 1}, {}
        dump.units = {"rollout/0.h5": {
            name: Array(numpy.array(values, STORED[dtype]), dtype, [len(values)], {})
            for name, (values, dtype) in arrays.items()}}
        path = dump.write(self.folder / "example")
        fields = content.fields_of(dump, "rollout", "0")
        self.assert_specified(path)
        for text in (self.content(path), "rollout 0 " + content.group_hash(dump, "rollout", "0"),
                     *(f"\n{field} {value}\n" for field, value in fields.items())):
            self.assertIn(text, content.SPEC)

    def test_the_root_is_what_the_specification_says(self):
        for i, flags in enumerate(((), ("--eps-clip", "0.3", "--eps-clip-high", "0.3"),
                                   ("--lr-decay-style", "cosine", "--gamma", "0.9"))):
            with self.subTest(flags):
                dump, _ = self.capture(f"specified {i}", *SMALL, *flags)
                self.assert_specified(dump)

    def test_every_option_that_counts_is_in_the_specification(self):
        """With the value of a run in which it was not given."""
        unset, _ = self.capture("unset", "--model", "demo", "--steps", "1", "--rollout-batch-size",
                                "1", "--n-samples-per-prompt", "2")
        config = Patched(unset).meta["config"]
        defaults = content.defaults()
        self.assertEqual(defaults, {name: config[name] for name in defaults} |
                         {"rollout-max-response-len": "256", "lr": "1e-06"})
        for name in config:
            self.assertNotEqual(name in defaults, name in content.left_out(), name)

    def test_an_option_at_its_default_does_not_count(self):
        """Whether it was given, was not, or is not known to the program that wrote the dump."""
        given, _ = self.capture("given", *SMALL, "--weights", "all", "--record",
                                "tensors+stats+values", "--gamma", "1", "--tis-clip-low",
                                "0", "--value-clip", "0.2", "--advantage-estimator", "grpo")
        self.assertTrue(self.identical(self.base, given)[0])
        choose = random.Random(SEED)
        print("seed", SEED)
        config, defaults = self.loaded.meta["config"], content.defaults()
        names = sorted(defaults)
        for name in names if FULL else choose.sample(names, 10):
            with self.subTest(name):
                dump = copy.deepcopy(self.loaded)
                del dump.meta["config"][name]
                path = dump.write(self.folder / "lacks")
                identical, found = self.identical(self.base, path)
                self.assertEqual(identical, config[name] == defaults[name])
                self.assertEqual([o["option"] for o in found["options"]],
                                 [] if identical else [name])
        dump = copy.deepcopy(self.loaded)
        dump.meta["config"]["an-option-of-tomorrow"] = "1"
        self.assertFalse(self.identical(self.base, dump.write(self.folder / "newer"))[0])


if __name__ == "__main__":
    unittest.main()
