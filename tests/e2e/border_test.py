"""What the engine refuses at its border: ids and positions that the model has not, and numbers that
are not finite, where they arise.

usage: border_test.py RLREPLAY
"""
import json
import sys
import unittest

import checkpoints
import support

SHAPE = ["--rollout-batch-size", "2", "--n-samples-per-prompt", "2",
         "--rollout-max-response-len", "6"]


class Border(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        cls.prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")

    @classmethod
    def small(cls, name, **changes):
        """The same model with less of something."""
        return checkpoints.write(cls.folder / name, checkpoints.config(**changes))

    def refused(self, *arguments, code=3, **options):
        result = self.run_program(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        said = [line for line in result.stderr.splitlines() if "no effect on a replay" not in line]
        self.assertEqual("\n".join(said).count("\nrlreplay: "), 0, result.stderr)
        return result.stderr


class Ids(Border):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.captured, _ = cls.capture("captured", "--model", cls.model, "--prompts", cls.prompts,
                                      "--steps", "1", *SHAPE)
        text = cls.run_program("export", cls.captured, "--to", "jsonl", "-o", "-").stdout
        cls.rows = [json.loads(line) for line in text.splitlines()]
        cls.narrow = cls.small("narrow", vocab_size=48)
        cls.short = cls.small("short", max_position_embeddings=8)

    def imported(self, name, change):
        """The dump with the tokens of sample 1 changed."""
        lines = self.folder / f"{name}.jsonl"
        rows = json.loads(json.dumps(self.rows))
        for row in rows:
            if row.get("sample_id") == 1 and "tokens" in row:
                change(row["tokens"])
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        dump = self.folder / name
        made = self.run_program("import", lines, "-o", dump)
        self.assertEqual(made.returncode, 0, made.stderr)
        return dump

    def check(self, message, *words):
        for word in (*words, "is this the model that wrote it?"):
            self.assertIn(word, message)

    def test_training_on_tokens_of_another_model(self):
        def change(tokens):
            tokens[-1] = 100000
        large = self.imported("large", change)
        at = len(next(r for r in self.rows if r.get("sample_id") == 1 and "tokens" in r)["tokens"]) - 1
        found = (f"sample 1: token id 100000 at position {at} ", "end at 257")
        train = ("train", "--from", large, "--lr", "1e-6")
        self.check(self.refused(*train, "--model", self.model), "step 0.0, ", *found)
        self.check(self.refused(*train, "--model", self.model, "--micro-batch-size", "1",
                                "--kl-coef", "0.1"), *found)
        self.check(self.refused(*train, "--model", self.model, "--forward"), *found)
        self.assertIn("a dump of `rlreplay capture` can be replayed",
                      self.refused("rollout", "--from", large, code=4))

    def test_a_model_with_fewer_ids_or_positions(self):
        dump = self.imported("plain", lambda tokens: None)
        for forward in ((), ("--forward",)):
            train = ("train", "--from", dump, "--lr", "1e-6", *forward)
            self.check(self.refused(*train, "--model", self.narrow), "token id ", "end at 47")
            self.check(self.refused(*train, "--model", self.short), "tokens and the model 8 pos")
        self.assertEqual(self.run_program("train", "--from", dump, "--lr", "1e-6", "--model",
                                          self.model).returncode, 0)

    def test_sequences_to_score(self):
        def score(model, *sequences):
            lines = "".join(json.dumps({"tokens": ids, "prompt_len": 1}) + "\n"
                            for ids in sequences)
            return self.refused("score", "--model", model, input=lines)
        self.check(score(self.model, [1, 2], [1, 2, 258]), ":2, ", "token id 258 at position 2",
                   "end at 257")
        self.check(score(self.short, list(range(9))), ":1, ", "9 tokens and the model 8 positions")


class Numbers(Border):
    """A checkpoint whose weights are finite and whose products are not."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = checkpoints.config()
        tensors = checkpoints.weights(config)
        for name in ("gate", "up"):
            shape, values = tensors[f"model.layers.1.mlp.{name}_proj.weight"]
            tensors[f"model.layers.1.mlp.{name}_proj.weight"] = shape, [x * 1e25 for x in values]
        cls.wild = checkpoints.write(cls.folder / "wild", config, tensors)

    def test_a_rollout_is_refused_with_its_first_event(self):
        dump = self.folder / "rolled"
        error = self.refused("capture", "--model", self.wild, "--prompts", self.prompts,
                             "--rollout-only", "--num-rollout", "1", *SHAPE, "-o", dump)
        self.assertIn("rollout 0, sample 0: the logits for the token at position 4 ", error)
        self.assertIn("rollout/1/swiglu/y", error)

    def test_a_step_is_refused_with_its_first_event(self):
        captured, _ = self.capture("captured", "--model", self.model, "--prompts", self.prompts,
                                   "--steps", "1", *SHAPE)
        lines = self.folder / "lines.jsonl"
        lines.write_text(self.run_program("export", captured, "--to", "jsonl", "-o", "-").stdout)
        dump = self.folder / "imported"
        self.assertEqual(self.run_program("import", lines, "-o", dump).returncode, 0)
        for size in ("1", "4"):
            error = self.refused("train", "--from", dump, "--model", self.wild, "--lr", "1e-6",
                                 "--micro-batch-size", size)
            self.assertIn("step 0.0, sample 0: the log-probability", error)
            self.assertIn("forward/1/swiglu/y", error)

    def test_scores_are_numbers_or_an_error(self):
        line = json.dumps({"tokens": [1, 2, 3], "prompt_len": 1})
        for model, temperature in ((self.model, "1e-44"), (self.wild, "1")):
            result = self.run_program("score", "--model", model, "--temperature", temperature,
                                      input=line)
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertIn("is not finite", result.stderr)

    def test_a_refused_temperature_is_named(self):
        result = self.run_program("score", "--model", self.model, "--temperature", "-0.5", input="")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("above 0, not -0.5", result.stderr)


class Configurations(Border):
    """What config.json says in two places, or does not say at all."""
    LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}

    def score(self, name, **changes):
        folder = self.small(name, **changes)
        line = json.dumps({"tokens": list(range(40)), "prompt_len": 1})
        return self.run_program("score", "--model", folder, input=line)

    def test_of_two_rope_entries_the_older_counts(self):
        new = {"rope_type": "default", "rope_theta": 500000.0}
        plain = self.score("plain", rope_scaling=self.LLAMA3).stdout
        both = self.score("both", rope_scaling=self.LLAMA3, rope_parameters=new).stdout
        newer = self.score("newer", rope_parameters=new).stdout
        self.assertEqual(both, plain)
        self.assertEqual(len({plain, newer, self.score("neither").stdout}), 3)
        yarn = self.score("yarn", rope_parameters=new,
                          rope_scaling={"rope_type": "yarn", "factor": 4.0})
        self.assertEqual(yarn.returncode, 4)
        self.assertIn("'yarn'", yarn.stderr)
        nested = self.score("nested", rope_parameters={"full_attention": new})
        self.assertEqual(nested.returncode, 4)
        self.assertIn("by layer type", nested.stderr)
        self.assertEqual(self.score("null", attention_bias=None).returncode, 3)

    def test_an_adapter_is_no_model(self):
        adapter = self.folder / "adapter"
        adapter.mkdir()
        (adapter / "adapter_config.json").write_text("{}")
        error = self.refused("score", "--model", adapter, code=4, input="")
        self.assertIn("LoRA adapter", error)
        self.assertIn("merge it", error)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
