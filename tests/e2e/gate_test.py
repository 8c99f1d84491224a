"""A folder of golden files gates runs that are not ours: recorded, checked, reviewed, accepted.

usage: gate_test.py PROGRAM"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import unittest
import xml.etree.ElementTree

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
SCRIPT = """test -e built || exit 1
echo "{\\"loss\\": [$(cat loss), ${DRIVER:-0.5}], \\"grad_norm\\": [1, 2]}" >$RLBISECT_OUT/metrics.json
"""
RUN = "cat numbers.json > $RLBISECT_OUT/metrics.json"
NUMBERS = '{"loss": [0.75, 0.5], "grad_norm": [1.5, 1.25]}'


class Gate(Case):
    def setUp(self):
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        self.tree.mkdir()
        self.git("init", "-q")
        self.numbers(NUMBERS)
        self.commit("A training run")
        self.environment = {k: v for k, v in os.environ.items() if k not in ("CI",)}
        self.environment["XDG_STATE_HOME"] = str(self.tree / "state")

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=self.tree,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def numbers(self, text):
        (self.tree / "numbers.json").write_text(text)

    def golden(self, *words, code=0, **variables):
        result = subprocess.run([Case.program, "golden", *words], cwd=self.tree, text=True,
                                capture_output=True, env={**self.environment, **variables},
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def record(self, *words, name="train.txt", code=0):
        (self.tree / "goldens").mkdir(exist_ok=True)
        result = self.golden("record", f"goldens/{name}", "--run", RUN, "--class", "any", *words,
                             code=code)
        return result

    def file(self, name="train.txt"):
        return (self.tree / "goldens" / name).read_text()

    def pending(self):
        return list((self.tree / ".git/rlreplay/pending").rglob("*.txt"))

    def test_from_record_to_accept(self):
        self.record()
        self.assertIn("step 0 loss 0x1.8p-1  # 0.75\n", self.file())
        self.assertIn(f'about run "{RUN}"\n', self.file())
        self.commit("Gate it")
        said = self.golden("check", "goldens", "--run-recorded").stdout
        self.assertIn("match: goldens/train.txt, 4 values", said)
        self.numbers(NUMBERS.replace("0.5]", "0.5000000000000001]"))
        said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
        self.assertIn("regression: goldens/train.txt, 1 of 4 values differ", said)
        self.assertIn("step 1 loss: 0x1p-1 recorded, 0x1.0000000000001p-1 now (+1 ulp)", said)
        self.assertEqual(len(self.pending()), 1)
        self.assertIn("a candidate is pending", self.golden("list", "goldens").stdout)
        before = self.file()
        self.golden("accept", "goldens/train.txt", code=2)
        self.golden("accept", "goldens/train.txt", "--reason", "no", code=2, CI="true")
        self.assertEqual(self.file(), before)
        self.golden("accept", "goldens/train.txt", "--reason", "a longer warm-up")
        self.assertIn('about reason "a longer warm-up"\n', self.file())
        self.assertIn(f'about run "{RUN}"\n', self.file())
        self.assertNotIn("about contract", self.file())  # a command's, as record wrote it
        self.assertEqual(self.pending(), [])
        self.golden("check", "goldens/train.txt", "--run", RUN)
        self.golden("accept", "goldens", "--reason", "again", code=3)

    def test_ci_only_looks(self):
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1, CI="true")
        self.assertFalse((self.tree / ".git/rlreplay").exists())
        self.golden("check", "goldens", "--run-recorded", code=1, CI="false")
        self.golden("reject", "goldens")
        self.assertEqual(self.pending(), [])

    def test_a_candidate_is_what_the_last_check_found(self):
        self.record()
        check = ["check", "goldens", "--run-recorded"]
        for now, code in ((NUMBERS, 0), ("{}", 3), (NUMBERS.replace("0.5", "NaN"), 1)):
            self.numbers(NUMBERS.replace("0.75", "0.25"))
            self.golden(*check, code=1)
            self.assertEqual(len(self.pending()), 1)
            self.numbers(now)
            self.golden(*check, code=code)
            self.assertEqual(self.pending(), [])
        self.assertNotIn("pending", self.golden("list", "goldens").stdout)
        self.golden("accept", "goldens", "--reason", "x", code=3)

    def test_a_user_without_a_home_can_check(self):
        away = self.folder / "no checkout"
        away.mkdir()
        run = "echo '{\"loss\": 0.75}' >$RLBISECT_OUT/metrics.json"
        nowhere = {"HOME": "", "XDG_STATE_HOME": ""}
        file = str(away / "a.txt")
        self.golden("record", file, "--run", run, "--class", "any", **nowhere)
        self.golden("check", file, "--run-recorded", **nowhere)
        said = self.golden("check", file, "--run", run.replace("0.75", "0.5"), code=1, **nowhere)
        self.assertIn("no place for pending golden files", said.stderr)

    def test_two_runs_that_differ_leave_no_candidate(self):
        self.record()
        (self.tree / "count").write_text("")
        run = "echo >>count; echo '{\"loss\": 0.'$(wc -l <count)'}' >$RLBISECT_OUT/metrics.json"
        said = self.golden("check", "goldens/train.txt", "--run", run, code=1).stdout
        self.assertIn("unstable", said)
        self.assertNotIn("accept", said)
        self.assertEqual(self.pending(), [])

    def test_a_candidate_of_an_earlier_file_is_not_accepted(self):
        self.record()
        self.record(name="worse.txt")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        tolerance = 'tolerance metric x "2 ulps: why"\n'
        (self.tree / "goldens/train.txt").write_text(self.file() + tolerance)
        before = self.file("worse.txt")
        said = self.golden("accept", "goldens", "--reason", "x", code=3).stderr
        self.assertIn("has changed since", said)
        self.assertIn(tolerance, self.file())
        self.assertEqual(self.file("worse.txt"), before)  # all of them, or none
        self.assertIn("train.txt  4 values, with tolerances, a candidate of what it was before",
                      self.golden("list", "goldens").stdout)
        self.golden("accept", "goldens/worse.txt", "--reason", "x")
        self.assertNotIn("replaces", self.file("worse.txt"))
        self.assertEqual(self.answer(b"a\nwhy\n"), 0)
        self.assertIn(tolerance, self.file())
        self.commit("Keep them")
        self.record("--force", "--reason", "y")
        self.assertEqual(self.pending(), [])

    def test_options_of_another_kind_of_run_are_refused(self):
        self.record()
        for words in (("--lr", "5"), ("--config", "c.yaml"), ("--print-config",), 
                      ("--tensor-model-parallel-size", "2")):
            self.assertIn("is a command", self.golden("check", "goldens/train.txt",
                                                      "--run-recorded", *words, code=2).stderr)
            self.assertIn("is a command", self.record(*words, name="x.txt", code=2).stderr)
        self.golden("record", "goldens/demo.txt", *"--model demo --steps 1".split(),
                    "--allow-changed")
        said = self.golden("check", "goldens/demo.txt", "--run", "false", code=2).stderr
        self.assertIn("is one of rlreplay itself", said)
        self.golden("check", "goldens", "--run-recorded")

    def test_a_quarantine_ends(self):
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        check = ["check", "goldens", "--run-recorded"]
        self.golden(*check, code=1)
        words = ["quarantine", "goldens/train.txt", "--until", "9999-12-31", "--owner", "Ann"]
        self.golden(*words, code=2)
        why = [*words, "--reason", "a driver"]
        self.golden(*why, code=2, CI="true")
        for day, told in (("2020-01-01", "would end on 2020-01-01, before today, 2"), ("2026-02-30", "2026-02-30")):
            dated = [day if word == "9999-12-31" else word for word in why]
            refused = self.golden(*dated, code=2).stderr
            self.assertIn(told, refused)
            self.assertNotIn("more than once", refused)
        self.golden(*why)
        said = self.golden(*check).stdout
        self.assertIn("regression: goldens/train.txt", said)
        self.assertIn("  in quarantine until 9999-12-31, Ann: a driver\n", said)
        self.assertIn("1 golden file, 0 do not pass", said)
        self.assertIn("in quarantine until 9999-12-31", self.golden("list", "goldens").stdout)
        self.golden("fsck", "goldens")
        path = self.tree / "goldens/train.txt"
        path.write_text(self.file().replace("9999-12-31", "2020-12-31"))
        said = self.golden(*check, code=1).stdout
        self.assertIn("its quarantine has ended: until 2020-12-31, Ann: a driver\n", said)
        self.assertIn("quarantine ended", self.golden("list", "goldens").stdout)
        self.assertIn("(it has ended)", self.golden("explain", "goldens").stdout)
        self.assertIn("quarantine has ended", self.golden("fsck", "goldens", code=1).stdout)
        self.golden("accept", "goldens", "--reason", "it is meant")
        self.assertNotIn("quarantine", self.file())
        self.golden(*why)
        self.assertIn("nothing needs its quarantine", self.golden(*check).stdout)
        self.golden("quarantine", "goldens", "--lift")
        self.assertNotIn("quarantine", self.file())

    def test_tolerances_are_tightened_to_what_is_measured(self):
        self.record("--tolerance", "step * loss=8 ulps: two kinds of cards",
                    "--tolerance", "step * grad_norm=1e-3 relative: the same")
        self.numbers(NUMBERS.replace("0.5]", f"{0.5 + 3 * 2.0**-53:.17g}]"))
        tighten = ["tighten", "goldens", "--run-recorded"]
        self.golden(*tighten, code=2, CI="1")
        self.golden(*tighten, "--repeat", "0", code=2)
        said = self.golden(*tighten).stdout
        self.assertIn("8 ulps: two kinds of cards -> 3 ulps: two kinds of cards", said)
        self.assertIn("-> exact", said)
        self.assertNotIn("grad_norm \"", self.file())
        self.golden("check", "goldens", "--run-recorded", "--strict", code=1)
        self.numbers(NUMBERS.replace("0.5]", f"{0.5 + 4 * 2.0**-53:.17g}]"))
        before = self.file()
        self.assertIn("beyond the tolerances", self.golden(*tighten, code=5).stderr)
        self.assertEqual(self.file(), before)

    def test_two_files_are_compared(self):
        self.record()
        self.golden("diff", "goldens/train.txt", "goldens/train")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.commit("x")
        self.record("--tolerance", "step * loss=8 ulps: cards", name="other.txt")
        said = self.golden("diff", "goldens/train", "goldens/other", code=1).stdout
        self.assertIn("1 of 4 values differ", said)
        self.assertIn("step 0 loss: 0x1.8p-1 recorded, 0x1p-2 now", said)
        self.assertIn("tolerance step * loss: nothing -> 8 ulps: cards", said)
        self.golden("diff", "goldens/train", "goldens/nothing", code=3)
        self.golden("diff", "goldens/train", code=2)

    def test_a_self_test_sees_what_a_tolerance_hides(self):
        self.record()
        said = self.golden("check", "goldens", "--self-test").stdout
        self.assertIn("goldens/train.txt: 4 planted changes, 0 unseen", said)
        path = self.tree / "goldens/train.txt"
        path.write_text(self.file() + 'tolerance step 0 loss "2 relative: all"\n')
        said = self.golden("check", "goldens", "--self-test", code=1).stdout
        self.assertIn("unseen: step 0 loss", said)

    def test_what_nothing_reads_is_named(self):
        self.record()
        self.record(name="gone.txt")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        (self.tree / "goldens/gone.txt").rename(self.tree / "goldens/train@h100.txt")
        said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
        self.assertIn("not judged here, goldens/train.txt counts: goldens/train@h100.txt", said)
        said = self.golden("fsck", "goldens", code=1).stdout
        self.assertIn("goldens/gone.txt: is gone, and has a candidate at ", said)

    def script(self, *words):
        """A golden file of a script that code, `loss`, and environment, DRIVER, change."""
        (self.tree / "run.sh").write_text(SCRIPT)
        (self.tree / ".gitignore").write_text("built\nstate\n")
        (self.tree / "built").write_text("")
        self.change("0.75")
        (self.tree / "goldens").mkdir()
        self.golden("record", "goldens/a.txt", "--run", "sh run.sh", "--class", "any", *words)
        self.commit("Gate it")

    def change(self, loss, message="A change"):
        (self.tree / "loss").write_text(loss)
        self.commit(message)

    def test_code_is_told_from_environment(self):
        self.script("--build", "touch built")
        self.assertIn('about build "touch built"\n', self.file("a.txt"))
        check = ["check", "goldens", "--run-recorded"]
        other = {"DRIVER": "0.25", "RLREPLAY_GOLDEN_ENVIRONMENT": "driver=2"}
        self.assertNotIn("cause", self.golden(*check).stdout)
        said = self.golden(*check, code=1, **other).stdout
        self.assertIn("unattributed: goldens/a.txt", said)
        self.assertIn("cause: environment, ", said)
        self.change("0.125")
        said = self.golden(*check, code=1).stdout
        self.assertIn("regression: goldens/a.txt", said)
        self.assertIn("cause: code, ", said)
        self.assertIn("cause: both, ", self.golden(*check, code=1, **other).stdout)
        self.assertIn('"cause":"code"', self.golden(*check, "--json", code=1).stdout)
        listed = subprocess.run(["git", "worktree", "list"], cwd=self.tree, text=True,
                                capture_output=True).stdout
        self.assertEqual(len(listed.splitlines()), 1)
        for build, word in (("exit 3", "its build exited with code 3"), ("true", "its run: ")):
            said = self.golden(*check, "--build", build, code=1).stdout
            self.assertIn("cause: not attributed, " + word, said)
        path = self.tree / "goldens/a.txt"
        before = self.file("a.txt")
        commit = before.partition("about commit ")[2][:40]
        for new, word in ((commit[::-1], "cannot check out"), (commit + "-changed", "with changes")):
            path.write_text(before.replace(commit, new))
            self.assertIn(word, self.golden(*check, code=1).stdout)
        path.write_text(before.replace('about build "touch built"\n', ""))
        said = self.golden(*check, code=1, **other).stdout
        self.assertIn("cause: not attributed; --build CMD", said)
        self.golden("accept", "goldens", "--reason", "x")

    def test_a_difference_is_searched(self):
        self.script("--build", "touch built")
        for loss in ("0.75\n", "0.75\n\n", "0.25", "0.25\n"):
            self.change(loss, f"Set {loss!r}")
        check = ["check", "goldens", "--run-recorded", "--on-fail", "bisect"]
        said = self.golden(*check, code=1).stdout
        self.assertIn("regression: goldens/a.txt", said)
        self.assertRegex(said, r"culprit +\w+ Set '0.25' ")
        self.record(name="b.txt")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        said = self.golden("check", "goldens/b.txt", *check[2:], code=1).stdout
        self.assertIn("no search: the recorded commit is checked out", said)

    def test_reports_are_in_the_forms_of_ci(self):
        names = ["a|b & <c>,d:%.txt", *(f"t{i}.txt" for i in range(11))]
        for name in names[:2]:
            self.record(name=name)
        for name in names[2:]:
            (self.tree / "goldens" / name).write_text(self.file("t0.txt"))
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        (self.tree / "goldens/t5.txt").write_text("# rlreplay golden 2\nloss\n")
        (self.tree / "goldens/t7.txt").write_text(
            self.file("t0.txt") + "quarantine until 9999-12-31\nquarantine owner a\nquarantine reason b\n")
        (self.tree / "goldens/t8.txt").write_text(
            self.file("t0.txt").replace("0x1.8p-1  # 0.75", "0x1p-2  # 0.25"))
        (self.tree / "goldens/t9.txt").write_text(
            self.file("t0.txt").replace("0x1p-1  # 0.5", "0x1p-3  # 0.125"))
        reports = ["--junit", "j.xml", "--sarif", "s.json", "--gitlab", "g.json", "--github"]
        check = ["check", "goldens", "--run-recorded"]
        said = self.golden(*check, *reports, code=1, GITHUB_STEP_SUMMARY="summary.md").stdout

        suite = xml.etree.ElementTree.parse(self.tree / "j.xml").getroot()
        self.assertEqual({k: suite.get(k) for k in ("tests", "failures", "errors")},
                         {"tests": "12", "failures": "9", "errors": "1"})
        cases = {case.get("name"): [part.tag for part in case] for case in suite}
        self.assertEqual(cases["goldens/" + names[0]], ["failure"])
        self.assertEqual(cases["goldens/t5.txt"], ["error"])
        self.assertEqual(cases["goldens/t7.txt"], ["system-out"])
        self.assertEqual(cases["goldens/t8.txt"], [])

        run, = json.loads((self.tree / "s.json").read_text())["runs"]
        results = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]: r
                   for r in run["results"]}
        self.assertEqual(len(results), 11)
        self.assertEqual(results["goldens/a%7Cb%20%26%20%3Cc%3E%2Cd%3A%25.txt"]["ruleId"], "regression")
        self.assertEqual(results["goldens/t7.txt"]["level"], "warning")
        self.assertIn("step 0 loss: 0x1.8p-1 recorded", results["goldens/t0.txt"]["message"]["text"])

        issues = {i["location"]["path"]: i for i in json.loads((self.tree / "g.json").read_text())}
        self.assertEqual(len(issues), 11)
        self.assertEqual(len({i["fingerprint"] for i in issues.values()}), 11)
        self.assertEqual(issues["goldens/" + names[0]]["severity"], "critical")
        self.assertEqual(issues["goldens/t7.txt"]["severity"], "minor")

        notes = [line for line in said.splitlines() if line.startswith("::")]
        self.assertEqual(len(notes), 10)
        self.assertTrue(all(note.startswith("::error file=goldens/") for note in notes))
        self.assertIn("file=goldens/t9.txt,title=regression::", notes[0])  # two values differ
        self.assertTrue(any("file=goldens/a|b & <c>%2Cd%3A%25.txt,title" in note for note in notes))
        summary = (self.tree / "summary.md").read_text()
        self.assertEqual(summary.count("\n"), 14)
        self.assertIn("| goldens/t9.txt | regression | 2 |\n", summary)

        for option in reports[:-1:2]:
            ran = self.golden(*check, option, "nowhere/x", code=5)
            self.assertEqual(ran.stdout, "")
        self.golden(*check, "--github", "--json", code=2)

    def test_a_time_limit_is_a_number_of_seconds(self):
        self.record("--time-limit", "1e9")
        for limit in ("1e300", "nan", "inf", "-1"):
            said = self.golden("check", "goldens", "--run-recorded", f"--time-limit={limit}",
                               code=2).stderr
            self.assertIn("--time-limit must be a number of seconds", said)

    def test_a_metric_that_no_line_can_hold_is_named(self):
        for name, reason in (('a \\"b', 'holds a blank and a quote'), ("a  # b", "two blanks"),
                             ("a\\nb", "line break")):
            self.numbers(NUMBERS.replace("loss", name))
            self.commit("x")
            said = self.record(code=2).stderr
            self.assertIn(reason, said)

    def test_nothing_is_run_unasked(self):
        self.record()
        said = self.golden("check", "goldens", code=2).stdout
        self.assertIn("--run 'cat numbers.json", said)
        self.assertIn("not judged: goldens/train.txt", said)

    def test_what_cannot_be_golden(self):
        for numbers, word in ((NUMBERS.replace("1.5, 1.25", "0, 0"), "no step has a gradient"),
                              (NUMBERS.replace("0.75", "NaN"), "no finite number"),
                              ('{"loss": [0, 0]}', "all of its values are 0")):
            self.numbers(numbers)
            self.commit("x")
            self.assertIn(word, self.record(code=2).stderr)
        self.numbers(NUMBERS)
        self.assertIn("numbers.json is not as committed", self.record(code=2).stderr)
        self.commit("x")
        said = self.golden("record", "goldens/train.txt", "--run", "date +'{\"t\": %s%N}' > "
                           "$RLBISECT_OUT/metrics.json", "--class", "any", code=5).stderr
        self.assertIn("two runs do not give the same bits", said)
        self.golden("record", "goldens/train.txt", "--run", "true", code=2)
        self.golden("record", "goldens/train.txt", "--run", "kill -9 $$", code=3)
        self.assertEqual(list((self.tree / "goldens").iterdir()), [])

    def test_a_tolerance_is_held_and_can_only_shrink(self):
        loose = ["--tolerance", "step * loss=4 ulps: two kinds of cards"]
        self.record(*loose)
        self.assertIn("loose match", self.golden("check", "goldens", "--run-recorded").stdout)
        for ulps, outcome in ((4, "code drift"), (5, "regression")):
            self.numbers(NUMBERS.replace("0.5]", f"{0.5 + ulps * 2.0**-53:.17g}]"))
            said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
            self.assertIn(f"{outcome}: goldens/train.txt", said)
        said = self.golden("check", "goldens", "--run-recorded", code=1,
                           RLREPLAY_GOLDEN_ENVIRONMENT="driver=2").stdout
        self.assertIn("unattributed: ", said)
        self.assertIn("environment: driver: nothing recorded, 2 now", said)
        self.numbers(NUMBERS.replace("0.5]", f"{0.5 + 2.0**-53:.17g}]"))
        drift = ["check", "goldens", "--run-recorded"]
        self.golden(*drift, RLREPLAY_GOLDEN_ENVIRONMENT="driver=2")
        self.golden(*drift, "--strict", code=1, RLREPLAY_GOLDEN_ENVIRONMENT="driver=2")
        self.numbers(NUMBERS)
        again = ["--force", "--reason", "another"]
        wider = ["--tolerance", "step * loss=5 ulps: wider"]
        self.assertIn("can only shrink", self.record(*wider, *again, code=2).stderr)
        self.record("--tolerance", "step * loss=2 ulps: narrower", *again)
        self.assertIn('tolerance step * loss "2 ulps: narrower"', self.file())
        self.record("--tolerance", "step *=1 absolute: all that fit hold", *again)
        self.numbers(NUMBERS.replace("0.5]", f"{0.5 + 3 * 2.0**-53:.17g}]"))
        said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
        self.assertIn("beyond 2 ulps: narrower", said)

    def test_the_narrowest_class_counts(self):
        self.record()
        (self.tree / "goldens/train@h100.txt").write_text(
            self.file().replace("about class any", "about class h100")
            .replace("0x1.8p-1  # 0.75", "0x1p-2  # 0.25"))
        check = ["check", "goldens", "--run-recorded"]
        self.golden(*check)
        said = self.golden(*check, code=1, RLREPLAY_GOLDEN_CLASSES="h100 sm90").stdout
        self.assertIn("regression: goldens/train@h100.txt", said)
        said = self.golden("explain", "goldens", RLREPLAY_GOLDEN_CLASSES="h100 sm90").stdout
        self.assertIn("train: goldens/train@h100.txt\n", said)
        self.assertIn("  not goldens/train.txt\n", said)
        (self.tree / "goldens/train.txt").unlink()
        said = self.golden(*check, code=3).stdout
        self.assertIn("there is no golden file of it", said)
        self.assertIn("1 golden file, 1 does not pass", said)

    def test_a_name_that_is_no_key_hides_no_other(self):
        self.record()
        for name, word in (("w@any.txt", "without @any"), ("w@H100.txt", "no class of machines")):
            (self.tree / "goldens" / name).write_text(self.file())
            said = self.golden("check", "goldens", "--run-recorded", code=2).stdout
            self.assertIn("match: goldens/train.txt", said)
            self.assertIn(f"not judged: goldens/{name}", said)
            self.assertIn(word, said)
            self.assertIn(word, self.golden("check", f"goldens/{name}", "--run-recorded",
                                            code=2).stderr)
            self.assertIn(word, self.golden("fsck", "goldens", code=1).stdout)
            self.golden("explain", "goldens")
            (self.tree / "goldens" / name).unlink()

    def test_one_that_cannot_be_judged_hides_no_other(self):
        self.record()
        self.record(name="worse.txt")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        (self.tree / "goldens/a.txt").write_text("# rlreplay golden 2\nloss\n")
        said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
        self.assertIn("not judged: goldens/a.txt", said)
        self.assertIn("regression: goldens/worse.txt", said)
        self.assertIn("3 golden files, 3 do not pass", said)

    def test_merges(self):
        self.record()
        self.record(name="other.txt")
        self.commit("Gate them")
        self.git("branch", "side")
        accept = ["--force", "--reason"]
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.commit("One change")
        self.record(*accept, "one change")
        self.commit("Record train")
        self.git("checkout", "-q", "side")
        self.numbers(NUMBERS.replace("1.25", "1.125"))
        self.commit("Another change")
        self.record(*accept, "another change", name="other.txt")
        self.commit("Record other")
        self.git("checkout", "-q", "-B", "both", "master" if self.has("master") else "main")
        merged = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", "merge", "-q",
                                 "side", "-X", "ours"], cwd=self.tree, capture_output=True)
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertIn("2 golden files, 0 problems", self.golden("fsck", "goldens").stdout)
        self.git("checkout", "-q", "side")
        self.record(*accept, "the same key")
        self.commit("Record train too")
        self.git("checkout", "-q", "both")
        merged = subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", "merge",
                                 "side"], cwd=self.tree, capture_output=True)
        self.assertNotEqual(merged.returncode, 0)
        said = self.golden("fsck", "goldens", code=1).stdout
        self.assertIn("goldens/train.txt", said)
        self.assertIn("a merge left a conflict here", said)

    def has(self, branch):
        return subprocess.run(["git", "rev-parse", "--verify", "-q", branch], cwd=self.tree,
                              capture_output=True).returncode == 0

    def test_a_review_asks_on_a_terminal(self):
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        self.assertIn("on a terminal", self.golden("review", "goldens", code=2).stderr)
        self.assertEqual(self.answer(b"x\ns\n"), 0)
        self.assertIn("\n  step 0 loss\n    - 0x1.8p-1  # 0.75\n    + 0x1p-2  # 0.25\n", self.shown)
        self.assertRegex(self.shown, r"\n  commits: (\w{12})\.\.\1 with changes\n")
        self.assertNotIn("begins", self.shown)  # the run leaves no dump
        self.assertNotIn("[l]ist", self.shown)
        for keys in (b"q\n", b"\x04", b"a\n\nq\n", b"a\n\x04"):
            self.assertEqual(self.answer(keys), 0)
            self.assertIn("0 accepted, 0 rejected, 1 still pending\n", self.shown)
        self.assertEqual(len(self.pending()), 1)
        self.assertEqual(self.answer(b"acc\n warm-up \n"), 0)
        self.assertIn("1 accepted, 0 rejected, 0 still pending\n", self.shown)
        self.assertIn("about reason warm-up\n", self.file())
        self.assertEqual(self.pending(), [])

    def test_a_review_of_several(self):
        for name in ("a.txt", "b.txt", "c.txt"):
            self.record(name=name)
        self.numbers('{"loss": [1, 2, 3, 0.5], "grad_norm": [4, 1.25, 3]}')
        self.golden("check", "goldens", "--run-recorded", code=1)
        self.assertEqual(self.answer(b"l\nr\ns\na\nmore steps\n"), 0)
        self.assertIn("\n1 of 3, goldens/a.txt: 6 of 4 values would change\n", self.shown)
        self.assertEqual(self.shown.count("\n  and 2 more\n"), 3)
        self.assertEqual(self.shown.count("\n    + 0x1.8p+1  # 3\n"), 1 * 3 + 2)
        self.assertIn("1 accepted, 1 rejected, 1 still pending\n", self.shown)
        self.assertEqual([p.name for p in self.pending()], ["b.txt"])
        self.assertIn("about reason \"more steps\"\n", self.file("c.txt"))

    def test_a_review_begins_with_what_is_beyond_its_tolerance(self):
        self.record("--tolerance", "step * loss=4 ulps: two kinds of cards")
        self.numbers(f'{{"loss": [{0.75 + 2.0**-53:.17g}, 0.5], "grad_norm": [1.5, 2]}}')
        self.golden("check", "goldens", "--run-recorded", code=1)
        self.answer(b"q\n")
        self.assertRegex(self.shown, r"(?s)\n  step 1 grad_norm\n.*\n  step 0 loss  1 ulp up, within 4 ulps: two")

    def test_a_review_ends_where_it_is_interrupted(self):
        """Also while it waits for an answer."""
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        ours, process = self.review()
        while "[q]uit? " not in (shown := os.read(process.stdout.fileno(), 65536).decode()):
            self.assertTrue(shown)
        process.send_signal(signal.SIGINT)
        self.assertIn("rlreplay: interrupted", process.communicate(timeout=300)[1])
        os.close(ours)
        self.assertEqual((process.returncode, len(self.pending())), (130, 1))

    def test_a_review_leaves_a_file_that_changed_meanwhile(self):
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        ours, process = self.review()
        while "[q]uit? " not in (shown := os.read(process.stdout.fileno(), 65536).decode()):
            self.assertTrue(shown)
        path = os.path.join(self.tree, "goldens/train.txt")
        edited = self.file().replace("step 1 loss 0x1p-1", "step 1 loss 0x1p-2").replace("# 0.5", "# 0.25")
        pathlib.Path(path).write_text(edited)
        os.write(ours, b"a\nbecause\n")
        said = process.communicate(timeout=300)[1]
        os.close(ours)
        self.assertEqual((process.returncode, self.file(), len(self.pending())), (3, edited, 1), said)
        self.assertIn("goldens/train.txt", said)

    def review(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([Case.program, "golden", "review", "goldens"], cwd=self.tree, text=True,
                                   stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        os.close(theirs)
        return ours, process

    def answer(self, keys):
        ours, process = self.review()
        os.write(ours, keys)
        self.shown = process.communicate(timeout=300)[0]
        os.close(ours)
        return process.returncode


if __name__ == "__main__":
    unittest.main()
