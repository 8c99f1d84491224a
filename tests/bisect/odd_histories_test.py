"""rlbisect on what surrounds a history: submodules, pins, overlays, declared paths, logs of git bisect.
usage: odd_histories_test.py PROGRAM
"""
import json
import os
import random
import subprocess
import sys
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

    def test_the_search_goes_on_inside_of_a_dependency(self):
        self.clone()
        result, found = self.search(self.path, self.commits[0], "main", "--dependency", f"lib={self.library}",
                                    run=self.run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], self.commits[4])
        self.assertEqual(found["dependency"]["culprit"], self.library_commits[3])
        self.assertEqual(found["dependency"]["name"], "lib")


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
        self.assertLessEqual(found["runs"], 2 + 2 + 4 + 2 + 2)
        self.assertIn("--path src", found["reproduce"])
        before = log.read_text()
        (path / "more.md").write_text("more\n")
        git(path, "add", "more.md")
        git(path, "commit", "-q", "-m", "Documents")
        result, found = self.search(path, commits[0], "main", "--path", "src", run=run)
        self.assertEqual((found["culprit"], found["runs"]), (commits[40], 0))
        self.assertEqual(log.read_text(), before)

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
                forecast = self.bisect("changes", f"{commits[0]}..main", "--repo", path, "--run", RUN, "--dry-run")
                self.assertLessEqual(found["runs"], int(forecast.stdout.split("at most ")[1].split()[0]))

    def test_a_forecast_counts_a_history_in_which_all_changes(self):
        path = self.folder / "my repo"
        commits = make_repository(path, [{"state": f"{i} ok\n"} for i in range(33)])
        search = ["changes", f"{commits[0]}..main", "--repo", path, "--run", RUN]
        self.assertIn("32 revisions between the ends, at most 35 runs\n", self.bisect(*search, "--dry-run").stdout)
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
