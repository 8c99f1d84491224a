"""A number of a recorded step followed back: rlreplay why.

usage: why_test.py PROGRAM"""
import json
import os
import random
import sys
import unittest

import material
from support import FULL, Case

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--num-rollout", "1", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
       "--rollout-max-response-len", "6", "--global-batch-size", "3", "--weights", "all"]
OPS = ["--record", "ops"]
LAYER = "model.layers.1."
# A parameter of each kind that the demo's model has: elements, and what a token's product is made of.
GRADIENTS = [("1", LAYER + "mlp.down_proj.weight", 64 * 128, ["dy", "x"]),
             ("1", LAYER + "self_attn.q_proj.weight", 64 * 64, ["dy", "x"]),
             ("1", LAYER + "input_layernorm.weight", 64, ["dy", "x", "r"]),
             ("1", LAYER + "mlp.gate_proj.weight", 128 * 64, ["dy", "x"]),
             ("1", LAYER + "self_attn.o_proj.weight", 64 * 64, ["dy", "x"]),
             ("-", "model.norm.weight", 64, ["dy", "x", "r"]),
             ("-", "model.embed_tokens.weight", 16 * 64, [])]


def last_tensors(model):
    """Layer and name of a checkpoint's tensors that are of its last layer, or of none."""
    names = []
    for path in model.glob("model*.safetensors"):
        with path.open("rb") as file:
            names += json.loads(file.read(int.from_bytes(file.read(8), "little")))
    found = [(name.split(".")[2] if ".layers." in name else "-", name) for name in names
             if name != "__metadata__"]
    last = max(layer for layer, _ in found)
    return [(layer, name) for layer, name in found if layer in ("-", last)]


class Why(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *RUN, *OPS)

    def why(self, element, code=0, dump=None):
        return self.lines("why", dump or self.dump, element, code=code)[0]

    def test_a_gradient_is_the_sum_of_its_leaves(self):
        draw = random.Random(int(os.environ.get("RLREPLAY_SEED", "1")))
        for layer, tensor, elements, factors in GRADIENTS:
            for index in (0, elements - 1, draw.randrange(elements)):
                with self.subTest(tensor, index=index):
                    found = self.why(f"0.1/reduce/{layer}/gradient/{tensor}:{index}")
                    gradient = found["gradient"]
                    self.assertTrue(found["identical"] and gradient["adds_up"])
                    self.assertEqual(sum(int(p["sum"]) for p in gradient["parts"]), int(gradient["sum"]))
                    self.assertEqual([p["sample"] for p in gradient["parts"]], [3, 4, 5])
                    self.assertEqual(gradient["factors"], factors)
                    for part in gradient["parts"] if factors else []:
                        self.assertEqual(sum(t["product"] for t in part["tokens"]), part["products"])
                        self.assertEqual(int(part["sum"]) * 2.0 ** -gradient["scale"] - part["products"],
                                         part["rest"])
                        largest = max(abs(t["product"]) for t in part["tokens"])
                        self.assertLessEqual(abs(part["rest"]), len(part["tokens"]) * (largest * 2 ** -23 + 2.0 **
                                                                                      -gradient["scale"]))

    def test_leaves_of_a_sample_are_what_it_is_without(self):
        removed = self.lines("train", self.dump, "--steps", "0.1", "--without-sample", "4")[-1]
        touched = {g["parameter"]: g["touched"] for g in removed["gradients"]}
        name = LAYER + "input_layernorm.weight"
        parts = [self.why(f"0.1/reduce/1/gradient/{name}:{i}")["gradient"]["parts"][1] for i in range(64)]
        self.assertEqual(sum(p["sum"] != "0" for p in parts), touched[name])
        self.assertEqual({p["sample"] for p in parts}, {4})

    def test_other_numbers_have_inputs(self):
        down = self.why("0.1/backward/0/down/dx:5")
        self.assertIsNone(down["gradient"])
        self.assertEqual([i["event"] for i in down["inputs"]],
                         ["backward/1/input_norm/dx", "model.layers.0.mlp.down_proj.weight before the step"])
        norm = self.why("0.1/optimizer/-/weight/model.norm.weight:3")
        values = {i["event"]: i["value"] for i in norm["inputs"]}
        for name in ("model.norm.weight", "exp_avg/model.norm.weight", "exp_avg_sq/model.norm.weight"):
            self.assertIsNotNone(values[name + " before the step"])
        self.assertIsNotNone(norm["value"])
        self.assertEqual(self.why("0.1/forward/-/batch/token:2")["inputs"], [])
        gate = self.why("0.1/forward/0/swiglu/y:7")
        self.assertTrue(all(i["value"] is not None for i in gate["inputs"]), gate)

    def test_what_a_run_was_told_does_not_matter(self):
        """Options that change the step, or how it is shared, leave a gradient the sum of its leaves."""
        for i, options in enumerate((["--layout", "dp=2,tp=2", *OPS],
                                     ["--layout", "pp=2,cp=2"],
                                     ["--micro-batch-size", "1", "--recompute"],
                                     ["--record", "ops+values"], ["--record", "steps"],
                                     ["--use-kl-loss", "--kl-loss-coef", "0.1", "--entropy-coef", "0.01"],
                                     ["--calculate-per-token-loss", "--use-tis", "--clip-grad", "0.001"],
                                     ["--advantage-estimator", "gspo", "--weight-decay", "0.1"],
                                     ["--rope", "exact", "--decay-vectors", "--lr", "0.01"])):
            with self.subTest(options):
                dump, _ = self.capture(f"other {i}", *RUN, *options)
                for layer, tensor, elements, _ in GRADIENTS:
                    found = self.why(f"0.1/reduce/{layer}/gradient/{tensor}:{elements // 2}", dump=dump)
                    self.assertTrue(found["identical"] and found["gradient"]["adds_up"])
                    self.assertTrue(found["gradient"]["parts"])
                for element in ("forward/0/down/y:9", "optimizer/-/weight/model.norm.weight:3"):
                    self.assertTrue(self.why("0.1/" + element, dump=dump)["identical"])

    def test_models_of_every_kind(self):
        """Of several leaves a sample; vectors of heads, biases, untied and tied embeddings and heads."""
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text(json.dumps({"prompt_token_ids": [7, 41, 9], "label": "1"}) + "\n")
        seen, leaves = set(), 0
        for folder in material.folders() if FULL else material.folders()[:1]:
            for name in ("llama", "qwen2", "qwen3"):
                model = folder / "models" / f"tiny-{name}"
                dump, _ = self.capture(f"of {folder.name} {name}", "--model", model, "--prompts", prompts,
                                       "--rollout-batch-size", "1", "--n-samples-per-prompt", "2",
                                       "--rollout-max-response-len", "300", "--steps", "1", "--weights", "all",
                                       "--record", "ops", "--entropy-coef", "1")
                for layer, tensor in last_tensors(model):
                    with self.subTest(model=model, tensor=tensor):
                        found = self.why(f"0.0/reduce/{layer}/gradient/{tensor}:0", dump=dump)
                        self.assertTrue(found["identical"] and found["gradient"]["adds_up"])
                        parts = found["gradient"]["parts"]  # none of a token that is not there
                        self.assertTrue(parts or tensor == "model.embed_tokens.weight")
                        seen.add(".".join(tensor.split(".")[-2:]))
                        leaves = max([leaves, *(p["leaf"] or 0 for p in parts)])
        self.assertLessEqual({"q_norm.weight", "q_proj.bias", "lm_head.weight", "embed_tokens.weight",
                              "input_layernorm.weight", "down_proj.weight"}, seen)
        self.assertGreater(leaves, 0)

    def test_a_record_that_the_step_does_not_give_is_a_finding(self):
        disturbed = self.folder / "disturbed"
        self.run_program("train", self.dump, "--inject", "0.0/backward/0/down/dx:5:1", "-o", disturbed)
        self.assertFalse(self.why("0.0/forward/0/down/y:0", code=1, dump=disturbed)["identical"])

    def test_a_report_fits(self):
        for event in ("reduce/1/gradient/" + LAYER + "mlp.down_proj.weight:9", "forward/0/down/y:9",
                      "reduce/-/gradient/model.embed_tokens.weight:70"):
            for more in ([], ["--all"]):
                said = self.run_program("why", self.dump, "0.1/" + event, *more).stdout
                self.assertEqual([line for line in said.splitlines() if len(line) > 80], [])
                self.assertIn("again from its recorded state: identical", said)

    def test_what_does_not_go_is_refused_by_name(self):
        for words, element in (("is no EVENT:INDEX", "0.1/forward/0/down/y"), ("is no EVENT:INDEX", "x:-1"),
                               ("an index into it is 0 to 63", "0.1/reduce/-/gradient/model.norm.weight:64"),
                               ("the dump has no step 7.0", "7.0/forward/0/down/y:0"),
                               ("no such event", "0.1/forward/9/down/y:0"),
                               ("no parameter", "0.1/reduce/-/gradient/lm_head.weight:0"),
                               ("it is of a rollout", "0.0/rollout/0/down/y:0")):
            with self.subTest(element):
                result = self.run_program("why", self.dump, element)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr.replace("\n", " "))


if __name__ == "__main__":
    unittest.main()
