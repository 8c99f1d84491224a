"""The main job on a checkpoint: a run of 20 steps on problems in GSM8K's format, judged by a program,
is replayed from its first step, from its twelfth, step by step, and its rollouts again.
usage: main_job_test.py PROGRAM

The checkpoint is tiny-qwen2, of RLREPLAY_REFERENCE where it names a folder, else the project's own."""
import json
import os
import sys
import unittest

import material
from support import Case, bits

Case.program = os.path.abspath(sys.argv.pop(1))
STEPS = 20
# Random weights earn nothing from a real reward: this one differs from response to response.
REWARD = """python3 -c '
import hashlib, sys
for line in sys.stdin: print(hashlib.sha256(line.encode()).digest()[0] / 255)'"""


def write_problems(path):
    problems = [{"question": f"A shelf holds {a} red and {b} blue books. How many books are there?",
                 "answer": f"There are {a} + {b} = <<{a}+{b}={a + b}>>{a + b} books.\n#### {a + b}"}
                for a, b in [(3, 4), (12, 30), (7, 7), (21, 5), (9, 16)]]
    path.write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    return path


class MainJob(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = material.folders()[-1] / "models" / "tiny-qwen2"
        problems = write_problems(cls.folder / "problems.jsonl")
        cls.dump, cls.steps = cls.capture(
            "dump", "--model", model, "--prompts", problems, "--reward", "command",
            "--reward-command", REWARD, "--lr", "1e-3", "--steps", STEPS, "--weights", "all",
            "--rollout-batch-size", "2", "--n-samples-per-prompt", "4",
            "--rollout-max-response-len", "12")

    def test_each_step_trains(self):
        self.assertEqual(len(self.steps), STEPS)
        self.assertEqual(len({step["weights_digest"] for step in self.steps}), STEPS)
        for step in self.steps:
            self.assertGreater(step["grad_norm"], 0)

    def replay(self, first, *flags):
        again = self.lines("train", "--from", self.dump, *flags)
        self.assertEqual([bits(step) for step in again],
                         [bits(step) for step in self.steps[first:]])
        self.assertTrue(all(step["identical"] is True for step in again))

    def test_replays(self):
        self.replay(0)
        self.replay(11, "--steps", f"11..{STEPS - 1}")
        self.replay(0, "--each-step")

    def test_rollouts(self):
        result = self.run_program("rollout", "--from", self.dump)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.run_program("verify", "--deep", self.dump).returncode, 0)


if __name__ == "__main__":
    unittest.main()
