"""Steps of imported dumps, taken again: what was recorded is used as it is, the rest is computed.

usage: imported_test.py RLREPLAY
"""
import json
import sys
import unittest

import checkpoints
import support

OBJECTIVE = ["--lr", "1e-3", "--clip-grad", "0.5"]
SHAPE = ["--rollout-batch-size", "2", "--n-samples-per-prompt", "4"]


class Imported(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        cls.captures = {}
        for steps in ("1", "2"):
            name = f"capture {steps}"
            dump, lines = cls.capture(name, "--model", cls.model, "--prompts", prompts,
                                      "--num-rollout", "2", "--num-steps-per-rollout", steps,
                                      "--rollout-max-response-len", "10", *SHAPE, *OBJECTIVE)
            text = cls.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
            rows = [json.loads(line) for line in text.splitlines()]
            for i, row in enumerate(rows):
                if row["schema"] == "rlreplay.sample/1":
                    row["reward"] = float(i % 3)  # all of random weights are wrong
            cls.captures[steps] = rows, lines

    def replay(self, rows, *arguments, code=0):
        """The steps that are taken on these lines."""
        lines, dump = self.folder / "lines.jsonl", self.folder / "imported"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        made = self.run_program("import", lines, "-o", dump, "--force")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.lines("train", "--from", dump, "--model", self.model, *OBJECTIVE, *arguments,
                          code=code)

    @staticmethod
    def without(rows, schema, *keys):
        return [{k: v for k, v in row.items() if row["schema"] != schema or k not in keys}
                for row in rows]

    @staticmethod
    def with_advantages(rows, value):
        """Of the training data alone: every token's advantage by its sample."""
        out = []
        for row in rows:
            if row["schema"] == "rlreplay.train/1":
                row = {**row, "advantages": [value(row["sample_id"])] * len(row["advantages"])}
            out.append(row)
        return out

    def test_a_recorded_step_gives_its_recorded_bits(self):
        for steps, (rows, captured) in self.captures.items():
            replayed = self.replay(rows)
            self.assertEqual([support.bits(step) for step in replayed],
                             [{**support.bits(step), "reward_bits": mine["reward_bits"]}
                              for step, mine in zip(captured, replayed)])
            for step in replayed:
                self.assertIsNone(step["identical"])
                self.assertEqual(step["recorded"]["advantages"], step["recorded"]["samples"])
                self.assertEqual(step["recorded"]["old_log_probs"],
                                 0 if steps == "1" else step["recorded"]["samples"])
                self.assertEqual(step["forward_logp_max_diff"]["replay_vs_record"]["max"], 0)
            self.assertEqual([s["recorded"]["loss"] for s in replayed],
                             [s["loss"] for s in captured])

    def test_what_is_not_recorded_is_computed_from_rewards(self):
        rows, _ = self.captures["2"]
        shaped = self.replay(self.without(rows, "rlreplay.train/1", "advantages", "old_log_probs"))
        self.assertEqual([s["recorded"]["advantages"] for s in shaped], [0] * 4)
        # Rewards 0, 1, 2 in a group: slime's GRPO by hand.
        groups = {}
        for row in rows:
            if row["schema"] == "rlreplay.sample/1":
                groups.setdefault(row["group_id"], {})[row["sample_id"]] = row["reward"]
        advantages = {}
        for members in groups.values():
            mean = sum(members.values()) / len(members)
            deviation = (sum((r - mean) ** 2 for r in members.values()) / (len(members) - 1)) ** .5
            advantages |= {i: (r - mean) / (deviation + 1e-6) for i, r in members.items()}
        given = self.replay(self.with_advantages(rows, advantages.get))
        # Of the first rollout: the weights of the second are not those of the record any more.
        for a, b in zip(shaped[:2], given[:2]):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-6)
            self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-5)
            self.assertGreater(a["grad_norm"], 1e-3)
        other = self.replay(self.without(rows, "rlreplay.train/1", "advantages"),
                            "--disable-grpo-std-normalization")
        self.assertNotEqual(other[0]["grad_norm"], shaped[0]["grad_norm"])

    def test_recorded_advantages_old_log_probs_and_masks_are_used_as_they_are(self):
        rows, _ = self.captures["2"]
        plain = self.replay(self.with_advantages(rows, lambda i: 1.0))
        twice = self.replay(self.with_advantages(rows, lambda i: 2.0))
        self.assertAlmostEqual(twice[0]["grad_norm"] / plain[0]["grad_norm"], 2, delta=1e-5)
        # A ratio of e beyond the clip: nothing pulls any more where the advantage is positive.
        moved = [{**row, "old_log_probs": [x - 1 for x in row["old_log_probs"]]}
                 if row["schema"] == "rlreplay.train/1" else row
                 for row in self.with_advantages(rows, lambda i: 1.0)]
        clipped = self.replay(moved)
        self.assertAlmostEqual(clipped[0]["clip_fraction"], 1, delta=1e-12)
        self.assertEqual(clipped[0]["grad_norm"], 0)
        masked = [{**row, "loss_mask": [0] * len(row["loss_mask"])}
                  if row["schema"] == "rlreplay.train/1" and row["sample_id"] % 2 else row
                  for row in self.with_advantages(rows, lambda i: 1.0)]
        self.assertLess(self.replay(masked)[0]["grad_norm"], plain[0]["grad_norm"])

    def test_rollouts_alone_are_cut_into_steps_by_the_options(self):
        rows, _ = self.captures["2"]
        alone = [row for row in rows if row["schema"] == "rlreplay.sample/1"]
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in self.replay(alone)],
                         [(0, 0), (1, 0)])
        cut = self.replay(alone, "--num-steps-per-rollout", "2")
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in cut],
                         [(0, 0), (0, 1), (1, 0), (1, 1)])
        whole = self.replay(self.without(rows, "rlreplay.train/1", "advantages", "old_log_probs"))
        self.assertEqual([s["weights_digest"] for s in cut], [s["weights_digest"] for s in whole])

    def test_the_lines_of_rollouts_and_steps_may_be_mixed(self):
        rows, _ = self.captures["2"]
        units = {}
        for row in rows:
            key = row["schema"], row["rollout_id"], row.get("step_id")
            units.setdefault(key, []).append(row)
        mixed, lists = [], list(units.values())[::-1]
        while any(lists):
            mixed += [rest.pop(0) for rest in lists if rest]
        self.replay(rows)
        ordered = support.root(self.program, self.folder / "imported")
        self.replay(mixed)
        self.assertEqual(support.root(self.program, self.folder / "imported"), ordered)

    def test_steps_can_be_chosen(self):
        rows, _ = self.captures["2"]
        chosen = self.replay(rows, "--steps", "1..2")
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in chosen], [(0, 1), (1, 0)])
        without_old = self.without(rows, "rlreplay.train/1", "old_log_probs")
        refused = self.replay(without_old, "--steps", "1..2", code=3)
        self.assertIn("not the first of its rollout", refused[-1]["error"]["message"])
        refused = self.replay(rows, "--steps", "9", code=2)
        self.assertIn("has 4 steps", refused[-1]["error"]["message"])

    def test_what_is_missing_is_said(self):
        rows, _ = self.captures["1"]
        train_alone = [row for row in rows if row["schema"] != "rlreplay.sample/1"]
        refused = self.replay(train_alone, code=3)
        self.assertIn("prompt length", refused[-1]["error"]["message"])
        no_reward = self.without(self.without(rows, "rlreplay.sample/1", "reward"),
                                 "rlreplay.train/1", "advantages")
        refused = self.replay(no_reward, code=3)
        self.assertIn("no reward", refused[-1]["error"]["message"])
        steps = self.replay(self.without(rows, "rlreplay.sample/1", "reward"))
        self.assertIsNone(steps[0]["reward"])
        result = self.run_program("train", "--from", self.folder / "imported")
        self.assertEqual(result.returncode, 2)
        self.assertIn("give --model", result.stderr)
        text = self.run_program("train", "--from", self.folder / "imported", "--model", self.model)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("not recorded: weights", text.stdout)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
