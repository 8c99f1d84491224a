"""Estimators, corrections and denominators as recipes choose them, in `objective` and in training.
usage: estimators_test.py PROGRAM

What the program computes is held to formulas in Python's floats, written here.
"""
import json
import math
import os
import random
import struct
import sys
import unittest

import checkpoints
from support import Case, bits, save

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

SHAPE = ["--rollout-batch-size", "2", "--n-samples-per-prompt", "4"]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def quantity(step, name):
    return next(q for q in step["quantities"] if q["name"] == name)


def mean_log_ratio(row):
    kept = [a - b for a, b, m in zip(row["log_probs"], row["old_log_probs"], row["loss_mask"]) if m]
    return math.fsum(kept) / max(1, len(kept))


def token_loss(row, t, kind, clip, opsm):
    advantage, log_prob = row["advantages"][t], row["log_probs"][t]
    d = mean_log_ratio(row) if kind == "gspo" else log_prob - row["old_log_probs"][t]
    ratio = math.exp(d)
    bounded = min(max(ratio, 1 - clip), 1 + clip)
    if kind == "cispo":
        loss, clipped = -bounded * advantage * log_prob, bounded != ratio
    else:
        loss, clipped = max(-ratio * advantage, -bounded * advantage), False
        clipped = -bounded * advantage > -ratio * advantage
    if opsm is not None and advantage < 0 and -mean_log_ratio(row) > opsm:
        loss = 0
    return loss, clipped


def losses(rows, kind="grpo", clip=0.2, opsm=None, unbiased=False, kl_coef=None):
    """Of a step, in means over trajectories."""
    tokens = {}
    for row in rows:
        key = row.get("trajectory_id", ("own", row["sample_id"]))
        tokens[key] = tokens.get(key, 0) + sum(row["loss_mask"])
    out = {"pg_loss": 0.0, "kl": 0.0, "clip_fraction": 0.0}
    for row in rows:
        own = tokens[row.get("trajectory_id", ("own", row["sample_id"]))]
        weight = 1 / (max(1, own) * len(tokens))
        for t, mask in enumerate(row["loss_mask"]):
            if not mask:
                continue
            loss, clipped = token_loss(row, t, kind, clip, opsm)
            out["pg_loss"] += weight * loss
            out["clip_fraction"] += weight * clipped
            d = row["log_probs"][t] - row["ref_log_probs"][t]
            kl = d * d / 2
            if unbiased:
                kl *= math.exp(row["log_probs"][t] - row["old_log_probs"][t])
            out["kl"] += weight * kl
    if kl_coef is None:
        out["kl"] = 0.0
    out["loss"] = out["pg_loss"] + (kl_coef or 0) * out["kl"]
    return out


def discounted(gains, factor):
    out, later = [], 0.0
    for gain in reversed(gains):
        later = gain + factor * later
        out.append(later)
    return out[::-1]


class Lines(Case):
    """A rollout of six samples and a step on it, as lines of JSON."""

    def rows(self, seed=3):
        rng = random.Random(seed)
        samples, trained = [], []
        for i in range(6):
            n, prompt = 4 + i, 3
            old = [f32(-3 * rng.random()) for _ in range(n)]
            near = lambda width: [f32(x + rng.gauss(0, width)) for x in old]
            mask = [int(rng.random() < 0.8) for _ in range(n)]
            mask[0] = 1
            samples.append({"sample_id": i, "group_id": i // 3, "prompt_length": prompt,
                            "tokens": [1 + (i + t) % 9 for t in range(prompt + n)],
                            "reward": float(rng.randrange(3)), "log_probs": near(0.2)})
            trained.append({"sample_id": i, "rank": 0, "step_id": 0, "length": prompt + n,
                            "prompt_length": prompt, "tokens": samples[-1]["tokens"],
                            "loss_mask": mask, "log_probs": near(0.3), "old_log_probs": old,
                            "ref_log_probs": near(0.3), "values": near(1), "returns": near(1),
                            "teacher_log_probs": near(0.3),
                            "advantages": [f32(rng.gauss(0, 1)) for _ in range(n)]})
        return samples, trained

    def write(self, samples, trained, scalars=None):
        path = self.folder / "rows.jsonl"
        rows = [{"schema": "rlreplay.sample/1", "rollout_id": 0, **s} for s in samples]
        rows += [{"schema": "rlreplay.train/1", "rollout_id": 0, **r} for r in trained]
        if scalars:
            rows.append({"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                         "scalars": scalars})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def objective(self, path, *flags, code=0):
        step, = self.lines("objective", "--from", path, *flags, code=code)
        return step

    def check(self, rows, flags, only=("pg_loss", "kl", "loss", "clip_fraction"), **options):
        wanted = losses(rows[1], **options)
        # The advantages are nobody's.
        step = self.objective(self.write(*rows, wanted), *flags, code=1)
        for name in only:
            self.assertAlmostEqual(quantity(step, name)["computed"], wanted[name], delta=1e-12,
                                   msg=f"{name} {flags}")
            self.assertIn(quantity(step, name)["verdict"], ("equal", "rounding"))
        return wanted

    def test_policy_losses_corrections_and_kl_are_those_of_the_formulas(self):
        rows = self.rows()
        kl = ["--use-kl-loss", "--kl-loss-coef", "0.2", "--kl-loss-type", "k2"]
        for kind in ("grpo", "gspo", "cispo"):
            flags = ["--advantage-estimator", kind, "--eps-clip", "0.1"]
            self.check(rows, flags, kind=kind, clip=0.1)
            self.check(rows, [*flags, "--use-opsm", "--opsm-delta", "0.01"], kind=kind, clip=0.1,
                       opsm=0.01)
            self.check(rows, [*flags, *kl, "--use-unbiased-kl"], kind=kind, clip=0.1, kl_coef=0.2,
                       unbiased=True)

    def test_a_kl_without_weight_is_computed_where_it_is_asked_for(self):
        flags = ["--use-kl-loss", "--kl-loss-type", "k2"]
        wanted = self.check(self.rows(), flags, kl_coef=0)
        self.assertGreater(wanted["kl"], 0.01)

    def test_trajectories_share_a_denominator(self):
        samples, trained = self.rows()
        for row, trajectory in zip(trained, (40, 40, 2, 7, 7, 7)):
            row["trajectory_id"] = trajectory
        together = self.check((samples, trained), [])
        apart = losses([{k: v for k, v in row.items() if k != "trajectory_id"} for row in trained])
        self.assertGreater(abs(together["pg_loss"] - apart["pg_loss"]), 0.01)
        path = self.write(samples, trained, apart)
        step = self.objective(path, code=1)
        self.assertIn(["each sample for itself in the denominators"],
                      [e["settings"] for e in step["explanations"]])

    def test_what_the_trainer_counted_is_taken_as_it_is(self):
        samples, trained = self.rows()
        plain = losses(trained)
        step = self.objective(self.write(samples, trained, {"trajectories": 12.0}), code=1)
        self.assertAlmostEqual(quantity(step, "pg_loss")["computed"], plain["pg_loss"] / 2)
        trained[0]["trajectory_tokens"] = 10 * sum(trained[0]["loss_mask"])
        step = self.objective(self.write(samples, trained), code=1)
        own = losses([trained[0]])["pg_loss"] / 6
        self.assertAlmostEqual(quantity(step, "pg_loss")["computed"], plain["pg_loss"] - own * 0.9)

    def test_another_policy_loss_is_named(self):
        rows = self.rows()
        for row in rows[1]:  # advantages as no estimator has them would be the first finding
            row.pop("returns")
        for recorded, given in (("gspo", "grpo"), ("cispo", "grpo"), ("grpo", "gspo")):
            path = self.write(*rows, losses(rows[1], kind=recorded))
            step = self.objective(path, "--advantage-estimator", given, code=1)
            found = [e["settings"] for e in step["explanations"] if "pg_loss" in e["quantities"]]
            self.assertEqual(found, [["--advantage-estimator " + recorded]])
        path = self.write(*rows, losses(rows[1], opsm=1e-4))
        step = self.objective(path, code=1)
        self.assertIn(["--use-opsm"], [e["settings"] for e in step["explanations"]])

    def advantages(self, samples, trained, flags, wanted, returns=None):
        """Recorded ones are those of the formulas."""
        for row, of, gained in zip(trained, wanted, returns or wanted):
            row["advantages"] = [f32(x) for x in of]
            row["returns"] = [f32(x) for x in gained]
        step = self.objective(self.write(samples, trained), *flags)
        for name in ("advantages", "returns"):
            self.assertEqual(quantity(step, name)["different"], 0)
            self.assertLess(quantity(step, name)["max_difference"], 1e-6)
            self.assertEqual(quantity(step, name)["compared"], sum(range(4, 10)))

    def test_discounted_returns_and_gae_are_those_of_the_formulas(self):
        for dialect in ("slime", "miles"):
            samples, trained = self.rows()
            plus, gae, gained = [], [], []
            for s, row in zip(samples, trained):
                mask, last = row["loss_mask"], max(t for t, m in enumerate(row["loss_mask"]) if m)
                kl = [0.1 * (a - b) for a, b in zip(row["old_log_probs"], row["ref_log_probs"])]
                if dialect == "slime":
                    kl = [x * m for x, m in zip(kl, mask)]
                gains = [-x for x in kl]
                gains[last] += s["reward"]
                plus.append(discounted(gains, 0.9))
                steps = [t for t in range(len(mask)) if mask[t] or dialect == "slime"]
                values = [row["values"][t] for t in steps] + [0.0]
                deltas = [(s["reward"] if k == len(steps) - 1 else 0) + 0.9 * values[k + 1]
                          - values[k] for k in range(len(steps))]
                of = dict(zip(steps, discounted(deltas, 0.9 * 0.8)))
                gae.append([of.get(t, 0.0) for t in range(len(mask))])
                gained.append([of[t] + row["values"][t] if t in of else 0.0
                               for t in range(len(mask))])
            self.advantages(samples, trained,
                            ["--dialect", dialect, "--advantage-estimator", "reinforce_plus_plus",
                             "--gamma", "0.9", "--kl-coef", "0.1"], plus)
            self.advantages(samples, trained,
                            ["--dialect", dialect, "--advantage-estimator", "ppo", "--gamma", "0.9",
                             "--lambd", "0.8"], gae, gained)

    def gae_over_ranks(self, ranks):
        """slime's: the first rank of context parallelism gives the reward to its last token. Also
        each sample's place of it (None: that rank holds no token), and its charged rewards."""
        samples, trained = self.rows()
        places, charged = [], []
        for s, row in zip(samples, trained):
            total, prompt, chunk = row["length"], 3, -(-row["length"] // (2 * ranks))
            held = [t - (prompt - 1) for t in range(prompt - 1, total - 1)
                    if t // chunk in (0, 2 * ranks - 1)]
            gains = [-0.1 * (a - b) for a, b in zip(row["old_log_probs"], row["ref_log_probs"])]
            if held:
                gains[held[-1]] += s["reward"]
            values = row["values"] + [0.0]
            deltas = [g + 0.9 * values[t + 1] - values[t] for t, g in enumerate(gains)]
            row["advantages"] = [f32(x) for x in discounted(deltas, 0.9 * 0.8)]
            row["returns"] = [f32(a + v) for a, v in zip(row["advantages"], row["values"])]
            row["kl"] = [f32(a - b) for a, b in zip(row["old_log_probs"], row["ref_log_probs"])]
            places.append((held or [None])[-1])
            charged.append([f32(x) for x in gains])
        return samples, trained, places, charged

    GAE = ["--advantage-estimator", "ppo", "--gamma", "0.9", "--lambd", "0.8", "--kl-coef", "0.1"]

    def test_a_reward_that_context_parallelism_moves_is_found(self):
        for ranks, wanted in ((2, [None, 4, 0, 0, 7, 8]), (3, [None] * 5 + [8]), (4, [None] * 6)):
            samples, trained, places, _ = self.gae_over_ranks(ranks)
            self.assertEqual(places, wanted)
            found = f"the reward where the first of {ranks} ranks of context parallelism ends"
            step = self.objective(self.write(samples, trained), *self.GAE, code=1)
            explained, = step["explanations"]
            self.assertEqual((explained["settings"], explained["quantities"]),
                             ([found], ["returns", "advantages"]))
            step = self.objective(self.write(samples, trained), *self.GAE, "--dialect", "miles",
                                  code=1)
            self.assertNotIn([found], [e["settings"] for e in step["explanations"]])
            # A number that no rank explains is still a finding.
            trained[5]["advantages"][0] += 0.5
            step = self.objective(self.write(samples, trained), *self.GAE, code=1)
            self.assertEqual([e["quantities"] for e in step["explanations"]], [["returns"]])

    def test_a_kl_that_slime_overwrote_is_found(self):
        samples, trained, _, _ = self.gae_over_ranks(1)
        self.objective(self.write(samples, trained), *self.GAE)
        written = "the rewards of tokens in the place of reward_kl"
        for ranks, settings in ((1, [written]), (2, [
                "the reward where the first of 2 ranks of context parallelism ends", written])):
            samples, trained, _, charged = self.gae_over_ranks(ranks)
            for row, gains in zip(trained, charged):
                row["kl"] = gains
            step = self.objective(self.write(samples, trained), *self.GAE, code=1)
            self.assertEqual([e["settings"] for e in step["explanations"]], [settings])

    def test_three_causes_at_once_are_found(self):
        """A reward that context parallelism moves, a kl that holds rewards, and ranks that whiten."""
        samples, trained, _, charged = self.gae_over_ranks(2)
        for row, gains in zip(trained, charged):
            row["kl"] = gains
        held = {0: [], 1: []}
        for s, row in zip(samples, trained):
            total, prompt, chunk = row["length"], 3, -(-row["length"] // 4)
            for t, mask in enumerate(row["loss_mask"]):
                held[int((t + prompt - 1) // chunk in (1, 2))].append((row, t, mask))
        for places in held.values():
            kept = [row["advantages"][t] for row, t, mask in places if mask]
            mean = sum(kept) / len(kept)
            variance = sum((x - mean) ** 2 for x in kept) / (len(kept) - 1)
            for row, t, _ in places:
                row["advantages"][t] = f32((row["advantages"][t] - mean) * (variance + 1e-8) ** -0.5)
        step = self.objective(self.write(samples, trained), *self.GAE, code=1)
        found, = step["explanations"]
        self.assertEqual((found["settings"], found["quantities"], found["not_reproduced"]), ([
            "--normalize-advantages within each of 2 ranks of context parallelism",
            "the reward where the first of 2 ranks of context parallelism ends",
            "the rewards of tokens in the place of reward_kl"],
            ["reward_kl", "returns", "advantages"], []))

    def test_distillation_takes_the_recorded_teacher(self):
        samples, trained = self.rows()
        wanted = [[s["reward"] - 0.5 * (a - b) for a, b in
                   zip(row["old_log_probs"], row["teacher_log_probs"])]
                  for s, row in zip(samples, trained)]
        flags = ["--disable-rewards-normalization"]
        rewards = [[s["reward"]] * len(row["values"]) for s, row in zip(samples, trained)]
        self.advantages(samples, trained, [*flags, "--use-opd", "--opd-kl-coef", "0.5"], wanted,
                        rewards)
        for row, s in zip(trained, samples):
            row["reverse_kl"] = [f32(a - b) for a, b in
                                 zip(row["old_log_probs"], row["teacher_log_probs"])]
            row["advantages"] = [f32(s["reward"] - x) for x in row["reverse_kl"]]
        step = self.objective(self.write(samples, trained), *flags, code=1)
        self.assertEqual(quantity(step, "reverse_kl")["different"], 0)
        self.assertEqual([e["settings"] for e in step["explanations"]], [["--use-opd"]])

    def test_the_value_loss_has_its_clip(self):
        samples, trained = self.rows()
        total = clipped = 0.0
        for row in trained:
            row["current_values"] = [f32(x + 0.3 * (t % 3 - 1)) for t, x in
                                     enumerate(row["values"])]
            weight = 1 / (max(1, sum(row["loss_mask"])) * len(trained))
            for v, old, goal, m in zip(row["current_values"], row["values"], row["returns"],
                                       row["loss_mask"]):
                held = old + min(max(v - old, -0.1), 0.1)
                total += m * weight * max((v - goal) ** 2, (held - goal) ** 2)
                clipped += m * weight * (abs(v - old) > 0.1)
        path = self.write(samples, trained, {"value_loss": total, "value_clip_fraction": clipped})
        step = self.objective(path, "--value-clip", "0.1", code=1)
        for name, value in (("value_loss", total), ("value_clip_fraction", clipped)):
            self.assertAlmostEqual(quantity(step, name)["computed"], value, delta=1e-12)
            self.assertNotEqual(quantity(step, name)["verdict"], "different")
        step = self.objective(path, code=1)
        self.assertEqual(quantity(step, "value_loss")["verdict"], "different")

    def test_values_at_a_bound_of_the_clip_are_clipped_or_not(self):
        """Values that moved by the clip, to a rounding: binary32 clips all of them or none."""
        samples, trained = self.rows()
        total = moved = 0.0
        for row in trained:
            row["current_values"] = [f32(x + (0.1, 0.0, -0.1)[t % 3])
                                     for t, x in enumerate(row["values"])]
            weight = 1 / (max(1, sum(row["loss_mask"])) * len(trained))
            for v, old, goal, m in zip(row["current_values"], row["values"], row["returns"],
                                       row["loss_mask"]):
                held = old + min(max(v - old, -0.1), 0.1)
                total += m * weight * max((v - goal) ** 2, (held - goal) ** 2)
                moved += m * weight * (v != old)
        self.assertLess(moved, 0.9)
        flags = ("--value-clip", "0.1")
        for share, verdict in ((0.0, "rounding"), (moved / 2, "rounding"), (moved, "rounding"),
                               (moved + 0.1, "different")):
            path = self.write(samples, trained, {"value_loss": total, "value_clip_fraction": share})
            step = self.objective(path, *flags, code=1)
            found = quantity(step, "value_clip_fraction")
            self.assertEqual(found["verdict"], verdict, share)
            if verdict == "rounding":
                text = " ".join(self.run_program("objective", path, *flags).stdout.split())
                self.assertRegex(text, r"value_clip_fraction: \d+ tokens at a bound of the clip")

    def test_a_group_of_one_is_not_a_number_on_both_sides(self):
        samples, trained = self.rows()
        for s, row in zip(samples, trained):
            s["group_id"] = s["sample_id"]
            row["reward"] = "7ff8000000000000"
            row["advantages"] = row["returns"] = ["7fc00000"] * len(row["values"])
        step = self.objective(self.write(samples, trained))
        for name, count in (("rewards", 6), ("advantages", 39), ("returns", 39)):
            found = quantity(step, name)
            self.assertEqual((found["verdict"], found["not_a_number"], found["different"]),
                             ("equal", count, 0))

    def test_what_no_framework_has_is_refused_by_name(self):
        path = self.write(*self.rows())
        for flags, word in ((["--dialect", "miles", "--advantage-estimator", "cispo"], "cispo"),
                            (["--use-tis", "--use-rollout-logprobs"], "exclude"),
                            (["--use-unbiased-kl"], "--use-kl-loss")):
            result = self.run_program("objective", "--from", path, *flags)
            self.assertEqual(result.returncode, 2)
            self.assertIn(word, result.stderr)
        for flags in (["--advantage-estimator", "ppo"], ["--use-opd"]):
            result = self.run_program("capture", "--model", "demo", *flags, "-o",
                                      self.folder / "never")
            self.assertEqual(result.returncode, 4)
            self.assertFalse((self.folder / "never").exists())


class Compact(Case):
    """A slime dump of rollouts that left several samples each, some of them by top-p."""

    def dump(self, masked_sums=None):
        rng = random.Random(5)
        folder = self.folder / "slime"
        ids, samples, trained = [0, 0, 1, 2, 2, 3], [], []
        for i, rollout in enumerate(ids):
            n, prompt = 3 + i, 2
            old = [f32(-3 * rng.random()) for _ in range(n)]
            tokens, mask = list(range(1, 1 + prompt + n)), [1] * (n - 1) + [i % 2]
            samples.append({"index": i, "group_index": rollout // 2, "rollout_id": rollout,
                            "tokens": tokens, "response_length": n, "reward": float(rollout % 2),
                            "loss_mask": mask, "rollout_log_probs": old, "status": "completed",
                            "prompt": "p", "response": "r", "label": "l", "weight_versions": ["0"]})
            if i == 4:
                samples[-1]["rollout_top_p_token_ids"] = [3, 4, 5] * n
                samples[-1]["rollout_top_p_token_offsets"] = [3 * t for t in range(n + 1)]
            trained.append({"sample_index": i, "rollout_position": i, "tokens": tokens,
                            "total_lengths": prompt + n, "response_lengths": n, "rewards": 0.25 * i,
                            "rollout_ids": rollout, "loss_masks": mask, "log_probs": old,
                            "advantages": [f32(rng.gauss(0, 1))] * n})
        for row in trained:
            row["rollout_mask_sums"] = masked_sums or sum(
                sum(r["loss_masks"]) for r in trained if r["rollout_ids"] == row["rollout_ids"])
        shard = {"rank": 0, "sample_indices": list(range(6)), "partition": list(range(6)),
                 "micro_batch_indices": [[0, 1, 2], [3, 4, 5]], "num_microbatches": [1, 1],
                 "global_batch_sizes": [2, 2]}
        save(folder / "rollout_data/0.pt", {"rollout_id": 0, "samples": samples})
        save(folder / "train_data/0.pt", {"format_version": 2, "rollout_id": 0, "rank": 0,
                                          "samples": trained, "dp_shards": [shard]})
        return folder, trained

    def test_their_steps_are_divided_as_slime_divides_them(self):
        folder, trained = self.dump()
        step, later = self.lines("objective", "--from", folder, code=1)  # rewards of nobody's making
        wanted = 0.0
        for row in trained[:3]:
            for advantage, m in zip(row["advantages"], row["loss_masks"]):
                wanted -= m * advantage / row["rollout_mask_sums"] / 2
        self.assertAlmostEqual(quantity(step, "pg_loss")["computed"], wanted, delta=1e-12)
        self.assertIsNone(quantity(later, "pg_loss")["computed"])  # by weights that moved
        # With its own rollout's log-probabilities as old ones slime keeps those of the step.
        _, later = self.lines("objective", "--from", folder, "--use-rollout-logprobs", code=1)
        self.assertIsNotNone(quantity(later, "pg_loss")["computed"])

    def test_what_was_imported_comes_back(self):
        folder, trained = self.dump(masked_sums=9)
        dump, back, again = (self.folder / name for name in ("dump", "back", "again"))
        for arguments in (["import", folder, "-o", dump],
                          ["export", dump, "--to", "jsonl", "-o", self.folder / "c.jsonl"],
                          ["export", dump, "--to", "slime", "-o", back],
                          ["import", back, "-o", again],
                          ["diff", dump, again]):
            result = self.run_program(*arguments)
            self.assertEqual(result.returncode, 0, (arguments, result.stderr, result.stdout))
        rows = [json.loads(line) for line in (self.folder / "c.jsonl").read_text().splitlines()]
        samples = [row for row in rows if row["schema"] == "rlreplay.sample/1"]
        steps = [row for row in rows if row["schema"] == "rlreplay.train/1"]
        self.assertEqual([s["trajectory_id"] for s in samples], [0, 0, 1, 2, 2, 3])
        self.assertEqual([s["trajectory_id"] for s in steps], [0, 0, 1, 2, 2, 3])
        self.assertEqual([s["trajectory_tokens"] for s in steps], [9] * 6)
        self.assertEqual([s["sample_id"] for s in samples if "nucleus" in s], [4])
        self.assertEqual(samples[4]["nucleus"], {"sizes": [3] * 7, "ids": [3, 4, 5] * 7})
        lines = self.folder / "lines"
        self.assertEqual(self.run_program("import", self.folder / "c.jsonl", "-o",
                                          lines).returncode, 0)
        # The sums that slime counted here are not those of the masks.
        report, = self.lines("verify", "--deep", lines, code=1)
        self.assertEqual({problem["code"] for problem in report["problems"]}, {"mask-sum-mismatch"})


class Trained(Case):
    """Steps that are taken, of captures and of lines."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        dump, _ = cls.capture("source", "--model", cls.model, "--prompts", prompts,
                              "--num-rollout", "1", "--rollout-max-response-len", "10", *SHAPE)
        text = cls.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
        cls.rows = [json.loads(line) for line in text.splitlines()]
        for i, row in enumerate(cls.rows):
            if row["schema"] == "rlreplay.train/1":
                rng = random.Random(i)
                row["advantages"] = [f32(rng.gauss(0, 1)) for _ in row["log_probs"]]
                row["old_log_probs"] = [f32(x + rng.gauss(0, 0.3)) for x in row["log_probs"]]

    def train(self, rows, *flags, code=0):
        path, dump = self.folder / "lines.jsonl", self.folder / "imported"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = self.run_program("import", path, "-o", dump, "--force")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.lines("train", "--from", dump, "--model", self.model, *flags, code=code)

    def changed(self, schema, change):
        out = json.loads(json.dumps(self.rows))
        for row in out:
            if row["schema"] == schema:
                change(row)
        return out

    def trained(self, rows):
        return [{**row, "ref_log_probs": row["log_probs"]} for row in rows
                if row["schema"] == "rlreplay.train/1"]

    def test_imported_steps_have_the_losses_of_the_formulas(self):
        for kind in ("grpo", "gspo", "cispo"):
            step, = self.train(self.rows, "--advantage-estimator", kind, "--eps-clip", "0.05")
            wanted = losses(self.trained(self.rows), kind=kind, clip=0.05)
            for name in ("pg_loss", "loss", "clip_fraction"):
                self.assertAlmostEqual(step[name], wanted[name], delta=1e-6)
            self.assertGreater(step["grad_norm"], 1e-3)

    def test_trajectories_change_loss_and_gradient(self):
        plain, = self.train(self.rows)
        rows = self.changed("rlreplay.train/1",
                            lambda row: row.update(trajectory_id=row["sample_id"] // 3))
        shared, = self.train(rows)
        self.assertAlmostEqual(shared["loss"], losses(self.trained(rows))["loss"], delta=1e-6)
        self.assertNotAlmostEqual(shared["loss"], plain["loss"], delta=1e-4)
        self.assertNotEqual(shared["grad_norm"], plain["grad_norm"])

    def test_rollouts_are_cut_into_steps_by_trajectories(self):
        alone = [dict(row, trajectory_id=row["sample_id"] // 2, reward=float(row["sample_id"] % 3))
                 for row in self.rows if row["schema"] == "rlreplay.sample/1"]
        steps = self.train(alone, "--global-batch-size", "2")
        self.assertEqual([s["recorded"]["samples"] for s in steps], [4, 4])

    def test_nuclei_are_what_log_probabilities_are_taken_over(self):
        def kept(ids):
            def change(row):
                response = row["tokens"][row["prompt_length"]:]
                row["nucleus"] = {"sizes": [len(ids(t)) for t in response],
                                  "ids": [i for t in response for i in ids(t)]}
            return self.changed("rlreplay.sample/1", change)

        plain, = self.train(self.rows)
        vocabulary = list(range(checkpoints.config()["vocab_size"]))
        every, = self.train(kept(lambda token: vocabulary))
        self.assertAlmostEqual(every["loss"], plain["loss"], delta=1e-6)
        self.assertAlmostEqual(every["grad_norm"], plain["grad_norm"], delta=1e-5)
        # Where nothing else was left, a token is certain: nothing pulls any more.
        alone, = self.train(kept(lambda token: []), "--entropy-coef", "0", code=1)  # far off
        self.assertEqual(alone["grad_norm"], 0)
        rows = [{**row, "log_probs": [0.0] * len(row["log_probs"])}
                for row in self.trained(self.rows)]
        self.assertAlmostEqual(alone["pg_loss"], losses(rows)["pg_loss"], delta=1e-6)
        self.assertEqual(alone["entropy"], plain["entropy"])
        pair = kept(lambda token: [token, (token + 1) % len(vocabulary)])
        some, = self.train(pair, code=1)
        again, = self.train(pair, "--micro-batch-size", "3", "--threads", "1", code=1)
        self.assertEqual(bits(again), bits(some))
        self.assertGreater(some["grad_norm"], 0)
        # The referee takes them too: sampler and trainer of these log-probabilities are certain.
        result = self.run_program("train", "--from", self.folder / "imported", "--model",
                                  self.model, "--forward", "--json")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        outside = kept(lambda token: [10 ** 6])
        self.assertEqual(self.run_train_code(outside), 3)

    def run_train_code(self, rows, *flags):
        path, dump = self.folder / "lines.jsonl", self.folder / "imported"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.run_program("import", path, "-o", dump, "--force")
        return self.run_program("train", "--from", dump, "--model", self.model, *flags).returncode

    def test_top_p_without_recorded_nuclei_is_refused(self):
        self.assertEqual(self.run_train_code(self.rows, "--rollout-top-p", "0.9"), 3)

    def test_the_rollouts_log_probabilities_are_the_old_ones_where_asked_for(self):
        step, = self.train(self.rows, "--use-rollout-logprobs")
        sampled = {row["sample_id"]: row["log_probs"] for row in self.rows
                   if row["schema"] == "rlreplay.sample/1"}
        rows = self.trained(self.rows)
        for row in rows:  # their lists begin with the prompt
            of = sampled[row["sample_id"]]
            row["old_log_probs"] = [0.0] * (len(row["log_probs"]) - len(of)) + of
        self.assertAlmostEqual(step["loss"], losses(rows)["loss"], delta=1e-6)

    def test_captures_are_the_same_whatever_the_micro_batch(self):
        for kind, flags in (("gspo", ["--use-opsm", "--opsm-delta", "0"]),
                            ("cispo", ["--use-kl-loss"]),
                            ("reinforce_plus_plus", ["--gamma", "0.95", "--normalize-advantages"])):
            dump, steps = self.capture("micro " + kind, "--model", "demo", "--rollout-batch-size",
                                       "4", "--n-samples-per-prompt", "4", "--steps", "4",
                                       "--num-steps-per-rollout", "2", "--lr", "0.01",
                                       "--advantage-estimator", kind, *flags)
            again = self.lines("train", "--from", dump, "--micro-batch-size", "3", "--threads", "1")
            self.assertEqual([bits(s) for s in again], [bits(s) for s in steps])
            self.lines("objective", "--from", dump)
            if kind == "cispo":
                self.assertGreater(max(s["kl"] for s in steps), 1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=1)
