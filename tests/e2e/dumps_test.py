"""verify finds what is missing or contradicts itself.
usage: dumps_test.py PROGRAM
"""
import json
import os
import pathlib
import pickle
import sys
import unittest
import zipfile

from support import Case

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

def save(path, content):
    """A file as torch.save writes it, of lists and numbers alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(path.stem + "/data.pkl", pickle.dumps(content, 2))
        archive.writestr(path.stem + "/version", "3\n")


def rank_file(rank, samples):
    """One rank's training data as slime wrote it; samples: index to log-probability."""
    data = {"tokens": [[1, 2, 3, 4]] * len(samples), "total_lengths": [4] * len(samples),
            "response_lengths": [2] * len(samples), "loss_masks": [[1, 1]] * len(samples),
            "rewards": [0.5] * len(samples), "sample_indices": list(samples),
            "rollout_ids": list(samples), "global_batch_sizes": [4],
            "log_probs": [[x, x] for x in samples.values()]}
    return {"rollout_id": 0, "rank": rank, "rollout_data": data}


class Verify(Case):
    def problems(self, path, *flags, code=1):
        found, = self.lines("verify", path, *flags, code=code)
        return [(p["code"], p["message"]) for p in found["problems"]]

    def foreign(self, name, *ranks):
        for rank, samples in ranks:
            save(self.folder / name / f"train_data/0_{rank}.pt", rank_file(rank, samples))
        return self.folder / name

    def test_ranks_of_foreign_files(self):
        halves = (0, {0: -0.5, 2: -0.25}), (1, {1: -1.0, 3: -2.0})
        self.assertEqual(self.problems(self.foreign("whole", *halves), code=0), [])
        (code, message), = self.problems(self.foreign("half", halves[0]))
        self.assertEqual(code, "rank-missing")
        self.assertIn("the files of rank 0 hold 2", message)
        # One file stands for itself.
        self.assertEqual(self.problems(self.folder / "half/train_data/0_0.pt", code=0), [])
        copies = halves[0], (1, dict(halves[0][1])), (2, halves[1][1]), (3, {1: -1.0, 3: -2.5})
        (code, message), = self.problems(self.foreign("copies", *copies))
        self.assertEqual(code, "replica-mismatch")
        self.assertIn("rank 3", message)

    def test_ranks_of_a_dump(self):
        row = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "prompt_length": 1,
               "tokens": [1, 2, 3], "loss_mask": [1, 1], "old_log_probs": [-1.0, -0.5]}
        other = {**row, "sample_id": 1, "rank": 1}
        lines = [{**row, "sample_id": 1, "rank": 0}, other]

        def dump(name):
            path = self.folder / (name + ".jsonl")
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            result = self.run_program("import", path, "-o", self.folder / name)
            self.assertEqual(result.returncode, 0, result.stderr)
            return self.folder / name

        self.assertEqual(self.problems(dump("agree"), "--deep", code=0), [])
        other["old_log_probs"] = [-1.0, -0.25]
        path = dump("disagree")
        self.assertEqual(self.problems(path, code=0), [])
        (code, message), = self.problems(path, "--deep")
        self.assertEqual(code, "replica-mismatch")
        self.assertIn("differs between ranks 0 and 1 at token 2", message)
        lines[:] = [other]
        (code, message), = self.problems(dump("gone"), code=3)
        self.assertEqual(code, "rank-missing")
        other["old_log_probs"], other["rank"] = ["7fc00000", -0.25], 0
        (code, message), = self.problems(dump("nan"), "--deep")
        self.assertEqual((code, message), ("non-finite",
                                           "old_log_probs of sample 1 is nan at token 1"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
