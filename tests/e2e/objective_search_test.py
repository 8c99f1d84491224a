"""What objective says of numbers that the options do not reproduce: an alternative is held against
every recorded number and every compared step.

usage: objective_search_test.py RLREPLAY
"""
import json
import math
import os
import statistics
import struct
import sys
import unittest

import support

NAN = "7ff8000000000000"


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def whitened(values):
    mean, variance = statistics.fmean(values), statistics.variance(values)
    return [(x - mean) / (variance + 1e-8) ** 0.5 for x in values]


class Search(support.Case):
    TOKENS = 3
    NOW = [[-0.5, -0.5, -2.5], [-1.5, -0.5, -1.0], [-0.5, -0.75, -2.5], [-0.5, -1.0, -2.5]]

    def rollout(self, rollout, rewards, advantages, steps=1, scalars=None, group=0, **columns):
        """Lines of a rollout, in groups of so many, or one, and in `steps` steps; `advantages` of each sample."""
        lines, count = [], len(rewards) // steps
        for i, reward in enumerate(rewards):
            head = {"rollout_id": rollout, "sample_id": 100 * rollout + i, "prompt_length": 1,
                    "tokens": [1] * (self.TOKENS + 1), "loss_mask": [1] * self.TOKENS}
            lines.append({"schema": "rlreplay.sample/1", **head, "group_id": i // group if group else 0, "reward": reward})
            lines.append({"schema": "rlreplay.train/1", **head, "step_id": i // count, "rank": 0,
                          "advantages": [f32(advantages[i])] * self.TOKENS,
                          **{name: values[i] for name, values in columns.items()}})
        for step in range(steps if scalars else 0):
            lines.append({"schema": "rlreplay.step/1", "rollout_id": rollout, "step_id": step,
                          "rank": 0, "scalars": scalars})
        return lines

    def check(self, name, *rollouts, code=1, more=()):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for lines in rollouts for line in lines))
        flags = "--disable-grpo-std-normalization", "--all", *more
        return (self.lines("objective", path, *flags, code=code),
                " ".join(self.run_program("objective", path, *flags).stdout.split()))

    @staticmethod
    def centred(rewards):
        return [r - statistics.fmean(rewards) for r in rewards]

    def test_an_alternative_that_breaks_another_step_says_so(self):
        rewards, plain = [1, 0, 0, 1, 1, 0.5], [0, 1, 1, 0.25, 0, 1]
        tokens = [a for a in self.centred(rewards) for _ in range(self.TOKENS)]
        (first, second), text = self.check(
            "breaks", self.rollout(0, rewards, whitened(tokens)[::self.TOKENS]),
            self.rollout(1, plain, self.centred(plain)))
        self.assertTrue(second["reproduced"])
        found, = first["explanations"]
        self.assertEqual(found["quantities"], ["advantages"])
        self.assertEqual(found["fails_in"], ["1.0"])
        self.assertIn("but it fails in step 1.0", text)

    def test_an_alternative_that_fits_every_step_is_taken(self):
        """One step a rollout is whitened alike over the rollout and over the step."""
        one, two = [1, 0, 0, 1, 1, 0.5], [0, 1, 1, 0.25, 0, 1, 0.5, 0]

        def over_steps(rewards, steps):
            out, count = [], len(rewards) // steps
            centred = self.centred(rewards)
            for s in range(steps):
                part = [a for a in centred[s * count:(s + 1) * count] for _ in range(self.TOKENS)]
                out += whitened(part)[::self.TOKENS]
            return out

        steps, text = self.check("fits", self.rollout(0, one, over_steps(one, 1)),
                                 self.rollout(1, two, over_steps(two, 2), steps=2))
        for step in steps:
            found, = step["explanations"]
            self.assertEqual(found["settings"], ["--normalize-advantages over each step"])
            self.assertEqual(found["fails_in"], [])
        self.assertNotIn("fails in", text)

    def test_what_another_step_needs_is_taken_where_it_fits_as_well(self):
        """Whitened, a group divided by its deviation is as it was; two groups are not."""
        one, two = [1, 0, 0, 1], [1, 0, 0, 1, 0.5, 0.25, 0.25, 0]

        def divided(rewards):
            out = []
            for group in (rewards[i:i + 4] for i in range(0, len(rewards), 4)):
                deviation = statistics.stdev(group) + 1e-6
                out += [x / deviation for x in self.centred(group)]
            return whitened([a for a in out for _ in range(self.TOKENS)])[::self.TOKENS]

        steps, text = self.check("pair", self.rollout(0, one, divided(one), group=4),
                                 self.rollout(1, two, divided(two), group=4), more=("--tolerance", "1e-5"))
        for step in steps:
            found, = step["explanations"]
            self.assertEqual(len(found["settings"]), 2, found)
            self.assertEqual(found["fails_in"], [])
        self.assertEqual(steps[0]["explanations"][0]["settings"], steps[1]["explanations"][0]["settings"])
        self.assertNotIn("fails in", text)

    def losses(self, name, **scalars):
        rewards = [1, 0, 0, 1]
        old = [[-1.0, -0.5, -2.0]] * 4
        now = self.NOW
        return self.check(name, self.rollout(0, rewards, self.centred(rewards), scalars=scalars,
                                             old_log_probs=old, log_probs=now))

    def test_of_many_tokens_what_helps_is_tried_in_pairs_and_the_rest_is_told(self):
        times = 17000
        rewards, now = [1, 0, 0, 1], [row * times for row in self.NOW]
        plain = self.plain_loss()
        self.TOKENS = 3 * times  # of four samples: above 200,000
        path = self.folder / "many.jsonl"

        def run(**scalars):
            lines = self.rollout(0, rewards, self.centred(rewards), scalars=scalars,
                                 old_log_probs=[[-1.0] * self.TOKENS] * 4, log_probs=now,
                                 ref_log_probs=[[-1.5] * self.TOKENS] * 4)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            flags = ("--disable-grpo-std-normalization", "--use-kl-loss", "--kl-loss-type", "k2")
            step, = self.lines("objective", path, *flags, code=1)
            return step, " ".join(self.run_program("objective", path, *flags).stdout.split())

        kl = statistics.fmean(lp + 1.5 for row in self.NOW for lp in row)
        step, text = run(pg_loss=plain, kl=kl)
        found, = step["explanations"]
        self.assertEqual(found["settings"], ["--advantage-estimator policy_gradient",
                                             "--kl-loss-type k1"])
        self.assertNotIn("not all were tried", text)
        self.assertNotIn("untried", step)
        step, text = run(pg_loss=7.5)
        self.assertEqual((step["explanations"], step["untried"]), ([], ["pairs"]))
        self.assertIn("; not all were tried of two at a time", text)

    def test_a_share_of_clipped_tokens_alone_explains_nothing(self):
        (step,), text = self.losses("share", pg_loss=7.5, loss=7.5, clip_fraction=0.0)
        verdicts = {q["name"]: q["verdict"] for q in step["quantities"]}
        self.assertEqual([verdicts[n] for n in ("pg_loss", "clip_fraction")], ["different"] * 2)
        self.assertEqual(step["explanations"], [])
        self.assertNotIn("reproduced with", text)

    def test_a_share_of_clipped_tokens_that_is_all_there_is_explains_nothing(self):
        for name, beside in (("lone", {}), ("with a kl", {"kl": 0.0})):
            (step,), text = self.losses(name, clip_fraction=0.0, **beside)
            share, = (q for q in step["quantities"] if q["name"] == "clip_fraction")
            self.assertEqual(share["verdict"], "different")
            self.assertEqual(step["explanations"], [])
            self.assertIn("clip_fraction alone tells no estimator", text)
            self.assertNotIn("no alternative reproduces", text)
        # A loss beside it tells one.
        (step,), text = self.losses("told", clip_fraction=0.0, pg_loss=self.plain_loss())
        self.assertEqual(step["explanations"][0]["quantities"], ["pg_loss", "clip_fraction"])
        self.assertNotIn("alone tells", text)

    def plain_loss(self):
        """The plain policy loss: the mean of -A log p."""
        return -sum(a * lp for a, row in zip(self.centred([1, 0, 0, 1]), self.NOW)
                    for lp in row) / 12

    def test_tokens_at_a_bound_of_the_clip_are_clipped_or_not(self):
        """Ratios within a rounding of the bound: torch in binary32 clips none of them."""
        low = (-0.2231435626745224, -0.2231435477733612, -0.2231435328722)
        high = (0.18232154846191406, 0.18232156337307526, 0.18232157826423645)
        for sign, row, loss in ((1.0, high, -1.2000000476837158), (-1.0, low, 0.800000011920929)):
            for share, verdict in ((0.0, "rounding"), (1 / 3, None), (1.0, "rounding"),
                                   (1.5, "different")):
                lines = self.rollout(0, [sign], [sign], scalars={"pg_loss": loss,
                                                                 "clip_fraction": f32(share)},
                                     old_log_probs=[[0.0] * 3], log_probs=[list(row)])
                path = self.folder / "border.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                bad = verdict == "different"
                step, = self.lines("objective", path, "--disable-rewards-normalization",
                                   code=1 if bad else 0)
                found = next(q for q in step["quantities"] if q["name"] == "clip_fraction")
                if verdict:
                    self.assertEqual(found["verdict"], verdict, (sign, share))
                if bad:
                    continue
                self.assertEqual((found["different"], step["explanations"]), (0, []))
                if not verdict:
                    continue
                text = " ".join(self.run_program("objective", path,
                                                 "--disable-rewards-normalization").stdout.split())
                self.assertIn("3 tokens at a bound of the clip", text)

    def test_what_was_not_tried_is_not_excluded(self):
        _, text = self.losses("odd", pg_loss=7.5, loss=7.5)
        self.assertIn("OPSM or TIS at their default bounds", text)

    def test_samples_of_a_prompt_are_those_of_the_groups(self):
        rewards = [1, 0, 0, 1]
        path = self.folder / "groups.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in
                                self.rollout(0, rewards, self.centred(rewards))))
        for n, code in (("4", 0), ("2", 1), ("8", 1)):
            said = self.run_program("objective", path, "--disable-grpo-std-normalization",
                                    "--n-samples-per-prompt", n)
            self.assertEqual(said.returncode, code, said.stdout)
            told = f"these options are not this dump's: --n-samples-per-prompt {n}, rollout 0 has " \
                   "groups of 4"
            self.assertEqual(told in said.stdout, code == 1, said.stdout)

    def test_groups_of_one_are_told_by_the_recorded_ones_of_slime(self):
        """Whether or not the other size makes them as many; and their size is named, no dialect."""
        rewards = [1, 0, 0, 1]
        scaled = [x / ((1 / 3) ** 0.5 + 1e-6) for x in self.centred(rewards)]
        path = self.folder / "of one.jsonl"
        for shaped, flags, found in (
                (self.centred(rewards), ("--disable-grpo-std-normalization",), None),
                (self.centred(rewards), ("--advantage-estimator", "reinforce_plus_plus_baseline"), None),
                (scaled, (), "--n-samples-per-prompt 4")):
            path.write_text("".join(json.dumps(line) + "\n" for line in
                                    self.rollout(0, rewards, shaped)))
            for more in ((), ("--rollout-batch-size", "4")):
                said = self.run_program("objective", path, "--dialect", "slime",
                                        "--n-samples-per-prompt", "1", *more, *flags)
                self.assertEqual(said.returncode, 1, said.stdout)
                self.assertIn("these options are not this dump's: --n-samples-per-prompt 1, rollout 0 "
                              "has groups of 4", said.stdout)
                named = [line.split(": ")[1] for line in said.stdout.splitlines() if "reproduced with" in line]
                # The other size is told beside it, where it would contradict the one that was found.
                self.assertEqual([one.split(" with ")[0].split(" (")[0] for one in named], [found] if found else [])
                self.assertEqual([" with --rollout-batch-size" in one for one in named], [bool(more)] if found else [])
                self.assertNotIn("with: --dialect", said.stdout)

    def test_the_coefficient_of_the_kl_loss_is_tried(self):
        rewards, ref = [1, 0, 0, 1], [[-1.5, -0.25, -2.0]] * 4
        lines = lambda scalars: self.rollout(0, rewards, self.centred(rewards), scalars=scalars,
                                             old_log_probs=self.NOW, log_probs=self.NOW,
                                             ref_log_probs=ref)
        path, flags = self.folder / "kl.jsonl", ("--disable-grpo-std-normalization", "--use-kl-loss")

        def run(scalars, *more, code):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines(scalars)))
            step, = self.lines("objective", path, *flags, *more, code=code)
            return step

        asked = run({"loss": 0.0, "kl": 0.0, "pg_loss": 0.0}, "--kl-loss-coef", "0.005", code=1)
        computed = {q["name"]: q["computed"] for q in asked["quantities"]}
        step = run({n: computed[n] for n in ("loss", "kl", "pg_loss")}, "--kl-loss-coef", "0.2",
                   code=1)
        found, = step["explanations"]
        self.assertEqual((found["settings"], found["quantities"], found["not_reproduced"]),
                         (["--kl-loss-coef 0.005"], ["loss"], []))

    def test_what_is_named_can_be_given(self):
        """Options that were left out, or in whose place others stand: each that is named is taken."""
        rewards, names = [1, 0, 0, 1], ("pg_loss", "kl", "loss")
        path = self.folder / "named.jsonl"

        def run(flags, scalars, codes):
            path.write_text("".join(json.dumps(line) + "\n" for line in self.rollout(
                0, rewards, self.centred(rewards), scalars=scalars, old_log_probs=[[-0.6] * 3] * 4,
                rollout_log_probs=[[-0.7] * 3] * 4, log_probs=self.NOW, ref_log_probs=[[-1.5] * 3] * 4)))
            said = self.run_program("objective", path, "--disable-grpo-std-normalization", *flags,
                                    "--json")
            self.assertIn(said.returncode, codes, said.stdout + said.stderr)
            return json.loads(said.stdout.splitlines()[0])

        kl, tis, sampler = "--use-kl-loss", "--use-tis", "--use-rollout-logprobs"
        for true, given, first in (
                ([kl], [], kl),
                ([kl, "--kl-loss-coef", "0.01"], [], f"{kl} with --kl-loss-coef 0.01"),
                ([kl, "--use-unbiased-kl"], [], f"{kl} with --use-unbiased-kl"),
                ([kl], ["--kl-coef", "0.05"], kl),
                ([sampler], [tis], f"{sampler} without {tis}"),
                ([tis], [sampler], f"{tis} without {sampler}")):
            with self.subTest(true=true, given=given):
                asked = run(true, dict.fromkeys(names, 9.0), [1])
                recorded = {q["name"]: q["computed"] for q in asked["quantities"]
                            if q["name"] in names and q["computed"] is not None}
                found, = (e for e in run(given, recorded, [1])["explanations"]
                          if set(e["quantities"]) & set(names))
                self.assertEqual(found["settings"], [first])
                for named in [found["settings"], *(r["settings"] for r in found.get("rivals", []))]:
                    words = " ".join(named).replace(" with ", " ").replace(" and ", " ")
                    taken, *gone = words.split(" without ")
                    if not taken.startswith("--"):
                        continue  # what has no option
                    flags = [flag for flag in given if flag not in gone] + taken.split()
                    run(flags, recorded, [0, 1])

    def test_options_that_give_the_same_are_both_named(self):
        """Where nothing is clipped TIS gives what the sampler's log-probabilities as old ones do."""
        rewards, now = [1, 0, 0, 1], [[-0.5, -1.0, -2.0]] * 4
        old = [[-0.5, -1.0625, -2.0]] * 4
        one, two = [-0.5, -1.0, -2.0625], [-0.4375, -1.0, -2.0]
        sampled = [one, two, two, one]
        loss = -statistics.fmean(a * math.exp(lp - s) for a, row, of in
                                 zip(self.centred(rewards), now, sampled) for lp, s in zip(row, of))
        lines = self.rollout(0, rewards, self.centred(rewards), scalars={"pg_loss": loss},
                             old_log_probs=old, log_probs=now)
        for i, line in enumerate(l for l in lines if l["schema"] == "rlreplay.sample/1"):
            line["log_probs"] = sampled[i]
        (step,), text = self.check("same", lines)
        found, = step["explanations"]
        self.assertEqual(found["settings"], ["--use-rollout-logprobs"])
        self.assertIn("or with: --use-tis", text)
        self.assertIn(["--use-tis"], found["rivals"])

    def test_estimators_of_the_same_advantages_are_named_together(self):
        """grpo, gspo and cispo differ by the policy loss alone: one that was recorded tells which."""
        rewards, given = [1, 0, 0, 1, 0.5, 0], ("--advantage-estimator", "policy_gradient")
        names = lambda *of: [["--advantage-estimator " + name] for name in of]

        def explained(name, lines, *more):
            (step,), text = self.check(name, lines, more=(*given, *more))
            found, *others = step["explanations"]
            self.assertEqual(others, [])
            return found["settings"], found.get("rivals", []), text

        # Without the division by a deviation the baseline's are the same, too; Miles has no cispo.
        plain, base = self.rollout(0, rewards, self.centred(rewards)), "reinforce_plus_plus_baseline"
        for dialect, same in (("slime", ["gspo", "cispo"]), ("miles", ["gspo"])):
            settings, rivals, text = explained("alike", plain, "--dialect", dialect)
            self.assertEqual(([settings], rivals), (names("grpo"), names(base, *same)))
            self.assertIn(f"--advantage-estimator grpo, {', '.join([base, *same[:-1]])} or {same[-1]}",
                          text)
        # Beside another option.
        of_groups = self.centred(rewards[:3]) + self.centred(rewards[3:])
        tokens = whitened([a for a in of_groups for _ in range(self.TOKENS)])
        settings, rivals, text = explained(
            "pair", self.rollout(0, rewards, tokens[::self.TOKENS], group=3), "--tolerance", "1e-5")
        self.assertEqual(len(settings), 2)
        self.assertIn(names("grpo")[0][0], settings)
        for name in ("gspo", "cispo"):
            self.assertIn([s.replace("grpo", name) for s in settings], rivals)
        self.assertIn("--normalize-advantages and --advantage-estimator grpo, gspo or cispo", text)

        def with_loss(scalars):
            return self.rollout(0, rewards, self.centred(rewards), scalars=scalars,
                                old_log_probs=[[-0.6, -0.6, -2.4]] * 6,
                                log_probs=(self.NOW * 2)[:6])

        for true in ("grpo", "gspo", "cispo"):
            (asked,), _ = self.check("asked", with_loss({"pg_loss": 9.0}),
                                     more=("--advantage-estimator", true))
            loss, = (q["computed"] for q in asked["quantities"] if q["name"] == "pg_loss")
            settings, rivals, text = explained(true, with_loss({"pg_loss": loss}))
            same = names(base) if true == "grpo" else []
            self.assertEqual(([settings], rivals), (names(true), same), text)

    def test_estimators_of_the_same_policy_loss_are_named_together(self):
        rewards = [1, 0, 0, 1]

        def without_rewards(loss):
            lines = self.rollout(0, rewards, rewards, scalars={"pg_loss": loss},
                                 old_log_probs=[[-0.6, -0.6, -2.4]] * 4, log_probs=self.NOW)
            return [{k: v for k, v in line.items() if k != "reward"} for line in lines]

        (asked,), _ = self.check("asked", without_rewards(9.0))
        loss, = (q["computed"] for q in asked["quantities"] if q["name"] == "pg_loss")
        (step,), text = self.check("clip", without_rewards(loss),
                                   more=("--advantage-estimator", "gspo"))
        found, = step["explanations"]
        self.assertEqual(found["quantities"], ["pg_loss"])
        self.assertIn("--advantage-estimator grpo, reinforce_plus_plus, reinforce_plus_plus_baseline "
                      "or ppo", text)

    def discounted(self, rollout, kl):
        """A step of REINFORCE++ with a KL in the reward: the rewards are as they come, and where there
        is a KL the advantages tell the estimator."""
        rewards = [1, 0, 0, 1]
        advantages = [[f32(r - 0.5 * kl * (self.TOKENS - t)) for t in range(self.TOKENS)]
                      for r in rewards]
        plain = -statistics.fmean(a * math.exp(lp - old) for of, row in zip(advantages, self.NOW)
                                  for a, lp, old in zip(of, row, [-0.6, -0.6, -2.4]))
        lines = self.rollout(rollout, rewards, rewards, reward=rewards, group=2,
                             scalars={"pg_loss": plain}, log_probs=self.NOW,
                             old_log_probs=[[-0.6, -0.6, -2.4]] * 4,
                             ref_log_probs=[[-0.6 - kl, -0.6 - kl, -2.4 - kl]] * 4)
        for of, line in zip(advantages, (x for x in lines if x["schema"] == "rlreplay.train/1")):
            line["advantages"] = of
        return lines

    def test_one_estimator_explains_all_that_it_gives(self):
        """Without a KL the rewards of REINFORCE++ are those that no option shapes, and its policy loss
        is grpo's: the steps with a KL, and each step's other numbers, tell which it was."""
        steps, text = self.check(
            "estimator", *(self.discounted(i, kl) for i, kl in enumerate((0.0, 0.25, 0.0))),
            more=("--advantage-estimator", "gspo", "--kl-coef", "0.5", "--eps-clip", "9"))
        for step in steps:
            named = {q["name"] for q in step["quantities"] if q["verdict"] == "different"}
            self.assertLessEqual({"rewards", "pg_loss"}, named)
            self.assertEqual({tuple(e["settings"]) for e in step["explanations"]},
                             {("--advantage-estimator reinforce_plus_plus",)}, step["rollout_id"])
            self.assertEqual({name for e in step["explanations"] for name in e["quantities"]}, named)
        # Of one step alone no more is known, and what the losses tell is told of the rewards.
        (step,), _ = self.check("one estimator", self.discounted(0, 0.0),
                                more=("--advantage-estimator", "gspo", "--eps-clip", "9"))
        self.assertEqual({tuple(e["settings"]) for e in step["explanations"]},
                         {("--advantage-estimator reinforce_plus_plus",)})

    def test_a_false_return_is_no_false_advantage(self):
        """Advantages are whitened from recorded returns, over all steps of the rollout."""
        rewards = [1, 0, 0, 1, 0.5, 0]
        centred = self.centred(rewards)
        tokens = whitened([a for a in centred for _ in range(self.TOKENS)])
        returns = [[f32(a)] * self.TOKENS for a in centred]
        for name, advantages, flags in (("whitened", tokens[::self.TOKENS], ["--normalize-advantages"]),
                                        ("plain", centred, [])):
            lines = self.rollout(0, rewards, advantages, steps=2, returns=returns)
            more = ("--tolerance", "1e-5", *flags)
            self.check(name, lines, code=0, more=more)
            false = [row[:] for row in returns]
            false[1][2] += 0.5
            lines = self.rollout(0, rewards, advantages, steps=2, returns=false)
            first, second = self.check(name, lines, more=more)[0]
            self.assertEqual([(q["name"], q["sample"], q["token"], q["different"])
                              for q in first["quantities"] if q["verdict"] == "different"],
                             [("returns", 1, 3, 1)])
            self.assertTrue(second["reproduced"])
            # A false advantage beside it is one.
            advantages = [*advantages[:5], advantages[5] + 0.5]
            lines = self.rollout(0, rewards, advantages, steps=2, returns=false)
            _, second = self.check(name, lines, more=more)[0]
            found, = (q for q in second["quantities"] if q["verdict"] == "different")
            self.assertEqual((found["name"], found["sample"], found["different"]),
                             ("advantages", 5, 3))

    def test_a_total_whose_part_differs_is_not_explained(self):
        """Both are wrong by what a KL loss would add to the total."""
        rewards, old = [1, 0, 0, 1], [[-1.0, -0.5, -2.0]] * 4
        apart = 0.01 * statistics.fmean(lp + 1.5 for row in old for lp in row)
        kl = ["--use-kl-loss with --kl-loss-coef 0.01", "--use-kl-loss with --kl-loss-type k1"]
        for pg_loss, settings in ((0.0, kl),
                                  (apart, None)):
            (step,), text = self.check("part", self.rollout(
                0, rewards, self.centred(rewards), scalars={"pg_loss": pg_loss, "loss": apart},
                old_log_probs=old, log_probs=old, ref_log_probs=[[-1.5] * 3] * 4),
                more=("--kl-loss-type", "k2"))
            self.assertEqual([sorted(e["settings"]) for e in step["explanations"]],
                             [settings] if settings else [])

    def test_what_fits_a_step_by_chance_is_left_out(self):
        """A wrong reward that another option shapes, in one step alone, with the right advantages."""
        rewards = [1, 0]
        good, bad = ({"reward": of} for of in (self.centred(rewards), rewards))
        steps, text = self.check("chance", *(
            self.rollout(i, rewards, self.centred(rewards), **columns)
            for i, columns in enumerate((bad, good))))
        self.assertEqual([s["reproduced"] for s in steps], [False, True])
        self.assertEqual([s["explanations"] for s in steps], [[], []])
        (step,), _ = self.check("alone", self.rollout(0, rewards, self.centred(rewards), **bad))
        self.assertEqual(step["explanations"][0]["settings"], ["--disable-rewards-normalization"])

    def test_what_an_alternative_leaves_is_said(self):
        """The recorded total has something else."""
        (step,), text = self.losses("left", pg_loss=self.plain_loss(), loss=3.0, clip_fraction=0.0)
        found, = step["explanations"]
        self.assertEqual(found["settings"], ["--advantage-estimator policy_gradient"])
        self.assertEqual((found["quantities"], found["not_reproduced"]),
                         (["pg_loss", "clip_fraction"], ["loss"]))
        self.assertIn("but not loss", text)

    def test_where_a_nan_enters(self):
        rewards = [1, 0, 0, 1]
        nan = "7fc00000"
        old = [[-1.0, -0.5, -2.0], [-1.0, -0.5, -2.0], [-1.0, nan, -2.0], [-1.0, -0.5, -2.0]]
        (step,), text = self.check("nan", self.rollout(
            0, rewards, self.centred(rewards), scalars={"loss": NAN, "pg_loss": NAN},
            old_log_probs=old, log_probs=[[-1.0, -0.5, -2.0]] * 4), code=0)
        self.assertEqual(step["not_finite"], "old_log_probs of sample 2, token 2 (NaN)")
        self.assertIn("the first value that is not finite: old_log_probs of sample 2, token 2", text)
        (step,), _ = self.check("ratio", self.rollout(
            0, rewards, self.centred([1, 0, 0, 2]), scalars={"loss": NAN},
            old_log_probs=[[-1.0, -0.5, -100.0]] * 4, log_probs=[[-1.0, -0.5, -2.0]] * 4))
        self.assertEqual(step["not_finite"], "the ratio exp(log_probs - old_log_probs) of sample 0, "
                                             "token 3, beyond binary32")
        steps, _ = self.check("finite", self.rollout(0, rewards, [1, 2, 3, 4]))
        self.assertIsNone(steps[0]["not_finite"])


if __name__ == "__main__":
    support.Case.program = os.path.abspath(sys.argv.pop(1))
    unittest.main()
