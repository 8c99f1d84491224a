"""Ranks that are processes: the same bits, however they are launched, and ends that name who failed.

usage: processes_test.py PROGRAM"""
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from support import FULL, SEED, Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))
SHAPE = ["--model", "demo", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
         "--rollout-max-response-len", "6", "--weights", "all", "--threads", "2"]
RUN = ["--steps", "3", *SHAPE]
LONG = ["--steps", "1000", *SHAPE]
PROCESSES = ["--ranks-as", "processes"]
# Spelt as torch 1.13 has them; newer ones take both, and look for ended ranks as often as is said here. Debian's
# 1.13 fails under Python 3.11 where nothing is redirected.
TORCHRUN = ["torchrun", "--no_python", "--nnodes", "1", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
            "--redirects", "1", "--tee", "1", "--monitor_interval", "0.1"]
KILLS, STOPS = (100, 20) if FULL else (10, 2)


def children(process):
    """The ids of a program's ranks, in their order."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except OSError:
        return []


def lives(process_id):
    try:
        stat = pathlib.Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def rank_of(process_id):
    variables = pathlib.Path(f"/proc/{process_id}/environ").read_text().split("\0")
    return int(dict(line.split("=", 1) for line in variables if line)["RANK"])


def free_port():
    """A port of this machine, free as the eight behind it most likely are."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return min(server.getsockname()[1], 65000)


class Processes(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        print(f"seed {SEED}", flush=True)
        cls.alone, cls.steps = cls.capture("alone", *RUN, "--record", "ops")

    def judged(self, code, *arguments, **options):
        result = self.run_program(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def begin(self, *arguments):
        return subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def whole_in_the_end(self, path):
        """What was begun goes on, or begins anew where nothing of it is stored, and is the run of one rank."""
        if not path.exists():
            return
        resume = ["capture", "--resume", "--ranks-as", "threads", "-o", path]
        if any(journal.stat().st_size > 0 for journal in path.glob("journal/*")):
            self.judged(0, *resume)
        else:
            self.judged(3, *resume)
            self.judged(0, "capture", *RUN, "--record", "ops", "-o", path)
        self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)

    def test_a_capture_by_processes_is_the_capture_of_one_rank(self):
        path, steps = self.capture("by processes", *RUN, "--record", "ops", "--layout", "dp=2,tp=2,zero=1",
                                   *PROCESSES)
        for here, there in zip(steps, self.steps, strict=True):
            for key in ("loss_bits", "grad_norm_bits"):
                self.assertEqual(here[key], there[key])
        self.judged(0, "verify", "--deep", path)
        self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)
        self.judged(0, "train", path, "--layout", "pp=2,cp=2", "--steps", "1.0")

    def test_four_layouts_of_processes_have_the_bits_of_one_rank(self):
        lines = self.lines("layouts", self.alone, "--step", "1.0", *PROCESSES, "--try",
                           "dp=2,tp=2;pp=2,cp=2;tp=4,sp=1;dp=3,zero=1")
        self.assertEqual([line["ranks"] for line in lines], [4, 4, 4, 3])
        for line in lines:
            self.assertTrue(line["identical"] and line["events"] > 100, line)

    def test_a_copy_that_differs_is_named_as_of_threads(self):
        for layout, rank, other, event in (
                ("dp=3", 2, 0, "reduce/-/gradient/model.norm.weight"),
                ("dp=2", 1, 0, "optimizer/-/exp_avg/model.norm.weight"),
                ("tp=2,pp=2", 3, 2, "optimizer/-/weight/model.norm.weight"),
                ("dp=2,cp=2,zero=1", 1, 0, "reduce/-/gradient/model.embed_tokens.weight")):
            with self.subTest(layout):
                planted = ["train", self.alone, "--layout", layout, "--inject", f"1.0/{event}:3:1@{rank}"]
                by_threads, by_processes = (
                    [line for line in self.lines(*planted, *ranks_as, code=1)
                     if line["schema"] == "rlreplay.run.step/1"] for ranks_as in ([], PROCESSES))
                self.assertEqual([line["identical"] for line in by_processes], [True, False])
                found = by_processes[-1]["replicas"]
                self.assertEqual(found, by_threads[-1]["replicas"])
                self.assertEqual([found[key] for key in ("event", "index", "rank", "other")],
                                 [event, 3, rank, other])

    def test_a_killed_rank_is_named_and_no_committed_step_is_lost(self):
        draw = random.Random(SEED)
        seen = 0
        for i in range(KILLS):
            path = self.folder / f"killed {i}"
            victim = draw.randrange(4)
            with self.subTest(f"seed {SEED}, kill {i}, rank {victim}"):
                run = self.begin("capture", *RUN, "--record", "ops", "--layout", "dp=2,tp=2", *PROCESSES,
                                 "-o", path)
                wait_for(lambda: len(children(run)) == 3 or run.poll() is not None)
                ranks = [run.pid, *children(run)]
                time.sleep(draw.random() * 2.5)
                if len(ranks) == 4 and run.poll() is None:
                    with contextlib.suppress(ProcessLookupError):  # at the end of the run ranks end first
                        os.kill(ranks[victim], signal.SIGKILL)
                error = run.communicate(timeout=300)[1]
                for process_id in ranks:
                    wait_for(lambda: not lives(process_id))
                if victim > 0 and run.returncode == 5:
                    seen += 1
                    named = [line for line in error.splitlines() if f"rank {victim} (" in line]
                    self.assertEqual(len(named), 1, error)
                    self.assertRegex(named[0], r"is gone: its process has ended|ended before it took part")
                    if "gone" in named[0]:
                        self.assertRegex(named[0], r"rank 0 \(dp 0, tp 0\) ((waits|is) in |works alone)")
                elif victim > 0:
                    self.assertEqual(run.returncode, 0, error)
                self.whole_in_the_end(path)
                shutil.rmtree(path, ignore_errors=True)
        self.assertGreater(seen, 0)

    def test_a_stopped_rank_is_reported_with_who_waits_for_whom(self):
        draw = random.Random(SEED)
        for i in range(STOPS):
            path = self.folder / f"stopped {i}"
            victim = draw.randrange(1, 3)
            with self.subTest(f"seed {SEED}, stop {i}, rank {victim}"):
                run = self.begin("capture", *LONG, "--layout", "dp=3", *PROCESSES,
                                 "--rank-timeout", "2", "-o", path)
                wait_for(lambda: (path / "train").exists() or run.poll() is not None)
                time.sleep(draw.random())
                ranks = children(run)
                os.kill(ranks[victim - 1], signal.SIGSTOP)
                error = run.communicate(timeout=300)[1]
                self.assertEqual(run.returncode, 5, error)
                self.assertRegex(error, rf"rank {victim} \(dp {victim}\) has been silent for 2 s: its process "
                                        r"is stopped.*; rank 0 \(dp 0\) waits in .* for rank ")
                for process_id in ranks:
                    wait_for(lambda: not lives(process_id))
                shutil.rmtree(path, ignore_errors=True)

    def test_nothing_is_left_behind(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number):
                path = self.folder / f"ended by {number}"
                run = self.begin("capture", *LONG, "--layout", "dp=2", *PROCESSES, "-o",
                                 path)
                wait_for(lambda: (path / "train").exists() or run.poll() is not None)
                ranks = children(run)
                self.assertEqual(len(ranks), 1)
                run.send_signal(number)
                run.communicate(timeout=300)
                for process_id in ranks:
                    wait_for(lambda: not lives(process_id))
                shutil.rmtree(path, ignore_errors=True)

    def launch(self, variables_of, arguments, ranks):
        """Starts a program for each rank, as a launcher does."""
        runs = [subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, **variables_of(rank)}) for rank in range(ranks)]
        return [(*run.communicate(timeout=300), run.returncode) for run in runs]

    def test_ranks_of_the_environment(self):
        slurm = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_ID": "0",
                 "SLURM_JOB_ID": str(os.getpid())}
        torch = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(20000 + os.getpid() % 20000), "TORCHELASTIC_RUN_ID": str(os.getpid())}
        for name, variables in (("srun", lambda rank: {**slurm, "SLURM_PROCID": str(rank)}),
                                ("torchrun", lambda rank: {**torch, "RANK": str(rank)})):
            with self.subTest(name):
                arguments = ["train", self.alone, "--layout", "tp=2", "--steps", "1.0"]
                results = self.launch(variables, arguments, 2)
                self.assertEqual([code for _, _, code in results], [0, 0], results)
                self.assertIn("identical", results[0][0])
                self.assertEqual(results[1][:2], ("", ""))
                tokens = self.launch(variables, ["rollout", self.alone, "--layout", "tp=2"], 2)
                self.assertEqual([code for _, _, code in tokens], [0, 0], tokens)
                self.assertEqual(tokens[1][:2], ("", ""))
                first = self.judged(2, "train", self.alone, "--layout", "dp=3",
                                    env={**os.environ, **variables(0)})
                self.assertIn(f"{name} started 2 ranks and --layout dp=3,tp=1,pp=1,cp=1 has 3",
                              first.stderr)

    def begin_rank(self, variables, *arguments):
        run = subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, **variables})
        for end in (run.stderr.close, run.stdout.close, run.wait, run.kill):  # the last is called first
            self.addCleanup(end)
        return run

    def test_jobs_whose_ports_overlap_do_not_join_each_other(self):
        """All are "none" to torchrun, which gives a job no id of its own."""
        port = min(free_port(), 60000)

        def begin(job, rank):
            return self.begin_rank({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                    "MASTER_PORT": str(port + 2 * job), "TORCHELASTIC_RUN_ID": "none"},
                                   "train", self.alone, "--layout", "tp=2", "--steps", "1.0")
        runs = [begin(0, 1), begin(1, 0)]
        time.sleep(3)
        self.assertEqual([run.poll() for run in runs], [None, None])  # each waits for its own
        runs += [begin(0, 0), begin(1, 1)]
        ended = [(*run.communicate(timeout=300), run.returncode) for run in runs]
        self.assertEqual([code for _, _, code in ended], [0, 0, 0, 0], ended)
        self.assertEqual(["identical" in out for out, _, _ in ended], [False, True, True, False])

    def test_launchers_that_contradict_each_other_or_say_no_place_are_refused(self):
        shell = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "20000"}
        words = ["train", self.alone, "--layout", "dp=2", "--steps", "1.0"]
        for launcher, rank, size in (("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                     ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
                                     ("an MPI launcher", "PMI_RANK", "PMI_SIZE")):
            with self.subTest(launcher):
                said = self.judged(2, *words, env={**os.environ, **shell, rank: "1", size: "2"}).stderr
                self.assertIn(f"is RANK 0 of WORLD_SIZE 2, and {launcher} started it as {rank} 1 of {size} 2", said)
        for rank in "01":
            said = self.judged(4, *words, env={**os.environ, "PMI_RANK": rank, "PMI_SIZE": "2"}).stderr
            self.assertIn(f"this MPI launcher (PMI_RANK {rank} of PMI_SIZE 2): use torchrun, srun or mpirun", said)
        self.judged(0, "train", self.alone, "--steps", "1.0", env={**os.environ, "PMI_RANK": "0", "PMI_SIZE": "1"})

    def test_no_rank_ends_before_rank_0_has_stored_what_it_has_shown(self):
        """A launcher would kill rank 0 then. Its storing is made long by a stop."""
        path, port = self.folder / "stored", free_port()
        runs = [self.begin_rank({"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                 "MASTER_PORT": str(port)}, "capture", *LONG, "--layout", "dp=2", "-o", path)
                for rank in range(2)]
        wait_for(lambda: (path / "train").exists() or runs[0].poll() is not None)
        runs[0].send_signal(signal.SIGTERM)
        time.sleep(0.3)
        runs[1].send_signal(signal.SIGTERM)
        time.sleep(0.3)
        runs[0].send_signal(signal.SIGSTOP)
        time.sleep(2)
        self.assertIsNone(runs[1].poll())
        runs[0].send_signal(signal.SIGCONT)
        said = [run.communicate(timeout=300)[1] for run in runs]
        self.assertEqual([run.returncode for run in runs], [130, 130], said)
        self.assertIn(": interrupted; everything up to ", said[0])
        self.assertEqual(said[1], "")

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_no_colour_comes_through_mpirun(self):
        """It gives a program a terminal to print to, and hands on through a pipe."""
        words = ["train", self.alone, "--steps", "1.0"]
        self.assertIn("\033[", self.terminal("stdout", *words))
        result = subprocess.run(["mpirun", "--allow-run-as-root", "-n", "1", self.program, *words],
                                capture_output=True, text=True, timeout=300, env={**os.environ, "TERM": "xterm"})
        self.assertIn("step 1.0: identical", result.stdout)
        self.assertNotIn("\033[", result.stdout)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun(self):
        words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", self.program, "train",
                 self.alone, "--layout", "dp=2", "--steps", "1.0"]
        result = subprocess.run(words, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stdout.count("step 1.0: identical\n"), 1, result.stdout)

    def under_torchrun(self, *arguments):
        return [*TORCHRUN, "--master_port", str(free_port()), self.program, *map(str, arguments)]

    @unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed")
    def test_torchrun(self):
        path = self.folder / "by torchrun"
        result = subprocess.run(
            self.under_torchrun("capture", *RUN, "--record", "ops", "--layout", "dp=2", "-o", path),
            capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.judged(0, "verify", "--deep", path)
        self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)

    @unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed")
    def test_a_killed_rank_of_torchrun_is_named(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                path = self.folder / f"rank {victim} of torchrun"
                run = subprocess.Popen(
                    self.under_torchrun("capture", *LONG, "--layout", "dp=2", "-o", path),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                wait_for(lambda: (path / "train").exists() or run.poll() is not None)
                ranks = sorted(children(run), key=rank_of)
                os.kill(ranks[victim], signal.SIGKILL)
                said = run.communicate(timeout=300)[0]
                self.assertNotEqual(run.returncode, 0, said)
                for process_id in ranks:
                    wait_for(lambda: not lives(process_id))
                named = [line for line in said.splitlines() if " is gone: " in line]
                self.assertEqual(len(named), 1, said)
                self.assertIn(f"rank {victim} (dp {victim}) is gone: its process has ended", named[0])

    @unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed")
    def test_a_signal_to_torchrun_interrupts_the_run_in_one_sentence(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                path = self.folder / f"torchrun, {number}"
                run = subprocess.Popen(
                    self.under_torchrun("capture", *LONG, "--layout", "dp=2", "-o", path),
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
                wait_for(lambda: (path / "train").exists() or run.poll() is not None)
                os.killpg(run.pid, number)  # as Ctrl-C
                said = run.communicate(timeout=300)[1]
                ended = [line for line in said.splitlines() if "interrupted" in line or " is gone" in line]
                self.assertEqual(len(ended), 1, said)
                self.assertRegex(ended[0], "^rlreplay: .*: interrupted; everything up to .* is stored")
                self.assertIn("units whole", self.judged(3, "verify", "--deep", path).stdout)


if __name__ == "__main__":
    unittest.main()
