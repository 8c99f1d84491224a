"""Kills captures at random moments: nothing that was acknowledged is lost, and the resumed run ends
in the root of one that nobody disturbed. usage: kill_test.py RLREPLAY
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
FULL = os.environ.get("RLREPLAY_FULL") == "1"
SEED = int(os.environ.get("RLREPLAY_SEED", random.randrange(1 << 30)))
RUN = ["--model", "demo", "--steps", "9", "--num-steps-per-rollout", "2",
       "--rollout-batch-size", "4", "--record", "ops"]
POLICIES = ["first", "all", "every=2", "every=3", "none"]
MODES = [[], [], [], ["--rollout-only"]]


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=300)


def acknowledged(dump):
    """Path to (hash, bytes) of the units in whole lines of the journal; None before its first."""
    journal = dump / "journal/0.jsonl"
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    if not lines:
        return None
    bodies = [json.loads(line)["body"] for line in lines]
    units = [body["unit"] for body in bodies if "unit" in body]
    return {unit["path"]: (unit["hash"], (dump / unit["path"]).read_bytes()) for unit in units}


def kill_while_it_runs(moment, *arguments):
    """Whether it was still running when it was killed, `moment` seconds after its start."""
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() < 0


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay test "))
        self.addCleanup(shutil.rmtree, self.folder)

    def verify(self, dump, code):
        result = run("verify", "--deep", "--json", dump)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def check_what_is_left(self, dump, before):
        """All that was acknowledged is whole, and verify counts it."""
        units = acknowledged(dump)
        for path, content in before.items():
            self.assertEqual(units[path], content, path)
        report = self.verify(dump, 0 if (dump / "manifest.json").exists() else 3)
        # Killed between a unit's name and its record: the unit is there, and nobody promised it.
        self.assertEqual({p["code"] for p in report["problems"]} - {"unlisted"}, set())
        self.assertEqual(report["units"], len(units))
        self.assertEqual(report["whole_units"], len(units))
        self.assertEqual(report["whole_steps"], sum(p.startswith("train/") for p in units))
        return units


class Kill(Case):
    undisturbed = {}

    def reference(self, options):
        """Root, units and seconds of a capture that nobody disturbs."""
        key = " ".join(options)
        if key not in self.undisturbed:
            dump = self.folder / f"undisturbed {len(self.undisturbed)}"
            start = time.monotonic()
            result = run("capture", *RUN, *options, "-o", dump)
            seconds = time.monotonic() - start
            self.assertEqual(result.returncode, 0, result.stderr)
            self.undisturbed[key] = (self.verify(dump, 0), len(acknowledged(dump)), seconds)
        return self.undisturbed[key]

    def disturb(self, draw, dump, options):
        """Captures, with one kill or two; returns how many units each left."""
        whole, count, seconds = self.reference(options)
        before, left = {}, []
        for _ in range(draw.choice([1, 2])):
            begun = acknowledged(dump) is not None
            command = ["--resume", "-o", dump] if begun else [*RUN, *options, "-o", dump]
            killed = kill_while_it_runs(draw.uniform(0, 1.05 * seconds), "capture", *command)
            if acknowledged(dump) is None:
                self.assertTrue(killed)
                left.append(None)
                continue
            before = self.check_what_is_left(dump, before)
            left.append(len(before))
        begun = acknowledged(dump) is not None
        result = run("capture", *(["--resume"] if begun else [*RUN, *options]), "-o", dump)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_what_is_left(dump, before)
        report = self.verify(dump, 0)
        self.assertEqual(report["root"], whole["root"])
        self.assertEqual(report["whole_steps"], whole["whole_steps"])
        self.assertEqual(len(acknowledged(dump)), count)
        return left

    def test_killed_captures(self):
        for number in range(200 if FULL else 5):
            draw = random.Random(f"{SEED} {number}")
            options = ["--weights", draw.choice(POLICIES), *draw.choice(MODES)]
            with self.subTest(seed=SEED, number=number, options=options):
                left = self.disturb(draw, self.folder / f"dump {number}", options)
                print(f"seed {SEED}, {number}: {' '.join(options)}: units left {left}")


class Begun(Case):
    def test_no_line_is_no_dump(self):
        """Killed between the journal's making and its first line, before or after INCOMPLETE."""
        for text in ("", '{"body":{"form'):
            for begun in (False, True):
                with self.subTest(text=text, begun=begun):
                    dump = self.folder / f"dump {len(text)} {begun}"
                    (dump / "journal").mkdir(parents=True)
                    (dump / "journal/0.jsonl").write_text(text)
                    if begun:
                        (dump / "INCOMPLETE").write_text("")
                    report = self.verify(dump, 3)
                    self.assertEqual([p["code"] for p in report["problems"]], ["not-a-dump"])
                    result = run("show", dump)
                    self.assertEqual(result.returncode, 3)
                    self.assertIn("the dump ended before it began: start anew", result.stderr)
                    result = run("capture", *RUN, "-o", dump)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.verify(dump, 0)


class Resume(Case):
    """Dumps as a writer leaves them that died after a given number of units."""

    def cut(self, whole, units):
        dump = self.folder / f"cut {units}"
        shutil.copytree(whole, dump)
        journal = dump / "journal/0.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        torn = lines[units + 1][:40] if units + 1 < len(lines) else b""
        journal.write_bytes(b"".join(lines[:units + 1]) + torn)
        (dump / "manifest.json").unlink()
        (dump / "INCOMPLETE").write_bytes(b"")
        return dump

    def refused(self, sentence, *arguments):
        result = run("capture", "--resume", *arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(sentence, result.stderr)

    def test_after_any_unit(self):
        whole = self.folder / "whole"
        result = run("capture", *RUN, "--weights", "every=4", "-o", whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        root, count = self.verify(whole, 0)["root"], len(acknowledged(whole))
        cuts = range(count + 1)
        for units in cuts if FULL else random.Random(SEED).sample(cuts, 4):
            with self.subTest(seed=SEED, units=units):
                dump = self.cut(whole, units)
                before = acknowledged(dump)
                result = run("capture", "--resume", "--threads", "1", "--json", "-o", dump)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.check_what_is_left(dump, before)
                self.assertEqual(self.verify(dump, 0)["root"], root)
                steps = [json.loads(line) for line in result.stdout.splitlines()]
                again = {f"train/{s['rollout_id']}-{s['step_id']}/rank0.h5": s["identical"]
                         for s in steps}
                self.assertEqual(again, {path: True if path in before else None
                                         for path in again})

    def test_what_is_refused(self):
        whole = self.folder / "whole"
        result = run("capture", *RUN, "-o", whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        dump = self.cut(whole, 4)
        self.refused("--lr is ", "--lr", "1", "-o", dump)
        self.refused("--steps is 9 in this dump, not 10", "--steps", "10", "-o", dump)
        self.refused("--rollout-only is false", "--rollout-only", "-o", dump)
        self.refused("give one", "--force", "-o", dump)
        result = run("capture", "--resume", *RUN, "-o", dump)  # as begun: no flag differs
        self.assertEqual(result.returncode, 0, result.stderr)
        files = {p: p.stat().st_mtime_ns for p in dump.rglob("*") if p.is_file()}
        result = run("capture", "--resume", "-o", dump)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("is complete", result.stdout)
        self.assertEqual(files, {p: p.stat().st_mtime_ns for p in dump.rglob("*") if p.is_file()})
        self.assertEqual(run("capture", "--resume", "-o", self.folder / "none").returncode, 3)

    def test_a_changed_prompt_is_noticed(self):
        prompts = self.folder / "prompts.jsonl"
        lines = [json.dumps({"prompt": f"{n}+2=", "label": str(n + 2)}) for n in range(5)]
        prompts.write_text("\n".join(lines))
        whole = self.folder / "whole"
        result = run("capture", *RUN, "--prompts", prompts, "-o", whole)
        self.assertEqual(result.returncode, 0, result.stderr)
        dump = self.cut(whole, 4)
        prompts.write_text("\n".join(lines).replace("+2=", "+3="))
        self.refused("the prompts are not those", "-o", dump)


class Replaced(Case):
    """A capture that replaces a dump, killed between its last byte and its name."""
    SMALL = ["--model", "demo", "--steps", "1", "--rollout-batch-size", "2",
             "--n-samples-per-prompt", "2"]

    def killed(self, dump):
        """A sealed dump beside its name; the root that it has, and that of the old one."""
        beside = pathlib.Path(f"{dump}.rlreplay-new") / "content"
        for _ in range(60):
            shutil.rmtree(dump, ignore_errors=True)
            shutil.rmtree(beside.parent, ignore_errors=True)
            self.assertEqual(run("capture", *self.SMALL, "-o", dump).returncode, 0)
            old = self.verify(dump, 0)["root"]
            process = subprocess.Popen(
                [PROGRAM, "capture", *self.SMALL, "--seed", "7", "--force", "-o", dump],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and not os.path.exists(beside / "manifest.json"):
                pass
            process.kill()
            process.wait()
            if (beside / "manifest.json").exists() and self.verify(dump, 0)["root"] == old:
                return self.verify(beside, 0)["root"], old
        self.skipTest("it was never killed between these moments")

    def test_it_takes_its_name(self):
        dump = self.folder / "dump"
        for command in (["--resume"], [*self.SMALL], [*self.SMALL, "--seed", "8", "--force"]):
            new, old = self.killed(dump)
            result = run("capture", *command, "-o", dump)
            self.assertIn("sealed to take this name", result.stderr)
            root = self.verify(dump, 0)["root"]
            self.assertNotEqual(root, old)
            self.assertEqual(root == new, "--force" not in command)
            self.assertEqual(result.returncode, 2 if command == self.SMALL else 0, result.stderr)
            self.assertEqual(os.listdir(self.folder), ["dump"])

    def test_it_replaces_nothing_else(self):
        dump, other = self.folder / "dump", self.folder / "other"
        self.killed(dump)
        self.assertEqual(run("capture", *self.SMALL, "-o", other).returncode, 0)
        dump.rename(self.folder / "kept")
        other.rename(dump)
        root = self.verify(dump, 0)["root"]
        for command in (["--resume"], [*self.SMALL, "--force"]):
            result = run("capture", *command, "-o", dump)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("was not made to replace", result.stderr)
        self.assertEqual(self.verify(dump, 0)["root"], root)


if __name__ == "__main__":
    unittest.main()
