"""The referee names the side that is nearer, whatever is planted in the other one.

usage: referee_test.py RLREPLAY

The log-probabilities come from transformers where it is installed (RLREPLAY_TRANSFORMERS=1 demands
it), and else from numpy. Besides models of the project's own, those of RLREPLAY_REFERENCE are judged
where it names a folder.
"""
import json
import os
import sys
import unittest

# Threads that wait for each other by spinning would cost more than the small products here.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

try:
    import numpy
except ImportError:
    sys.exit(77)

import checkpoints
import decoder
import material
import support

try:
    import torch
    import transformers
except ImportError:
    if os.environ.get("RLREPLAY_TRANSFORMERS") == "1":
        raise
    transformers = None

COUNT, PROMPT, LENGTH = 8, 7, 27


class Numpy:
    """logits of ids under a checkpoint, perhaps with older weights."""
    name = "numpy"

    def __init__(self, folder, precision, stale=False):
        draw = numpy.random.default_rng(9)

        def older(_, w):
            return w * (1 + 0.02 * draw.standard_normal(w.shape).astype(numpy.float32))
        self.model = decoder.Decoder(folder, precision, older if stale else None)

    def logits(self, ids):
        return self.model.logits(ids)


class Transformers:
    name = "transformers"

    def __init__(self, folder, precision, stale=False):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, precision))
        draw = torch.Generator().manual_seed(9)
        for w in self.model.parameters() if stale else ():
            change = 1 + 0.02 * torch.randn(w.shape, generator=draw)
            w.data = (w.data.float() * change).to(w.dtype)

    def logits(self, ids):
        with torch.no_grad():
            return self.model(torch.from_numpy(ids)).logits.float().numpy()


ENGINE = Transformers if transformers else Numpy
PLANTS = {
    "bias": lambda e, ids: e.clean(ids) + numpy.float32(0.25),
    "small bias": lambda e, ids: e.clean(ids) + numpy.float32(0.05),
    "temperature": lambda e, ids: e.score(ids, temperature=0.9),
    "off by one": lambda e, ids: numpy.roll(e.clean(ids), 1, axis=1),
    "stale weights": lambda e, ids: e.score(ids, stale=True),
}


class Engine:
    """Log-probabilities of one checkpoint in one precision, each computed once."""

    def __init__(self, folder, precision):
        self.folder, self.precision = folder, precision
        self.kept = {}

    def score(self, ids, temperature=1.0, stale=False):
        if stale not in self.kept:
            self.kept[stale] = ENGINE(self.folder, self.precision, stale).logits(ids)
        return decoder.log_probs(self.kept[stale], ids, PROMPT, temperature)

    def clean(self, ids):
        return self.score(ids)


def write_dump(path, ids, train, rollout, mask=None, versions=None):
    """A rollout and its step as lines of JSON."""
    lines = []
    for i, tokens in enumerate(ids.tolist()):
        common = {"rollout_id": 0, "sample_id": i, "prompt_length": PROMPT, "tokens": tokens,
                  "loss_mask": [1] * (LENGTH - PROMPT) if mask is None else mask[i].tolist()}
        sample = {**common, "group_id": i // 4, "reward": float(i % 2)}
        if rollout is not None:
            sample["log_probs"] = rollout[i].tolist()
        if versions is not None:
            sample["versions"] = versions[i]
        lines.append({"schema": "rlreplay.sample/1", **sample})
        if train is not None:
            lines.append({"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, **common,
                          "old_log_probs": train[i].tolist()})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class Referee(support.Case):
    def models(self):
        own = {}
        for name in ("qwen3", "llama"):
            folder = self.folder / f"own {name}"
            if not folder.exists():
                checkpoints.write(folder, checkpoints.config(name))
            own[name] = folder
        for name in ("tiny-qwen2", "tiny-qwen3"):
            own |= {f"{name} {i}": folder / "models" / name
                    for i, folder in enumerate(material.folders())}
        return own

    def imported(self, name, *arguments, **options):
        lines = write_dump(self.folder / f"{name}.jsonl", *arguments, **options)
        dump = self.folder / name
        result = self.run_program("import", lines, "-o", dump, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        return dump

    def judge(self, dump, model, *arguments, code=None):
        result = self.run_program("train", "--from", dump, "--model", model, "--forward", "--json",
                                  *arguments)
        self.assertIn(result.returncode, (0, 1) if code is None else (code,), result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["schema"], "rlreplay.referee/1")
        self.assertEqual(result.returncode, int(report["finding"]))
        return report

    def test_the_nearer_side_is_named_whatever_is_planted_in_the_other(self):
        runs = 0
        for name, folder in self.models().items():
            ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 1)
            for precision in ("float32", "bfloat16"):
                engine = Engine(folder, precision)
                for plant, make in PLANTS.items():
                    for planted in ("train", "rollout"):
                        sides = {"train": engine.clean(ids), "rollout": engine.clean(ids)}
                        sides[planted] = make(engine, ids)
                        dump = self.imported("planted", ids, **sides)
                        report = self.judge(dump, folder)
                        clean = "rollout" if planted == "train" else "train"
                        where = f"{name} {precision} {plant} in {planted}"
                        self.assertEqual(report["nearer"], clean, where)
                        self.assertFalse(report[clean]["beyond_noise"], where)
                        self.assertIsNone(report[clean]["shifted"], where)
                        if plant != "small bias":
                            self.assertTrue(report[planted]["beyond_noise"], where)
                        self.assertEqual(report[planted]["shifted"],
                                         -1 if plant == "off by one" else None, where)
                        if plant == "bias":
                            self.assertAlmostEqual(report[planted]["bias"], 0.25, delta=0.05)
                        runs += 1
        print(f"{runs} runs, log-probabilities from {ENGINE.name}")

    def test_a_sample_that_is_off_as_a_whole_is_named(self):
        folder = self.folder / "broken model"
        checkpoints.write(folder, checkpoints.config("qwen3"))
        ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 1)
        clean = Engine(folder, "float32").clean(ids)
        for size, named in [(0.5, [5]), (0, [])]:
            train = clean.copy()
            train[5] += numpy.float32(size)
            dump = self.imported("one broken", ids, train, clean)
            report = self.judge(dump, folder, code=1 if named else 0)
            self.assertEqual(report["train"]["broken_samples"], named)
            self.assertEqual(report["rollout"]["broken_samples"], [])
            text = self.run_program("train", "--from", dump, "--model", folder, "--forward").stdout
            self.assertEqual(
                f"train: sample 5 of rollout 0 is off as a whole, unlike most: 0.5 in the median of "
                f"{LENGTH - PROMPT} tokens, from token {PROMPT} on" in " ".join(text.split()),
                bool(named), text)

    def test_the_evaluation_and_its_noise_are_those_of_another_implementation(self):
        for name, folder in self.models().items():
            ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 2)
            exact = decoder.log_probs(decoder.Decoder(folder, "float64").logits(ids), ids, PROMPT)
            rounded = decoder.log_probs(decoder.Decoder(folder, "bfloat16").logits(ids), ids,
                                        PROMPT)
            report = self.judge(self.imported("same", ids, exact, rounded), folder)
            self.assertLess(report["train"]["max"], 2e-4, name)
            noise = abs(rounded.astype(float) - exact).mean()
            self.assertLess(report["noise"]["mean"], 2 * noise, name)
            self.assertGreater(report["noise"]["mean"], noise / 2, name)
            self.assertEqual(report["nearer"], "train", name)

    def test_what_is_counted_and_where(self):
        folder = self.models()["qwen3"]
        ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 3)
        clean = decoder.log_probs(decoder.Decoder(folder, "float32").logits(ids), ids, PROMPT)
        rollout, mask = clean.copy(), numpy.ones(clean.shape, int)
        rollout[5, 18] += 3
        rollout[6, 4], mask[6, 4] = 0, 0  # a token of a tool: judged by nobody
        train = clean.copy()
        train[2, 3] -= 2
        dump = self.imported("places", ids, train, rollout, mask)
        report = self.judge(dump, folder)
        self.assertEqual(report["samples_judged"], COUNT)
        self.assertEqual(report["tokens_judged"], COUNT * (LENGTH - PROMPT) - 1)
        self.assertEqual(report["rollout"]["where"], {"sample": 5, "token": PROMPT + 18})
        tokens = report["tokens_judged"]
        self.assertAlmostEqual(report["rollout"]["bias"], 3 / tokens, delta=1e-4)
        self.assertAlmostEqual(report["train"]["bias"], -2 / tokens, delta=1e-4)
        self.assertEqual(report["worst"][0]["id"], int(ids[5, PROMPT + 18]))
        self.assertEqual([s["sample"] for s in report["samples"] if s["nearer"] == "train"][-1], 5)
        self.assertEqual([(p["first"], p["last"]) for p in report["positions"]],
                         [(0, 15), (16, LENGTH - PROMPT - 1)])
        self.assertGreater(report["positions"][1]["rollout"]["max"], 2.9)
        few = self.judge(dump, folder, "--groups", "1", "--max-tokens", 2 * LENGTH + 1)
        self.assertEqual([s["sample"] for s in few["samples"]], [4, 5])
        self.assertEqual(few["samples_beyond_max_tokens"], 2)
        one = self.judge(dump, folder, "--samples", "3")
        self.assertEqual([s["sample"] for s in one["samples"]], [3])
        text = self.run_program("train", "--from", dump, "--model", folder, "--forward").stdout
        self.assertIn("nearer: train", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100 + len(str(dump)))

    def test_another_model_is_asked_for(self):
        folder = self.models()["qwen3"]
        ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 2)
        own = decoder.log_probs(decoder.Decoder(folder, "float32").logits(ids), ids, PROMPT)
        for apart, asked in ((3, True), (0.5, False)):
            dump = self.imported("another", ids, own - apart, own - apart)
            result = self.run_program("train", dump, "--model", folder, "--forward")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual("is this the model that wrote it" in result.stdout, asked)
        # One side that is right shows whose fault it is.
        dump = self.imported("another", ids, own, own - 3)
        self.assertNotIn("is this the model",
                         self.run_program("train", dump, "--model", folder, "--forward").stdout)

    def test_versions_of_the_weights(self):
        folder = self.models()["qwen3"]
        ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 4)
        clean = decoder.log_probs(decoder.Decoder(folder, "float32").logits(ids), ids, PROMPT)
        mixed = self.imported("versions", ids, clean, clean,
                              versions=[[3], [3, 3], [3, 4], [4]] * 2)
        refused = self.run_program("train", "--from", mixed, "--model", folder, "--forward")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("weight versions 3, 4", refused.stderr)
        report = self.judge(mixed, folder, "--weights-version", "3")
        self.assertEqual([s["sample"] for s in report["samples"]], [0, 1, 4, 5])
        self.assertEqual(report["samples_of_other_versions"], 4)
        none = self.run_program("train", "--from", mixed, "--model", folder, "--forward",
                                "--weights-version", "7")
        self.assertEqual(none.returncode, 2)
        self.assertIn("no sample is wholly of weight version 7", none.stderr)
        unnamed = self.imported("unnamed", ids, clean, clean)
        self.judge(unnamed, folder, code=0)

    def test_what_is_missing_is_said(self):
        folder = self.models()["qwen3"]
        ids = decoder.sample(decoder.Decoder(folder, "float32"), COUNT, PROMPT, LENGTH, 5)
        clean = decoder.log_probs(decoder.Decoder(folder, "float32").logits(ids), ids, PROMPT)
        one_side = self.judge(self.imported("one side", ids, None, clean), folder)
        self.assertIsNone(one_side["train"])
        self.assertEqual(one_side["nearer"], "unknown")
        neither = self.imported("neither", ids, None, None)
        refused = self.run_program("train", "--from", neither, "--model", folder, "--forward")
        self.assertEqual(refused.returncode, 3)
        self.assertIn("nothing to judge", refused.stderr)
        no_model = self.run_program("train", "--from", neither, "--forward")
        self.assertEqual(no_model.returncode, 2 if "--model" in no_model.stderr else 3)
        large = ids.copy()
        large[0, 0] = 10 ** 6
        other = self.run_program("train", "--from", self.imported("other", large, clean, clean),
                                 "--model", folder, "--forward")
        self.assertEqual(other.returncode, 3)
        self.assertIn("is this the model that wrote it", other.stderr)

    def test_a_capture_of_our_own_is_judged_by_its_own_weights(self):
        model = self.models()["qwen3"]
        prompts = checkpoints.write_prompts(self.folder / "prompts.jsonl")
        dump, _ = self.capture("own", "--model", model, "--prompts", prompts, "--steps", "1",
                               "--rollout-batch-size", "4", "--n-samples-per-prompt", "2",
                               "--rollout-max-response-len", "12")
        result = self.run_program("train", "--from", dump, "--forward", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(report["nearer"], "equal")
        self.assertEqual([report[side]["max"] for side in ("train", "rollout")], [0, 0])


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main(verbosity=1)
