"""A folder of golden files of which some are damaged, missing or known to differ: each is named, none hides another.

usage: gate_folder_test.py PROGRAM"""
import json
import os
import sys
import unittest
import xml.etree.ElementTree

from gate_case import NUMBERS, QUARANTINE, RUN, GateCase

GateCase.program = os.path.abspath(sys.argv.pop(1))
CHECK = ["--run-recorded"]
REPORTS = ["--junit", "j.xml", "--sarif", "s.json", "--gitlab", "g.json"]
# Root reads whatever it likes unless this is taken from it.
BOUND = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Folder(GateCase):
    def reports(self):
        """The errors and failures of JUnit's, and the files that each of the others names."""
        suite = xml.etree.ElementTree.parse(self.tree / "j.xml").getroot()
        run, = json.loads((self.tree / "s.json").read_text())["runs"]
        sarif = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]]
        gitlab = [issue["location"]["path"] for issue in json.loads((self.tree / "g.json").read_text())]
        for name in REPORTS[1::2]:
            (self.tree / name).unlink()
        return int(suite.get("errors")), int(suite.get("failures")), sarif, gitlab

    def test_a_missing_path_hides_no_other(self):
        self.record()
        both = ["goldens/train.txt", "goldens/gone.txt"]
        said = self.golden("check", *both, *CHECK, *REPORTS, code=3).stdout
        self.assertIn("match: goldens/train.txt", said)
        self.assertIn("not judged: goldens/gone.txt", said)
        self.assertIn("there is no such golden file or folder", said)
        self.assertEqual(self.reports(), (1, 0, ["goldens/gone.txt"], ["goldens/gone.txt"]))
        for part, word in (("list", "train.txt  4 values"), ("explain", "train: goldens/train.txt"),
                           ("fsck", "goldens/gone.txt: there is no such")):
            said = self.golden(part, *both, code=1 if part == "fsck" else 3).stdout
            self.assertIn(word, said)
            self.assertIn("goldens/gone.txt", said)
        said = self.golden("check", *both, "--self-test", code=3).stdout
        self.assertIn("goldens/train.txt: 4 planted changes, 0 unseen", said)
        self.assertIn("goldens/gone.txt: not tested: ", said)
        for part in ("list", "explain", "fsck", "check"):
            self.assertIn("no such golden file", self.golden(part, both[1], code=3).stderr)
        self.numbers(NUMBERS.replace("0.5", "0.25"))
        self.golden("check", *both, *CHECK, code=1)

    def test_a_file_by_several_names_is_one(self):
        self.record()
        names = ["./goldens/train.txt", "goldens/", f"{self.tree}/goldens/train.txt"]
        self.assertIn("\n1 golden file, 0 do not pass\n", self.golden("check", *names, *CHECK).stdout)
        self.assertEqual(self.golden("list", *names).stdout.count("train.txt"), 1)
        self.file().write_text("about class any\n")  # damaged: as a file it is one, of a folder another
        self.assertEqual(self.golden("check", *names, *CHECK, code=3).stdout.count("not judged"), 1)

    def test_what_lifts_a_quarantine_sets_none(self):
        self.record()
        self.golden("quarantine", "goldens", "--until", "9999-12-31", "--owner", "Ann", "--reason", "driver")
        before = self.file().read_text()
        for words in (["--until", "9999-12-30"], ["--owner", "Bo"], ["--reason", "none"]):
            said = self.golden("quarantine", "goldens", "--lift", *words, code=2).stderr
            self.assertIn(f"--lift ends a quarantine and takes no {words[0]}: leave out one of the two", said)
            self.assertEqual(self.file().read_text(), before)
        self.golden("quarantine", "goldens", "--lift")

    def test_a_tolerance_that_fits_no_value_is_told(self):
        words = ["--tolerance", "step * loss=4 ulps: cards", "--tolerance", "los*=4 ulps: cards"]
        said = self.record(*words).stderr
        self.assertIn("train.txt: the tolerance of los* fits none of the 4 values: correct its pattern, or take its line "
                      "out\n", said)
        self.assertEqual(said.count("fits none"), 1)

    def test_a_damaged_file_hides_no_other(self):
        self.record()
        self.record(name="worse.txt")
        self.file("worse.txt").write_text("# rlreplay golden 2\nloss\n")
        why = "goldens/worse.txt:2: expected a key, a space and a value"
        for part, word in (("list", "train.txt  4 values"), ("explain", "train: goldens/train.txt")):
            said = self.golden(part, "goldens", code=3).stdout
            self.assertIn(word, said)
            self.assertIn(f"goldens/worse.txt: cannot be read: {why}", said)
        said = self.golden("check", "goldens", "--self-test", *REPORTS, code=3).stdout
        self.assertIn("goldens/train.txt: 4 planted changes, 0 unseen", said)
        self.assertIn(f"goldens/worse.txt: not tested: {why}", said)
        self.assertEqual(self.reports(), (1, 0, ["goldens/worse.txt"], ["goldens/worse.txt"]))
        self.assertIn(why, self.golden("fsck", "goldens", code=1).stdout)
        self.assertIn(why, self.golden("check", "goldens", *CHECK, *REPORTS, code=3).stdout)
        self.assertEqual(self.reports(), (1, 0, ["goldens/worse.txt"], ["goldens/worse.txt"]))

    def test_one_file_that_cannot_be_judged_leaves_its_reports(self):
        self.record()
        self.file().write_text("# rlreplay golden 2\nloss\n")
        for words in (CHECK, ["--self-test"]):
            said = self.golden("check", "goldens/train.txt", *words, *REPORTS, code=3)
            self.assertIn("expected a key", said.stderr)
            self.assertEqual(self.reports(), (1, 0, ["goldens/train.txt"], ["goldens/train.txt"]))
        self.golden("check", "goldens/gone.txt", *CHECK, *REPORTS, code=3)
        self.assertEqual(self.reports(), (1, 0, ["goldens/gone.txt"], ["goldens/gone.txt"]))

    def test_what_is_left_of_a_golden_file_is_not_passed_over(self):
        self.record()
        self.record(name="other.txt")
        whole = self.file("other.txt").read_text().split("\n", 4)
        for text in ("", "\0" * 100, whole[4], "about class any\n" + whole[4]):
            self.file("other.txt").write_text(text)
            said = self.golden("check", "goldens", *CHECK, code=3).stdout
            self.assertIn("match: goldens/train.txt", said)
            self.assertIn("not judged: goldens/other.txt", said)
            self.assertIn("goldens/other.txt: cannot be read", self.golden("list", "goldens", code=3).stdout)
            self.assertIn("not a golden file", self.golden("fsck", "goldens", code=1).stdout)

    def test_what_may_not_be_read_is_not_passed_over(self):
        self.record()
        self.record(name="other.txt")
        closed = self.tree / "goldens/closed"
        closed.mkdir()
        for path in (self.file("other.txt"), closed):
            path.chmod(0)
            self.addCleanup(path.chmod, 0o700)
        said = self.golden("check", "goldens", *CHECK, code=5, program=BOUND).stdout
        self.assertIn("match: goldens/train.txt", said)
        self.assertIn("not judged: goldens/other.txt", said)
        self.assertIn("not judged: goldens/closed", said)
        self.assertIn("3 golden files, 2 do not pass", said)
        for part, code in (("fsck", 1), ("list", 5)):
            said = self.golden(part, "goldens", code=code, program=BOUND).stdout
            self.assertIn("goldens/other.txt", said)
            self.assertIn("goldens/closed", said)

    def test_a_second_run_that_crashes_is_not_green(self):
        self.record()
        self.add(QUARANTINE)
        run = "test -e second && kill -9 $$; touch second; echo '{\"loss\": [9]}' >$RLBISECT_OUT/metrics.json"
        said = self.golden("check", "goldens", "--run", run, code=3).stdout
        self.assertIn("not judged: goldens/train.txt", said)
        self.assertIn("was ended by signal 9", said)

    def test_a_second_run_that_leaves_nothing_is_said_to_be_the_second(self):
        self.record()
        run = "test -e second && exit 0; touch second; echo '{\"loss\": [9]}' >$RLBISECT_OUT/metrics.json"
        said = self.golden("check", "goldens/train.txt", "--run", run, code=3).stdout
        self.assertIn("run again, to see whether it repeats: ", said)

    def test_a_folder_of_damaged_files_is_not_done_with(self):
        self.record()
        self.file().write_text("")
        for words in (["tighten", "goldens"],
                      ["quarantine", "goldens", "--until", "9999-12-31", "--owner", "Ann", "--reason", "driver"]):
            self.assertIn("no golden file can be read there, and 1 file cannot", self.golden(*words, code=3).stderr)

    def test_a_run_of_ours_is_no_command(self):
        self.file().parent.mkdir()
        self.golden("record", "goldens/demo.txt", "--class", "any", "--model", "demo", "--steps", "1",
                    "--rollout-batch-size", "1", "--n-samples-per-prompt", "2", "--rollout-max-response-len", "4")
        text = self.file("demo.txt").read_text()
        line = next(line for line in text.splitlines() if line.startswith("step 0.0 loss "))
        self.file("demo.txt").write_text(text.replace(line, "step 0.0 loss 0x1p+3  # 8"))
        said = self.golden("check", "goldens/demo.txt", "--build", "true", code=1)
        self.assertIn("step 0.0 loss", said.stdout)
        self.assertNotIn("--run ''", said.stdout + said.stderr)

    def test_fsck_names_what_check_refuses(self):
        options = "# rlreplay golden 2\nabout class any\noption model demo\noption {} \"{}\"\nstep 0.0 loss 0x1p-1  # 0.5\n"
        self.file().parent.mkdir()
        for name, value, word in (("lr", "much", "lr"), ("no-such", "1", "no-such"), ("steps", "-1", "steps")):
            self.file().write_text(options.format(name, value))
            self.golden("check", "goldens", code=2)
            self.assertIn(word, self.golden("fsck", "goldens", code=1).stdout)
        self.file().write_text("# rlreplay golden 2\nabout class any\nstep 0.0 loss 0x1p-1  # 0.5\n")
        refused = self.golden("check", "goldens/train.txt", code=3).stderr.split(": ", 2)[-1].strip()
        self.assertIn(refused, self.golden("fsck", "goldens", code=1).stdout)

    def test_a_report_takes_no_golden_file_s_place(self):
        self.record()
        self.record(name="other.txt")
        self.file("other.txt").write_text(self.file("other.txt").read_text().split("\n", 1)[1])
        (self.tree / "link.txt").symlink_to("goldens/train.txt")
        before = {path: path.read_bytes() for path in self.file().parent.iterdir()}
        for option in REPORTS[::2]:
            for place in ("goldens/train.txt", "goldens/other.txt", "goldens/new.xml", "link.txt", "goldens/a/b.xml"):
                for paths in (["goldens"], ["goldens/train.txt", "goldens"]):
                    said = self.golden("check", *paths, *CHECK, option, place, code=2)
                    self.assertEqual(said.stdout, "")
                    self.assertIn("the report would ", said.stderr)
            self.golden("check", "goldens/train.txt", *CHECK, option, "goldens/train.txt", code=2)
            self.golden("check", "goldens/train.txt", *CHECK, option, "goldens/other.txt", code=2)
            self.golden("check", ".", *CHECK, option, "report.txt", code=2)
            self.golden("check", ".", *CHECK, option, "report", code=3)
        self.golden("check", "goldens", *CHECK, "--junit", "same", "--sarif", "./same", code=2)
        self.assertEqual({path: path.read_bytes() for path in self.file().parent.iterdir()}, before)

    def test_a_self_test_names_what_it_does_not_test(self):
        self.record()
        self.record(name="known.txt")
        self.add(QUARANTINE + 'tolerance step 0 loss "2 relative: all"\n', "known.txt")
        said = self.golden("check", "goldens", "--self-test", *REPORTS).stdout
        self.assertIn("goldens/known.txt: not tested, in quarantine until 9999-12-31, Ann: driver\n", said)
        self.assertIn("goldens/train.txt: 4 planted changes, 0 unseen\n", said)
        self.assertEqual(self.reports(), (0, 0, ["goldens/known.txt"], ["goldens/known.txt"]))
        text = self.file("known.txt").read_text()
        self.file("known.txt").write_text(text.replace("9999", "2020"))
        said = self.golden("check", "goldens", "--self-test", *REPORTS, code=1).stdout
        self.assertIn("unseen: step 0 loss", said)
        lines = self.golden("check", "goldens", "gone.txt", "--self-test", "--json", code=1).stdout.splitlines()
        self.assertEqual([[line[key] for key in ("file", "outcome", "passes", "planted", "unseen")]
                          for line in map(json.loads, lines)],
                         [["gone.txt", "not tested", False, 0, []],
                          ["goldens/known.txt", "unseen", False, 4, ["step 0 loss"]],
                          ["goldens/train.txt", "seen", True, 4, []]])
        self.assertEqual(self.reports(), (0, 1, ["goldens/known.txt"], ["goldens/known.txt"]))

    def test_steps_are_in_order(self):
        self.numbers(json.dumps({"loss": [1.0] * 12}))
        self.commit()
        self.record()
        self.numbers(json.dumps({"loss": [2.0] * 12}))
        keys = [f"step {i} loss" for i in range(12)]
        found = json.loads(self.golden("check", "goldens", *CHECK, "--json", code=1).stdout)
        self.assertEqual([d["key"] for d in found["differences"]], keys)
        said = self.golden("check", "goldens", *CHECK, "--all", code=1).stdout
        self.assertEqual([line.split(":")[0].strip() for line in said.splitlines() if "recorded" in line], keys)
        self.add('tolerance step * "9 relative: all"\n')
        said = self.golden("check", "goldens", "--self-test", code=1).stdout
        self.assertEqual([line.split(": ")[1] for line in said.splitlines() if "  unseen" in line], keys)
        self.file().write_text(self.file().read_text().split("tolerance")[0]
                               .replace("0x1p+0  # 1", "nan").replace("step 1 loss nan", "step 1 loss 0x1p+0  # 1"))
        self.assertIn("step 0 loss is nan", self.golden("fsck", "goldens", code=1).stdout)

    def test_what_a_merge_left_is_told(self):
        self.record()
        recorded = self.file().read_text()
        for mark in ("<<<<<<< HEAD", "||||||| 12ab", "=======", ">>>>>>> other"):
            self.file().write_text(recorded.replace("step 0 loss", mark + "\nstep 0 loss"))
            self.assertIn("a merge left a conflict here: resolve it, or remove the file and record anew",
                          self.golden("fsck", "goldens", code=1).stdout)
        self.file().unlink()
        self.record()
        self.assertEqual(self.file().read_text(), recorded)

    def test_a_number_that_is_written_otherwise_is_told(self):
        self.record()
        self.file().write_text(self.file().read_text().replace("0x1.8p-1 ", "0x3p-2 "))
        said = self.golden("check", "goldens", *CHECK, code=1).stdout
        self.assertIn("0x3p-2 recorded, 0x1.8p-1 now (the same number, written otherwise)", said)

    def test_blanks_are_no_words(self):
        self.record()
        before = self.file().read_text()
        until = ["quarantine", "goldens", "--until", "9999-12-31"]
        for owner, reason, word in ((" ", "driver", "the owner"), ("Ann", " \t\r", "the reason")):
            said = self.golden(*until, "--owner", owner, "--reason", reason, code=2).stderr
            self.assertIn(f"of {word} nothing is said: name who ends it, and why it is there", said)
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", *CHECK, code=1)
        self.assertIn("say why bits change", self.golden("accept", "goldens", "--reason", " \r", code=2).stderr)
        self.assertEqual(self.file().read_text(), before)
        self.commit()
        for pattern in ("", "  "):
            said = self.record("--tolerance", pattern + "=4 ulps: a", name="new.txt", code=2).stderr
            self.assertIn("--tolerance begins with a pattern, as in \"step * loss=4 ulps: WHY\"", said)

    def test_services_find_a_file_in_the_checkout(self):
        top = self.tree
        self.tree = top / "package"
        self.tree.mkdir()
        self.numbers(NUMBERS)
        self.commit()
        self.record()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        for name in ("./goldens", "../package//goldens", str(self.tree / "goldens")):
            reports = ["--gitlab", "g.json", "--sarif", "s.json", "--junit", "j.xml", "--github"]
            said = self.golden("check", name, *CHECK, *reports, code=1).stdout
            issue, = json.loads((self.tree / "g.json").read_text())
            self.assertEqual(issue["location"]["path"], "package/goldens/train.txt")
            self.assertIn('"uri":"package/goldens/train.txt"', (self.tree / "s.json").read_text())
            self.assertIn("::error file=package/goldens/train.txt,", said)

    def test_no_key_is_a_command_of_github(self):
        self.numbers('{"at::loss": [0.75, 0.5]}')
        self.commit()
        self.record()
        self.add("::stop-commands::x 0x1p+0  # 1\n##[error]x 0x1p+0  # 1\n".split("\n")[0] + "\n")
        self.numbers('{"at::loss": [0.25, 0.5]}')
        lines = self.golden("check", "goldens", *CHECK, "--github", code=1).stdout.splitlines()
        notes = [line for line in lines if line.lstrip().startswith("::")]
        self.assertEqual([note.split("file=")[0] for note in notes], ["::error "])
        self.assertEqual(notes[0].count("::"), 2)
        self.assertIn("at: :loss", notes[0])
        self.assertNotIn("##[", "\n".join(lines))


if __name__ == "__main__":
    unittest.main()
