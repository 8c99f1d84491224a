"""Dumps whose `meta` says something else than a run would, with all hashes as they should be: every
verb ends with one of its exit codes and one sentence, soon, and in little memory.
usage: meta_test.py RLREPLAY RLBISECT"""
import copy
import json
import random
import resource
import shutil
import subprocess
import sys
import unittest

from dump_patch import Patched
from support import FULL, SEED, Case

Case.program, Case.rlbisect = sys.argv[1:3]
del sys.argv[1:3]

SECONDS, BYTES = 20, 2 << 30
MISSING = object()
BIG = 1 << 63
VALUES = (MISSING, None, True, "", "x", "nan", "-1", "0", "1e400", "9" * 400, "y" * 100000, [], [-1],
          {}, {"x": [1]}, 0, 1, -1, 3, 1.5, 0.1, BIG - 1, BIG, -BIG, 1 << 40, 1 << 20, 1e308)
VERBS = (("verify",), ("show",), ("diff", "BASE"), ("train", "--threads", "2", "--from"),
         ("objective",), ("mismatch",), ("export", "-o", "OUT", "--to", "jsonl"),
         ("rollout", "--threads", "2"))


def paths(value, path=()):
    """Of all that an object holds, itself included."""
    yield path
    for name, member in value.items() if isinstance(value, dict) else ():
        yield from paths(member, path + (name,))


def changed(value, path, to):
    """A copy in which `to` stands at a path; a number where a text was becomes a text."""
    if not path:
        return {} if to is MISSING else to
    out = copy.deepcopy(value)
    at = out
    for name in path[:-1]:
        at = at[name]
    if to is MISSING:
        del at[path[-1]]
    else:
        text = isinstance(at[path[-1]], str) and isinstance(to, (int, float)) and to is not True
        at[path[-1]] = str(to) if text else to
    return out


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Meta(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base, _ = cls.capture("base", "--model", "demo", "--steps", "2", "--rollout-batch-size",
                                  "2", "--n-samples-per-prompt", "2", "--rollout-max-response-len",
                                  "4", "--record", "ops", "--use-kl-loss")
        cls.loaded = Patched(cls.base)
        cls.model = json.loads(cls.loaded.meta["model"])

    def metas(self):
        """(what was changed, meta)"""
        meta = self.loaded.meta
        for path in paths(meta):
            for value in VALUES:
                yield (path, value), changed(meta, path, value)
        for path in paths(self.model):
            for value in VALUES:
                model = changed(self.model, path, value)
                text = json.dumps(model, separators=(",", ":"))
                yield (("model",) + path, value), {**meta, "model": text}

    def check(self, path, *verb):
        words = [{"BASE": str(self.base), "OUT": str(self.folder / "out")}.get(w, w) for w in verb]
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "out").unlink(missing_ok=True)
        program = [self.rlbisect] if verb == () else [self.program]
        words = words + [str(path)] if verb else [f"{self.base}/..{path}/"]
        result = subprocess.run(program + words, capture_output=True, text=True, timeout=SECONDS,
                                preexec_fn=limit)
        said = f"{words}: exit {result.returncode}: {result.stderr[-500:]}"
        runs = verb[:1] in (("train",), ("rollout",))  # the record's options, as if given
        codes = range(6) if runs else (0, 1, 3, 4, 5) if verb else (0, 1, 128)
        self.assertIn(result.returncode, codes, said)
        if result.returncode > 1:
            sentence = (result.stderr or result.stdout).strip()  # verify prints its findings
            self.assertNotEqual(sentence, "", said)
            self.assertLess(len(sentence), 1500, said)
            self.assertNotIn("bad_alloc", sentence, said)
            if verb and not runs:
                self.assertNotIn("memory", sentence, said)

    def test_a_path_that_no_file_can_have(self):
        dump = copy.copy(self.loaded)
        dump.meta = changed(dump.meta, ("config", "model"), "y" * 100000)
        written = dump.write(self.folder / "mutated")
        for verb in VERBS:
            with self.subTest(verb[:1]):
                self.check(written, *verb)

    def test_batches_that_no_rollout_has(self):
        for name, value in (("num-steps-per-rollout", "8"), ("global-batch-size", "8"),
                            ("num-rollout", str(1 << 62)), ("rollout-batch-size", str(1 << 62))):
            dump = copy.copy(self.loaded)
            config = {**dump.meta["config"], name: value}
            if name == "num-rollout":
                config["steps"] = "none"
            dump.meta = {**dump.meta, "config": config}
            written = dump.write(self.folder / "mutated")
            for verb in VERBS + ((),):
                with self.subTest(name, verb=verb[:1]):
                    self.check(written, *verb)
            for verb in ("verify", "train"):
                said = self.run_program(verb, written)
                self.assertEqual(said.returncode, 3, said.stdout)
                self.assertIn("no run can have the options", said.stdout + said.stderr)

    def test_every_key(self):
        choose = random.Random(SEED)
        print("seed", SEED)
        cases = list(self.metas())
        for (path, value), meta in cases if FULL else choose.sample(cases, 20):
            dump = copy.copy(self.loaded)
            dump.meta = meta
            written = dump.write(self.folder / "mutated")
            for verb in VERBS + ((),):
                with self.subTest(path=".".join(path), value=str(value)[:40], verb=verb[:1]):
                    self.check(written, *verb)


class Bare(Case):
    def test_no_optional_key(self):
        """A dump that verify calls whole is taken by every verb that needs no options."""
        dump, _ = self.capture("dump", "--model", "demo", "--steps", "2")
        patched = Patched(dump)
        for meta in ({"ranks": 1}, {"ranks": 1, "config": "text"}):
            with self.subTest(meta=meta):
                patched.meta = meta
                path = patched.write(self.folder / "bare")
                self.assertEqual(self.run_program("verify", "--deep", path).returncode, 0)
                self.lines("mismatch", path)
                result = self.run_program("objective", path)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertIn("the dump says nothing of its options", result.stderr)
                out = self.folder / "lines.jsonl"
                result = self.run_program("export", path, "--to", "jsonl", "--force", "-o", out)
                self.assertEqual(result.returncode, 0, result.stderr)
                result = self.run_program("train", "--from", path)
                self.assertEqual(result.returncode, 4)
                self.assertIn("does not say with which options and which model", result.stderr)


if __name__ == "__main__":
    unittest.main()
