"""What signals leave: what was shown is stored, and no process and no folder stays behind.
usage: signals_test.py RLREPLAY
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from closed_program import CORRUPT, DEMO, INTERRUPTED, Program, is_alive, samples
from support import STAGED, Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))


class Signals(Program):
    def test_what_was_shown_is_stored(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            dump = self.here / number.name
            process = self.start(*DEMO, "--steps", 100000, "--json", "-o", dump)
            shown = [json.loads(process.stdout.readline()) for _ in range(25)]
            process.send_signal(number)
            rest, said = process.communicate()
            shown += [json.loads(line) for line in rest.splitlines() if '"rlreplay.run.step/1"' in line]
            self.assertEqual(process.returncode, INTERRUPTED)
            said, = [line for line in said.splitlines() if "nothing is learned" not in line]
            report = self.lines("verify", dump, code=CORRUPT)[0]
            self.assertGreaterEqual(report["whole_steps"], len(shown))
            last = report["whole_steps"]
            self.assertRegex(said, f"everything up to (step {last - 1}.0|rollout {last}) is stored")
            self.assertIn("capture --resume -o", said)

    def test_what_was_shown_outlives_a_kill(self):
        for i in range(4):
            dump = self.here / f"killed {i}"
            process = self.start(*DEMO, "--steps", 100000, "--record", "ops+values", "--weights", "all", "--json",
                                 "-o", dump)
            shown = [process.stdout.readline() for _ in range(5 + i)]
            process.kill()
            shown += process.communicate()[0].splitlines()
            report = self.lines("verify", dump, code=CORRUPT)[0]
            self.assertGreaterEqual(report["whole_steps"], len(shown))

    def test_nothing_is_left_beside_of_what_had_begun_nothing(self):
        dump, staged = self.here / "dump", self.here / ("dump" + STAGED)
        run = [*DEMO, "--steps", 1]
        self.assertEqual(self.run_program(*run, "-o", dump).returncode, 0)
        early = 0
        for number in 4 * (signal.SIGTERM, signal.SIGINT):
            process = self.start(*run, "-o", dump, "--force")
            wait_for((staged / "lock").exists)
            process.send_signal(number)
            process.communicate()
            begun = (staged / "content/journal").exists()
            early += not begun
            self.assertEqual(self.names(), ["dump"] + begun * ["dump" + STAGED])
        self.assertGreater(early, 0)
        self.assertEqual(self.run_program("verify", dump).returncode, 0)

    def test_a_second_signal_ends_at_once(self):
        process = self.start(*DEMO, "--steps", 100000, "-o", self.here / "dump")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(300), (INTERRUPTED, -signal.SIGINT, -signal.SIGTERM))

    def test_temporary_folders(self):
        lines = samples(self.here / "lines.jsonl", 200, 1000)
        temporary = self.here / "tmp"
        temporary.mkdir()
        for verb in 8 * (["show"],) + (["diff", lines], ["mismatch"]):
            process = self.start(*verb, lines, env={**os.environ, "TMPDIR": str(temporary)})
            wait_for(lambda: any(temporary.iterdir()))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
            self.assertEqual(process.returncode, INTERRUPTED, said)
            self.assertIn("interrupted", said)
            self.assertEqual(list(temporary.iterdir()), [])

    def test_an_import(self):
        lines = samples(self.here / "lines.jsonl", 200, 1000)
        process = self.start("import", lines, "-o", self.here / "dump")
        wait_for(lambda: any(self.here.glob("dump*/**/*.h5")))
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
        self.assertEqual((process.returncode, self.names()), (INTERRUPTED, ["lines.jsonl"]), said)
        self.assertIn("interrupted; what it had begun is removed", said)

    def test_what_is_replaced_is_removed_before_the_program_ends(self):
        lines = samples(self.here / "lines.jsonl", 400)
        dump, staged = self.here / "dump", self.here / ("dump" + STAGED)
        self.assertEqual(self.run_program("import", lines, "-o", dump).returncode, 0)
        for _ in range(5):
            process = self.start("import", lines, "-o", dump, "--force")
            while process.poll() is None and not (staged / "old").exists():
                pass
            process.send_signal(signal.SIGTERM)
            process.communicate()
            self.assertEqual(self.names(), ["dump", "lines.jsonl"])
            self.assertEqual(self.run_program("verify", dump).returncode, 0)

    def test_an_export_and_a_second_signal_while_it_is_undone(self):
        lines = samples(self.here / "lines.jsonl", 1500)
        dump, made = self.here / "dump", self.here / "made"
        self.assertEqual(self.run_program("import", lines, "-o", dump).returncode, 0)
        staged = self.here / ("made" + STAGED)
        for trial in range(3):
            process = self.start("export", dump, "--to", "slime", "-o", made)
            wait_for(lambda: len(list(staged.glob("unjudged/*/*.pt"))) > 700)
            process.send_signal(signal.SIGTERM)
            for _ in range(20):
                time.sleep(0.001)
                process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
            self.assertEqual((process.returncode, self.names()), (INTERRUPTED, ["dump", "lines.jsonl"]),
                             said)

    def test_a_reader_that_does_not_read_holds_up_no_end(self):
        """Standard output is a full pipe: what is printed waits for ever, and the end does not."""
        dump = self.here / "dump"
        self.assertEqual(self.run_program(*DEMO, "--steps", 1, "-o", dump).returncode, 0)
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(theirs, bytes(4096))
        os.set_blocking(theirs, True)
        for number in (signal.SIGINT, signal.SIGTERM):
            for verb in (["train", dump, "--json"], ["show", dump, "--samples"]):
                process = subprocess.Popen([Case.program, *map(str, verb)], stdout=theirs,
                                           stderr=subprocess.PIPE, text=True)
                wait_for(lambda: "pipe_write" in pathlib.Path(f"/proc/{process.pid}/wchan").read_text())
                process.send_signal(number)
                said = process.communicate(timeout=300)[1]
                self.assertIn(process.returncode, (INTERRUPTED, -number), said)
        process = subprocess.Popen([Case.program, *map(str, DEMO), "--steps", "1000", "-o", self.here / "more"],
                                   stdout=theirs, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: any("pipe_write" in task.read_text()
                             for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*/wchan")))
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, INTERRUPTED, said)
        self.assertIn("is stored", said)
        os.close(ours)
        os.close(theirs)

    def test_a_golden_run(self):
        process = self.start("golden", "record", self.here / "golden.txt", "--model", "demo",
                             "--steps", 250)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
        self.assertEqual((process.returncode, self.names()), (INTERRUPTED, []))
        self.assertEqual(said, "rlreplay: interrupted\n")

    def judged(self, command, *more):
        return [*DEMO, "--steps", 1, "--reward", "command", "--reward-command", command, *more,
                "-o", self.here / "dump"]

    def test_commands_that_were_started(self):
        """A command that judges, and what it has started, end with the program."""
        pids = self.here / "pids"
        command = f"sleep 700 & echo $! > '{pids}.new'; echo $$ >> '{pids}.new'; " \
                  f"mv '{pids}.new' '{pids}'; sleep 700; :"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = self.start(*self.judged(command))
            wait_for(pids.exists)
            started = [int(word) for word in pids.read_text().split()]
            pids.unlink()
            process.send_signal(number)
            process.wait(300)
            # SIGKILL cannot be answered: the command itself ends, by the kernel.
            ended = started if number != signal.SIGKILL else started[1:]
            wait_for(lambda: not any(map(is_alive, ended)))
            for one in filter(is_alive, started):
                os.kill(one, signal.SIGKILL)

    def test_a_daemon_of_a_command_is_not_waited_for(self):
        pid = self.here / "pid"
        command = f"setsid sleep 600 & echo $! > '{pid}'; while read line; do echo 1; done"
        result = self.run_program(*self.judged(command))
        daemon = int(pid.read_text())
        was_alive = is_alive(daemon)
        os.kill(daemon, signal.SIGKILL)
        self.assertEqual((result.returncode, was_alive), (0, True), result.stderr)

    def test_a_wrapped_launch(self):
        """Who gets SIGTERM alone hands it on to all that the script has started."""
        pid = self.here / "pid"
        script = self.here / "run.sh"
        script.write_text(f"#!/bin/bash\nsleep 700 &\necho $! > '{pid}.new'; mv '{pid}.new' '{pid}'\n"
                          'trap "" TERM\nwait\npython3 -c 0 "$@"\nexit 3\n')
        script.chmod(0o755)
        process = self.start("capture", "--wrap", "slime", "-o", self.here / "dump", "--", script)
        wait_for(pid.exists)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(300), INTERRUPTED)
        wait_for(lambda: not is_alive(int(pid.read_text())))


if __name__ == "__main__":
    unittest.main()
