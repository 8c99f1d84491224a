"""Ranks on two machines, which are two network namespaces joined by one cable: root alone, RLREPLAY_FULL=1.

usage: two_machines_test.py PROGRAM"""
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from support import FULL, Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))
SHAPE = ["--model", "demo", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
         "--rollout-max-response-len", "6", "--weights", "all", "--threads", "2"]
RUN = ["--steps", "3", *SHAPE, "--record", "ops"]
LONG = ["--steps", "1000", *SHAPE]
MACHINES = [f"rlreplay{os.getpid()}{letter}" for letter in "ab"]
CABLES = [f"rlr{os.getpid()}{letter}" for letter in "ab"]
HOSTS = ["10.213.7.1", "10.213.7.2"]
LAYOUT = ["--layout", "dp=2,tp=2"]
RANKS, RANKS_OF_MACHINE = 4, 2


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def came_over_the_cable():
    """Bytes that the first machine received."""
    said = subprocess.run(["ip", "-n", MACHINES[0], "-j", "-s", "link", "show", CABLES[0]],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(said)[0]["stats64"]["rx"]["bytes"]


@unittest.skipUnless(FULL, "two machines: only with RLREPLAY_FULL=1")
@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "network namespaces need root and ip")
class TwoMachines(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for machine in MACHINES:
            ip("netns", "add", machine)
            cls.addClassCleanup(ip, "netns", "del", machine)
        ip("link", "add", CABLES[0], "netns", MACHINES[0], "type", "veth",
           "peer", "name", CABLES[1], "netns", MACHINES[1])
        for machine, cable, host in zip(MACHINES, CABLES, HOSTS, strict=True):
            ip("-n", machine, "address", "add", f"{host}/24", "dev", cable)
            for link in ("lo", cable):
                ip("-n", machine, "link", "set", link, "up")
        cls.alone, _ = cls.capture("alone", *RUN)

    def start(self, machine, command, variables):
        run = subprocess.Popen(["ip", "netns", "exec", MACHINES[machine], *map(str, command)], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env={**os.environ, **variables})
        for end in (run.stderr.close, run.wait, run.kill):  # the last is called first
            self.addCleanup(end)
        return run

    def start_ranks(self, *arguments):
        """Four ranks with the variables of srun, two a machine."""
        slurm = {"SLURM_STEP_NUM_TASKS": str(RANKS), "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_ID": "0",
                 "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": ",".join(HOSTS)}
        return [self.start(rank // RANKS_OF_MACHINE, [self.program, *arguments],
                           {**slurm, "SLURM_PROCID": str(rank)}) for rank in range(RANKS)]

    def check_same(self, path):
        self.assertGreater(came_over_the_cable(), 100_000)
        for arguments in (("verify", "--deep", path), ("diff", self.alone, path)):
            result = self.run_program(*arguments)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("identical\ncontent", result.stdout)

    def check_ends(self, runs):
        """Each with exit code 5; what all of them said."""
        said = [(run.communicate(timeout=300)[1], run.returncode) for run in runs]
        self.assertEqual([code for _, code in said], [5] * len(runs), said)
        return [line for text, _ in said for line in text.splitlines() if " (dp " in line]

    def test_the_bits_are_those_of_one_rank(self):
        path = self.folder / "by srun"
        for run in self.start_ranks("capture", *RUN, *LAYOUT, "-o", path):
            said = run.communicate(timeout=300)[1]
            self.assertEqual(run.returncode, 0, said)
        self.check_same(path)

    @unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed")
    def test_torchrun(self):
        path = self.folder / "by torchrun"
        command = ["torchrun", "--no_python", "--nnodes", "2", "--nproc_per_node", str(RANKS_OF_MACHINE),
                   "--master_addr", HOSTS[0], "--master_port", "29500", "--redirects", "1", "--tee", "1"]
        runs = [self.start(node, [*command, "--node_rank", node, self.program, "capture", *RUN, *LAYOUT,
                                  "-o", path], {}) for node in range(2)]
        for run in runs:
            said = run.communicate(timeout=300)[1]
            self.assertEqual(run.returncode, 0, said)
        self.check_same(path)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun(self):
        """In the place of ssh a script that enters the other machine, under a name of its own."""
        path, agent = self.folder / "by mpirun", self.folder.parent / f"{self.folder.name.split()[-1]}-agent"
        self.addCleanup(agent.unlink)
        agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {MACHINES[1]} unshare --uts '
                         f'sh -c "hostname {MACHINES[1]}; $*"\n')
        agent.chmod(0o755)
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", agent,
                  "-n", RANKS, "--host", ",".join(f"{host}:{RANKS_OF_MACHINE}" for host in HOSTS),
                  "-x", f"MASTER_ADDR={HOSTS[0]}", "-x", "MASTER_PORT=29500"]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {MACHINES[0]}; exec "$@"', "sh"]
        run = self.start(0, [*named, *mpirun, self.program, "capture", *RUN, *LAYOUT, "-o", path], {})
        said = run.communicate(timeout=300)[1]
        self.assertEqual(run.returncode, 0, said)
        self.check_same(path)

    def test_a_killed_rank_of_the_other_machine_is_named(self):
        path = self.folder / "killed"
        runs = self.start_ranks("capture", *LONG, *LAYOUT, "-o", path)
        wait_for(lambda: (path / "train").exists() or runs[0].poll() is not None)
        runs[3].send_signal(signal.SIGKILL)
        runs[3].communicate()
        lines = self.check_ends(runs[:3])
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("rank 3 (dp 1, tp 1) is gone: its process has ended", lines[0])

    def test_a_machine_that_cannot_be_reached_ends_the_run_on_both_sides(self):
        path = self.folder / "cut off"
        runs = self.start_ranks("capture", *LONG, *LAYOUT, "--rank-timeout", "3", "-o", path)
        wait_for(lambda: (path / "train").exists() or runs[0].poll() is not None)
        ip("-n", MACHINES[1], "link", "set", CABLES[1], "down")
        try:
            lines = self.check_ends(runs)
        finally:
            ip("-n", MACHINES[1], "link", "set", CABLES[1], "up")
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"rank [23] \(dp 1, tp [01]\) has been silent for 3 s: its process is stopped, "
                                   r"or its machine cannot be reached; rank 0 \(dp 0, tp 0\) ")


if __name__ == "__main__":
    unittest.main()
