"""What is written takes its place whole: dumps and weights that are replaced, resumed, upgraded.
usage: replaced_test.py RLREPLAY
"""
import fcntl
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from closed_program import CORRUPT, DEMO, ENVIRONMENT, INTERRUPTED, Program, USAGE, samples
from support import STAGED, Case, files, root, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))


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
        (other / "journal").mkdir()
        (other / "journal/0.jsonl").write_text('{"of": "another program"}\n')
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
        said = self.run_program("capture", "--resume", "-o", dump)
        self.assertEqual((said.returncode, files(dump)), (0, before), said.stderr)
        for words in ("older dump", f"unfinished in {staged / 'content'}", "capture --resume -o"):
            self.assertIn(words, said.stderr)
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
        codes = {quick.wait(300), late.wait(300)}
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


class Marks(Program):
    def test_a_stale_mark(self):
        dump = self.dump()
        (dump / "INCOMPLETE").write_text("")
        result = self.run_program("capture", "--resume", "-o", dump)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((dump / "INCOMPLETE").exists())

    def test_a_dump_that_is_sealed_while_it_is_read(self):
        strace = shutil.which("strace")
        if strace is None:
            self.skipTest("no strace")
        dump = self.dump()
        (dump / "manifest.json").rename(self.here / "manifest")
        (dump / "INCOMPLETE").touch()
        reader = subprocess.Popen(
            [strace, "-o", self.here / "calls", "-e", "trace=openat", "-e",
             "inject=openat:delay_exit=1000000:when=1..4", "-P", dump, self.program, "verify",
             dump], stdout=subprocess.PIPE, text=True)
        wait_for(lambda: (self.here / "calls").exists()
                 and "manifest.json" in (self.here / "calls").read_text())
        (self.here / "manifest").rename(dump / "manifest.json")
        (dump / "INCOMPLETE").unlink()
        said, _ = reader.communicate()
        self.assertEqual(reader.returncode, 0, said)
        self.assertTrue(said.startswith("complete"), said)

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
            damage(dump / "journal/0.jsonl")
            process.send_signal(signal.SIGCONT)
            _, said = process.communicate()
            self.assertEqual(process.returncode, ENVIRONMENT, said)
            self.assertIn("journal/0.jsonl", said)
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
        self.assertEqual((after["version"], after["root"]), ("1.0", before))
        self.assertEqual(self.names(), ["dump", "link"])

    def test_a_dump_gives_way_to_the_new_one_where_that_is_asked_for(self):
        dump, old, damaged = self.dump(), self.here / "old", self.here / "damaged"
        shutil.copytree(self.golden, old)
        shutil.copytree(old, damaged)
        next(damaged.glob("train/*/*.h5")).write_bytes(b"")
        before = files(self.here)
        self.refused(USAGE, ["--force"], "upgrade", old, "-o", dump)
        self.refused(USAGE, ["without -o"], "upgrade", old, "-o", old, "--force")
        self.refused(USAGE, ["--force", "-o"], "upgrade", old, "--force")
        self.refused(CORRUPT, ["h5"], "upgrade", damaged, "-o", dump, "--force")
        self.assertEqual(files(self.here), before)
        root_of_old = root(self.program, old)
        self.lines("upgrade", old, "-o", dump, "--force")
        after = self.lines("verify", dump)[0]
        self.assertEqual((after["version"], after["root"]), ("1.0", root_of_old))
        self.assertEqual(self.names(), ["damaged", "dump", "old"])


if __name__ == "__main__":
    unittest.main()
