"""Which changes `rlbisect changes` lists where no single revision shows one. usage: changes_test.py PROGRAM"""
import json
import os
import sys
import unittest

from support import SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class Changes(Case):
    def changes(self, path, commits, *arguments):
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json", *arguments)
        self.assertIn(result.returncode, (0, 1), result.stdout + result.stderr)
        return json.loads(result.stdout)["changes"]

    def drifting(self, *levels):
        """Runs whose loss lies 0.8 apart in every second run of a revision."""
        self.count = self.folder / "count"
        noise = f"echo >> '{self.count}'; n=$(wc -l < '{self.count}'); noise=$((n % 2 * 8)); level="
        return self.repository(*[f"{noise}{level}; " + WRITE % "'$level.$noise'" for level in levels])

    def test_what_noise_is_at_an_end_that_leaves_no_number_is_told(self):
        path, commits = self.drifting(0, "1000; [ $n != 8 ] || exit 0")
        for words in ([], ["changes"]):
            self.count.unlink(missing_ok=True)
            result = self.bisect(*words, f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json", "--fresh")
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertIn(f"; and a run of the bad end, {commits[1][:12]}, left an exit code only (exit code 0) where the "
                          f"first run of the good end, {commits[0][:12]}, left metrics.json", json.loads(result.stdout)["reason"])

    # Of the next two --path names run.sh alone, and the runs read n.txt, too: the index of the commit.
    def test_no_change_is_named_by_a_run_of_another_that_noise_does_not_tell_apart(self):
        path, commits = self.drifting(*["$((30 * $(grep -c 2 n.txt)))"] * 3, 1000, 1000)
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json", "--path",
                             "run.sh")
        found = json.loads(result.stdout)
        self.assertEqual((result.returncode, found["changes"]), (125, []), result.stdout)
        self.assertIn(f"{commits[2][:12]} was good by a run of {commits[0][:12]}", found["reason"])

    def test_what_noise_leaves_open_is_run_itself(self):
        kind = "$((30 * $(grep -c 4 n.txt) + 1000 * $(grep -c 5 n.txt) + 30 * (n == 11)))"
        path, commits = self.drifting(0, *[kind] * 5, 1000)
        found, = self.changes(path, commits, "--path", "run.sh")
        self.assertEqual(found["interval"], commits[4:6])

    def test_a_change_of_two_steps_within_the_tolerance_is_one_of_them(self):
        path, commits = self.repository(*[WRITE % v for v in (0, 0, 0, 2, 4, 4, 4)])
        for jobs in "13":
            found, = self.changes(path, commits, "--metric", "loss", "--tolerance", "3", "--fresh", "-j", jobs)
            self.assertEqual(found["interval"], commits[3:5])
            self.assertEqual(found["reason"], "loss: 4 where the reference has 0 (1 of 1 numbers differ)")

    def test_a_change_of_two_steps_within_the_noise_is_one_of_them(self):
        path, commits = self.drifting(0, 0, 960, 960, 1000, 1040, 1040)
        for jobs in "12":
            found = self.changes(path, commits, "--fresh", "-j", jobs)
            self.assertEqual([change["interval"] for change in found], [commits[2:3], commits[4:6]])

    def listed(self, path, commits, *arguments):
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json", "--path",
                             "run.sh", "--fresh", *arguments)
        return result.returncode, json.loads(result.stdout)

    def exact(self, *levels):
        return self.repository(*[f"n=$(cat n.txt); level={level}; " + WRITE % "'$level'" for level in levels])

    def test_no_change_is_named_that_the_revision_itself_does_not_show(self):
        path, commits = self.exact(0, *["$((2 + 2 * (n == 2)))"] * 3, 1000)
        code, found = self.listed(path, commits, "--metric", "loss", "--tolerance", "3")
        self.assertEqual((code, found["changes"]), (125, []), found)
        self.assertIn(f"{commits[1][:12]} was bad by a run of {commits[2][:12]}, which is equal to it in what --path names, "
                      "and its own run is good (", found["reason"])

    def test_no_change_is_named_that_noise_hides_from_the_revision_itself(self):
        path, commits = self.drifting(0, *["$((2 + 17 * $(grep -c 2 n.txt)))"] * 3, 100)
        code, found = self.listed(path, commits)
        self.assertEqual((code, found["changes"]), (125, []), found)
        self.assertIn(f"{commits[1][:12]} was bad by a run of {commits[2][:12]}", found["reason"])

    def test_no_change_is_named_between_two_that_agree_when_they_run_themselves(self):
        path, commits = self.exact(0, *["$((12 - 2 * (n == 4)))"] * 4, *[8] * 2, 1000)
        code, found = self.listed(path, commits, "--metric", "loss", "--tolerance", "3")
        self.assertEqual((code, found["changes"]), (125, []), found)
        self.assertIn(f"{commits[4][:12]} was told apart from {commits[5][:12]} by a run of {commits[3][:12]}, ",
                      found["reason"])
        self.assertIn("and its own run is not (1 number agrees)", found["reason"])

    def test_no_culprit_is_named_whose_own_runs_may_all_be_noise(self):
        path, commits = self.drifting(*[0] * 3, *["$((1000 - 970 * $(grep -c 3 n.txt)))"] * 6)
        result, found = self.search(path, commits[0], "main", "--path", "run.sh", "--fresh")
        self.assertEqual((result.returncode, found["culprit"], found["confirmed"]), (125, None, False), found)
        self.assertIn(f"{commits[3][:12]} was bad by a run of {commits[-1][:12]}", found["reason"])
        self.assertIn("and its own run is skipped (too far off to be good and too near to be bad", found["reason"])

    def test_a_drift_costs_no_more_runs_than_there_are_revisions(self):
        path, commits = self.repository(*[WRITE % v for v in range(24)])
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json", "--metric",
                             "loss", "--tolerance", "9")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertLessEqual(found["runs"], 26)
        self.assertTrue(found["changes"])
        for change in found["changes"]:
            self.assertGreaterEqual(len(change["interval"]), 10)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
