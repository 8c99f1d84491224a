"""What is written takes its place whole, in no dump's folder and over nobody's work; links that lead to
themselves are told. usage: places_test.py RLREPLAY
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from support import STAGED, Case, files, memory_folder, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))

USAGE, CORRUPT, ENVIRONMENT = 2, 3, 5
RUN = ["--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2", "--steps"]
MADE = memory_folder()


class Program(Case):
    def setUp(self):
        self.here = pathlib.Path(MADE.name) / self._testMethodName
        self.here.mkdir()

    def said(self, code, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stdout + result.stderr))
        return result.stderr

    def refused(self, code, words, *arguments):
        said = self.said(code, *arguments)
        self.assertEqual(len(said.splitlines()), 1, said)
        for word in words:
            self.assertIn(word, said)

    def start(self, *arguments):
        process = subprocess.Popen([self.program, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def lines(self, rollouts):
        path = self.here / "lines.jsonl"
        path.write_text("".join(
            f'{{"schema": "rlreplay.sample/1", "rollout_id": {n}, "sample_id": {n}, '
            '"prompt_length": 1, "tokens": [1, 2, 3], "log_probs": [-0.5, -0.25]}\n'
            for n in range(rollouts)))
        return path


class Saved(Program):
    def test_an_aborted_save_leaves_the_old_checkpoint(self):
        saved, other = self.here / "saved", self.here / "other"
        self.said(0, "train", *RUN, 1, "--save", saved)
        self.said(0, "train", *RUN, 2, "--save", other)
        old, new = files(saved), files(other)
        self.assertNotEqual(old, new)
        began = time.monotonic()
        self.said(0, "train", *RUN, 2, "--save", saved, "--force")
        took = time.monotonic() - began
        self.assertEqual((files(saved), sorted(os.listdir(self.here))), (new, ["other", "saved"]))
        for number in range(8):
            process = self.start("train", *RUN, 1, "--save", saved, "--force")
            time.sleep(took * (0.6 + 0.06 * number))
            process.send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
            process.wait()
            self.assertIn(files(saved), (old, new))
        self.said(0, "train", *RUN, 2, "--save", saved, "--force")
        self.assertEqual((files(saved), sorted(os.listdir(self.here))), (new, ["other", "saved"]))

    def test_it_is_built_beside_and_by_one(self):
        saved = self.here / "saved"
        first = self.start("train", *RUN, 60, "--save", saved)
        wait_for((self.here / ("saved" + STAGED) / "lock").exists)
        self.refused(USAGE, ["another process", "saved"], "train", *RUN, 1, "--save", saved)
        self.refused(USAGE, ["another process"], "train", *RUN, 1, "--save", saved, "--force")
        self.assertFalse(saved.exists())
        first.send_signal(signal.SIGTERM)
        first.wait()
        self.assertEqual(os.listdir(self.here), [])

    def test_one_that_could_not_take_its_name_is_kept(self):
        """Exports are built alike."""
        saved, left = self.here / "saved", self.here / ("saved" + STAGED) / "content"
        first = self.start("train", *RUN, 30, "--save", saved)
        self.assertIn("step", first.stdout.readline())  # what had the name was looked at before it trains
        self.assertTrue((left.parent / "lock").exists())
        saved.mkdir()
        (saved / "mine").write_text("mine")
        _, said = first.communicate()
        self.assertEqual(first.returncode, USAGE, said)
        self.assertIn("the new one is whole in", said)
        whole = files(left)
        self.assertIn("model.safetensors", whole)
        saved.rename(self.here / "theirs")
        for flags in ([], ["--force"]):
            self.refused(USAGE, ["whole", str(left)], "train", *RUN, 1, "--save", saved, *flags)
        self.assertEqual(files(left), whole)
        left.rename(self.here / "mine")
        self.said(0, "train", *RUN, 1, "--save", saved)
        self.assertEqual(sorted(os.listdir(self.here)), ["mine", "saved", "theirs"])

    def test_files_that_are_none_of_a_checkpoint(self):
        saved = self.here / "saved"
        self.said(0, "train", *RUN, 1, "--save", saved)
        (saved / "notes.txt").write_text("mine")
        before = files(saved)
        self.refused(USAGE, ["notes.txt", "lost"], "train", *RUN, 1, "--save", saved, "--force")
        self.assertEqual(files(saved), before)


class Dumps(Program):
    def test_nothing_is_written_within_a_dump(self):
        dump = self.here / "dump"
        self.said(0, "capture", *RUN, 1, "-o", dump)
        before, lines = files(dump), self.lines(2)
        (self.here / "link").symlink_to("dump")
        for within in (dump, self.here / "link"):
            for verb in (["import", lines, "-o", within / "i"], ["capture", *RUN, 1, "-o", within / "c"],
                         ["train", dump, "-o", within / "t"], ["export", dump, "--to", "slime", "-o",
                                                               within / "e"],
                         ["capture", *RUN, 1, "-o", self.here / "new", "--save", within / "a/s"],
                         ["train", *RUN, 1, "--save", within / "s"],
                         ["upgrade", dump, "-o", within / "u"],
                         ["mismatch", dump, "--plot", within / "p.svg"],
                         ["golden", "record", within / "g.txt", "--model", "demo"]):
                self.refused(USAGE, ["lies within the dump", str(dump)], *verb)
        self.assertEqual(files(dump), before)
        self.assertEqual(sorted(os.listdir(dump)), sorted({name.split("/")[0] for name in before}))

    def test_an_import_over_a_capture_that_has_just_begun(self):
        dump = self.here / "dump"
        importing = self.start("import", self.lines(4000), "-o", dump, "--force")
        wait_for((self.here / ("dump" + STAGED) / "lock").exists)
        wait_for(lambda: (self.here / ("dump" + STAGED) / "lock").read_text() != "")
        importing.send_signal(signal.SIGSTOP)
        capture = self.start("capture", *RUN, 3, "-o", dump)
        wait_for((dump / "rollout/0.h5").exists)
        importing.send_signal(signal.SIGCONT)
        _, said = importing.communicate()
        self.assertEqual(importing.returncode, USAGE, said)
        self.assertIn("meanwhile", said)
        _, said = capture.communicate()
        self.assertEqual(capture.returncode, 0, said)
        self.said(0, "verify", "--deep", dump)
        self.said(0, "verify", self.here / ("dump" + STAGED) / "content")

    def test_of_two_that_may_replace_it_one_begins(self):
        """And the other is not told to use the option that it was given."""
        dump = self.here / "dump"
        first = self.start("capture", *RUN, 100000, "-o", dump, "--force")
        wait_for((dump / "rollout/0.h5").exists)
        for again in ([], ["--force"]):
            self.refused(USAGE, [str(dump), "another process is writing to this dump"],
                         "capture", *RUN, 1, "-o", dump, *again)
        first.kill()

    def test_folders_in_place_of_files(self):
        dump = self.here / "dump"
        self.said(0, "capture", *RUN, 1, "-o", dump)
        for name in ("manifest.json", "units.index"):
            (dump / name).unlink()
        (dump / "INCOMPLETE").mkdir()
        verbs = (["seal", "--recovered", dump], ["capture", "--resume", "-o", dump])
        for verb in verbs:
            self.refused(CORRUPT, ["INCOMPLETE", "not a regular file"], *verb)
        (dump / "INCOMPLETE").rmdir()
        (dump / "INCOMPLETE").write_text("")
        (dump / "journal/0.jsonl").rename(dump / "journal/1.jsonl")
        (dump / "journal/0.jsonl").mkdir()
        for verb in verbs:
            self.refused(CORRUPT, ["journal/0.jsonl", "not a regular file"], *verb)
        (self.here / ("new" + STAGED) / "lock").mkdir(parents=True)
        self.refused(USAGE, ["move it away"], "import", self.lines(1), "-o", self.here / "new")

    def test_an_empty_folder_that_somebody_fills(self):
        dump = self.here / "dump"
        dump.mkdir()
        importing = self.start("import", self.lines(4000), "-o", dump)
        wait_for(lambda: (self.here / ("dump" + STAGED) / "lock").exists()
                 and (self.here / ("dump" + STAGED) / "lock").read_text() != "")
        importing.send_signal(signal.SIGSTOP)
        (dump / "mine").write_text("mine")
        importing.send_signal(signal.SIGCONT)
        _, said = importing.communicate()
        self.assertEqual(importing.returncode, USAGE, said)
        self.assertEqual(files(dump), {"mine": b"mine"})


class Links(Program):
    def test_a_link_that_leads_to_itself(self):
        dump, loop = self.here / "dump", self.here / "loop"
        self.said(0, "capture", *RUN, 1, "-o", dump)
        lines = self.lines(1)
        loop.symlink_to("loop")
        for verb in (["show", loop], ["verify", loop], ["verify", "--deep", loop], ["mismatch", loop],
                     ["objective", loop], ["diff", dump, loop], ["seal", loop], ["upgrade", loop],
                     ["import", loop, "-o", self.here / "new"], ["import", lines, "-o", loop],
                     ["train", loop], ["train", *RUN, 1, "--save", loop],
                     ["train", *RUN, 1, "--save", loop / "below"],
                     ["train", "--model", loop, "--prompts", lines, *RUN[2:], 1],
                     ["export", dump, "--to", "slime", "-o", loop],
                     ["export", dump, "--to", "jsonl", "-o", loop]):
            self.refused(ENVIRONMENT, ["loop", "Too many levels"], *verb)

    def test_a_link_that_leads_nowhere(self):
        lost = self.here / "lost"
        lost.symlink_to("nowhere")
        for verb in (["capture", *RUN, 1], ["capture", *RUN, 1, "--force"],
                     ["import", self.lines(1)]):
            for name in (lost, f"{lost}/"):
                self.refused(ENVIRONMENT, [str(lost), "a link that leads nowhere"], *verb, "-o", name)
        self.assertEqual(sorted(os.listdir(self.here)), ["lines.jsonl", "lost"])

    def test_below_a_folder_that_is_shown(self):
        dump, run = self.here / "dump", self.here / "run"
        self.said(0, "capture", *RUN, 1, "-o", dump)
        self.said(0, "export", dump, "--to", "slime", "-o", run)
        (run / "loop").symlink_to("loop")
        for verb in (["show", run], ["verify", run], ["import", run, "-o", self.here / "new"]):
            self.said(0, *verb)


if __name__ == "__main__":
    unittest.main()
