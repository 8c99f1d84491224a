"""What objective says where options and record contradict each other, and where numbers are not finite.

usage: objective_borders_test.py RLREPLAY
"""
import json
import math
import os
import struct
import sys
import unittest

import support
from objective_formulas import chunked, f32, quantity, settings, verdicts

NAN, NAN64 = "7fc00000", "7ff8000000000000"
PLAIN = "--disable-grpo-std-normalization"
RAW = "--disable-rewards-normalization"


def encoded(rows):
    """As lines of JSON have binary32, finite or not."""
    def one(x):
        return NAN if math.isnan(x) else ("7f800000" if x > 0 else "ff800000") if math.isinf(x) else x
    return [[one(x) for x in row] for row in rows]


def binary64(x):
    """The text of its bits."""
    return struct.pack(">d", x).hex()


class Borders(support.Case):
    """Rollouts of a step; each sample has one prompt token and as many others as its columns."""

    def write(self, rewards, shaped, scalars=None, groups=None, trajectories=None, **columns):
        """`columns` of each sample; one `shaped` reward is also the returns where none are given."""
        path, lines = self.folder / f"{self._testMethodName}.jsonl", []
        lengths = [len(row) for row in next(iter(columns.values()))]
        columns.setdefault("returns", [[x] * n for x, n in zip(shaped, lengths)])
        for i, reward in enumerate(rewards):
            head = {"rollout_id": 0, "sample_id": i, "prompt_length": 1, "tokens": [1] * (lengths[i] + 1),
                    **({"trajectory_id": trajectories[i]} if trajectories else {})}
            lines.append({"schema": "rlreplay.sample/1", **head, "reward": reward,
                          "group_id": groups[i] if groups else 0})
            lines.append({"schema": "rlreplay.train/1", **head, "step_id": 0, "rank": 0,
                          "reward": shaped[i], **{name: of[i] for name, of in columns.items()}})
        lines.append({"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                      "scalars": scalars or {}})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def step(self, path, *flags, code=1):
        step, = self.lines("objective", path, *flags, code=code)
        return step

    def text(self, path, *flags):
        result = self.run_program("objective", path, *flags)
        return " ".join((result.stdout + result.stderr).split())

    def test_bounds_of_tis_the_wrong_way_round_are_those_of_torch(self):
        """torch.clamp(x, min=0.9, max=0.5) is 0.5 of every x."""
        path = self.write([1, -1], [1, -1], old_log_probs=[[-2, -2]] * 2, log_probs=[[-2, -2]] * 2,
                          rollout_log_probs=[[-1, -3]] * 2, loss_mask=[[1, 1]] * 2,
                          advantages=[[1, 1], [-1, -1]], policy_loss=[[-0.5, -0.5], [0.5, 0.5]])
        self.step(path, RAW, "--use-tis", "--tis-clip", "0.5", "--tis-clip-low", "0.9", code=0)
        self.step(path, RAW, "--use-tis", "--tis-clip", "0.9", "--tis-clip-low", "0.5", code=1)

    def test_a_step_without_its_rollout_says_where_rewards_are_read(self):
        path = self.write([0, 1], [-0.5, 0.5], advantages=[[-0.5] * 2, [0.5] * 2])
        lines = [line for line in path.read_text().splitlines() if "rlreplay.sample/1" not in line]
        path.write_text("\n".join(lines))
        rewards = quantity(self.step(path, PLAIN, code=0), "rewards")
        self.assertEqual(rewards["verdict"], "not computable")
        self.assertTrue(rewards["missing"].startswith("the dump holds no rollout 0: "), rewards)
        self.assertIn("(raw_reward of a framework's training data is kept, but names neither)",
                      self.text(path, PLAIN))

    def test_an_estimator_that_recorded_returns_contradict_is_not_named(self):
        """ppo cannot compute returns without a critic: those recorded are charged with a KL, as grpo's are not."""
        rows = [[x - 0.125] * 2 for x in (-0.5, 0.5)]
        path = self.write([0.0, 1.0], [-0.5, 0.5], old_log_probs=[[-0.5] * 2] * 2,
                          ref_log_probs=[[-0.75] * 2] * 2, returns=rows, advantages=rows)
        given = [PLAIN, "--advantage-estimator", "ppo", "--kl-coef", "0.5", "--kl-loss-type", "k1"]
        step = self.step(path, *given)
        self.assertEqual(verdicts(step)["returns"], "not computable")
        true = "--advantage-estimator reinforce_plus_plus_baseline"
        self.assertEqual(settings(step), [true])
        self.assertNotIn("grpo", self.text(path, *given).split("reproduced with:")[1].split("again:")[0])

    def test_an_option_that_computes_is_named_before_a_dialect_that_copies(self):
        path = self.write([0.0, 1.0], [-0.5, 0.5], old_log_probs=[[-0.5] * 2] * 2,
                          rollout_log_probs=[[-0.25] * 2] * 2, teacher_log_probs=[[-0.75] * 2] * 2,
                          reverse_kl=[[0.5] * 2] * 2, advantages=[[x - 0.5] * 2 for x in (-0.5, 0.5)])
        text = self.text(path, PLAIN, "--use-opd", "--opd-kl-coef", "1")
        self.assertIn("reverse_kl reproduced with: --use-rollout-logprobs", text)
        self.assertIn("or with: --dialect miles", text)

    # An infinite reward, of which torch's own arithmetic says what its group is left with.

    def test_a_groups_infinite_reward_leaves_what_torch_leaves(self):
        inf, nan = math.inf, math.nan
        both, plain = [nan, nan, nan], ["--dialect", "slime", PLAIN]
        baseline = ["--advantage-estimator", "reinforce_plus_plus_baseline"]
        for number, (rewards, shaped, flags) in enumerate((
                ([inf, 0, 1], [nan, -inf, -inf], plain),
                ([0, inf, 1], [-inf, nan, -inf], plain),
                ([-inf, 0, 1], [nan, inf, inf], ["--dialect", "miles", PLAIN]),
                ([inf, 0, 1], [nan, -inf, -inf], ["--dialect", "miles"]),
                ([0, inf, 1], [-inf, nan, -inf], ["--dialect", "miles"]),
                ([inf, 0, 1], both, ["--dialect", "slime"]),
                ([inf, 0, 1], [nan, -inf, -inf], ["--dialect", "slime", *baseline]),
                ([0, 1, inf], [-inf, -inf, nan], ["--dialect", "miles", *baseline]),
                ([inf, -inf, 1], both, plain), ([inf, inf, 1], [nan, nan, -inf], plain))):
            with self.subTest(rewards=rewards, flags=flags):
                rows = encoded([[x] * 2 for x in shaped])
                path = self.write([binary64(x) for x in rewards], [binary64(x) for x in shaped],
                                  old_log_probs=[[-0.5] * 2] * 3, returns=rows, advantages=rows)
                step = self.step(path, *flags, code=0)
                self.assertEqual({name: verdicts(step)[name] for name in ("rewards", "returns", "advantages")},
                                 dict.fromkeys(("rewards", "returns", "advantages"), "equal"), number)

    # One reward that the dialect cannot shape.

    def compact(self, advantages, **more):
        """Three samples, two of one trajectory with other rewards: slime takes each for itself."""
        shaped = [-2 / 3, 1 / 3, 1 / 3]
        return self.write([0.0, 1.0, 1.0], shaped, trajectories=[0, 0, 1],
                          advantages=advantages or [[x] * 2 for x in shaped],
                          old_log_probs=[[-0.5] * 2] * 3, **more)

    def test_a_reward_that_is_refused_hides_nothing_that_follows(self):
        shaped = [-2 / 3, 1 / 3, 1 / 3]
        false = [[shaped[0], 7.0], *([x] * 2 for x in shaped[1:])]
        path = self.compact(false, kl=[[0.0, 3.0], [0.0] * 2, [0.0] * 2])
        step = self.step(path, "--dialect", "miles", PLAIN)
        self.assertEqual(
            {name: verdicts(step)[name] for name in ("rewards", "reward_kl", "returns", "advantages")},
            {"rewards": "not computable", "reward_kl": "different", "returns": "equal",
             "advantages": "different"})
        found = quantity(step, "advantages")
        self.assertEqual((found["different"], found["sample"], found["token"]), (1, 0, 2))
        self.assertEqual(quantity(step, "rewards")["missing"],
                         "sample 1 has the reward 1 and its trajectory 0: under --dialect miles "
                         "the samples of a trajectory share one")

    def test_options_that_shape_what_these_refuse_are_named(self):
        path = self.compact(None)
        step = self.step(path, "--dialect", "miles", PLAIN, code=0)
        self.assertEqual(settings(step), ["--dialect slime"])
        self.assertEqual(step["explanations"][0]["quantities"], ["rewards"])
        text = self.text(path, "--dialect", "miles", PLAIN)
        self.assertIn("step 0.0, rewards: recorded, and not computable with these options rewards "
                      "reproduced with: --dialect slime", text)
        self.assertIn("recorded and not computable: rewards", text)

    def test_where_nothing_can_be_computed_the_reason_is_said(self):
        path = self.write([0.0, 1.0, 1.0], [0, 0, 0], trajectories=[0, 0, 1],
                          old_log_probs=[[-0.5] * 2] * 3)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["schema"] == "rlreplay.train/1" and line["sample_id"] == 0:
                del line["reward"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = self.run_program("objective", path, "--dialect", "miles")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("returns are recorded; sample 1 has the reward 1 and its trajectory 0: "
                      "under --dialect miles", " ".join(result.stderr.split()))

    # A reverse KL, of the recorded teacher or of the rollout.

    def distilled(self, taken, reverse):
        """Advantages are less `taken`, each token's; `reverse` is recorded. The teacher says 0.25."""
        shaped = [-0.5, 0.5]
        return self.write([0.0, 1.0], shaped, old_log_probs=[[-0.5] * 2] * 2,
                          teacher_log_probs=[[-0.75] * 2] * 2, reverse_kl=reverse,
                          advantages=[[r - x for x in row] for r, row in zip(shaped, taken)])

    def test_a_false_reverse_kl_is_no_false_advantage(self):
        path = self.distilled([[0.25] * 2] * 2, [[0.25, 9.0], [0.25] * 2])
        for dialect in ("slime", "miles"):
            step = self.step(path, "--dialect", dialect, PLAIN, "--use-opd")
            different = [q for q in step["quantities"] if q["verdict"] == "different"]
            self.assertEqual([(q["name"], q["sample"], q["token"], q["recorded"], q["computed"])
                              for q in different], [("reverse_kl", 0, 2, 9.0, 0.25)], dialect)
            self.assertEqual(step["explanations"], [])

    def test_a_false_reverse_kl_is_no_false_advantage_of_the_steps_whitened_with_it(self):
        """Two steps of a sample each, whitened together; the reverse KL of the second is false."""
        shaped, deviation = [-0.5, 0.5], (4 * 0.25 / 3) ** 0.5
        path = self.write([-0.5, 0.5], shaped, old_log_probs=[[-0.5] * 2] * 2,
                          teacher_log_probs=[[-0.75] * 2] * 2, reverse_kl=[[0.25] * 2, [0.25, 9.0]],
                          advantages=[[x / deviation] * 2 for x in shaped])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["step_id"] = line["sample_id"] if line["schema"] == "rlreplay.train/1" else 0
        path.write_text("".join(json.dumps(line) + "\n" for line in lines
                                if line["schema"] != "rlreplay.step/1"))
        for dialect in ("slime", "miles"):
            steps = self.lines("objective", path, "--dialect", dialect, RAW, "--use-opd",
                               "--normalize-advantages", code=1)
            self.assertEqual([(i, q["name"], q["token"]) for i, step in enumerate(steps)
                              for q in step["quantities"] if q["verdict"] == "different"],
                             [(1, "reverse_kl", 2)], dialect)
            self.assertEqual([step["explanations"] for step in steps], [[], []], dialect)

    def test_a_false_return_is_no_false_distilled_advantage(self):
        """Advantages are the recorded returns less the reverse KL; the baseline's returns are charged."""
        returns = [[-0.5, 9.0], [0.5] * 2]
        columns = {"old_log_probs": [[-0.5] * 2] * 2, "teacher_log_probs": [[-0.75] * 2] * 2}
        for estimator, charged in (("grpo", 0.0), ("reinforce_plus_plus_baseline", 0.25)):
            path = self.write([-0.5, 0.5], [-0.5, 0.5], advantages=[[x - 0.25 for x in row] for row in returns],
                              returns=[[x - charged for x in row] for row in returns], **columns)
            step = self.step(path, RAW, "--use-opd", "--advantage-estimator", estimator)
            self.assertEqual([q["name"] for q in step["quantities"] if q["verdict"] == "different"],
                             ["returns"], estimator)

    def test_what_is_left_out_comes_last(self):
        shaped = [-1.0, 1.0]
        path = self.write([0.0, 2.0], shaped, advantages=[[x - 0.25] * 2 for x in shaped],
                          old_log_probs=[[-0.5] * 2] * 2, teacher_log_probs=[[-0.75] * 2] * 2)
        text = self.text(path, PLAIN, "--normalize-advantages")
        self.assertIn("reproduced with: --use-opd and without --normalize-advantages", text)

    def test_a_reverse_kl_of_the_rollout_is_miles(self):
        path = self.distilled([[0.5] * 2] * 2, [[0.5] * 2] * 2)
        step = self.step(path, "--dialect", "miles", PLAIN, "--use-opd", code=0)
        self.assertEqual(verdicts(step)["reverse_kl"], "equal")
        step = self.step(path, "--dialect", "slime", PLAIN, "--use-opd")
        found, = step["explanations"]
        self.assertEqual((found["settings"], found["quantities"], found["reasons"]),
                         (["--dialect miles"], ["reverse_kl"],
                          ["Miles takes a reverse KL that its rollout computed as it is"]))

    def test_of_a_reverse_kl_that_no_advantage_tells_nothing_is_said(self):
        path = self.distilled([[0.0] * 2] * 2, [[0.5] * 2] * 2)
        step = self.step(path, "--dialect", "miles", PLAIN, code=0)
        self.assertEqual(verdicts(step)["reverse_kl"], "not computable")
        self.assertIn("no advantage says whether it did", quantity(step, "reverse_kl")["missing"])

    def test_the_reason_is_of_what_is_explained(self):
        """GAE over a masked token, which Miles leaves out."""
        path = self.write([1.0, 0.0], [1.0, 0.0], loss_mask=[[1, 0, 1]] * 2,
                          values=[[0.5, 4.0, 0.25], [0.5, 0.0, 0.25]], old_log_probs=[[-1.0] * 3] * 2,
                          returns=[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
                          advantages=[[0.5, 0.0, 0.75], [-0.5, 0.0, -0.25]])
        step = self.step(path, "--advantage-estimator", "ppo", "--lambd", "1")
        found, = step["explanations"]
        self.assertEqual(found["settings"], ["--dialect miles"])
        self.assertEqual(found["reasons"],
                         ["slime's GAE takes every token for a step, Miles' leaves masked ones out"])

    # One option for all that a step leaves.

    def test_an_estimator_that_explains_all_is_named_alone(self):
        old, now = [-0.5, -0.5], [-0.4, -0.1]
        kl = sum(a - b for a, b in zip(old, now)) / 2
        shaped = [-f32(0.5 / (math.sqrt(0.5) + 1e-6)), f32(0.5 / (math.sqrt(0.5) + 1e-6))]
        path = self.write([0.0, 1.0], shaped, old_log_probs=[old] * 2, log_probs=[now] * 2,
                          advantages=[[x] * 2 for x in shaped], policy_kl=[[kl] * 2] * 2,
                          policy_loss=[[-(min(math.exp(-kl), 1.2) if x > 0 else math.exp(-kl)) * x] * 2
                                       for x in shaped])
        step = self.step(path, "--advantage-estimator", "reinforce_plus_plus")
        found, = step["explanations"]
        self.assertEqual((found["settings"], found["quantities"], found["not_reproduced"]),
                         (["--advantage-estimator gspo"], ["rewards", "policy_kl", "policy_loss"], []))

    # Binary64.

    def wide(self, change=0.0):
        """Columns that binary32 does not hold, computed in Python's floats; one number is changed."""
        old, now, ref = [-0.2, -0.1], [-0.3, -0.7], [-0.4, -0.9]
        kl = [0.1 * (a - b) for a, b in zip(old, ref)]
        shaped = [0.1, 0.3]
        returns = [[r - x for x in kl] for r in shaped]
        ratio = [math.exp(a - b) for a, b in zip(now, old)]
        columns = {
            "old_log_probs": [old] * 2, "log_probs": [now] * 2, "ref_log_probs": [ref] * 2,
            "kl": [[a - b for a, b in zip(old, ref)]] * 2,
            "teacher_log_probs": [ref] * 2, "reverse_kl": [[a - b for a, b in zip(old, ref)]] * 2,
            "advantages": [[x - (a - b) for x, a, b in zip(row, old, ref)] for row in returns],
            "policy_kl": [[-(a - b) for a, b in zip(now, old)], [-(a - b) + change
                                                                for a, b in zip(now, old)]]}
        columns["policy_loss"] = [[max(-r * a, -min(max(r, 0.8), 1.2) * a)
                                   for r, a in zip(ratio, row)] for row in columns["advantages"]]
        columns["returns"] = columns["advantages"]  # the baseline's are one
        path = self.write(shaped, shaped, **columns)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["schema"] == "rlreplay.train/1":
                line["wide"] = sorted(columns)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def test_binary64_is_computed_and_compared_as_binary64(self):
        flags = ("--advantage-estimator", "reinforce_plus_plus_baseline", "--use-opd", "--kl-coef", "0.1",
                 "--disable-rewards-normalization", "--tolerance", "1e-14")
        names = ("reward_kl", "reverse_kl", "returns", "advantages", "policy_kl", "policy_loss")
        step = self.step(self.wide(), *flags, code=0)
        self.assertEqual({verdicts(step)[name] for name in names} - {"equal", "rounding"}, set(),
                         verdicts(step))
        step = self.step(self.wide(1e-10), *flags, code=1)
        self.assertEqual({name for name in names if verdicts(step)[name] == "different"}, {"policy_kl"})

    # What is not finite.

    def masked(self, scalars, ref=-0.7, **columns):
        """Two samples of a token and a masked one."""
        rows = {"old_log_probs": [[-0.5] * 2] * 2, "log_probs": [[-0.5] * 2] * 2,
                "rollout_log_probs": [[-0.5] * 2] * 2, "ref_log_probs": [[ref] * 2] * 2,
                "loss_mask": [[1, 0]] * 2, "advantages": [[-0.5] * 2, [0.5] * 2], **columns}
        return self.write([0.0, 1.0], [-0.5, 0.5], scalars, **rows)

    def test_a_masked_nan_reaches_every_sum_of_slime(self):
        """Times its mask, whatever the estimator; Miles takes the policy's as 0 before."""
        nan = {"pg_loss": NAN64, "loss": NAN64}
        for name, scalars in (("old_log_probs", nan), ("log_probs", nan),
                              ("entropy", {"entropy": NAN64, "pg_loss": 0.0, "loss": NAN64})):
            path = self.masked(scalars, **{name: [[-0.5] * 2, [-0.5, NAN]]})
            step = self.step(path, PLAIN)
            found, = step["explanations"]
            self.assertEqual(found["settings"], ["the NaN of a masked token"], name)
            self.assertEqual((set(found["quantities"]), found["not_reproduced"]),
                             ({n for n, x in scalars.items() if x == NAN64}, []))
            self.assertEqual(found["reasons"], [
                f"{name} of sample 1, token 2, whose loss mask is 0 (0 times it is NaN) (NaN); slime "
                "sums what is masked times 0, and keeps the NaN"])
            step = self.step(path, "--dialect", "miles", PLAIN)
            self.assertNotIn(["the NaN of a masked token"],
                             [e["settings"] for e in step["explanations"]], name)

    def discounted(self, dialect, gae, spoiled, count_masked=True):
        """Two samples of 300 and 140 tokens, every seventh masked, whose KLs at `spoiled` are not
        finite; returns as the dialect sums them."""
        lengths, coef = [300, 140], 0.5
        masks = [[0 if t % 7 == 3 else 1 for t in range(n)] for n in lengths]
        kl = [[0.25 * (t % 3 - 1) for t in range(n)] for n in lengths]
        for (i, t), x in spoiled.items():
            kl[i][t] = x
        values = [[0.25 * (t % 5) for t in range(n)] for n in lengths]
        rewards, packed = [0.0, 1.0], []
        for i, mask in enumerate(masks):
            terms = [-coef * x for x in kl[i]]
            if not gae:  # times the mask, which counts a NaN
                terms = [x if m else x * 0.0 if count_masked else 0.0 for x, m in zip(terms, mask)]
            kept = [t for t, m in enumerate(mask) if m or dialect == "slime"]
            last = kept[-1] if gae else max(t for t, m in enumerate(mask) if m)
            terms[last] += rewards[i]
            if gae:
                terms = [terms[t] + (values[i][after] if after is not None else 0.0) - values[i][t]
                         for t, after in zip(kept, kept[1:] + [None])]
            packed.append((kept, terms))
        sums = chunked([terms for _, terms in packed], 1.0)
        advantages = [[0.0] * n for n in lengths]
        returns = [[0.0] * n for n in lengths]
        for i, (kept, _) in enumerate(packed):
            for t, x in zip(kept, sums[i]):
                advantages[i][t] = x
                returns[i][t] = x + (values[i][t] if gae else 0.0)
        old = [[-1.0] * n for n in lengths]
        return self.write(rewards, rewards, old_log_probs=old,
                          ref_log_probs=encoded([[-1.0 - x for x in row] for row in kl]),
                          values=values, returns=encoded(returns), advantages=encoded(advantages),
                          loss_mask=masks)

    def test_what_is_not_finite_spreads_in_its_chunk(self):
        """slime and Miles sum discounted numbers 128 at a time, from where the longest sample ends."""
        places = [(0, 250), (0, 100), (1, 139), (1, 5)]  # none masked
        for dialect, estimator in (("slime", "reinforce_plus_plus"), ("slime", "ppo"), ("miles", "ppo")):
            for place in places:
                for x in (math.inf, -math.inf, math.nan):
                    path = self.discounted(dialect, estimator == "ppo", {place: x})
                    step = self.step(path, "--dialect", dialect, "--advantage-estimator", estimator,
                                     "--kl-coef", "0.5", code=0)
                    self.assertEqual(verdicts(step)["returns"], "equal", (dialect, estimator, place))
                    self.assertEqual(verdicts(step)["advantages"], "equal")
        path = self.discounted("slime", True, {(0, 3): math.inf, (1, 10): -math.inf})  # masked
        self.step(path, "--advantage-estimator", "ppo", "--kl-coef", "0.5", code=0)

    def test_a_masked_nan_spreads_in_returns_of_slime(self):
        flags = ("--advantage-estimator", "reinforce_plus_plus", "--kl-coef", "0.5")
        for place in ((0, 150), (1, 3)):
            for x in (math.inf, math.nan):
                path = self.discounted("slime", False, {place: x})
                step = self.step(path, *flags)
                found, = step["explanations"]
                self.assertEqual((found["settings"], found["quantities"], found["not_reproduced"]),
                                 (["the NaN of a masked token"], ["returns"], []))
                self.assertIn("slime sums 128 tokens' returns as one product", found["reasons"][0])
                path = self.discounted("slime", False, {place: x}, count_masked=False)
                self.step(path, *flags, code=0)

    def test_a_masked_nan_reaches_every_whitened_advantage(self):
        nan = [[NAN] * 2] * 2
        columns = {"old_log_probs": [[-1.0] * 2, [-1.0, NAN]], "teacher_log_probs": [[-1.0] * 2] * 2,
                   "loss_mask": [[1, 0]] * 2}
        path = self.write([0.0, 1.0], [0.0, 1.0], advantages=nan, **columns)
        for dialect in ("slime", "miles"):
            step = self.step(path, "--dialect", dialect, RAW, "--use-opd", "--normalize-advantages")
            found, = step["explanations"]
            self.assertEqual((found["settings"], found["quantities"]),
                             (["the NaN of a masked token"], ["advantages"]))
            self.assertIn("advantages are whitened by sums of what is masked times 0", found["reasons"][0])

    def test_nothing_explains_numbers_none_of_which_is_finite(self):
        """Another NaN is no comparison: of one that the options read nowhere."""
        path = self.write([0.0, 1.0], [0.0, 1.0], advantages=[[NAN] * 2] * 2,
                          old_log_probs=[[-1.0] * 2] * 2, teacher_log_probs=[[NAN] * 2] * 2)
        self.assertEqual(self.step(path, RAW)["explanations"], [])
        path = self.write([0.0, 1.0], [0.0, 1.0], advantages=[[NAN] * 2, [0.75] * 2],
                          old_log_probs=[[-1.0] * 2] * 2, teacher_log_probs=[[NAN] * 2, [-1.25] * 2])
        self.assertEqual(settings(self.step(path, RAW)), ["--use-opd"])

    def test_a_masked_nan_reaches_the_kl_loss(self):
        path = self.masked({"pg_loss": 0.0, "kl": NAN64, "loss": NAN64},
                           ref_log_probs=[[-0.7, NAN], [-0.7] * 2])
        step = self.step(path, PLAIN, "--use-kl-loss", "--kl-loss-coef", "0.1")
        found, = step["explanations"]
        self.assertEqual((found["settings"], found["quantities"]),
                         (["the NaN of a masked token"], ["kl", "loss"]))

    def test_a_part_of_the_loss_is_not_explained_away(self):
        """A coefficient of 0 takes a false KL out of the sum, and leaves it false."""
        path = self.masked({"pg_loss": 0.0, "kl": 9.0, "loss": 0.0})
        step = self.step(path, PLAIN, "--use-kl-loss", "--kl-loss-coef", "0.1")
        self.assertEqual({q["name"] for q in step["quantities"] if q["verdict"] == "different"},
                         {"kl", "loss"})
        self.assertEqual(step["explanations"], [])
        # Where the KL is right the coefficient is what is false.
        path = self.masked({"pg_loss": 0.0, "kl": f32(-0.5) - f32(-0.7), "loss": 0.0})
        step = self.step(path, PLAIN, "--use-kl-loss", "--kl-loss-coef", "0.1")
        self.assertEqual(settings(step), ["--kl-loss-coef 0"])

    def test_what_nothing_reads_is_no_cause(self):
        """The sampler's log-probabilities, which only TIS and --use-rollout-logprobs read."""
        sampled, nan = [[-0.5, NAN], [-0.5] * 2], {"pg_loss": NAN64, "loss": NAN64}
        for token, said in ((1, "old_log_probs of sample 1, token 2, whose loss mask is 0 (0 times it "
                                "is NaN) (NaN)"), (0, "old_log_probs of sample 1, token 1 (NaN)")):
            old = [[-0.5] * 2, [NAN if t == token else -0.5 for t in range(2)]]
            path = self.masked(nan, rollout_log_probs=sampled, old_log_probs=old)
            step = self.step(path, PLAIN, code=1 if token else 0)
            self.assertEqual(step["not_finite"], said)
            self.assertTrue(all(said in e["reasons"][0] for e in step["explanations"]))
        step = self.step(path, PLAIN, "--use-tis", code=0)
        self.assertTrue(step["not_finite"].startswith("rollout_log_probs of sample 0, token 2"))

    def test_one_sample_a_prompt(self):
        """slime divides by no deviation then, of groups of one or of all samples as one group."""
        path = self.write([1.0, 0.0], [0.0, 0.0], groups=[0, 1], advantages=[[0.0] * 2, [0.0] * 2])
        flags = ("--rollout-batch-size", 2, "--n-samples-per-prompt", 1)
        self.assertEqual(quantity(self.step(path, *flags, code=0), "rewards")["different"], 0)
        self.assertIn("computed nan", self.text(path))

    def test_a_nan_against_a_number_has_no_distance(self):
        """A group of one, whose deviation slime takes as 0 / 0."""
        path = self.write([1.0, 0.0], [-0.5, 0.5], groups=[0, 1], advantages=[[-0.5] * 2, [0.5] * 2])
        step = self.step(path)
        found = quantity(step, "rewards")
        self.assertEqual((found["different"], found["max_difference"]), (2, None))
        text = self.text(path)
        self.assertIn("rewards 2 2 - different", text)
        self.assertIn("recorded -0.5, computed nan", text)
        self.assertNotIn("-nan", text)


if __name__ == "__main__":
    support.Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
