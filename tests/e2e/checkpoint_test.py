"""A checkpoint goes through the engine and comes back with equal bits, for the library safetensors
and, where they are installed, for transformers; its scores are those of numpy in float64.
usage: checkpoint_test.py PROGRAM

The checkpoints are small ones of the project, and those of RLREPLAY_REFERENCE where it names a
folder."""
import json
import os
import sys
import unittest

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError:
    sys.exit(77)
try:
    import torch
    import transformers
except ImportError:
    transformers = None

import checkpoints
import decoder
import material
from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
SMALL = ("--rollout-batch-size", "2", "--n-samples-per-prompt", "4",
         "--rollout-max-response-len", "6", "--reward", "command", "--reward-command",
         "python3 -c 'import sys\nfor i, _ in enumerate(sys.stdin): print(i % 3)'")


def read(folder):
    """Name -> array in binary32 of all files of a checkpoint."""
    out = {}
    for path in sorted(folder.glob("model*.safetensors")):
        for name, tensor in safetensors.deserialize(path.read_bytes()):
            if tensor["dtype"] == "BF16":
                wide = numpy.frombuffer(tensor["data"], "<u2").astype("<u4") << 16
                values = wide.view("<f4")
            else:
                values = numpy.frombuffer(tensor["data"], {"F32": "<f4", "F16": "<f2"}[
                    tensor["dtype"]]).astype("<f4")
            out[name] = values.reshape(tensor["shape"])
    return out


def different(a, b):
    """Names whose shapes or bits differ."""
    return sorted(name for name in {*a, *b} if name not in a or name not in b
                  or a[name].shape != b[name].shape or a[name].tobytes() != b[name].tobytes())


class Checkpoint(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prompts = cls.folder / "prompts.jsonl"
        cls.prompts.write_text("".join(
            json.dumps({"prompt_token_ids": [7, 40 + i, 9], "label": "1"}) + "\n"
            for i in range(4)))
        cls.models = [checkpoints.write(cls.folder / name, checkpoints.config(name))
                      for name in ("llama", "qwen3")]
        cls.models += [folder / "models" / f"tiny-{name}" for folder in material.folders()
                       for name in ("qwen2", "qwen3", "llama")]
        if transformers is None:
            print("skipped: transformers (not installed)")

    def train(self, model, name, lr):
        saved = self.folder / name
        step, = self.lines("train", "--model", model, "--prompts", self.prompts, "--steps", "1",
                           "--lr", lr, *SMALL, "--save", saved)
        return saved, step

    def test_weights_come_back(self):
        for i, model in enumerate(self.models):
            with self.subTest(model=str(model)):
                before = read(model)
                kept, kept_step = self.train(model, f"kept {i}", "0")
                self.assertEqual(different(read(kept), before), [])
                moved, moved_step = self.train(model, f"moved {i}", "1e-3")
                self.assertGreater(len(different(read(moved), before)), len(before) / 2)
                again, again_step = self.train(moved, f"again {i}", "0")
                self.assertEqual(different(read(again), read(moved)), [])
                self.assertEqual(again_step["weights_digest"], moved_step["weights_digest"])
                self.assertNotEqual(kept_step["weights_digest"], moved_step["weights_digest"])
                if transformers is not None:
                    self.load_with_transformers(moved)

    def score(self, model, line):
        result = self.run_program("score", "--model", model, "--tokens", line)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_scores_are_those_of_numpy(self):
        prompt, line = 10, self.folder / "tokens.jsonl"
        for model in self.models:
            with self.subTest(model=str(model)):
                longest = json.loads((model / "config.json").read_text())["max_position_embeddings"]
                ids = numpy.arange(3, min(longest, 230))[None]
                line.write_text(json.dumps({"tokens": ids[0].tolist(), "prompt_len": prompt}) + "\n")
                score = self.score(model, line)
                want = decoder.log_probs(decoder.Decoder(model, "float64").logits(ids), ids, prompt)
                self.assertLess(abs(numpy.array(score["log_probs"]) - want[0]).max(), 1e-4)

    def load_with_transformers(self, folder):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        self.assertEqual(model.dtype, torch.float32)
        state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        if model.config.tie_word_embeddings:
            del state["lm_head.weight"]
        self.assertEqual(different(state, read(folder)), [])
        tokens = list(range(3, 60))
        with torch.no_grad():
            logits = model.double()(torch.tensor([tokens])).logits[0].double()
        want = torch.log_softmax(logits, -1)[range(9, 56), tokens[10:57]]
        line = self.folder / "line.jsonl"
        line.write_text(json.dumps({"tokens": tokens[:57], "prompt_len": 10}) + "\n")
        score = self.score(folder, line)
        error = (torch.tensor(score["log_probs"], dtype=torch.float64) - want).abs().max()
        self.assertLess(error, 1e-4)


if __name__ == "__main__":
    unittest.main()
