"""What format/SPEC.md section 2 counts of a group (*Counts*), computed from its values."""
import numpy as np


def decimal(value):
    """The shortest decimal of a binary64, as C++ prints it."""
    value = float(value)
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    plain, scientific = np.format_float_positional(value, trim="-"), np.format_float_scientific(value, trim="-")
    return plain if len(plain) <= len(scientific) else scientific


def nonfinite(group):
    masks = {"f64": ("<u8", 0x7ff << 52), "f32": ("<u4", 0xff << 23), "bf16": ("<u2", 0x7f80), "f16": ("<u2", 0x7c00)}
    total = 0
    for name, d in group.items():
        if d.dtype in masks and not name.startswith("events/"):
            kind, mask = masks[d.dtype]
            bits = np.ascontiguousarray(d.elements()).view("u1").view(kind)
            total += int(((bits & np.array(mask, kind)) == mask).sum())
    return total


def column(group, name, dtypes, length):
    d = group.get(name)
    return d.elements() if d and d.dtype in dtypes and d.count == length else None


def mean(values):
    total = 0.0
    for value in values:
        total += float(value)
    return {} if not values else {"": decimal(total / len(values))}


def of_samples(group, offsets):
    samples, tokens = len(offsets) - 1, int(offsets[-1])

    def present(name):
        given = column(group, name + "_present", ("u8",), samples)
        return np.ones(samples, "u1") if given is None else given
    prompts = column(group, "prompt_length", ("u32",), samples)
    mask = column(group, "loss_mask", ("u8",), tokens)
    log_probs = column(group, "log_probs", ("f32", "f64"), tokens)
    rewards = column(group, "rewards", ("f32", "f64"), samples)
    masks, floats, rewarded = present("loss_mask"), present("log_probs"), present("rewards")
    lengths, masked, reward, log_prob = [], 0, [], []
    for s in range(samples):
        begin, end = int(offsets[s]), int(offsets[s + 1])
        begin += min(0 if prompts is None else int(prompts[s]), end - begin)
        lengths.append(end - begin)
        if rewards is not None and rewarded[s]:
            reward.append(rewards[s])
        for t in range(begin, end):
            out = mask is not None and masks[s] and mask[t] == 0
            masked += bool(out)
            if not out and log_probs is not None and floats[s]:
                log_prob.append(log_probs[t])
    said = {"response_tokens": sum(lengths), "longest_response": max(lengths, default=0), "masked_tokens": masked}
    for key, values in (("reward_mean", reward), ("log_prob_mean", log_prob)):
        said.update({key: text for text in mean(values).values()})
    if (groups := column(group, "group_id", ("u64",), samples)) is not None:
        said["groups"] = len({int(of) for of, has in zip(groups, present("group_id")) if has})
    if (finish := column(group, "finish", ("u8",), samples)) is not None:
        codes = [min(int(code), 4) for code in finish]
        said["finish"] = [codes.count(code) for code in range(5)]
    versions = group.get("versions")
    if versions and versions.dtype == "i64" and versions.count:
        said["versions"] = [int(versions.elements().min()), int(versions.elements().max())]
    return said


def of_step(group):
    said = {"columns": sorted(name for name in group if "/" not in name), "events": "events/digest" in group}
    scalars = group.get("scalars")
    if scalars and scalars.dtype == "f64":
        text = scalars.more.get("columns", "")
        names = text.split("\n") if text else []
        if len(names) == scalars.count:
            said["scalars"] = [[name, decimal(value)] for name, value in zip(names, scalars.elements())]
    return said


def counts_of(kind, group):
    said = {"nonfinite": nonfinite(group)}
    ids, offsets = group.get("sample_id"), group.get("offsets")
    sound = (ids and offsets and ids.dtype == offsets.dtype == "u64" and offsets.count == ids.count + 1
             and offsets.elements()[0] == 0 and (np.diff(offsets.elements().astype("i8")) >= 0).all())
    if sound:
        said.update(samples=ids.count, tokens=int(offsets.elements()[-1]))
        if kind != "train":
            said.update(of_samples(group, offsets.elements()))
    if kind == "train":
        said.update(of_step(group))
    return said
