"""Dumps whose writer died, and dumps of older versions, through the program.
usage: closing_test.py PROGRAM GOLDEN_DUMPS
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

try:
    import dump_files
    import xxhash
    from dump_patch import Patched, rlreplay_h5
except ImportError:
    sys.exit(77)

from support import Case, wait_for

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
        wait_for((path / "train/1-0/rank0.h5").exists)
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


class Writers(Case):
    def second_died(self, name):
        """An unfinished dump of two writers, the second of which wrote the last two units."""
        path, _ = self.capture(name, "--model", "demo", "--steps", "2", "--rollout-batch-size", "2")
        head, *bodies, _ = dump_files.journal_bodies(path)
        for name in ("manifest.json", "units.index"):
            (path / name).unlink()
        (path / "INCOMPLETE").write_text("")
        for writer, said in (("0", bodies[:-2] + [{"ended": True}]), ("rank1", bodies[-2:])):
            line, previous = dump_files.record({**head, "writer": writer})
            lines = [line]
            for number, body in enumerate(said, 1):
                line, previous = dump_files.record({**body, "line": number, "previous": previous})
                lines.append(line)
            (path / "journal" / f"{writer}.jsonl").write_text("".join(lines))
        return path, len(bodies)

    def test_a_writer_that_died_is_named(self):
        path, units = self.second_died("two")
        self.assertEqual(self.lines("verify", path, code=CORRUPT)[0]["unended"], ["rank1"])
        self.assertIn("without an end: writer rank1;", self.run_program("verify", path).stdout.replace("\n", " "))
        self.assertIn("the dump is unfinished, without an end of writer rank1: 2 steps of it are there",
                      self.run_program("show", path).stdout)
        said = self.run_program("seal", "--recovered", path).stdout
        self.assertIn("writer rank1 died: what it had not acknowledged is lost\n", said)
        self.assertIn(f"closed with the {units} units that its journals acknowledge\n", said)
        shown, *_ = self.lines("show", path)
        self.assertEqual((shown["unended"], shown["units"], shown["complete"]), (["rank1"], units, False))
        self.assertIn("closed after writer rank1 died", self.run_program("show", path).stdout)
        self.assertIn("recovered after writer rank1 died", shown["incomplete"])
        self.assertEqual(self.lines("verify", "--deep", path)[0]["unended"], ["rank1"])
        stripped = self.folder / "stripped"
        for what in (("--columns", "entropy"), ("--steps", "0..0")):
            self.lines("strip", path, "-o", stripped, "--force", *what)
            report, = self.lines("verify", "--deep", stripped)
            self.assertEqual((report["unended"], report["verdict"]), (["rank1"], "recovered"))

    def test_of_one_writer_that_died(self):
        path, _ = self.second_died("one")
        (path / "journal/0.jsonl").unlink()
        sealed, = self.lines("seal", "--recovered", path)
        self.assertEqual((sealed["unended"], sealed["units"]), (["rank1"], 2))
        self.assertNotIn("rank1 died", self.run_program("show", path).stdout)

    def test_none_died(self):
        path, _ = self.capture("whole", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2")
        self.assertEqual(self.lines("show", path)[0]["unended"], [])
        self.assertEqual(self.lines("verify", path)[0]["unended"], [])


class Strangers(Case):
    def test_a_file_that_no_record_names(self):
        dump, _ = self.capture("dump", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2")
        path = Patched(dump).write(self.folder / "unfinished", sealed=False)
        for name in ("notes.txt", "train/0-0/rank0.h5.orig"):
            (path / name).write_text("mine")
            result = self.run_program("seal", "--recovered", path)
            self.assertEqual(result.returncode, USAGE)
            self.assertIn(f"the folder holds '{name}', which is no file of a dump", result.stderr)
            self.assertFalse((path / "manifest.json").exists())
            self.assertEqual((path / name).read_text(), "mine")
            (path / name).unlink()
        self.lines("seal", "--recovered", path)
        self.lines("verify", path)


class Ranks(Case):
    def test_a_step_of_some_ranks_alone(self):
        """It is told and left out, and nothing is computed past it."""
        dump, _ = self.capture("two", "--model", "demo", "--steps", "3", "--rollout-batch-size", "2",
                               "--n-samples-per-prompt", "4", "--layout", "dp=2")
        whole = Patched(dump)
        del whole.units["train/1-0/rank1.h5"]
        path = whole.write(self.folder / "partial", sealed=False)
        sealed, = self.lines("seal", "--recovered", path)
        self.assertEqual(sealed["left_out"], [{"step": "1.0", "missing_ranks": "1"}])
        opened = rlreplay_h5.open(path)
        self.assertEqual(opened.partial, ["train/1-0"])
        self.assertEqual({key.split("/")[1] for key in opened if key.startswith("train/")}, {"0-0", "2-0"})
        report, = self.lines("verify", path, code=CORRUPT)
        self.assertEqual((report["verdict"], report["recovered"]), ("INCOMPLETE", True))
        self.assertIn("values of step 1.0: these ranks hold no part of it: 1",
                      self.lines("verify", "--deep", path, code=CORRUPT)[0]["not_checked"])
        said = "step 1.0 is left out: of step 1.0 these ranks hold no part: 1"
        self.assertIn(said, self.lines("show", path)[0]["incomplete"])
        self.assertIn(said, self.run_program("objective", path).stdout)
        for words in (["train"], ["rollout"], ["train", "--steps", "0.0..2.0"]):
            result = self.run_program(*words[:1], path, *words[1:])
            self.assertEqual(result.returncode, CORRUPT, result.stdout + result.stderr)
            self.assertIn("does not hold step 1.0 whole (these ranks hold no part of it: 1), behind which",
                          result.stderr)
        self.assertIs(self.closing("train", path, "--steps", "0.0..0.0")["identical"], True)


class Resume(Case):
    def test_check_reads_what_the_journals_vouch_for(self):
        words = ("--model", "demo", "--steps", "2", "--rollout-batch-size", "2")
        sealed, _ = self.capture("sealed", *words)

        def other_content(made):
            if made["path"] == "rollout/1.h5":
                made["content"] = "0" * 32
        path = Patched(sealed).write(self.folder / "open", sealed=False, change=other_content)
        unit = sealed / "rollout/1.h5"
        data = bytearray(unit.read_bytes())
        data[len(data) // 2] ^= 1
        unit.write_bytes(data)
        for dump in (path, sealed):
            result = self.run_program("capture", "--resume", "--check", "-o", dump)
            self.assertEqual(result.returncode, CORRUPT, result.stdout + result.stderr)
            self.assertIn("rollout/1.h5", result.stderr)
        self.assertFalse((path / "manifest.json").exists())
        self.assertEqual(self.run_program("capture", "--resume", "-o", sealed).returncode, 0)


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
            if golden.name == "1.0":
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
        shutil.copytree(GOLDEN_DUMPS / "1.0", place)
        text = (place / "manifest.json").read_text()
        body = text[len('{"body":'):-44].replace(before, after)
        digest = xxhash.xxh3_128_hexdigest(body.encode())
        (place / "manifest.json").write_text('{"body":%s,"hash":"%s"}\n' % (body, digest))
        return place

    def test_newer_versions(self):
        newer = self.rewritten('"minor":0', '"minor":10')
        self.assertEqual(self.verified(newer, "1.0")["version"], "1.10")
        for before, after, word in [
                ('"major":1', '"major":2', "2.0"),
                ('"must_understand":[]', '"must_understand":["ternary"]', "ternary")]:
            newer = self.rewritten(before, after)
            for verb in ("verify", "show"):
                result = self.run_program(verb, newer)
                self.assertEqual(result.returncode, UNSUPPORTED, result.stderr)
                self.assertIn(word, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
