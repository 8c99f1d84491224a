"""What holds of every kind of search: skips, counts, status, log, resume. usage: every_kind_test.py PROGRAM"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from support import SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
FRESH = ", and nothing of it is stored (--fresh)\n"
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class EveryKind(Case):
    def stored(self, path, verb, code=0):
        result = self.bisect(verb, "--repo", path)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

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

    def noisy(self, *levels):
        """Runs of which `time` never repeats and `loss` by less than 1."""
        random = "$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')"
        return self.repository(*[f"echo \"{{\\\"{name}\\\": {level}.{random}, \\\"kept\\\": {kept}}}\" > "
                                 "\"$RLBISECT_OUT/metrics.json\"" for name, level, kept in levels])

    def test_changes_go_on_where_some_numbers_do_not_repeat(self):
        path, commits = self.noisy(*[("time", 0, kept) for kept in (1, 1, 2, 2, 2, 3, 3)])
        result, found = self.changes(path, commits)
        self.assertEqual([change["revision"] for change in found["changes"]], [commits[2], commits[5]], result.stderr)
        self.assertIn("time", found["noise"])
        self.assertIn("kept repeats and tells the ends apart", found["noise"])
        self.assertGreaterEqual(found["runs"], 10)  # each end five times
        again = self.changes(path, commits)[1]
        self.assertEqual((again["runs"], again["stored"], again["changes"]), (0, found["runs"], found["changes"]))
        self.assertIn("\nnoise      time ", self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run",
                                                       "./run.sh").stdout)

    def test_changes_go_on_where_a_number_lies_far_beyond_its_noise(self):
        path, commits = self.noisy(*[("loss", level, 1) for level in (0, 0, 900, 900, 900, 2000, 2000)])
        result, found = self.changes(path, commits)
        self.assertEqual([change["revision"] for change in found["changes"]], [commits[2], commits[5]], result.stderr)
        self.assertIn("from the good end is good", found["noise"])
        self.assertEqual(self.changes(path, commits)[1]["runs"], 0)

    def test_changes_say_that_noise_covers_the_ends(self):
        path, commits = self.noisy(*[("loss", level, 1) for level in (0, 0, 1, 1)])
        result, found = self.changes(path, commits)
        self.assertEqual((result.returncode, found["changes"], found["runs"]), (125, [], 10))
        self.assertIn("loss lies up to 0.", found["reason"])
        self.assertIn("which must be 40 times as much", found["reason"])

    def test_changes_that_have_ended_say_so(self):
        path, commits = self.repository(*[WRITE % v for v in (1, 1, 2, 2, 1, 1)])
        result, found = self.changes(path, commits, "--max-runs", "50")
        self.assertEqual(result.returncode, 1, result.stdout)  # both ends agree
        self.assertIn("\nnothing found\n", self.stored(path, "status"))
        for ends, changes in ((f"{commits[0]}..{commits[3]}", [commits[2]]), (f"{commits[2]}..main", [commits[4]])):
            result = self.bisect("changes", ends, "--repo", path, "--run", "./run.sh")
            self.assertEqual(result.returncode, 0, result.stderr)
            status = self.stored(path, "status")
            self.assertEqual(re.findall(r"^change (\w+)$", status, re.M), changes)
            self.assertIn("\nfound\n", status)
        self.assertIn("rlbisect changes", self.stored(path, "log", code=129))
        self.assertIn("1 change in", self.stored(path, "resume"))

    def test_a_search_cut_short_has_not_ended(self):
        path, commits = self.repository(*["exit 0"] * 6, *["exit 1"] * 6)
        for words in (["changes"], [], ["--stat", "0.95"]):
            result = self.bisect(*words, f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--max-runs", "5",
                                 "--fresh")
            self.assertEqual(result.returncode, 125, words)
            status = self.stored(path, "status", code=1)
            self.assertIn(FRESH, status, words)
            self.assertTrue(all(word in status.splitlines()[0] for word in words), status)

    def test_changes_cut_short_list_those_found_so_far(self):
        path, commits = self.repository(*[WRITE % v for v in (1, 2, 2, 2, 2, 2, 2, 3, 3)])
        result, found = self.changes(path, commits, "--repeat-ends", "1")
        self.assertEqual([c["revision"] for c in found["changes"]], [commits[1], commits[7]], result.stderr)
        words = ["changes", f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--repeat-ends", "1"]
        listed = []
        for most in range(1, found["runs"]):
            result = self.bisect(*words, "--max-runs", str(most), "--fresh", "--json")
            cut = json.loads(result.stdout)
            self.assertEqual((result.returncode, cut["runs"]), (125, most), result.stderr)
            self.assertIn("--max-runs", cut["reason"])
            self.assertEqual(cut["not_run"], 9 - most)
            listed.append([c["revision"] for c in cut["changes"]])
            status = self.stored(path, "status", code=1)
            self.assertEqual(re.findall(r"^change (\w+)$", status, re.M), listed[-1])
            self.assertIn(FRESH, status)
        self.assertEqual(listed[0], [])
        self.assertEqual(len(listed[-1]), 1)
        text = self.bisect(*words, "--max-runs", str(most), "--fresh").stdout
        self.assertIn(f"are spent\nso far     1 change in 8 revisions\n\n{listed[-1][0][:12]} ", text)
        self.assertTrue(text.endswith(f"not run    {9 - most}{FRESH}"), text)
        self.bisect("gc", "--repo", path)
        text = self.bisect(*words, "--max-runs", "1").stdout
        self.assertTrue(text.endswith("not run    8: rlbisect resume goes on\n"), text)
        self.assertIn("it has not ended: rlbisect resume goes on\n", self.stored(path, "status", code=1))
        self.assertIn("2 changes in 8 revisions", self.bisect(*words).stdout)

    def test_changes_cut_short_where_all_have_run_say_how_they_go_on(self):
        path, commits = self.repository(WRITE % 1, WRITE % 2)
        text = self.bisect("changes", *commits, "--repo", path, "--run", "./run.sh", "--max-runs", "3").stdout
        self.assertTrue(text.endswith("runs       3, 0 stored\nnot run    none, but too few times: rlbisect resume goes "
                                      "on\n"), text)

    def test_an_interrupt_says_whether_a_search_can_go_on(self):
        path, commits = self.repository("exit 0", "exit 1")
        for words, expected in (([], ": rlbisect resume goes on\n"), (["--fresh"], FRESH)):
            command = ["/bin/sh", "-c", f"echo $$ > '{self.folder}/search'; exec \"$@\"", "sh", self.program, f"{commits[0]}..main",
                       "--run", f"kill -INT $(cat '{self.folder}/search'); sleep 5", *words]
            result = subprocess.run(command, cwd=path, env=self.environment, capture_output=True, text=True)
            self.assertEqual(result.returncode, 130, result.stderr)
            self.assertTrue(result.stderr.endswith(expected), result.stderr)

    def test_changes_of_two_configurations_say_in_what_these_differ(self):
        run = "n=$(grep -c 2 \"$RLBISECT_CONFIG\"); " + WRITE % "'$((n * %d))'"
        path, commits = self.repository(*[run % factor for factor in (0, 0, 3, 3, 0)])
        words = ["--differ", "tp=1..tp=2"]
        result, found = self.changes(path, [commits[0]], *words)
        self.assertEqual((result.returncode, found["changes"]), (1, []), result.stderr)
        for first, last, change, reason in ((0, 3, 2, "loss: 3 where the reference has 0 (1 of 1 numbers differ); before: "
                                                      "1 number agrees"),
                                            (2, 4, 4, "1 number agrees; before: loss: 3 where the reference has 0 "
                                                      "(1 of 1 numbers differ)")):
            result = self.bisect("changes", f"{commits[first]}..{commits[last]}", "--repo", path, "--run", "./run.sh",
                                 "--json", *words)
            found, = json.loads(result.stdout)["changes"]
            self.assertEqual((found["revision"], found["reason"]), (commits[change], reason))

    def test_another_environment_is_told(self):
        path, commits = self.repository("exit 0", "exit 0", "exit 1", "exit 1")
        self.environment["TRAINER_SEED"] = "1"
        result, found = self.search(path, commits[0], "main")
        self.assertNotIn("environment", result.stderr)
        result, again = self.search(path, commits[0], "main")
        self.assertEqual(again["runs"], 0)
        self.assertNotIn("environment", result.stderr)
        self.environment["TRAINER_SEED"] = "2"
        self.environment["TRAINER_NAME"] = "secret"
        result = self.bisect("resume", "--repo", path)
        self.assertIn("the environment is not the one in which this search began (TRAINER_SEED, TRAINER_NAME)",
                      result.stderr)
        self.assertEqual(json.loads(result.stdout)["runs"], found["runs"])
        self.assertFalse(any(b"secret" in file.read_bytes() for file in (path / ".git/rlbisect").rglob("*.json")))
        result = self.bisect("resume", "--repo", path)
        self.assertNotIn("environment is not", result.stderr)

    def test_a_report_says_a_reason_once(self):
        noise = "echo \"{\\\"loss\\\": $(od -An -N2 -tu2 /dev/urandom)}\" > \"$RLBISECT_OUT/metrics.json\""
        for run, sentence in (("exit 0", "cannot be judged: the run exited with code 134"),
                              (noise, "no number tells the ends apart")):
            path, commits = self.repository(run, "kill -ABRT $$" if run == "exit 0" else noise + " ")
            text = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh").stdout
            self.assertEqual(text.count(sentence), 1, text)
            self.assertEqual(text.count(sentence.split(": ")[-1]), 1, text)
            shutil.rmtree(path)

    def test_a_misspelt_verb_is_told(self):
        path, commits = self.repository("exit 0", "exit 1")
        for word, meant in (("statsu", "status"), ("chagnes", "changes"), ("resum", "resume"), ("veridct", "verdict")):
            result = self.bisect(word, "--repo", path)
            self.assertEqual(result.returncode, 129)
            self.assertIn(f"did you mean rlbisect {meant}?", result.stderr)
        self.assertIn("one end only", self.bisect("main", "--repo", path).stderr)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
