"""The demo learns, the same way each time. usage: demo_test.py PROGRAM"""
import os
import re
import sys
import time
import unittest

from support import FULL, Case, bits

Case.program = os.path.abspath(sys.argv.pop(1))


class Demo(Case):
    def train(self, *flags):
        start = time.monotonic()
        steps = self.lines("train", "--model", "demo", "--steps", "10", *flags)
        return steps, time.monotonic() - start

    def test_reward_rises(self):
        steps, seconds = self.train()
        rewards = [step["reward"] for step in steps]
        first, last = rewards[0], sum(rewards[-3:]) / 3
        print(f"reward {first:.2f} before, {last:.2f} after {len(steps)} steps, "
              f"{seconds:.1f} s", file=sys.stderr)
        self.assertEqual(len(steps), 10)
        self.assertLess(first, 0.7)
        self.assertGreater(last, first + 0.15)
        for step in steps:
            self.assertEqual(step["forward_logp_max_diff"]["train_vs_rollout"]["different"], 0)
        again, _ = self.train("--threads", "3", "--rollout-slots", "100")
        self.assertEqual([bits(step) for step in again], [bits(step) for step in steps])
        if FULL:
            other, _ = self.train("--seed", "99")
            self.assertNotEqual(bits(other[-1]), bits(steps[-1]))

    def test_a_bar_shows_how_far_a_step_is(self):
        one = ["train", "--model", "demo", "--steps", "1", "--micro-batch-size", "1"]
        shown = self.terminal("stderr", *one)
        samples = [int(n) for n in re.findall(r"step \[[# ]{30}\] (\d+) of \d+ samples", shown)]
        self.assertGreaterEqual(len(samples), 2, shown)
        self.assertEqual(samples, sorted(samples))
        self.assertTrue(shown.endswith("\r\033[K"), shown)
        self.assertEqual(self.run_program(*one).stderr, "")

    def test_seconds_are_those_of_the_whole_step(self):
        for step in self.lines("train", "--model", "demo", "--steps", "2"):
            self.assertGreater(step["seconds"], step["train_seconds"])
            self.assertGreater(step["train_seconds"], 0)


if __name__ == "__main__":
    unittest.main()
