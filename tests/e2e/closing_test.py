"""Dumps whose writer died, and dumps of older versions, through the program.
usage: closing_test.py PROGRAM GOLDEN_DUMPS
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

try:
    import dump_files
    import xxhash
except ImportError:
    sys.exit(77)

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
GOLDEN_DUMPS = pathlib.Path(sys.argv.pop(1))

USAGE, CORRUPT, UNSUPPORTED = 2, 3, 4


class Seal(Case):
    def killed(self, path):
        """A capture that was killed with some steps stored."""
        process = subprocess.Popen(
            [self.program, "capture", "--model", "demo", "--steps", "100000",
             "--rollout-batch-size", "2", "-o", path], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (path / "train/1-0/rank0.h5").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.assertEqual(self.run_program("seal", "--recovered", path).returncode, USAGE)
        process.send_signal(signal.SIGKILL)
        process.wait()
        return path

    def test_a_recovered_dump(self):
        path = self.killed(self.folder / "killed")
        (path / "train" / "torn.h5.tmp").write_bytes(b"torn")
        acknowledged = len(dump_files.units_of(path))
        before = self.lines("verify", path, code=CORRUPT)[0]
        self.assertEqual([before["sealed"], before["recovered"]], [False, False])
        self.assertEqual(self.run_program("seal", path).returncode, USAGE)
        made = self.lines("show", path)[0]["unstable"]
        self.assertIn("capture --model demo --steps 100000", made["command"])
        self.assertEqual({"began", "ended"} & set(made), {"began"})

        report = self.lines("seal", "--recovered", path)[0]
        self.assertEqual(report["units"], acknowledged)
        after = self.lines("verify", "--deep", path)[0]
        self.assertEqual(after["problems"], [])
        self.assertEqual([after["sealed"], after["complete"], after["recovered"]],
                         [True, False, True])
        self.assertEqual(after["root"], report["root"])
        self.assertEqual(self.lines("show", path)[0]["unstable"], made)
        self.assertEqual(after["whole_units"], acknowledged)
        self.assertFalse((path / "train" / "torn.h5.tmp").exists())
        self.assertIn("recovered", self.run_program("verify", path).stdout)
        self.assertEqual(self.run_program("seal", "--recovered", path).returncode, USAGE)
        step = self.lines("train", "--from", path, "--steps", "0..0")[0]
        self.assertIs(step["identical"], True)


class Upgrade(Case):
    def files(self, path):
        return {str(file.relative_to(path)): file.read_bytes()
                for file in path.rglob("*") if file.is_file()}

    def verified(self, golden, content):
        """What verify says of a golden dump: the masks of 0.1's take tokens of prompts in,
        its columns have numbers for them, and its ranks other norms."""
        wanted = {"bad-mask", "prompt-value", "replica-mismatch"} if content == "0.1" else set()
        report = self.lines("verify", "--deep", golden, code=1 if wanted else 0)[0]
        self.assertEqual({problem["code"] for problem in report["problems"]}, wanted)
        return report

    def test_older_versions(self):
        for golden in sorted(path for path in GOLDEN_DUMPS.iterdir() if path.is_dir()):
            report = self.verified(golden, golden.name)
            self.assertEqual(report["version"], golden.name)
            if golden.name == "0.9":
                refused = self.run_program("upgrade", golden, "-o", self.folder / "same")
                self.assertEqual(refused.returncode, USAGE)
                self.assertFalse((self.folder / "same").exists())
                continue
            before = self.files(golden)
            out, place = self.folder / f"{golden.name} new", self.folder / golden.name
            shutil.copytree(golden, place)
            self.assertEqual(self.lines("upgrade", golden, "-o", out)[0]["root"], report["root"])
            self.assertEqual(self.files(golden), before)
            self.lines("upgrade", place)
            self.assertEqual(self.files(place), self.files(out))
            self.assertEqual(self.verified(place, golden.name)["root"], report["root"])
            self.assertEqual(self.run_program("diff", place, golden).returncode, 0)

    def rewritten(self, before, after):
        """A golden dump whose manifest says something else, with a hash that fits."""
        place = self.folder / "other"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(GOLDEN_DUMPS / "0.9", place)
        text = (place / "manifest.json").read_text()
        body = text[len('{"body":'):-44].replace(before, after)
        digest = xxhash.xxh3_128_hexdigest(body.encode())
        (place / "manifest.json").write_text('{"body":%s,"hash":"%s"}\n' % (body, digest))
        return place

    def test_newer_versions(self):
        newer = self.rewritten('"minor":9', '"minor":10')
        self.assertEqual(self.verified(newer, "0.9")["version"], "0.10")
        for before, after, word in [
                ('"major":0', '"major":2', "2.9"),
                ('"must_understand":[]', '"must_understand":["ternary"]', "ternary")]:
            newer = self.rewritten(before, after)
            for verb in ("verify", "show"):
                result = self.run_program(verb, newer)
                self.assertEqual(result.returncode, UNSUPPORTED, result.stderr)
                self.assertIn(word, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
