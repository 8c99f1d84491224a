"""Edits of what a file states twice, in itself or in another of its run: lines as those of EDITS."""
from edit_cases import DEEP, DIFF, IMPORT, IMPORTED, KEEPING, REFUSING, every
from edits import (CONTEXT, DATA, FOUR, LATEST, LISTS, MILES, OLD_CONTEXT, PADDED, RELAX, STAGES, both,
                   experts, fixtures, gone, in_one_step, lacks, of_each, put, rewards_of_parts, shards, term, train,
                   trained_terms, without_rollouts, without_schedule)


def shortened(files):
    """The second row of the terms has a token less, and the terms of all with it."""
    file = files["policy_loss_debug/rank_0_call_0.pt"]
    for values in file["samples"][1].values():
        if isinstance(values, list):
            values.pop()
    for key in ("ppo_kl", "pg_loss"):
        file[key].pop()


def fewer(values):
    return list(values.elements() if isinstance(values, fixtures.Tensor) else values)[:-1]


def in_two_axes(tensor):
    return fixtures.Tensor(tensor.storage, (1, *tensor.shape), (tensor.shape[0], *tensor.stride), tensor.offset)


STATED = (
    *((f"a writer's rank that is {name}", LATEST, put("train_data/0.pt", "rank", to=to),
       every(("schedule-mismatch", f"rank is {said}, that of dp_shards[0], which writes the file, is 0",
              "train_data/0.pt"), *KEEPING))
      for name, to, said in (("another's", 77, "77"), ("None", None, "missing or no integer"))),
    *((f"the rollout's metadata has another {key}{place}", MILES,
       both(put("rollout_data/0.pt", "metadata", key, to=said),
            *(train(f"train_data/0_{rank}.pt", key, to=copy) for rank in (0, 1))),
       every((f"rollout-mismatch: {key} of the training data is not what the rollout says",
              f"train_data/0_0.pt: {key}{place}, the rollout says {other}"), DEEP, IMPORTED))
      for key, copy, said, place, other in (
          ("dynamic_global_batch_size", 16, 9, ": 16", "9"),
          ("prompt_group_sizes", [4, 4, 4, 4], [4, 4, 5, 4], "[2]: 4", "5"),
          ("prompt_group_sizes", [4, 4, 4, 4], [8, 8], ": 4 numbers", "2 numbers"))),
    *((f"rank {rank} of {run[1]} says that it is another's slice", run,
       put(f"train_data/0_{rank}.pt", "cp_rank", to=said),
       every((f"cp_rank is {said}, and the file has the slices of context-parallel rank {1 - said}, "
              "which no file of the same samples says to be", f"train_data/0_{rank}.pt"), *REFUSING))
      for run, rank, said in ((CONTEXT, 1, 0), (CONTEXT, 2, 1), (PADDED, 0, 1))),
    *((f"the policy's terms say of {column} that it is not finite", MILES,
       trained_terms(term("finite", to={column: False, "advantages": True})),
       every(("policy-loss-mismatch: policy_loss_debug says otherwise whether its numbers are finite",
              f"policy_loss_debug/rank_0_call_0.pt: finite.{column}: False, and all are"),
             *KEEPING[1:]))
      for column in ("ppo_kl", "train_log_probs")),
    ("the policy's terms say of an infinity that it is finite", MILES,
     trained_terms(term("finite", to={"pg_loss": True}), term("pg_loss", 1, to=float("inf"))),
     every(("policy_loss_debug/rank_0_call_0.pt: finite.pg_loss: True, and not all are",),
           *KEEPING[1:])),
    *((f"of one sample the training has no {key}", LATEST, lacks("train_data/0.pt", "samples", 3, key),
       every((f"length-mismatch: {key} is missing, and row 0 of the file has it",
              "train_data/0.pt: row 3"), *KEEPING, DIFF))
      for key in ("data_parallel_rank", "rollout_position")),
    *((f"a sample has no {key}", run, lacks("rollout_data/0.pt", "samples", 3, key),
       every((f"length-mismatch: {key} is missing, and row 0 of the file has it",
              "rollout_data/0.pt: row 3"), *KEEPING, DIFF))
      for run, key in ((LATEST, "session_id"), (DATA, "remove_sample"), (DATA, "metadata"))),
    ("a sample has two keys fewer", LATEST,
     both(*(lacks("rollout_data/1.pt", "samples", 2, key) for key in ("session_id", "remove_sample"))),
     every(("length-mismatch: ", " and 1 key more are missing, and row 0 of the file has the first",
            "rollout_data/1.pt: row 2"), *KEEPING, DIFF)),
    *((f"a shard has no {key}", LATEST, lacks("train_data/0.pt", "dp_shards", 1, key),
       every((f"schedule-mismatch: {key} is missing in dp_shards[1], and dp_shards[0] has it",
              "train_data/0.pt"), *KEEPING, DIFF)) for key in ("rank", "data_parallel_rank", "partition")),
    ("a place that is none", LATEST, put("train_data/0.pt", "samples", 3, "rollout_position", to=None),
     every(("schedule-mismatch: rollout_position of sample 3 is no integer, its partition says 3",
            "train_data/0.pt"), *KEEPING, DIFF)),
    ("a rank has one length too many", LISTS,
     train("train_data/0_0.pt", "response_lengths", to=lambda of: [of[0], *of]),
     every(("response_lengths has 9 entries, 8 are expected", "train_data/0_0.pt: rollout_data"),
           *REFUSING)),
    ("a batch of one trajectory fewer", LATEST,
     both(*(shards(i, "global_batch_sizes", to=[8, 7]) for i in (0, 1))),
     every(("schedule-mismatch: the size of batch 1 is 7, its micro-batches hold 8 trajectories",
            "train_data/0.pt"), *KEEPING, DIFF)),
    *((f"an evaluation's {column} that is no number", LATEST,
       put("rollout_data/eval_1.pt", "samples", 2, column, *place, to=float("nan")),
       every(("non-finite", f"rollout_data/eval_1.pt: {end}"), DEEP)
       | every(("non-finite", "x-slime/rollout_data/eval_1.h5: 1"), IMPORTED))
      for column, place, end in (("rollout_log_probs", (1,), "row 2"),
                                 ("reward", (), "x-slime/rollout_data/eval_1.h5: 1"))),
    *((f"the file of rank {rank} of four is gone, {name}", FOUR,
       both(of_each(lambda file: train(file, "global_batch_sizes", to=sizes), *range(4)),
            *(gone(f"train_data/{rollout}_{rank}.pt") for rollout in (0, 1))),
       every((f"{took}the files of ranks 0, {3 - rank}, 3 hold 12{of}: the file of rank {rank} is missing",),
             *REFUSING))
      for rank in (1, 2) for name, sizes, took, of in (
          ("of known sizes", [8, 8], "the steps took 16 samples, ", ""),
          ("of unknown ones", None, "", " samples"))),
    ("every second of four files is gone", FOUR,
     both(of_each(lambda file: train(file, "global_batch_sizes", to=[8, 8]), *range(4)),
          *(gone(f"train_data/{rollout}_{rank}.pt") for rollout in (0, 1) for rank in (1, 3))),
     every(("the steps took 16 samples, the files of ranks 0, 2 hold 8: another rank's file is missing, of "
            "a number between these (from rank 1 on) or above them",), *REFUSING)),
    ("the last rank's file is gone, of one batch of a known size", LISTS,
     both(without_schedule(0, 1, dynamic_global_batch_size=16),
          *(gone(f"train_data/{rollout}_1.pt") for rollout in (0, 1))),
     every(("the steps took 16 samples, the file of rank 0 holds 8: another rank's file is missing",),
           *REFUSING)),
    ("one step of a size too small", DATA, in_one_step(15, 0, 1),
     every(("schedule-mismatch: the size of batch 0 is 15, its micro-batches hold 16 trajectories",
            "train_data/0_0.pt"), *KEEPING, DIFF)),
    ("one step of a size too large", DATA, in_one_step(17, 0, 1),
     every(("schedule-mismatch: the steps took 17 trajectories, and the rollout has 16, which are all there: "
            "the sizes of batches are of others", "train_data/0_0.pt"), *KEEPING, DIFF)),
    ("one batch of another size", LISTS, without_schedule(0, 1, dynamic_global_batch_size=15),
     every(("schedule-mismatch: the size of batch 0 is 15, the files hold 16 trajectories",
            "train_data/0_0.pt"), *KEEPING, DIFF)),
    *((f"a raw reward of Relax that is {name}", RELAX, edit,
       every((said, "train_data/0_1.pt: row 2"), *KEEPING, DIFF))
      for name, edit, said in (
          ("gone", lacks("train_data/0_1.pt", "samples", 2, "raw_reward"),
           "length-mismatch: raw_reward is missing, and row 0 of the file has it"),
          ("None", put("train_data/0_1.pt", "samples", 2, "raw_reward", to=None),
           "length-mismatch: raw_reward is None, and row 0 of the file has it"),
          ("a text", put("train_data/0_1.pt", "samples", 2, "raw_reward", to="1"),
           "not-numbers: raw_reward is '1', expected a number"))),
    ("raw rewards of one rank of Relax that are gone", RELAX,
     both(*(lacks("train_data/0_1.pt", "samples", row, "raw_reward") for row in range(8))),
     every(("raw_reward is missing in 0_1.pt, and 0_0.pt has it, of the same rollout",), *KEEPING, DIFF)),
    *((f"a raw reward that is no number, {run[0]}", run, edit,
       every(("not-numbers: raw_reward[3] is 'x', expected a number", place), *KEEPING, DIFF))
      for run, edit, place in (
          (DATA, train("train_data/0_1.pt", "raw_reward", 3, to="x"), "train_data/0_1.pt: rollout_data"),
          (LATEST, put("train_data/0.pt", "raw_reward", 3, to="x"), "train_data/0.pt: raw_reward"))),
    *((f"experts of {where} that hold {name}", DATA, edit(to),
       every(("not-numbers: rollout_routed_experts holds something else than integers", place), *KEEPING))
      for name, to in (("a text", ["x"]), ("a fraction", [0.5]), ("None", [None]), ("no list", "x"))
      for where, edit, place in (
          ("a rollout", lambda to: put("rollout_data/0.pt", "samples", 3, "rollout_routed_experts", to=to),
           "rollout_data/0.pt: row 3"),
          ("a rank", lambda to: both(experts(), train("train_data/0_1.pt", "rollout_routed_experts", 2, to=to)),
           "train_data/0_1.pt: row 2"))),
    *((f"the policy's terms say another {key}", MILES,
       trained_terms(term("samples", 1, key, to=lambda x: x + 1)),
       every((f"policy-loss-mismatch: {key} of policy_loss_debug is not what the training data says",
              "policy_loss_debug/rank_0_call_0.pt: row 1: sample 2 of step 0.0: "), *KEEPING[1:]))
      for key in ("total_length", "response_length")),
    ("the policy's terms of fewer tokens than the response", MILES, trained_terms(shortened),
     every(("policy-loss-mismatch: a row of policy_loss_debug has other lengths than the training data, of "
            "which nothing is cut", "policy_loss_debug/rank_0_call_0.pt: row 1: old_log_probs has "),
           *KEEPING[1:])),
    *((f"the policy's terms of a {name}", MILES, trained_terms(term("samples", 1, key, to=1)),
       every((said, "policy_loss_debug/rank_0_call_0.pt: row 1"), *REFUSING))
      for name, key, said in (
          ("response too short", "response_length", " entries, response_length is 1"),
          ("sample too short", "total_length", ", total_length is 1"))),
    *((f"an element of {column} that context rank {rank} has, {'-'.join(run)}", run,
       both(*(train(f"train_data/0_{of}.pt", column, 0, at, to=lambda x: x - 0.5)
              for of in ranks)),
       every((f"is of train_data/0_{rank}.pt (rank {rank}) in A",), DIFF))
      for run, ranks, rank, column, at in (
          (CONTEXT, (1,), 1, "advantages", 0), (CONTEXT, (0,), 0, "advantages", 0),
          (OLD_CONTEXT, (1,), 1, "log_probs", 0), (OLD_CONTEXT, (2,), 2, "log_probs", 0),
          (PADDED, (1,), 1, "advantages", 0), (STAGES, (1,), 1, "advantages", 0))),
    *((f"a reward that is {name}, {run[0]}", run, put("rollout_data/0.pt", "samples", 3, "reward", to=to),
       every((f"not-numbers: reward is {said}, expected a number, as other rows of the file have",
              "rollout_data/0.pt: row 3"), *KEEPING, DIFF))
      for run in (MILES, LATEST)
      for name, to, said in (("an empty list", [], "0 numbers"), ("a list", [1, 2], "2 numbers"), ("a text", "x", "'x'"),
                             ("a number's text", "1", "'1'"), ("a dict", {"a": 1.5}, "a record of 1 field"))),
    *((f"a reward among dicts that is {said}", DATA,
       rewards_of_parts(put("rollout_data/0.pt", "samples", 3, "reward", to=to)),
       every((f"not-numbers: reward is {said}, expected a record of numbers, as other rows of the file have",
              "rollout_data/0.pt: row 3"), *KEEPING, DIFF))
      for to, said in (([], "0 numbers"), ("x", "'x'"), (7.5, "7.5"))),
    *((f"raw rewards of no sample, {run[0]}, with {'-'.join(map(str, of)) or 'all'}", run, edit,
       every(("raw_reward of the training data is not what the rollout says",
              f"{file}: raw_reward: 0 numbers, the rollout says 16"), DEEP, IMPORT, IMPORTED))
      for run, of, file, edit in (
          (LATEST, (), "train_data/0.pt", lambda files: (
              files["train_data/0.pt"].update(raw_reward=[]))),
          (DATA, (0,), "train_data/0_0.pt", train("train_data/0_0.pt", "raw_reward", to=[])),
          (MILES, (1,), "train_data/0_1.pt", train("train_data/0_1.pt", "raw_reward", to=[])))),
    ("raw rewards of no sample without the rollout's", DATA,
     without_rollouts(train("train_data/0_1.pt", "raw_reward", to=[])),
     every(("replica-mismatch: raw_reward is of 0 samples in 0_1.pt, of 16 in 0_0.pt, of the same rollout",
            "train_data/0_1.pt"), *KEEPING)),
    ("a negative index", LATEST, put("rollout_data/0.pt", "samples", 3, "index", to=-5),
     every(("bad-index: index is -5, expected 0 or more", "rollout_data/0.pt: row 3"), *KEEPING, DIFF)),
    *((f"no shard has {lost}", LATEST, both(*(lacks("train_data/0.pt", "dp_shards", i, lost) for i in (0, 1))),
       every((f"schedule-mismatch: {lost} is missing, and {kept} is there, with the sizes of 2 batches: which "
              "samples are of which step is not known", "train_data/0.pt"), *KEEPING, DIFF))
      for lost, kept in (("num_microbatches", "micro_batch_indices"),
                         ("micro_batch_indices", "num_microbatches"))),
    ("a shard's places are None", LATEST, shards(1, "partition", to=None),
     every(("schedule-mismatch: partition of dp_shards[1] is None, and dp_shards[0] has one",
            "train_data/0.pt"), *KEEPING, DIFF)),
    ("a shard's places are in a list", LATEST, shards(1, "partition", to=lambda places: [places]),
     every(("schedule-mismatch: partition of dp_shards[1] holds something else than integers",
            "train_data/0.pt"), *KEEPING, DIFF)),
    *((f"a shard's rank is {to}", LATEST, shards(0, "rank", to=to),
       every((f"schedule-mismatch: rank of dp_shards[0] is {said}, expected the number of a rank",
              "train_data/0.pt"), *KEEPING, DIFF))
      for to, said in ((2**70, "something else"), (0.5, "0.5"), (-1, "-1"))),
    *((f"{column} of a sample in two axes", LISTS, train("train_data/0_1.pt", column, 2, to=in_two_axes),
       every((f"length-mismatch: {column} has the shape [1, ", "], expected one axis",
              "train_data/0_1.pt: row 2"), *KEEPING))
      for column in ("advantages", "log_probs", "rollout_log_probs")),
    *((f"a sample without a trajectory has {to}", run, put(file, *place, to=to),
       every(("rollout-mismatch: rollout_ids of the training data is not what the rollout says",
              f"{file}: sample ", f": {to}, the rollout says None"), DEEP, IMPORT, IMPORTED))
      for run, file, *place in ((DATA, "train_data/0_0.pt", "rollout_data", "rollout_ids", 1),
                                (LATEST, "train_data/0.pt", "samples", 7, "rollout_ids"))
      for to in (12345, -1)),
    ("a sample's advantages are one fewer without slices", LATEST,
     put("train_data/0.pt", "samples", 3, "advantages", to=fewer),
     every(("advantages has ", "are expected, one of each token of the response: it is left out",
            "train_data/0.pt: sample 3"), IMPORT)),
    *((f"a mask that says {to} of terms of no sample", MILES,
       both(trained_terms(term("samples", 1, "local_loss_mask", 2, to=to)), *no_fit),
       every(("policy-loss-mismatch: local_loss_mask of policy_loss_debug is neither 0 nor 1",
              f"policy_loss_debug/rank_0_call_0.pt: row 1: position 2: {to:g}"), *KEEPING[1:]))
      for to in (2.0, -1.0, float("nan"))
      for no_fit in ([term("samples", 1, "old_log_probs", 0, to=-0.75),
                      term("samples", 1, "rollout_log_probs", 0, to=-0.75)],)),
)
