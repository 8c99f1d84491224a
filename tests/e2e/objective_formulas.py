"""The formulas of the objective in Python's floats, independently of the program, and what its tests
read of `objective --json`."""
import math
import struct


def f32(x):
    """Rounded to binary32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def quantity(step, name):
    return next(q for q in step["quantities"] if q["name"] == name)


def verdicts(step):
    return {q["name"]: q["verdict"] for q in step["quantities"]}


def settings(step):
    return [s for e in step["explanations"] for s in e["settings"]]


def deviation(values):
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1))


def advantages(samples, std=True):
    """GRPO: by sample id."""
    groups = {}
    for s in samples:
        groups.setdefault(s["group_id"], []).append(s["reward"])
    out = {}
    for s in samples:
        group = groups[s["group_id"]]
        mean = math.fsum(group) / len(group)
        out[s["sample_id"]] = s["reward"] - mean
        if std:
            out[s["sample_id"]] /= deviation(group) + 1e-6
    return out


def whitened(values, masks):
    """By sample id, lists of tokens: less the mean of the unmasked ones, over their deviation."""
    flat = [x for i, row in values.items() for x, m in zip(row, masks[i]) if m]
    mean, scale = math.fsum(flat) / len(flat), 1 / math.sqrt(deviation(flat) ** 2 + 1e-8)
    return {i: [(x - mean) * scale for x in row] for i, row in values.items()}


def chunked(rows, factor, chunk=128):
    """The discounted sums of both frameworks: rows that are padded to the longest, from their ends,
    `chunk` numbers times a triangle of powers at once, what is not finite times its zeros too."""
    longest, out = max(map(len, rows)), []
    for row in rows:
        turned, carry, sums = [0.0] * (longest - len(row)) + row[::-1], 0.0, []
        for begin in range(0, longest, chunk):
            part = turned[begin:begin + chunk]
            part += [0.0] * (chunk - len(part))
            local = [sum(x * (factor ** (j - k) if k <= j else 0.0) for k, x in enumerate(part))
                     for j in range(min(chunk, longest - begin))]
            sums += [x + carry * factor ** (j + 1) for j, x in enumerate(local)]
            carry = sums[-1]
        out.append(sums[longest - len(row):][::-1])
    return out


def zigzag(row, ranks, rank):
    """The places of a row's response in the two chunks of a rank: a token's number is of the place
    before it."""
    total, prompt = row["length"], row["loss_mask"].index(1)
    chunk = -(-total // (2 * ranks))
    return [t + 1 for i in (rank, 2 * ranks - 1 - rank)
            for t in range(max(i * chunk, prompt - 1), min((i + 1) * chunk, total - 1))]


def k3(d):
    return math.expm1(-d) + d


KL = {"k1": lambda d: d, "k2": lambda d: d * d / 2, "k3": k3,
      "low_var_kl": lambda d: min(k3(d), 10)}


def responses(kinds):
    """The lines of samples and training, with binary32 lists of the responses alone."""
    out, prompts = {"step": kinds["step"]}, {}
    for kind in ("sample", "train"):
        out[kind] = []
        for line in kinds[kind]:
            row = {}
            if kind == "sample":
                prompts[line["sample_id"]] = line["prompt_length"]
            skip = prompts[line["sample_id"]] if kind == "train" else 0
            for key, value in line.items():
                if isinstance(value, list) and key != "tokens":
                    value = [f32(x) for x in value[skip:]]
                row[key] = value
            out[kind].append(row)
    return out


def losses(rows, rollout, per_token=False, kl_coef=0.0, entropy_coef=0.0, tis=None, clip_c=None,
           kl="k3"):
    """The losses of a step, by the formulas."""
    total = sum(max(1, sum(row["loss_mask"])) for row in rows)
    out = {"pg_loss": 0.0, "kl": 0.0, "entropy": 0.0}
    clipped = 0.0
    for row in rows:
        own = max(1, sum(row["loss_mask"]))
        weight = 1 / total if per_token else 1 / (own * len(rows))
        sampled = rollout[row["sample_id"]]["log_probs"]
        for t, log_prob in enumerate(row["log_probs"]):
            if not row["loss_mask"][t]:
                continue
            old = row.get("old_log_probs", row["log_probs"])[t]
            advantage, ratio = row["advantages"][t], math.exp(log_prob - old)
            free, held = -ratio * advantage, -min(max(ratio, 0.8), 1.2) * advantage
            clipped += weight * (held > free)
            loss = max(free, held)
            if clip_c and advantage < 0:
                loss = min(loss, -clip_c * advantage)
            if tis:
                loss *= min(math.exp(old - sampled[t]), tis)
            out["pg_loss"] += weight * loss
            out["entropy"] += weight * row["entropy"][t]
            if kl_coef:
                out["kl"] += weight * KL[kl](log_prob - row["ref_log_probs"][t])
    out["loss"] = out["pg_loss"] - entropy_coef * out["entropy"] + kl_coef * out["kl"]
    out["clip_fraction"] = clipped
    return out
