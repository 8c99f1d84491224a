"""Imports for looking wait for no disk.

usage: own_columns_test.py RLREPLAY
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

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
        self.assertGreater(self.fsyncs("import", lines, "-o", self.folder / "kept"), 40)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
