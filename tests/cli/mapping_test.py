"""python/rlreplay/_dump.py over a reader that is none: names and order of steps, negative ones too.
usage: mapping_test.py
"""
import importlib.util
import pathlib
import sys
import types
import unittest

try:
    import numpy
    import pandas  # noqa: F401
except ImportError:
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Unit:
    def __init__(self, group):
        self.group = group
        self.datasets = {f"{group}/scalars": {"columns": "loss\nlr"}, f"{group}/tokens": {}}

    def read(self, path):
        return numpy.array([float(len(self.group)), 0.5])


class Reader:
    """Units of the groups that the path names."""

    def __init__(self, path):
        self.opened = []
        units = []
        for group in path.split():
            step = group.find("-", 1) > 0
            units.append({"path": f"train/{group}/rank0.h5" if step else f"rollout/{group}.h5",
                          "kind": "train" if step else "rollout", "rank": 0, "groups": [group]})
        self.about = {"version": "0.9", "root": "", "sealed": True, "complete": True, "meta": {},
                      "unstable": {}, "units": units}

    def unit(self, path):
        self.opened.append(path)
        return Unit(path.split("/")[1].removesuffix(".h5"))


def load():
    sys.modules["rlreplay"] = types.ModuleType("rlreplay")
    sys.modules["rlreplay._reader"] = types.ModuleType("rlreplay._reader")
    sys.modules["rlreplay._reader"].Reader = Reader
    spec = importlib.util.spec_from_file_location("dump", ROOT / "python/rlreplay/_dump.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Dump


Dump = load()


class Mapping(unittest.TestCase):
    def test_negative_numbers(self):
        dump = Dump("-1 -1-0 0-0 -1-1 0--2")
        self.assertEqual(dump.rollouts, [-1, 0])
        self.assertEqual(dump.steps, ["-1.0", "-1.1", "0.-2", "0.0"])
        self.assertIn("rollout/-1/tokens", list(dump))
        self.assertEqual(dump["train/-1.1/rank0/scalars"].tolist(), [4, 0.5])

    def test_numbers_are_no_texts(self):
        self.assertEqual(Dump("10-0 2-0 2-10 2-9").steps, ["2.0", "2.9", "2.10", "10.0"])

    def test_scalars_open_each_unit_once(self):
        dump = Dump(" ".join(f"{i}-0" for i in (*range(9), -1)))
        table = dump.scalars()
        self.assertEqual(table["step"].tolist(), ["-1.0", *(f"{i}.0" for i in range(9))])
        self.assertEqual(sorted(dump._reader.opened), sorted(set(dump._reader.opened)))


if __name__ == "__main__":
    unittest.main()
