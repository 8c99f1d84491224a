"""Files of frameworks that are long, torn, newer or say two things at once: what is told of them.

usage: framework_files_test.py RLREPLAY
"""
import os
import pathlib
import sys
import time
import unittest

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
        rows, seconds = 20000, []
        for stride in (1, 2):
            sums = make_fixtures.Storage("0", "Float", [2.0] * (rows * stride))
            column = make_fixtures.Tensor(sums, (rows,), (stride,))
            path = self.folder / f"stride {stride}" / "train_data" / "0_0.pt"
            path.parent.mkdir(parents=True)
            torch_files.save(path, rank_file(rows, rollout_mask_sums=column))
            begun = time.monotonic()
            made = self.run_program("import", path.parents[1], "-o", self.folder / f"dump {stride}")
            seconds.append(time.monotonic() - begun)
            self.assertEqual(made.returncode, 0, made.stderr)
        same = self.run_program("diff", *(self.folder / f"dump {stride}" for stride in (1, 2)))
        self.assertEqual(same.returncode, 0, same.stdout)
        self.assertLess(seconds[1], 3 * seconds[0] + 1, seconds)


if __name__ == "__main__":
    support.Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
