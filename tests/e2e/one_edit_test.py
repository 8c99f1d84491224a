"""One edit of a framework's files, and which verb names it: a line of EDITS each.

usage: one_edit_test.py RLREPLAY
"""
import json
import os
import pathlib
import struct
import sys
import unittest

from support import Case

sys.path += [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("foreign", "material")]
import make_fixtures as fixtures  # noqa: E402
import runs  # noqa: E402
from torch_files import archive, members  # noqa: E402

Case.program = os.path.abspath(sys.argv.pop(1))

PLAIN, DEEP, IMPORT, IMPORTED, MISMATCH, DIFF = (
    "verify", "verify --deep", "import", "verify --deep of what was imported", "mismatch", "diff")


# -- edits: of a run's files, by path ------------------------------------------------------------
def put(file, *place, to):
    """The value at a place: keys, rows, and elements of tensors; `to` may be a function of it."""
    def edit(files):
        at = files[file]
        for key in place[:-1]:
            at = at[key]
        key = place[-1]
        values, k = (at.storage.values, at.offset + key) if isinstance(at, fixtures.Tensor) else (at, key)
        values[k] = to(values[k]) if callable(to) else to
    return edit


def train(file, *place, to):
    return put(file, "rollout_data", *place, to=to)


def copied(file, over):
    """A copy in another's place."""
    def edit(files):
        files[over] = files[file]
    return edit


def gone(file):
    def edit(files):
        del files[file]
    return edit


def lacks(file, *place):
    """A key of a dict, or an entry of a list, is not there."""
    def edit(files):
        at = files[file]
        for key in place[:-1]:
            at = at[key]
        del at[place[-1]]
    return edit


def longer(file, column):
    """A column of training data with its last entry twice."""
    def edit(files):
        values = files[file]["rollout_data"][column]
        values.append(values[-1])
    return edit


def both(*edits):
    def edit(files):
        for one in edits:
            one(files)
    return edit


# -- the runs ------------------------------------------------------------------------------------
TENSOR = ("miles-latest", "grpo-tp2dp2")  # ranks 0 and 1 hold the same samples
CONTEXT = ("miles-latest", "grpo-cp2dp2")
OLD_CONTEXT = ("slime-old", "grpo-cp2dp2")
STAGES = ("slime-old", "grpo-pp2")
MILES_STAGES = ("miles-latest", "grpo-pp2")
MILES = ("miles-latest", "grpo-dp2")


DATA = ("slime-old", "grpo-dp2")  # two rollouts, two ranks
LISTS = ("slime-2025", "grpo-dp2")  # which says nothing of sizes of batches
LATEST = ("slime-latest", "grpo-dp2")
READERS = (PLAIN, DEEP, IMPORT, IMPORTED, MISMATCH)
KEEPING = (PLAIN, DEEP, IMPORT, IMPORTED)
REFUSING = (PLAIN, DEEP, IMPORT, MISMATCH, DIFF)


def shards(*place, to):
    return put("train_data/0.pt", "dp_shards", *place, to=to)


def popped(*keys):
    """The last of a list is not there."""
    def edit(files):
        at = files["train_data/0.pt"]
        for key in keys:
            at = at[key]
        at.pop()
    return edit


SHORTER = "shorter"


def copies(column, of, to=None):
    """A column of both kinds of files of rollout 0, alike; `to`: one place of rank 1's file, or that
    the first of its entries is SHORTER."""
    def edit(files):
        samples = files["rollout_data/0.pt"]["samples"]
        for sample in samples:
            sample[column] = of(sample)
        for rank in (0, 1):
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            data[column] = [list(samples[i][column]) for i in data["sample_indices"]]
        if to == SHORTER:
            data[column][0].pop()
        elif to is not None:
            data[column][0][1] = to
    return edit


def local_rewards(to):
    """Each rank's raw rewards of its own samples; `to`: the second one of rank 1."""
    def edit(files):
        for rank in range(4):
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            data["local_raw_reward"] = [data["raw_reward"][i] for i in data["sample_indices"]]
        files["train_data/0_1.pt"]["rollout_data"]["local_raw_reward"][1] = to
    return edit


def distilled(column, to=None):
    """The training has a column of the rollout in binary32."""
    def rounded_copies(files):
        for rank in (0, 1):
            for values in files[f"train_data/0_{rank}.pt"]["rollout_data"][column]:
                values[:] = [struct.unpack("f", struct.pack("f", x))[0] for x in values]
    return both(copies(column, lambda s: [-1.3] * s["response_length"], to), rounded_copies)


def popped_of(file, *place):
    """A list of any file without its last entry."""
    def edit(files):
        at = files[file]
        for key in place:
            at = at[key]
        at.pop()
    return edit


def nuclei(to=None):
    return both(copies("rollout_top_p_token_ids", lambda s: [7] * s["response_length"], to),
                copies("rollout_top_p_token_offsets",
                       lambda s: list(range(s["response_length"] + 1))))


def copies_apart(column):
    """Copies of a rollout's column in its training that differ in one place, and in a later one."""
    def later(files):
        files["train_data/0_1.pt"]["rollout_data"][column][0][2] = 9
    return copies(column, lambda s: [7] * (len(s["tokens"]) - 1), to=8), later


def experts(to=None):
    return copies("rollout_routed_experts", lambda s: [i % 8 for i in s["tokens"][1:]], to)


def renamed(column, of, said):
    """A column of rollout 0's training that another field of its samples says, one of them otherwise."""
    def edit(files):
        samples = files["rollout_data/0.pt"]["samples"]
        for sample in samples:
            sample.update(of(sample))
        for rank in (0, 1):
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            data[column] = [said(samples[i]) for i in data["sample_indices"]]
        data[column][1] = "another"
    return edit


def prompts(files):
    """The prompts of rollout 0 in its training, one of them another."""
    prompt = {s["index"]: s["prompt"] for s in files["rollout_data/0.pt"]["samples"]}
    for rank in (0, 1):
        data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
        data["prompt"] = [prompt[i] for i in data["sample_indices"]]
    train("train_data/0_0.pt", "prompt", 0, to="q")(files)


def rounded(kind, bits):
    """The trainer's copy of log-probabilities in a type of 16 bits."""
    def edit(files):
        for rank in (0, 1):
            for column in files[f"train_data/0_{rank}.pt"]["rollout_data"]["rollout_log_probs"]:
                for i in range(column.offset, column.offset + column.shape[0]):
                    x = column.storage.values[i]
                    if kind == "e":
                        column.storage.values[i] = struct.unpack("e", struct.pack("e", x))[0]
                        continue
                    number, = struct.unpack("<I", struct.pack("<f", x))
                    number = (number + (1 << bits - 1)) >> bits << bits
                    column.storage.values[i], = struct.unpack("<f", struct.pack("<I", number))
    return edit


def at_mask(value, of=0):
    """A log-probability that sampler and trainer have of a token with the mask `of`."""
    def edit(files):
        sample = files["rollout_data/0.pt"]["samples"][0]
        at = sample["loss_mask"].index(of)
        sample["rollout_log_probs"][at] = value
        train("train_data/0_0.pt", "rollout_log_probs", 0, at, to=value)(files)
    return edit


def cells_shorter(file):
    """Every number of the response of a rank's samples, one fewer."""
    def edit(files):
        data = files[file]["rollout_data"]
        for column, cells in data.items():
            if column in ("loss_masks", "tokens") or not isinstance(cells, list):
                continue
            for i, cell in enumerate(cells):
                if isinstance(cell, fixtures.Tensor):
                    begin = cell.offset
                    cells[i] = list(cell.storage.values[begin:begin + cell.shape[0] - 1])
    return edit


def without_rollouts(*edits):
    """A run of which only the training was dumped."""
    return both(*edits, gone("rollout_data/0.pt"), gone("rollout_data/1.pt"))


def terms(file, **said):
    """Miles' policy_loss_debug, of no sample."""
    return lambda files: files.update({f"policy_loss_debug/{file}.pt": {
        "rank": 0, "call": 0, "samples": [], "ppo_kl": [], "pg_loss": [], "finite": {}, **said}})


def trained_terms(*edits, groups=None, ranks=(0, 1)):
    """Miles' policy_loss_debug of the first micro-batch of two ranks, as their training data have it;
    `groups`: of as many samples, each of which then says its place there."""
    def numbers(column):
        return list(column.elements() if isinstance(column, fixtures.Tensor) else column)

    def edit(files):
        for rank in ranks:
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            rows = []
            for i in data["micro_batch_indices"][0]:
                old, sample = numbers(data["log_probs"][i]), data["sample_indices"][i]
                rows.append({
                    "index": len(rows), "total_length": data["total_lengths"][i],
                    "response_length": len(old), "train_log_probs": [x - 0.25 for x in old],
                    "old_log_probs": old, "advantages": numbers(data["advantages"][i]),
                    "local_loss_mask": [float(x) for x in numbers(data["loss_masks"][i])],
                    "rollout_log_probs": numbers(data["rollout_log_probs"][i])})
                if groups:
                    rows[-1].update(group_index=sample // groups, in_group_id=sample % groups)
            tokens = sum(row["response_length"] for row in rows)
            terms(f"rank_{rank}_call_0", rank=rank, samples=rows, ppo_kl=[0.25] * tokens,
                  pg_loss=[0.5] * tokens)(files)
        both(*edits)(files)
    return edit


def term(*place, to, rank=0):
    return put(f"policy_loss_debug/rank_{rank}_call_0.pt", *place, to=to)


def called_again(*edits):
    """The first call's terms of rank 0 a second time."""
    def edit(files):
        files["policy_loss_debug/rank_0_call_1.pt"] = {
            **files["policy_loss_debug/rank_0_call_0.pt"], "call": 1}
    return trained_terms(edit, *edits)


def every(words, *verbs):
    return dict.fromkeys(verbs or READERS, words)


def replica(column, *where, verbs=(PLAIN, DEEP, IMPORT, IMPORTED, MISMATCH, DIFF)):
    """Every reader names the column, and where: the sample, both ranks and their values."""
    words = (f"{column} of rank 1 differs from that of rank 0", "train_data/0_1.pt", *where)
    return {verb: words for verb in verbs}


def replica_lacks(column, *where):
    """That one sample lacks it the file itself says, and first; mismatch names what comes first."""
    said = replica(column, *where)
    return said | {MISMATCH: (f"{column} is None or missing, and sample 0 of the file has it",)}


# name, run, edit, words by verb: each verb says all of them, and does not of the run as it is.
EDITS = (
    ("a replica's reward", TENSOR, train("train_data/0_1.pt", "rewards", 1, to=9.5),
     replica("rewards", "sample 2: 9.5, rank 0 says -0.375")),
    ("a replica's raw rewards", TENSOR, train("train_data/0_1.pt", "raw_reward", 1, to=9.5),
     replica("raw_reward", "raw_reward[1]: 9.5, rank 0 says 0")),
    ("a replica's sums of masks", TENSOR,
     train("train_data/0_1.pt", "rollout_mask_sums", 1, to=lambda x: x + 1),
     replica("rollout_mask_sums", "sample 2")),
    ("a replica's truncation", TENSOR,
     train("train_data/0_1.pt", "truncated", 2, to=lambda x: 1 - x),
     replica("truncated", "sample 4: 0, rank 0 says 1")),
    ("a replica's rollout ids", TENSOR, train("train_data/0_1.pt", "rollout_ids", 0, to=77),
     replica("rollout_ids", "sample 0: 77, rank 0 says 0")),
    ("a replica's micro-batches", TENSOR,
     train("train_data/0_1.pt", "micro_batch_indices", to=[[1, 0], [2, 3]]),
     replica("micro_batch_indices", "micro_batch_indices[0][0]: 1, rank 0 says 0")),
    ("a replica's batch sizes", STAGES,
     train("train_data/0_1.pt", "global_batch_sizes", 1, to=3),
     {PLAIN: ("global_batch_sizes of rank 0 differs from that of rank 1",
              "global_batch_sizes[1]: 4, rank 1 says 3")}),
    ("a replica's nuclei", TENSOR,
     both(*(train(f"train_data/0_{rank}.pt", "rollout_top_p_token_ids",
                  to=[[5, 6, 7 + (rank == 1)], [5], [6], [7]]) for rank in range(4))),
     replica("rollout_top_p_token_ids", "sample 0[2]: 8, rank 0 says 7")),
    ("a replica's log-probability", TENSOR,
     train("train_data/0_1.pt", "log_probs", 0, 2, to=-0.125),
     replica("log_probs", "sample 0, position 2 of the response: -0.125, rank 0 says")),
    ("a context rank's mask", CONTEXT, train("train_data/0_1.pt", "loss_masks", 1, 0, to=0),
     replica("loss_masks", "sample 2[0]: 0, rank 0 says 1")),
    *((f"of one sample rank {rank} has no {column}", TENSOR,
       train(f"train_data/0_{rank}.pt", column, 1, to=None), replica_lacks(column, *where))
      for rank, column, *where in ((1, "tokens", "sample 2: None, rank 0 says "),
                                   (1, "loss_masks", "sample 2: None, rank 0 says "),
                                   (0, "loss_masks", " numbers, rank 0 says None"))),
    *((f"of one sample a replica has no {column}", TENSOR,
       train("train_data/0_1.pt", column, 1, to=None),
       replica_lacks(column, "sample 2: None, rank 0 says ", " numbers"))
      for column in ("rollout_log_probs", "log_probs", "ref_log_probs", "entropy", "advantages",
                     "returns")),
    ("of one sample a later stage has no advantages", STAGES,
     train("train_data/0_1.pt", "rollout_log_probs", 1, to=None),
     every(("rollout_log_probs of rank 1 differs from that of rank 0", "None, rank 0 says "),
           *KEEPING, DIFF)),
    *((f"the training's {column} of a sample", run, edit,
       every((f"{column} of the training data is not what the rollout says", *where),
             DEEP, IMPORT, IMPORTED))
      for column, run, edit, where in (
          ("truncated", DATA, train("train_data/1_1.pt", "truncated", 2, to=lambda x: 1 - x),
           ("train_data/1_1.pt: sample 21: 1, the rollout says 0",)),
          ("weight_versions", TENSOR,
           both(*(train(f"train_data/0_{rank}.pt", "weight_versions", 1, to=["7"])
                  for rank in (0, 1))),
           ("train_data/0_0.pt: sample 2[0]: '7', the rollout says '0'",)),
          ("prompt", DATA, prompts, ("train_data/0_0.pt: sample 0: 'q', the rollout says ",)),
          ("metadata", DATA, renamed("metadata", lambda s: {"train_metadata": "kept"},
                                     lambda s: s["train_metadata"]),
           ("train_data/0_1.pt: sample 3: 'another', the rollout says 'kept'",)),
          ("source_names", DATA, renamed("source_names", lambda s: {"metadata": {"source_name": "web"}},
                                         lambda s: s["metadata"]["source_name"]),
           ("train_data/0_1.pt: sample 3: 'another', the rollout says 'web'",)),
          ("rollout_indexer_topk", DATA, copies("rollout_indexer_topk", lambda s: [7, 7], to=8),
           ("train_data/0_1.pt: sample 1[1]: 8, the rollout says 7",)))),
    ("of one sample a rank has no sum of masks", TENSOR,
     train("train_data/0_1.pt", "rollout_mask_sums",
           to=lambda sums: [None if i == 1 else x for i, x in enumerate(sums.storage.values)]),
     replica_lacks("rollout_mask_sums", "sample 2: None, rank 0 says ")),
    ("a copy of rank 0's file in place of rank 1's", LISTS,
     copied("train_data/0_0.pt", over="train_data/0_1.pt"),
     every(("says it is of rank 0, its name of 1", "0_1.pt"))),
    ("a copy of rank 0's file in place of its replica's", TENSOR,
     copied("train_data/0_0.pt", over="train_data/0_1.pt"),
     every(("says it is of rank 0, its name of 1", "0_1.pt"))),
    ("a copy of the first call's terms in place of another's", TENSOR,
     both(terms("rank_0_call_0"), terms("rank_0_call_1")),
     every(("says it is of call 0, its name of 1", "policy_loss_debug/rank_0_call_1.pt"),
           *READERS, DIFF)),
    ("a copy of rank 0's terms in place of rank 12's", TENSOR, terms("rank_12_call_3", call=3),
     every(("says it is of rank 0, its name of 12", "policy_loss_debug/rank_12_call_3.pt"),
           *READERS, DIFF)),
    ("the policy's terms do not say their call", TENSOR, both(
        terms("rank_0_call_0"), lacks("policy_loss_debug/rank_0_call_0.pt", "call")),
     every(("call is missing or not an integer", "policy_loss_debug/rank_0_call_0.pt"),
           *REFUSING)),
    *((f"the policy's terms have another {column} than the training", MILES,
       trained_terms(term("samples", 1, column, 2, to=-0.0625)),
       every((f"policy-loss-mismatch: {column} of policy_loss_debug is not what the training data says",
              "policy_loss_debug/rank_0_call_0.pt: row 1: sample 2 of step 0.0, token 8: -0.0625, "
              "the training data says "), *KEEPING[1:]))
      for column in ("advantages", "local_loss_mask", "rollout_log_probs", "old_log_probs")),
    ("the policy's terms say another place", MILES, trained_terms(term("samples", 1, "index", to=0)),
     every(("policy-loss-mismatch: a row of policy_loss_debug has another index than its place",
            "policy_loss_debug/rank_0_call_0.pt: row 1: index 0"), *KEEPING[1:])),
    *((f"the policy's terms say another {key}", MILES,
       trained_terms(term("samples", 1, key, to=3), groups=4),
       every(("policy-loss-mismatch: group_index and in_group_id of policy_loss_debug are not those of "
              "the sample", "policy_loss_debug/rank_0_call_0.pt: row 1: sample 2 of step 0.0: "),
             *KEEPING[1:]))
      for key in ("group_index", "in_group_id")),
    ("the policy's terms of one call twice", MILES, called_again(),
     every(("policy-loss-mismatch: a row of policy_loss_debug occurs twice",
            "policy_loss_debug/rank_0_call_1.pt: row 0: as policy_loss_debug/rank_0_call_0.pt: row 0"),
           *KEEPING[1:])),
    *((f"two ranks of the same samples have other {column}", TENSOR, trained_terms(edit),
       every((f"policy-loss-mismatch: {column} of policy_loss_debug differs between rows of one sample",
              f"policy_loss_debug/rank_1_call_0.pt: row 0: position {at} of the response: ",
              "policy_loss_debug/rank_0_call_0.pt: row 0 says "), *KEEPING[1:]))
      for column, at, edit in (
          ("train_log_probs", 2, term("samples", 0, "train_log_probs", 2, to=-7.5, rank=1)),
          ("advantages", 2, term("samples", 0, "advantages", 2, to=-7.5, rank=1)),
          ("pg_loss", 1, term("pg_loss", 1, to=-7.5, rank=1)))),
    *((f"a copy of rank 1's file in place of rank 0's, {name}", run,
       copied("train_data/0_1.pt", over="train_data/0_0.pt"),
       every(("says it is of rank 1, its name of 0", "0_0.pt"), *REFUSING))
      for name, run in (("of other samples", DATA), ("of another stage", STAGES),
                        ("of another slice", OLD_CONTEXT), ("of a slice that says so", CONTEXT))),
    ("a copy of rollout 1's training in place of rollout 0's", DATA,
     copied("train_data/1_0.pt", over="train_data/0_0.pt"),
     every(("says it is of rollout_id 1, its name of 0", "0_0.pt"), *REFUSING)),
    *((f"a copy of rollout {of}'s samples in place of rollout {1 - of}'s", DATA,
       copied(f"rollout_data/{of}.pt", over=f"rollout_data/{1 - of}.pt"),
       every((f"says it is of rollout_id {of}, its name of {1 - of}",), *REFUSING))
      for of in (0, 1)),
    *((f"all cells of rank {rank} are one element shorter", STAGES,
       cells_shorter(f"train_data/0_{rank}.pt"),
       every(("rollout_log_probs does not have the length of its slice",
              f"train_data/0_{rank}.pt: sample 0"), *REFUSING)) for rank in (0, 1)),
    ("a file that says another rank", DATA, put("train_data/1_1.pt", "rank", to=0),
     every(("says it is of rank 0, its name of 1", "1_1.pt"))),
    *((f"a rank has one of {column} too many", TENSOR, longer("train_data/0_1.pt", column),
       every((f"{column} has 5 entries, 4 are expected", "train_data/0_1.pt"), PLAIN, DEEP))
      for column in ("weight_versions", "rollout_ids", "returns")),
    ("a column of one sample is longer than its response", LATEST,
     put("train_data/0.pt", "samples", 3, "ref_entropy", to=lambda x: [0.5] * 99),
     every(("ref_entropy has 99 entries, ", "train_data/0.pt: sample 3"), PLAIN, DEEP)),
    ("a copy of rollout 0's training in place of rollout 1's", LATEST,
     copied("train_data/0.pt", over="train_data/1.pt"),
     every(("says it is of rollout_id 0, its name of 1", "1.pt"), PLAIN, DEEP)),
    ("a copy of rollout 0's samples in place of rollout 1's", LATEST,
     copied("rollout_data/0.pt", over="rollout_data/1.pt"),
     every(("says it is of rollout_id 0, its name of 1", "1.pt"), PLAIN, DEEP)),
    ("a sample lacks its index", DATA, lacks("rollout_data/1.pt", "samples", 5, "index"),
     every(("index is None or missing, and other samples of the file have one",
            "rollout_data/1.pt: sample 5"), *KEEPING, DIFF)),
    ("a rollout's file does not say its rollout", DATA, lacks("rollout_data/1.pt", "rollout_id"),
     every(("the file has the name of a dump, and holds none", "rollout_data/1.pt"),
           IMPORT, IMPORTED, DIFF)),
    ("a rank's file does not say its rollout", DATA, lacks("train_data/0_0.pt", "rollout_id"),
     every(("rollout_id is missing", "0_0.pt"), *REFUSING)),
    ("a rollout's training does not say its rollout", LATEST,
     lacks("train_data/1.pt", "rollout_id"),
     every(("rollout_id is missing", "train_data/1.pt"), *REFUSING)),
    ("one rank's masks are gone", CONTEXT,
     lacks("train_data/0_1.pt", "rollout_data", "loss_masks"),
     every(("loss_masks is missing in 0_1.pt, and 0_0.pt has it", "train_data/0_1.pt"), *REFUSING)),
    ("the first rank's masks are gone", CONTEXT,
     lacks("train_data/0_0.pt", "rollout_data", "loss_masks"),
     every(("loss_masks is missing in 0_0.pt, and 0_1.pt has it", "train_data/0_0.pt"), *REFUSING)),
    ("the first rank's rewards are gone", TENSOR,
     lacks("train_data/0_0.pt", "rollout_data", "rewards"),
     every(("rewards is missing in 0_0.pt, and 0_1.pt has it",), *REFUSING)),
    ("one rank's sums of masks are gone", CONTEXT,
     lacks("train_data/0_1.pt", "rollout_data", "rollout_mask_sums"),
     every(("rollout_mask_sums is missing in 0_1.pt",), *REFUSING)),
    *((f"{column} of rank {rank} are gone", run,
       lacks(f"train_data/0_{rank}.pt", "rollout_data", column),
       every((f"{column} is missing in 0_{rank}.pt, and 0_{1 - rank}.pt has it",
              f"train_data/0_{rank}.pt"), *READERS, DIFF))
      for run, rank, column in (
          (TENSOR, 1, "rollout_log_probs"), (TENSOR, 1, "advantages"), (TENSOR, 0, "log_probs"),
          (CONTEXT, 1, "raw_reward"), (STAGES, 0, "rollout_log_probs"))),
    *((f"{column} of a rank of other samples are gone", DATA,
       lacks("train_data/0_1.pt", "rollout_data", column),
       every((f"{column} is missing in 0_1.pt, and 0_0.pt has it, of the same rollout",
              "train_data/0_1.pt"), *READERS, DIFF))
      for column in ("raw_reward", "truncated", "advantages", "rollout_log_probs")),
    *((f"the training's {column} of a sample is another", DATA, distilled(column, to=-0.25),
       every((f"{column} of the training data is not what the rollout says",
              "train_data/0_1.pt: sample ", "[1]: -0.25, the rollout says -1.3"),
             DEEP, IMPORT, IMPORTED))
      for column in ("teacher_log_probs", "opd_reverse_kl")),
    *((f"a rollout's {column} are one fewer", DATA,
       both(distilled(column), popped_of("rollout_data/0.pt", "samples", 3, column)),
       every(("length-mismatch", f"{column} has ", "rollout_data/0.pt: sample 3"), *KEEPING))
      for column in ("teacher_log_probs", "opd_reverse_kl")),
    ("the training's trajectory of a sample that says none, of Miles", ("miles-latest", "grpo-dp2"),
     train("train_data/0_0.pt", "rollout_ids", 1, to=999),
     every(("rollout_ids of the training data is not what the rollout says",
            "train_data/0_0.pt: sample 2: 999, the rollout says 2"), DEEP, IMPORT, IMPORTED)),
    ("the training's trajectory of a sample", DATA, both(
        put("rollout_data/0.pt", "samples", 2, "rollout_id", to=2),
        train("train_data/0_0.pt", "rollout_ids", 1, to=999)),
     every(("rollout_ids of the training data is not what the rollout says",
            "train_data/0_0.pt: sample 2: 999, the rollout says 2"), DEEP, IMPORTED)),
    *((f"a context rank {rank} lacks what it computes", CONTEXT,
       lacks(f"train_data/0_{rank}.pt", "rollout_data", "ref_log_probs"),
       every(("ref_log_probs is missing on a context-parallel rank",
              f"train_data/0_{rank}.pt: sample 0"), IMPORT, MISMATCH, DIFF))
      for rank in (0, 1)),
    ("a rank's samples have a value too few", TENSOR,
     put("train_data/0_1.pt", "rollout_data", "ref_log_probs", 0, to=lambda x: [0.0] * 99),
     every(("ref_log_probs does not have the length of its slice", "train_data/0_1.pt: sample 0"),
           IMPORT, MISMATCH, DIFF)),
    *((f"{column} of a sample of {size} entries", run, train(file, column, row, to=[0.0] * size),
       every((f"{column} does not have the length of its slice", f"{file}: sample"), *(REFUSING[2:] if size else REFUSING)))
      for run, file, column, row in ((DATA, "train_data/0_0.pt", "log_probs", 3),
                                     (LISTS, "train_data/0_1.pt", "ref_log_probs", 0),
                                     (OLD_CONTEXT, "train_data/0_1.pt", "advantages", 0),
                                     (CONTEXT, "train_data/0_1.pt", "advantages", 0))
      for size in (0, 99)),
    ("a pipeline rank of another context", MILES_STAGES, put("train_data/0_0.pt", "cp_size", to=2),
     every(("cp_size is not that of rank 0", "one of the two files is wrong", "0_1.pt"),
           *REFUSING)),
    ("a context rank's own raw rewards", OLD_CONTEXT, local_rewards(1),
     replica("local_raw_reward", "sample 2: 1, rank 0 says 0")),
    *((f"{column} of one rank is gone", CONTEXT,
       lacks("train_data/0_1.pt", "rollout_data", column),
       every((f"{column} is missing in 0_1.pt, and 0_0.pt has it, of the same rollout",
              "schedule-mismatch", "train_data/0_1.pt"), *READERS[:-1]))
      for column in ("micro_batch_indices", "num_microbatches")),
    ("one rank's versions are one fewer", CONTEXT,
     lacks("train_data/0_1.pt", "rollout_data", "weight_versions", 0),
     {**every(("weight_versions has 3 entries in 0_1.pt, and 4 in 0_0.pt",), IMPORT, MISMATCH, DIFF),
      **every(("weight_versions has 3 entries, 4 are expected", "0_1.pt"), PLAIN, DEEP)}),
    ("a context rank lists a sample twice", CONTEXT,
     train("train_data/0_1.pt", "sample_indices", 0, to=2),
     every(("sample 2 is listed twice in one file", "0_1.pt"), *REFUSING)),
    ("a context rank lists another's sample", CONTEXT,
     train("train_data/0_1.pt", "sample_indices", 0, to=1),
     every(("this file lists sample 1, and that of rank 0 does not, though both list sample 2",
            "0_1.pt"), *REFUSING)),
    *((f"an export's {said}", DATA,
       both(*(put("rollout_data/0.pt", "samples", i, "metadata", "rlreplay", to=own)
              for i in range(16))),
       every((said, "rollout_data/0.pt", "sample 0"), *REFUSING))
      for said, own in (("experts holds 70000, expected 0 to 65535",
                         {"experts_shape": [1, 1], "experts": [70000]}),
                        ("experts_shape holds 4294967296, expected 0 to 4294967295",
                         {"experts_shape": [1 << 32, 1 << 32], "experts": []}),
                        ("experts_shape says more experts than there can be",
                         {"experts_shape": [(1 << 32) - 1, (1 << 32) - 1], "experts": []}))),
    ("an export's step is no dict", DATA, put("train_data/0_0.pt", "rlreplay", to={"steps": [1]}),
     every(("a step below `rlreplay` has no step", "train_data/0_0.pt"), *REFUSING)),
    ("an export's dataset has no name", DATA,
     put("rollout_data/0.pt", "rlreplay", to={"datasets": [{"dtype": "u8"}]}),
     every(("a dataset below `rlreplay` has no name", "rollout_data/0.pt"), *REFUSING)),
    ("a sample's tokens are gone", DATA,
     lacks("rollout_data/0.pt", "samples", 1, "tokens"),
     every(("tokens are missing or no integers", "rollout_data/0.pt", "sample 1"), *REFUSING)),
    ("a rollout's number is no integer", DATA, put("rollout_data/0.pt", "rollout_id", to=0.0),
     every(("rollout_id is", "not an integer", "rollout_data/0.pt"), *REFUSING)),
    ("two samples have one index", DATA, put("rollout_data/0.pt", "samples", 1, "index", to=0),
     every(("duplicate-index", "two samples have the index 0", "rollout_data/0.pt"), *KEEPING)),
    ("a status that is unknown", DATA,
     put("rollout_data/0.pt", "samples", 1, "status", to="resting"),
     every(("unknown-status", "the status is 'resting'", "rollout_data/0.pt", "sample 1"),
           *KEEPING)),
    *((f"one of {column} too many", DATA, longer("train_data/0_1.pt", column),
       every(("length-mismatch", f"{column} has ", "train_data/0_1.pt"), *KEEPING))
      for column in ("rewards", "log_probs", "ref_log_probs", "sample_indices", "rollout_ids")),
    ("a rank's file of one rollout is gone", LISTS, gone("train_data/1_1.pt"),
     every(("train_data/1_1.pt is not there, and rank 1 has a file of rollout 0",), PLAIN, DEEP,
           IMPORT, MISMATCH)),
    ("a sample of another rank than its shard's", LATEST,
     put("train_data/0.pt", "samples", 4, "data_parallel_rank", to=1),
     every(("sample 4 has the data_parallel_rank 1, the entry of dp_shards that lists it says 0",))),
    ("a sample of another place than its shard says", LATEST,
     put("train_data/0.pt", "samples", 4, "rollout_position", to=99),
     every(("sample 4 has the rollout_position 99, its partition says 4",))),
    ("a shard of another place", LATEST, shards(0, "partition", 0, to=99),
     every(("has the rollout_position 0, its partition says 99",))),
    ("a sample's own raw reward", LATEST,
     put("train_data/0.pt", "samples", 4, "local_raw_reward", to=7),
     every(("sample 4 has the local_raw_reward 7, raw_reward says ",))),
    ("a sample is gone that a shard lists", LATEST, popped("samples"),
     every(("dp_shards lists sample 15, which samples does not hold",))),
    ("a shard's list is gone, its samples are not", LATEST, popped("dp_shards"),
     every(("samples holds sample 1 and 7 more, which no entry of dp_shards lists",))),
    ("a shard and its samples are gone", LATEST, both(
        popped("dp_shards"), shards(0, "global_batch_sizes", to=[8, 8]),
        lambda files: files["train_data/0.pt"].update(
            samples=files["train_data/0.pt"]["samples"][::2])),
     every(("the steps took 16 samples, the file holds 8",), PLAIN, DEEP, IMPORT, MISMATCH)),
    ("fewer micro-batches than announced", LATEST, shards(0, "num_microbatches", to=[1, 2]),
     every(("num_microbatches announces 3 micro-batches, micro_batch_indices has 2",))),
    *((f"{count} micro-batches announced", LATEST, shards(1, "num_microbatches", to=[1, count]),
       every((f"num_microbatches[1] announces {count} micro-batches, micro_batch_indices has 2",)))
      for count in (1 << 62, -3)),
    *((f"{key} in one shard alone", LATEST, shards(1, key, to=[4, 4]),
       every((f"{key} is missing in dp_shards[0], and dp_shards[1] has it", "train_data/0.pt")))
      for key in ("num_rollouts",)),
    *((f"a shard without {key}", LATEST, lacks("train_data/0.pt", "dp_shards", 1, key),
       every((f"{key} is missing in dp_shards[1], and dp_shards[0] has it", "train_data/0.pt")))
      for key in ("global_batch_sizes", "num_microbatches", "micro_batch_indices")),
    ("a sample in no micro-batch", LATEST, popped("dp_shards", 1, "micro_batch_indices", 1),
     every(("sample 15 is in no micro-batch",))),
    ("a sample in two micro-batches", LATEST, shards(1, "micro_batch_indices", 1, 0, to=0),
     every(("sample 1 is trained on in two steps",), PLAIN, DEEP, IMPORT, MISMATCH)),
    ("a row of a micro-batch that is not there", LATEST,
     shards(1, "micro_batch_indices", 1, 0, to=8),
     every(("micro_batch_indices names row 8 of 8 samples",), PLAIN, DEEP, IMPORT, MISMATCH)),
    ("shards of other numbers of steps", LATEST, both(
        shards(1, "num_microbatches", to=[2]), shards(1, "global_batch_sizes", to=[8])),
     every(("num_microbatches of one shard is of 2 steps, of another one of 1",))),
    ("batch sizes of other numbers of steps", LATEST, shards(0, "global_batch_sizes", to=[8]),
     every(("num_microbatches is of 2 steps, the batch sizes of 1",))),
    *((f"batch sizes of the other shard, of {len(to)} steps", LATEST,
       shards(1, "global_batch_sizes", to=to),
       every((f"global_batch_sizes is of 2 steps in dp_shards[0], of {len(to)} in dp_shards[1]",
              "train_data/0.pt"), *KEEPING))
      for to in ([4], [4, 4, 4])),
    ("a rank of other steps", DATA, both(
        train("train_data/0_1.pt", "num_microbatches", to=[1]),
        train("train_data/0_1.pt", "micro_batch_indices", to=[list(range(8))]),
        train("train_data/0_1.pt", "global_batch_sizes", to=[8])),
     every(("schedule-mismatch",
            "num_microbatches is of 1 step in 0_1.pt, of 2 in 0_0.pt, of the same rollout"),
           *KEEPING, DIFF)),
    ("a rank of other sizes of batches", DATA,
     train("train_data/0_1.pt", "global_batch_sizes", to=[2, 6]),
     every(("global_batch_sizes[0] is 2 in 0_1.pt, 4 in 0_0.pt, of the same rollout",),
           *READERS, DIFF)),
    ("a rank of another dynamic size of batches", DATA, both(
        *(train(f"train_data/0_{rank}.pt", "dynamic_global_batch_size", to=8 + rank)
          for rank in (0, 1))),
     every(("dynamic_global_batch_size is 9 in 0_1.pt, 8 in 0_0.pt, of the same rollout",),
           *READERS, DIFF)),
    *((f"a rank's raw rewards without the rollout's, {name}", DATA,
       without_rollouts(train("train_data/0_1.pt", "raw_reward", to=to)),
       every((f"{said} in 0_1.pt, {other} in 0_0.pt, of the same rollout", "train_data/0_1.pt")))
      for name, to, said, other in (
          ("another", lambda rewards: [9.5, *rewards[1:]], "raw_reward[0] is 9.5", "1"),
          ("one fewer", lambda rewards: rewards[:-1], "raw_reward is of 15 samples", "of 16"))),
    ("a rank's micro-batches contradict themselves", DATA,
     train("train_data/0_1.pt", "num_microbatches", to=[1, 3]),
     every(("num_microbatches announces 4 micro-batches", "0_1.pt"))),
    ("micro-batches of two rollouts contradict themselves", DATA,
     both(*(train(f"train_data/{rollout}_1.pt", "num_microbatches", to=[1, 3])
            for rollout in (0, 1))),
     every(("num_microbatches announces 4 micro-batches", "0_1.pt", "1_1.pt"), PLAIN, DEEP,
           IMPORTED)),
    ("a replica's reward, and a list of another rank", TENSOR,
     both(longer("train_data/0_2.pt", "rewards"), train("train_data/0_1.pt", "rewards", 1, to=9.5)),
     every(("rewards of rank 1 differs from that of rank 0", "rewards has 5 entries"), PLAIN, DEEP)),
    ("a shard of other sizes of batches", LATEST,
     shards(0, "global_batch_sizes", 0, to=lambda x: x + 1),
     every(("schedule-mismatch", "global_batch_sizes[0] is 5 in dp_shards[0], 4 in dp_shards[1]",
            "train_data/0.pt"), *KEEPING)),
    ("the trainer's copy of a log-probability", DATA,
     train("train_data/0_1.pt", "rollout_log_probs", 0, 2, to=-9.5),
     every(("rollout-mismatch", "rollout_log_probs of sample 1 of step 0.0 is -9.5 at token 8, "
            "rollout 0 says -"), DEEP, IMPORTED) | {
                DEEP: ("rollout-mismatch", "train_data/0_1.pt: train/0-0)")}),
    ("a number of a shard that is none", DATA,
     train("train_data/1_1.pt", "advantages", 0, 2, to=float("nan")),
     every(("non-finite", "train_data/1_1.pt"), DEEP)),
    ("a log-probability above 0 of a sampler", DATA,
     put("rollout_data/1.pt", "samples", 3, "rollout_log_probs", 2, to=0.5),
     every(("bad-log-prob", "rollout_data/1.pt: sample 3)"), DEEP)),
    ("a sampler's log-probability", LATEST,
     put("rollout_data/1.pt", "samples", 3, "rollout_log_probs", 2, to=-9.5),
     every(("rollout-mismatch", "rollout_log_probs of sample 19 of step 1.0",
            "rollout 1 says -9.5"), DEEP, IMPORTED)),
    ("a sampler's log-probability that is no number", LATEST,
     put("rollout_data/1.pt", "samples", 3, "rollout_log_probs", 2, to=float("nan")),
     every(("non-finite", "rollout_log_probs of token 2 is not finite"), PLAIN, DEEP, IMPORT)),
    ("a log-probability that is no number of a token that counts", DATA,
     at_mask(float("-inf"), of=1),
     every(("non-finite", "rollout_log_probs of token 0 is not finite"), PLAIN, DEEP, IMPORT)),
    ("a rank's raw reward", DATA, train("train_data/0_1.pt", "raw_reward", 3, to=9.5),
     every(("raw_reward of the training data is not what the rollout says",
            "0_1.pt: raw_reward[3]: 9.5, the rollout says 1"), DEEP, IMPORT, IMPORTED, MISMATCH)),
    ("a reward", LATEST, put("rollout_data/0.pt", "samples", 2, "reward", to=9.5),
     every(("raw_reward[2]: 0, the rollout says 9.5",), DEEP, IMPORT, IMPORTED, MISMATCH)),
    ("the trainer's copy of a nucleus", DATA, nuclei(to=8),
     every(("rollout_top_p_token_ids of the training data is not what the rollout says",
            "0_1.pt: sample 1[1]: 8, the rollout says 7"), DEEP, IMPORT, IMPORTED, MISMATCH)),
    ("the trainer's copy of an expert", DATA, experts(to=99),
     every(("rollout_routed_experts of the training data", "0_1.pt: sample 1[1]: 99"),
           DEEP, IMPORT, IMPORTED, MISMATCH)),
    *((f"the trainer's copy of {column} is shorter", DATA, edit(to=SHORTER),
       every((f"{column} of the training data is not what the rollout says",
              "0_1.pt: sample 1: ", " numbers, the rollout says "),
             DEEP, IMPORT, IMPORTED, MISMATCH))
      for column, edit in (("rollout_top_p_token_ids", nuclei),
                           ("rollout_routed_experts", experts))),
    *((f"the trainer's copy of experts {name}", DATA,
       both(experts(), train("train_data/0_1.pt", "rollout_routed_experts", 0, to=to)),
       every(("rollout_routed_experts of the training data is not what the rollout says",
              f"0_1.pt: sample 1: {said}, the rollout says "), DEEP, IMPORT, IMPORTED, MISMATCH))
      for name, to, said in (("is empty", [], "0 numbers"), ("is None", None, "None"))),
    ("a nucleus's offsets are None", DATA,
     both(nuclei(), train("train_data/0_1.pt", "rollout_top_p_token_offsets", 0, to=None)),
     every(("rollout_top_p_token_offsets of the training data is not what the rollout says",
            "0_1.pt: sample 1: None, the rollout says "), DEEP, IMPORT, IMPORTED, MISMATCH)),
    ("experts of one sample fewer", DATA,
     both(experts(), lacks("train_data/0_1.pt", "rollout_data", "rollout_routed_experts", 0)),
     every(("length-mismatch", "rollout_routed_experts has ", "train_data/0_1.pt"), *KEEPING)),
    ("raw rewards of one sample too many", LISTS, longer("train_data/0_1.pt", "raw_reward"),
     every(("raw_reward of the training data is not what the rollout says",
            "0_1.pt: raw_reward: 17 entries, the rollout says 16"), DEEP, IMPORT, IMPORTED,
           MISMATCH)),
    ("raw rewards of a rank, of fewer samples than its", DATA,
     put("train_data/0_1.pt", "rollout_data", "local_raw_reward", to=[0.0]),
     every(("length-mismatch", "local_raw_reward has 1 entries", "train_data/0_1.pt"), *KEEPING)),
    ("a mask that is none", LATEST,
     put("train_data/0.pt", "samples", 6, "loss_masks", 0, to=2),
     every(("bad-mask", "loss_masks is neither 0 nor 1 at token 0", "train_data/0.pt",
            "sample 6"), *KEEPING)),
    ("a mask that the trainer changed", DATA,
     train("train_data/0_0.pt", "loss_masks", 0, 0, to=lambda x: 1 - x),
     every(("masks of step 0.0 that are not the rollout's: sample 0, token 6: 0, the rollout says 1",
            ), DEEP, IMPORTED)),
    ("an advantage of one shard", DATA, train("train_data/0_1.pt", "advantages", 0, 2, to=9.5),
     every(("advantages", "sample 1 of step 0.0 is of train_data/0_1.pt (rank 1) in A"), DIFF)),
    ("an advantage of one shard of one file", LATEST,
     put("train_data/1.pt", "samples", 1, "advantages", 2, to=9.5),
     every(("advantages", "sample 17 of step 1.0 is of train_data/1.pt (rank 1) in A"), DIFF)),
    ("what one shard's file alone says", DATA,
     train("train_data/1_1.pt", "truncated", 2, to=lambda x: 1 - x),
     every(("kept file train_data/1_1.pt differs (rollout_data.truncated[2]: ", "in B "), DIFF)),
    ("what a sample alone says", LATEST,
     put("rollout_data/0.pt", "samples", 4, "session_id", to="another"),
     every(("kept file rollout_data/0.pt differs (samples[4].session_id: 'session 4', in B "
            "'another')",), DIFF)),
)

# What a framework may do: no verb says more of it than of the run as it is.
LEGAL = (
    ("a trainer that works in bfloat16", DATA, rounded("bf", 16)),
    ("a trainer that works in float16", DATA, rounded("e", 13)),
    *((f"a masked token with the log-probability {value}, the trainer in bfloat16", DATA,
       both(at_mask(value), rounded("bf", 16))) for value in (float("-inf"), float("nan"))),
    ("a masked token of a slice", CONTEXT, both(
        put("rollout_data/0.pt", "samples", 4, "rollout_log_probs", 4, to=float("-inf")),
        train("train_data/0_1.pt", "rollout_log_probs", 2, 4, to=float("-inf")))),
    ("nuclei on both sides", DATA, nuclei()),
    *((f"{column} on both sides", DATA, distilled(column))
      for column in ("teacher_log_probs", "opd_reverse_kl")),
    ("experts on both sides", DATA, experts()),
    ("the policy's terms", TENSOR, both(
        terms("rank_0_call_0"), terms("rank_3_call_12", rank=3, call=12), terms("another_name"))),
    *((f"the policy's terms of the run {run[1]}", run, trained_terms(groups=groups))
      for run in (MILES, TENSOR) for groups in (None, 2, 4)),
    ("raw rewards of the samples' own", DATA, both(
        train("train_data/0_1.pt", "raw_reward", 3, to=9.5),
        put("rollout_data/0.pt", "samples", 0, "metadata", "raw_reward", to=1))),
)


class OneEdit(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sound = {}

    def files(self, run):
        seed, = [seed for seed, one in enumerate(runs.RUNS) if (one.folder, one.name) == run]
        return runs.RUNS[seed].files(seed)

    def written(self, name, files):
        for path, content in files.items():
            file = self.folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive(members(file.stem, content)))
        return self.folder / name

    def said(self, verb, folder, sound):
        """What a verb says of a folder."""
        dump = self.folder / "imported"
        if verb in (IMPORT, IMPORTED):
            made = self.run_program("import", folder, "-o", dump, "--force")
            if verb == IMPORT:
                return made.stdout + made.stderr
            folder = dump
        if verb == DIFF:
            result = self.run_program("diff", sound, folder)
            return result.stdout + result.stderr
        if verb == MISMATCH:
            result = self.run_program("mismatch", folder)
            return result.stdout + result.stderr
        flags = ["--deep"] if verb != PLAIN else []
        result = self.run_program("verify", *flags, "--json", folder)
        found = json.loads(result.stdout)
        self.assertEqual(result.returncode != 0, bool(found["problems"]), found)
        return "\n".join(f"{p['code']}: {p['message']} ({p['path']}: {p['dataset']})"
                         for p in found["problems"]) + "\n".join(found.get("not_checked", []))

    def of_sound(self, run, verb):
        if run not in self.sound:
            self.sound[run] = (self.written("sound " + "-".join(run), self.files(run)), {})
        folder, told = self.sound[run]
        if verb not in told:
            told[verb] = self.said(verb, folder, folder)
        return folder, told[verb]

    def test_each_edit_is_named(self):
        for number, (name, run, edit, by_verb) in enumerate(EDITS):
            files = self.files(run)
            edit(files)
            folder = self.written(f"edit {number}", files)
            for verb, words in by_verb.items():
                with self.subTest(name, verb=verb):
                    sound, before = self.of_sound(run, verb)
                    found = " ".join(self.said(verb, folder, sound).split())
                    for word in (words,) if isinstance(words, str) else words:
                        self.assertIn(word, found)
                        if word == words[0]:
                            self.assertNotIn(word, before)

    def test_a_file_is_named_whose_name_begins_a_place(self):
        edit, = [edit for name, _, edit, _ in EDITS if name == "a mask that is none"]
        files = self.files(LATEST)
        edit(files)
        folder = self.written("short", files)
        (folder / "train_data/0.pt").rename(folder / "s")
        result = self.run_program("verify", "s", "--json", cwd=folder)
        problem, = json.loads(result.stdout)["problems"]
        self.assertEqual((problem["path"], problem["dataset"][:6]), ("s", "sample"), problem)

    def test_what_no_import_gets_past_is_damage(self):
        """Exit code 3 of verify as of import, whether or not the import's words name it."""
        for run, edit in (
                (LATEST, shards(1, "micro_batch_indices", 1, 0, to=0)),
                (DATA, put("rollout_data/0.pt", "samples", 1, "response_length", to=4000)),
                (DATA, longer("train_data/0_1.pt", "tokens"))):
            files = self.files(run)
            edit(files)
            folder = self.written("damage", files)
            made = self.run_program("import", folder, "-o", self.folder / "damage dump", "--force")
            self.assertEqual(made.returncode, 3, made.stderr)
            for flags in ([], ["--deep"]):
                result = self.run_program("verify", *flags, folder)
                self.assertEqual(result.returncode, 3, result.stdout)
                self.assertIn("problem ", result.stdout)

    def test_what_was_not_looked_at_is_said(self):
        """Plain verify holds no training against its rollout, and claims nothing of it."""
        files = self.files(DATA)
        train("train_data/0_1.pt", "rollout_log_probs", 0, 2, to=-9.5)(files)
        folder = self.written("unlooked", files)
        plain, = self.lines("verify", folder, code=0)
        said = "what values mean, and training against its rollout: --deep does"
        self.assertEqual(plain["not_checked"], [said])
        self.assertIn("not checked: " + said, " ".join(
            self.run_program("verify", folder).stdout.split()))
        deep, = self.lines("verify", "--deep", folder, code=1)
        self.assertNotIn(said, deep["not_checked"])
        alone, = self.lines("verify", folder / "train_data/0_1.pt", code=0)
        self.assertEqual(alone["not_checked"],
                         ["what other files of its run say: the file was given alone"])
        train("train_data/0_1.pt", "micro_batch_indices", to=[[0]])(files)
        deep, = self.lines("verify", "--deep", self.written("unlooked", files), code=1)
        self.assertEqual(deep["not_checked"], ["what values mean, and training against its "
                                               "rollout: the problems come first"])

    def test_a_replica_says_the_steps(self):
        """Of a file without micro-batches the steps are those that its replica says."""
        for column in ("micro_batch_indices", "num_microbatches", "num_rollouts"):
            files = self.files(CONTEXT)
            lacks("train_data/0_0.pt", "rollout_data", column)(files)
            found = self.said(IMPORT, self.written("steps", files), None)
            self.assertNotIn("steps-unknown", found)
            units = self.run_program("diff", self.written("sound steps", self.files(CONTEXT)),
                                     self.folder / "imported").stdout
            self.assertNotIn("train/", units)

    def test_a_later_place_counts(self):
        """Files that contradict alike in the place that is named, and otherwise in a later one."""
        def of_rank(column, *places, file="train_data/0_1.pt", to=lambda x: x + 0.25):
            return tuple(train(file, column, *place, to=to) for place in places)

        cases = (
            (TENSOR, of_rank("advantages", (0, 1), (0, 2))),
            (TENSOR, of_rank("raw_reward", (1,), (3,))),
            (DATA, of_rank("loss_masks", (0, 1), (0, 2), to=2)),
            (DATA, of_rank("truncated", (0,), (1,), to=7)),
            (DATA, copies_apart("rollout_routed_experts")))
        for number, (run, (one, later)) in enumerate(cases):
            folders, dumps = [], []
            for name, edit in ("one", one), ("two", both(one, later)), ("again", one):
                files = self.files(run)
                edit(files)
                folders.append(self.written(f"later {number} {name}", files))
                dumps.append(self.folder / f"later {number} {name} dump")
                made = self.run_program("import", folders[-1], "-o", dumps[-1])
                self.assertEqual(made.returncode, 0, made.stderr)
            with self.subTest(number):
                for pair in folders, dumps:
                    self.assertEqual(self.run_program("diff", *pair[:2]).returncode, 1)
                    self.assertEqual(self.run_program("diff", pair[0], pair[2]).returncode, 0)

    def test_an_imported_dump_lists_places(self):
        """20 of what is alike, and how many more there were."""
        files = self.files(LATEST)
        for number in (0, 1):
            for sample in files[f"rollout_data/{number}.pt"]["samples"]:
                sample["reward"] = 9.5
        folder, dump = self.written("places", files), self.folder / "places dump"
        self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
        problems = [p for p in self.lines("verify", dump, code=1)[0]["problems"]
                    if p["code"] == "rollout-mismatch"]
        self.assertEqual(len(problems), 20, problems)
        self.assertEqual(len({p["dataset"] for p in problems}), 20)
        self.assertIn("more", problems[-1]["dataset"])
        text = self.run_program("verify", "--all", dump).stdout
        self.assertEqual(text.count("problem rollout-mismatch"), 20)

    def test_places_that_are_not_listed_count(self):
        """Files that contradict each other alike in what an import lists, and otherwise behind it."""
        def run(name, change):
            files = self.files(DATA)
            change(files)
            dump = self.folder / f"{name} dump"
            made = self.run_program("import", self.written(name, files), "-o", dump)
            self.assertEqual(made.returncode, 0, made.stderr)
            return dump

        def raw_rewards(last):
            def change(files):
                for number in (0, 1):
                    for rank in (0, 1):
                        data = files[f"train_data/{number}_{rank}.pt"]["rollout_data"]
                        data["raw_reward"] = [9.5] * len(data["raw_reward"])
                data["raw_reward"][-1] = last
            return change

        alike = run("raw", raw_rewards(9.5)), run("raw again", raw_rewards(9.5))
        other = run("raw otherwise", raw_rewards(8.5))
        places = [p["dataset"] for p in self.lines("verify", other, code=1)[0]["problems"]]
        self.assertEqual(len(places), 20)
        self.assertRegex(places[-1], r", and 44 more, all 64 with the hash [0-9a-f]{32}$")
        self.assertIn("identical", self.run_program("diff", *alike).stdout.splitlines()[0])
        result = self.run_program("diff", alike[0], other)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("with the hash", result.stdout)
        contents = {self.lines("verify", dump, code=1)[0]["content"] for dump in (*alike, other)}
        self.assertEqual(len(contents), 2)

    def test_no_place_of_one_file_is_left_out(self):
        """Of more contradictions than an import lists of a file."""
        def run(name, last):
            samples = [{"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
                        "reward": 1.0, "status": "resting", "prompt": "p", "response": "r",
                        "label": "l"} for i in range(130)]
            samples[-1]["status"] = last
            folder = self.written(name, {"rollout_data/0.pt": {
                "rollout_id": 0, "metadata": {}, "samples": samples}})
            dump = self.folder / f"{name} dump"
            listed = json.loads(self.run_program("import", folder, "-o", dump, "--json").stdout)
            self.assertEqual(len(listed["findings"]), 101)
            return dump

        one, other = run("resting", "resting"), run("dozing", "dozing")
        problems = self.lines("verify", other, code=1)[0]["problems"]
        place, = (p["dataset"] for p in problems if "'dozing'" in p["message"])
        self.assertRegex(place, "^rollout_data/0.pt: sample 129; all that the file says has the ")
        self.assertEqual(self.run_program("diff", one, other).returncode, 1)

    def test_a_contradiction_is_a_difference(self):
        """Whichever rank's copy an import takes: diff and content roots say so of folders, imports."""
        def other(column, *place, to):
            return train("train_data/0_1.pt", column, *place, to=to)

        def copied(files):
            files["train_data/0_1.pt"] = files["train_data/0_0.pt"]

        edits = (other("rewards", 1, to=9.5), other("loss_masks", 0, 1, to=lambda x: 1 - x),
                 other("rollout_mask_sums", 1, to=lambda x: x + 1), copied)
        sound, _ = self.of_sound(TENSOR, PLAIN)
        dumps = {}
        for number, edit in enumerate((lambda files: None, *edits)):
            files = self.files(TENSOR)
            edit(files)
            folder = self.written("contradicting", files)
            dumps[number] = self.folder / f"contradicting {number}"
            made = self.run_program("import", folder, "-o", dumps[number])
            self.assertEqual(made.returncode, 0, made.stderr)
            found, = self.lines("diff", sound, folder, code=int(number > 0))
            self.assertEqual(found["identical"], number == 0)
            self.assertEqual(number > 0, bool(found["only"]), found)
            for line in found["only"]:
                self.assertTrue(line.startswith("only the files of B contradict each other: "))
            self.lines("diff", folder, sound, code=int(number > 0))
            self.lines("diff", sound, folder, "--tolerance", "rewards=100", code=int(number > 0))
        roots = {a: self.lines("show", dump, code=0)[0]["content"] for a, dump in dumps.items()}
        self.assertEqual(len(set(roots.values())), len(roots))
        for a in dumps:
            for b in dumps:
                self.lines("diff", dumps[a], dumps[b], code=int(a != b))

    def test_what_is_legal_is_not(self):
        for number, (name, run, edit) in enumerate(LEGAL):
            files = self.files(run)
            edit(files)
            folder = self.written(f"legal {number}", files)
            for verb in (PLAIN, DEEP, IMPORTED, MISMATCH):
                with self.subTest(name, verb=verb):
                    sound, before = self.of_sound(run, verb)
                    found = self.said(verb, folder, sound)
                    told = ("mismatch:", "non-finite:") if verb != MISMATCH else ("contradict",)
                    for words in told:
                        self.assertEqual(found.count(words), before.count(words), found)


if __name__ == "__main__":
    unittest.main()
