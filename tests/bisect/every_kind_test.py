"""What holds of every kind of search: skips, counts, status, log, resume. usage: every_kind_test.py PROGRAM"""
import json
import os
import sys
import unittest

from support import SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class EveryKind(Case):

    def changes(self, path, commits, *arguments, run="./run.sh"):
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", run, "--json", *arguments)
        self.assertEqual(result.stderr.count("(1 to go)"), json.loads(result.stdout)["runs"])
        return result, json.loads(result.stdout)

    def test_an_end_that_crashes_as_bad_exit_names_it_is_bad(self):
        path, commits = self.repository("exit 0", "exit 0", "kill -ABRT $$", "kill -ABRT $$", "kill -ABRT $$")
        result, found = self.search(path, commits[0], "main", "--bad-exit", "134")
        self.assertEqual((result.returncode, found["culprit"], found["confirmed"]), (0, commits[2], True), found)
        result, found = self.changes(path, commits, "--bad-exit", "134")
        self.assertEqual([c["revision"] for c in found["changes"]], [commits[2]])
        self.assertIn("exit code 134, which --bad-exit names", found["changes"][0]["reason"])

    def test_an_end_that_crashes_now_and_then_is_not_deterministic(self):
        count = self.folder / "count"
        flaky = f"echo >> '{count}'; [ $(wc -l < '{count}') -gt 1 ] || kill -ABRT $$; exit 1"
        path, commits = self.repository("exit 0", "exit 0", flaky)
        result, found = self.search(path, commits[0], "main", "--bad-exit", "134")
        self.assertEqual((result.returncode, found["culprit"]), (125, None))
        self.assertIn("it ended as --bad-exit names it, exit code 134, and no longer does", found["reason"])

    def test_changes_skip_what_a_search_skips(self):
        # The third leaves no numbers, which says nothing of them.
        path, commits = self.repository(WRITE % 1, WRITE % 1, "exit 3", WRITE % 2, WRITE % 2)
        result, found = self.search(path, commits[0], "main")
        self.assertEqual([skip["revision"] for skip in found["skipped"]], [commits[2]])
        self.assertEqual(found["interval"], commits[2:4])
        result, found = self.changes(path, commits)
        self.assertEqual([change["interval"] for change in found["changes"]], [commits[2:4]])


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
