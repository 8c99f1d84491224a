"""Little that a process may have, and much that a small dump may name: a limit of the machine is no
finding about the dump, and time grows with what there is to do. usage: limits_test.py RLREPLAY
"""
import json
import os
import resource
import shutil
import sys
import time
import unittest

try:
    import dump_files
    import numpy
    import rewritten
    from dump_patch import Array, Patched
except ImportError:
    sys.exit(77)

from measured import impatient
from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))

ENVIRONMENT = 5
SMALL = ("--model", "demo", "--steps", "2", "--rollout-batch-size", "2", "--n-samples-per-prompt",
         "2")


class Limits(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *SMALL)

    def limited(self, limit, value, *arguments):
        return self.run_program(*arguments,
                                preexec_fn=lambda: resource.setrlimit(limit, (value, value)))

    def impatient(self, *arguments, code):
        """Runs the program, which is killed where it works on and on; returns what it prints."""
        result = self.run_program(*arguments, preexec_fn=impatient)
        self.assertEqual(result.returncode, code, result.stdout[-2000:] + result.stderr[-2000:])
        return result.stdout

    def test_few_open_files(self):
        codes = []
        for most in range(6, 20):
            for verb in (["verify"], ["verify", "--deep"]):
                result = self.limited(resource.RLIMIT_NOFILE, most, *verb, self.dump)
                with self.subTest(most=most, verb=verb):
                    self.assertNotIn("unlisted", result.stdout)
                    self.assertNotIn("Bad file descriptor", result.stderr)
                    if result.returncode not in (0, 127):  # the loader needs some too
                        self.assertEqual(result.returncode, ENVIRONMENT, result.stdout)
                        self.assertIn("Too many open files", result.stderr)
                codes.append(result.returncode)
        self.assertLessEqual({0, ENVIRONMENT}, set(codes))

    def test_few_open_files_for_ranks(self):
        begun = time.monotonic()
        result = self.limited(resource.RLIMIT_NOFILE, 24, "capture", *SMALL, "--layout", "dp=16", "--ranks-as",
                              "processes", "-o", self.folder / "ranks")
        self.assertLess(time.monotonic() - begun, 200)  # whom they wait for in vain has 300 s
        self.assertEqual(result.returncode, ENVIRONMENT, result.stderr)
        self.assertIn("Too many open files", result.stderr)

    def test_little_memory(self):
        for size in range(60, 320, 20):
            out = self.folder / f"within {size}"
            result = self.limited(resource.RLIMIT_AS, size << 20, "capture", *SMALL, "--threads",
                                  "1", "-o", out)
            self.assertIn(result.returncode, (0, ENVIRONMENT, 127), (size, result.stderr))

    def test_many_groups_of_a_unit(self):
        dump = Patched(self.dump)

        def array(values, dtype):
            return Array(numpy.array(values, "<u8" if dtype == "u64" else "<i4"), dtype,
                         [len(values)], {})

        groups = 1000
        dump.units = {"rollout/0.h5": {}}
        for group in range(groups):
            dump.units["rollout/0.h5"].update({
                f"{group}/sample_id": array([0], "u64"), f"{group}/offsets": array([0, 1], "u64"),
                f"{group}/tokens": array([1], "i32")})
        path = dump.write(self.folder / "groups")
        self.impatient("show", path, code=0)
        out = self.folder / "groups.jsonl"
        self.impatient("export", path, "--to", "jsonl", "-o", out, code=0)
        self.assertEqual(len(out.read_text().splitlines()), groups)

    def test_many_missing_units(self):
        path = self.folder / "missing"
        shutil.copytree(self.dump, path)
        body, units = dump_files.manifest_of(path), dump_files.units_of(path)
        unit = dict(next(unit for unit in units if unit["path"] == "rollout/0.h5"))
        unit.pop("group_contents", None)
        unit.pop("counts", None)
        missing = [{**unit, "path": f"rollout/9{i:06}.h5", "groups": [f"9{i:06}"]}
                   for i in range(120_000)]
        rewritten.seal(path, units + missing, body)
        report = json.loads(self.impatient("verify", "--json", path, code=3))
        self.assertEqual({p["code"] for p in report["problems"]}, {"unit-missing"})
        self.assertEqual(len(report["problems"]), len(missing))


if __name__ == "__main__":
    unittest.main()
