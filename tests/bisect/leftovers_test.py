"""What a search leaves: the checkout as it was, no process, no folder, and its measurements. usage: leftovers_test.py PROGRAM"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from histories import git, make_repository
from support import FULL, SEED, Case, snapshot

Case.program = os.path.abspath(sys.argv.pop(1))
WRITE = "echo '{\"loss\": %s}' > \"$RLBISECT_OUT/metrics.json\""


class Safety(Case):
    def test_the_users_checkout_is_untouched(self):
        path, commits = self.repository(*[WRITE % v + "; touch junk; echo x > n.txt"
                                          for v in (1, 1, 2, 2)])
        (path / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch '{path}/hooked'\n")
        (path / ".git" / "hooks" / "post-checkout").chmod(0o755)
        (path / "n.txt").write_text("dirty\n")
        (path / "staged.txt").write_text("staged\n")
        git(path, "add", "staged.txt")
        (path / "untracked.txt").write_text("untracked\n")
        os.utime(path / "run.sh", (1, 1))  # a refresh of the index would write it down
        before = snapshot(path)
        result = self.bisect(commits[0] + "..", "--run", "./run.sh", "--json", folder=path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["culprit"], commits[2])
        self.assertEqual(snapshot(path), before)
        self.assertFalse((path / ".git" / "worktrees").exists())
        self.assert_nothing_left()

    def test_an_interrupt_leaves_nothing_behind(self):
        started = self.folder / "started"
        # What it starts in the background ignores the usual signals.
        hang = (f"(trap '' INT TERM HUP; echo $$ > '{started}.'; mv '{started}.' '{started}';"
                " sleep 1000) & mkdir locked; touch locked/x; chmod 500 locked; sleep 1000")
        at_first = [hang, "exit 0", "exit 1"]
        after_a_skip = ["exit 0", hang, "echo log; exit 3", hang, "exit 1"]
        for number, runs in ((signal.SIGINT, at_first), (signal.SIGTERM, after_a_skip),
                             (signal.SIGHUP, at_first)):
            with self.subTest(signal=number):
                path, commits = self.repository(*runs)
                self.interrupt(number, path, commits[0], started)
                shutil.rmtree(path)

    def begun(self, path, good, started):
        """A search whose run has begun."""
        process = subprocess.Popen(
            [self.program, f"{good}..main", "--repo", path, "--build", "true", "--run", "./run.sh"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not started.exists():
            self.assertIsNone(process.poll(), "it ended by itself")
            time.sleep(0.01)
        return process

    def kill(self, *search):
        process = self.begun(*search)
        process.kill()
        process.communicate()

    def interrupt(self, number, path, good, started):
        before = snapshot(path)
        process = self.begun(path, good, started)
        process.send_signal(number)
        output, error = process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertEqual(output, "")
        self.assertIn("interrupted", error)
        self.assert_nothing_left()
        self.assertEqual(snapshot(path), before)
        self.assertTrue(self.has_ended(int(started.read_text())), "the run is still there")
        started.unlink()

    def test_an_interrupt_ends_git_at_any_moment(self):
        path, commits = self.repository("exit 0", "exit 1")
        library = self.folder / "library"
        make_repository(library, [{"a": "1"}])
        tools, turn, hangs = self.folder / "tools", self.folder / "turn", self.folder / "hangs"
        tools.mkdir()
        for tool in ("git", "python3"):  # the turn of each call is counted, and one hangs
            (tools / tool).write_text(f"""#!/bin/sh
                echo >> '{turn}'
                if [ $(wc -l < '{turn}') = "$HANGING" ]; then
                  echo $$ > '{hangs}.'; mv '{hangs}.' '{hangs}'; exec sleep 1000
                fi
                PATH='{os.environ["PATH"]}' exec {tool} "$@"\n""")
            (tools / tool).chmod(0o755)
        search = [f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "--dependency", f"lib={library}",
                  "--repeat-ends", "1", "--repeat-sides", "1"]
        for words, code in ((search, 0), (["verdict", "--run", "./run.sh"], 1)):
            for hanging in range(1, 200):
                turn.write_text("")
                process = subprocess.Popen(
                    [self.program, *words], cwd=path, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    env={**self.environment, "PATH": f"{tools}:{os.environ['PATH']}", "HANGING": str(hanging)})
                self.addCleanup(process.kill)
                while not hangs.exists() and process.poll() is None:
                    time.sleep(0.01)
                ended = not hangs.exists()
                if not ended:
                    process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=300)[1]
                if ended:
                    self.assertEqual(process.returncode, code, said)
                    break
                self.assertLess(hanging, 199)
                self.assertIn(process.returncode, (130, -signal.SIGINT), (words, hanging, said))
                self.assertTrue(self.has_ended(int(hangs.read_text())), (words, hanging))
                self.assert_nothing_left()
                hangs.unlink()
                shutil.rmtree(path / ".git" / "rlbisect", ignore_errors=True)
            self.assertGreater(hanging, 2)
        self.assertFalse((path / ".git" / "worktrees").exists())

    def test_what_a_run_leaves_running_is_ended(self):
        started = self.folder / "started"
        daemon = (f"setsid sh -c 'trap : TERM; echo $$ > \"{started}.\"; mv \"{started}.\" \"{started}\"; "
                  "while :; do sleep 1000; done' > /dev/null 2>&1 & "
                  f"while [ ! -e '{started}' ]; do sleep 0.01; done; exit 0")
        path, commits = self.repository(daemon, "exit 1")
        result, found = self.search(path, commits[0], commits[1], "--repeat-ends", "1", "--repeat-sides", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.has_ended(int(started.read_text())))

    def test_what_starts_others_without_end_and_heeds_no_signal_is_ended(self):
        started = self.folder / "started"
        daemons = (f"for i in 1 2 3 4 5 6; do setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >> \"{started}\"; "
                   "while :; do /bin/true; done' > /dev/null 2>&1 & done; "
                   f"while [ $(cat '{started}' | wc -l) -lt 6 ]; do sleep 0.01; done; ")
        path, commits = self.repository(f"rm -f '{started}'; touch '{started}'; {daemons} exit 0", "exit 1")
        result, found = self.search(path, commits[0], commits[1], "--repeat-ends", "1", "--repeat-sides", "1")
        self.assertEqual((result.returncode, found["culprit"]), (0, commits[1]), found)
        processes = [int(line) for line in started.read_text().split()]
        self.assertEqual(len(processes), 6)
        for process in processes:
            self.assertTrue(self.has_ended(process))

    def test_what_a_killed_search_was_running_is_ended(self):
        started = self.folder / "started"
        daemon = (f"setsid sh -c 'echo $$ > \"{started}.\"; mv \"{started}.\" \"{started}\"; sleep 1000' "
                  "> /dev/null 2>&1 & sleep 1000")
        path, commits = self.repository(daemon, "exit 1")
        self.kill(path, commits[0], started)
        self.assertTrue(self.has_ended(int(started.read_text())))

    def test_what_a_killed_search_left_is_removed_by_the_next(self):
        started = self.folder / "started"
        path, commits = self.repository(f"[ -e '{started}' ] && exit 0; touch '{started}'; sleep 1000",
                                        "exit 1")
        self.kill(path, commits[0], started)
        self.assertEqual(git(path, "worktree", "list").count("\n"), 1)
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(git(path, "worktree", "list").count("\n"), 0)
        self.assert_nothing_left()

    def test_a_worktree_whose_making_was_cut_short_is_removed_by_the_next(self):
        started = self.folder / "started"
        path, commits = self.repository(f"[ -e '{started}' ] && exit 0; touch '{started}'; sleep 1000",
                                        "exit 1")
        self.kill(path, commits[0], started)
        (path / ".git" / "worktrees" / "worktree" / "commondir").write_bytes(b"")
        self.assertEqual(subprocess.run(["git", "worktree", "list"], cwd=path, capture_output=True).returncode, 128)
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((path / ".git" / "worktrees").exists())
        self.assert_nothing_left()

    def test_what_a_kill_left_of_a_worktree_of_the_user_is_in_nobodys_way(self):
        path, commits = self.repository("exit 0", "exit 1")
        half = path / ".git" / "worktrees" / "theirs"
        half.mkdir(parents=True)
        (half / "locked").write_text("initializing")
        (half / "gitdir").write_text(f"{self.folder}/theirs/.git\n")
        (half / "HEAD").write_text(commits[0] + "\n")
        (half / "commondir").write_text("")
        self.assertEqual(subprocess.run(["git", "worktree", "list"], cwd=path, capture_output=True).returncode, 128)
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual((result.returncode, found["culprit"]), (0, commits[1]), result.stdout + result.stderr)
        self.assertIn(f"{self.folder}/theirs", git(path, "worktree", "list"))
        self.assert_nothing_left()

    def test_searches_at_once_are_in_nobodys_way(self):
        path, commits = self.repository(*[WRITE % (1 if i < 9 else 2) for i in range(17)])
        for _ in range(10 if FULL else 2):
            searches = [subprocess.Popen(
                [self.program, f"{commits[0]}..main", "--repo", path, "--run", f"./run.sh # {number}", "--fresh", "--json"],
                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for number in range(8)]
            for search in searches:
                found = json.loads(search.communicate()[0])
                self.assertEqual((found["culprit"], found["skipped"]), (commits[9], []))
        self.assertFalse((path / ".git" / "worktrees").exists())
        self.assert_nothing_left()

    def test_a_long_checkout_keeps_no_other_search_waiting(self):
        path, commits = self.repository("exit 0", "exit 1")
        hangs = self.folder / "hangs"
        attributes = path / ".git" / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("n.txt filter=slow\n")
        git(path, "config", "filter.slow.smudge", f"""[ -z "$HANGING" ] || {{ touch '{hangs}'; sleep 1000; }}; cat""")
        words = [self.program, f"{commits[0]}..main", "--repo", path, "--fresh", "--run"]
        slow = subprocess.Popen([*words, "./run.sh # slow"], env={**self.environment, "HANGING": "1"},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(slow.kill)
        while not hangs.exists():
            self.assertIsNone(slow.poll(), "it ended by itself")
            time.sleep(0.01)
        other = subprocess.run([*words, "./run.sh"], env=self.environment, capture_output=True, text=True, timeout=50)
        self.assertEqual(other.returncode, 0, other.stdout + other.stderr)
        slow.send_signal(signal.SIGINT)
        self.assertEqual(slow.wait(timeout=60), 130)
        self.assert_nothing_left()

    def test_of_a_log_without_end_its_ends_are_kept(self):
        path, commits = self.repository("exit 0", "echo first words; yes | head -c 40000000; echo last words; exit 1")
        kept = self.folder / "kept"
        result = self.bisect(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh", "-o", kept)
        self.assertIn("bad: exit code 1: last words\n", result.stdout, result.stderr)
        logs = [log.read_bytes() for log in kept.glob("*/run.log") if log.stat().st_size > 0]
        self.assertEqual(len(logs), 2)
        for log in logs:
            self.assertTrue(log.startswith(b"first words\ny\n") and log.endswith(b"y\nlast words\n"))
            self.assertIn(b"\n[%d bytes are left out here]\n" % (40_000_023 - 2 * 2**20), log)
            self.assertLess(len(log), 2 * 2**20 + 100)
            self.assertNotIn(b"\0", log)

    def test_a_worktree_of_the_user_stays(self):
        path, commits = self.repository("exit 0", "exit 1")
        other = self.folder / "worktree"
        git(path, "worktree", "add", "--detach", str(other))
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(git(path, "worktree", "list").count("\n"), 1)
        self.assertEqual(git(other, "status", "--porcelain"), "")

    def test_a_monitor_of_the_repository_does_not_run(self):
        path, commits = self.repository("exit 0", "exit 1")
        git(path, "config", "core.fsmonitor", f"touch '{self.folder}/ran'; false")
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((self.folder / "ran").exists())

    @staticmethod
    def has_ended(process):
        for _ in range(500):
            state = pathlib.Path(f"/proc/{process}/stat")
            if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
            time.sleep(0.01)
        return False

    def test_a_git_environment_of_another_repository_is_not_followed(self):
        path, commits = self.repository(*["git rev-parse HEAD || exit 3; " + WRITE % v
                                          for v in (1, 2)])
        self.environment["GIT_DIR"] = str(self.folder / "nowhere")
        self.environment["GIT_QUARANTINE_PATH"] = str(self.folder / "incoming")
        result, found = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(found["culprit"], commits[1])

    def test_a_temporary_folder_that_is_none_is_named(self):
        path, commits = self.repository("exit 0", "exit 1")
        file = self.folder / "file"
        file.write_text("")
        for place in (self.folder / "nowhere", file):
            self.environment["TMPDIR"] = str(place)
            result, _ = self.search(path, commits[0], commits[1])
            self.assertEqual(result.returncode, 128)
            self.assertIn("TMPDIR", result.stdout + result.stderr)
            self.assertIn(str(place), result.stdout + result.stderr)
        self.environment["TMPDIR"] = ""
        result, _ = self.search(path, commits[0], commits[1])
        self.assertEqual(result.returncode, 0, result.stderr)


class Stored(Case):
    """What outlives a search."""

    def setUp(self):
        super().setUp()
        self.runs = self.folder / "runs"
        script = f"echo $RLBISECT_REVISION >> '{self.runs}'; sleep 0.02; "
        self.path, self.commits = self.repository(*[script + WRITE % (1 if i < 13 else 2) for i in range(40)])

    def ask(self, *arguments):
        return self.search(self.path, self.commits[0], self.commits[39], *arguments)

    def test_many_numbers_are_not_held_more_often_than_the_budget_of_a_file_says(self):
        for name in "ab":
            with open(self.folder / name, "w") as file:
                file.write(f'{{"kind": "{name}", "loss": [0')
                for i in range(400_000):
                    file.write(f",0.{i % 9973 + 1000}")
                file.write("]}")
        shutil.rmtree(self.path)
        path, commits = self.repository(*[f"cp '{self.folder}/{name}' \"$RLBISECT_OUT/metrics.json\"" for name in "aabb"])
        most = (64 << 20) + 8 * (self.folder / "a").stat().st_size
        command = [self.program, f"{commits[0]}..main", "--repo", str(path), "--run", "./run.sh", "--repeat-ends", "4"]
        for runs in ("12 for 3 revisions", "0 for 3 revisions"):
            with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as search:
                text = search.stdout.read().decode()
                _, status, used = os.wait4(search.pid, 0)
                search.returncode = os.waitstatus_to_exitcode(status)
            self.assertIn(f"runs       {runs}", text)
            self.assertLess(used.ru_maxrss << 10, most)

    def test_a_second_search_runs_nothing(self):
        result, found = self.ask()
        self.assertEqual((found["culprit"], found["stored"]), (self.commits[13], 0), result.stderr)
        first = self.runs.read_text()
        self.assertEqual(len(first.split()), found["runs"])
        result, again = self.ask()
        self.assertEqual((again["culprit"], again["runs"], again["stored"]),
                         (self.commits[13], 0, found["runs"]))
        self.assertTrue(again["confirmed"])
        self.assertEqual(self.runs.read_text(), first)
        text = self.bisect(self.commits[0], self.commits[39], "--repo", self.path, "--run", "./run.sh")
        self.assertRegex(text.stdout, r"runs       0 for 39 revisions, [0-9]+ stored \(the first of 20")
        result, again = self.ask("--confirm-again")
        self.assertEqual((again["runs"], again["culprit_runs"]), (4, 4))
        self.environment["WHAT_A_RUN_MAY_READ"] = "1"
        result, again = self.ask()
        self.assertEqual((again["runs"], again["stored"]), (found["runs"], 0))

    def test_a_search_that_was_killed_goes_on(self):
        result, whole = self.ask("--fresh")
        random_points = random.Random(SEED)
        for number in range(100 if FULL else 10):
            with self.subTest(seed=SEED, number=number):
                self.assertEqual(self.bisect("gc", "--repo", self.path).returncode, 0)
                self.runs.unlink()
                process = subprocess.Popen(
                    [self.program, f"{self.commits[0]}..main", "--repo", self.path, "--run", "./run.sh", "--json"],
                    env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True)
                point = random_points.randrange(1, whole["runs"])
                while not self.runs.exists() or self.runs.read_text().count("\n") < point:
                    self.assertIsNone(process.poll(), "it ended by itself")
                    time.sleep(0.002)
                time.sleep(random_points.random() * 0.1)
                process.kill()
                process.wait()
                time.sleep(0.1)  # what it was running ends by itself
                result = self.bisect("resume", "--repo", self.path)
                self.assertEqual(result.returncode, 0, result.stderr)
                found = json.loads(result.stdout)
                for member in ("culprit", "interval", "confirmed", "culprit_runs", "parent_runs"):
                    self.assertEqual(found[member], whole[member])
                self.assertEqual(found["runs"] + found["stored"], whole["runs"])
                # One run may have been cut.
                self.assertLessEqual(len(self.runs.read_text().split()), whole["runs"] + 1)
                self.assertEqual(self.bisect("status", "--repo", self.path).returncode, 0)
        self.bisect("gc", "--repo", self.path)
        self.assertFalse((self.path / ".git" / "rlbisect").exists())
        self.assert_nothing_left()

    def test_a_line_that_a_kill_has_cut_is_not_read(self):
        result, found = self.ask()
        for file in (self.path / ".git" / "rlbisect" / "measurements").iterdir():
            file.write_bytes(file.read_bytes()[:-20])
        result, again = self.ask()
        self.assertEqual(again["culprit"], found["culprit"], result.stderr)
        self.assertGreater(again["runs"], 0)
        result, again = self.ask()
        self.assertEqual(again["runs"], 0)

    def test_what_is_stored_and_cannot_be_read_is_told(self):
        self.ask()
        stored = self.path / ".git" / "rlbisect"
        journal, = stored.glob("sessions/*/journal.jsonl")
        words = journal.read_text()
        journal.write_text('{"revision": 1}\n' + words)
        result = self.bisect("status", "--repo", self.path)
        self.assertEqual(result.returncode, 128, result.stdout)
        self.assertIn("journal.jsonl: what the last search has judged cannot be read (", result.stderr)
        self.assertIn("): give its command again, which runs nothing twice", result.stderr)
        journal.unlink()
        self.assertEqual(self.bisect("status", "--repo", self.path).returncode, 1)
        journal.mkdir()
        for verb in ("status", "log"):
            result = self.bisect(verb, "--repo", self.path)
            self.assertEqual(result.returncode, 128, result.stdout)
            self.assertIn("journal.jsonl: cannot read this file to its end", result.stderr)
        journal.rmdir()
        for file in (stored / "measurements").iterdir():
            file.write_text(file.read_text().replace('"kind":"ran"', '"kind":"run"'))
        result, _ = self.ask()
        self.assertEqual(result.returncode, 128, result.stdout)
        self.assertIn("a run that is stored cannot be read (", result.stdout)
        self.assertIn("): remove this file, and the runs that it holds are made again", result.stdout)
        named, = (file for file in (stored / "measurements").iterdir() if str(file) in result.stdout)
        named.unlink()
        self.assertNotIn(str(named), self.ask()[0].stdout)

    def test_a_search_says_what_it_takes_and_takes_no_more_than_it_may(self):
        result = self.bisect(self.commits[0], "main", "--repo", self.path, "--run", "./run.sh", "--dry-run")
        self.assertIn("39 revisions between the ends, at most 16 runs", result.stdout)
        self.assertFalse(self.runs.exists())
        result, found = self.ask("--max-runs", "6")
        self.assertEqual(result.returncode, 125)
        self.assertIn("--max-runs", found["reason"])
        self.assertEqual(found["runs"], 6)
        self.assertIn(self.commits[13], found["interval"])
        self.assertFalse(found["confirmed"])
        result = self.bisect("status", "--repo", self.path)
        self.assertIn("(good end)", result.stdout)
        self.assertEqual(result.returncode, 1)
        self.assertIn("it has not ended: rlbisect resume goes on", result.stdout)
        self.assertNotIn("culprit", result.stdout)
        self.assertEqual(result.stdout.count("\npossible "), len(found["interval"]))
        result, found = self.ask()
        result = self.bisect("status", "--repo", self.path)
        self.assertEqual(result.returncode, 0)
        self.assertIn(f"culprit {self.commits[13]}\n", result.stdout)

    def test_what_a_full_disk_has_cut_of_a_search_is_told(self):
        self.ask()
        command = [self.program, f"{self.commits[0]}..{self.commits[39]}", "--repo", str(self.path), "--run",
                   "./run.sh", "--json"]
        no_room = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        result = subprocess.run(command, env=self.environment, preexec_fn=no_room, capture_output=True, text=True)
        self.assertEqual(result.returncode, 128)
        self.assertEqual(self.bisect("status", "--repo", self.path).returncode, 0)
        spec, = (self.path / ".git" / "rlbisect" / "sessions").glob("*/spec.json")
        spec.write_text("")
        for verb in ("status", "resume"):
            result = self.bisect(verb, "--repo", self.path)
            self.assertEqual(result.returncode, 128)
            self.assertIn("give its command again", result.stderr)
        result, again = self.ask()
        self.assertEqual(again["runs"], 0)

    def test_a_search_goes_on_between_the_commits_at_which_it_began(self):
        git(self.path, "tag", "start", self.commits[0])
        words = ["start..HEAD", "--repo", self.path, "--run", "./run.sh", "--json"]
        between = f"\nbetween {self.commits[0][:12]} and {self.commits[38][:12]}\n"
        for verb in ([], ["changes"]):
            git(self.path, "reset", "-q", "--hard", self.commits[38])
            self.bisect(*verb, *words, "--max-runs", "5")
            git(self.path, "reset", "-q", "--hard", self.commits[39])
            git(self.path, "tag", "-d", "start")
            for number in range(8):  # each time five runs more
                result = self.bisect("resume", "--repo", self.path)
                found = json.loads(result.stdout)
                self.assertEqual((found["good"], found["bad"]), (self.commits[0], self.commits[38]), result.stderr)
                self.assertIn(between, result.stderr)
            self.assertIn(between, self.bisect("status", "--repo", self.path).stdout)
            self.assertEqual(found["reason"], None)
            git(self.path, "tag", "start", self.commits[0])
            found = json.loads(self.bisect(*verb, *words).stdout)  # the command names them anew
            self.assertEqual(found["bad"], self.commits[39])

    def test_an_end_that_git_has_removed_is_named(self):
        self.bisect(f"{self.commits[0]}..HEAD", "--repo", self.path, "--run", "./run.sh", "--max-runs", "3")
        git(self.path, "reset", "-q", "--hard", self.commits[30])
        (self.path / ".git" / "ORIG_HEAD").unlink(missing_ok=True)
        git(self.path, "reflog", "expire", "--expire=now", "--all")
        git(self.path, "gc", "-q", "--prune=now")
        result = self.bisect("resume", "--repo", self.path)
        self.assertEqual(result.returncode, 129, result.stderr)
        self.assertIn(f"the commit that was the bad end of the last search, {self.commits[39]}, is no longer in this "
                      "repository: name both ends anew, rlbisect GOOD..BAD", result.stderr)

    def test_what_git_puts_into_files_is_known(self):
        self.ask()
        attributes = self.path / ".git" / "info" / "attributes"
        attributes.parent.mkdir(exist_ok=True)
        changes = {name: lambda name=name, value=value: git(self.path, "config", name, value)
                   for name, value in (("filter.up.smudge", "cat"), ("core.autocrlf", "input"), ("core.eol", "lf"))}
        changes["attributes"] = lambda: attributes.write_text("*.txt -text\n")
        for name, change in changes.items():
            with self.subTest(name):
                self.assertEqual(self.ask()[1]["runs"], 0)
                change()
                result, found = self.ask()
                self.assertEqual((found["stored"], found["culprit"]), (0, self.commits[13]), result.stderr)
        git(self.path, "config", "--unset", "filter.up.smudge")
        self.assertEqual(self.ask()[1]["stored"], 0)

    def test_git_reads_the_log(self):
        self.assertEqual(self.bisect("log", "--repo", self.path).returncode, 129)
        self.ask()
        log = self.folder / "log"
        log.write_text(self.bisect("log", "--repo", self.path).stdout)
        self.assertIn(f"# first bad commit: [{self.commits[13]}]", log.read_text())
        git(self.path, "bisect", "replay", str(log))
        self.assertEqual(git(self.path, "rev-parse", "refs/bisect/bad"), self.commits[13])

    def test_the_same_search_twice_at_once_is_refused(self):
        path, commits = self.path, self.commits
        slow = ["--build", f"touch '{self.folder}/begun'; sleep 5"]
        process = subprocess.Popen([self.program, f"{commits[0]}..{commits[39]}", "--repo", path, "--run", "./run.sh",
                                    "--json", *slow], env=self.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while not (self.folder / "begun").exists():
            time.sleep(0.01)
        result, _ = self.search(path, commits[0], commits[39], *slow)
        gc = self.bisect("gc", "--repo", path)
        process.terminate()
        process.wait()
        self.assertEqual(result.returncode, 129)
        self.assertIn("is running", result.stdout + result.stderr)
        self.assertIn("1 search still running", gc.stdout)


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
