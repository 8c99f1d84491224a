"""The programs of a build without the engine: they look, and refuse to compute.

usage: look_test.py RLREPLAY RLBISECT [TEST...]
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SAMPLE = {"rollout_id": 0, "sample_id": 0, "tokens": [5, 6, 7], "prompt_length": 1, "loss_mask": [1, 1]}
# An advantage that is not the reward.
LINES = [{"schema": "rlreplay.sample/1", "log_probs": [-1.0, -0.5], "group_id": 0, "reward": 1.0} | SAMPLE,
         {"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, "log_probs": [-1.0, -0.5],
          "advantages": [2.0, 2.0]} | SAMPLE]
COMPUTING = [["train", "dump/", "--steps", "0..1"], ["rollout", "dump/"], ["golden", "check", "run.txt"],
             ["layouts", "dump/"], ["why", "dump/", "0.0/forward/0/down/y:0"],
             ["score", "--model", "demo", "tokens.jsonl"], ["help", "train"],
             ["capture", "--model", "demo", "-o", "dump/"]]


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=300)


class Look(unittest.TestCase):
    def test_what_computes_is_refused(self):
        for words in COMPUTING:
            with self.subTest(words=words):
                made = run(RLREPLAY, *words)
                self.assertEqual(made.returncode, 4, made.stderr)
                self.assertIn("this build looks at dumps and computes nothing", made.stderr)

    def test_what_looks_works(self):
        with tempfile.TemporaryDirectory() as folder:
            lines, dump, again = (str(pathlib.Path(folder, name)) for name in
                                  ("lines.jsonl", "dump", "again.jsonl"))
            pathlib.Path(lines).write_text("".join(json.dumps(line) + "\n" for line in LINES))
            for code, words in [
                    (0, ["import", lines, "-o", dump]), (0, ["show", dump]),
                    (0, ["verify", "--deep", dump]), (0, ["mismatch", dump]),
                    (1, ["objective", dump, "--disable-rewards-normalization"]),
                    (0, ["export", dump, "--to", "jsonl", "-o", again]), (0, ["diff", dump, again])]:
                with self.subTest(words=words[0]):
                    made = run(RLREPLAY, *words)
                    self.assertEqual(made.returncode, code, made.stdout + made.stderr)
            made = run(RLBISECT, dump, dump)
            self.assertEqual(made.returncode, 1, made.stderr)  # no difference to be found
            self.assertIn("identical", made.stdout)

    def test_nothing_of_the_engine_is_linked(self):
        for program in (RLREPLAY, RLBISECT):
            names = subprocess.run(["nm", "-C", "--defined-only", program], capture_output=True,
                                   text=True, check=True).stdout
            self.assertIn("rlreplay::format::", names)
            for absent in ("rlreplay::engine::run_step", "rlreplay::kernels::cpu_kernels",
                           "rlreplay::replay::Trainer"):
                self.assertNotIn(absent, names, program)

    def test_they_are_small(self):
        dynamic = subprocess.run(["readelf", "-d", RLREPLAY], capture_output=True, text=True,
                                 check=True).stdout
        # HDF5 and libstdc++ are 3 MB of a program that they are linked into.
        limit = 10_000_000 if "libhdf5" in dynamic else 13_000_000
        with tempfile.TemporaryDirectory() as folder:
            for program in (RLREPLAY, RLBISECT):
                small = shutil.copy(program, folder)
                subprocess.run(["strip", small], check=True)
                self.assertLess(pathlib.Path(small).stat().st_size, limit)


if __name__ == "__main__":
    RLREPLAY, RLBISECT = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
