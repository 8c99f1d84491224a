"""Edits of what a file states twice, in itself or in another of its run: lines as those of EDITS."""
from edit_cases import DEEP, IMPORTED, KEEPING, REFUSING, every
from edits import CONTEXT, LATEST, MILES, PADDED, both, put, term, train, trained_terms

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
)
