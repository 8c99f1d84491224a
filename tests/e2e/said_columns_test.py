"""What a rollout and its training both say, of one sample set to None in one of them: every column that
both hold, in every form of their files.

usage: said_columns_test.py RLREPLAY
"""
import json
import os
import random
import shutil
import sys
import unittest

from edits import EditedRun, runs
from support import FULL, SEED

EditedRun.program = os.path.abspath(sys.argv.pop(1))

# A column of training, and the field of the rollout's samples that it is from.
FIELDS = {
    "truncated": "status", "rollout_ids": "rollout_id", "rollout_log_probs": "rollout_log_probs",
    "teacher_log_probs": "teacher_log_probs", "opd_reverse_kl": "opd_reverse_kl",
    "weight_versions": "weight_versions", "rollout_top_p_token_ids": "rollout_top_p_token_ids",
    "rollout_top_p_token_offsets": "rollout_top_p_token_offsets",
    "rollout_routed_experts": "rollout_routed_experts", "rollout_indexer_topk": "rollout_indexer_topk",
    "raw_reward": "reward", "local_raw_reward": "reward", "prompt": "prompt",
    "metadata": "train_metadata", "source_names": "metadata",
    "multimodal_train_inputs": "multimodal_train_inputs", "tokens": "tokens",
    "response_lengths": "response_length", "sample_indices": "index"}
COMPUTED = ("teacher_log_probs", "opd_reverse_kl")  # by a trainer that has the teacher, of no sample


def added(sample, shared):
    """What a run of experts, images and a teacher says besides."""
    length = sample["response_length"]
    return {
        "prompt": sample["prompt"], "rollout_id": 100 + sample["index"] // shared, "teacher_log_probs": [-1.5] * length,
        "opd_reverse_kl": [0.25] * length, "rollout_top_p_token_ids": [7] * length,
        "rollout_top_p_token_offsets": list(range(length + 1)),
        "rollout_routed_experts": [i % 8 for i in sample["tokens"][1:]],
        "rollout_indexer_topk": [3, 4], "train_metadata": {"kind": "sums"},
        "metadata": {"source_name": "web"}, "multimodal_train_inputs": {"pixels": [0.5, 0.25]}}


class Training:
    """The rows of one file of training data, of columns or of rows."""
    def __init__(self, content):
        self.columns = content.get("rollout_data")
        self.rows = content.get("samples")

    def samples(self):
        if self.columns:
            return self.columns["sample_indices"]
        return [row.get("sample_indices", row["sample_index"]) for row in self.rows]

    def of(self, column):
        """The cells of its samples; nothing where the file has it in another way."""
        if self.rows:
            return [row[column] for row in self.rows] if column in self.rows[0] else None
        cells = self.columns.get(column)
        return cells if isinstance(cells, list) and len(cells) == len(self.samples()) else None

    def put(self, column, cells):
        if self.columns:
            self.columns[column] = cells
        for row, cell in zip(self.rows or (), cells):
            row[column] = cell


class SaidColumns(EditedRun):
    def rich(self, run):
        """A run in which both sides hold each column, as far as its files have a place for it."""
        files = self.files(run)
        shared = 2 if run[0] == "slime-latest" else 1  # samples of a trajectory
        trainings = [Training(files[name]) for name in sorted(files) if name.startswith("train_data/0")]
        self.samples = {s["index"]: s for s in files["rollout_data/0.pt"]["samples"]}
        for sample in self.samples.values():
            sample.update(added(sample, shared), remove_sample=False)
        ids = [sample["rollout_id"] for sample in self.samples.values()]
        for training in trainings:
            of = [self.samples[i] for i in training.samples()]
            training.put("rollout_mask_sums", [
                float(sum(sum(s["loss_mask"] or [1] * s["response_length"])
                          for s in self.samples.values() if s["rollout_id"] == one["rollout_id"]))
                for one in of])
            for column, field in FIELDS.items():
                if column in COMPUTED and self.cut:
                    continue
                if column == "source_names":
                    training.put(column, ["web"] * len(of))
                elif column == "local_raw_reward" or training.of(column) is None and field in added(of[0], 1):
                    training.put(column, [s[field] for s in of])
            training.put("rollout_ids", [s["rollout_id"] for s in of])
        return files, trainings

    def said(self, files):
        """What each verb says of it, and how it ends."""
        shutil.rmtree(self.folder / "edited", ignore_errors=True)
        folder = self.written("edited", files)
        dump = self.folder / "dump"
        deep = self.run_program("verify", "--deep", "--all", "--json", folder)
        out = {"deep": (deep.returncode, json.loads(deep.stdout)["problems"])}
        made = self.run_program("import", folder, "-o", dump, "--force")
        out["import"] = made.returncode, made.stdout + made.stderr
        if made.returncode == 0:
            again = self.run_program("verify", "--deep", "--all", "--json", dump)
            out["imported"] = again.returncode, json.loads(again.stdout)["problems"]
        result = self.run_program("diff", "--all", self.sound, folder)
        out["diff"] = result.returncode, result.stdout + result.stderr
        return out

    def edits(self, run):
        """Each is a name, the words that must be said, and a function of the files."""
        _, trainings = self.rich(run)
        held = [c for c in FIELDS if any(t.of(c) for t in trainings)] + ["raw_reward"] * (
            not any(t.of("raw_reward") for t in trainings))
        if run[0] == "relax":
            held.remove("raw_reward")  # as its trainer has shaped it
        self.seen.update(held)
        indices = sorted(self.samples)
        draw = random.Random(f"{SEED} {run}")
        for column in held:
            field = FIELDS[column]
            place = draw.randrange(len(indices))

            def none(files, _, field=field, place=place):
                files["rollout_data/0.pt"]["samples"][place][field] = None

            def missing(files, _, field=field, place=place):
                del files["rollout_data/0.pt"]["samples"][place][field]

            def all_none(files, _, field=field):
                for sample in files["rollout_data/0.pt"]["samples"]:
                    sample[field] = None

            def trained_none(_, trainings, column=column, index=indices[place]):
                for training in trainings:
                    if index in training.samples() and training.of(column):
                        cells = list(training.of(column))
                        cells[training.samples().index(index)] = None
                        training.put(column, cells)

            def rank_none(_, trainings, column=column):
                training = trainings[-1]
                training.put(column, [None] * len(training.samples()))

            at = f"sample {indices[place]}", f"row {place}", f"[{place}]"
            rows = [f"row {t.samples().index(indices[place])}" for t in trainings
                    if indices[place] in t.samples()]
            if (run[0], column) != ("relax", "rollout_ids"):  # ids that no two samples share are held against nothing
                yield f"{column}: the rollout's is None", column, at, none
                yield f"{column}: the rollout's is missing", column, at, missing
            if column not in (*COMPUTED, "rollout_ids", "source_names", "sample_indices"):
                yield f"{column}: the rollout's are None", column, (), all_none
            if any(t.of(column) for t in trainings):
                yield f"{column}: the training's is None", column, (*at, *rows), trained_none
            if len(trainings) > 1 and trainings[-1].of(column):
                yield f"{column}: a rank's are None", column, (), rank_none

    def check(self, column, at, said):
        names = column, FIELDS[column]
        refused = said["import"][0] != 0
        for verb, (code, found) in said.items():
            self.assertIn(code, (0,) if (verb, refused) == ("import", False) else (1, 3), (verb, found))
            if isinstance(found, list):
                found = "\n".join(f"{p['message']} {p['path']} {p['dataset']}" for p in found)
            lines = [line for line in found.splitlines() if any(name in line for name in names)]
            self.assertTrue(lines, (verb, found))
            if at and verb != "diff" and not (verb == "import" and refused):
                self.assertTrue(any(word in line for line in lines for word in at), (verb, lines))

    def test_what_both_hold_is_missed_where_one_has_it_not(self):
        self.seen = set()
        for run in runs.RUNS:
            if run.tensor_ranks_differ:  # nor is the run sound
                continue
            self.cut = run.cp > 1 and run.folder != "slime-latest"
            run = run.folder, run.name
            files, _ = self.rich(run)
            self.sound = self.written("sound " + "-".join(run), files)
            self.lines("verify", "--deep", self.sound, code=0)
            edits = list(self.edits(run))
            if not FULL:
                edits = random.Random(SEED).sample(edits, 3)
            for name, column, at, edit in edits:
                files, trainings = self.rich(run)
                edit(files, trainings)
                with self.subTest(run=run, edit=name):
                    self.check(column, at, self.said(files))
        self.assertEqual(self.seen, set(FIELDS))


if __name__ == "__main__":
    unittest.main()
