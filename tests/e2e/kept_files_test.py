"""Kept files of imported dumps whose datasets are of another form than format/SPEC.md says: refused
by name, by verify and by whoever writes the files again.

usage: kept_files_test.py RLREPLAY
"""
import pathlib
import sys
import unittest

try:
    from dump_patch import STORED, Patched
except ImportError:
    sys.exit(77)

import material
import support

CORRUPT = 3


class Forms(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump = cls.folder / "dump"
        run = pathlib.Path(material.made()) / "dumps/slime-latest/grpo-tp2dp2"
        result = cls.run_program("import", run, "-o", cls.dump)
        assert result.returncode == 0, result.stderr
        patched = Patched(cls.dump)
        cls.unit = max((name for name in patched.units if name.startswith("x-slime/")),
                       key=lambda name: patched.units[name][cls.group_of(patched, name)
                                                            + "/records"].values.size)
        cls.group = cls.group_of(patched, cls.unit)

    @staticmethod
    def group_of(patched, unit):
        return next(iter(patched.units[unit])).split("/")[0]

    def changed(self, name, edit, unit=None):
        patched = Patched(self.dump)
        datasets = patched.units[unit or self.unit]
        datasets[name] = edit(datasets[name])
        return patched.write(self.folder / "changed")

    def refused(self, path, dataset, words):
        deep = self.run_program("verify", "--deep", path)
        self.assertEqual(deep.returncode, CORRUPT, deep.stdout)
        export = self.run_program("export", path, "--to", "slime", "-o", self.folder / "out")
        self.assertEqual(export.returncode, CORRUPT, export.stderr)
        self.assertFalse((self.folder / "out").exists())
        for text in (deep.stdout, export.stderr):
            for word in (self.unit, dataset, words):
                self.assertIn(word, " ".join(text.split()))

    def test_one_that_keeps_files_is_not_identical_to_one_that_keeps_none(self):
        lines = self.folder / "lines.jsonl"
        made = self.run_program("export", self.dump, "--to", "jsonl", "-o", lines)
        self.assertEqual(made.returncode, 0, made.stderr)
        for name, a, b in ("A", self.dump, lines), ("B", lines, self.dump):
            said = self.run_program("diff", a, b)
            self.assertEqual((said.returncode, said.stdout.splitlines()[0]),
                             (0, f"identical in content; {name} alone keeps foreign files"))

    def test_another_dtype(self):
        for dataset, dtype in (("records", "i8"), ("records", "bool"), ("pickle", "i8"),
                               ("record_offsets", "i64"), ("record_offsets", "f64"),
                               ("record_offsets", "u32")):
            with self.subTest(dataset, dtype=dtype):
                name = f"{self.group}/{dataset}"
                path = self.changed(name, lambda a, dtype=dtype: a.reshaped(
                    a.values.astype(STORED[dtype], casting="unsafe"), dtype))
                expected = "u64" if dataset == "record_offsets" else "u8"
                self.refused(path, name, f"its dtype is {dtype}, not {expected}")

    def test_other_dimensions(self):
        for dataset, shape in (("records", "m"), ("pickle", "n"), ("record_offsets", "r+1")):
            with self.subTest(dataset):
                name = f"{self.group}/{dataset}"

                def deeper(a):
                    a.shape = [1, *a.shape]
                    return a
                self.refused(self.changed(name, deeper), name,
                             f"it has another number of dimensions than [{shape}]")


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
