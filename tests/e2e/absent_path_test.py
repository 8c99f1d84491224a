"""A path that is not there is incomplete input, whichever verb and option it is given to.
usage: absent_path_test.py RLREPLAY RLBISECT
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

import checkpoints
from closed_program import CORRUPT, DEMO, ENVIRONMENT, Program
from support import Case

Case.program, Case.rlbisect = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]

INCOMPLETE = {"rlreplay": 3, "rlbisect": 128}
SMALL = "--rollout-batch-size 2 --n-samples-per-prompt 2 --steps 1"
PROMPTS = "--prompts {prompts} " + SMALL
# What reads a path: the words of a command, {no} where it is not there.
READS = {
    ("rlreplay capture", "--config"): "--model demo --config {no} -o {new}",
    ("rlreplay capture", "--model"): "--model {no} " + PROMPTS + " -o {new}",
    ("rlreplay capture", "--ref-load"):
        "--model demo --kl-coef 0.1 --ref-load {no} " + SMALL + " -o {new}",
    ("rlreplay capture", "--prompts"):
        "--model {model} --reward gsm8k --prompts {no} " + SMALL + " -o {new}",
    ("rlreplay train", "DUMP"): "{no}",
    ("rlreplay train", "--config"): "{dump} --config {no}",
    ("rlreplay train", "--model"): "--model {no} " + PROMPTS,
    ("rlreplay train", "--ref-load"): "{dump} --kl-coef 0.1 --ref-load {no}",
    ("rlreplay train", "--prompts"):
        "--model {model} --reward gsm8k --prompts {no} " + SMALL,
    ("rlreplay rollout", "DUMP"): "{no}",
    ("rlreplay rollout", "--config"): "{dump} --config {no}",
    ("rlreplay layouts", "DUMP"): "{no}",
    ("rlreplay why", "DUMP"): "{no} 0.0/forward/0/down/y:0",
    ("rlreplay score", "TOKENS"): "{no} --model demo",
    ("rlreplay score", "--model"): "{lines} --model {no}",
    ("rlreplay show", "DUMP"): "{no}",
    ("rlreplay show", "--tokenizer"): "{dump} --sample 0 --text --tokenizer {no}",
    ("rlreplay verify", "DUMP"): "{no}",
    ("rlreplay diff", "A"): "{no} {dump}",
    ("rlreplay diff", "B"): "{dump} {no}",
    ("rlreplay doctor", "CKPT"): "{no}",
    ("rlreplay doctor", "--ref"): "{model} --ref {no}",
    ("rlreplay doctor", "--earlier"): "{model} --ref {model} --earlier {no}",
    ("rlreplay objective", "DUMP"): "{no}",
    ("rlreplay objective", "--config"): "{dump} --config {no}",
    ("rlreplay mismatch", "DUMP"): "{no}",
    ("rlreplay mismatch", "--model"): "{dump} --model {no}",
    ("rlreplay import", "PATHS..."): "{no} -o {new}",
    ("rlreplay export", "DUMP"): "{no} --to jsonl -o {new}",
    ("rlreplay strip", "DUMP"): "{no} --texts -o {new}",
    ("rlreplay pack", "DUMP"): "{no} -o {new}",
    ("rlreplay pack", "--open"): "--open {no} -o {new}",
    ("rlreplay seal", "PATH"): "{no} --recovered",
    ("rlreplay upgrade", "PATH"): "{no}",
    ("rlreplay golden record", "--config"): "{new}.txt --model demo --config {no}",
    ("rlreplay golden record", "--model"): "{new}.txt --model {no} " + PROMPTS,
    ("rlreplay golden record", "--ref-load"):
        "{new}.txt --model demo --kl-coef 0.1 --ref-load {no} " + SMALL,
    ("rlreplay golden record", "--prompts"):
        "{new}.txt --model {model} --reward gsm8k --prompts {no} " + SMALL,
    ("rlreplay golden record", "--dump"): "{new}.txt --run true --dump {no}",
    ("rlreplay golden check", "PATH..."): "{no} --model demo",
    **{(f"rlreplay golden {part}", "PATH..."): "{no}"
       for part in ("accept", "reject", "list", "explain", "fsck", "quarantine", "tighten")},
    ("rlreplay golden diff", "PATH..."): "{golden} {no}",
    ("rlreplay golden check", "--config"): "{golden} --model demo --config {no}",
    ("rlreplay golden check", "--model"): "{golden} --model {no} " + PROMPTS,
    ("rlreplay golden check", "--ref-load"):
        "{golden} --model demo --kl-coef 0.1 --ref-load {no} " + SMALL,
    ("rlreplay golden check", "--prompts"):
        "{golden} --model {model} --reward gsm8k --prompts {no} " + SMALL,
    ("rlreplay tokenize", "INPUT"): "{no} --model demo",
    ("rlreplay tokenize", "--model"): "{lines} --model {no}",
    ("rlbisect", "ENDS..."): "{dump} {no}",
    ("rlbisect", "--repo"): "a..b --repo {no} --run true",
    ("rlbisect verdict", "PATHS..."): "{dump} {no}",
    ("rlbisect op", "--from"): "0.0/forward/0/down/y --from {no}",
    ("rlbisect verdict", "--reference"): "--run true --reference {no}",
}
# Paths that are written, and what is no path.
OTHERS = {"-o", "--output", "--out", "--save", "--plot", "--input-key", "--label-key",
          "--reward-command", "--reward-key", "--layout", "--record", "--weights", "--steps",
          "--inject", "--step", "--event", "--tensor", "--tolerance", "--reason", "--build",
          "--run", "--until", "--owner", "--metric", "--try", "--columns", "--class", "ELEMENT",
          "EVENT", "--kernels", "--against", "--claim", "--explain"}
WRITTEN = {("rlreplay golden record", "PATH"), ("rlreplay golden review", "PATH..."),
           *(("rlreplay golden check", option) for option in ("--junit", "--sarif", "--gitlab")),
           *(("rlreplay golden tighten", option)
             for option in ("--config", "--model", "--ref-load", "--prompts"))}


class AbsentPaths(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("dump", "--model", "demo", *SMALL.split())
        model = checkpoints.write(cls.folder / "model", checkpoints.config())
        lines = cls.folder / "lines.jsonl"
        lines.write_text(json.dumps({"tokens": [1, 2], "prompt_len": 1, "text": "1"}) + "\n")
        golden = cls.folder / "golden.txt"
        made = cls.run_program("golden", "record", golden, "--model", "demo", *SMALL.split())
        assert made.returncode == 0, made.stderr
        cls.places = {"no": cls.folder / "nowhere" / "x", "new": cls.folder / "new", "dump": dump,
                      "model": model, "lines": lines, "golden": golden,
                      "prompts": checkpoints.write_prompts(cls.folder / "prompts.jsonl")}

    def verbs(self, program, words=()):
        """(the words before its options, the verb's help) of every verb of a program."""
        whole = json.loads(self.run_program(*words, "--help-json", program=program).stdout)
        inner = whole["verbs"]
        while inner:
            verb = inner.pop()
            inner += verb.get("verbs", [])
            yield verb
        yield whole

    def test_every_option_that_takes_a_text_is_named(self):
        known = set()
        for program, words in ((self.program, ()), (self.rlbisect, ()),
                               (self.rlbisect, ("verdict",)), (self.rlbisect, ("op",))):
            for verb in self.verbs(program, words):
                for option in verb["options"]:
                    names = {option["argument"], *option["names"]} - {""}
                    if not option["value"].startswith("TEXT") or option["choices"]:
                        continue
                    places = {(verb["name"], name) for name in names}
                    known |= places
                    self.assertTrue(names & OTHERS or places & (READS.keys() | WRITTEN), places)
        self.assertEqual(READS.keys() - known, set())

    def test_what_is_not_there_is_incomplete_input(self):
        for (verb, option), text in READS.items():
            with self.subTest(verb=verb, option=option):
                program, *words = verb.split()
                words += [word.format(**self.places) for word in text.split()]
                result = self.run_program(
                    *words, program=self.program if program == "rlreplay" else self.rlbisect,
                    stdin=subprocess.DEVNULL)
                self.assertEqual(result.returncode, INCOMPLETE[program], result.stderr)
                self.assertIn("nowhere", result.stderr)
                self.assertFalse(self.places["new"].exists())


class WhileItRuns(Program):
    """A dump that goes while a verb reads or writes it: one sentence, that says no more than is true."""
    NOTES = "nothing is learned"

    def ended(self, process, code):
        out, said = process.communicate(timeout=300)
        self.assertEqual(process.returncode, code, said)
        said, = [line for line in said.splitlines() if self.NOTES not in line]
        return out, said

    def test_a_capture_whose_dump_is_removed(self):
        dump, moved = self.here / "dump", self.here / "moved"
        process = self.start(*DEMO, "--steps", 100000, "--json", "-o", dump)
        process.stdout.readline()
        dump.rename(moved)
        while process.poll() is None:
            shutil.rmtree(moved, ignore_errors=True)
            process.stdout.readline()
        said = self.ended(process, ENVIRONMENT)[1]
        self.assertIn("; the dump is no longer there: where it was removed, run again; where it was moved, move it "
                      "back, and rlreplay capture --resume -o ", said)
        self.assertNotIn("is whole", said)

    def test_a_capture_whose_dump_is_moved(self):
        dump, moved = self.here / "dump", self.here / "moved"
        process = self.start(*DEMO, "--steps", 40, "-o", dump)
        process.stdout.readline()
        process.stdout.readline()
        dump.rename(moved)
        out, said = self.ended(process, ENVIRONMENT)
        root, = self.lines("verify", moved)
        self.assertIn(f"the dump was sealed with root {root['root']}, and is no longer there: it was moved or removed "
                      "while it was written", said)
        self.assertNotIn("recorded in", out)

    def test_a_replay_whose_dump_is_removed(self):
        dump = self.here / "dump"
        self.run_program(*DEMO, "--steps", 60, "--weights", "all", "-o", dump)
        process = self.start("train", dump, "--each-step", "--json", "-o", self.here / "replayed")
        process.stdout.readline()
        (dump / "manifest.json").unlink()
        for folder in ("journal", "weights", ""):
            shutil.rmtree(dump / folder)
        said = self.ended(process, CORRUPT)[1]
        self.assertIn("a unit is missing, and the dump with it: it was removed while it was read", said)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
