"""rlreplay objective: recorded numbers are computed again, and what differs is explained.
usage: objective_test.py PROGRAM

What the program records and computes is held to the formulas in Python's floats, independently.
"""
import json
import math
import os
import random
import re
import struct
import sys
import unittest

from support import Case, save

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

DEMO = ["--model", "demo", "--rollout-batch-size", "4", "--n-samples-per-prompt", "4"]


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


class Recorded(Case):
    """Dumps of our own."""

    def exported(self, dump):
        path = self.folder / (dump.name + ".jsonl")
        result = self.run_program("export", dump, "--to", "jsonl", "-o", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        by_schema = {}
        for line in lines:
            by_schema.setdefault(line["schema"].split(".")[1].split("/")[0], []).append(line)
        return path, lines, by_schema

    def check_formulas(self, dump, **options):
        kinds = responses(self.exported(dump)[2])
        rollout = {s["sample_id"]: s for s in kinds["sample"]}
        for step in kinds["step"]:
            rows = [r for r in kinds["train"] if (r["rollout_id"], r["step_id"]) ==
                    (step["rollout_id"], step["step_id"])]
            wanted = losses(rows, rollout, **options)
            for name, value in wanted.items():
                self.assertAlmostEqual(step["scalars"][name], value, delta=1e-12, msg=name)
        return kinds

    def test_every_kind_of_objective_is_reproduced_to_the_bit(self):
        for name, options in {
                "grpo": [],
                "two steps": ["--num-steps-per-rollout", "2", "--lr", "0.01"],
                "token mean": ["--calculate-per-token-loss", "--dialect", "miles"],
                "whitened": ["--normalize-advantages", "--disable-grpo-std-normalization"],
                "baseline": ["--advantage-estimator", "reinforce_plus_plus_baseline", "--kl-coef",
                             "0.1", "--normalize-advantages", "--num-steps-per-rollout", "2"],
                "policy gradient": ["--advantage-estimator", "policy_gradient"],
                "tis": ["--use-tis", "--tis-clip", "1.01", "--num-steps-per-rollout", "4",
                        "--lr", "0.01", "--eps-clip-c", "1.05"],
                "kl loss": ["--use-kl-loss", "--kl-loss-coef", "0.2", "--kl-loss-type", "k3",
                            "--entropy-coef", "0.01", "--num-steps-per-rollout", "2"]}.items():
            with self.subTest(name):
                dump, steps = self.capture(name, *DEMO, "--steps", "4", *options)
                checked = self.lines("objective", "--from", dump)
                self.assertEqual(len(checked), len(steps))
                for step in checked:
                    self.assertTrue(step["reproduced"])
                    for wanted in ("rewards", "advantages", "pg_loss", "kl", "entropy", "loss",
                                   "clip_fraction"):
                        self.assertEqual(quantity(step, wanted)["verdict"], "equal", wanted)
                    # Nothing that was not recorded is called equal.
                    for absent in ("returns", "reward_kl", "policy_loss"):
                        self.assertEqual(quantity(step, absent)["verdict"], "not recorded")

    def test_recorded_and_computed_numbers_are_those_of_the_formulas(self):
        dump, _ = self.capture("formulas", *DEMO, "--steps", "4", "--num-steps-per-rollout", "2",
                               "--lr", "0.01", "--use-kl-loss", "--kl-loss-coef", "0.2",
                               "--kl-loss-type", "k3", "--entropy-coef", "0.01")
        kinds = self.check_formulas(dump, kl_coef=0.2, entropy_coef=0.01)
        for rollout in {s["rollout_id"] for s in kinds["sample"]}:
            of = advantages([s for s in kinds["sample"] if s["rollout_id"] == rollout])
            for row in kinds["train"]:
                if row["rollout_id"] != rollout:
                    continue
                for x in row["advantages"]:
                    self.assertAlmostEqual(x, of[row["sample_id"]], delta=1e-6)
        dual, _ = self.capture("formulas dual", *DEMO, "--steps", "2", "--num-steps-per-rollout",
                               "2", "--lr", "0.01", "--eps-clip-c", "1.05",
                               "--calculate-per-token-loss")
        self.check_formulas(dual, per_token=True, clip_c=1.05)

    def test_kl_in_the_reward_and_whitening_are_those_of_the_formulas(self):
        dump, _ = self.capture("reward kl", *DEMO, "--num-rollout", "2", "--num-steps-per-rollout",
                               "2", "--lr", "0.01", "--normalize-advantages", "--kl-coef", "0.5",
                               "--kl-loss-type", "k2", "--advantage-estimator",
                               "reinforce_plus_plus_baseline")
        kinds = responses(self.exported(dump)[2])
        for rollout in (0, 1):
            samples = [s for s in kinds["sample"] if s["rollout_id"] == rollout]
            rows = {r["sample_id"]: r for r in kinds["train"] if r["rollout_id"] == rollout}
            of = advantages(samples, std=False)
            values = {i: [of[i] - 0.5 * KL["k2"](old - ref) for old, ref in
                          zip(row["old_log_probs"], row["ref_log_probs"])]
                      for i, row in rows.items()}
            wanted = whitened(values, {i: row["loss_mask"] for i, row in rows.items()})
            apart = 0
            for i, row in rows.items():
                for x, y in zip(row["advantages"], wanted[i]):
                    self.assertAlmostEqual(x, y, delta=1e-6)
                apart = max([apart] + [abs(a - b) for a, b in
                                       zip(row["old_log_probs"], row["ref_log_probs"])])
        self.assertGreater(apart, 0.1)  # of the second rollout: the KL counted for something

    def test_masks_and_another_sampler_enter_as_the_formulas_say(self):
        """What no capture of ours holds: masked tokens, and a sampler that is not the trainer."""
        dump, _ = self.capture("outside", *DEMO, "--num-rollout", "2", "--num-steps-per-rollout",
                               "2", "--lr", "0.01", "--use-kl-loss", "--kl-loss-coef", "0.2")
        _, lines, _ = self.exported(dump)
        rng = random.Random(11)
        for line in lines:
            if line["schema"] == "rlreplay.sample/1":
                line["log_probs"] = [f32(x + rng.uniform(-0.4, 0.4)) for x in line["log_probs"]]
            if line["schema"] == "rlreplay.train/1":
                keep = 0 if line["sample_id"] == 3 else 0.7
                line["loss_mask"] = [int(m and rng.random() < keep) for m in line["loss_mask"]]
        kinds = {"step": []}
        for line in lines:
            kinds.setdefault(line["schema"].split(".")[1].split("/")[0], []).append(line)
        kinds = responses(kinds)
        self.drop_losses(lines)
        path = self.folder / "outside.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        rollout = {s["sample_id"]: s for s in kinds["sample"]}
        base = ["--num-steps-per-rollout", "2", "--use-kl-loss", "--kl-loss-coef", "0.2"]
        for kl in KL:
            for per_token in (False, True):
                flags = ["--kl-loss-type", kl, "--use-tis", "--tis-clip", "1.2", "--eps-clip-c",
                         "1.05", *(["--calculate-per-token-loss"] if per_token else [])]
                steps = self.lines("objective", "--from", path, *base, *flags)
                self.assertEqual(len(steps), 4)
                for step in steps:
                    rows = [r for r in kinds["train"] if (r["rollout_id"], r["step_id"]) ==
                            (step["rollout_id"], step["step_id"])]
                    for name, value in losses(rows, rollout, per_token, kl_coef=0.2, tis=1.2,
                                              clip_c=1.05, kl=kl).items():
                        self.assertAlmostEqual(quantity(step, name)["computed"], value,
                                               delta=1e-12, msg=f"{name} {flags}")

    def test_slime_takes_all_for_one_group_where_a_trajectory_has_several_samples(self):
        dump, _ = self.capture("compact", *DEMO, "--steps", "1")
        path, lines, _ = self.exported(dump)
        samples = [line for line in lines if line["schema"] == "rlreplay.sample/1"]
        for i, row in enumerate(samples):
            row["reward"], row["group_id"] = float(i * i % 7), i // 4
        self.drop_losses(lines)

        def check(of, *flags, code=0):
            for line in lines:
                if line["schema"] == "rlreplay.train/1":
                    line["trajectory_id"] = line["sample_id"] // 2
                    line["reward"] = of[line["sample_id"]]
                    line["advantages"] = [f32(line["reward"])] * len(line["advantages"])
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return self.lines("objective", "--from", path, *flags, code=code)[0]

        whole = advantages([{**row, "group_id": 0} for row in samples])
        self.assertEqual(quantity(check(whole), "rewards")["different"], 0)
        prompts = check(advantages(samples), code=1)
        self.assertEqual(settings(prompts), ["a group of each prompt"])

    def close_rewards(self, name):
        """A dump's lines with rewards close together, its rows, and the rewards by sample."""
        dump, _ = self.capture(name, *DEMO, "--steps", "1")
        _, lines, _ = self.exported(dump)
        rewards, rows = {}, [row for row in lines if row["schema"] == "rlreplay.train/1"]
        for row in lines:
            if row["schema"] == "rlreplay.sample/1":
                row["reward"] = rewards[row["sample_id"]] = f32(1 + row["sample_id"] * 2.0 ** -14)
        self.drop_losses(lines)
        return lines, rows, rewards

    def check_binary32(self, name, parts_of, wanted):
        """Each part of a row's tokens is whitened by itself, with sums as another order may end."""
        lines, rows, rewards = self.close_rewards(name)
        for row in rows:
            x, tokens = rewards[row["sample_id"]], len(row["loss_mask"])
            row["reward"], row["returns"], row["advantages"] = x, [x] * tokens, [0.0] * tokens
        for part in zip(*(parts_of(row) for row in rows)):
            flat = [rewards[row["sample_id"]] for row, places in zip(rows, part) for _ in places]
            n = len(flat)
            if n == 0:
                continue  # a rank that holds prompts alone
            mean, square = f32(math.fsum(flat) / n), f32(math.fsum(x * x for x in flat) / n)
            square = f32(square + 2.0 ** -23)
            scale = 1 / math.sqrt((square - f32(mean * mean)) * n / (n - 1) + 1e-8)
            for row, places in zip(rows, part):
                for t in places:
                    row["advantages"][t] = f32((rewards[row["sample_id"]] - mean) * scale)
        for spoil, found in ((0, [wanted]), (0.01, [])):
            rows[0]["advantages"][-1] += spoil
            path = self.folder / (name + ".jsonl")
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            step, = self.lines("objective", "--from", path, "--normalize-advantages",
                               "--advantage-estimator", "reinforce_plus_plus", code=1)
            self.assertEqual(settings(step), found)

    def test_whitening_in_binary32_is_named(self):
        self.check_binary32("close", lambda row: [range(row["loss_mask"].index(1), row["length"])],
                            "--normalize-advantages in binary32")

    def test_whitening_in_binary32_within_ranks_is_named(self):
        for ranks in (2, 4):
            self.check_binary32(
                f"close {ranks}", lambda row: [zigzag(row, ranks, rank) for rank in range(ranks)],
                f"--normalize-advantages in binary32 within each of {ranks} ranks of context "
                "parallelism")

    def test_only_the_total_loss_needs_the_entropy(self):
        dump, _ = self.capture("no entropy", *DEMO, "--steps", "1", "--entropy-coef", "0.1")
        path, lines, _ = self.exported(dump)
        for line in lines:
            if line["schema"] == "rlreplay.train/1":
                del line["entropy"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        step, = self.lines("objective", "--from", path, "--entropy-coef", "0.1")
        for name in ("pg_loss", "kl", "clip_fraction"):
            self.assertEqual(quantity(step, name)["verdict"], "equal", name)
        for name in ("entropy", "loss"):
            self.assertEqual(quantity(step, name)["verdict"], "not computable")
            self.assertEqual(quantity(step, name)["missing"],
                             "the entropy of tokens is not recorded")

    def test_options_that_are_not_the_recorded_ones_are_found(self):
        dump, _ = self.capture("found", *DEMO, "--steps", "4", "--num-steps-per-rollout", "2",
                               "--lr", "0.02", "--use-kl-loss", "--kl-loss-coef", "0.2",
                               "--kl-loss-type", "k2")
        for given, wanted in (
                (["--calculate-per-token-loss"], ["without --calculate-per-token-loss"]),
                (["--kl-loss-type", "low_var_kl"], ["--kl-loss-type k2"]),
                (["--eps-clip", "0.01"], ["--eps-clip 0.2"]),
                (["--normalize-advantages"], ["without --normalize-advantages"]),
                (["--disable-grpo-std-normalization", "--normalize-advantages"],
                 ["without --disable-grpo-std-normalization", "without --normalize-advantages"]),
                (["--advantage-estimator", "policy_gradient"], ["--advantage-estimator grpo"]),
                (["--calculate-per-token-loss", "--kl-loss-type", "k1"],
                 ["without --calculate-per-token-loss", "--kl-loss-type k2"])):
            with self.subTest(given):
                steps = self.lines("objective", "--from", dump, *given, code=1)
                found = [set(settings(step)) for step in steps if not step["reproduced"]]
                self.assertTrue(found)
                self.assertTrue(any(set(wanted) == one for one in found), found)
                text = self.run_program("objective", "--from", dump, *given).stdout
                self.assertIn("reproduced with: ", text)
                tables = [line for line in text.splitlines() if not line.startswith("again: ")]
                self.assertLessEqual(max(map(len, tables)), 100)

    def test_what_the_dump_recorded_is_tried_first(self):
        dump, _ = self.capture("odd clip", *DEMO, "--steps", "2", "--num-steps-per-rollout", "2",
                               "--lr", "0.02", "--eps-clip", "0.0001", "--entropy-coef", "0.013")
        steps = self.lines("objective", "--from", dump, "--eps-clip", "0.2", "--entropy-coef",
                           "0.5", code=1)
        self.assertEqual(set(settings(steps[1])), {"--eps-clip 1e-04", "--entropy-coef 0.013"})

    def test_one_changed_number_is_named(self):
        dump, _ = self.capture("changed", *DEMO, "--steps", "8", "--num-steps-per-rollout", "2")
        path, lines, _ = self.exported(dump)
        flags = ["--num-steps-per-rollout", "2", "--tolerance", "0"]

        def check(name, change):
            changed = [json.loads(json.dumps(line)) for line in lines]
            change(changed)
            other = self.folder / "changed.jsonl"
            other.write_text("".join(json.dumps(line) + "\n" for line in changed))
            steps = self.lines("objective", "--from", other, *flags, code=1 if name else 0)
            bad = [(step["step_id"], q) for step in steps for q in step["quantities"]
                   if q["verdict"] == "different"]
            self.assertEqual([q["name"] for _, q in bad], [name] if name else [])
            return bad[0] if bad else None

        check(None, lambda changed: None)
        rows = [line for line in lines if line["schema"] == "rlreplay.train/1"]
        target = next(row for row in rows if row["step_id"] == 1 and row["advantages"][-1] != 0)

        def advantage(changed):
            row = changed[lines.index(target)]
            bits = struct.unpack("<I", struct.pack("<f", row["advantages"][-1]))[0] + 1
            row["advantages"][-1] = struct.unpack("<f", struct.pack("<I", bits))[0]

        step_id, found = check("advantages", lambda c: [advantage(c), self.drop_losses(c)])
        self.assertEqual(step_id, 1)
        self.assertEqual(found["sample"], target["sample_id"])
        self.assertEqual(found["different"], 1)
        self.assertEqual(found["token"], target["length"] - 1)

        def loss(changed):
            for line in changed:
                if line["schema"] == "rlreplay.step/1" and line["step_id"] == 1:
                    line["scalars"]["loss"] = math.nextafter(line["scalars"]["loss"], 1)
                    return

        step_id, found = check("loss", loss)
        self.assertEqual(step_id, 1)
        apart = int(found["recorded_bits"], 16) - int(found["computed_bits"], 16)
        self.assertEqual(abs(apart), 1)

    @staticmethod
    def drop_losses(lines):
        for line in lines:
            if line["schema"] == "rlreplay.step/1":
                line["scalars"], line["columns"] = {"lr": 1.0}, ["lr"]

    def test_a_long_list_is_cut(self):
        dump, _ = self.capture("long", "--model", "demo", "--steps", "9", "--rollout-batch-size", "2",
                               "--n-samples-per-prompt", "2", "--rollout-max-response-len", "4")
        wrong = ("objective", dump, "--calculate-per-token-loss")
        bad = sum(not step["reproduced"] for step in self.lines(*wrong, code=1))
        self.assertGreater(bad, 3)
        for flags, steps, explained in (((), 8, 3), (("--all",), 9, bad)):
            text = self.run_program(*wrong, *flags).stdout
            self.assertEqual(len(re.findall(r"^ [0-9]\.0 ", text, re.M)), steps, text)
            self.assertEqual(len(set(re.findall(r"^step ([0-9])\.0, ", text, re.M))), explained, text)
            self.assertEqual("--all" in text, not flags)

    def test_what_is_recorded_and_not_computed_is_in_the_verdict(self):
        dump, _ = self.capture("lean", *DEMO, "--steps", "2")
        _, lines, _ = self.exported(dump)
        lean = self.folder / "lean.jsonl"

        def verdict(*without, code=0):
            lean.write_text("".join(json.dumps({k: v for k, v in line.items() if k not in without})
                                    + "\n" for line in lines))
            result = self.run_program("objective", lean)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            return (result.stderr if code else result.stdout).splitlines()[-1]

        self.assertTrue(verdict("log_probs").endswith(
            "; recorded and not computable: pg_loss, kl, entropy, loss, clip_fraction"))
        self.assertIn("nothing could be computed of 2 steps: ",
                      verdict("log_probs", "reward", "raw_reward", "rewards", "advantages",
                              "rollout_log_probs", "old_log_probs", code=3))

    def test_steps_are_chosen_and_what_is_absent_is_said(self):
        dump, _ = self.capture("chosen", *DEMO, "--steps", "3")
        self.assertEqual([s["rollout_id"] for s in
                          self.lines("objective", "--from", dump, "--steps", "1..2")], [1, 2])
        self.assertEqual(self.run_program("objective", "--from", dump, "--steps", "7").returncode, 2)
        only = self.folder / "rollouts"
        self.run_program("capture", *DEMO, "--rollout-only", "--num-rollout", "1", "-o", only)
        self.assertEqual(self.run_program("objective", "--from", only).returncode, 3)
        text = self.run_program("objective", "--from", dump).stdout
        self.assertIn("not recorded", text)
        self.assertIn("all that is recorded of 3 steps is reproduced, to the bit", text)


class Other(Case):
    """JSON lines of others, whose options are to be given."""

    def write(self, name, samples, trains):
        path = self.folder / name
        path.write_text("".join(
            json.dumps({"schema": f"rlreplay.{kind}/1", "rollout_id": 0, **line}) + "\n"
            for kind, lines in (("sample", samples), ("train", trains)) for line in lines))
        return path

    def dump(self, name, coef=0.0, shaped=True, **sample):
        """Eight samples in two steps; with a coefficient, KL in the reward and a critic that says
        0.5: returns are what is left of the reward from the token on."""
        rng = random.Random(5)
        rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        of = advantages([{"sample_id": i, "group_id": i // 4, "reward": r}
                         for i, r in enumerate(rewards)])
        samples, trains = [], []
        for i, reward in enumerate(rewards):
            row = {"sample_id": i, "prompt_length": 2}
            samples.append({**row, "tokens": list(range(6)), "group_id": i // 4,
                            "reward": reward, **sample})
            old = [f32(-rng.random()) for _ in range(4)]
            ref = [f32(x + rng.uniform(-1, 1)) for x in old]
            reward = of[i] if shaped else reward
            left = [reward - coef * sum(a - b for a, b in zip(old[t:], ref[t:]))
                    for t in range(4)] if coef else [reward] * 4
            trains.append({**row, "step_id": i // 4, "rank": 0, "length": 6, "reward": reward,
                           "old_log_probs": old, "ref_log_probs": ref, "returns": left,
                           "advantages": [x - (0.5 if coef else 0) for x in left],
                           "kl": [f32(a - b) if coef else 0.0 for a, b in zip(old, ref)],
                           **({"values": [0.5] * 4} if coef else {})})
        return self.write(name, samples, trains)

    def test_sizes_that_are_not_the_dumps_are_told(self):
        dump = self.dump("sizes.jsonl")
        for code, flags, said in (
                (0, ("--rollout-batch-size", 2, "--n-samples-per-prompt", 4,
                     "--global-batch-size", 4), ""),
                (0, ("--num-steps-per-rollout", 2), ""),
                (1, ("--rollout-batch-size", 32, "--n-samples-per-prompt", 8),
                 "--rollout-batch-size 32 of --n-samples-per-prompt 8 are 256 samples, "
                 "rollout 0 has 8"),
                (1, ("--num-steps-per-rollout", 1), "--num-steps-per-rollout 1, rollout 0 has 2"),
                (1, ("--global-batch-size", 256), "--global-batch-size 256, step 0.0 has 4")):
            result = self.run_program("objective", dump, *flags)
            self.assertEqual(result.returncode, code, (flags, result.stdout, result.stderr))
            self.assertIn("is reproduced", result.stdout)
            self.assertEqual("these options are not this dump's: " + said in result.stdout,
                             bool(said), result.stdout)

    def test_kl_in_the_reward_is_found(self):
        step = self.lines("objective", self.dump("kl.jsonl", 0.1), code=1)[0]
        self.assertEqual(settings(step), ["--advantage-estimator ppo", "--kl-coef 0.1"])
        step = self.lines("objective", self.dump("odd kl.jsonl", 0.07), code=1)[0]
        self.assertEqual(settings(step), ["a --kl-coef other than 0"])
        text = self.run_program("objective", self.dump("odd kl.jsonl", 0.07)).stdout
        self.assertEqual(text.count("no alternative reproduces advantages, returns"), 1, text)

    def test_rewards_have_an_explanation_of_their_own(self):
        dump = self.dump("shaped.jsonl", 0.1)
        step = self.lines("objective", dump, "--advantage-estimator", "ppo", "--kl-coef", "0.1",
                          code=1)[0]
        self.assertEqual(verdicts(step)["rewards"], "different")
        self.assertEqual(verdicts(step)["advantages"], "equal")
        self.assertEqual(settings(step), ["--advantage-estimator grpo"])
        self.assertEqual(step["explanations"][0]["quantities"], ["rewards"])

    def rows(self, name, rewards, *, shaped=None, returns=None, advantages=None, step=None, **more):
        """A sample of one token for each reward, all of one group; lists of one number a sample."""
        samples, trains = [], []
        for i, reward in enumerate(rewards):
            row = {"sample_id": i, "prompt_length": 1}
            samples.append({**row, "tokens": [1, 2], "group_id": 0, "reward": reward})
            columns = {"returns": returns, "advantages": advantages, **more}
            trains.append({**row, "step_id": step(i) if step else 0, "rank": 0, "length": 2,
                           "old_log_probs": [-1.0],
                           **({"reward": shaped[i]} if shaped else {}),
                           **{key: [of[i]] for key, of in columns.items() if of}})
        return self.write(name, samples, trains)

    def test_variants_with_other_quantities_are_matched_by_name(self):
        # Under slime a reverse KL is computed, under Miles it is taken as it is.
        path = self.rows("distilled.jsonl", [1.0, 0.0], advantages=[5.0, 6.0],
                         teacher_log_probs=[-2.0, -2.0], reverse_kl=[1.0, 1.0])
        for dialect in ("slime", "miles"):
            step, = self.lines("objective", path, "--use-opd", "--dialect", dialect, code=1)
            self.assertEqual(quantity(step, "advantages")["verdict"], "different")
            self.assertEqual(settings(step), [])
            self.assertEqual("reverse_kl" in verdicts(step), dialect == "slime")

    def test_an_infinite_number_is_no_rounding(self):
        path = self.rows("infinite.jsonl", [1.0, 0.0], returns=["7f800000", -0.70710576])
        step, = self.lines("objective", path, code=1)
        self.assertEqual(quantity(step, "returns")["different"], 1)

    def test_advantages_that_are_not_finite_are_0_under_miles(self):
        path = self.rows("nan.jsonl", [1.0, 0.0], advantages=["7fc00000", -0.5],
                         log_probs=[-1.0, -1.0], policy_loss=[0.0, 0.5])
        step, = self.lines("objective", path, "--dialect", "miles", code=1)
        self.assertIn(quantity(step, "policy_loss")["verdict"], ("equal", "rounding"))
        self.assertEqual(quantity(step, "pg_loss")["computed"], 0.25)

    def test_a_variance_below_0_is_named(self):
        flags = ("--advantage-estimator", "reinforce_plus_plus", "--normalize-advantages")
        nan = ["7fc00000"] * 5
        path = self.rows("equal.jsonl", [0.7] * 5, returns=[f32(0.7)] * 5, advantages=nan)
        step, = self.lines("objective", path, *flags, code=1)
        self.assertEqual(settings(step),
                         ["--normalize-advantages in binary32, with a variance below 0"])
        # Of numbers whose sums are exact the variance is 0, and nothing is NaN.
        path = self.rows("exact.jsonl", [0.5] * 4, returns=[0.5] * 4, advantages=nan)
        step, = self.lines("objective", path, *flags, code=1)
        self.assertEqual(settings(step), [])

    def test_rewards_shaped_in_binary32_are_named(self):
        shaped = [-1.0187300443649292, -0.4364994466304779, 0.14538414776325226,
                  1.3098453283309937]  # as torch has them
        rewards = [0.5, 0.5001, 0.5002, 0.5004]
        step, = self.lines("objective", self.rows("close.jsonl", rewards, shaped=shaped), code=1)
        self.assertEqual(settings(step), ["rewards shaped in binary32"])
        shaped[0] -= 0.01
        step, = self.lines("objective", self.rows("far.jsonl", rewards, shaped=shaped), code=1)
        self.assertEqual(settings(step), [])

    def test_whitening_takes_the_recorded_returns(self):
        rewards = [1.0, 0.0, 0.5, 0.25]
        mean, scale = math.fsum(rewards) / 4, math.sqrt(deviation(rewards) ** 2 + 1e-8)
        path = self.rows("returns.jsonl", rewards, shaped=[1.0, 0.0, 0.5, 0.26], returns=rewards,
                         advantages=[(x - mean) / scale for x in rewards], step=lambda i: i // 2)
        first, second = self.lines("objective", path, "--advantage-estimator",
                                   "reinforce_plus_plus", "--normalize-advantages", code=1)
        self.assertTrue(first["reproduced"])
        self.assertEqual([q["name"] for q in second["quantities"] if q["verdict"] == "different"],
                         ["rewards", "returns"])
        self.assertEqual(settings(second), [])

    def test_binary64_is_compared_as_it_was_stored(self):
        path = self.rows("wide.jsonl", [1.0, 0.0], wide=None, returns=[0.707105781, -0.707105781])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "returns" in line:
                line["wide"] = ["returns"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        step, = self.lines("objective", path, "--tolerance", "0", code=1)
        self.assertEqual(quantity(step, "returns")["different"], 2)
        self.assertNotEqual(quantity(step, "returns")["recorded"],
                            f32(quantity(step, "returns")["recorded"]))

    def test_the_tolerance_is_a_distance_and_is_named(self):
        path = self.rows("tolerance.jsonl", [1.0, 0.0], returns=[0.7, -0.7])
        for text in ("nan", "inf", "-1"):
            self.assertEqual(self.run_program("objective", path, "--tolerance", text).returncode, 2)
        self.assertIn("is reproduced, within --tolerance 0.1\n",
                      self.run_program("objective", path, "--tolerance", "0.1").stdout)
        self.assertIn(" --tolerance 0.001\n",
                      self.run_program("objective", path, "--tolerance", "0.001").stdout)

    def test_a_reason_is_given_for_every_step(self):
        path = self.rows("masked.jsonl", [1.0, 0.0], log_probs=[-1.0, -1.0],
                         policy_kl=[0.0, 0.0], step=lambda i: i)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line.get("step_id") == 1:
                line["loss_mask"] = [0]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.assertIn("step 0.1, policy_kl: every token is masked",
                      self.run_program("objective", path).stdout)

    def test_a_kl_loss_is_found_with_its_type(self):
        kl = math.expm1(0.5) - 0.5
        path = self.rows("kl loss.jsonl", [1.0, 0.0], log_probs=[-1.0, -1.0],
                         ref_log_probs=[-0.5, -0.5], advantages=[1.0, 1.0])
        with path.open("a") as file:
            file.write(json.dumps({"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0,
                                   "rank": 0, "scalars": {"kl": kl}}) + "\n")
        step, = self.lines("objective", path, code=1)
        self.assertIn("--use-kl-loss with --kl-loss-type k3", settings(step))

    def test_the_dialect_that_is_used_is_said(self):
        path = self.rows("dialect.jsonl", [1.0, 0.0], returns=[0.70710576, -0.70710576])
        self.assertIn("defaults with --dialect miles",
                      self.run_program("objective", path, "--dialect", "miles").stderr)

    def test_a_number_of_a_dict_is_the_reward(self):
        path = self.dump("dict.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "rlreplay.sample/1" == line["schema"]:
                line["reward_components"] = {"acc": line.pop("reward"), "length": 3}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        text = self.run_program("objective", path).stdout
        self.assertIn("--reward-key NAME takes one of their numbers\n(acc, length)", text)
        steps = self.lines("objective", path, "--reward-key", "acc")
        self.assertEqual({verdicts(s)["rewards"] for s in steps} - {"equal", "rounding"}, set())
        self.lines("objective", path, "--reward-key", "length", code=1)
        wrong = self.run_program("objective", path, "--reward-key", "score")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('no reward holds a number "score"; there are acc, length', wrong.stderr)


class Miles(Case):
    """A dump as Miles writes it, with the terms of the policy loss."""

    def dump(self, name, clip=0.2, spoil=None, sampler=0.0, sampler_is_old=False, masked=False):
        """`sampler`: how far its log-probabilities lie from the trainer's."""
        rng, noise = random.Random(7), random.Random(8)
        folder = self.folder / name
        samples, data, debug, kl, loss = [], {}, [], [], []
        rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
        of = advantages([{"sample_id": i, "group_id": i // 4, "reward": r}
                         for i, r in enumerate(rewards)])
        for i, reward in enumerate(rewards):
            length = 5 + i
            old = [f32(-rng.random() * 3) for _ in range(length)]
            mask = [0 if t == 2 or masked else 1 for t in range(length)]
            sampled = [f32(x + noise.uniform(-sampler, sampler)) for x in old]
            samples.append({"index": i, "group_index": i // 4, "tokens": list(range(3 + length)),
                            "response_length": length, "reward": reward, "loss_mask": mask,
                            "rollout_log_probs": sampled, "status": "completed", "prompt": "p",
                            "response": "r", "label": "l", "weight_versions": ["0"]})
            row = {"tokens": list(range(3 + length)), "total_lengths": 3 + length,
                   "response_lengths": length, "loss_masks": mask, "sample_indices": i,
                   "rewards": f32(of[i]), "rollout_log_probs": sampled, "log_probs": old,
                   "advantages": [f32(of[i])] * length, "returns": [f32(of[i])] * length}
            for key, value in row.items():
                data.setdefault(key, []).append(value)
            now = [f32(x + rng.uniform(-0.5, 0.5)) for x in old]
            old = sampled if sampler_is_old else old
            debug.append({"index": i, "total_length": 3 + length, "response_length": length,
                          "train_log_probs": now, "old_log_probs": list(old),
                          "advantages": row["advantages"], "local_loss_mask": mask})
            for a, b in zip(now, old):
                ratio = math.exp(a - b)
                kl.append(f32(b - a))
                loss.append(f32(max(-ratio * of[i],
                                    -min(max(ratio, 1 - clip), 1 + clip) * of[i])))
        if spoil:
            spoil(debug, kl, loss)
        save(folder / "rollout_data/0.pt", {"rollout_id": 0, "metadata": {}, "samples": samples})
        save(folder / "train_data/0_0.pt", {"rollout_id": 0, "rank": 0, "rollout_data": data,
                                            "cp_rank": 0, "cp_size": 1, "qkv_format": "thd"})
        # Two micro-batches, each with indices of its own.
        cut = sum(len(row["old_log_probs"]) for row in debug[:5])
        for call, (rows, begin, end) in enumerate(((debug[:5], 0, cut), (debug[5:], cut, None))):
            rows = [{**row, "index": k} for k, row in enumerate(rows)]
            save(folder / f"policy_loss_debug/rank_0_call_{call}.pt",
                 {"rank": 0, "call": call, "samples": rows, "ppo_kl": kl[begin:end],
                  "pg_loss": loss[begin:end], "finite": {}})
        return folder

    def test_the_terms_are_imported_and_reproduced(self):
        folder = self.dump("miles")
        dump = self.folder / "imported"
        self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
        step, = self.lines("objective", "--from", dump)
        for name in ("rewards", "returns", "advantages", "policy_kl", "policy_loss"):
            self.assertIn(quantity(step, name)["verdict"], ("equal", "rounding"), name)
        self.assertEqual(quantity(step, "policy_loss")["compared"], sum(range(5, 13)) - 8)
        for name in ("pg_loss", "loss", "entropy", "clip_fraction"):
            self.assertEqual(quantity(step, name)["verdict"], "not recorded")
        self.assertIsNotNone(quantity(step, "pg_loss")["computed"])
        # Read directly, without an import by hand, it is the same.
        self.assertEqual(self.lines("objective", "--from", folder), [step])
        # The current log-probabilities are the step's, the old ones those before it.
        text = self.run_program("show", dump, "--sample", "6", "--json").stdout
        row = json.loads(text)
        for key in ("0-0/log_probs", "0-0/old_log_probs", "0-0/policy_loss"):
            self.assertEqual(len(row[key]), 11)
        self.assertNotEqual(row["0-0/log_probs"], row["0-0/old_log_probs"])

    def test_a_reward_key_that_no_reward_has_is_refused(self):
        folder = self.folder / "dicts"
        save(folder / "rollout_data/0.pt", {"rollout_id": 0, "metadata": {}, "samples": [
            {"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
             "reward": {"acc": 1.0, "format": 0.0}, "status": "completed", "prompt": "p",
             "response": "r", "label": "l"} for i in range(2)]})
        made = self.folder / "dict dump"
        result = self.run_program("import", folder, "--reward-key", "nokey", "-o", made)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn('no reward holds a number "nokey"; there are acc, format', result.stderr)
        self.assertFalse(made.exists())
        result = self.run_program("import", folder, "--reward-key", "acc", "-o", made)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_another_clip_is_found(self):
        step, = self.lines("objective", "--from", self.dump("clip", 0.05), code=1)
        self.assertEqual(quantity(step, "policy_loss")["verdict"], "different")
        self.assertEqual(step["explanations"], [])
        step, = self.lines("objective", "--from", self.folder / "clip", "--eps-clip", "0.05")
        self.assertTrue(step["reproduced"])

    def test_one_term_is_named(self):
        def spoil(debug, kl, loss):
            loss[5 + 3] += 0.25  # the fourth token of the second response
        step, = self.lines("objective", "--from", self.dump("spoiled", spoil=spoil), code=1)
        found = quantity(step, "policy_loss")
        self.assertEqual((found["sample"], found["token"], found["different"]), (1, 3 + 3, 1))

    def test_rows_that_fit_no_sample_are_told(self):
        def orphan(debug, kl, loss):
            debug[3]["old_log_probs"][0] += 0.5
        folder = self.dump("orphan", spoil=orphan)
        result = self.run_program("import", folder, "-o", self.folder / "orphan dump", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {f["code"]: f["where"] for f in json.loads(result.stdout)["findings"]
                if f["code"].startswith("policy-loss")}
        self.assertEqual(told, {"policy-loss-unplaced": "policy_loss_debug/rank_0_call_0.pt",
                                "policy-loss-missing": "step 0.0"})
        step, = self.lines("objective", "--from", folder)
        # The third of sample 3's tokens is masked, as everywhere.
        self.assertEqual(quantity(step, "policy_loss")["compared"],
                         sum(range(5, 13)) - 8 - (8 - 1))
        self.assertEqual(step["policy_loss_unplaced"], 1)
        for where in (folder, self.folder / "orphan dump"):
            text = self.run_program("objective", "--from", where).stdout
            self.assertIn("no row of policy_loss_debug fits 1 sample of the step", text)
            self.assertIn("what can be computed of 1 step is reproduced", text)
            self.assertNotIn("all that is recorded", text)

    def test_a_file_that_is_missing_is_told(self):
        folder = self.dump("lost")
        (folder / "policy_loss_debug/rank_0_call_1.pt").unlink()
        result = self.run_program("import", folder, "-o", self.folder / "lost dump")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("finding policy-loss-missing: no row of policy_loss_debug fits 3 samples: a file "
                      "of the step is missing, or is another's (step 0.0)", result.stdout)
        whole = self.run_program("import", self.dump("not lost"), "-o", self.folder / "whole dump")
        self.assertNotIn("policy-loss", whole.stdout)

    def test_the_samplers_log_probabilities_name_the_rows_too(self):
        flags = ("--use-rollout-logprobs",)
        folder = self.dump("sampler", sampler=0.3, sampler_is_old=True)
        step, = self.lines("objective", "--from", folder, *flags)
        for name in ("policy_kl", "policy_loss"):
            self.assertIn(quantity(step, name)["verdict"], ("equal", "rounding"), name)
            self.assertEqual(quantity(step, name)["compared"], sum(range(5, 13)) - 8)
        self.assertIn("all that is recorded of 1 step is reproduced",
                      self.run_program("objective", "--from", folder, *flags).stdout)

        def spoil(debug, kl, loss):
            loss[5 + 3] += 0.25
        folder = self.dump("sampler false", sampler=0.3, sampler_is_old=True, spoil=spoil)
        step, = self.lines("objective", "--from", folder, *flags, code=1)
        found = quantity(step, "policy_loss")
        self.assertEqual((found["sample"], found["token"], found["different"]), (1, 3 + 3, 1))

    def test_the_terms_are_those_before_opsm_and_tis(self):
        folder = self.dump("corrected", sampler=0.3)
        lines = self.folder / "corrected.jsonl"
        self.run_program("import", folder, "-o", self.folder / "corrected dump")
        self.run_program("export", self.folder / "corrected dump", "--to", "jsonl", "-o", lines)
        for flags in (("--use-tis", "--tis-clip", "1.1", "--tis-clip-low", "0.9"),
                      ("--use-opsm", "--opsm-delta", "0.001")):
            step, = self.lines("objective", "--from", folder, *flags)
            self.assertIn(quantity(step, "policy_loss")["verdict"], ("equal", "rounding"))
            # JSON lines hold the terms as the loss sums them: there the other one is named.
            step, = self.lines("objective", "--from", lines, "--dialect", "miles", *flags, code=1)
            self.assertEqual(settings(step), ["policy_loss before OPSM and TIS"])

    def test_a_step_without_an_unmasked_token_says_so(self):
        folder = self.dump("masked", masked=True)
        step, = self.lines("objective", "--from", folder)
        self.assertEqual(quantity(step, "policy_kl")["verdict"], "not computable")
        self.assertEqual(quantity(step, "policy_kl")["missing"], "every token is masked")


if __name__ == "__main__":
    unittest.main(verbosity=1)
