"""Foreign dumps by every verb: what is said names what the user named, and no folder of our own.

usage: foreign_test.py RLREPLAY
"""
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import unittest
import zipfile

import material
import support

VERBS = {
    "show": ["show", "{}"], "show json": ["show", "{}", "--json"],
    "samples": ["show", "{}", "--samples"], "sample": ["show", "{}", "--sample", "0"],
    "event": ["show", "{}", "--event", "0.0/forward/0/down/y"],
    "verify": ["verify", "{}"], "deep": ["verify", "{}", "--deep"],
    "objective": ["objective", "{}"], "objective json": ["objective", "{}", "--json"],
    "mismatch": ["mismatch", "{}"], "mismatch json": ["mismatch", "{}", "--json"],
    "diff": ["diff", "{}", "{}"], "diff json": ["diff", "{}", "{}", "--json"],
    "train": ["train", "{}", "--model", "demo", "--lr", "5e-4"],
    "train json": ["train", "{}", "--model", "demo", "--lr", "5e-4", "--json"],
    "no model": ["train", "{}"], "steps": ["train", "{}", "--model", "demo", "--steps", "9"],
    "referee": ["train", "{}", "--model", "demo", "--forward", "--steps", "0"],
    "rollout": ["rollout", "{}"],
}


class Foreign(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("dump", "--model", "demo", "--num-rollout", "2",
                              "--rollout-batch-size", "2", "--n-samples-per-prompt", "4")
        cls.dump, cls.slime = dump, cls.folder / "slime"
        cls.run_program("export", dump, "--to", "slime", "-o", cls.slime)
        cls.lines_file = cls.folder / "samples.jsonl"
        cls.run_program("export", dump, "--to", "jsonl", "-o", cls.lines_file)
        cls.temporary = cls.folder / "temporary"
        cls.temporary.mkdir()

    def said(self, name, path, code=None):
        """Of a verb, both streams; they name no folder of ours, and none is left."""
        words = [word.format(path) for word in VERBS[name]]
        result = self.run_program(*words, env={**os.environ, "TMPDIR": str(self.temporary)})
        text = result.stdout + result.stderr
        self.assertNotEqual(result.returncode, 70, text)
        # What may differ between equal runs is no report: it holds the machine's environment.
        for line in text.splitlines():
            if '"schema":"rlreplay.show/2"' not in line:
                self.assertNotIn("/rlreplay-", line, words)
                self.assertNotIn(str(self.temporary), line, words)
        self.assertEqual(list(self.temporary.iterdir()), [], words)
        if code is not None:
            self.assertEqual(result.returncode, code, text)
        return text

    def test_sound_files(self):
        for path in (self.slime, self.slime / "rollout_data" / "0.pt",
                     self.slime / "train_data" / "0.pt", self.lines_file):
            for name in VERBS:
                self.said(name, path)
        self.assertIn(f"2 of 2 steps of {self.slime}", self.said("train", self.slime, 0))
        closing = [line for line in self.said("train json", self.slime, 0).splitlines()
                   if line.startswith("{")][-1]
        self.assertEqual(json.loads(closing)["dump"], str(self.slime))
        self.assertIn(f"{self.slime}: --steps: the dump has 2 steps", self.said("steps", self.slime, 2))
        self.assertIn(f"{self.slime}: the dump was imported and holds no weights",
                      self.said("no model", self.slime, 2))
        self.assertIn("forward", self.said("referee", self.slime))

    def test_verbs_of_dumps_alone_say_how_to_come_to_one(self):
        for path in (self.slime, self.slime / "rollout_data/0.pt", self.lines_file):
            for words in (["export", path, "--to", "jsonl", "-o", self.folder / "unwritten"],
                          ["upgrade", path], ["upgrade", path, "-o", self.folder / "unwritten"],
                          ["seal", "--recovered", path]):
                said = self.run_program(*words)
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertIn(f"import them first, rlreplay import {shlex.quote(str(path))} -o dump/",
                              said.stderr)
        said = self.run_program("upgrade", self.temporary)
        self.assertIn("the folder holds no dump", said.stderr)

    def test_files_that_are_none(self):
        """An error names the one file in a folder."""
        bad = {"cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
               "empty": lambda path: path.write_bytes(b""),
               "text": lambda path: path.write_text("no archive")}
        for kind, spoil in bad.items():
            folder = self.folder / f"spoiled {kind}"
            shutil.copytree(self.slime, folder)
            path = folder / "rollout_data" / "1.pt"
            spoil(path)
            for name in VERBS:
                text = self.said(name, folder)
                if name not in ("verify", "deep"):
                    self.assertIn(str(path), text, (kind, name))
                if kind == "text":
                    self.said(name, path)
        lines = self.folder / "spoiled.jsonl"
        lines.write_text(self.lines_file.read_text() + "{\n")
        for name in VERBS:
            if name not in ("verify", "deep"):
                self.assertIn(f"{lines}:", self.said(name, lines))

    def test_hostile_files(self):
        for folder in material.folders():
            dumps = folder / "dumps"
            files = sorted([*dumps.glob("tricky/*.pt"), *dumps.glob("hostile/dump_*.pt")])
            self.assertGreater(len(files), 20)
            for path in files:
                for name in ("show", "objective", "no model", "deep"):
                    self.said(name, path)

    def test_nothing_that_a_file_carries_is_run(self):
        """Most of these would leave a file where the reader runs; whoever unpickles one finds it."""
        here, dump = self.folder / "here", self.folder / "dump of none"
        here.mkdir()
        for folder in material.folders():
            hostile = folder / "dumps/hostile"
            for path in hostile.glob("global_os_system.pt"):
                with zipfile.ZipFile(path) as archive:
                    pickled, = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]
                subprocess.run([sys.executable, "-c", "import pickle, sys\n"
                                "pickle.loads(sys.stdin.buffer.read())"], input=pickled, cwd=here,
                               capture_output=True)
                made, = here.iterdir()
                made.unlink()
            files = sorted(hostile.glob("*.pt"))
            self.assertGreater(len(files), 100)
            for path in files:
                for words in (["show", path], ["verify", "--deep", path], ["import", path, "-o", dump,
                                                                           "--force"]):
                    result = self.run_program(*words, cwd=here)
                    self.assertLess(result.returncode, 70, (words, result.stderr))
            for words in (["verify", hostile], ["import", hostile, "-o", dump, "--force"]):
                self.assertNotEqual(self.run_program(*words, cwd=here).returncode, 0)
        self.assertEqual(list(here.iterdir()), [])

    def test_a_damaged_dump_names_its_file(self):
        damaged = self.folder / "damaged"
        shutil.copytree(self.dump, damaged)
        path = damaged / "rollout" / "0.h5"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        for words in (["objective", damaged], ["mismatch", damaged],
                      ["train", damaged], ["rollout", damaged], ["diff", self.dump, damaged],
                      ["diff", damaged, self.dump], ["show", damaged, "--sample", "1"]):
            result = self.run_program(*words)
            self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
            self.assertIn(f"{path}:", result.stderr, words)
        (damaged / "manifest.json").write_text("{")
        result = self.run_program("show", damaged)
        self.assertIn(f"{damaged / 'manifest.json'}:", result.stderr)

    def test_a_full_disk(self):
        """Where an import finds no room, the folder that is full is not the dump's."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        result = self.run_program("objective", self.slime, preexec_fn=limit,
                                  env={**os.environ, "TMPDIR": str(self.temporary)})
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertNotIn("/rlreplay-", result.stderr)
        self.assertIn(f"{self.slime}: ", result.stderr)
        self.assertIn("TMPDIR", result.stderr)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
