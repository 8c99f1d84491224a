"""rlreplay objective on captures: recorded numbers are computed again, and what differs is explained.
usage: objective_test.py PROGRAM

What the program records and computes is held to the formulas in objective_formulas.py.
"""
import json
import math
import os
import random
import re
import shlex
import struct
import sys
import unittest

from objective_formulas import advantages, f32, KL, losses, quantity, responses, settings, whitened, zigzag
from support import Case

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

DEMO = ["--model", "demo", "--rollout-batch-size", "4", "--n-samples-per-prompt", "4"]


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

    def test_slime_groups_samples_by_number_where_a_trajectory_has_several(self):
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
        announced = check(advantages(samples), "--rollout-batch-size", len(samples) // 4,
                          "--n-samples-per-prompt", 4)
        self.assertEqual(quantity(announced, "rewards")["different"], 0)

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
        for ranks in (2, 3, 4, 6):
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
                again, = [line for line in text.splitlines() if line.startswith("again: ")]
                alone = {tuple(e["settings"]) for step in steps for e in step["explanations"]}
                if len(alone) == 1 and len(given) < 3:  # with the options that were found
                    words = shlex.split(again)
                    self.assertEqual(words[1:3], ["rlreplay", "objective"])
                    self.lines(*words[2:])
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
        for unit in (dump / "train/0-0/rank0.h5", dump / "rollout/2.h5"):
            unit.write_bytes(bytes(unit.stat().st_size))  # units of other steps are not opened
        self.assertEqual(len(self.lines("objective", "--from", dump, "--steps", "1..1")), 1)
        for steps in ((), ("--steps", "0..1"), ("--steps", "1..2")):
            self.assertEqual(self.run_program("objective", "--from", dump, *steps).returncode, 3)
        for chosen, code in (("1..1", 1), ("0..1", 3)):  # 1: the demo is not step 1's state
            judged = self.run_program("train", dump, "--model", "demo", "--forward", "--steps", chosen)
            self.assertEqual(judged.returncode, code, judged.stderr)
        dump, _ = self.capture("whole", *DEMO, "--steps", "3")
        only = self.folder / "rollouts"
        self.run_program("capture", *DEMO, "--rollout-only", "--num-rollout", "1", "-o", only)
        self.assertEqual(self.run_program("objective", "--from", only).returncode, 3)
        text = self.run_program("objective", "--from", dump).stdout
        self.assertIn("not recorded", text)
        self.assertIn("all that is recorded of 3 steps is reproduced, to the bit", text)


if __name__ == "__main__":
    unittest.main(verbosity=1)
