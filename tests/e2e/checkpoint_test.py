"""A checkpoint goes through the engine and comes back with equal bits, for the library safetensors
and, where they are installed, for transformers. usage: checkpoint_test.py PROGRAM

The checkpoints are small ones made here, and those of RLREPLAY_REFERENCE where it names a folder."""
import json
import os
import pathlib
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
        if "RLREPLAY_REFERENCE" in os.environ:
            models = pathlib.Path(os.environ["RLREPLAY_REFERENCE"]) / "models"
            cls.models += [models / f"tiny-{name}" for name in ("qwen2", "qwen3", "llama")]
        else:
            print("skipped: the reference checkpoints (RLREPLAY_REFERENCE names no folder)")
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
        result = self.run_program("score", "--model", folder, "--tokens", line)
        score = json.loads(result.stdout)
        error = (torch.tensor(score["log_probs"], dtype=torch.float64) - want).abs().max()
        self.assertLess(error, 1e-4)


if __name__ == "__main__":
    unittest.main()
