"""What the values of a dump mean (format/SPEC.md 3, 5 and 7): tables, meaning,
content root; and what the other files share. Of `spec_reader.py`, which see.
"""
import json
import math
import re

import numpy as np
import xxhash

from spec_cuts import PLACING, assembled, boxes_of, sample_parts, slices_of

GIB = 1 << 30
HASH = re.compile(r"[0-9a-f]{32}")
NAME = r"(?!\.)[A-Za-z0-9._-]{1,100}"
UNIT_PATH = re.compile(rf"(rollout|train|weights|x-[A-Za-z0-9._-]{{0,98}})/({NAME}/)?{NAME}\.h5")
NUMBER = "(?:0|-?[1-9][0-9]*)"
GROUP = {"rollout": re.compile(NUMBER), "train": re.compile(f"{NUMBER}-{NUMBER}"),
         "weights": re.compile(f"{NUMBER}-{NUMBER}")}
DTYPES = {"bool": "<u1", "f16": "<u2", "bf16": "<u2", "f8e4m3": "<u1", "f8e5m2": "<u1", "e8m0": "<u1",
          **{f"{kind}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)},
          "f32": "<f4", "f64": "<f8"}


class Broken(Exception):
    """A rule is broken: its name, the path, the dataset, and what was found."""

    def __init__(self, rule, path, dataset="", message=""):
        super().__init__("\t".join((rule, path, dataset, message)))
        self.rule = rule


def require(held, *what):
    if not held:
        raise Broken(*what)


def digest(data):
    return xxhash.xxh3_128_hexdigest(data)


def hash_of_lines(rows):
    return digest("".join(f"{row}\n" for row in rows).encode())


def canonical(value):
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# 3 and 5. What values mean

COLUMNS = {"rollout": """
sample_id u64 S; group_id u64 S; trajectory_id u64 S; offsets u64 S+1; prompt_length u32 S
tokens i32,i64 T; log_probs f32,f64 T; nucleus_offsets u64 S+1; nucleus_size u32 T; nucleus i32 N
loss_mask u8 T; removed u8 S; rewards f64 S; reward_components f64 S,K; finish u8 S
version_offsets u64 S+1; versions i64 V; version_starts u32 V
prompt_text u8 P; prompt_text_offsets u64 S+1; response_text u8 R; response_text_offsets u64 S+1
label_text u8 L; label_text_offsets u64 S+1; experts u8,u16 T,M,E; expert_layers u32 M; expert_gates f32 T,M,E; expert_recorded u8 T; coordinates u32 5,2
roles u8 T; call_offsets u64 S+1; call_first u32 C; call_length u32 C; call_finish u8 C; call_truncated u8 C
call_version i64 C; call_seed i64 C; call_numbers f64 C,J""",
    "weights": "coordinates u32 5,2", "train": """
sample_id u64 S; offsets u64 S+1; slice_offsets u64 S+1; slices u64 C,2; lengths u64 S; coordinates u32 5,2
tokens i32 T; prompt_length u32 S; micro_batch u32 S; loss_mask u8 T
rewards f64 S; trajectory_id u64 S; trajectory_tokens u64 S; token_weights f64 T; scalars f64 N
""" + "".join(f"{name} f32,f64 T\n" for name in """log_probs old_log_probs ref_log_probs teacher_log_probs
rollout_log_probs entropy ref_entropy advantages returns values current_values kl reverse_kl policy_kl
policy_loss""".split()), "events": """
tensors u8 X; rank u32 D; rows u64 D; digest u8 D,16; nonfinite u64 D,4; stats f64 D,4; row_set i32 D
row_set_offsets u64 Q+1; run_sample u64 U; run_position u64 U; run_count u64 U
row_digest_offsets u64 D+1; row_digest u8 B,16; value_start u64 D; value_count u64 D
parent_offsets u64 D+1; parents u64 A
""" + "".join(f"values_{dtype} {dtype} ={dtype}\n" for dtype in DTYPES)}
COLUMNS = {kind: {entry.split()[0]: entry.split()[1:] for entry in re.split("[;\n]", table) if entry.strip()}
           for kind, table in COLUMNS.items()}
# Where a dataset has rows of its own for each sample, the offsets that say so.
OWN = {"nucleus": "nucleus_offsets", "versions": "version_offsets", "version_starts": "version_offsets",
       "events/row_digest": "events/row_digest_offsets", "prompt_text": "prompt_text_offsets",
       "response_text": "response_text_offsets", "label_text": "label_text_offsets",
       **{f"call_{name}": "call_offsets" for name in "first length finish truncated version seed numbers".split()}}


def table(unit, name):
    """The column's entry in the tables of section 3, or None."""
    columns = COLUMNS.get(unit.kind, {})
    if name.endswith("_present") and columns:
        return ["u8", "S"]
    return COLUMNS["events"].get(name[7:]) if columns and name.startswith("events/") else columns.get(name)


def check_shape(unit, group, lengths):
    """Dtypes, dimensions, lengths; fills the lengths of the axes."""
    for name, d in group.items():
        dtypes, axes = table(unit, name) or ("", "")
        axes, fits = axes.split(","), d.dtype in dtypes.split(",")
        for axis, n in zip(axes, d.dims) if dtypes else ():
            letter, plus = axis.removesuffix("+1"), axis.endswith("+1")
            same = n >= plus and lengths.setdefault(letter, n - plus) == n - plus
            fits &= n == int(axis) if axis.isdigit() else same
        require(not dtypes or fits and len(axes) == len(d.dims), "meaning", unit.path, d.path)


def is_text(data):
    try:
        return data.tobytes().decode("utf-8", "surrogatepass") is not None
    except UnicodeDecodeError:
        return False


def check_meaning(unit, group):
    def held(condition, d):
        require(condition, "meaning", unit.path, getattr(d, "path", d))

    for name, d in group.items():
        boxes = boxes_of(name, d)
        held(boxes is not None, d)
        known = any(tensor == "scalars" or table(unit, tensor) for tensor, *_ in boxes)
        held("boxes" not in d.more or not known and not table(unit, name), d)
    if unit.kind not in COLUMNS:
        return
    if "coordinates" in group:
        rank = group["coordinates"]
        check_shape(unit, {"coordinates": rank}, {})
        held((rank.elements()[::2] < rank.elements()[1::2]).all(), rank)
    if unit.kind == "weights":
        return
    needed = ["sample_id", "offsets"] + ["tokens"] * (unit.kind == "rollout")
    held(set(needed) <= set(group)
         or all(name.startswith("events/") or name == "coordinates" for name in group), d.group)
    cut = [name in group for name in ("slice_offsets", "slices", "lengths")] if unit.kind == "train" else [False]
    held(all(cut) or not any(cut), d.group)
    families = [["tensors", "rank", "rows", "digest"], ["row_digest_offsets", "row_digest"],
                ["value_start", "value_count"], ["parent_offsets", "parents"],
                ["row_set", "row_set_offsets", "run_sample", "run_position", "run_count"]]
    for family in families if any(name.startswith("events/") for name in group) else []:
        there = [f"events/{name}" in group for name in family]
        held(all(there) or not any(there), d.group)
    check_shape(unit, group, lengths := {})
    value = {name: d.elements().reshape(d.dims) for name, d in group.items() if table(unit, name)}
    ends = {"offsets": lengths.get("T", value["offsets"][-1] if "offsets" in value else 0),
            "events/row_set_offsets": lengths.get("U"), "events/parent_offsets": lengths.get("A"), "slice_offsets": lengths.get("C"),
            **{own: len(value[name]) for name, own in OWN.items() if name in value}}
    for name, v in value.items():
        d, short = group[name], name.removeprefix("events/")
        held(name not in OWN or OWN[name] in group, d)
        if table(unit, name)[1] in ("S+1", "D+1", "Q+1"):
            held(v[0] == 0 and (v[1:] >= v[:-1]).all() and v[-1] == ends.get(name, v[-1]), d)
        if name in ("loss_mask", "removed", "expert_recorded") or name.endswith("_present"):
            held((v < 2).all(), d)
        if name in ("scalars", "reward_components", "call_numbers"):
            columns = d.more.get("columns")
            held(isinstance(columns, str) and len(columns.split("\n") if columns else []) == d.dims[-1], d)
        held(name not in ("tokens", "nucleus") or (v >= 0).all(), d)
        held(name not in ("finish", "call_finish", "roles") or np.isin(v, (0, 1, 2, 3, 255)).all(), d)
        held(name != "call_truncated" or np.isin(v, (0, 1, 255)).all(), d)
        held(not name.endswith("_text") and short != "tensors" or is_text(v), d)
    check_events(group, value, held)
    if "sample_id" not in group:
        return
    ids, cuts = value["sample_id"], value["offsets"]
    held((ids[1:] > ids[:-1]).all() if unit.kind == "rollout" else len(np.unique(ids)) == len(ids),
         group["sample_id"])
    calls = [name in group for name in ("call_offsets", "call_first", "call_length")]
    held(all(calls) or not any(calls), d.group)
    for n, (a, b) in enumerate(zip(value["call_offsets"], value["call_offsets"][1:]) if all(calls) else ()):
        ends = []
        for first, count in zip(value["call_first"][a:b].tolist(), value["call_length"][a:b].tolist()):
            held(first >= (ends[-1] if ends else 0), group["call_first"])
            ends.append(first + count)
        held(not ends or ends[-1] <= int(cuts[n + 1] - cuts[n]), group["call_first"])
    whole = value["lengths"] if any(cut) else np.diff(cuts)
    for n, pieces in enumerate(slices_of(group) or () if any(cut) else ()):
        held(all(a + b <= int(whole[n]) for a, b in pieces)
             and sum(b for _, b in pieces) == int(cuts[n + 1] - cuts[n]), group["slices"])
    held("prompt_length" not in group or (value["prompt_length"] <= whole).all(), d.group)
    if "nucleus" in group:
        held("nucleus_size" in group, group["nucleus"])
        total = np.concatenate(([0], np.cumsum(value["nucleus_size"].astype("i8"))))
        held((total[cuts] == value["nucleus_offsets"]).all(), group["nucleus_size"])


def check_events(group, value, held):
    """Names stand once for each rank; what is not finite lies in its tensor."""
    if "events/tensors" not in value:
        return
    lines = [line.rsplit(b" ", 2) for line in value["events/tensors"].tobytes().split(b"\n")[:-1]]
    held(len(lines) == len(value["events/rank"]) and all(len(line) == 3 for line in lines), group["events/tensors"])
    held(len({(name, int(rank)) for (name, *_), rank in zip(lines, value["events/rank"])}) == len(lines),
         group["events/tensors"])
    sets, cuts = value.get("events/row_set"), value.get("events/row_set_offsets")
    for n, (count, sample, row, column) in enumerate(value.get("events/nonfinite", np.zeros((0, 4))).tolist()):
        dims = [] if lines[n][2] == b"-" else [int(d) for d in lines[n][2].split(b",")]
        of_token = sets is not None and sets[n] >= 0
        rows, columns = int(value["events/rows"][n]), math.prod(dims if of_token else dims[-1:])
        there = row < rows
        if of_token and count:
            there = any(sample == value["events/run_sample"][r] and
                        0 <= row - int(value["events/run_position"][r]) < int(value["events/run_count"][r])
                        for r in range(int(cuts[sets[n]]), int(cuts[sets[n] + 1])))
        held(count <= rows * columns and there and column < columns if count else sample == row == column == 0,
             group["events/nonfinite"])


# 7. The content root

def item(key, d, values, dims, columns=True, more=""):
    """The line of an item, hashed."""
    kind = d.dtype
    if kind == "bool" or values.dtype.kind in "iu" and kind[0] in "iu":
        low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
        kind = next(k for k in ("u8", "i32", "i64", "u64")
                    if np.iinfo(DTYPES[k]).min <= low and high <= np.iinfo(DTYPES[k]).max)
        values = values.astype(DTYPES[kind])
    elif kind in ("f32", "f64"):
        nan = np.isnan(values)
        with np.errstate(all="ignore"):
            narrow = values.astype("<f4")
        if (narrow.astype("<f8")[~nan] == values[~nan]).all():
            kind, values = "f32", narrow
        bits = values.copy().view("<u4" if kind == "f32" else "<u8")
        bits[nan] = 0x7FC00000 if kind == "f32" else 0x7FF8000000000000
        values = bits
    place = ",".join(map(str, dims))
    return digest(f"{key} {kind} {digest(values.tobytes())} {place}{d.more_text(columns, PLACING)}{more}\n".encode())


def rows_of(unit, group):
    """Ids, {column: where its rows of each sample begin}, and the datasets that only say so."""
    ids, cuts = group["sample_id"].elements().tolist(), {}
    for name in group:
        axis, own = (table(unit, name) or ("", "-"))[1].split(",")[0], OWN.get(name)
        if name.startswith("events/"):
            continue
        if axis == "T" or own in group:
            cuts[name] = group[own or "offsets"].elements().tolist()
        elif axis == "S" and name not in ("sample_id", "micro_batch", "lengths") and not name.endswith("_present"):
            cuts[name] = range(len(ids) + 1)
    silent = {"sample_id", "sample_id_present", "micro_batch", "offsets", "coordinates", *map(OWN.get, cuts),
              *(("slice_offsets", "slices", "lengths") if unit.kind == "train" else ()),
              *(f"{name}_present" for name in cuts)}
    return ids, cuts, silent


def fields_of(unit, group):
    """Of one unit: {field: items of its samples}, of other datasets (field, item by key, part), and parts of
    what other units hold too: (field, key, part)."""
    by_sample, others, parts, cuts, silent, pieces = {}, [], [], {}, {"coordinates"}, None
    if "sample_id" in group and "offsets" in group:
        ids, cuts, silent = rows_of(unit, group)
        pieces = slices_of(group) if unit.kind == "train" else None
        lengths = np.diff(group["offsets"].elements()) if pieces is None else group["lengths"].elements()
        by_sample["samples"] = [item(i, group["offsets"], lengths[n:n + 1], (1,)) for n, i in enumerate(ids)]
    for name, d in group.items():
        columns = str(d.more.get("columns", "")).split("\n")
        if name in cuts:
            v, rows, present = d.elements().reshape(d.dims), cuts[name], group.get(f"{name}_present")
            if pieces is not None and table(unit, name)[1].startswith("T"):
                parts += [(name, str(i), part) for n, i in enumerate(ids) if not present or present.elements()[n]
                          for part in sample_parts(d, rows[n], pieces[n], int(lengths[n]))]
                continue
            by_sample[name] = [item(i, d, v[rows[n]:rows[n + 1]], (rows[n + 1] - rows[n], *d.dims[1:]))
                               for n, i in enumerate(ids) if not present or present.elements()[n]]
        elif name == "scalars" and len(set(columns)) == len(columns) == d.count:
            for n, column in enumerate(columns):
                def make(key, d=d, n=n):
                    return item(key, d, d.elements()[n:n + 1], (1,), False)
                others.append((f"scalars/{column}", make, None))
        elif any(key in d.more for key in PLACING):
            for tensor, box, begin in boxes_of(name, d):
                size = math.prod(length for _, length, _ in box)
                parts += [(tensor, "", (d, box, d.elements()[begin:begin + size]))] * bool(tensor)
        elif name not in silent:
            whole = tuple((0, n, n) for n in d.dims)
            others.append((name, lambda key, d=d: item(key, d, d.elements(), d.dims), (d, whole, d.elements())))
    return by_sample, others, parts


def part_items(key, parts):
    """The items of one value of which there are parts, each with the number of its unit."""
    values, dims, whole, agree = assembled([part for _, part in parts])
    if values is not None and whole and agree:
        d = max((part[0] for _, part in parts), key=lambda d: d.dtype)
        return {item(key or "-", d, values, dims)}
    return {item(key or str(number), d, values, [length for _, length, _ in box],
                 more=" boxes=" + ",".join(str(n) for row in box for n in row))
            for number, (d, box, values) in parts if values.size}


def group_content(parts):
    """The hash of a group, of the units that hold it, sorted by rank and path."""
    fields, others, cut = {}, {}, {}
    for number, (unit, group) in enumerate(parts):
        by_sample, rest, pieces = fields_of(unit, group)
        for name, items in by_sample.items():
            fields.setdefault(name, set()).update(items)
        for name, make, whole in rest:
            others.setdefault(name, []).append((number, make, whole))
        for name, key, part in pieces:
            cut.setdefault((name, key), []).append((number, part))
    for (name, key), pieces in cut.items():
        pieces += [(number, whole) for number, _, whole in others.pop(name, ())] if not key else []
        fields.setdefault(name, set()).update(part_items(key, pieces))
    for name, found in others.items():
        makers = [(number, make) for number, make, _ in found]
        said = {make("-") for _, make in makers}
        fields.setdefault(name, set()).update(said if len(said) == 1 else {make(n) for n, make in makers})
    rows = {name: hash_of_lines(sorted(items)) for name, items in fields.items() if items}
    return hash_of_lines(f"{name} {rows[name]}" for name in sorted(rows))


DEFAULTS = dict(pair.split("=") for pair in """
adam-beta1=0.9 adam-beta2=0.999 adam-eps=1e-08 advantage-estimator=grpo
calculate-per-token-loss=false clip-grad=1 decay-vectors=false dialect=slime
disable-grpo-std-normalization=false disable-rewards-normalization=false entropy-coef=0 eps-clip=0.2
eps-clip-c=none eps-clip-high=none gamma=1 kernels=portable kl-coef=0 kl-loss-coef=0 kl-loss-type=k1
lambd=1 lr=1e-06 lr-decay-iters=none lr-decay-style=constant lr-warmup-init=0 lr-warmup-iters=0
min-lr=0 normalize-advantages=false opd-kl-coef=1 opsm-delta=1e-04 rollout-max-response-len=256
rollout-seed=42 rollout-stop-token-ids= rollout-temperature=1 rollout-top-k=-1 rollout-top-p=1
rope=hf seed=1234 tis-clip=2 tis-clip-low=0 use-kl-loss=false use-opd=false use-opsm=false
use-rollout-logprobs=false use-tis=false use-unbiased-kl=false value-clip=0.2 weight-decay=0.01""".split())
LEFT_OUT = """model ref-load save prompts input-key label-key apply-chat-template reward reward-command
reward-time-limit rollout-batch-size n-samples-per-prompt rollout-slots num-rollout steps
num-steps-per-rollout global-batch-size micro-batch-size recompute threads layout ranks-as rank-timeout device record
weights rollout-only""".split()


def run_length(config):
    """The optimizer steps of a run, as text; None where its options contradict each other."""
    given = {name: text for name, text in config.items() if text != "none"}
    if "steps" in given:
        return None if "num-rollout" in given else given["steps"]
    samples = int(given.get("rollout-batch-size", 8)) * int(given.get("n-samples-per-prompt", 8))
    of_batch = samples // int(given.get("global-batch-size", samples))
    of_rollout = int(given.get("num-steps-per-rollout", of_batch))
    return str(int(given.get("num-rollout", 1)) * of_rollout)


def options(meta):
    config = meta["config"] if isinstance(meta.get("config"), dict) else {}
    config = {"eps-clip": "0.2", "lr-decay-style": "constant", "lr-decay-iters": "none", **config}
    if config.get("eps-clip-high") == config["eps-clip"]:
        config["eps-clip-high"] = "none"
    if config["lr-decay-style"] == "constant":
        config.update({"lr-decay-iters": "none", "min-lr": "0"})
    elif config["lr-decay-iters"] == "none":
        config["lr-decay-iters"] = run_length(config) or "none"
    found = {name: text for name, text in config.items()
             if name not in LEFT_OUT and DEFAULTS.get(name) != text}
    found.update({name: meta[name] for name in ("model", "contract") if meta.get(name) is not None})
    return [f"option {name} {digest((v if isinstance(v, str) else canonical(v)).encode())}"
            for name, v in sorted(found.items())]


def findings(dump):
    for unit in dump.units.values():
        data = unit.group("data")["text"].elements().tobytes() if unit.kind == "x-findings" else b""
        try:
            for one in map(json.loads, data.splitlines()):
                if one["code"] not in ("sample-id-replaced", "policy-loss-missing",
                                       "policy-loss-unplaced", "partial-column"):
                    yield f"{one['code']}: {one['message']} ({one['where']})"
        except (ValueError, KeyError, TypeError):
            raise Broken("meaning", unit.path, "data/text", "not lines of JSON") from None


def content_root(dump):
    rows = sorted(f"{kind} {name} {group_content(parts)}" for (kind, name), parts in dump.groups.items())
    told = sorted(set(findings(dump)))
    return hash_of_lines(["rlreplay content root", *options(dump.meta), *rows,
                          *([f"findings {hash_of_lines(told)}"] if told else [])])
