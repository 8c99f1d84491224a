"""One operation of a dump is computed again from its recorded inputs: with the record's bits, or what was planted is named.

usage: op_test.py RLBISECT RLREPLAY
"""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import unittest

from support import FULL, SEED, Case
import checkpoints

Case.program = os.path.abspath(sys.argv.pop(1))
RLREPLAY = os.path.abspath(sys.argv.pop(1))
EVENTS_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "events.md"
REWARD = ("--reward", "command", "--reward-command",
          "python3 -c 'import sys\nfor i, _ in enumerate(sys.stdin): print(i % 3)'")
MODELS = {"demo": (), "qwen3": ("query and key norms",), "llama": ()}  # with biases, with norms of heads, untied


def events_of(has, draw):
    """What docs/events.md lists of forward and backward for such a model: of one layer, or of both with RLREPLAY_FULL=1."""
    phase, found = "", []
    for line in EVENTS_PAGE.read_text().splitlines():
        phase = line[3:] if line.startswith("## ") else phase
        row = re.match(r"\| (LAYER|-) \| (\S+) \| [^;|]*(?:; with ([^|]*))? \|", line)
        if phase not in ("forward", "backward") or not row or row[2] == "batch/token" or row[3] not in (None, *has):
            continue
        layers = [0, 1] if FULL else [draw.randrange(2)]
        found += [f"0.0/{phase}/{layer}/{row[2]}" for layer in (layers if row[1] == "LAYER" else "-")]
    return found


class Operations(Case):
    def rlreplay(self, *arguments, code=0):
        result = subprocess.run([RLREPLAY, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stderr)

    def captured(self, *arguments):
        dump = self.folder / "my dump"
        model = [] if "--model" in arguments else ["--model", "demo"]
        self.rlreplay("capture", *model, "--steps", "2", "--rollout-batch-size", "1", "--record", "ops+values",
                      "-o", dump, *arguments)
        return dump

    def asked(self, event, dump, *arguments, code=1):
        result = self.bisect("op", event, "--from", dump, "--json", *arguments)
        self.assertEqual(result.returncode, code, (event, result.stdout, result.stderr))
        return json.loads(result.stdout)

    def captured_of(self, model):
        """Ragged samples whose entropies and temperature matter."""
        options = ["--entropy-coef", "0.01", "--rollout-temperature", "0.7", "--micro-batch-size", "3"]
        if model == "demo":
            return self.captured(*options)
        checkpoint = checkpoints.write(self.folder / model, checkpoints.config(model))
        prompts = checkpoints.write_prompts(self.folder / "prompts.jsonl")
        return self.captured("--model", checkpoint, "--prompts", prompts, "--n-samples-per-prompt", "4",
                             "--rollout-max-response-len", "6", *REWARD, *options)

    def test_every_operation_gives_its_record_again(self):
        draw = random.Random(SEED)
        for model, has in MODELS.items():
            dump = self.captured_of(model)
            events = events_of(has, draw)
            self.assertGreater(len(events), 35)
            for event in events:
                with self.subTest(f"{model} {event} seed {SEED}"):
                    found = self.asked(event, dump)
                    self.assertTrue(found["identical"])
                    record, fastest, plain = found["sides"]
                    self.assertEqual((record["by"], plain["by"]), ("record", "reference"))
                    self.assertEqual(fastest["differing"] + plain["differing"], 0)
                    self.assertEqual({side["error"] for side in found["sides"]}, {record["error"]})
                    # Rounded to binary32 it is not exact where it is not copied, and within the roundings of one operation.
                    self.assertEqual(record["error"] > 0, "embedding" not in event)
                    self.assertLess(record["error"], 1e-5 * found["magnitude"])
            shutil.rmtree(dump)

    def test_a_planted_ulp_is_named(self):
        dump = self.captured()
        for event, ulps in (("0.0/forward/0/down/y", 1), ("0.0/backward/1/swiglu/dup", -1), ("0.0/forward/1/qkv/k", 1 << 16),
                            ("0.0/forward/0/attention/out", 1), ("0.0/backward/0/attention/dk", 1 << 16),
                            ("0.0/forward/1/rotary/q", -1), ("0.0/backward/-/log_prob/dx", 1)):
            with self.subTest(event):
                planted = self.folder / "planted"
                self.rlreplay("train", dump, "--steps", "0.0", "--inject", f"{event}:77:{ulps}", "-o", planted, "--force",
                              code=1)
                found = self.asked(event, planted, code=0)
                self.assertFalse(found["identical"])
                record, *sets = found["sides"]
                self.assertEqual([(side["differing"], side["first"]) for side in sets], [(1, 77)] * 2)
                if ulps > 1:
                    self.assertEqual(record["at"], 77)
                    self.assertAlmostEqual(record["ulps"] / ulps, 1, delta=0.01)
                    self.assertLess(sets[0]["error"], record["error"])

    def test_what_cannot_be_taken_is_refused(self):
        dump, event = self.captured(), "0.0/forward/0/down/y"
        for code, words, arguments in (
                (128, "no reference in binary64", ["0.0/objective/-/terms/c", "--from", dump]),
                (128, "no reference in binary64", ["0.0/forward/-/batch/token", "--from", dump]),
                (129, "no such event in the dump's model", ["0.0/forward/0/qk_norm/q", "--from", dump]),
                (128, "no reference in binary64", ["0.0/rollout/0/down/y", "--from", dump]),
                (129, "the dump has no step 7.0", ["7.0/forward/0/down/y", "--from", dump]),
                (129, "no such event in the dump's model", ["0.0/forward/9/down/y", "--from", dump]),
                (128, "no state before step 1.0", ["1.0/forward/0/down/y", "--from", dump]),
                (129, "torch takes whole steps", [event, "--from", dump, "--kernels", "torch"]),
                (129, "has no kernel set avx9", [event, "--from", dump, "--against", "avx9"]),
                (129, "is missing", [event])):
            result = self.bisect("op", *arguments)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr)
        digests = self.folder / "digests"
        self.rlreplay("capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "1", "-o", digests)
        result = self.bisect("op", event, "--from", digests)
        self.assertEqual(result.returncode, 128)
        self.assertIn("capture it with --record ops+values", result.stderr)


if __name__ == "__main__":
    unittest.main()
