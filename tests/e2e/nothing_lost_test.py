"""Nothing is lost: output that cannot be written, limits, and what is refused before any work.
usage: nothing_lost_test.py RLREPLAY RLBISECT
"""
import json
import os
import resource
import signal
import subprocess
import sys
import unittest

from closed_program import CORRUPT, DEMO, ENVIRONMENT, Program, USAGE
from support import Case, files

Case.program = os.path.abspath(sys.argv.pop(1))
Case.rlbisect = os.path.abspath(sys.argv.pop(1))


class Output(Program):
    def test_a_full_disk(self):
        dump = self.dump()
        ids = self.here / "ids.jsonl"
        ids.write_text('{"tokens": [1, 2, 3, 4], "prompt_len": 2}\n')
        texts = self.here / "texts.jsonl"
        texts.write_text('{"text": "12+7="}\n')
        for verb in (["export", dump, "--to", "jsonl", "-o", "-"], ["show", dump, "--json"],
                     ["show", dump], ["train", "--from", dump], ["verify", dump],
                     ["score", "--model", "demo", "--tokens", ids], ["diff", dump, dump],
                     [*DEMO, "--steps", 1, "-o", self.here / "other"], ["--version"]):
            with open("/dev/full", "w") as full:
                result = subprocess.run([self.program, *map(str, verb)], stdout=full,
                                        stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, ENVIRONMENT, (verb, result.stderr))
            self.assertIn("standard output", result.stderr)
        with open("/dev/full", "w") as full, open(texts) as text:
            result = subprocess.run([self.program, "tokenize", "--model", "demo"], stdin=text,
                                    stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, ENVIRONMENT)
        with open("/dev/full", "w") as full:
            result = subprocess.run([self.rlbisect, f"{dump}..{self.here}/other"], stdout=full,
                                    stderr=subprocess.PIPE, text=True)
        self.assertGreaterEqual(result.returncode, 128, result.stderr)
        self.assertEqual(self.lines("verify", self.here / "other")[0]["whole_steps"], 1)

    def test_a_reader_that_goes(self):
        """A capture goes on; what only prints ends, as every program does."""
        dump = self.here / "dump"
        process = self.start(*DEMO, "--steps", 12, "-o", dump)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(300), 0, process.stderr.read())
        self.assertEqual(self.lines("verify", dump)[0]["whole_steps"], 12)
        process = self.start("export", dump, "--to", "jsonl", "-o", "-")
        process.stdout.readline()
        process.stdout.close()
        self.assertIn(process.wait(300), (0, -signal.SIGPIPE))
        self.assertEqual(process.stderr.read(), "")


    def test_an_output_is_no_device_and_not_the_dump_itself(self):
        dump = self.here / "dump"
        self.lines("capture", *DEMO[1:], "--steps", 1, "-o", dump)
        pipe, link, nowhere = (self.here / name for name in ("pipe", "link", "nowhere"))
        golden = self.here / "pipe.txt"
        os.mkfifo(pipe)
        os.mkfifo(golden)
        (self.here / "file").write_text("old")
        link.symlink_to("file")
        nowhere.symlink_to("absent")
        before = files(dump)
        for to in ("jsonl", "safetensors"):
            for place, word in ((pipe, "a pipe"), (nowhere, "nowhere"), (dump / "new", "lies within the dump"),
                                (dump / "rollout" / "0.h5", "lies within the dump"), (dump, "own"),
                                (self.here, "lies within this folder"), ("/", "lies within this folder")):
                self.refused(USAGE, [word], "export", dump, "--to", to, "-o", place, "--force")
        self.assertTrue(pipe.is_fifo())
        self.refused(USAGE, ["own"], "export", dump, "--to", "slime", "-o", dump, "--force")
        self.refused(USAGE, ["a pipe"], "golden", "record", golden, "--model", "demo", "--force")
        self.assertEqual(files(dump), before)
        self.lines("export", dump, "--to", "jsonl", "-o", link, "--force")
        self.assertTrue(link.is_symlink())
        self.assertIn("rlreplay.sample/1", (self.here / "file").read_text())

    def test_standard_input_that_cannot_be_read(self):
        for redirection in ("<&-", "</"):
            for verb in ("score - --model demo", "tokenize - --model demo"):
                shell = f'exec "{self.program}" {verb} {redirection}'
                result = subprocess.run(["sh", "-c", shell], capture_output=True, text=True,
                                        timeout=300)
                self.assertEqual(result.returncode, ENVIRONMENT, (shell, result.stderr))
                self.assertIn("standard input could not be read", result.stderr)


class Limits(Program):
    def test_a_file_that_may_not_grow(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        self.refused(ENVIRONMENT, ["File too large", "dump"], *DEMO, "--steps", 1, "-o",
                     self.here / "dump", preexec_fn=limit)

    def test_threads_that_cannot_be_started(self):
        self.refused(USAGE, ["1024", "--threads"], *DEMO, "--steps", 1, "--threads", 1000000, "-o",
                     self.here / "dump")

        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        result = self.run_program(*DEMO, "--steps", 1, "--threads", 200, "-o", self.here / "dump",
                                  preexec_fn=limit)
        self.assertEqual(result.returncode, ENVIRONMENT, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("no further thread", result.stderr)
        many = os.cpu_count() + 1
        result = self.run_program(*DEMO, "--steps", 1, "--threads", many, "-o", self.here / "dump")
        self.assertIn(f"more threads ({many}) than processors", result.stderr)

    def test_processes_that_may_not_be_more(self):
        if os.geteuid() != 0:
            self.skipTest("limits count all processes of a user: only root can be another")
        self.folder.chmod(0o755)
        self.here.chmod(0o777)
        for most in range(1, 6):
            def limit():
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
                os.setgid(61234)
                os.setuid(61234)

            try:
                result = self.run_program(*DEMO, "--steps", 1, "--threads", 4, "-o",
                                          self.here / f"dump {most}", preexec_fn=limit)
            except PermissionError:
                self.skipTest("another user may not run the program")
            self.assertIn(result.returncode, (0, ENVIRONMENT), (most, result.stderr))
            if result.returncode != 0:
                self.assertIn("thread", result.stderr)

    def test_a_finished_dump_of_many_units(self):
        """Its journal is larger than a mebibyte: it is a finished dump all the same."""
        dump = self.dump()
        with open(dump / "journal/0.jsonl", "a") as journal:
            for _ in range(20):
                journal.write("x" * (1 << 16) + "\n")
        self.refused(USAGE, ["finished dump"], *DEMO, "--steps", 1, "-o", dump)


class Early(Program):
    """What can be refused is refused before any work."""

    def refused_early(self, code, words, *arguments):
        said = self.refused(code, words, *DEMO, *arguments)
        self.assertFalse((self.here / "dump").exists())
        return said

    def test_labels_of_all_prompts(self):
        prompts = self.here / "prompts.jsonl"
        lines = [{"prompt": f"{n}+1=", "label": str(n + 1)} for n in range(8)]
        del lines[6]["label"]
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
        out = ["--prompts", prompts, "-o", self.here / "dump"]
        self.refused_early(CORRUPT, ["prompts.jsonl:7", "label"], "--steps", 4, *out)
        self.assertEqual(self.run_program(*DEMO, "--steps", 3, *out).returncode, 0)

    def test_a_reward_command(self):
        out = ["--steps", 1, "-o", self.here / "dump"]
        for command, code, word in (("no-such-judge", ENVIRONMENT, "no-such-judge"),
                                    ("echo nonsense", CORRUPT, "nonsense")):
            self.refused_early(code, [word], "--reward", "command", "--reward-command", command, *out)
        self.refused_early(USAGE, ["--reward-time-limit"], "--reward", "command",
                           "--reward-command", "cat", "--reward-time-limit", "1e18", *out)

    def test_places(self):
        taken = self.here / "taken"
        taken.mkdir()
        (taken / "mine").write_text("mine")
        out = ["--steps", 1, "-o", self.here / "dump"]
        self.refused_early(USAGE, ["--save", "taken", "--force"], "--save", taken, *out)
        self.refused_early(USAGE, ["--save", "no folder"], "--save", taken / "mine", *out)
        saved = self.here / "saved"
        train = ["train", *DEMO[1:], "--steps", "1"]
        self.assertEqual(self.run_program(*train, "--save", saved).returncode, 0)
        train[train.index("demo")] = saved
        said = self.refused(USAGE, ["comes from"], *train, "--prompts", "/none", "--save", saved)
        self.assertIn("saved", said)

    def test_states_for_each_step(self):
        dump = self.dump()
        result = self.run_program("train", "--from", dump, "--each-step")
        self.assertEqual((result.returncode, result.stdout), (CORRUPT, ""))
        self.assertIn("before step 1.0", result.stderr)
        self.assertEqual(
            self.run_program("train", "--from", dump, "--each-step", "--steps", "0..0").returncode, 0)


if __name__ == "__main__":
    unittest.main()
