"""rlreplay objective on JSON lines, whose options have to be given: sizes, explanations, tolerance.
usage: objective_lines_test.py PROGRAM
"""
import json
import math
import os
import random
import sys
import unittest

from objective_formulas import advantages, deviation, f32, quantity, settings, verdicts
from support import Case

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]


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

    def test_samples_that_miles_leaves_out_are_no_other_size(self):
        dump = self.dump("trimmed.jsonl")  # 8 samples of what 2 x 5 make, in whole batches of 4
        sizes = ("--rollout-batch-size", 2, "--n-samples-per-prompt", 5)
        for code, flags in ((0, ("--dialect", "miles", "--global-batch-size", 4)),
                            (1, ("--dialect", "miles", "--global-batch-size", 3)),
                            (1, ("--dialect", "slime", "--global-batch-size", 4))):
            result = self.run_program("objective", dump, *sizes, *flags)
            self.assertEqual("2 of --n-samples-per-prompt 5 are 10" in result.stdout, code == 1,
                             (flags, result.stdout, result.stderr))

    def test_groups_that_are_not_recorded_are_told_by_their_size(self):
        dump = self.dump("no groups.jsonl")
        lines = [json.loads(line) for line in dump.read_text().splitlines()]
        dump.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "group_id"}) + "\n"
                                for line in lines))
        for code, flags, said in (
                (0, ("--n-samples-per-prompt", 4), "all that is recorded of 2 steps is reproduced"),
                (1, ("--n-samples-per-prompt", 3), "these options are not this dump's: "
                 "--n-samples-per-prompt 3, rollout 0 has no groups recorded, and 8 samples, no multiple "
                 "of it"),
                (0, (), "the dump does not say which samples answer one prompt (--n-samples-per-prompt N "
                 "takes N at a time, by id)")):
            result = self.run_program("objective", dump, *flags)
            self.assertEqual(result.returncode, code, (flags, result.stdout, result.stderr))
            self.assertIn(said, " ".join(result.stdout.split()))

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
        # The sampler's log-probabilities in place of the old ones are not there for a reverse KL.
        path = self.rows("distilled.jsonl", [1.0, 0.0], advantages=[5.0, 6.0],
                         teacher_log_probs=[-2.0, -2.0], reverse_kl=[1.0, 1.0])
        for flags in ((), ("--use-rollout-logprobs",)):
            step, = self.lines("objective", path, "--use-opd", *flags, code=1)
            self.assertEqual(quantity(step, "advantages")["verdict"], "different")
            self.assertEqual(settings(step), [])
            self.assertEqual("reverse_kl" in verdicts(step), not flags)

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

    def test_a_mean_that_is_exact_in_binary32_explains_nothing(self):
        """Of groups of one, of equal rewards whose sums are exact, and of those off by more than a rounding."""
        raw = "--disable-rewards-normalization"
        for rewards, shaped, size, flags in (
                ([0.3, 0.7, 0.8], [0.3, 0.7, 1.02], 1, (raw,)), ([1.0] * 3, [0.9] * 3, 3, ()),
                ([0.9] * 3, [0.9] * 3, 3, ())):
            for dialect in ("miles", "slime"):
                lines = []
                for i, (reward, other) in enumerate(zip(rewards, shaped)):
                    row = {"rollout_id": 0, "sample_id": i, "tokens": [1, 2], "prompt_length": 1}
                    lines += [{"schema": "rlreplay.sample/1", **row, "group_id": i // size, "reward": reward},
                              {"schema": "rlreplay.train/1", **row, "step_id": 0, "rank": 0, "reward": other,
                               "advantages": [other], "returns": [other]}]
                path = self.folder / "exact.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                said = self.run_program("objective", path, "--dialect", dialect, *flags)
                self.assertNotIn("shaped in binary32", said.stdout, (rewards, dialect))
                self.assertEqual(said.returncode, 1, said.stdout)

    def test_equal_rewards_whose_mean_is_not_theirs_in_binary32_are_named(self):
        # What torch gives of the eight: their mean lies an ulp below them, their deviation above 0.
        path = self.rows("equal.jsonl", [0.7] * 8, shaped=[0.0560341477394104] * 8)
        for dialect in "slime", "miles":
            step, = self.lines("objective", path, "--dialect", dialect, code=1)
            self.assertEqual(settings(step), ["rewards shaped in binary32"], dialect)
        path = self.rows("one.jsonl", [0.7] * 8, shaped=[0.0560341477394104] * 7 + [0.0561])
        step, = self.lines("objective", path, "--dialect", "miles", code=1)
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
        path = self.rows("without.jsonl", [1.0, 0.0], log_probs=[-1.0, -1.0],
                         policy_kl=[0.0, 0.0], step=lambda i: i)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line.get("step_id") == 1:
                del line["log_probs"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.assertIn("step 0.1, policy_kl: the policy's log-probabilities of this step are not recorded",
                      " ".join(self.run_program("objective", path).stdout.split()))

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


if __name__ == "__main__":
    unittest.main(verbosity=1)
