"""Nothing is lost and nothing is left behind: dumps that are replaced, signals, limits, output that
cannot be written, and what is refused before any work. usage: nothing_lost_test.py RLREPLAY RLBISECT
"""
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import STAGED, Case, files, memory_folder, root, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))
Case.rlbisect = os.path.abspath(sys.argv.pop(1))

USAGE, CORRUPT, UNSUPPORTED, ENVIRONMENT, INTERRUPTED = 2, 3, 4, 5, 130
DEMO = ["capture", "--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2"]
MADE = memory_folder()


def is_alive(process_id):
    try:
        state = pathlib.Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def samples(path, rollouts, tokens=2):
    """A file of samples as JSON lines."""
    with open(path, "w") as file:
        for rollout in range(rollouts):
            file.write(json.dumps({
                "schema": "rlreplay.sample/1", "rollout_id": rollout, "sample_id": rollout,
                "prompt_length": 1, "tokens": [1] + [2 + i % 7 for i in range(tokens)],
                "log_probs": [-0.5 - i % 11 for i in range(tokens)]}) + "\n")
    return path


class Program(Case):
    def setUp(self):
        self.here = self.folder / self._testMethodName
        self.here.mkdir()

    def refused(self, code, words, *arguments, **options):
        result = self.run_program(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def start(self, *arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        process = subprocess.Popen([self.program, *map(str, arguments)], **options)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def dump(self):
        """A copy of a dump of two steps."""
        whole = pathlib.Path(MADE.name) / "dump"
        if not whole.exists():
            self.assertEqual(self.run_program(*DEMO, "--steps", 2, "-o", whole).returncode, 0)
        return pathlib.Path(shutil.copytree(whole, self.here / "dump"))

    def names(self):
        return sorted(p.name for p in self.here.iterdir())


class Trained(Program):
    """Weights that were trained are in no dump."""

    def unsealed(self):
        dump = self.dump()
        (dump / "manifest.json").unlink()
        (dump / "INCOMPLETE").touch()
        return dump

    def test_they_are_saved_before_the_dump_is_sealed(self):
        dump, saved = self.here / "dump", self.here / "saved"
        strace = shutil.which("strace")
        if strace is None:
            self.skipTest("no strace")
        said = self.here / "calls"
        subprocess.run([strace, "-f", "-e", "trace=rename,renameat,renameat2,link,linkat", "-o",
                        said, self.program, *DEMO, "--steps", "2", "-o", dump, "--save", saved],
                       capture_output=True, check=True)
        calls = said.read_text()
        self.assertLess(calls.index("/saved"), calls.index("manifest.json"))

    def test_a_sealed_dump_gives_them_again(self):
        saved, again = self.here / "saved", self.here / "again"
        dump = self.here / "dump"
        self.assertEqual(self.run_program(*DEMO, "--steps", 3, "-o", dump, "--save",
                                          saved).returncode, 0)
        before = files(dump)
        resumed = self.run_program("capture", "--resume", "-o", dump, "--save", again)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("trained weights are saved in", resumed.stdout)
        self.assertEqual(files(again), files(saved))
        self.assertEqual(files(dump), before)
        part = self.here / "part"
        self.assertEqual(self.run_program("train", dump, "--steps", "0..1", "-o", part).returncode, 0)
        self.refused(CORRUPT, ["last step"], "capture", "--resume", "-o", part, "--save",
                     self.here / "none")

    def test_a_resumed_capture_replaces_no_folder_of_others(self):
        dump = self.unsealed()
        taken = self.here / "taken"
        taken.mkdir()
        (taken / "mine").write_text("mine")
        before = files(self.here)
        self.refused(USAGE, ["--save", "not empty"], "capture", "--resume", "-o", dump, "--save",
                     taken)
        self.assertEqual(files(self.here), before)

    def test_a_reader_that_goes(self):
        saved = self.here / "saved"
        process = self.start("train", *DEMO[1:], "--steps", "3", "--save", saved)
        process.stdout.close()
        process.wait()
        self.assertEqual(process.returncode, 0, process.stderr.read())
        self.assertTrue((saved / "model.safetensors").exists())


class Replaced(Program):
    """--force: the old dump is as it was until the new one is whole."""

    def test_an_import_that_fails_late(self):
        dump = self.dump()
        before = files(dump)
        good, bad = samples(self.here / "good.jsonl", 2), self.here / "bad.jsonl"
        bad.write_text(good.read_text() + "{\n")
        self.assertEqual(self.run_program("import", bad, "-o", dump, "--force").returncode, CORRUPT)
        self.assertEqual(files(dump), before)
        self.assertEqual(self.names(), ["bad.jsonl", "dump", "good.jsonl"])
        self.assertEqual(self.run_program("import", good, "-o", dump, "--force").returncode, 0)
        self.assertEqual(self.lines("verify", dump)[0]["units"], 2)
        self.assertEqual(self.names(), ["bad.jsonl", "dump", "good.jsonl"])

    def test_what_is_not_the_dumps_is_not_replaced(self):
        dump = self.dump()
        (dump / "mismatch.svg").write_text("mine")
        before = files(dump)
        self.refused(USAGE, ["mismatch.svg"], *DEMO, "--steps", 1, "-o", dump, "--force")
        lines = samples(self.here / "good.jsonl", 1)
        self.refused(USAGE, ["mismatch.svg"], "import", lines, "-o", dump, "--force")
        self.assertEqual(files(dump), before)
        other = self.here / "other"
        (other / "rollout").mkdir(parents=True)
        (other / "journal.jsonl").write_text('{"of": "another program"}\n')
        (other / "rollout" / "0.h5").write_text("mine")
        before = files(other)
        self.refused(USAGE, ["no dump"], *DEMO, "--steps", 1, "-o", other, "--force")
        self.assertEqual(files(other), before)

    def test_while_the_new_one_is_made(self):
        """Readers see the old dump; a second writer is refused; a kill leaves the old one."""
        dump = self.dump()
        before = files(dump)
        staged = self.here / ("dump" + STAGED)
        first = self.start(*DEMO, "--steps", 100000, "-o", dump, "--force")
        wait_for((staged / "content/train/1-0/rank0.h5").exists)
        self.assertEqual(files(dump), before)
        self.refused(USAGE, ["writing"], *DEMO, "--steps", 1, "-o", dump, "--force")
        self.refused(USAGE, ["writing"], "capture", "--resume", "-o", staged / "content")
        first.kill()
        first.wait()
        self.assertEqual(files(dump), before)
        unfinished = self.lines("verify", staged / "content", code=CORRUPT)[0]
        self.assertEqual(unfinished["units"], unfinished["whole_units"])
        result = self.run_program(*DEMO, "--steps", 1, "-o", dump, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("interrupted run left", result.stderr)
        self.assertEqual(self.lines("verify", dump)[0]["whole_steps"], 1)
        self.assertEqual(self.names(), ["dump"])

    def test_a_whole_one_that_was_left_is_not_removed(self):
        dump = self.dump()
        staged = self.here / ("dump" + STAGED)
        staged.mkdir()
        (staged / "lock").write_text("")
        shutil.copytree(dump, staged / "content")
        self.refused(USAGE, ["whole", "content"], *DEMO, "--steps", 1, "-o", dump, "--force")
        self.assertEqual(files(staged / "content"), files(dump))

    def test_a_lock_of_a_file_that_was_removed(self):
        """A writer that is slow between opening and locking meets one that replaces the dump."""
        slow = self.here / "slow.c"
        slow.write_text("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n"
                        "int flock(int f, int how) {\n  static int calls;\n"
                        "  if (!calls++) sleep(2);\n"
                        '  return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(f, how);\n}\n')
        library = self.here / "slow.so"
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, slow, "-ldl"], check=True)
        except (FileNotFoundError, subprocess.CalledProcessError):
            self.skipTest("no compiler")
        dump, lines = self.dump(), samples(self.here / "lines.jsonl", 1)
        late = self.start("import", lines, "-o", dump, "--force",
                          env={**os.environ, "LD_PRELOAD": str(library)})
        time.sleep(0.3)
        quick = self.start(*DEMO, "--steps", 60, "-o", dump, "--force")
        codes = {quick.wait(60), late.wait(60)}
        self.assertIn(0, codes)
        self.assertLessEqual(codes, {0, USAGE}, quick.stderr.read() + late.stderr.read())
        self.lines("verify", "--deep", dump)
        self.assertEqual([n for n in self.names() if n.startswith("dump")], ["dump"])

    def test_what_is_said_of_a_dump_that_is_kept_beside(self):
        """A capture that replaces a dump and finds no room is resumed where it was built."""
        dump = self.dump()
        before = files(dump)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (60 << 10, 60 << 10))

        result = self.run_program(*DEMO, "--steps", 40, "-o", dump, "--force", preexec_fn=limit)
        self.assertEqual(result.returncode, ENVIRONMENT, result.stderr)
        self.assertEqual(files(dump), before)
        kept = result.stderr.split("capture --resume -o ")[1].split(" goes on")[0].strip("'")
        self.assertEqual(self.run_program("capture", "--resume", "-o", kept).returncode, 0)
        self.assertEqual(self.lines("verify", kept)[0]["whole_steps"], 40)

    def test_through_a_link(self):
        dump = self.dump()
        link = self.here / "link"
        link.symlink_to("dump")
        result = self.run_program(*DEMO, "--steps", 1, "-o", link, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.lines("verify", dump)[0]["whole_steps"], 1)
        self.assertEqual(self.names(), ["dump", "link"])

    def test_an_export_that_is_killed(self):
        dump, out = self.here / "dump", self.here / "out"
        samples(self.here / "lines.jsonl", 150, 1000)
        self.lines("import", self.here / "lines.jsonl", "-o", dump)
        for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)):
            self.assertEqual(self.names(), ["dump", "lines.jsonl"])
            for _ in range(20):
                process = self.start("export", dump, "--to", "slime", "-o", out)
                wait_for(lambda: any(self.here.glob("out*/**/*.pt")))
                process.send_signal(number)
                _, said = process.communicate()
                if not out.exists():
                    break
                # It was done before the signal came: then it is whole.
                self.assertEqual(len(list(out.rglob("*.pt"))), 150)
                shutil.rmtree(out)
            self.assertEqual(process.returncode, code, said)
            self.assertFalse(out.exists())
            self.assertIn("interrupted" if code == INTERRUPTED else "", said)
        self.lines("export", dump, "--to", "slime", "-o", out)
        self.assertEqual(len(list(out.rglob("*.pt"))), 150)
        (out / "notes.txt").write_text("mine")
        before = files(out)
        self.refused(USAGE, ["notes.txt"], "export", dump, "--to", "slime", "-o", out, "--force")
        self.assertEqual(files(out), before)
        (out / "notes.txt").unlink()
        # Of a larger export nothing stays among the files of a smaller one.
        small = self.here / "small"
        self.lines("import", samples(self.here / "lines.jsonl", 1), "-o", small)
        self.lines("export", small, "--to", "slime", "-o", out, "--force")
        self.assertEqual([p.name for p in out.rglob("*.pt")], ["0.pt"])
        self.assertEqual(self.names(), ["dump", "lines.jsonl", "out", "small"])


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

    def test_a_second_signal_ends_at_once(self):
        process = self.start(*DEMO, "--steps", 100000, "-o", self.here / "dump")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(10), (INTERRUPTED, -signal.SIGINT, -signal.SIGTERM))

    def test_temporary_folders(self):
        lines = samples(self.here / "lines.jsonl", 200, 1000)
        temporary = self.here / "tmp"
        temporary.mkdir()
        for verb in (["show"], ["diff", lines], ["mismatch"]):
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
            process.wait(20)
            # SIGKILL cannot be answered: the command itself ends, by the kernel.
            ended = started if number != signal.SIGKILL else started[1:]
            wait_for(lambda: not any(map(is_alive, ended)), 10)
            for one in filter(is_alive, started):
                os.kill(one, signal.SIGKILL)

    def test_a_daemon_of_a_command_is_not_waited_for(self):
        command = "setsid sleep 30 & while read line; do echo 1; done"
        begin = time.monotonic()
        result = self.run_program(*self.judged(command))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(time.monotonic() - begin, 20)

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
        self.assertEqual(process.wait(30), INTERRUPTED)
        wait_for(lambda: not is_alive(int(pid.read_text())), 10)


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
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        self.assertEqual(self.lines("verify", dump)[0]["whole_steps"], 12)
        process = self.start("export", dump, "--to", "jsonl", "-o", "-")
        process.stdout.readline()
        process.stdout.close()
        self.assertIn(process.wait(60), (0, -signal.SIGPIPE))
        self.assertEqual(process.stderr.read(), "")


    def test_an_output_is_no_device_and_not_the_dump_itself(self):
        dump = self.here / "dump"
        self.lines("capture", *DEMO[1:], "--steps", 1, "-o", dump)
        pipe, link, nowhere = (self.here / name for name in ("pipe", "link", "nowhere"))
        os.mkfifo(pipe)
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
        self.refused(USAGE, ["a pipe"], "golden", "record", pipe, "--model", "demo", "--force")
        self.assertEqual(files(dump), before)
        self.lines("export", dump, "--to", "jsonl", "-o", link, "--force")
        self.assertTrue(link.is_symlink())
        self.assertIn("rlreplay.sample/1", (self.here / "file").read_text())

    def test_standard_input_that_cannot_be_read(self):
        for redirection in ("<&-", "</"):
            for verb in ("score - --model demo", "tokenize - --model demo"):
                shell = f'exec "{self.program}" {verb} {redirection}'
                result = subprocess.run(["sh", "-c", shell], capture_output=True, text=True,
                                        timeout=20)
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
        with open(dump / "journal.jsonl", "a") as journal:
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


class Marks(Program):
    def test_a_stale_mark(self):
        dump = self.dump()
        (dump / "INCOMPLETE").write_text("")
        result = self.run_program("capture", "--resume", "-o", dump)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((dump / "INCOMPLETE").exists())

    def test_a_journal_that_somebody_removed_or_changed(self):
        def remove(journal):
            journal.unlink()

        def change(journal):
            text = journal.read_bytes()
            journal.write_bytes(b"y" + text[1:])

        for number, damage in enumerate((remove, change)):
            dump = self.here / f"dump {number}"
            run = [*DEMO, "--steps", 12]
            process = self.start(*run, "-o", dump)
            wait_for((dump / "train/1-0/rank0.h5").exists)
            process.send_signal(signal.SIGSTOP)
            damage(dump / "journal.jsonl")
            process.send_signal(signal.SIGCONT)
            _, said = process.communicate()
            self.assertEqual(process.returncode, ENVIRONMENT, said)
            self.assertIn("journal.jsonl", said)
            self.lines("verify", dump, code=CORRUPT)
            self.lines("capture", "--resume", "-o", dump)
            self.assertEqual(self.lines("verify", "--deep", dump)[0]["whole_steps"], 12)
        self.assertEqual(root(self.program, self.here / "dump 0"),
                         root(self.program, self.here / "dump 1"))


class Upgraded(Program):
    golden = pathlib.Path(__file__).parent.parent / "golden/dumps/0.1"

    def test_after_a_kill_and_through_a_link(self):
        dump, link = self.here / "dump", self.here / "link"
        shutil.copytree(self.golden, dump)
        link.symlink_to("dump")
        staged = self.here / ("dump" + STAGED)
        staged.mkdir()
        (staged / "lock").write_text("")
        shutil.copytree(dump, staged / "content")
        (staged / "content" / "manifest.json").unlink()
        before = self.lines("verify", dump)[0]["root"]
        with open(staged / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused(USAGE, ["writing"], "upgrade", link)
        self.lines("upgrade", link)
        self.assertTrue(link.is_symlink())
        after = self.lines("verify", dump)[0]
        self.assertEqual((after["version"], after["root"]), ("0.9", before))
        self.assertEqual(self.names(), ["dump", "link"])


if __name__ == "__main__":
    unittest.main()
