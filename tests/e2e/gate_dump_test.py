"""A golden file of a run that leaves a dump, or files of a framework: where the difference begins is said.

usage: gate_dump_test.py PROGRAM"""
import json
import os
import pathlib
import pty
import shutil
import subprocess
import sys
import unittest
import zipfile

import material
from support import Case, memory_folder

MEMORY = memory_folder()
Case.program = os.path.abspath(sys.argv.pop(1))
EVENT = "1.0/backward/0/down/dx"
INJECT = f"--inject {EVENT}:1234:1"
PLACE = f"begins at: {EVENT}, sample 33, token 0, column 82 (index 1234), rank 0"


class GateDump(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.base, _ = cls.capture("base", *"--model demo --steps 2 --rollout-batch-size 4 --weights all "
                                           "--record ops+values".split())

    def setUp(self):
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        (self.tree / "goldens").mkdir(parents=True)
        self.environment = {**os.environ, "TMPDIR": MEMORY.name, "GIT_CONFIG_GLOBAL": "/dev/null", "PROGRAM": Case.program,
                            "BASE": str(self.base)}
        self.environment.pop("CI", None)
        self.git("init", "-q", "-b", "main")
        (self.tree / "run.sh").write_text('"$PROGRAM" train "$BASE" -o "$RLBISECT_OUT/dump" $(cat flags)\n')
        self.flags("", "A run")

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=self.tree, check=True,
                       capture_output=True, env=self.environment)

    def flags(self, words, message):
        """A commit of a run with these flags."""
        (self.tree / "flags").write_text(words)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def golden(self, *words, code=0):
        result = self.run_program("golden", *words, cwd=self.tree, env=self.environment, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return " ".join((result.stdout + result.stderr).split())

    def record(self, *words, run="sh run.sh", code=0):
        return self.golden("record", "goldens/a.txt", "--run", run, "--class", "any", *words, code=code)

    def check(self, *words, code=1):
        return self.golden("check", "goldens", "--run-recorded", *words, code=code)

    def file(self):
        return (self.tree / "goldens/a.txt").read_text()

    def review(self, keys):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([Case.program, "golden", "review", "goldens"], cwd=self.tree, text=True,
                                   stdin=theirs, stdout=subprocess.PIPE, env=self.environment)
        os.close(theirs)
        os.write(ours, keys)
        shown = process.communicate(timeout=300)[0]
        os.close(ours)
        return " ".join(shown.split())

    def test_the_recorded_commit_says_where_it_begins(self):
        self.record("--build", "true")
        self.flags(INJECT, "One ulp")
        self.assertNotIn("begins", self.check("--build", "false"))
        said = self.check()
        self.assertIn("cause: code, ", said)
        self.assertIn(PLACE, said)
        found = json.loads(self.check("--json"))
        self.assertEqual("begins at: " + found["begins"].rsplit(", rank 0", 1)[0] + ", rank 0", PLACE)
        self.assertTrue(found["begins"].endswith(", 1 ulp up"))
        self.assertIn(PLACE, self.review(b"s\n"))
        self.assertIn("1 accepted", self.review(b"a\nit is meant\n"))
        self.assertNotIn("begins", self.file())
        self.git("commit", "-q", "-a", "-m", "Accept")
        self.assertIn("match: ", self.check(code=0))

    def test_a_dump_that_the_file_names_says_it(self):
        other, _ = self.capture("other", *"--model demo --steps 1 --rollout-batch-size 4".split())
        self.assertIn("is the dump of another run", self.record("--dump", other, code=2))
        self.assertIn("leaves no dump", self.record(
            "--dump", other, run="echo '{\"loss\": 1}' >$RLBISECT_OUT/metrics.json", code=2))
        self.assertIn("give --run, too", self.golden("record", "goldens/a.txt", "--model", "demo", "--dump", other, code=2))
        kept = self.folder / "kept"
        shutil.copytree(self.base, kept)
        self.record("--dump", kept)
        self.assertIn(f'about dump "{kept}"\n', self.file())
        (self.tree / "flags").write_text(INJECT)
        self.assertIn(PLACE, self.check())
        self.assertIn(PLACE, self.review(b"q\n"))
        shutil.rmtree(kept)
        self.assertNotIn("begins", self.check())
        self.assertNotIn("begins", self.review(b"q\n"))
        shutil.copytree(other, kept)
        self.assertIn(f"begins at: not known: {kept}: it is the dump of another run", self.check())

    def test_a_claim_that_is_broken_begins_somewhere(self):
        self.flags(INJECT, "Fold a loop [bitwise]")
        said = self.golden("check", "--claim", "main~..main", "--run", "sh run.sh", code=1)
        self.assertIn("broken: ", said)
        self.assertIn(PLACE, said)
        self.flags("--threads 1", "Another thread [bitwise]")
        self.flags("--threads 2", "And two [bitwise]")
        self.assertNotIn("begins", self.golden("check", "--claim", "main~..main", "--run", "sh run.sh"))

    def one_float(self, file, column):
        """The lowest bit of a tensor's first float that is moved; returns the sample's index."""
        told = json.loads(file.with_suffix("").with_suffix(".expected.json").read_text())
        sample = next(s for s in told["root"]["samples"] if column in s)
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        member = next(m for m in members if m.endswith(f"/data/{sample[column]['$tensor']['record']}"))
        data = bytearray(members[member])
        data[0] ^= 1
        members[member] = bytes(data)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return sample["sample_index"]

    def test_files_of_slime_are_gated(self):
        for number, material_folder in enumerate(material.folders()):
            with self.subTest(material_folder):
                saved = self.tree / f"saved{number}"
                shutil.copytree(pathlib.Path(material_folder, "dumps/slime-latest/grpo-dp2"), saved)
                kept = self.folder / f"kept{number}"
                shutil.copytree(saved, kept)
                self.record("--allow-changed", "--force", "--reason", "x", "--dump", kept,
                            run=f'cp -r saved{number}/. "$RLBISECT_OUT"')
                self.assertRegex(self.file(), r"(?m)^content [0-9a-f]{32}$")
                self.assertIn("match: ", self.check(code=0))
                sample = self.one_float(saved / "train_data/1.pt", "log_probs")
                said = self.check()
                self.assertIn("regression: goldens/a.txt", said)
                self.assertIn(" content: ", said)
                self.assertRegex(said, rf"begins at: \S*log_probs, .*sample {sample}, .*1 ulp")


if __name__ == "__main__":
    unittest.main()
