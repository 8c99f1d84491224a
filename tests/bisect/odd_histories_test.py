"""rlbisect on what surrounds a history: submodules, pins, overlays, declared paths, logs of git bisect.
usage: odd_histories_test.py PROGRAM
"""
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

from histories import GIT_ENVIRONMENT, git, make_repository
from planted import RUN, Planted, Scan, write_commits
from support import FULL, SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
COUNT = "echo $RLBISECT_REVISION >> '%s'; "


class Submodules(Case):
    def setUp(self):
        super().setUp()
        self.library = self.folder / "library"
        self.library_commits = make_repository(self.library, [{"state": f"{int(i >= 3)} ok\n"} for i in range(6)])
        self.path = self.folder / "my repo"
        modules = '[submodule "the lib"]\n\tpath = lib\n\turl = ../nowhere\n'
        versions = (0, 1, 1, 2, 4, 5, 5)
        self.commits = write_commits(self.path, [
            ([i - 1] if i else [], {".gitmodules": modules, "n.txt": f"{i}\n",
                                    "lib": "link " + self.library_commits[v]}) for i, v in enumerate(versions)])
        self.run = "cd lib && " + RUN

    def clone(self):
        """As `git submodule update --init` leaves it."""
        git(self.path, "clone", "-q", "--bare", str(self.library), str(self.path / ".git/modules/the lib"))

    def test_they_are_filled_from_the_users_own(self):
        self.clone()
        result, found = self.search(self.path, self.commits[0], "main", run=self.run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], self.commits[4])
        pin, = found["pins"]
        self.assertEqual(pin, {"path": "lib", "before": self.library_commits[2],
                               "after": self.library_commits[4], "submodule": True})
        text = self.bisect(self.commits[0], "main", "--repo", self.path, "--run", self.run).stdout
        self.assertIn(f"pin        lib: {self.library_commits[2][:12]} -> {self.library_commits[4][:12]}", text)
        self.assert_nothing_left()

    def test_without_a_clone_they_stay_empty_and_it_is_said(self):
        result, found = self.search(self.path, self.commits[0], "main", run=self.run)
        self.assertEqual(result.returncode, 125)
        self.assertIn("the submodule lib stays empty", result.stderr)
        self.assertEqual(result.stderr.count("stays empty"), 1)

    def test_what_was_run_without_a_clone_says_nothing_of_runs_with_one(self):
        run = "[ -e lib/state ] || { echo '{\"loss\": 7}' > \"$RLBISECT_OUT/metrics.json\"; exit 0; }; " + self.run
        result, found = self.search(self.path, self.commits[0], "main", run=run)
        self.assertEqual(result.returncode, 1, result.stderr)
        for clone in (self.clone, lambda: git(self.path, "clone", "-q", str(self.library), str(self.path / "lib"))):
            clone()
            result, found = self.search(self.path, self.commits[0], "main", run=run)
            self.assertEqual((found["culprit"], found["stored"]), (self.commits[4], 0), result.stderr)
            result, found = self.search(self.path, self.commits[0], "main", run=run)
            self.assertEqual((found["culprit"], found["runs"]), (self.commits[4], 0), result.stderr)
            shutil.rmtree(self.path / ".git" / "modules", ignore_errors=True)

    def test_a_clone_that_lacks_a_commit_is_a_reason_to_skip(self):
        self.clone()
        commits = self.commits
        bare = self.path / ".git/modules/the lib"
        git(bare, "update-ref", "refs/heads/main", self.library_commits[4])
        git(bare, "reflog", "expire", "--expire=now", "--all")
        git(bare, "gc", "-q", "--prune=now")
        result, found = self.search(self.path, commits[0], commits[4], run=self.run)
        self.assertEqual(found["culprit"], commits[4], result.stderr)
        result, found = self.search(self.path, commits[0], commits[5], run=self.run)
        self.assertEqual(result.returncode, 125)
        self.assertIn("git fetch in it", found["reason"])
        git(bare, "fetch", "-q", str(self.library), "+main:main")
        result, found = self.search(self.path, commits[0], commits[5], run=self.run)
        self.assertEqual(found["culprit"], commits[4], result.stderr)

    def test_the_search_goes_on_inside_of_a_dependency(self):
        self.clone()
        count = self.folder / "count"
        count.write_text("0")
        run = f"expr $(cat '{count}') + 1 > '{count}.'; mv '{count}.' '{count}'; " + self.run
        result, found = self.search(self.path, self.commits[0], "main", "--dependency", f"lib={self.library}", run=run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], self.commits[4])
        self.assertEqual(found["dependency"]["culprit"], self.library_commits[3])
        self.assertEqual(found["dependency"]["name"], "lib")
        self.assertEqual(found["dependencies"], [found["dependency"]])
        self.assertEqual(found["runs"], int(count.read_text()))
        self.assertEqual(sum(found["purposes"].values()), found["runs"])

    def test_a_search_cut_inside_of_a_dependency_has_not_ended(self):
        self.clone()
        words = [self.commits[0], "main", "--dependency", f"lib={self.library}"]
        outer = self.search(self.path, *words[:2], run=self.run)[1]["runs"]
        self.bisect("gc", "--repo", self.path)
        result, found = self.search(self.path, *words, "--max-runs", str(outer + 1), run=self.run)
        self.assertEqual((result.returncode, found["culprit"]), (0, self.commits[4]), result.stderr)
        self.assertIn("--max-runs", found["dependency"]["reason"])
        status = self.bisect("status", "--repo", self.path)
        self.assertEqual(status.returncode, 1, status.stdout)
        self.assertIn(f"\nculprit {self.commits[4]}\n", status.stdout)
        self.assertIn("it has not ended: rlbisect resume goes on", status.stdout)
        self.search(self.path, *words, run=self.run)
        self.assertEqual(self.bisect("status", "--repo", self.path).returncode, 0)

    def test_what_is_judged_inside_of_a_dependency_is_told_as_such(self):
        self.clone()
        words = [self.commits[0], "main", "--dependency", f"lib={self.library}"]
        self.search(self.path, *words, run=self.run)
        result, again = self.search(self.path, *words, run=self.run)
        self.assertEqual(again["runs"], 0)
        status = self.bisect("status", "--repo", self.path).stdout
        self.assertIn(f"\n{self.library_commits[3][:12]} bad (search in lib): ", status)
        self.assertGreaterEqual(status.count(" in lib): "), 5, status)
        log = self.folder / "log"
        log.write_text(self.bisect("log", "--repo", self.path).stdout)
        self.assertNotIn(self.library_commits[3], log.read_text())  # git bisect replay knows one repository
        git(self.path, "bisect", "replay", str(log))


class Pins(Case):
    def test_a_line_of_requirements_is_named(self):
        path = self.folder / "my repo"
        files = [{"requirements.txt": f"numpy==1\ntorch==2.{i // 3}\n", "n.txt": str(i)} for i in range(6)]
        commits = make_repository(path, files)
        result, found = self.search(path, commits[0], "main", run="! grep -q 2.1 requirements.txt")
        self.assertEqual(found["culprit"], commits[3], result.stderr)
        self.assertEqual(found["pins"], [{"path": "requirements.txt", "before": "torch==2.0",
                                          "after": "torch==2.1", "submodule": False}])


class Declared(Case):
    def test_commits_beside_the_paths_are_not_run(self):
        path, log = self.folder / "my repo", self.folder / "runs"
        commits = make_repository(path, [{"src/state": f"{int(i >= 40)} ok\n", f"docs/{i}.md": "x",
                                          "src/n": str(i // 10)} for i in range(60)])
        run = COUNT % log + "cd src; " + RUN
        result, found = self.search(path, commits[0], "main", "--path", "src", run=run)
        self.assertEqual(found["culprit"], commits[40], result.stderr)
        self.assertGreater(found["cached"], 0)
        self.assertLessEqual(found["runs"], 2 + 2 + 4 + 2 + 2 * 2)
        self.assertIn("--path src", found["reproduce"])
        before = log.read_text()
        (path / "more.md").write_text("more\n")
        git(path, "add", "more.md")
        git(path, "commit", "-q", "-m", "Documents")
        result, found = self.search(path, commits[0], "main", "--path", "src", run=run)
        self.assertEqual((found["culprit"], found["runs"]), (commits[40], 0))
        self.assertEqual(log.read_text(), before)

    def test_paths_that_lack_something_confirm_no_culprit(self):
        path = self.folder / "my repo"
        # The third commit makes the run bad by a file that --path does not name.
        commits = make_repository(path, [{"src/n": str(min(i, 2)), "state": f"{int(i >= 3)} ok\n", "n.txt": str(i)}
                                         for i in range(6)])
        result, found = self.search(path, commits[0], "main", "--path", "src", run=RUN)
        self.assertEqual((result.returncode, found["culprit"], found["confirmed"]), (125, None, False), found)
        self.assertIn(f"{commits[2][:12]} was bad by a run of {commits[5][:12]}, which is equal to it", found["reason"])
        self.assertIn("name the others by --path too", found["reason"])
        changes = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, "--path", "src", "--json")
        self.assertEqual(changes.returncode, 125, changes.stdout)
        self.assertEqual(json.loads(changes.stdout)["changes"], [])
        self.assertIn("--path", json.loads(changes.stdout)["reason"])
        result, found = self.search(path, commits[0], "main", "--path", "src", "--path", "state", run=RUN)
        self.assertEqual((found["culprit"], found["confirmed"]), (commits[3], True), result.stderr)

    def test_no_end_is_good_by_the_runs_of_another(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"src/state": f"{int(i >= 3)} ok\n", "n.txt": str(i)} for i in range(5)])
        run = "cp src/state state; if [ -e extra ]; then echo '1 ok' > state; fi; " + RUN
        result, found = self.search(path, commits[0], "main", "--path", "src", run=run)
        self.assertEqual(found["culprit"], commits[3], result.stderr)
        (path / "src/state").write_text("0 ok\n")  # as before the culprit, and bad by what --path does not name
        (path / "extra").write_text("x\n")
        git(path, "add", "-A")
        git(path, "commit", "-q", "-m", "Turn back, and break")
        result, found = self.search(path, commits[0], "main", "--path", "src", run=run)
        self.assertEqual((found["culprit"], found["confirmed"]), (commits[3], True), result.stderr)

    def test_an_overlay_lies_over_every_revision(self):
        path, overlay = self.folder / "my repo", self.folder / "over lay"
        commits = make_repository(path, [{"state": f"{int(i >= 5)} ok\n", "run.sh": "exit 125\n"} for i in range(8)])
        (overlay / "tools").mkdir(parents=True)
        (overlay / "tools/run").write_text("#!/bin/sh\n" + RUN + "\n")
        (overlay / "tools/run").chmod(0o755)
        result, found = self.search(path, commits[0], "main", "--overlay", overlay, run="tools/run")
        self.assertEqual(found["culprit"], commits[5], result.stderr)
        result, again = self.search(path, commits[0], "main", "--overlay", overlay, run="tools/run")
        self.assertEqual(again["runs"], 0)
        (overlay / "tools/other").write_text("x")
        result, again = self.search(path, commits[0], "main", "--overlay", overlay, run="tools/run")
        self.assertEqual(again["runs"], found["runs"])


    def test_an_overlay_replaces_links_and_follows_none(self):
        path, overlay, own = self.folder / "my repo", self.folder / "over", self.folder / "own files"
        make_repository(path, [{"state": "0 ok\n"}])
        own.mkdir()
        (own / "precious").write_text("mine\n")
        for name, target in (("conf", own / "precious"), ("assets", own), ("link", "state")):
            (path / name).symlink_to(target)
        commits = []
        for i in range(4):
            (path / "state").write_text(f"{int(i >= 2)} ok\n{i}\n")
            git(path, "add", "-A")
            git(path, "commit", "-q", "-m", f"Revision {i}")
            commits.append(git(path, "rev-parse", "HEAD"))
        (overlay / "assets").mkdir(parents=True)
        (overlay / "assets/precious").write_text("overlay\n")
        (overlay / "conf").write_text("overlay\n")
        (overlay / "link").symlink_to("conf")
        run = 'grep -q overlay assets/precious && grep -q overlay link || exit 125; ' + RUN
        result, found = self.search(path, commits[0], "main", "--overlay", overlay, run=run)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(found["culprit"], commits[2])
        self.assertEqual([p.name for p in own.iterdir()], ["precious"])
        self.assertEqual((own / "precious").read_text(), "mine\n")
        os.mkfifo(overlay / "pipe")
        result = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", run, "--overlay", overlay)
        self.assertEqual(result.returncode, 128)
        self.assertIn("files, folders and links only", result.stderr)

    def test_paths_are_those_of_the_folder_and_of_an_end(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"sub/v": f"{int(i >= 3)} ok\n", "other": str(i)} for i in range(6)])
        run = "cp sub/v state; " + RUN
        for folder, name in ((path / "sub", "v"), (path, "sub/v"), (path / "sub", "../sub")):
            with self.subTest(name=name):
                result = self.bisect(f"{commits[0]}..main", "--path", name, "--run", run, "--json", folder=folder)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(json.loads(result.stdout)["culprit"], commits[3])
        result = self.bisect(f"{commits[0]}..main", "--path", "nosuch", "--run", run, folder=path)
        self.assertEqual(result.returncode, 129)
        self.assertIn("neither end has the path nosuch", result.stderr)


class AtOnce(Case):
    """Each run leaves how many others go on, and how much its path differs from the first one's."""
    RUN = ("echo x > '{0}/begun '$$; sleep 0.3; ls '{0}' | grep -c begun >> '{0}/at once'; rm '{0}/begun '$$; "
           "pwd >> '{0}/paths'; ") + RUN

    def history(self):
        path = self.folder / "my repo"
        return path, make_repository(path, [{"state": f"{int(i >= 70)} ok\n", "n": str(i)} for i in range(100)])

    def test_runs_at_once_find_the_same(self):
        path, commits = self.history()
        result, found = self.search(path, commits[0], "main", "-j", "3", run=self.RUN.replace("{0}", str(self.folder)))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[70])
        counts = [int(n) for n in (self.folder / "at once").read_text().split()]
        self.assertEqual(max(counts), 3)
        names = {os.path.basename(p) for p in (self.folder / "paths").read_text().splitlines()}
        self.assertEqual(names, {"worktree", "worktree-2", "worktree-3"})
        self.assertLessEqual(len(counts), 4 + 3 * 4 + 2 + 4)
        self.assertEqual(len(git(path, "worktree", "list").splitlines()), 1)
        self.assert_nothing_left()
        result, again = self.search(path, commits[0], "main", "-j", "3", run=self.RUN.replace("{0}", str(self.folder)))
        self.assertEqual((again["runs"], again["culprit"]), (0, commits[70]))

    def test_changes_are_looked_for_in_several_places_at_once(self):
        path, commits = self.history()
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "-j", "3", "--json", "--run",
                             self.RUN.replace("{0}", str(self.folder)))
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual([c["revision"] for c in found["changes"]], [commits[70]])
        counts = [int(n) for n in (self.folder / "at once").read_text().split()]
        self.assertEqual(len(counts), found["runs"])
        self.assertLessEqual(len(counts), 4 + 3 * 4)  # a quarter of what is left is left by each round
        names = {os.path.basename(p) for p in (self.folder / "paths").read_text().splitlines()}
        self.assertEqual(names, {"worktree", "worktree-2", "worktree-3"})
        self.assert_nothing_left()

    def test_a_search_that_is_interrupted_ends_all_and_goes_on(self):
        path, commits = self.history()
        for signal in ("INT", "KILL"):
            (self.folder / "hang").write_text("")
            run = f"[ ! -e '{self.folder}/hang' ] || [ $RLBISECT_REVISION = {commits[0]} ] || " \
                  f"[ $RLBISECT_REVISION = {commits[99]} ] || {{ touch '{self.folder}'/{signal}$$; sleep 1000; }}; {RUN}"
            words = [self.program, f"{commits[0]}..main", "--repo", path, "--run", run, "-j", "3"]
            process = subprocess.Popen(words, env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
            while len(list(self.folder.glob(signal + "*"))) < 3:
                time.sleep(0.05)
            subprocess.run(["kill", "-" + signal, str(process.pid)], check=True)
            process.communicate()
            for file in self.folder.glob(signal + "*"):
                pid, end = int(file.name[len(signal):]), time.time() + 60
                while os.path.exists(f"/proc/{pid}") and time.time() < end:
                    time.sleep(0.05)
                self.assertFalse(os.path.exists(f"/proc/{pid}"))
            (self.folder / "hang").unlink()
            result = self.bisect("resume", "--repo", path)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"culprit    {commits[70][:12]}", result.stdout)
            self.assertIn(" 4 stored", result.stdout)
            self.assert_nothing_left()
            self.assertEqual(len(git(path, "worktree", "list").splitlines()), 1)
            self.bisect("gc", "--repo", path)

    def test_each_run_is_a_job_of_a_scheduler(self):
        path, commits = self.history()
        launcher = self.folder / "srun"
        launcher.write_text(f"#!/bin/sh\necho \"$RLBISECT_JOB $1\" >> '{self.folder}/jobs'; shift; exec \"$@\"\n")
        launcher.chmod(0o755)
        result, found = self.search(path, commits[0], "main", "-j", "2", "--launch", f"'{launcher}' -n1")
        self.assertEqual(result.returncode, 125)  # there is no run.sh
        result, found = self.search(path, commits[0], "main", "-j", "2", "--launch", f"'{launcher}' -n1", run=RUN)
        self.assertEqual(found["culprit"], commits[70], result.stderr)
        jobs = (self.folder / "jobs").read_text().splitlines()
        self.assertEqual(len(jobs), found["runs"] + 1)
        self.assertEqual(len(set(jobs)), len(jobs))
        self.assertIn("--launch", found["reproduce"])
        os.symlink(launcher, self.folder / "tmp dir/srun")
        self.environment["PATH"] = f"{self.folder}/tmp dir:{self.environment['PATH']}"
        result, found = self.search(path, commits[0], "main", "--launch", "srun -n1", "--timeout", "0.5",
                                    run="sleep 100")
        self.assertIn("scancel --name=rlbisect-", found["reason"])


class Differ(Case):
    """A trainer of which a commit changes what two ranks compute; another one changes all runs."""

    def test_the_revision_since_which_two_configurations_differ(self):
        path = self.folder / "my repo"
        run = ('tp=$(sed \'s/.*"tp":\\([0-9]*\\).*/\\1/\' "$RLBISECT_CONFIG"); read one two < state; [ $one != no ] || exit 3; '
               '[ "$tp" = 1 ] || one=$two; [ $one != no ] || exit 125; echo "{\\"loss\\": $one, \\"seed\\": $tp}" > "$RLBISECT_OUT/metrics.json"')
        states = ["1 1", "1 1", "2 2", "no no", "2 no", "2 2.5", "2 2.5", "3 3.5"]
        commits = make_repository(path, [{"state": s + "\n", "n": str(i)} for i, s in enumerate(states)])
        words = ["--differ", "tp=1..tp=2", "--metric", "loss"]
        result, found = self.search(path, commits[0], "main", *words, run=run)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(found["interval"], commits[3:6])
        reasons = {skip["revision"]: skip["reason"] for skip in found["skipped"]}
        self.assertIn("both configurations end with exit code 3", reasons[commits[3]])
        self.assertIn("the second configuration: ", reasons[commits[4]])
        self.assertIn("--differ tp=1..tp=2 --metric loss", found["reproduce"])
        text = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", run, *words)
        self.assertIn("bad: loss: 2.5 where the reference has 2", text.stdout)
        self.assertIn("tp=1..tp=2", text.stdout)
        result, found = self.search(path, commits[0], "main", *words, "--tolerance", "1", run=run)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the ends do not differ", found["reason"])
        for option, sentence in ((["--differ", "tp=1..tp=1"], "do not differ"), (["--differ", "a..b"], "two configurations")):
            result, _ = self.search(path, commits[0], "main", *option, run=run)
            self.assertEqual(result.returncode, 129)
            self.assertIn(sentence, result.stdout)


class Screen(Case):
    def test_a_terminal_shows_the_history_and_what_runs(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{int(i >= 3)} ok\n", "n": str(i)} for i in range(8)])
        ours, theirs = pty.openpty()
        process = subprocess.Popen([self.program, f"{commits[0]}..main", "--repo", path, "--run", RUN],
                                   env={**self.environment, "TERM": "xterm", "NO_COLOR": "1"}, stderr=theirs,
                                   stdout=subprocess.DEVNULL)
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # nobody writes any more
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        screens = shown.decode().replace("\r", "").split("\x1b[")
        self.assertIn(">.......\nruns  " + commits[0][:12], screens[0])
        self.assertTrue(any("+..>...x\nruns  " in screen or "+...>..x\nruns  " in screen for screen in screens), screens)
        self.assertEqual(screens[-1], "J")  # what is left are the verdicts


class Surroundings(Case):
    def test_python_that_imports_from_the_checkout_is_told(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{i} ok\n", "lib/m.py": ""} for i in range(2)])
        site = self.folder / "site"
        site.mkdir()
        search = [f"{commits[0]}..main", "--repo", path, "--run", RUN]
        self.assertNotIn("python3 imports", self.bisect(*search).stderr)
        (site / "__editable___m_finder.py").write_text(f"MAPPING = {{'m': '{path}/lib/m.py'}}\n")
        for place, named in ((path / "lib", path / "lib"), (site, site / "__editable___m_finder.py")):
            self.environment["PYTHONPATH"] = str(place)
            result = self.bisect(*search)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"python3 imports from the checkout, by {named}:", result.stderr)

    def test_changes_that_are_not_committed_are_told(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{i // 2} ok\n", "a file": str(i), "b": str(i)} for i in range(4)])
        (path / "new").write_text("not git's\n")
        search = ["--repo", path, "--run", RUN]
        self.assertNotIn("not committed", self.bisect(f"{commits[0]}..main", *search).stderr)
        (path / "a file").write_text("mine\n")
        for changed, words in ((["b"], "1 file of the checkout, such as a file, has"),
                               ([], "2 files of the checkout, such as a file, have")):
            result = self.bisect(f"{commits[0]}..main", *search)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"{words} changes that are not committed", result.stderr)
            for name in changed:
                (path / name).write_text("mine, too\n")
                git(path, "add", name)
        # Of another end than what is checked out they are nobody's business.
        self.assertNotIn("not committed", self.bisect(f"{commits[0]}..{commits[2]}", *search).stderr)

    def test_nothing_of_git_asks_on_a_terminal_or_hangs(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{i} ok\n", ".gitattributes": "n filter=told\n", "n": str(i)}
                                         for i in range(2)])
        git(path, "config", "filter.told.smudge", f"env > '{self.folder}/environment'; cat")
        result, found = self.search(path, commits[0], "main", run=RUN)
        self.assertEqual(found["culprit"], commits[1], result.stderr)
        environment = (self.folder / "environment").read_text().splitlines()
        for line in ("GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true", "SSH_ASKPASS=true", "SSH_ASKPASS_REQUIRE=force"):
            self.assertIn(line, environment)
        git(path, "config", "filter.told.smudge", f"touch '{self.folder}/hangs'; sleep 600; cat")
        process = subprocess.Popen([self.program, f"{commits[0]}..main", "--repo", path, "--run", RUN, "--fresh"],
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        while not (self.folder / "hangs").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        self.assertIn("interrupted", process.communicate(timeout=300)[1])
        self.assertGreaterEqual(process.returncode, 128)
        self.assert_nothing_left()

    def test_a_full_disk_is_nobodys_fault(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        commits = make_repository(disk / "repo", [{"state": f"{int(i >= 5)} ok\n", "n": str(i)} for i in range(9)])
        room = self.folder / "room"
        run = f"[ $RLBISECT_REVISION != {commits[4]} ] || [ -e '{room}' ] || cat /dev/zero > '{disk}/fill'; " + RUN
        result = self.bisect(f"{commits[0]}..main", "--repo", disk / "repo", "--run", run)
        self.assertEqual(result.returncode, 128, result.stdout + result.stderr)
        self.assertIn("the disk is full after a run", result.stderr)
        (disk / "fill").unlink()
        room.write_text("")
        result = self.bisect("resume", "--repo", disk / "repo")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f"culprit    {commits[5][:12]}", result.stdout)

    def test_repositories_without_a_checkout_or_with_a_part_of_the_history(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{int(i >= 5)} ok\n", "n": str(i)} for i in range(9)])
        bare, shallow, sparse = (self.folder / name for name in ("bare.git", "shallow", "sparse"))
        git(self.folder, "clone", "-q", "--bare", str(path), str(bare))
        git(self.folder, "clone", "-q", "--depth", "6", path.as_uri(), str(shallow))
        git(self.folder, "clone", "-q", str(path), str(sparse))
        git(sparse, "sparse-checkout", "set", "--no-cone", "/state")
        for clone, good in ((bare, commits[0]), (shallow, commits[3]), (sparse, commits[0])):
            with self.subTest(clone.name):
                result, found = self.search(clone, good, "main", run=RUN)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(found["culprit"], commits[5])
        result, _ = self.search(shallow, commits[0], "main", run=RUN)
        self.assertEqual(result.returncode, 129, result.stderr)
        self.assertIn("names no commit of this repository", result.stderr)

    def test_a_worktree_that_cannot_be_removed_is_not_in_the_way(self):
        probe = self.folder / "probe"
        probe.write_text("")
        if subprocess.run(["chattr", "+i", probe], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file can be made immutable here")
        subprocess.run(["chattr", "-i", probe], check=True)
        self.addCleanup(subprocess.run, ["chattr", "-R", "-i", self.temporary], stderr=subprocess.DEVNULL)
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{int(i >= 5)} ok\n", "n": str(i)} for i in range(9)])
        run = f"pwd >> '{self.folder}/paths'; [ $RLBISECT_REVISION = {commits[0]} ] && chattr +i n; " + RUN
        result, found = self.search(path, commits[0], "main", run=run)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual((found["culprit"], found["skipped"]), (commits[5], []))
        self.assertIn("cannot be removed", result.stderr)
        names = {os.path.basename(p) for p in (self.folder / "paths").read_text().splitlines()}
        self.assertEqual(names, {"worktree", "worktree.1", "worktree.2"})


class Logs(Case):
    def test_what_git_bisect_knows_is_not_run_again(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{int(i >= 70)} ok\n", "n": str(i)} for i in range(100)])
        log = self.folder / "log"
        git(path, "bisect", "start", commits[99], commits[0])
        git(path, "bisect", "good", commits[64])
        git(path, "bisect", "bad", commits[72])
        git(path, "bisect", "skip", commits[68])
        log.write_text(git(path, "bisect", "log"))
        git(path, "bisect", "reset")
        for ends in ([f"{commits[0]}..main"], []):
            result = self.bisect(*ends, "--log", log, "--repo", path, "--run", RUN, "--json", "--fresh")
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            self.assertEqual(found["culprit"], commits[70])
            self.assertLessEqual(found["purposes"]["search"], 3)
        git(path, "bisect", "start", "main", "main~99")
        git(path, "bisect", "good")
        started = git(path, "bisect", "log")
        git(path, "bisect", "reset")
        git(path, "bisect", "start", "--term-new", "slow", "--term-old", "fast", "main", "main~99")
        git(path, "bisect", "fast")
        own_terms = git(path, "bisect", "log")
        git(path, "bisect", "reset")
        for text in (started, own_terms):
            log.write_text(text)
            result = self.bisect("--log", log, "--repo", path, "--run", RUN, "--json", "--fresh")
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            self.assertEqual((found["good"], found["bad"], found["culprit"]), (commits[0], commits[99], commits[70]))
            self.assertEqual(found["purposes"]["search"], 6)
        log.write_text("nothing\n")
        result = self.bisect("--log", log, "--repo", path, "--run", RUN)
        self.assertEqual(result.returncode, 128)
        self.assertIn("no log of git bisect", result.stderr)


class Changes(Case):
    def test_every_change_is_listed(self):
        for number in range(20 if FULL else 3):
            with self.subTest(seed=SEED, number=number):
                rng = random.Random(f"{SEED} {number}")
                values, value = [], 0
                for i in range(rng.randrange(30, 200)):
                    value += i > 0 and rng.random() < 0.05
                    values.append(value)
                values[-1] += 1
                path = self.folder / f"history {number}"
                commits = make_repository(path, [{"state": f"{v} ok\n", "n": str(i)} for i, v in enumerate(values)])
                result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                found = json.loads(result.stdout)
                expected = [commits[i] for i in range(1, len(values)) if values[i] != values[i - 1]]
                self.assertEqual([c["revision"] for c in found["changes"]], expected)
                again = json.loads(self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN,
                                               "--json").stdout)
                self.assertEqual((again["runs"], again["changes"]), (0, found["changes"]))
                at_once = json.loads(self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, "--json",
                                                 "--fresh", "-j", "4").stdout)
                self.assertEqual(at_once["changes"], found["changes"])
                self.assertLessEqual(at_once["runs"], len(values) + 2)
                forecast = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, "--dry-run")
                self.assertLessEqual(found["runs"], int(forecast.stdout.split("at most ")[1].split()[0]))

    def test_a_forecast_counts_a_history_in_which_all_changes(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{i} ok\n"} for i in range(33)])
        search = ["changes", f"{commits[0]}..main", "--repo", path, "--run", RUN]
        self.assertIn("32 revisions between the ends, at most 35 runs where the ends repeat\n", self.bisect(*search, "--dry-run").stdout)
        self.assertEqual(json.loads(self.bisect(*search, "--json").stdout)["runs"], 35)

    def test_what_changes_has_not_is_refused(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": "0 ok\n"}, {"state": "1 ok\n"}])
        for option in (["--markdown", "m"], ["--junit", "x"], ["--html", "h"], ["--stat"], ["--log", "l"]):
            result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, *option)
            self.assertEqual(result.returncode, 129, option)
            self.assertIn("no option " + option[0], result.stderr)

    def test_a_change_among_commits_that_cannot_be_judged(self):
        path = self.folder / "my repo"
        states = ["0 ok", "0 ok", "0 broken", "1 broken", "1 ok", "1 ok", "2 ok"]
        commits = make_repository(path, [{"state": s + "\n", "n": str(i)} for i, s in enumerate(states)])
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN)
        self.assertIn("2 changes in 6 revisions", result.stdout)
        self.assertIn("or one of the 2 before it", result.stdout)
        result = self.bisect("changes", f"{commits[0]}..{commits[1]}", "--repo", path, "--run", RUN)
        self.assertEqual(result.returncode, 1)
        result = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run",
                             "date +'{\"t\": %s%N}' > \"$RLBISECT_OUT/metrics.json\"")
        self.assertEqual(result.returncode, 125)
        self.assertIn("not deterministic", result.stdout)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
