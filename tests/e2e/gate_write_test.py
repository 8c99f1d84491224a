"""When golden files are written, by whom and of what: never in CI, one after the other, of code that is committed.

usage: gate_write_test.py PROGRAM"""
import os
import subprocess
import sys
import time
import unittest

from gate_case import NUMBERS, RUN, GateCase
from support import wait_for

GateCase.program = os.path.abspath(sys.argv.pop(1))
LOOSE = ["--tolerance", "step * loss=8 ulps: two kinds of cards"]


class Write(GateCase):
    def start(self, *words):
        process = subprocess.Popen([self.program, "golden", *words], cwd=self.tree, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment, stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        return process

    def test_ci_writes_nothing(self):
        self.record(*LOOSE)
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        before = self.file().read_bytes(), [path.read_bytes() for path in self.kept()]
        reason = ["--reason", "why"]
        for words in (["record", "goldens/new.txt", "--run", RUN, "--class", "any"],
                      ["record", "goldens/train.txt", "--run", RUN, "--class", "any", "--force", *reason],
                      ["record", "goldens/demo.txt", "--model", "demo", "--steps", "1"],
                      ["accept", "goldens", *reason], ["reject", "goldens"], ["review", "goldens"],
                      ["tighten", "goldens", "--run-recorded"], ["quarantine", "goldens", "--lift"],
                      ["quarantine", "goldens", "--until", "9999-12-31", "--owner", "a", *reason]):
            with self.subTest(words):
                said = self.golden(*words, code=2, CI="true")
                self.assertIn("no golden file is written where CI is set", said.stderr)
                self.assertEqual(said.stderr.count("\n"), 1)
        self.assertEqual((self.file().read_bytes(), [path.read_bytes() for path in self.kept()]), before)
        self.assertEqual([path.name for path in self.file().parent.iterdir()], ["train.txt"])

    def test_what_is_accepted_while_tolerances_shrink_stays(self):
        self.record(*LOOSE)
        self.commit()
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.golden("check", "goldens", "--run-recorded", code=1)
        self.numbers(NUMBERS)
        waiting = "touch started; while ! test -e go; do sleep 0.01; done; " + RUN
        process = self.start("tighten", "goldens", "--run", waiting, "--repeat", "1")
        wait_for(lambda: (self.tree / "started").exists())
        self.golden("accept", "goldens", "--reason", "the step is shorter")
        accepted = self.file().read_text()
        self.assertIn("0x1p-2", accepted)
        (self.tree / "go").touch()
        said = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 3, said)
        self.assertIn("the file has changed meanwhile", said[1])
        self.assertEqual(self.file().read_text(), accepted)

    def test_what_is_written_while_a_run_is_recorded_stays(self):
        self.record()
        waiting = "touch started; while ! test -e go; do sleep 0.01; done; " + RUN
        process = self.start("record", "goldens/train.txt", "--run", waiting, "--class", "any", "--force", "--reason", "y")
        wait_for(lambda: (self.tree / "started").exists())
        self.golden("quarantine", "goldens", "--until", "9999-12-31", "--owner", "a", "--reason", "b")
        (self.tree / "go").touch()
        self.assertIn("has changed meanwhile", process.communicate(timeout=300)[1])
        self.assertEqual(process.returncode, 3)
        self.assertIn("quarantine until 9999-12-31\n", self.file().read_text())

    def test_who_writes_waits_for_another(self):
        self.record()
        words = ["quarantine", "goldens", "--until", "9999-12-31", "--owner", "a", "--reason"]
        with subprocess.Popen(["flock", "goldens", "sh", "-c", "touch held; cat"], cwd=self.tree,
                              stdin=subprocess.PIPE) as holder:
            wait_for(lambda: (self.tree / "held").exists())
            before = self.file().read_text()
            process = self.start(*words, "b")
            time.sleep(0.3)
            self.assertEqual((process.poll(), self.file().read_text()), (None, before))
            holder.stdin.close()
            self.assertEqual(process.wait(300), 0)
        self.assertIn("quarantine", self.file().read_text())

    def test_code_that_is_not_in_git_is_a_change(self):
        run = "python3 train.py numbers.json"
        (self.tree / "train.py").write_text("import helper\nhelper.leave()\n")
        (self.tree / "helper.py").write_text(
            "import os, shutil\ndef leave(): shutil.copy('numbers.json', os.environ['RLBISECT_OUT'] + '/metrics.json')\n")
        (self.tree / ".gitignore").write_text("__pycache__\n")
        self.git("add", "train.py", ".gitignore")
        self.git("commit", "-q", "-m", "A trainer")
        said = self.record(run=run, code=2).stderr
        self.assertIn("helper.py is not in git, so that nobody could give these values again", said)
        self.assertFalse(self.file().exists())
        self.record("--allow-changed", run=run)
        self.assertIn("-changed\n", self.file().read_text())
        self.assertIn("a checkout with changes", self.golden("fsck", "goldens", code=1).stdout)
        self.commit()
        (self.tree / "log.txt").write_text("what a run leaves is no code of it\n")
        self.record("--force", "--reason", "all is in git", "--build", "true", run=run)
        self.assertNotIn("-changed\n", self.file().read_text())
        (self.tree / "data").write_text("1")
        self.assertIn("data is not in git", self.record(name="new.txt", run="cat data; " + run, code=2).stderr)
        (self.tree / "data").unlink()
        (self.tree / "helper.py").rename(self.tree / "other.py")
        (self.tree / "train.py").write_text("import other\nother.leave()\n")
        self.git("commit", "-q", "-a", "-m", "Forget a file")
        self.numbers(NUMBERS.replace("0.75", "0.25"))
        self.git("commit", "-q", "-a", "-m", "Other numbers")
        said = self.golden("check", "goldens", "--run-recorded", code=1).stdout
        self.assertIn("cause: code, the recorded commit gives here what was recorded; here other.py is not in git", said)
        self.assertIn("with changes", self.golden("check", "goldens", "--run-recorded", code=1).stdout
                      + "".join(path.read_text() for path in self.kept()).replace("-changed", " with changes"))

    def test_what_a_run_printed_is_shown(self):
        self.record()
        failing = "echo one; echo a cause >&2; "
        for run, code, word in ((failing + "true", 2, "left nothing but its exit code, 0"),
                                (failing + "exit 7", 2, "left nothing but its exit code, 7"),
                                (failing + RUN + "; exit 3", 3, "failed with exit code 3"),
                                (failing + "echo {} >$RLBISECT_OUT/metrics.json", 3, "holds no number"),
                                (failing + "kill -9 $$", 3, "was ended by signal 9")):
            with self.subTest(run):
                said = self.golden("check", "goldens/train.txt", "--run", run, code=code)
                said = said.stdout + said.stderr
                self.assertIn(word, said)
                self.assertIn("one | a cause", said)
                log, = self.kept("logs")
                self.assertIn(str(log).replace(str(self.tree), ""), said)
                self.assertEqual(log.read_text(), "one\na cause\n")
                said = self.record(name="new.txt", run=run, code=code)
                self.assertIn("what it printed is in ", said.stderr)
                self.golden("check", "goldens", "--run-recorded")
                self.assertEqual([path.name for path in self.kept("logs")], ["new.log"])
                self.kept("logs")[0].unlink()
        said = self.golden("check", "goldens/train.txt", "--run", "true", code=2).stderr
        self.assertIn("it printed nothing", said)
        said = self.golden("check", "goldens/train.txt", "--run", "seq 100; exit 7", code=2, CI="true").stderr
        self.assertIn("  81\n", said)
        self.assertNotIn("  80\n", said)
        self.assertEqual(self.kept("logs"), [])


if __name__ == "__main__":
    unittest.main()
