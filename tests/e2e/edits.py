"""Edits of a framework's files: functions of a run's files by path, and the runs that are edited."""
import pathlib
import struct
import sys

from support import Case

sys.path += [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("foreign", "material")]
import make_fixtures as fixtures  # noqa: E402
import runs  # noqa: E402
from torch_files import archive, members  # noqa: E402

TENSOR = ("miles-latest", "grpo-tp2dp2")  # ranks 0 and 1 hold the same samples
CONTEXT = ("miles-latest", "grpo-cp2dp2")
PADDED = ("miles-latest", "grpo-cp2-bshd")
OLD_CONTEXT = ("slime-old", "grpo-cp2dp2")
STAGES = ("slime-old", "grpo-pp2")
MILES_STAGES = ("miles-latest", "grpo-pp2")
MILES = ("miles-latest", "grpo-dp2")
DATA = ("slime-old", "grpo-dp2")  # two rollouts, two ranks
LISTS = ("slime-2025", "grpo-dp2")  # which says nothing of sizes of batches
LATEST = ("slime-latest", "grpo-dp2")
SLICES = ("slime-latest", "grpo-cp2dp2")  # of a column of a shard, in the one file
RELAX = ("relax", "grpo-dp2")
FOUR = ("slime-2025", "grpo-dp4")
ALL = (*runs.RUNS, runs.Run("grpo-dp4", "slime-2025", runs.slime_2025, dp=4, rollouts=2))


class EditedRun(Case):
    """Writes runs, edited or as they are, below the test's folder."""
    def files(self, run):
        seed, = [seed for seed, one in enumerate(ALL) if (one.folder, one.name) == run]
        return ALL[seed].files(seed)

    def written(self, name, files):
        for path, content in files.items():
            file = self.folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive(members(file.stem, content)))
        return self.folder / name


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


def of_each(edit, *ranks):
    """An edit of the file of each rank, of rollout 0: a function of its path."""
    return both(*(edit(f"train_data/0_{rank}.pt") for rank in ranks))


def in_pairs(*ranks):
    """Two samples behind each other are of one trajectory, whose masks no number says."""
    def edit(file):
        def of(files):
            data = files[file]["rollout_data"]
            data["rollout_ids"] = [index - index % 2 for index in data["sample_indices"]]
            del data["rollout_mask_sums"]
        return of
    return of_each(edit, *ranks)


def in_one_step(size, *ranks):
    """The ranks train on the rollout in one step, of this size."""
    return of_each(lambda file: both(
        lambda files: files[file]["rollout_data"].update(
            num_microbatches=[len(files[file]["rollout_data"]["micro_batch_indices"])]),
        train(file, "global_batch_sizes", to=[size])), *ranks)


def without_schedule(*ranks, **said):
    """The ranks say nothing of steps, but what is `said`."""
    def edit(file):
        def of(files):
            data = files[file]["rollout_data"]
            for key in ("num_microbatches", "global_batch_sizes", "micro_batch_indices"):
                del data[key]
            data.update(said)
        return of
    return of_each(edit, *ranks)


def both(*edits):
    def edit(files):
        for one in edits:
            one(files)
    return edit



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


def local_rewards(to=None, ranks=4):
    """Each rank's raw rewards of its own samples; `to`: the second one of rank 1."""
    def edit(files):
        for rank in range(ranks):
            data = files[f"train_data/0_{rank}.pt"]["rollout_data"]
            data["local_raw_reward"] = [data["raw_reward"][i] for i in data["sample_indices"]]
        if to is not None:
            files["train_data/0_1.pt"]["rollout_data"]["local_raw_reward"][1] = to
    return edit


def own_rewards(to, of):
    """The raw reward of each sample of slime's one file a rollout; `to`: that of sample `of`."""
    def edit(files):
        data = files["train_data/0.pt"]
        for row in data["samples"]:
            said = data["raw_reward"][row["rollout_position"]]
            row["local_raw_reward"] = to if row["sample_index"] == of else said
    return edit


def rewards_of_parts(*edits):
    """Rewards of rollout 0 that are dicts."""
    def edit(files):
        for sample in files["rollout_data/0.pt"]["samples"]:
            sample["reward"] = {"acc": sample["reward"], "format": 0.25 + sample["index"], "of": "a"}
        both(*edits)(files)
    return edit


def part(sample, name, *to):
    """The part of a sample's reward is `to`, or not there."""
    def edit(files):
        reward = files["rollout_data/0.pt"]["samples"][sample]["reward"]
        del reward[name]
        reward.update((name, value) for value in to)
    return edit


def numbered(*paths, rollout):
    """A run's files under another number of their rollout, in their names too."""
    def edit(files):
        for path in paths:
            content = files.pop(path)
            content["rollout_id"] = rollout
            folder, name = path.split("/")
            files[f"{folder}/{rollout}{name[name.find('_') if '_' in name else -3:]}"] = content
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
