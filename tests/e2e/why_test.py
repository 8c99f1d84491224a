"""A number of a recorded step followed back: rlreplay why.

usage: why_test.py PROGRAM"""
import os
import random
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--num-rollout", "1", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
       "--rollout-max-response-len", "6", "--global-batch-size", "3", "--record", "ops", "--weights", "all"]
LAYER = "model.layers.1."
# A parameter of each kind that the demo's model has: elements, and what a token's product is made of.
GRADIENTS = [("1", LAYER + "mlp.down_proj.weight", 64 * 128, ["dy", "x"]),
             ("1", LAYER + "self_attn.q_proj.weight", 64 * 64, ["dy", "x"]),
             ("1", LAYER + "input_layernorm.weight", 64, ["dy", "x", "r"]),
             ("1", LAYER + "mlp.gate_proj.weight", 128 * 64, ["dy", "x"]),
             ("1", LAYER + "self_attn.o_proj.weight", 64 * 64, ["dy", "x"]),
             ("-", "model.norm.weight", 64, ["dy", "x", "r"]),
             ("-", "model.embed_tokens.weight", 16 * 64, [])]


class Why(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *RUN)

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
