"""Imports for looking wait for no disk; what an export put beside a framework's columns comes back
to the rules of a dump, or is refused.

usage: own_columns_test.py RLREPLAY
"""
import os
import pathlib
import pickletools
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support

CORRUPT = 3
COUNTER = r"""
#include <stdio.h>
#include <stdlib.h>
int fsync(int file) {
  FILE *out = fopen(getenv("FSYNCS"), "a");
  fputs("x", out);
  fclose(out);
  return file < 0;
}
"""


class Looking(support.Case):
    def fsyncs(self, *arguments):
        # LD_PRELOAD takes no path with a space.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay-test-"))
        self.addCleanup(shutil.rmtree, folder)
        library, counted, source = folder / "counter.so", folder / "fsyncs", folder / "counter.c"
        source.write_text(COUNTER)
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            self.skipTest("no compiler")
        counted.write_text("")
        result = self.run_program(*arguments, env={**os.environ, "LD_PRELOAD": str(library),
                                                   "FSYNCS": str(counted)})
        self.assertEqual(result.returncode, 0, result.stderr)
        return len(counted.read_text())

    def test_what_is_thrown_away_waits_for_no_disk(self):
        lines = self.folder / "many.jsonl"
        lines.write_text("".join(
            '{"schema":"rlreplay.sample/1","rollout_id":%d,"sample_id":0,"prompt_length":1,'
            '"tokens":[1,2],"log_probs":[-1.0],"reward":1.0}\n' % i for i in range(20)))
        for words in (["show", lines], ["diff", lines, lines], ["verify", "--deep", lines]):
            self.assertEqual(self.fsyncs(*words), 0, words)
        # What is kept: once for all units, then the manifest and the names.
        kept = self.fsyncs("import", lines, "-o", self.folder / "kept")
        self.assertGreater(kept, 1)
        self.assertLess(kept, 10)


class Own(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("dump", "--model", "demo", "--rollout-batch-size", "2",
                              "--n-samples-per-prompt", "4")
        cls.dump, cls.slime = dump, cls.folder / "slime"
        cls.run_program("export", dump, "--to", "slime", "-o", cls.slime)

    def rewritten(self, name, edit):
        """The file with each member as `edit` gives it of its name and bytes."""
        path = self.folder / "q.pt"
        with zipfile.ZipFile(self.slime / name) as archive, zipfile.ZipFile(path, "w") as out:
            for member in archive.infolist():
                out.writestr(zipfile.ZipInfo(member.filename),
                             edit(member.filename, archive.read(member)))
        return path

    def with_text(self, name, old, new):
        return self.rewritten(name, lambda member, content: content.replace(old, new, 1)
                              if member.endswith("data.pkl") else content)

    def with_byte(self, name, dataset, byte):
        """The last byte of what a dataset of ours holds."""
        with zipfile.ZipFile(self.slime / name) as archive:
            pickle = next(m for m in archive.namelist() if m.endswith("data.pkl"))
            texts = [a for _, a, _ in pickletools.genops(archive.read(pickle))
                     if isinstance(a, str)]
        after = texts[texts.index(dataset):]
        key = next(t for t in after if t.isdecimal())
        return self.rewritten(name, lambda member, content: content[:-1] + bytes([byte])
                              if member.endswith("/data/" + key) else content)

    def refused(self, path, *words):
        made = self.folder / "made"
        result = self.run_program("import", path, "-o", made)
        self.assertEqual(result.returncode, CORRUPT, result.stdout + result.stderr)
        self.assertFalse(made.exists())
        deep, plain = (self.run_program("verify", *flags, path) for flags in (["--deep"], []))
        for verified in deep, plain:
            self.assertEqual(verified.returncode, CORRUPT, verified.stdout)
        for text in (result.stderr, deep.stdout, plain.stdout):
            for word in (str(path), *words):
                self.assertIn(word, " ".join(text.split()))

    def test_what_was_changed_is_refused_with_its_name(self):
        rollout, train = "rollout_data/0.pt", "train_data/0.pt"
        self.refused(self.with_text(train, b"columns", b"column0"), "0-0/scalars", "no names")
        self.refused(self.with_text(rollout, b"events/digest", b"events/digesx"),
                     "events/digest is missing")
        self.refused(self.with_byte(rollout, "label_text_present", 128),
                     "0/label_text_present", "expected 0 or 1")
        self.refused(self.with_byte(train, "events/row_digest_offsets", 255),
                     "0-0/events/row_digest_offsets")

    def test_what_was_not_changed_is_whole(self):
        for name in ("rollout_data/0.pt", "train_data/0.pt"):
            path, made = self.rewritten(name, lambda _, content: content), self.folder / "whole"
            self.assertEqual(self.run_program("import", path, "-o", made, "--force").returncode, 0)
            self.assertEqual(self.run_program("verify", "--deep", path).returncode, 0)

    def test_a_unit_of_events_alone_makes_no_rollout_one_of_several_units(self):
        dump = support.patched(self.dump)
        unit = dump.units["rollout/0.h5"]
        unit["0/mine"] = unit["0/sample_id"]
        events = {name: array for name, array in unit.items() if "/events/" in name}
        made = []
        for name in "together", "apart":
            if name == "apart":
                dump.units["rollout/0.h5"] = {name: unit[name] for name in unit if name not in events}
                dump.units["rollout/0b.h5"] = events
            path = dump.write(self.folder / name)
            for form in "slime", "miles":
                out, again = self.folder / f"{name} {form}", self.folder / f"{name} {form} again"
                exported = self.run_program("export", path, "--to", form, "-o", out)
                self.assertEqual(exported.returncode, 0, exported.stderr)
                said = self.lines("import", out, "-o", again)[-1]
                self.assertEqual(self.lines("verify", "--deep", again)[-1]["verdict"], "complete")
                made.append((exported.stderr.replace(name, ""), said["content"]))
        self.assertEqual(made[:2], made[2:])


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
