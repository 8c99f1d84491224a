"""One edit of a framework's files, and all that verify says of them: the cause, and nothing that follows
from it. A row of CAUSES each.

usage: cause_test.py RLREPLAY
"""
import os
import subprocess
import sys
import unittest

from edits import (CONTEXT, DATA, EditedRun, LATEST, LISTS, MILES, SLICES, TENSOR, both, gone,
                   lacks, longer, put, shards, terms, train)
from measured import measured

EditedRun.program = os.path.abspath(sys.argv.pop(1))

TRAINED = "train_data/0.pt"
MOST = 60 << 20


def listed_again(files):
    """The last shard is there twice."""
    files[TRAINED]["dp_shards"] += files[TRAINED]["dp_shards"][-1:]


def sized(run):
    """The sizes of batches of all ranks, as frameworks write them."""
    sizes = [8, 8]
    if run == LATEST:
        return both(*(shards(i, "global_batch_sizes", to=sizes) for i in (0, 1)))
    return both(*(train(f"train_data/0_{rank}.pt", "global_batch_sizes", to=sizes)
                  for rank in (0, 1)))


def without(file, key):
    return both(terms(file), lacks(f"policy_loss_debug/{file}.pt", key))


def short_terms(files):
    terms("rank_0_call_0", samples=[{"index": 0, "total_length": 5, "response_length": 2,
                                     "train_log_probs": [0.0], "old_log_probs": [0.0, 0.0]}])(files)


def terms_of_two(**said):
    """A file of the policy's terms of two samples, of which the second has three tokens."""
    def edit(files):
        rows = [{"index": i, "total_length": 6 + i, "response_length": 2 + i,
                 "train_log_probs": [-0.5] * (2 + i), "old_log_probs": [-0.5] * (2 + i),
                 "rollout_log_probs": [-0.5] * (2 + i), "advantages": [0.0] * (2 + i),
                 "local_loss_mask": [1.0] * (2 + i), "train_rollout_abs_diff": [0.0] * (2 + i)} for i in (0, 1)]
        rows[1].update({key: value for key, value in said.items() if key in rows[1]})
        whole = {"ppo_kl": [0.0] * 5, "pg_loss": [0.0] * 5}
        terms("rank_0_call_0", samples=rows, **{key: said.get(key, whole[key]) for key in whole})(files)
    return edit


def run_of_three(files):
    """A third rollout, of which rank 1 has no file."""
    for rank in (0, 1):
        copy = dict(files[f"train_data/1_{rank}.pt"], rollout_id=2)
        files[f"train_data/2_{rank}.pt"] = copy
    files["rollout_data/2.pt"] = dict(files["rollout_data/1.pt"], rollout_id=2)
    del files["train_data/0_1.pt"]


def none_of(column, row=6):
    return put(TRAINED, "samples", row, column, to=None)


LACKS = "is None or missing, and row 0 of the file has it"
NO_DUMP = "this is no dump of a rollout or of training data"

# name, run, edit, exit code, and of each problem its code, place and words of its message
CAUSES = (
    ("a shard is listed twice", LATEST, listed_again, 3,
     [("corrupt", TRAINED, "dp_shards[2] trains on sample 1, and so does dp_shards[1]")]),
    ("a shard lists another's sample", LATEST, shards(1, "sample_indices", 0, to=0), 3,
     [("corrupt", TRAINED, "dp_shards[1] trains on sample 0, and so does dp_shards[0]")]),
    ("a sample of another's trajectory", LATEST,
     both(sized(LATEST), put(TRAINED, "samples", 3, "rollout_ids", to=4)), 1,
     [("schedule-mismatch", f"{TRAINED}: sample 3",
       "rollout_ids of sample 3 is 4, as that of sample 4, but rollout_mask_sums of the one is 3, of "
       "the other 9, and their masks together have 12: the steps took 16 trajectories, the samples "
       "name 15")]),
    ("a rank's sample of another rank's trajectory", DATA,
     both(sized(DATA), train("train_data/0_1.pt", "rollout_ids", 1, to=4)), 1,
     [("schedule-mismatch", "train_data/0_1.pt: sample 3",
       "rollout_ids of sample 3 is 4, as that of sample 4")]),
    *((f"the policy's terms do not say their {key}", TENSOR, without("rank_0_call_0", key), 3,
       [("corrupt", "policy_loss_debug/rank_0_call_0.pt", f"{key} is missing")])
      for key in ("rank", "call")),
    ("the policy's terms of other lengths", TENSOR, short_terms, 3,
     [("corrupt", "policy_loss_debug/rank_0_call_0.pt: row 0",
       "train_log_probs has 1 entries, old_log_probs 2")]),
    *((f"{size} of {key} for five tokens", TENSOR, terms_of_two(**{key: [0.0] * size}), 3,
       [("corrupt", "policy_loss_debug/rank_0_call_0.pt",
         f"{key} has {size} entries, its 2 samples together 5")])
      for key in ("ppo_kl", "pg_loss") for size in (0, 4, 6)),
    *((f"{size} of {key} for three tokens", TENSOR, terms_of_two(**{key: [0.0] * size}), 3,
       [("corrupt", "policy_loss_debug/rank_0_call_0.pt: row 1",
         f"{key} has {size} entries, old_log_probs 3")])
      for key in ("advantages", "local_loss_mask", "rollout_log_probs", "train_rollout_abs_diff") for size in (2, 4)),
    *((f"{key} {value} of three tokens in seven", TENSOR, terms_of_two(**{key: value}), 3,
       [("corrupt", "policy_loss_debug/rank_0_call_0.pt: row 1", said)])
      for key, value, said in (
          ("response_length", 2, "old_log_probs has 3 entries, response_length is 2"),
          ("total_length", 2, "response_length is 3, total_length is 2"),
          ("total_length", -1, "total_length is no length: found -1"),
          ("response_length", 3.5, "response_length is no length: found the float 3.5"))),
    *((f"{key} of rank {rank} is {how}", MILES, edit(f"train_data/0_{rank}.pt", key), 1,
       [("schedule-mismatch", f"train_data/0_{rank}.pt",
         f"{key} is missing in 0_{rank}.pt, and 0_{1 - rank}.pt has it, of the same rollout")])
      for key in ("cp_size", "qkv_format", "rank") for rank in (0, 1)
      for how, edit in (("None", lambda file, key: put(file, key, to=None)), ("gone", lacks))),
    ("another form of sequences on one rank", TENSOR,
     put("train_data/0_1.pt", "qkv_format", to="bshd"), 1,
     [("schedule-mismatch", "train_data/0_1.pt", "qkv_format is 'bshd' in 0_1.pt, 'thd' in 0_0.pt")]),
    ("a context rank lacks the size of its context", CONTEXT,
     lacks("train_data/0_1.pt", "cp_size"), 3,
     [("corrupt", "train_data/0_1.pt",
       "cp_size is not that of rank 0, of the same samples: one of the two files is wrong: found none, rank 0 says 2")]),
    *((f"{column} of one sample is None", LATEST, none_of(column), code,
       [("length-mismatch", f"{TRAINED}: row 6", f"{column} {LACKS}")])
      for column, code in (("loss_masks", 1), ("advantages", 1), ("log_probs", 1),
                           ("rollout_ids", 1), ("rollout_mask_sums", 1), ("truncated", 1),
                           ("tokens", 3), ("rewards", 3), ("total_lengths", 3))),
    ("loss_masks of one sample is gone", LATEST, lacks(TRAINED, "samples", 6, "loss_masks"), 1,
     [("length-mismatch", f"{TRAINED}: row 6", f"loss_masks {LACKS}")]),
    *((f"{column} of one sample of a rank is None", DATA,
       train("train_data/0_1.pt", column, 2, to=None), code,
       [("length-mismatch", "train_data/0_1.pt: row 2", f"{column} {LACKS}")])
      for column, code in (("loss_masks", 1), ("advantages", 1), ("tokens", 3), ("rewards", 3),
                           ("sample_indices", 3))),
    *((f"rank {rank} has no {column}", run,
       both(sized(run), lacks(f"train_data/0_{rank}.pt", "rollout_data", column)), 3,
       [(code, f"train_data/0_{rank}.pt{place}", said)])
      for run in (DATA, LISTS) for rank in (0, 1) for column, code, place, said in (
          ("tokens", "length-mismatch", ": rollout_data", "rollout_data has no list of tokens"),
          ("sample_indices", "corrupt", ": row 0", "sample_indices is missing"),
          ("rewards", "corrupt", f": sample {rank}", "there is no reward"))),
    *((f"tokens {name}", DATA, both(sized(DATA), edit), 3,
       [("length-mismatch", "train_data/0_1.pt: rollout_data", said)])
      for name, edit, said in (
          ("of no sample", train("train_data/0_1.pt", "tokens", to=[]),
           "tokens has 0 entries, 8 are expected"),
          ("that are None", train("train_data/0_1.pt", "tokens", to=None),
           "rollout_data has no list of tokens"),
          ("of a sample fewer", lacks("train_data/0_1.pt", "rollout_data", "tokens", 0),
           "tokens has 7 entries, 8 are expected"),
          ("of a sample more", longer("train_data/0_1.pt", "tokens"),
           "tokens has 9 entries, 8 are expected"))),
    ("a rank's file of one rollout is gone", DATA, gone("train_data/1_1.pt"), 3,
     [("rank-missing", "train_data/1_1.pt",
       "train_data/1_1.pt is not there, and rank 1 has a file of rollout 0")]),
    ("the file of one rank and rollout of three is gone", LISTS, run_of_three, 3,
     [("rank-missing", "train_data/0_1.pt",
       "train_data/0_1.pt is not there, and rank 1 has files of rollouts 1, 2")]),
    *((f"{file} has no {key}", run, lacks(file, key), 3, [
        ("not-a-dump", file, "rollout_id is missing" if key == "rollout_id" else NO_DUMP)])
      for run, file, key in ((DATA, "rollout_data/0.pt", "rollout_id"),
                             (DATA, "rollout_data/0.pt", "samples"),
                             (DATA, "rollout_data/eval_1.pt", "samples"),
                             (DATA, "train_data/0_1.pt", "rollout_data"),
                             (LATEST, TRAINED, "samples"))),
    ("an index of two samples of the one file", LATEST,
     put(TRAINED, "samples", 3, "sample_index", to=4), 3,
     [("corrupt", TRAINED, "sample 4 is listed twice in one file, in rows 3 and 4")]),
    *((f"an index of two samples of a rank of {run[0]}", run,
       both(sized(run), train("train_data/0_1.pt", "sample_indices", 1, to=1)), 3,
       [("corrupt", "train_data/0_1.pt", "sample 1 is listed twice in one file, in rows 0 and 1")])
      for run in (DATA, LISTS)),
    ("an index of two samples of a rollout", DATA,
     put("rollout_data/1.pt", "samples", 3, "index", to=20), 1,
     [("duplicate-index", "rollout_data/1.pt: row 4", "two samples have the index 20")]),
)


class Causes(EditedRun):
    def test_the_cause_alone_is_named(self):
        for number, (name, run, edit, code, wanted) in enumerate(CAUSES):
            files = self.files(run)
            edit(files)
            folder = self.written(f"cause {number}", files)
            made = self.run_program("import", folder, "-o", self.folder / "dump", "--force")
            with self.subTest(name):
                self.assertIn(made.returncode, (0, code), made.stderr)
            for flags in ([], ["--deep"]):
                with self.subTest(name, flags=flags):
                    found, = self.lines("verify", *flags, folder, code=code)
                    self.check_problems(found["problems"], wanted, folder)
                    if code == 3:
                        self.assertEqual(made.returncode, 3, made.stdout)

    def check_problems(self, found, wanted, folder):
        told = [(p["code"], ": ".join(filter(None, (p["path"], p["dataset"]))), p["message"])
                for p in found]
        self.assertEqual(len(told), len(wanted), told)
        for (code, place, message), (its_code, its_place, words) in zip(told, wanted):
            self.assertEqual((code, place), (its_code, str(folder / its_place)))
            self.assertIn(words, message)

    def test_a_file_of_another_name_is_no_problem(self):
        files = self.files(DATA)
        files["rollout_data/notes.pt"] = ["no dump"]
        found, = self.lines("verify", self.written("notes", files), code=0)
        self.assertEqual((found["problems"], found["other_files"]), ([], 1))

    def test_an_index_twice_makes_no_sample_unknown(self):
        """Of an import, whose samples have their places as ids then."""
        for run in (DATA, LATEST):
            files = self.files(run)
            put("rollout_data/1.pt", "samples", 3, "index", to=20)(files)
            dump = self.folder / "twice"
            self.run_program("import", self.written("twice " + run[0], files), "-o", dump, "--force")
            found, = self.lines("verify", "--deep", dump, code=1)
            codes = [p["code"] for p in found["problems"] if "rollout_data/1.pt" in p["dataset"]
                     or "train/1" in p["dataset"]]
            self.assertEqual(codes, ["duplicate-index"], found)

    def test_terms_that_are_missing_are_a_note(self):
        files = self.files(MILES)
        terms("rank_0_call_0")(files)
        files = {path: content for path, content in files.items() if "rollout_data/" not in path}
        folder = self.written("few terms", files)
        found, = self.lines("verify", "--deep", folder, code=0)
        self.assertIn("the policy's terms of step 0.0: no row of policy_loss_debug fits 8 samples: a "
                      "file of the step is missing, or is another's", found["not_checked"])
        self.assertEqual(found["problems"], [])
        dump = self.folder / "few terms dump"
        self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
        of_dump, = self.lines("verify", "--deep", dump, code=0)
        self.assertEqual([note for note in of_dump["not_checked"] if "policy's" in note],
                         [note for note in found["not_checked"] if "policy's" in note])

    def test_the_sample_without_a_reward_is_named(self):
        files = self.files(LATEST)
        lacks("rollout_data/0.pt", "samples", 6, "reward")(files)
        folder = self.written("no reward", files)
        text = " ".join(self.run_program("objective", folder).stdout.split())
        self.assertIn("rewards: sample 6 of step 0.0 has no reward as the reward function gave it, and "
                      "15 others of its rollout have one", text)

    def test_raw_rewards_of_dicts_are_a_note(self):
        """Which number of a dict the trainer took is not said: --reward-key says it, and checks it."""
        files = self.files(LATEST)
        for number in (0, 1):
            for sample in files[f"rollout_data/{number}.pt"]["samples"]:
                sample["reward"] = {"score": sample["reward"], "form": 0.5}
        put("train_data/0.pt", "raw_reward", 3, to=9.5)(files)
        folder = self.written("dict rewards", files)
        dump, checked = self.folder / "dict rewards dump", self.folder / "dict rewards checked"
        for output, flags in (dump, ()), (checked, ("--reward-key", "score")):
            made = self.run_program("import", folder, "-o", output, *flags)
            self.assertEqual(made.returncode, 0, made.stderr)
        for path in folder, dump:
            found, = self.lines("verify", "--deep", path, code=1)
            self.assertEqual({p["code"] for p in found["problems"]}, {"removed-mismatch"})
            notes = [note for note in found["not_checked"] if note.startswith("raw_reward of ")]
            self.assertEqual([note[:note.index(":")] for note in notes],
                             [f"raw_reward of the training data of rollout {number}"
                              for number in (0, 1)])
            self.assertTrue(notes[0].endswith(" (score, form)"), notes)
        found, = self.lines("verify", "--deep", checked, code=1)
        problem, = [p for p in found["problems"] if p["code"] == "rollout-mismatch"]
        self.assertIn("raw_reward[3]: 9.5, the rollout says ", problem["dataset"])
        self.assertFalse([note for note in found["not_checked"] if "raw_reward" in note])

    def test_a_rank_that_left_no_trace_is_a_note(self):
        """Files that say nothing of sizes of batches do not say how many ranks there were."""
        files = self.files(LISTS)
        sound = self.written("all ranks", files)
        for rollout in (0, 1):
            del files[f"train_data/{rollout}_1.pt"]
        lost, dump = self.written("a lost rank", files), self.folder / "a lost rank dump"
        self.assertEqual(self.run_program("import", lost, "-o", dump).returncode, 0)
        for path, told in ((sound, False), (lost, True), (dump, True)):
            found, = self.lines("verify", "--deep", path, code=0)
            notes = [note for note in found["not_checked"] if note.startswith("training on ")]
            said = ("8 samples of rollout 0 that no step has: 1, 3, 5, 7, 9, 11, 13, 15 (a rank's file "
                    "may be missing, or the trainer left them out)")
            self.assertEqual(notes[:1], [f"training on {said}"] * told, found)
            if path != dump:
                made = self.run_program("import", path, "-o", self.folder / "ranks", "--force")
                self.assertEqual(f"finding sample-untrained: {said}" in made.stdout, told, made.stdout)

    def test_a_sample_that_a_step_has_otherwise_is_trained_on(self):
        for column in ("tokens", "total_lengths", "response_length"):
            files = self.files(LATEST)
            trained = files["train_data/0.pt"]["samples"][4]
            generated = files["rollout_data/0.pt"]["samples"][4]
            if column == "tokens":
                put("train_data/0.pt", "samples", 4, "tokens", 4, to=lambda x: x + 1)(files)
            elif column == "total_lengths":
                trained["total_lengths"] -= 1
                trained["tokens"] = list(trained["tokens"].elements())[1:]
            else:
                generated["response_length"] -= 1
                for name in ("loss_mask", "rollout_log_probs"):
                    if generated[name] is not None:
                        generated[name] = list(generated[name])[1:]
            folder, dump = self.written(f"other {column}", files), self.folder / f"other {column} dump"
            self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
            for path in folder, dump:
                found, = self.lines("verify", "--deep", path, code=1)
                with self.subTest(column):
                    self.assertIn("another ", " ".join(p["message"] for p in found["problems"]))
                    self.assertEqual([note for note in found["not_checked"] if "no step has" in note], [])

    def test_a_column_of_slices_is_a_note(self):
        """That its values were left out is said of the files and of their import."""
        folder, dump = self.written("a column of slices", self.files(SLICES)), self.folder / "cut column"
        made = self.run_program("import", folder, "-o", dump)
        self.assertIn("finding partial-column: ref_entropy holds only a slice of the response ("
                      f"{folder}/train_data/0.pt: sample 0, and ", made.stdout)
        for path in folder, dump:
            found, = self.lines("verify", "--deep", path, code=1)
            self.assertEqual({p["code"] for p in found["problems"]}, {"removed-mismatch"})
            notes = [note for note in found["not_checked"] if "slice" in note]
            self.assertEqual(len(notes), 1, found)
            self.assertRegex(notes[0], "^ref_entropy holds only a slice of the response "
                                       r"\(train_data/0.pt: sample 0, and \d+ more\)$")
        self.assertEqual(self.run_program("diff", folder, dump).returncode, 0)

    def test_slices_of_the_terms_are_not_called_missing(self):
        files = self.files(CONTEXT)
        for rank in range(4):
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            rows = [{"index": i, "total_length": total, "response_length": response,
                     **dict.fromkeys(("train_log_probs", "old_log_probs", "advantages"), [-0.5])}
                    for i, (total, response) in enumerate(zip(data["total_lengths"],
                                                              data["response_lengths"]))]
            terms(f"rank_{rank}_call_0", rank=rank, samples=rows, ppo_kl=[0.0] * len(rows),
                  pg_loss=[0.0] * len(rows))(files)
        files = {path: content for path, content in files.items() if "rollout_data/" not in path}
        folder = self.written("slices", files)
        made = self.run_program("import", folder, "-o", self.folder / "slices dump")
        self.assertEqual(made.returncode, 0, made.stderr)
        said = ("the rows of policy_loss_debug for 4 samples are slices of context parallelism, which "
                "are not placed: they are kept in their files alone")
        self.assertIn(f"finding policy-loss-unplaced: {said} (step 0.0", made.stdout)
        self.assertNotIn("fit no sample", made.stdout)
        found, = self.lines("verify", "--deep", folder, code=0)
        self.assertIn(f"the policy's terms of step 0.0: {said}", found["not_checked"])

    def bounded(self, *arguments):
        """Exit code, and the most memory that the program held."""
        code, peak = measured([self.program, *arguments], subprocess.DEVNULL)
        return code, peak

    def test_a_small_file_of_many_contradictions(self):
        """One sample a hundred thousand times: the places of what is wrong with it are counted."""
        sample = {"tokens": [1, -2, 3], "response_length": 2, "reward": 1.0, "status": "resting"}
        folder = self.written("many", {"rollout_data/0.pt": {
            "rollout_id": 0, "metadata": {}, "samples": [sample] * 200_000}})
        self.assertLess((folder / "rollout_data/0.pt").stat().st_size, 1 << 20)
        code, peak = self.bounded("import", folder, "-o", self.folder / "no dump")
        self.assertEqual(code, 3)  # -2 is no token
        self.assertLess(peak, MOST)
        sample["tokens"][1] = 2
        folder = self.written("many", {"rollout_data/0.pt": {
            "rollout_id": 0, "metadata": {}, "samples": [sample] * 200_000}})
        made = self.run_program("import", folder, "-o", self.folder / "many dump")
        self.assertEqual(made.returncode, 0, made.stderr)
        listed = self.lines("verify", self.folder / "many dump", code=1)[0]["problems"]
        self.assertEqual(len(listed), 20)
        self.assertRegex(listed[-1]["dataset"], r"row 19; .*, and 199980 more, all 200000 with the hash")


if __name__ == "__main__":
    unittest.main()
