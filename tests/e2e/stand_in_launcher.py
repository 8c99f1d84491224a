"""Stands for the launcher of slime or Miles: takes its flags and writes what it writes.

usage: stand_in_launcher.py slime|miles [--exit N] [--nothing] [--wait] FLAGS...
"""
import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "foreign"))
from make_fixtures import Storage, Tensor, save  # pylint: disable=wrong-import-position

PROMPT, RESPONSE, SAMPLES = 3, 4, 4


def sample(i):
    return {"group_index": i // 2, "index": i, "prompt": f"{i}+{i}=", "response": str(2 * i),
            "tokens": [10 * i + t for t in range(PROMPT + RESPONSE)], "response_length": RESPONSE,
            "label": str(2 * i), "reward": float(i % 2), "loss_mask": [1] * RESPONSE,
            "weight_versions": ["1"], "rollout_log_probs": [-0.5 - i - t for t in range(RESPONSE)],
            "remove_sample": False, "status": "completed", "metadata": {}}


class Columns:
    """Tensors as the trainer holds them."""

    def __init__(self, location):
        self.location, self.count = location, 0

    def tensor(self, kind, values):
        self.count += 1
        return Tensor(Storage(str(self.count - 1), kind, values, self.location), (len(values),),
                      (1,))

    def row(self, i):
        return {"tokens": self.tensor("Long", sample(i)["tokens"]),
                "total_lengths": PROMPT + RESPONSE, "response_lengths": RESPONSE,
                "rewards": float(i % 2) - 0.5, "truncated": 0,
                "loss_masks": self.tensor("Int", [1] * RESPONSE),
                "log_probs": self.tensor("Float", [-0.5 - i - t for t in range(RESPONSE)]),
                "advantages": self.tensor("Float", [i - 1.5] * RESPONSE)}


def slime_train():
    made = Columns("cpu")
    rows = [{"data_parallel_rank": i % 2, "sample_index": i, "rollout_position": i, **made.row(i)}
            for i in range(SAMPLES)]
    shards = [{"rank": r, "data_parallel_rank": r, "sample_indices": [r, r + 2],
               "partition": [r, r + 2], "micro_batch_indices": [[0], [1]],
               "num_microbatches": [2], "global_batch_sizes": [SAMPLES]} for r in range(2)]
    return {"format_version": 2, "rollout_id": 0, "rank": 0, "samples": rows, "dp_shards": shards,
            "raw_reward": [float(i % 2) for i in range(SAMPLES)]}


def miles_train(rank):
    made = Columns(f"cuda:{rank}")
    ids = [rank, rank + 2]
    rows = [made.row(i) for i in ids]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return {"rollout_id": 0, "rank": rank, "cp_rank": 0, "cp_size": 1, "qkv_format": "thd",
            "rollout_data": {**columns, "sample_indices": ids,
                             "raw_reward": [float(i % 2) for i in range(SAMPLES)]}}


def write(pattern, name, value, **ids):
    path = pathlib.Path(pattern.format(**ids))
    path.parent.mkdir(parents=True, exist_ok=True)
    assert path.name == f"{name}.pt", path
    save(path.parent, name, value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("framework")
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--nothing", action="store_true")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--said")  # a file that gets the words and the environment
    parser.add_argument("--dump-details")
    parser.add_argument("--save-debug-rollout-data")
    parser.add_argument("--save-debug-train-data")
    own, _ = parser.parse_known_args()
    if own.said:
        pathlib.Path(own.said).write_text(json.dumps([sys.argv, dict(os.environ)]))
    slime = own.framework == "slime"
    train = "{rollout_id}.pt" if slime else "{rollout_id}_{rank}.pt"
    if own.dump_details:
        own.save_debug_rollout_data = own.dump_details + "/rollout_data/{rollout_id}.pt"
        own.save_debug_train_data = own.dump_details + "/train_data/" + train
    if own.save_debug_rollout_data and not own.nothing:
        rollout = {"rollout_id": 0, "samples": [sample(i) for i in range(SAMPLES)]}
        if not slime:
            rollout["metadata"] = {}
        write(own.save_debug_rollout_data, "0", rollout, rollout_id=0)
    if own.wait:
        print("waiting", flush=True)
        time.sleep(60)
    if own.save_debug_train_data and not own.nothing:
        for rank in range(1 if slime else 2):
            write(own.save_debug_train_data, "0" if slime else f"0_{rank}",
                  slime_train() if slime else miles_train(rank), rollout_id=0, rank=rank)
    sys.exit(own.exit)


main()
