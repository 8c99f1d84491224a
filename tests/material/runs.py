"""Dumps of small runs in the forms of slime (three ages), Miles and Relax: rollouts, and the training
data of all ranks. Layouts: data, tensor, context and pipeline parallelism."""
import struct

import make_fixtures as fixtures
from models import STOP, VOCABULARY, Integers
from torch_files import Storages, save

COLUMNS = ("rollout_log_probs", "log_probs", "ref_log_probs", "entropy", "ref_entropy", "kl",
           "advantages", "returns")
NOUNS = ("carts", "boats", "shelves", "кони", "箱", "\U0001f4da")


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Spec:
    """What slime kept as a live object until late in 2025."""

    @staticmethod
    def make(i):
        return fixtures.make(fixtures.Sample.SpecInfo,
                             **({"spec_verify_ct": i, "spec_accept_rate": i / 8} if i % 2 else {}))


class Sample:
    """A prompt, a response and everything that is computed of it."""

    def __init__(self, draw, rollout, index, group_size):
        self.index, self.group = index, index // group_size
        noun, few = NOUNS[self.group % len(NOUNS)], self.group + 2
        self.prompt = f"<|im_start|>user\nHow many wheels have {few} {noun} of 4?<|im_end|>\n"
        self.response, self.label = f"{few} x 4 = {few * 4 + index % 3} \U0001f9ee", str(few * 4)
        self.reward = 0 if index % 3 else 1.0
        length = 3 + draw.below(22)
        self.truncated = index % 5 == 4
        tokens = [draw.below(VOCABULARY - 3) for _ in range(6 + self.group + length)]
        self.tokens = tokens if self.truncated else [*tokens[:-1], STOP]
        self.length = length
        # Of a second turn the middle is a tool's.
        self.turns = 2 if index % 4 == 0 else 1
        tool = range(length // 3, length // 2) if self.turns == 2 else ()
        self.mask = [0 if i in tool else 1 for i in range(length)]
        self.versions = [str(rollout)] * self.turns
        self.log_probs = [-draw.below(6000) / 1000 for _ in range(length)]  # not exact in binary32
        self.columns = self.computed(draw)

    def computed(self, draw):
        rolled = [f32(x) for x in self.log_probs]
        out = {"rollout_log_probs": rolled}
        out["log_probs"] = [f32(x - draw.below(16) / 256) for x in rolled]
        out["ref_log_probs"] = [f32(x - draw.below(16) / 64) for x in rolled]
        out["entropy"] = [f32(draw.below(4000) / 1000) for _ in rolled]
        out["ref_entropy"] = [f32(draw.below(4000) / 1000) for _ in rolled]
        out["kl"] = [f32(a - b) for a, b in zip(out["log_probs"], out["ref_log_probs"])]
        out["advantages"] = [f32(self.reward - 0.375)] * self.length
        out["returns"] = out["advantages"]
        return out

    def row(self):
        """Columns of training data that are no tensors."""
        return {"response_lengths": self.length, "rewards": f32(self.reward - 0.375),
                "truncated": int(self.truncated), "total_lengths": len(self.tokens)}


# -- rollouts -----------------------------------------------------------------------------------
def common(s):
    return {"group_index": s.group, "index": s.index, "prompt": s.prompt, "tokens": s.tokens,
            "response": s.response, "response_length": s.length, "label": s.label,
            "reward": s.reward, "loss_mask": s.mask if s.turns == 2 else None,
            "weight_versions": s.versions, "rollout_log_probs": s.log_probs,
            "status": "truncated" if s.truncated else "completed",
            "metadata": {"level": s.index % 5 / 2, "tags": ["sums", "算数"]},
            "train_metadata": None}


def slime_old(s):
    return {**common(s), "rollout_id": None, "remove_sample": s.index == 3,
            "teacher_log_probs": None, "session_id": f"session {s.index}",
            "spec_info": {"spec_verify_ct": s.index, "completion_token_num": s.length},
            "prefix_cache_info": {"cached_tokens": 4, "total_prompt_tokens": len(s.tokens)}}


def slime(s):
    span = {"type": "span_start", "name": "generate", "span_id": f"{s.index:016x}", "ts": 0.5}
    return {**slime_old(s), "rollout_top_p_token_ids": None, "rollout_top_p_token_offsets": None,
            "trace": {"version": 1, "events": [span], "sample_id": s.index, "attempt": 0}}


def slime_2025(s):
    return {**common(s), "spec_info": Spec.make(s.index)}


def miles(s):
    return {**slime_old(s), "adapter": None, "routing_key": None if s.index % 2 else "key",
            "rollout_indexer_topk": None, "opd_reverse_kl": None}


def relax(s):
    ids = fixtures.Array([7 * i for i in range(4 * s.length)], (s.length, 4))
    return {**common(s), "rollout_tokens": s.tokens, "abort_count": 0,
            "rollout_log_probs_mask": [True] * s.length if s.turns == 2 else None,
            "student_topk_token_ids": ids if s.index % 2 else None,
            "decoded_tokens": [f"<{t}>" for t in s.tokens]}


# -- training data ------------------------------------------------------------------------------
def slice_of(s, cp_rank, cp_size, padded=None):
    """The places of a response that a rank of context parallelism holds: the total is cut into
    2 * cp_size chunks, of which it has one from the front and its mirror from the back."""
    if cp_size == 1:
        return range(s.length)
    total = len(s.tokens)
    chunk = -(-(padded or total) // (2 * cp_size))
    own = (cp_rank, 2 * cp_size - 1 - cp_rank)
    return [i for i in range(s.length) if (total - s.length - 1 + i) // chunk in own]


def micro_batches(count):
    half = count // 2
    return {"num_microbatches": [1, 1], "global_batch_sizes": [half, half],
            "micro_batch_indices": [list(range(half)), list(range(half, count))]}


def rank_file(run, rollout_id, rank, samples, everyone):
    """What slime until 2026 and Miles write: a file a rank, a list a column."""
    place = run.place(rank)
    storages = Storages(f"cuda:{rank}")
    data = {"tokens": [storages.vector("Long", s.tokens) for s in samples]}
    for name in ("response_lengths", "rewards", "truncated", "total_lengths"):
        data[name] = [s.row()[name] for s in samples]
    data["loss_masks"] = [storages.vector("Int", s.mask) for s in samples]
    data["sample_indices"] = [s.index for s in samples]
    data["rollout_ids"] = [s.index for s in samples]
    data["rollout_mask_sums"] = storages.vector("Float", [float(sum(s.mask)) for s in samples])
    data["raw_reward"] = [s.reward for s in everyone]
    data |= micro_batches(len(samples))
    last = run.pp == 1 or rank == run.ranks() - 1
    for name in COLUMNS if last else COLUMNS[:1]:
        rows = [[s.columns[name][i] for i in slice_of(s, place["cp"], run.cp, run.padded(everyone))]
                for s in samples]
        if run.tensor_ranks_differ and place["tp"] == 1 and name == "log_probs":
            rows[0][0] = f32(rows[0][0] - 0.125)
        data[name] = storages.rows("Float", rows)
    root = {"rollout_id": rollout_id, "rank": rank, "rollout_data": data}
    if run.vendor == "miles":
        data |= {"weight_versions": [s.versions for s in samples], "num_rollouts": [4, 4]}
        if run.padded(everyone):
            data["max_seq_lens"] = [run.padded(everyone)] * len(samples)
        root |= {"cp_rank": place["cp"], "cp_size": run.cp,
                 "qkv_format": "bshd" if run.bshd else "thd"}
    return root


def whole_file(run, rollout_id, samples):
    """What slime writes since: one file, a sample a row, put together again; but a column that it
    does not know of stays as the first rank had it."""
    storages, rows = Storages(), []
    sums = storages.storage("Float", [float(sum(s.mask)) for s in samples])
    for i, s in enumerate(samples):
        row = {"data_parallel_rank": i % run.dp, "sample_index": s.index, "rollout_position": i,
               "tokens": storages.vector("Long", s.tokens), **s.row(),
               "loss_masks": storages.vector("Int", s.mask), "rollout_ids": s.index,
               "rollout_mask_sums": fixtures.Tensor(sums, (), (), i)}
        for name in COLUMNS:
            own = slice_of(s, 0, run.cp) if name == "ref_entropy" else range(s.length)
            row[name] = storages.vector("Float", [s.columns[name][t] for t in own])
        rows.append(row)
    shards = []
    for d in range(run.dp):
        own = list(range(d, len(samples), run.dp))
        shards.append({"rank": d * run.tp * run.cp, "data_parallel_rank": d, "partition": own,
                       "sample_indices": [samples[i].index for i in own],
                       **micro_batches(len(own))})
    return {"format_version": 2, "rollout_id": rollout_id, "rank": 0, "samples": rows,
            "dp_shards": shards, "raw_reward": [s.reward for s in samples]}


def relax_file(rollout_id, rank, samples):
    """Lists and numbers alone."""
    rows = [{"sample_index": i, "tokens": s.tokens, **s.row(), "loss_masks": s.mask,
             "sample_indices": s.index, "raw_reward": s.reward, "group_index": s.group,
             **{name: s.columns[name] for name in COLUMNS if name not in ("ref_entropy", "kl")},
             "decoded_tokens": [f"<{t}>" for t in s.tokens]} for i, s in enumerate(samples)]
    return {"rollout_id": rollout_id, "rank": rank, "samples": rows}


# -- runs ---------------------------------------------------------------------------------------
class Run:
    def __init__(self, name, folder, sample, dp=1, tp=1, cp=1, pp=1, rollouts=1, bshd=False,
                 tensor_ranks_differ=False):
        self.name, self.folder, self.sample = name, folder, sample
        self.dp, self.tp, self.cp, self.pp, self.rollouts = dp, tp, cp, pp, rollouts
        self.bshd, self.tensor_ranks_differ = bshd, tensor_ranks_differ
        self.vendor = folder.split("-")[0]

    def ranks(self):
        return self.tp * self.cp * self.dp * self.pp

    def place(self, rank):
        """Tensor ranks are neighbours, then those of context, then of data."""
        return {"tp": rank % self.tp, "cp": rank // self.tp % self.cp,
                "dp": rank // (self.tp * self.cp) % self.dp}

    def padded(self, samples):
        return 8 * -(-max(len(s.tokens) for s in samples) // 8) if self.bshd else None

    def train_files(self, rollout_id, samples):
        if self.folder == "slime-latest":
            return {f"{rollout_id}": whole_file(self, rollout_id, samples)}
        out = {}
        for rank in range(self.ranks()):
            own = samples[self.place(rank)["dp"]::self.dp]
            made = (relax_file(rollout_id, rank, own) if self.vendor == "relax" else
                    rank_file(self, rollout_id, rank, own, samples))
            out[f"{rollout_id}_{rank}"] = made
        return out

    def rollout(self, rollout_id, samples):
        root = {"rollout_id": rollout_id}
        if self.vendor == "miles":
            root["metadata"] = {}
        return {**root, "samples": [self.sample(s) for s in samples]}

    def files(self, seed):
        """What each file of the run holds, by its path."""
        draw, out = Integers(seed), {}
        groups, size = (4, 4) if self.rollouts > 1 else (2, 4)
        for r in range(self.rollouts):
            samples = [Sample(draw, r, r * groups * size + i, size) for i in range(groups * size)]
            out[f"rollout_data/{r}.pt"] = self.rollout(r, samples)
            for name, content in self.train_files(r, samples).items():
                out[f"train_data/{name}.pt"] = content
        if self.rollouts > 1:
            samples = [Sample(draw, r, i, 2) for i in range(4)]
            out[f"rollout_data/eval_{r}.pt"] = self.rollout(r, samples)
        return out

    def write(self, dumps, seed):
        for name, content in self.files(seed).items():
            save(dumps / self.folder / self.name / name, content)


RUNS = (
    Run("grpo-dp2", "slime-latest", slime, dp=2, rollouts=2),
    Run("grpo-tp2dp2", "slime-latest", slime, dp=2, tp=2),
    Run("grpo-cp2dp2", "slime-latest", slime, dp=2, cp=2),
    Run("grpo-dp2", "slime-old", slime_old, dp=2, rollouts=2),
    Run("grpo-tp2dp2", "slime-old", slime_old, dp=2, tp=2, tensor_ranks_differ=True),
    Run("grpo-cp2dp2", "slime-old", slime_old, dp=2, cp=2),
    Run("grpo-pp2", "slime-old", slime_old, pp=2),
    Run("grpo-dp2", "slime-2025", slime_2025, dp=2, rollouts=2),
    Run("grpo-dp2", "miles-latest", miles, dp=2, rollouts=2),
    Run("grpo-tp2dp2", "miles-latest", miles, dp=2, tp=2),
    Run("grpo-cp2dp2", "miles-latest", miles, dp=2, cp=2),
    Run("grpo-cp2-bshd", "miles-latest", miles, cp=2, bshd=True),
    Run("grpo-pp2", "miles-latest", miles, pp=2),
    Run("grpo-dp2", "relax", relax, dp=2, rollouts=2),
)


def write(dumps):
    for seed, run in enumerate(RUNS):
        run.write(dumps, seed)
