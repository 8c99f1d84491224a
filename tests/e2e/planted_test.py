"""One planted difference in a recorded run is named by event, row, element and distance.
usage: planted_test.py PROGRAM RLBISECT
"""
import itertools
import os
import pathlib
import random
import re
import sys
import unittest

from support import FULL, SEED, Case

Case.program, Case.rlbisect = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

EVENTS = pathlib.Path(__file__).parents[2] / "docs/events.md"
DEMO = ["--model", "demo", "--steps", "2", "--rollout-batch-size", "2", "--n-samples-per-prompt",
        "3"]
LAYERS = 2
LAYOUT = "dp=2,tp=2,pp=2"  # of the ranks that write what a difference is planted in
ALONE = ["--layout", "dp=1"]
# What tensor parallelism cuts by columns (docs/numerics.md, section 8).
CUT = "qkv/[qkv]|rotary/(q|k|dq|dk)|attention/(out|dq|dk|dv|lse|delta)|gate_up/(gate|up)|swiglu/(y|dgate|dup)|(down|o)/dx"
# What is given to a step is no place for a difference of the program; the demo has biases, tied
# embeddings, no query norms and no reference. A disturbed token is another run, not a difference in
# the last place.
ABSENT = ("query and key norms", "without tied embeddings", "reference model")
NOT_PLANTED = {"batch/token", "sample/token"}


def events():
    """Phase -> (layer, event) of the demo, from the table that users read."""
    out, phase = {}, None
    for line in EVENTS.read_text().splitlines():
        if line.startswith("## "):
            phase = line[3:]
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if phase is None or len(cells) != 5 or cells[0] not in ("-", "LAYER"):
            continue
        if any(text in cells[2] for text in ABSENT) or cells[1] in NOT_PLANTED:
            continue
        for layer in range(LAYERS) if cells[0] == "LAYER" else "-":
            name = cells[1]
            if cells[0] == "LAYER" and re.match("(gradient|weight|exp_avg|exp_avg_sq)/", name):
                kind, tensor = name.split("/")
                name = f"{kind}/model.layers.{layer}.{tensor}"
            out.setdefault(phase, []).append(f"{phase}/{layer}/{name}")
    return out


class Planted(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.values, _ = cls.capture("values", *DEMO, "--record", "ops+values", "--layout", LAYOUT)
        cls.digests, _ = cls.capture("digests", *DEMO, "--record", "ops")
        cls.events = events()
        cls.random = random.Random(SEED)
        cls.tokens = [[], []]  # of each sample of a step, in the order of rows
        for sample in cls.lines("show", cls.values, "--samples"):
            cls.tokens[sample["rollout_id"]].append(sample["prompt_length"] + sample["response_length"])
        cls.parts = itertools.cycle(itertools.product((0, 1), repeat=3))

    def verb(self, phase):
        return "rollout" if phase == "rollout" else "train"

    def size(self, event):
        """The program itself says how many elements a tensor has."""
        result = self.run_program(self.verb(event.split("/")[1]), "--from", self.values, *ALONE,
                                  "--inject", f"{event}:{1 << 60}:1")
        self.assertEqual(result.returncode, 2, event + result.stderr)
        last = re.search(r"0 to (\d+)", result.stderr)
        self.assertIsNotNone(last, result.stderr)
        return int(last[1]) + 1

    def draw(self, phase):
        step = self.random.randrange(2)
        event = f"{step}.0/{self.random.choice(self.events[phase])}"
        return event, self.random.randrange(self.size(event)), self.random.choice((-3, -1, 1, 2))

    def draw_in_part(self, phase, dp, tp, pp):
        """A place that one rank of the layout alone has computed: of samples, columns and layers each a half."""
        step = self.random.randrange(2)
        event = f"{step}.0/" + self.random.choice(
            [event for event in self.events[phase] if re.fullmatch(rf"\w+/{pp}/({CUT})", event)])
        tokens = self.tokens[step]
        rows, half = sum(tokens), sum(tokens[:len(tokens) // 2])
        width, odd = divmod(self.size(event), rows)
        self.assertEqual((width % 2, odd), (0, 0))
        row = self.random.randrange(half, rows) if dp else self.random.randrange(half)
        column = self.random.randrange(width // 2) + tp * width // 2
        return event, row * width + column, self.random.choice((-1, 1))

    def origin(self, phase, path, injection, *flags):
        lines = self.lines(self.verb(phase), "--from", path, *ALONE, "--inject", injection, *flags, code=1)
        found = [line["origin"] for line in lines if line.get("origin")]
        self.assertTrue(found, lines)
        return found[0]

    def test_places(self):
        phases = list(self.events)
        self.assertEqual(phases, ["rollout", "forward", "objective", "backward", "reduce", "clip",
                                  "optimizer"])
        for number in range(100 if FULL else 10):
            phase = phases[number % len(phases)]
            by_ranks = phase in ("forward", "backward") and number // len(phases) % 2 == 0
            event, index, ulps = self.draw_in_part(phase, *next(self.parts)) if by_ranks else self.draw(phase)
            injection = f"{event}:{index}:{ulps}"
            with self.subTest(seed=SEED, injection=injection):
                self.judge(phase, injection, number)

    def judge(self, phase, injection, number):
        event, index, ulps = injection.rsplit(":", 2)
        disturbed = self.folder / f"disturbed {number}"
        writes = [] if phase == "rollout" else ["-o", disturbed]
        found = self.origin(phase, self.values, injection, *writes)
        self.assertEqual((found["event"], str(found["index"]), str(found["ulps"])),
                         (event, index, ulps))
        self.assertTrue(found["inputs_equal"])
        row = self.origin(phase, self.digests, injection)
        self.assertEqual(row["event"], event)
        # A row of one element has no other place.
        self.assertIn((row["index"], row["ulps"]),
                      ((None, None), (found["index"], found["ulps"])))
        for key in ("sample", "token", "row"):
            self.assertEqual(row.get(key), found.get(key), key)
        if not writes:
            return
        both = self.lines(self.values, disturbed, program=self.rlbisect)[0]["origin"]
        self.assertEqual(both, found)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
