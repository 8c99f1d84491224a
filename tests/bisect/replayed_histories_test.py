"""rlbisect on histories whose run replays a record, with one difference planted by a commit.
usage: replayed_histories_test.py RLBISECT RLREPLAY
"""
import json
import os
import random
import re
import subprocess
import sys
import unittest

from histories import History, compiled_replays, planted_replays
from support import FULL, SEED, Case, git_bisect, snapshot

Case.program, RLREPLAY = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

DEMO = ["--model", "demo", "--steps", "2", "--rollout-batch-size", "2", "--n-samples-per-prompt",
        "3", "--record", "ops+values"]
# Of each phase of training that is replayed; `{}` is a layer.
EVENTS = ["forward/{}/down/y", "forward/{}/attention/out", "objective/-/terms/c",
          "backward/{}/down/dx", "backward/{}/swiglu/dup",
          "reduce/{}/gradient/model.layers.{}.mlp.down_proj.weight",
          "optimizer/{}/weight/model.layers.{}.mlp.up_proj.weight",
          "optimizer/{}/exp_avg/model.layers.{}.self_attn.o_proj.weight"]


def replay(record, *arguments):
    return subprocess.run([RLREPLAY, "train", "--from", record, *arguments], capture_output=True,
                          text=True)


class ReplayedHistories(Case):
    def setUp(self):
        super().setUp()
        self.record = self.folder / "record"
        subprocess.run([RLREPLAY, "capture", *DEMO, "-o", self.record], check=True,
                       stdout=subprocess.DEVNULL)
        self.environment.update(RLREPLAY=RLREPLAY, RECORD=str(self.record))

    def draw(self, draw):
        """A random place and distance, of which the weights take notice."""
        while True:
            event = f"{draw.randrange(2)}.0/" + draw.choice(EVENTS).replace(
                "{}", str(draw.randrange(2)))
            refusal = replay(self.record, "--inject", f"{event}:{1 << 60}:1")
            size = re.search(r"0 to (\d+)", refusal.stderr)
            self.assertIsNotNone(size, refusal.stderr)
            injection = f"{event}:{draw.randrange(int(size[1]) + 1)}:{draw.choice((-2, 1, 3))}"
            steps = [json.loads(line) for line in
                     replay(self.record, "--inject", injection, "--json").stdout.splitlines()]
            good = [json.loads(line) for line in
                    replay(self.record, "--json").stdout.splitlines()]
            weights = [line["weights_digest"] for line in steps if "weights_digest" in line]
            if weights != [line["weights_digest"] for line in good if "weights_digest" in line]:
                return injection

    def test_random_histories(self):
        numbers = range(20) if FULL else [random.Random(SEED).randrange(18), 18]
        for number in numbers:
            injection = self.draw(random.Random(f"{SEED} {number}"))
            with self.subTest(seed=SEED, number=number, injection=injection):
                content = (compiled_replays if number >= 18 else planted_replays)(injection)
                history = History(self.folder / f"history {number}", SEED + number, content)
                self.judge(history, injection)
                print(f"seed {SEED}, {number}: {injection} in {history.count} commits")

    def judge(self, history, injection):
        before = snapshot(history.path)
        result, found = self.search(history.path, history.commits[0], history.commits[-1],
                                    "--build", "./build.sh")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["interval"], history.suspects)
        self.assertTrue(found["confirmed"])
        origin = found["origin"]
        self.assertEqual(f"{origin['event']}:{origin['index']}:{origin['ulps']}", injection)
        self.assertTrue(origin["inputs_equal"])
        self.assertEqual(snapshot(history.path), before)
        left = [path for path in self.temporary.rglob("*") if path.is_file()]
        self.assertEqual([path for path in left if path.suffix != ".log"], [])
        self.assertEqual(git_bisect(self, history), set(history.suspects))


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
