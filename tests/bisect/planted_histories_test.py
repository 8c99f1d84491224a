"""rlbisect answers on planted histories what a scan of all their commits does.
usage: planted_histories_test.py PROGRAM
"""
import os
import shutil
import sys
import unittest

from planted import KINDS, Planted, Scan
from support import FULL, SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
CASES = 200 if FULL else 20


class PlantedHistories(Case):
    def test_random_cases(self):
        for number in range(CASES):
            kind = KINDS[number % len(KINDS)]
            with self.subTest(seed=SEED, number=number, kind=kind):
                planted = Planted(self.folder / f"history {number}", kind, f"{SEED} {number}",
                                  1000 if FULL or number < len(KINDS) else 100)
                sides = ["--repeat-sides", "12"] if kind == "flaky" else []
                result, found = self.search(planted.path, planted.commits[0], "main", *sides, run=planted.run)
                self.judge(planted, Scan(planted, planted.commits[-1]), result, found)
                if kind != "flaky":
                    result, again = self.search(planted.path, planted.commits[0], "main", run=planted.run)
                    self.assertEqual((again["runs"], again["interval"]), (0, found["interval"]))
                shutil.rmtree(planted.path)
        self.assert_nothing_left()

    def judge(self, planted, scan, result, found):
        if planted.kind == "flaky":
            self.assertTrue(not found["confirmed"] or found["interval"] == scan.answer(), found)
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(found["confirmed"])
        if planted.kind in ("reverted", "many changes"):
            self.assertTrue(scan.is_border(found["interval"]), found)
        else:
            self.assertEqual(found["interval"], scan.answer())
            self.assertEqual(found["contradictions"], [])
        if planted.kind not in ("merges", "broken"):
            self.assert_cost(len(scan.row), found)

    def assert_cost(self, count, found):
        runs = found["purposes"]
        self.assertLessEqual(runs["search"], (count - 2).bit_length())
        for purpose, most in (("good_end", 2), ("bad_end", 2), ("probe", 2), ("confirmation", 4)):
            self.assertLessEqual(runs[purpose], most)
        self.assertEqual(sum(runs.values()), found["runs"])


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
