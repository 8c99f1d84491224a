"""Bits do not depend on threads, micro-batches, recomputation or batch composition.
usage: invariance_test.py PROGRAM
"""
import os
import sys
import unittest

import checkpoints
from support import FULL, Case, bits, root

Case.program = os.path.abspath(sys.argv.pop(1))

TRAINING = [["--threads", "1"], ["--threads", "2"], ["--threads", "4"],
            ["--micro-batch-size", "1"], ["--micro-batch-size", "2", "--threads", "3"],
            ["--micro-batch-size", "3"], ["--micro-batch-size", "0"], ["--recompute"],
            ["--each-step", "--recompute", "--micro-batch-size", "1"]]
ROLLOUTS = [["--rollout-slots", "1"], ["--rollout-slots", "3", "--threads", "3"],
            ["--rollout-slots", "256"]]
# Random weights earn nothing from a real reward: this one only has to differ from sample to sample.
REWARD = ("python3 -c 'import json, sys\nfor line in sys.stdin: "
          "print(sum(json.loads(line)[\"response\"].encode()) % 7)'")


class Invariance(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        cls.commands = {"demo": ["--weights", "all", "--model", "demo", "--steps", "3",
                                 "--rollout-batch-size", "4"]}
        for architecture in ("qwen3", "llama"):
            model = checkpoints.write(cls.folder / architecture, checkpoints.config(architecture))
            cls.commands[architecture] = [
                "--weights", "all",
                "--model", model, "--prompts", prompts, "--rollout-batch-size", "3",
                "--n-samples-per-prompt", "3", "--rollout-max-response-len", "9", "--lr", "1e-3",
                "--steps", "2", "--reward", "command", "--reward-command", REWARD]
        cls.captures = {name: cls.capture(name + " dump", *command)
                        for name, command in cls.commands.items()}

    def replay(self, path, steps, flags):
        replayed = self.lines("train", "--from", path, *flags)
        self.assertEqual([bits(step) for step in replayed], [bits(step) for step in steps])
        for step in replayed:
            self.assertIs(step["identical"], True)
            difference = step["forward_logp_max_diff"]["replay_vs_record"]
            self.assertEqual((difference["different"], difference["nonfinite"]), (0, 0))

    def test_a_capture_trains(self):
        for name, (_, steps) in self.captures.items():
            with self.subTest(name):
                digests = [step["weights_digest"] for step in steps]
                self.assertEqual(len(set(digests)), len(steps))
                self.assertTrue(all(step["grad_norm"] > 0 for step in steps))

    def test_train_and_rollout_log_probs_are_equal(self):
        for name, (_, steps) in self.captures.items():
            for step in steps:
                with self.subTest(name, step=step["rollout_id"]):
                    difference = step["forward_logp_max_diff"]["train_vs_rollout"]
                    self.assertGreater(difference["tokens"], 9)
                    self.assertEqual((difference["different"], difference["nonfinite"]), (0, 0))

    def test_training(self):
        for name, (path, steps) in self.captures.items():
            for flags in TRAINING if FULL or name == "qwen3" else TRAINING[2:6:3]:
                with self.subTest(name, flags=flags):
                    self.replay(path, steps, flags)

    def test_rollouts(self):
        for name, (path, steps) in self.captures.items():
            for flags in ROLLOUTS if FULL or name == "qwen3" else ROLLOUTS[:1]:
                with self.subTest(name, flags=flags):
                    replayed = self.lines("rollout", "--from", path, *flags)
                    self.assertEqual(len(replayed), len(steps))
                    for rollout in replayed:
                        self.assertIs(rollout["identical"], True)
                        self.assertEqual(rollout["different_tokens"], 0)
                        self.assertEqual(rollout["log_probs"]["different"], 0)

    def test_the_same_command_has_the_same_root(self):
        for name, command in self.commands.items():
            with self.subTest(name):
                path, steps = self.capture(name + " again", *command)
                first, recorded = self.captures[name]
                self.assertEqual(root(self.program, path), root(self.program, first))
                self.assertEqual([bits(step) for step in steps],
                                 [bits(step) for step in recorded])
        other, _ = self.capture("seed", *self.commands["demo"], "--rollout-seed", "7")
        self.assertNotEqual(root(self.program, other),
                            root(self.program, self.captures["demo"][0]))

    def test_a_replay_writes_the_same_dump(self):
        path, _ = self.captures["qwen3"]
        self.lines("train", "--from", path, "-o", self.folder / "replayed")
        self.assertEqual(root(self.program, self.folder / "replayed"), root(self.program, path))


if __name__ == "__main__":
    unittest.main()
