"""rlbisect finds the commit that a user looks for. usage: rlbisect_test.py PROGRAM"""
import contextlib
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from histories import History, compiled_numbers, git, make_repository, shell_numbers
from support import FULL, SEED, Case, git_bisect, snapshot  # ahead: it leads to tests/e2e

from measured import impatient

Case.program = os.path.abspath(sys.argv.pop(1))
COUNTED = "echo \"{\\\"loss\\\": %s}\" > \"$RLBISECT_OUT/metrics.json\""
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class Histories(Case):
    def test_random_histories(self):
        seeds = range(20) if FULL else random.Random(SEED).sample(range(19), 1) + [19]
        for number in seeds:
            content = compiled_numbers() if number >= 18 else shell_numbers()
            with self.subTest(seed=SEED, number=number):
                history = History(self.folder / f"history {number}", SEED + number, content)
                self.judge(history)

    def judge(self, history):
        before = snapshot(history.path)
        good, bad = history.commits[0], history.commits[-1]
        result, found = self.search(history.path, good, bad, "--build", "./build.sh")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["interval"], history.suspects)
        self.assertEqual(found["culprit"],
                         history.suspects[0] if len(history.suspects) == 1 else None)
        self.assertTrue(found["confirmed"])
        self.assertEqual(found["difference"]["metric"], "loss")
        self.assertEqual(found["difference"]["step"], 1)
        self.assertLessEqual(found["runs"] - len(found["skipped"]),
                             8 + (history.count - 1).bit_length() + len(found["skipped"]))
        self.assertEqual(snapshot(history.path), before)
        self.assertEqual(git_bisect(self, history), set(history.suspects))


class Searches(Case):
    def test_exit_codes_decide_where_nothing_else_is_left(self):
        path, commits = self.repository("exit 0", "exit 0", "exit 125", "exit 1", "exit 1")
        result, found = self.search(path, commits[0], "main")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["interval"], commits[2:4])
        self.assertIsNone(found["culprit"])
        self.assertIn("exit code 125", found["skipped"][0]["reason"])

    def test_a_text_report_ends_with_the_command_that_shows_it_again(self):
        path, commits = self.repository("exit 0", "exit 0", "exit 1", "exit 1")
        result = self.bisect(commits[0], commits[3], "--repo", path, "--run", "sh -c './run.sh'",
                             "--timeout", "60")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"culprit    {commits[2][:12]} Change 3", result.stdout)
        command = result.stdout.splitlines()[-1]
        self.assertTrue(command.startswith("reproduce  rlbisect "), command)
        again = subprocess.run(command.replace("reproduce  rlbisect", f"'{self.program}'"),
                               shell=True, capture_output=True, text=True, env=self.environment)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"culprit    {commits[2][:12]}", again.stdout)
        self.assert_nothing_left()

    def test_colours_are_for_terminals(self):
        path, commits = self.repository("exit 0", "exit 1")
        for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            ours, theirs = pty.openpty()
            environment = {**self.environment, "TERM": "xterm", **variables}
            environment = {k: v for k, v in environment.items() if k != "NO_COLOR" or variables}
            subprocess.run([self.program, f"{commits[0]}..main", "--repo", path, "--run", "./run.sh"],
                           stdout=subprocess.DEVNULL, stderr=theirs, env=environment, check=True)
            os.close(theirs)
            said = b""
            with open(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
                while block := terminal.read(1 << 16):  # a closed terminal ends with an error
                    said += block
            self.assertIn(b"bad", said)
            self.assertEqual(b"\033[31mbad\033[0m" in said, coloured)

    def test_a_metric_and_a_tolerance(self):
        values = ["[1, 2]", "[1, 2.01]", "[1, 2.02]", "[1, 3]", "[1, 3]"]
        path, commits = self.repository(*[WRITE % value for value in values])
        for tolerance, culprit in (("0", 1), ("0.015", 2), ("0.5", 3)):
            result, found = self.search(path, commits[0], commits[4], "--metric", "loss",
                                        "--tolerance", tolerance)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(found["culprit"], commits[culprit])
        result, found = self.search(path, commits[0], commits[4], "--metric", "grad_norm")
        self.assertEqual(result.returncode, 125)
        self.assertIn("no grad_norm; it has loss", found["reason"])

    def test_a_number_that_is_none_differs(self):
        path, commits = self.repository(*[WRITE % v for v in ("[1, 1]", "[1, NaN]", "[1, NaN]")])
        _, found = self.search(path, commits[0], commits[2], "--tolerance", "1e9")
        self.assertEqual(found["culprit"], commits[1])
        self.assertEqual(found["difference"]["bad_bits"][:3], "7ff")

    def test_equal_ends_are_refused(self):
        path, commits = self.repository(*[WRITE % "1"] * 5)
        result, found = self.search(path, commits[0], commits[4])
        self.assertEqual(result.returncode, 1)
        self.assertEqual(found["runs"], 4)  # each end twice
        self.assertIsNone(found["culprit"])
        self.assertIn("the ends do not differ", found["reason"])
        self.assertEqual(found["interval"], [])
        self.assert_nothing_left()

    def test_an_end_that_fails_now_and_then_is_told(self):
        once = self.folder / "once"
        for good, bad in ((f"[ ! -e '{once}' ] || exit 0; touch '{once}'; exit 3", "exit 3"),
                          ("exit 0", f"[ ! -e '{once}' ] || exit 3; touch '{once}'; exit 0")):
            path, commits = self.repository(good, bad)
            result, found = self.search(path, commits[0], commits[1], "--repeat-ends", "6")
            self.assertEqual(result.returncode, 125)
            self.assertIn("not deterministic", found["reason"])
            self.assertIn("--stat", found["reason"])
            once.unlink()
            shutil.rmtree(path)

    def test_lines_of_metrics(self):
        write = "for i in 1 2 3; do echo '{\"step\": '$i', \"loss\": %s, \"weights\": \"d'$i'%s\"}'; done > " \
                "\"$RLBISECT_OUT/metrics.jsonl\""
        path, commits = self.repository(write % (1, "a"), write % (1, "a"), write % (1, "b"), "echo '{' > "
                                        "\"$RLBISECT_OUT/metrics.jsonl\"", write % (2, "b"))
        result, found = self.search(path, commits[0], "main")
        self.assertEqual((result.returncode, found["culprit"]), (0, commits[2]), result.stderr)
        self.assertEqual((found["difference"]["metric"], found["difference"]["compared"]), ("weights", 9))
        self.assertIn("metrics.jsonl cannot be read", found["skipped"][0]["reason"])

    def test_swapped_ends_are_refused(self):
        path, commits = self.repository("exit 1", "exit 1", "exit 0")
        result, found = self.search(path, commits[0], commits[2])
        self.assertEqual(result.returncode, 1)
        self.assertIn("the good end", found["reason"])

    def test_an_end_that_cannot_be_judged_names_its_log(self):
        for end in (0, 2):
            runs = [WRITE % "1", WRITE % "2", WRITE % "2"]
            runs[end] = "echo out of luck >&2; kill -SEGV $$"
            path, commits = self.repository(*runs)
            result, found = self.search(path, commits[0], commits[2])
            self.assertEqual(result.returncode, 125)
            self.assertIn("exited with code 139", found["reason"])
            self.assertIn("out of luck", found["reason"])
            log = found["reason"].split("(log: ")[1].rstrip(")")
            self.assertIn("out of luck\n", pathlib.Path(log).read_text())
            shutil.rmtree(path)

    def test_a_build_that_fails_at_an_end(self):
        path, commits = self.repository(*["exit 0"] * 3)
        result, found = self.search(path, commits[0], commits[2], "--build", "echo no make; exit 3")
        self.assertEqual(result.returncode, 125)
        self.assertIn("the build exited with code 3: no make", found["reason"])
        self.assertEqual(found["runs"], 1)

    def test_runs_that_die_or_hang_are_not_blamed(self):
        path, commits = self.repository(WRITE % "1", "exit 7", WRITE % "1", "sleep 1000",
                                        "exit 1", WRITE % "1", WRITE % "2", WRITE % "2")
        result, found = self.search(path, commits[0], commits[7], "--timeout", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[6])

    def test_a_run_that_is_not_repeatable_blames_nobody(self):
        path, commits = self.repository(*["date +'{\"t\": %s%N}' > $RLBISECT_OUT/metrics.json"] * 9)
        result, found = self.search(path, commits[0], commits[8], "--repeat-ends", "1")
        self.assertEqual(result.returncode, 125)
        self.assertIsNone(found["culprit"])
        self.assertFalse(found["confirmed"])
        self.assertIn("not repeatable", found["reason"])

    def test_noise_at_the_ends_is_noticed_before_the_search(self):
        count = f"c='{self.folder}/count'; echo >> \"$c\"; n=$(($(wc -l < \"$c\")))"
        same = WRITE % "1"
        for end, noisy in (("good", COUNTED % "$n"), ("bad", COUNTED % "$n"),
                           ("good", "exit $((n == 2))"), ("bad", "exit $((n != 4))")):
            other = "exit 0" if "exit" in noisy else same
            runs = [other] * 4 + (["exit 1"] if "exit" in noisy else [WRITE % "2"])
            runs[0 if end == "good" else 4] = noisy
            path, commits = self.repository(*[count + "; " + run for run in runs])
            result, found = self.search(path, commits[0], commits[4])
            self.assertEqual(result.returncode, 125, result.stderr)
            self.assertIn("not deterministic", found["reason"])
            self.assertIn(f"the {end} end", found["reason"])
            self.assertEqual(found["runs"], 10 if "exit" not in noisy else 2 if end == "good" else 4)
            self.assertEqual(found["interval"], [])
            self.assert_nothing_left()
            (self.folder / "count").unlink()
            shutil.rmtree(path)
        path, commits = self.repository(*[count + "; " + COUNTED % "$n"] * 2)
        result, found = self.search(path, commits[0], commits[1], "--tolerance", "4")
        self.assertEqual(result.returncode, 1, result.stderr)  # noise within the tolerance

    def test_noise_that_is_rare(self):
        count = f"c='{self.folder}/count'; echo >> \"$c\"; n=$(($(wc -l < \"$c\")))"
        path, commits = self.repository(count + "; " + COUNTED % "$((n == 3))",
                                        count + "; " + COUNTED % "2")
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        (self.folder / "count").unlink()
        result, found = self.search(path, commits[0], commits[1], "--repeat-ends", "3", "--fresh")
        self.assertEqual(result.returncode, 125)
        self.assertIn("not deterministic", found["reason"])
        self.assertIn("--repeat-ends 3", found["reproduce"])

    def test_what_repeats_decides_where_other_numbers_are_noise(self):
        beside = "echo \"{\\\"loss\\\": [1, %s], \\\"step_time\\\": $(date +%%N | sed 's/^0*//')}\" > $RLBISECT_OUT/metrics.json"
        path, commits = self.repository(*[beside % v for v in (1, 1, 1, 2, 2, 2)])
        result, found = self.search(path, commits[0], commits[5])
        self.assertEqual(found["culprit"], commits[3], result.stderr)
        self.assertIn("step_time differ between runs of one revision and do not count", found["noise"])
        for arguments in (["--exclude", "*_time"], ["--metric", "lo*"], ["--metric", "loss", "--metric", "reward*"]):
            result, found = self.search(path, commits[0], commits[5], *arguments)
            self.assertEqual(found["culprit"], None if "reward*" in arguments else commits[3], result.stderr)
            self.assertNotIn("noise", found)
        self.assertIn("no reward*; it has loss, step_time", found["reason"])

    def test_many_names_beside_noise_take_no_more_than_their_number(self):
        many = self.folder / "many"
        many.write_text("".join(f"\"layer[{i}]\": {i}, " for i in range(30_000)))
        run = (f"(printf '{{'; cat '{many}'; echo \"\\\"loss\\\": %s, \\\"step_time\\\": $(date +%%N | sed 's/^0*//')}}\") "
               "> \"$RLBISECT_OUT/metrics.json\"")
        path, commits = self.repository(*[run % v for v in (1, 1, 2)])
        result, found = self.search(path, commits[0], commits[2], preexec_fn=impatient)
        self.assertEqual(found.get("culprit"), commits[2], result.stderr)
        text = self.bisect(commits[0], commits[2], "--repo", path, "--run", "./run.sh").stdout
        self.assertIn("compared   layer[0], layer[10000], layer[10001] and 29998 more of metrics.json", text)

    def test_noise_leaves_a_grey_zone(self):
        noisy = (f"c='{self.folder}/count'; echo >> \"$c\"; n=$(($(wc -l < \"$c\") * 5 %% 9)); "
                 "echo \"{\\\"loss\\\": %s.00$n}\" > $RLBISECT_OUT/metrics.json")
        path, commits = self.repository(*[noisy % v for v in (1, 1, 1, 1, 3, 3, 3, 3)])
        result, found = self.search(path, commits[0], commits[7])
        self.assertEqual(found["culprit"], commits[4], result.stderr + result.stdout)
        self.assertRegex(found["noise"], "loss lies up to 0.00[0-9]+ apart .* from the good end is good")
        text = self.bisect(commits[0], commits[7], "--repo", path, "--run", "./run.sh").stdout
        self.assertIn("noise      loss lies up to", text)

    def test_a_change_of_rates_is_found_with_confidence(self):
        flaky = "n=$(od -An -N1 -tu1 /dev/urandom); exit $((n < %d))"
        path, commits = self.repository(*[flaky % (20 if i < 9 else 236) for i in range(16)])
        result, found = self.search(path, commits[0], commits[15], "--stat", "0.999")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[9])
        self.assertGreaterEqual(found["confidence"], 0.999)
        self.assertIn("--stat 0.999", found["reproduce"])
        result, again = self.search(path, commits[0], commits[15], "--stat", "0.999")
        self.assertEqual((again["runs"], again["stored"], again["culprit"]), (0, found["runs"], commits[9]))
        result, found = self.search(path, commits[0], commits[8], "--stat", "--max-runs", "8", "--fresh")
        self.assertEqual((result.returncode, found["culprit"]), (125, None))
        self.assertIn("--max-runs", found["reason"])

    def test_a_change_of_a_noisy_number_is_found_with_confidence(self):
        noisy = "n=$(od -An -N2 -tu2 /dev/urandom); echo \"{\\\"t\\\": 1, \\\"loss\\\": [1, $((n + %d))]}\" > $RLBISECT_OUT/metrics.json"
        path, commits = self.repository(*[noisy % (0 if i < 5 else 100000) for i in range(12)])
        result, found = self.search(path, commits[0], commits[11], "--stat", "0.999", "--metric", "loss")
        self.assertEqual(found["culprit"], commits[5], result.stderr)
        self.assertRegex(found["noise"], "loss: on average [0-9.]+ before and [0-9.]+ behind")
        result, found = self.search(path, commits[0], commits[11], "--stat")
        self.assertEqual(result.returncode, 129)
        self.assertIn("are loss, t", result.stdout + result.stderr)

    def test_equal_content_is_run_once(self):
        path = self.folder / "reverts"
        texts = ["exit 0", "exit 0; # odd"] * 8 + ["exit 1", "exit 1; # odd"] * 8
        commits = make_repository(path, [{"run.sh": "#!/bin/sh\n" + text + "\n"} for text in texts])
        result, found = self.search(path, commits[0], commits[-1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[16])
        self.assertGreater(found["cached"], 0)
        self.assertLessEqual(found["runs"], 8)

    def test_the_contract_of_a_run(self):
        check = """[ -d "$RLBISECT_OUT" ] && [ -z "$(ls -A "$RLBISECT_OUT")" ] || exit 9
[ "$RLBISECT_REVISION" = "$(git rev-parse HEAD)" ] || exit 8
[ "$(git rev-parse --show-toplevel)" = "$(pwd -P)" ] || exit 7
[ -z "$(git status --porcelain)" ] || exit 6
[ -z "$RLBISECT_REFERENCE" ] || grep -q 1 "$RLBISECT_REFERENCE/metrics.json" || exit 5
[ -z "$(cat)" ] || exit 4
"""
        path, commits = self.repository(*[check + WRITE % value for value in (1, 1, 2)])
        result, found = self.search(path, commits[0], commits[2])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((found["culprit"], found["skipped"]), (commits[2], []))

    def test_every_worktree_is_fresh_and_at_the_same_place(self):
        trap = "[ ! -e built ] || exit 3; pwd > built; cp built \"$RLBISECT_OUT/place\"; exit %d"
        path, commits = self.repository(trap % 0, trap % 0, trap % 1)
        result, found = self.search(path, commits[0], commits[2], "-o", self.folder / "kept")
        self.assertEqual((found["culprit"], found["skipped"]), (commits[2], []), result.stderr)
        places = {file.read_text() for file in (self.folder / "kept").glob("*/out/place")}
        self.assertEqual(len(places), 1)
        self.assertEqual(len(list((self.folder / "kept").glob("*/run.log"))), found["runs"])
        self.assert_nothing_left()
        result, _ = self.search(path, commits[0], commits[2], "-o", self.folder / "kept")
        self.assertEqual(result.returncode, 129)

    def test_torch_files_are_refused_with_a_sentence(self):
        path, commits = self.repository(*["touch \"$RLBISECT_OUT/rollout_0.pt\""] * 2)
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 125)
        self.assertIn("the good end", found["reason"])
        self.assertIn("rollout_0.pt", found["reason"])

    def test_an_odd_revision_is_skipped(self):
        odd = ["mkdir \"$RLBISECT_OUT/metrics.json\"", "touch \"$RLBISECT_OUT/x.pt\"",
               "mkdir \"$RLBISECT_OUT/dump\"; " + WRITE % 1,
               "mkfifo \"$RLBISECT_OUT/metrics.json\"",
               "ln -s /dev/zero \"$RLBISECT_OUT/metrics.json\""]
        for script in odd:
            with self.subTest(script=script):
                shutil.rmtree(self.folder / "my repo", ignore_errors=True)
                path, commits = self.repository(WRITE % 1, WRITE % 1, script, WRITE % 2, WRITE % 2)
                result, found = self.search(path, commits[0], commits[4])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(found["interval"], commits[2:4])

    def test_a_revision_that_git_cannot_check_out_is_skipped(self):
        path = self.folder / "filtered"
        odd = {"odd.txt": "x\n", ".gitattributes": "odd.txt filter=broken\n"}
        files = [{"run.sh": "#!/bin/sh\n" + WRITE % v + "\n"} for v in (1, 1, 1, 2, 2)]
        files[2] |= odd
        files[3] |= {".gitattributes": ""}
        commits = make_repository(path, files)
        for key, value in (("clean", "cat"), ("smudge", "false"), ("required", "true")):
            git(path, "config", f"filter.broken.{key}", value)
        result, found = self.search(path, commits[0], "main")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["interval"], commits[2:4])
        self.assertIn("git cannot check out", found["skipped"][0]["reason"])
        self.assertNotIn("worktree", result.stderr)  # no second error from what was not made

    def test_a_subject_does_nothing_to_a_terminal(self):
        path, commits = self.repository("exit 0", "exit 1")
        git(path, "commit", "-q", "--amend", "-m", "Red \033[31m paint")
        result = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh")
        self.assertIn("Red \\u001b[31m paint", result.stdout)
        self.assertNotIn("\033", result.stdout + result.stderr)

    def test_who_reads_the_progress_may_stop(self):
        path, commits = self.repository(*["exit 0"] * 4, "exit 1")
        ours, theirs = os.pipe()
        os.close(ours)
        result = subprocess.run([self.program, f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--json"],
                                stdout=subprocess.PIPE, stderr=theirs, text=True, env=self.environment)
        os.close(theirs)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(json.loads(result.stdout)["culprit"], commits[4])
        self.assert_nothing_left()

    def test_reports_as_files(self):
        path, commits = self.repository(*[WRITE % "[1, 1, 1]"] * 3, "exit 125", *[WRITE % "[1, 2, 1]"] * 4)
        git(path, "commit", "-q", "--amend", "-m", "A <b>bold</b> & | \"subject\"")
        files = {kind: self.folder / f"report.{kind}" for kind in ("markdown", "junit", "html")}
        for _ in range(2):  # the second time over what is there
            result = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh",
                                 *[word for kind, file in files.items() for word in (f"--{kind}", file)])
            self.assertEqual(result.returncode, 0, result.stderr)
        suite = xml.etree.ElementTree.parse(files["junit"]).getroot()
        self.assertEqual(suite.get("failures"), str(len(suite.findall(".//failure"))))
        self.assertEqual(suite.get("skipped"), str(len(suite.findall(".//skipped"))))
        names = [case.get("name") for case in suite.iter("testcase")]
        self.assertEqual(len(names), int(suite.get("tests")))
        self.assertIn('A <b>bold</b> & | "subject"', names[-1])
        self.assertEqual(suite.findall("testcase")[0].find("failure"), None)
        page = files["html"].read_text()
        self.assertIn("&lt;b&gt;bold&lt;/b&gt; &amp;", page)
        self.assertNotIn("<b>bold", page)
        self.assertEqual(page.count("<i class="), 8)
        self.assertEqual(page.count("<polyline"), 2)
        self.assertNotRegex(page, "(src|href)=|url\\(")  # nothing else is loaded
        text = files["markdown"].read_text()
        self.assertIn("reproduce  rlbisect", text)
        self.assertIn("\\<b>bold\\</b> & \\|", text)

    def test_a_long_list_is_cut_unless_all_is_asked_for(self):
        path, commits = self.repository("exit 0", *[f"exit 125 # {i}" for i in range(9)], "exit 1")
        short = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh").stdout
        long = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--all").stdout
        self.assertLessEqual(len(short.splitlines()), 20)
        self.assertIn("and 6 more (--all lists them)", short)
        self.assertEqual(long.count("\nskipped "), 9)

    def test_a_crash_is_no_verdict(self):
        python = f"{sys.executable} -c"
        for bug, culprit in ((f"{python} 'import nothing_of_this_name'", 3), (f"printf '1%%\\r2%%'; {python} 'return )'", 3),
                             (f"{python} 'assert False'", 2), (f"{python} 'raise ValueError(\"a\\n    b=dict\")'", 3),
                             (f"{python} 'assert False, \"a\\n\\nGreatest: 1\"'", 2), (f"{python} 'return )' || exit 2", 2)):
            path, commits = self.repository("exit 0", "exit 0", bug, "exit 1", "exit 1")
            result, found = self.search(path, commits[0], commits[4])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(found["interval"][-1], commits[culprit])
            self.assertEqual(len(found["skipped"]), 1 if culprit == 3 else 0)
            shutil.rmtree(path)

    def test_what_a_run_said_last_stands_beside_its_exit_code(self):
        for script, said in (("echo 3 tests ran; echo '1 failed: test_loss' >&2; echo; exit 4", "exit code 4: 1 failed: test_loss"),
                             ("exit 5", "exit code 5")):
            path, commits = self.repository("echo ok", script)
            result = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"           bad: {said}\n", result.stdout)
            shutil.rmtree(path)

    def test_exit_codes_mean_what_they_mean_for_git_but_those_of_a_crash(self):
        for script, culprit, skipped in (("exit 2", 2, 0), ("exit 124", 2, 0), ("no-such-command", 3, 1),
                                         ("kill -ABRT $$", 3, 1)):
            path, commits = self.repository("exit 0", "exit 0", script, "exit 1", "exit 1")
            result, found = self.search(path, commits[0], commits[4])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual((found["interval"][-1], len(found["skipped"])), (commits[culprit], skipped))
            if "no-such" in script:
                self.assertIn("git bisect run would call this bad", found["skipped"][0]["reason"])
            result, found = self.search(path, commits[0], commits[4], "--bad-exit", "127", "--bad-exit", "134")
            self.assertEqual(found["culprit"], commits[2], result.stderr)
            self.assertIn("--bad-exit 127", found["reproduce"])
            shutil.rmtree(path)

    def test_a_search_goes_down_into_the_guilty_merge(self):
        path, commits = self.repository("exit 0", "exit 0", "exit 0")
        git(path, "checkout", "-q", "-b", "side", commits[1])
        for number, script in enumerate(("exit 0", "exit 125", "exit 0", "exit 3", "exit 3")):
            (path / "run.sh").write_text(f"#!/bin/sh\n{script} # {number}\n")
            git(path, "commit", "-q", "-a", "-m", f"Side {number}")
        side = git(path, "rev-list", "--reverse", f"{commits[1]}..side").split()
        git(path, "checkout", "-q", "main")
        git(path, "merge", "-q", "--no-ff", "-m", "Merge", "side")
        merge = git(path, "rev-parse", "HEAD")
        for number in range(4):
            git(path, "commit", "-q", "--allow-empty", "-m", f"Later {number}")
        result, found = self.search(path, commits[0], "main")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((found["culprit"], found["merges"]), (side[3], [merge]))

    def test_a_run_that_changes_there_and_back_again_is_noticed(self):
        path, commits = self.repository(*["exit 0"] * 8, *["exit 1"] * 8, *["exit 0"] * 8, *["exit 1"] * 8)
        result, found = self.search(path, commits[0], commits[31])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(found["culprit"], (commits[8], commits[24]))
        self.assertEqual(len(found["contradictions"]), 1)
        result = self.bisect(commits[0], commits[31], "--repo", path, "--run", "./run.sh")
        self.assertIn("changed more than once", result.stdout)

    def test_one_build_serves_the_repeats_of_a_revision(self):
        builds = self.folder / "builds"
        path, commits = self.repository(*["exit 0"] * 3, *["exit 1"] * 3)
        result, found = self.search(path, commits[0], commits[5], "--build", f"echo >> '{builds}'",
                                    "--repeat-ends", "5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[3])
        self.assertEqual(found["runs"] - builds.read_text().count("\n"), 8)

    def test_an_interrupt_in_the_middle_of_a_build_is_one(self):
        path, commits = self.repository("exit 0", "exit 1")
        process = subprocess.Popen([self.program, f"{commits[0]}..main", "--repo", path, "--build", "sleep 1000",
                                    "--run", "./run.sh"], env=self.environment, stderr=subprocess.PIPE)
        process.stderr.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assert_nothing_left()

    def test_a_good_end_that_says_bad_or_nothing_is_no_reference(self):
        for script, code, sentence in (
                (WRITE % 1 + "; exit 1", 1, "it exited with code 1"),
                (WRITE % "[NaN, Infinity]", 125, "NaN or infinite"),
                ("echo '{\"loss\": 1, \"grad_norm\": [0, 0.0]}' > $RLBISECT_OUT/metrics.json", 125,
                 "nothing is trained")):
            path, commits = self.repository(script, WRITE % 2)
            result, found = self.search(path, commits[0], commits[1])
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(sentence, found["reason"])
            shutil.rmtree(path)

    def test_a_tolerance_that_nothing_uses_is_refused(self):
        path, commits = self.repository("exit 0", "exit 1")
        result, _ = self.search(path, commits[0], commits[1], "--tolerance", "1e-3")
        self.assertEqual(result.returncode, 129)
        self.assertIn("exit codes", result.stdout + result.stderr)
        result, _ = self.search(path, commits[0], commits[1], "--tolerance", "1e-3", "--metric", "weights")
        self.assertEqual(result.returncode, 129)
        one, two = self.folder / "one", self.folder / "two"
        for folder in (one, two):
            folder.mkdir()
        result = self.bisect(one, two, "--tolerance", "1e-3", "--metric", "loss")
        self.assertEqual(result.returncode, 129)
        self.assertIn("leave out --metric, --tolerance", result.stderr)
        self.assertIn("refs/heads/NAME", result.stderr)
        result = self.bisect(one, two, "--markdown", "m", "--junit", "x", "--from", one)
        self.assertEqual(result.returncode, 129)
        self.assertIn("leave out --from, --markdown, --junit", result.stderr)

    def test_what_cannot_be_used_is_found_before_anything_runs(self):
        path, commits = self.repository("exit 0", "exit 1")
        ran = self.folder / "ran"
        (self.folder / "link").symlink_to(self.folder / "nowhere")
        for option, code, sentence in ((["--junit", "nowhere/x.xml"], 128, "no folder for this report"),
                                       (["--markdown", self.folder / "link"], 129, "a link that leads nowhere"),
                                       (["--html", self.folder], 128, "cannot be written there: Is a directory"),
                                       (["--timeout", "-1"], 129, "seconds from 0 to 1e9, not -1"),
                                       (["--dependency", "dep=../nothere"], 128, "there is no such folder"),
                                       (["--stat", "--dry-run"], 129, "bound it by --max-runs")):
            with self.subTest(option=option):
                result, _ = self.search(path, commits[0], commits[1], *option, run=f"touch '{ran}'; ./run.sh")
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(sentence, result.stdout + result.stderr)
                self.assertFalse(ran.exists())

    def test_sides_are_run_as_often_as_is_asked_for(self):
        path, commits = self.repository("exit 0", "exit 1")
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual((found["runs"], found["culprit_runs"], found["parent_runs"]), (4, 2, 2))
        result, found = self.search(path, commits[0], commits[1], "--repeat-sides", "5", "--fresh")
        self.assertEqual((found["runs"], found["culprit_runs"], found["parent_runs"]), (10, 5, 5))
        self.assertIn("--repeat-sides 5", found["reproduce"])

    def test_revisions_that_no_run_saw_are_counted(self):
        path, commits = self.repository(*["exit 0"] * 5, *["exit 1"] * 5)
        result = self.bisect(commits[0], commits[9], "--repo", path, "--run", "./run.sh")
        self.assertRegex(result.stdout, "not run +[0-9]+ of 9 revisions")


class Usage(Case):
    def test_errors_are_no_verdict(self):
        path, commits = self.repository("exit 0", "exit 1", "exit 1")
        git(path, "checkout", "-q", "--orphan", "other")
        git(path, "commit", "-q", "-m", "Unrelated")
        run = ("--repo", path, "--run", "./run.sh")
        for arguments, sentence in (
                ([], "ENDS"), (["HEAD", *run], "one end only"), (["a", "b", "c"], "ends"),
                (["HEAD..HEAD", *run], "both ends are the same"),
                ([f"{commits[0]}...{commits[1]}", *run], "three dots"),
                ([f"{commits[2]}..{commits[0]}", *run], "swap the ends"),
                ([f"{commits[0]}..other", *run], "first-parent"),
                (["nothing..main", *run], "`nothing` names no commit"),
                ([*run, "--", "--all", "main"], "`--all` names no commit"),
                ([f"{commits[0]}..main", "--repo", path], "--run"),
                ([f"{commits[0]}..main", "--repo", self.temporary, "--run", "x"], "no git"),
                ([f"{commits[0]}..main", *run, "--tolerance", "-1"], "--tolerance"),
                ([f"{commits[0]}..main", *run, "--tolerance", "nan"], "finite"),
                ([f"{commits[0]}..main", *run, "--tolerance", "inf"], "finite"),
                ([f"{commits[0]}..main", *run, "--speed"], "--speed"),
                ([f"..^HEAD", *run], "`^HEAD` names no commit"),
                (["tp=1..main", *run], "configuration")):
            with self.subTest(arguments=arguments):
                result = self.bisect(*arguments)
                self.assertEqual(result.returncode, 129, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertIn(sentence, result.stderr)
        result = self.bisect("tp=1..tp=4,dp=2", "--from", "dump")
        self.assertGreaterEqual(result.returncode, 128)
        self.assert_nothing_left()

    def test_a_good_end_beside_the_first_parents(self):
        path, commits = self.repository("exit 0", "exit 0", "exit 1")
        git(path, "checkout", "-q", "-b", "side", commits[1])
        git(path, "commit", "-q", "--allow-empty", "-m", "Side")
        side = git(path, "rev-parse", "HEAD")
        git(path, "checkout", "-q", "main")
        git(path, "merge", "-q", "--no-ff", "-m", "Merge", "side")
        result = self.bisect(f"{side}..main", "--repo", path, "--run", "./run.sh")
        self.assertEqual(result.returncode, 129)
        self.assertIn(f"try {commits[1][:12]}", result.stderr)
        result, found = self.search(path, commits[1], "main")
        self.assertEqual(found["culprit"], commits[2])

    def test_a_branch_with_a_sign_of_equality_is_a_revision(self):
        path, commits = self.repository("exit 0", "exit 1")
        git(path, "branch", "a=b", commits[0])
        result, found = self.search(path, "a=b", "main")
        self.assertEqual(found["culprit"], commits[1])

    def test_errors_are_json_where_it_is_asked_for(self):
        result = self.bisect("HEAD", "--json", "--repo", self.temporary)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "usage")

    def test_help_shows_an_example(self):
        for arguments in (["--help"], ["verdict", "--help"]):
            result = self.bisect(*arguments)
            self.assertEqual(result.returncode, 0)
            self.assertIn("Example:", result.stdout)
            self.assertIn("Exit codes:", result.stdout)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
