"""Random edits to runs, environments, commands and golden files: each ends in the line of the outcome table that the edit
was made for. Every planted ulp is red.

usage: gate_matrix_test.py PROGRAM"""
import json
import math
import os
import random
import subprocess
import sys
import unittest

from support import FULL, SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
COUNT = 200 if FULL else 20
RUN = "sh run.sh"
TOLERANCE = 'tolerance step * loss "4 ulps: two kinds of cards"\n'
QUARANTINE = "quarantine until 9999-12-31\nquarantine owner a\nquarantine reason b\n"
OTHER = {"RLREPLAY_GOLDEN_ENVIRONMENT": "driver=2"}


def moved(value, ulps):
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def dropped(text, draw):
    lines = text.splitlines(keepends=True)
    lines.remove(draw.choice([line for line in lines if line.startswith("step ")]))
    return "".join(lines)


class Trial:
    """A run, the golden file of it, and what is said to the check."""

    def __init__(self, draw, text, numbers):
        self.draw, self.text, self.numbers = draw, text, numbers
        self.script = "cat numbers.json >$RLBISECT_OUT/metrics.json"
        self.words, self.variables = [], {}

    def ulps(self, count, metric="loss"):
        at = self.draw.randrange(len(self.numbers[metric]))
        self.numbers[metric][at] = moved(self.numbers[metric][at], count)

    def nan(self):
        self.numbers["loss"][0] = math.nan

    def frozen(self):
        self.numbers["grad_norm"] = [0.0] * 3

    def other_run(self, script):
        self.script = script

    def other_command(self):
        self.words = ["--run", "sed s/0.5/0.25/ numbers.json >$RLBISECT_OUT/metrics.json"]

    def shorter(self):
        self.numbers["loss"].pop()

    def longer(self):
        self.numbers["entropy"] = [1.0]

    def elsewhere(self):
        self.variables = OTHER

    def add(self, line):
        self.text += line

    def replace(self, old, new):
        assert old in self.text
        self.text = self.text.replace(old, new, 1)

    def drop(self):
        self.text = dropped(self.text, self.draw)


COUNTING = "echo >>count; echo '{\"loss\": [0.'$(wc -l <count)'], \"grad_norm\": [1]}' >$RLBISECT_OUT/metrics.json"
# (outcome, exit code, the edits that lead there)
EDITS = [
    ("match", 0, []),
    ("match", 0, [Trial.elsewhere]),
    ("loose match", 0, [(Trial.add, TOLERANCE)]),
    ("regression", 1, [(Trial.ulps, 1)]),
    ("regression", 1, [(Trial.ulps, 1, "grad_norm"), (Trial.add, TOLERANCE)]),
    ("regression", 1, [Trial.shorter]),
    ("regression", 1, [Trial.longer]),
    ("regression", 1, [Trial.other_command]),
    ("regression", 1, [Trial.drop]),
    ("regression", 1, [(Trial.ulps, 5), (Trial.add, TOLERANCE)]),
    ("regression", 0, [(Trial.ulps, 5), (Trial.add, QUARANTINE)]),
    ("regression", 1, [(Trial.ulps, 5), (Trial.add, QUARANTINE.replace("9999", "2020"))]),
    ("code drift", 1, [(Trial.ulps, 4), (Trial.add, TOLERANCE)]),
    ("environment drift", 0, [(Trial.ulps, 4), (Trial.add, TOLERANCE), Trial.elsewhere]),
    ("unattributed", 1, [(Trial.ulps, 1), Trial.elsewhere]),
    ("unattributed", 1, [(Trial.ulps, 5), (Trial.add, TOLERANCE), Trial.elsewhere]),
    ("vacuous", 1, [Trial.nan]),
    ("vacuous", 1, [Trial.frozen]),
    ("unstable", 1, [(Trial.other_run, COUNTING)]),
    ("not judged", 3, [(Trial.other_run, "kill -9 $$")]),
    ("not judged", 3, [(Trial.other_run, "echo {} >$RLBISECT_OUT/metrics.json")]),
    ("not judged", 2, [(Trial.other_run, "true")]),
    ("not judged", 2, [(Trial.add, 'tolerance step * loss "4 ulps:"\n')]),
    ("not judged", 2, [(Trial.add, "quarantine until 9999-12-31\n")]),
    ("not judged", 3, [(Trial.add, "<<<<<<< HEAD\n")]),
    ("not judged", 3, [(Trial.add, "step\n")]),
    ("not judged", 4, [(Trial.replace, "golden 2", "golden 9")]),
]


class Matrix(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.draw = random.Random(SEED)
        (cls.folder / "goldens").mkdir()
        cls.file = cls.folder / "goldens" / "a.txt"
        cls.fresh()
        cls.golden("record", "goldens/a.txt", "--run", RUN, "--class", "any", code=0, CI="")
        cls.text = cls.file.read_text()
        cls.kept = cls.folder / "numbers.json"

    @classmethod
    def fresh(cls):
        """A run of other numbers."""
        cls.numbers = {name: [0.5, *(cls.draw.uniform(0.5, 2) for _ in range(2))] for name in ("loss", "grad_norm")}
        cls.write(Trial(cls.draw, "", cls.numbers))

    @classmethod
    def write(cls, trial):
        (cls.folder / "run.sh").write_text(trial.script + "\n")
        (cls.folder / "numbers.json").write_text(json.dumps(trial.numbers))

    @classmethod
    def golden(cls, *words, code, **variables):
        result = cls.run_program("golden", *words, cwd=cls.folder, env={**os.environ, "CI": "true", **variables})
        assert result.returncode == code, (words, result.returncode, code, result.stdout + result.stderr)
        return result.stdout

    def check(self, outcome, code, edits):
        trial = Trial(self.draw, self.text, json.loads(json.dumps(self.numbers)))
        for edit in edits:
            act, *words = edit if isinstance(edit, tuple) else (edit,)
            act(trial, *words)
        self.write(trial)
        self.file.write_text(trial.text)
        said = self.golden("check", "goldens", *(trial.words or ["--run-recorded"]), code=code, **trial.variables)
        self.assertIn(f"{outcome}: goldens/a.txt", said)
        return said

    def test_each_edit_ends_in_its_line_of_the_table(self):
        order = list(range(len(EDITS)))
        self.draw.shuffle(order)
        for number in range(COUNT):
            edit = EDITS[order[number % len(order)]]
            with self.subTest(seed=SEED, number=number, edit=edit):
                self.check(*edit)

    def test_every_planted_ulp_is_red(self):
        for number in range(COUNT):
            metric = self.draw.choice(["loss", "grad_norm"])
            with self.subTest(seed=SEED, number=number, metric=metric):
                said = self.check("regression", 1, [(Trial.ulps, 1, metric)])
                self.assertIn("1 of 6 values differ", said)
                self.assertIn("(+1 ulp)", said)


if __name__ == "__main__":
    unittest.main()
