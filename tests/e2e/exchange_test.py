"""Importing what frameworks wrote: nothing is missing silently, nothing is left behind unsaid.

usage: exchange_test.py RLREPLAY
"""
import json
import os
import shutil
import sys
import unittest

import support


class Import(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("dump", "--model", "demo", "--num-rollout", "2",
                              "--rollout-batch-size", "2", "--n-samples-per-prompt", "4")
        cls.slime = cls.folder / "slime"
        cls.run_program("export", dump, "--to", "slime", "-o", cls.slime)

    def copied(self):
        folder = self.folder / "copied"
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(self.slime, folder)

    def imported(self, folder, code=0):
        result = self.run_program("import", folder, "-o", self.folder / "imported", "--force", "--json")
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_a_missing_rank_is_refused_before_anything_is_read(self):
        folder = self.copied()
        for name in ("0_0", "0_1", "1_0"):
            (folder / "train_data" / f"{name}.pt").write_text("not even a torch file")
        error = self.imported(folder, code=3)["error"]
        self.assertIn("the file of rank 1 is missing", error["message"])
        self.assertTrue(error["where"].endswith("1_0.pt"), error)

    def test_what_is_no_torch_file_is_named(self):
        folder = self.copied()
        (folder / "trajectory").mkdir()
        (folder / "notes.txt").write_text("x")
        for name in ("0.jsonl", "1.jsonl"):
            (folder / "trajectory" / name).write_text("{}\n")
        findings = {f["code"]: f["message"] for f in self.imported(folder)["findings"]}
        self.assertIn("notes.txt, trajectory/ (2 files)", findings["not-imported"])

    def test_links_are_followed_once(self):
        folder, whole = self.copied(), self.imported(self.slime)
        for name in ("train_data", "rollout_data"):
            (folder / name).rename(self.folder / f"away {name}")
            (folder / name).symlink_to(self.folder / f"away {name}")
        (folder / "rollout_data" / "loop").symlink_to(folder)
        linked = self.imported(folder)
        for name in ("train_data", "rollout_data"):
            shutil.rmtree(self.folder / f"away {name}")
        for key in ("rollouts", "steps", "samples", "tokens"):
            self.assertEqual(linked[key], whole[key])

    def test_a_file_that_is_none_is_refused(self):
        for make, sentence in ((lambda p: os.mkfifo(p), "pipe"),
                               (lambda p: p.symlink_to("nowhere"), "No such file"),
                               (lambda p: p.symlink_to("/dev/zero"), "device")):
            folder = self.copied()
            path = folder / "rollout_data" / "0.pt"
            path.unlink()
            make(path)
            error = self.imported(folder, code=3)["error"]
            self.assertIn(sentence, error["message"])
            self.assertTrue(error["where"].endswith("0.pt"), error)

    def test_like_findings_are_said_once(self):
        lines = self.run_program("import", self.slime, "-o", self.folder / "imported",
                                 "--force").stdout.splitlines()
        findings = [line.split(" (")[0] for line in lines if line.startswith("finding ")]
        self.assertEqual(len(findings), len(set(findings)), lines)

    def test_experts_of_one_rollout_have_one_shape(self):
        path = self.folder / "experts.jsonl"
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "prompt_length": 1, "tokens": [1, 2]}
        shapes = ((0, {"layers": 2, "slots": 1}), (1, {"layers": 1, "slots": 2}))
        path.write_text("".join(
            json.dumps({**row, "sample_id": i, "experts": {**shape, "ids": [0, 1, 2, 3]}}) + "\n"
            for i, shape in shapes))
        self.assertIn("the same layers and slots", self.imported(path, code=3)["error"]["message"])

    def test_an_error_names_the_file(self):
        folder = self.copied()
        path = folder / "rollout_data" / "1.pt"
        path.write_bytes(path.read_bytes()[:-100])
        self.assertIn("1.pt", self.imported(folder, code=3)["error"]["where"])
        if "RLREPLAY_REFERENCE" in os.environ:
            path = os.environ["RLREPLAY_REFERENCE"] + "/dumps/tricky/base.pt"
            self.assertIn("base.pt: sample 0", self.imported(path, code=3)["error"]["where"])


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
