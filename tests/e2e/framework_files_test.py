"""Files of frameworks that are long, torn, newer or say two things at once: what is told of them.

usage: framework_files_test.py RLREPLAY
"""
import json
import os
import pathlib
import pickle
import resource
import sys
import unittest
import zipfile

import support

sys.path.append(str(pathlib.Path(__file__).parents[1] / "foreign"))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "material"))
import make_fixtures
import torch_files


def rank_file(rows, **more):
    """Training data of one rank in columns, two tokens of response each."""
    return {"rollout_id": 0, "rank": 0, "rollout_data": {
        "tokens": [[1, 2, 3]] * rows, "total_lengths": [3] * rows, "response_lengths": [2] * rows,
        "sample_indices": list(range(rows)), "rewards": [0.5] * rows, "loss_masks": [[1, 1]] * rows,
        "log_probs": [[-0.5, -1.0]] * rows, **more}}


class Train(support.Case):
    def test_a_long_column_is_read_once(self):
        """Of a tensor that is not contiguous every reading is a copy of the whole."""
        rows, seconds = 60000, []
        for stride in (1, 2):
            sums = make_fixtures.Storage("0", "Float", [2.0] * (rows * stride))
            column = make_fixtures.Tensor(sums, (rows,), (stride,))
            path = self.folder / f"stride {stride}" / "train_data" / "0_0.pt"
            path.parent.mkdir(parents=True)
            torch_files.save(path, rank_file(rows, rollout_mask_sums=column))
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            made = self.run_program("import", path.parents[1], "-o", self.folder / f"dump {stride}")
            seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
            self.assertEqual(made.returncode, 0, made.stderr)
        same = self.run_program("diff", *(self.folder / f"dump {stride}" for stride in (1, 2)))
        self.assertEqual(same.returncode, 0, same.stdout)
        self.assertLess(seconds[1], 3 * seconds[0] + 1, "seconds of a processor")

    def test_masks_of_bools(self):
        """They are 0 and 1, in a rollout and in training data; an export has bools again."""
        def run(name, mask):
            sample = {"index": 0, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
                      "reward": 1.0, "status": "completed", "loss_mask": mask}
            path = self.folder / name
            support.save(path / "rollout_data/0.pt", {"rollout_id": 0, "samples": [sample]})
            support.save(path / "train_data/0_0.pt", rank_file(1, loss_masks=[mask]))
            self.assertEqual(self.run_program("verify", "--deep", path).returncode, 0, name)
            dump, out = self.folder / f"{name} dump", self.folder / f"{name} out"
            made, = self.lines("import", path, "-o", dump)
            self.lines("export", dump, "--to", "slime", "-o", out)
            with zipfile.ZipFile(out / "rollout_data/0.pt") as archive:
                pickled, = [archive.read(n) for n in archive.namelist() if n.endswith("data.pkl")]
            shown, = self.lines("show", path, "--sample", "0")
            return made["content"], pickle.loads(pickled)["samples"][0]["loss_mask"], shown["loss_mask"]

        numbers, bools = run("numbers", [0, 1]), run("bools", [False, True])
        self.assertEqual(bools, numbers)
        self.assertEqual([type(m) for m in bools[1]], [bool, bool])
        self.assertEqual(run("both", [0, True]), numbers)
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "tokens": [1, 2, 3],
               "prompt_length": 1}
        contents = set()
        for i, mask in enumerate(([0, 1], [False, True], [0, True])):
            lines = self.folder / f"{i}.jsonl"
            lines.write_text(json.dumps({**row, "loss_mask": mask}) + "\n")
            made, = self.lines("import", lines, "-o", self.folder / f"lines {i}")
            contents.add(made["content"])
        self.assertEqual(len(contents), 1)
        lines.write_text(json.dumps({**row, "loss_mask": [0, 2]}) + "\n")
        self.assertEqual(self.run_program("verify", lines).returncode, 3)

    def routed(self, name, *routes):
        """A rollout of samples of three tokens, of which [2, 2, 2] choices were kept, or none."""
        samples = [{"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2, "reward": 1.0,
                    "status": "completed"} for i in range(len(routes))]
        for i, values in enumerate(routes):
            if values is not None:
                kept = make_fixtures.Storage(str(i), "Int", values)
                samples[i]["rollout_routed_experts"] = make_fixtures.Tensor(kept, (2, 2, 2), (4, 2, 1))
        path = self.folder / name / "rollout_data/0.pt"
        path.parent.mkdir(parents=True)
        torch_files.save(path, {"rollout_id": 0, "samples": samples})
        made = self.run_program("import", path.parents[1], "-o", self.folder / f"{name} dump")
        self.assertEqual(made.returncode, 0, made.stderr)
        lines = self.run_program("export", self.folder / f"{name} dump", "--to", "jsonl", "-o", "-")
        return path, made, [json.loads(line).get("experts") for line in lines.stdout.splitlines()]

    def test_routed_experts_are_columns_and_come_back(self):
        """Of all tokens but the last; a sample without has recorded none."""
        path, _, found = self.routed("routes", [0, 1, 2, 3, 300, 5, 6, 7], None)
        self.assertEqual(found, [
            {"layers": 2, "slots": 2, "ids": [0, 1, 2, 3, 300, 5, 6, 7, 0, 0, 0, 0], "recorded": [1, 1, 0]},
            {"layers": 2, "slots": 2, "ids": [0] * 12, "recorded": [0, 0, 0]}])
        shown, = self.lines("show", path.parents[1], "--sample", "0")
        self.assertEqual(shown["experts"][:8], [0, 1, 2, 3, 300, 5, 6, 7])
        self.assertEqual(shown["expert_recorded"], [1, 1, 0])
        out = self.folder / "routes out"
        self.lines("export", self.folder / "routes dump", "--to", "slime", "-o", out)
        with zipfile.ZipFile(path) as before, zipfile.ZipFile(out / "rollout_data/0.pt") as after:
            stored = [[archive.read(n) for n in archive.namelist() if "/data/" in n] for archive in (before, after)]
        self.assertEqual(*stored)
        other, _, _ = self.routed("other", [0, 1, 2, 3, 300, 5, 6, 8], None)
        found, = self.lines("diff", self.folder / "routes dump", self.folder / "other dump", code=1)
        self.assertIn("experts", json.dumps(found["first"]))

    def test_routes_that_are_no_experts_stay_in_the_file_and_are_said(self):
        for name, values in (("negative", [-1] * 8), ("too large", [65536] + [0] * 7)):
            _, made, found = self.routed(name, [0] * 8, values)
            self.assertEqual(found, [None, None], name)
            self.assertIn("rollout_routed_experts of sample 1", made.stdout + made.stderr)

    def test_an_unknown_version(self):
        """Every verb refuses it alike, whatever else it has renamed."""
        row = {"sample_index": 0, "tokens": [1, 2, 3], "total_lengths": 3, "response_lengths": 2,
               "rewards": 0.5, "loss_masks": [1, 1]}
        whole = self.folder / "whole"
        support.save(whole / "train_data/0.pt",
                     {"format_version": 2, "rollout_id": 0, "rank": 0, "samples": [row],
                      "dp_shards": [{"dp_rank": 0, "sample_indices": [0]}]})
        self.assertEqual(self.run_program("verify", whole).returncode, 0)
        for name, version, content in (("newer", 3, {"samples": [row]}), ("text", "2", {"samples": []}),
                                       ("renamed", 3, {"rows": [row]})):
            path = self.folder / name
            support.save(path / "train_data/0.pt",
                         {"format_version": version, "rollout_id": 0, "rank": 0, **content})
            for words in (["show", path], ["objective", path], ["mismatch", path], ["rollout", path],
                          ["train", path, "--model", "demo"], ["diff", whole, path],
                          ["import", path, "-o", self.folder / "unread"], ["verify", path],
                          ["verify", "--deep", path]):
                said = self.run_program(*words)
                text = said.stdout + said.stderr
                self.assertEqual(said.returncode, 4, (words, text))
                self.assertIn("it reads version 2", text, words)
                self.assertIn("0.pt", text, words)
            report, = self.lines("verify", path, code=4)
            self.assertFalse(report["complete"])

    def test_diff_names_the_rank_whose_file_holds_the_sample(self):
        for name, value in (("a", -0.5), ("b", -0.75)):
            for rank in (0, 1):
                file = rank_file(4, sample_indices=list(range(4 * rank, 4 * rank + 4)))
                file["rank"] = rank
                if rank == 1:
                    file["rollout_data"]["log_probs"][2] = [value, -1.0]
                support.save(self.folder / f"ranks {name}/train_data/0_{rank}.pt", file)
        a, b = (self.folder / f"ranks {name}" for name in "ab")
        found, = self.lines("diff", a, b, code=1)
        self.assertEqual((found["first"]["sample"], found["first"]["rank"]), (6, 1))
        first, = [f["first"] for f in found["fields"] if not f["equal"]]
        self.assertEqual(first["rank"], 1)
        self.assertIn("rank 1", self.run_program("diff", a, b).stdout)

    def test_an_error_names_its_sample(self):
        """By its index, not by its row in the file of its rank."""
        for name, bad, said_of in (("rollout_ids", "x", "rollout_ids"), ("rewards", "x", "rewards"),
                                   ("response_lengths", -1, "response_lengths"),
                                   ("tokens", [1, 2, -3], "token -3")):
            path = self.folder / f"bad {name}"
            for rank in (0, 1):
                file = rank_file(4, sample_indices=list(range(4 * rank, 4 * rank + 4)),
                                 rollout_ids=list(range(4 * rank, 4 * rank + 4)))
                file["rank"] = rank
                if rank == 1:
                    file["rollout_data"][name][2:3] = [bad]
                support.save(path / f"train_data/0_{rank}.pt", file)
            said = self.run_program("import", path, "-o", self.folder / "unread")
            self.assertEqual(said.returncode, 3, said.stdout + said.stderr)
            self.assertIn(f"0_1.pt: sample 6: {said_of}", said.stderr)
            self.assertEqual(said.stderr.count(".pt"), 1, said.stderr)


def rollout_sample(index, **more):
    return {"index": index, "group_index": (index or 0) // 2, "tokens": [1, 2, 3], "response_length": 2,
            "response": "r", "prompt": "p", "reward": 1.0, "status": "completed",
            "loss_mask": [1, 1], "rollout_log_probs": [-0.5, -1.0], **more}


class Rollout(support.Case):
    def test_a_version_that_is_no_number_costs_its_sample_alone(self):
        path, dump = self.folder / "versions", self.folder / "versions dump"
        samples = [rollout_sample(i, weight_versions=v) for i, v in
                   enumerate((["3"], ["3", "default"], ["3", "4"], ["latest"]))]
        support.save(path / "rollout_data/0.pt", {"rollout_id": 0, "samples": samples})
        said = self.run_program("import", path, "-o", dump)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn('the weight version "default" of sample 1, and one of 1 other sample, is no '
                      'number', said.stdout + said.stderr)
        rows = [json.loads(line) for line in
                self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout.splitlines()]
        self.assertEqual([row["versions"] for row in rows], [[3], [], [3, 4], []])
        back, again = self.folder / "versions back", self.folder / "versions again"
        self.assertEqual(self.run_program("export", dump, "--to", "slime", "-o", back).returncode, 0)
        self.assertEqual(self.run_program("import", back, "-o", again).returncode, 0)
        self.assertEqual(self.run_program("diff", dump, again).returncode, 0)
        for verb in (["verify", "--deep", dump], ["show", dump], ["show", dump, "--samples"],
                     ["diff", path, dump]):
            said = self.run_program(*verb)
            self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_ids_that_are_not_the_files_are_said(self):
        """Where an index is missing or occurs twice; between files and imports alike."""
        paths = {}
        for name, indices in (("sound", [0, 1, 2]), ("twice", [5, 5, 7]), ("none", [None, 5, 7])):
            paths[name] = self.folder / f"ids {name}"
            support.save(paths[name] / "rollout_data/0.pt", {
                "rollout_id": 0, "samples": [rollout_sample(i, group_index=0) for i in indices]})
            made = self.run_program("import", paths[name], "-o", self.folder / f"ids {name} dump")
            self.assertEqual(made.returncode, 0, made.stderr)
        dump = {name: self.folder / f"ids {name} dump" for name in paths}
        told = "sample ids of {} are not those of its files: indices are missing, negative or occur twice"
        for a, b, sides in ((paths["twice"], dump["twice"], "AB"), (dump["none"], dump["twice"], "AB"),
                            (dump["sound"], paths["none"], "B"), (dump["twice"], paths["sound"], "A"),
                            (paths["sound"], dump["sound"], "")):
            contradicts = {"twice", "none"} & {a.name.split()[1], b.name.split()[1]}
            alone = a.name.split()[1] != b.name.split()[1]
            found, = self.lines("diff", a, b, code=1 if contradicts and alone else 0)
            for side in "AB":
                said = [note for note in found["notes"] if note.startswith(told.format(side))]
                self.assertEqual(len(said), side in sides, (a, b, found["notes"]))
        said = self.run_program("verify", "--deep", dump["none"])
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertIn("index is None or missing, and other samples of the file have one", said.stdout)


class Torn(support.Case):
    def test_verify_names_the_file_once(self):
        path = self.folder / "torn" / "rollout_data" / "0.pt"
        support.save(path, {"rollout_id": 0, "samples": []})
        for content in (b"", path.read_bytes()[:-100]):
            path.write_bytes(content)
            for words in ([path.parents[1]], [path]):
                said = self.run_program("verify", *words)
                self.assertEqual(said.returncode, 3, said.stdout)
                self.assertEqual(said.stdout.splitlines()[0].count("0.pt"), 1, said.stdout)


if __name__ == "__main__":
    support.Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
