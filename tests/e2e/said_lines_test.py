"""Lines of JSON in which a sample lacks what the others have, or what training has of it.

usage: said_lines_test.py RLREPLAY
"""
import copy
import json
import os
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))

STEP_COLUMNS = ("log_probs", "old_log_probs", "ref_log_probs", "teacher_log_probs", "entropy", "advantages", "returns")
SAMPLES = range(4)
UNTRAINED = 3


def lines():
    """A rollout of four samples, of which a step trains on three."""
    out = []
    for i in SAMPLES:
        both = {"rollout_id": 2, "sample_id": i, "tokens": [5, 6, 7, 8 + i], "prompt_length": 2}
        log_probs, mask = [-0.5, -1.0 - i], [1, 0 if i == 1 else 1]
        out.append({"schema": "rlreplay.sample/1", **both, "log_probs": log_probs, "loss_mask": mask, "reward": 1.0})
        if i != UNTRAINED:
            out.append({"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, **both, "loss_mask": mask,
                        "rollout_log_probs": log_probs, **{name: [-0.25, -0.5] for name in STEP_COLUMNS}})
    return out


class SaidLines(Case):
    def verified(self, rows):
        """What verify --deep says of the lines, and of what is imported of them: the same."""
        path, dump = self.folder / "lines.jsonl", self.folder / "dump"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = self.run_program("import", path, "-o", dump, "--force")
        self.assertEqual(made.returncode, 0, made.stderr)
        said = []
        for verified in (path, dump):
            result = self.run_program("verify", "--deep", "--json", verified)
            report = json.loads(result.stdout)
            problems = [f"{p['code']}: {p['message']}" for p in report["problems"]]
            self.assertEqual(result.returncode, 1 if problems else 0)
            said.append((problems, [n for n in report["not_checked"] if not n.startswith("training on")]))
        self.assertEqual(said[0], said[1])
        return said[0]

    def without(self, key, *samples, schema="rlreplay.sample/1"):
        rows = copy.deepcopy(lines())
        for row in rows:
            if row["schema"] == schema and row["sample_id"] in samples:
                del row[key]
        return self.verified(rows)

    def test_of_whole_lines_nothing_is_said(self):
        self.assertEqual(self.verified(lines()), ([], []))

    def test_log_probs_that_training_has(self):
        problems, notes = self.without("log_probs", 1)
        self.assertEqual(problems, ["rollout-mismatch: log_probs of rollout 2 lacks sample 1, rollout_log_probs of "
                                    "step 2.0 has 2 numbers of it"])
        self.assertEqual(notes, [])

    def test_log_probs_that_training_lacks(self):
        problems, notes = self.without("rollout_log_probs", 2, schema="rlreplay.train/1")
        self.assertEqual(problems, ["rollout-mismatch: rollout_log_probs of step 2.0 lacks sample 2, log_probs of "
                                    "rollout 2 has 2 numbers of it"])
        self.assertEqual(notes, [])

    def test_what_one_side_leaves_out_is_held_against_nothing(self):
        self.assertEqual(self.without("log_probs", *SAMPLES), ([], []))
        self.assertEqual(self.without("rollout_log_probs", *SAMPLES, schema="rlreplay.train/1"), ([], []))

    def test_what_no_step_trains_on_is_a_note(self):
        self.assertEqual(self.without("log_probs", UNTRAINED),
                         ([], ["log_probs of rollout 2: sample 3 has none, 3 others have"]))
        self.assertEqual(self.without("reward", 0, 2),
                         ([], ["rewards of rollout 2: sample 0 and 1 more have none, 2 others have"]))

    def test_each_column_of_a_step(self):
        for column in STEP_COLUMNS:
            with self.subTest(column):
                self.assertEqual(self.without(column, 0, 1, schema="rlreplay.train/1"), (
                    [], [f"{column} of step 2.0: sample 0 and 1 more have none, 1 other has"]))

    def test_whatever_a_line_of_a_step_lacks(self):
        keys = {"reward": "rewards", "loss_mask": "loss_mask", "trajectory_id": "trajectory_id",
                "trajectory_tokens": "trajectory_tokens"}
        for key, column in keys.items():
            rows = lines()
            for row in rows:
                if row["schema"] == "rlreplay.train/1":
                    row |= {"reward": 0.5, "trajectory_id": row["sample_id"],
                            "trajectory_tokens": sum(row["loss_mask"])}
            self.assertEqual(self.verified(rows), ([], []))
            del next(row for row in rows if row["schema"] == "rlreplay.train/1" and row["sample_id"] == 2)[key]
            with self.subTest(key):
                self.assertEqual(self.verified(rows), (
                    [], [f"{column} of step 2.0: sample 2 has none, 2 others have"]))

    def test_whatever_a_line_of_a_rollout_lacks(self):
        values = {"group_id": 1, "prompt": "p", "response": "r", "label": "l", "roles": [0, 0, 1, 1],
                  "reward_components": {"acc": 1.0}, "removed": False,
                  "nucleus": {"sizes": [1, 1], "ids": [7, 8]}}
        columns = {"prompt": "prompt_text", "response": "response_text", "label": "label_text"}
        for key, value in values.items():
            rows = lines()
            for row in rows:
                if row["schema"] == "rlreplay.sample/1" and row["sample_id"] != 2:
                    row[key] = value
            with self.subTest(key):
                self.assertEqual(self.verified(rows), (
                    [], [f"{columns.get(key, key)} of rollout 2: sample 2 has none, 3 others have"]))

    def test_what_one_rank_has_of_its_samples_and_another_has_not(self):
        """An import of it would be a dump that no reader takes."""
        for key, value in (("micro_batch", 0), ("token_weights", [1, 1, 0.5, 1])):
            for has in (0, 1):
                with self.subTest(key, rank=has):
                    rows = lines()
                    for row in rows:
                        if row["schema"] == "rlreplay.train/1":
                            row["rank"] = int(row["sample_id"] > 0)
                            row.update({key: value} if row["rank"] == has else {})
                    path = self.folder / "ranks.jsonl"
                    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
                    made = self.run_program("import", path, "-o", self.folder / "ranks")
                    self.assertEqual(made.returncode, 3, made.stderr)
                    self.assertIn(f"'{key}' is {'here' if has else 'missing here'}, and the lines of "
                                  "train/2-0/rank0.h5", made.stderr)
                    self.assertFalse((self.folder / "ranks").exists())

    def test_a_mask_that_others_have(self):
        self.assertEqual(self.without("loss_mask", 1), (
            [], ["masks of step 2.0 that are not the rollout's: sample 1, token 3: 0, the rollout says None",
                 "loss_mask of rollout 2: sample 1 has none, 3 others have"]))
        self.assertEqual(self.without("loss_mask", 0), (  # ones, as the trainer has them
            [], ["loss_mask of rollout 2: sample 0 has none, 3 others have"]))


if __name__ == "__main__":
    unittest.main()
