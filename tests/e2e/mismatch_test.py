"""rlreplay mismatch and show --text: numbers by their definitions, plots, colours.
usage: mismatch_test.py PROGRAM
"""
import json
import math
import os
import pathlib
import re
import resource
import struct
import sys
import unittest
import xml.etree.ElementTree

from support import Case

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

DEMO = ["--model", "demo", "--rollout-batch-size", "4", "--n-samples-per-prompt", "4"]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


NAN = "7fc00000"  # as the lines say it


def number(x):
    return math.nan if x == NAN else f32(x)


def definitions(pairs, low=0.0, high=2.0):
    """Of (train, rollout) pairs, as the guides define them."""
    d = [a - b for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    n, apart, w = len(d), sorted(abs(x) for x in d), [math.exp(x) for x in d]
    rank = lambda share: apart[max(1, math.ceil(share * n)) - 1]
    return {"tokens": len(pairs), "nonfinite": len(pairs) - n, "max": max(apart),
            "mean": math.fsum(apart) / n, "p50": rank(0.5), "p90": rank(0.9), "p99": rank(0.99),
            "k1": -math.fsum(d) / n, "k2": math.fsum(x * x / 2 for x in d) / n,
            "k3": math.fsum(math.expm1(x) - x for x in d) / n, "ratio": math.fsum(w) / n,
            "ratio_off": math.fsum(abs(x - 1) for x in w) / n,
            "effective_share": math.fsum(w) ** 2 / (n * math.fsum(x * x for x in w)),
            "tis_clipped": sum(x < low or x > high for x in w)}


def narrow(*numbers):
    """Each as the binary32 next to it."""
    return list(struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers)))


class Mismatch(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *DEMO, "--steps", "2")
        path = cls.folder / "dump.jsonl"
        cls.run_program("export", cls.dump, "--to", "jsonl", "-o", path)
        cls.samples = [json.loads(line) for line in path.read_text().splitlines()]

    def disturbed(self, name, change):
        """The dump with other log-probabilities of the trainer, and masks and versions."""
        lines = [json.loads(json.dumps(line)) for line in self.samples]
        rollout = {s["sample_id"]: s for s in lines if s["schema"] == "rlreplay.sample/1"}
        for line in lines:
            if line["schema"] == "rlreplay.train/1":
                change(line, rollout[line["sample_id"]])
        path = self.folder / (name + ".jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        pairs = []
        for line in lines:
            if line["schema"] != "rlreplay.train/1":
                continue
            sample = rollout[line["sample_id"]]
            # Lists of a step are of whole samples, those of a rollout of the response.
            prompt = sample["prompt_length"]
            for t, mask in enumerate(line["loss_mask"][prompt:]):
                if mask:
                    pairs.append((sample, t, number(line["log_probs"][prompt + t]),
                                  f32(sample["log_probs"][t])))
        return path, pairs

    def shift(self, line, sample):
        prompt = sample["prompt_length"]
        for t in range(len(sample["log_probs"])):
            step = 1.5 if (line["sample_id"], t) == (9, 1) else 0.001 * (line["sample_id"] % 5)
            line["log_probs"][prompt + t] = f32(line["log_probs"][prompt + t] - step)
            if t == 0 and line["sample_id"] % 3 == 0:
                line["loss_mask"][prompt + t] = 0

    def check(self, found, wanted):
        for name, value in wanted.items():
            self.assertAlmostEqual(found[name], value, delta=1e-12 * max(1, abs(value)), msg=name)

    def test_a_run_of_our_own_has_no_mismatch(self):
        found, = self.lines("mismatch", self.dump, "--tolerance", "0")
        self.assertEqual((found["max"], found["different"], found["nonfinite"]), (0, 0, 0))
        self.assertIsNone(found["where"])
        self.assertEqual(found["histogram"][0]["tokens"], found["tokens"])
        self.assertEqual(found["train"], "log_probs")

    def test_without_a_finite_pair_nothing_is_measured(self):
        row = {"rollout_id": 0, "sample_id": 0, "prompt_length": 1, "tokens": [5] * 3,
               "loss_mask": [1, 1]}
        lines = [{"schema": "rlreplay.sample/1", **row, "log_probs": [NAN, NAN]},
                 {"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, **row,
                  "old_log_probs": [-1.0, -1.0]}]
        path = self.folder / "no finite pair.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found, = self.lines("mismatch", path, code=1)
        self.assertEqual((found["tokens"], found["nonfinite"]), (2, 2))
        for part in (found, *found["by_position"], *found["by_length"], *found["by_rollout"]):
            self.assertIsNone(part["max"])
        self.assertEqual([found[name] for name in ("p50", "p90", "p99")], [None] * 3)
        plot = self.folder / "no finite pair.svg"
        text = self.run_program("mismatch", path, "--plot", plot).stdout
        self.assertRegex(text, r"(?m)^forward_logp_max_diff +-$")
        self.assertRegex(text, r"p50, p90, p99 +-, -, -")
        self.assertRegex(text, r"(?m)^ *0 +1 +- ")
        self.assertIn("largest -, p99 -", plot.read_text())

    def test_a_distance_on_an_edge_is_in_the_bin_above(self):
        """In binary32, where 0.01 and 0.0001 are below the numbers that these texts are in binary64."""
        def beside(x, step):
            return struct.unpack("<f", struct.pack("<i", struct.unpack("<i", struct.pack("<f", x))[0]
                                                   + step))[0]

        edges, distances = [10.0 ** -k for k in range(8, -1, -1)], [0.0, beside(0.0, 1)]
        for edge in edges:
            distances += [beside(edge, step) for step in (-1, 0, 1)]
        row = {"rollout_id": 0, "sample_id": 0, "prompt_length": 1,
               "tokens": [1] * (len(distances) + 1), "loss_mask": [1] * len(distances)}
        lines = [{"schema": "rlreplay.sample/1", **row, "log_probs": [-d for d in distances]},
                 {"schema": "rlreplay.train/1", "step_id": 0, "rank": 0, **row,
                  "log_probs": [0.0] * len(distances)}]
        path = self.folder / "edges.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found, = self.lines("mismatch", path)
        self.assertEqual([b["tokens"] for b in found["histogram"]], [1, 2] + [3] * 8 + [2])
        self.assertEqual([b["from"] for b in found["histogram"]], [0, 0] + edges)

    def test_numbers_are_those_of_the_definitions(self):
        path, pairs = self.disturbed("shifted", self.shift)
        found, = self.lines("mismatch", path, "--tis-clip", "1.0005", "--tis-clip-low", "0.998")
        self.check(found, definitions([(a, b) for _, _, a, b in pairs], 0.998, 1.0005))
        self.assertEqual(sum(h["tokens"] for h in found["histogram"]), len(pairs))
        bins = found["histogram"]
        self.assertEqual([(h["from"], h["to"]) for h in bins[:2]], [(0, 0), (0, 1e-8)])
        self.assertEqual([h["to"] for h in bins[1:]], [h["from"] for h in bins[2:]] + [None])
        self.assertIn("rlreplay train", self.run_program("mismatch", path).stdout.splitlines()[-1])
        sample = next(s for s, *_ in pairs if s["sample_id"] == 9)
        self.assertEqual((found["where"]["sample"], found["where"]["token"]),
                         (9, sample["prompt_length"] + 1))
        self.assertEqual(found["worst"][0]["id"], sample["tokens"][sample["prompt_length"] + 1])
        for part in found["by_position"]:
            of = [(a, b) for _, t, a, b in pairs
                  if (t == 0) == (part["from"] == 0) and part["from"] <= t < max(1, 2 * part["from"])]
            self.check(part, {k: v for k, v in definitions(of, 0.998, 1.0005).items()
                              if k in part})
        lengths = sum(part["tokens"] for part in found["by_length"])
        rollouts = [part["tokens"] for part in found["by_rollout"]]
        self.assertEqual((lengths, sum(rollouts), len(rollouts)), (len(pairs), len(pairs), 2))
        self.assertEqual(self.run_program("mismatch", path, "--tolerance", "1").returncode, 1)
        self.assertEqual(self.run_program("mismatch", path, "--tolerance", "2").returncode, 0)

    def test_versions_of_the_weights_are_told_apart(self):
        def change(line, sample):
            self.shift(line, sample)
            sample["versions"] = [3, 4] if line["sample_id"] == 9 else [3]
            sample["version_starts"] = ([0, sample["prompt_length"] + 1]
                                        if line["sample_id"] == 9 else [0])
        path, pairs = self.disturbed("versions", change)
        found, = self.lines("mismatch", path)
        parts = {part["version"]: part for part in found["by_version"]}
        newer = [(a, b) for s, t, a, b in pairs if s["sample_id"] == 9 and t >= 1]
        older = [(a, b) for s, t, a, b in pairs if s["sample_id"] != 9 or t < 1]
        self.assertEqual(sorted(parts), [3, 4])
        for version, of in ((3, older), (4, newer)):
            wanted = definitions(of)
            self.check(parts[version], {k: wanted[k] for k in ("tokens", "max", "mean", "k3")})

    def test_pairs_that_are_not_finite_are_counted_and_in_no_mean(self):
        def change(line, sample):
            self.shift(line, sample)
            if line["sample_id"] == 9:
                line["log_probs"][-1] = NAN
        path, pairs = self.disturbed("nan", change)
        result = self.run_program("mismatch", path, "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(found["nonfinite"], 1)
        self.check(found, definitions([(a, b) for _, _, a, b in pairs]))
        self.assertIsNone(found["worst"][0]["train"])
        text = self.run_program("mismatch", path).stdout
        self.assertRegex(text, r"not finite +1 of \d+ tokens, in none of the numbers here")

    def rewritten(self, name, change):
        path = self.folder / (name + ".jsonl")
        lines = [json.loads(json.dumps(line)) for line in self.samples]
        for line in lines:
            change(line)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def test_a_later_steps_own_policy_is_not_that_of_the_rollout(self):
        def change(line):
            if line["schema"] == "rlreplay.train/1":
                line.pop("old_log_probs", None)
                line["step_id"] = line["sample_id"] % 2
                if line["step_id"] == 1:
                    line["log_probs"] = [x if x is None else x - 1 for x in line["log_probs"]]
        whole, = self.lines("mismatch", self.dump)
        found, = self.lines("mismatch", self.rewritten(
            "later", lambda line: None if line["schema"] == "rlreplay.step/1" else change(line)))
        self.assertEqual(found["max"], 0)
        self.assertGreater(found["without"], 0)
        self.assertEqual(found["tokens"] + found["without"], whole["tokens"])

    def test_binary64_is_compared_as_it_was_stored(self):
        def change(line):
            if line["schema"] == "rlreplay.train/1":
                line["wide"] = ["log_probs"]
                line["log_probs"] = [f32(x) * (1 + 1e-10) for x in line["log_probs"]]
        found, = self.lines("mismatch", self.rewritten("wide", change))
        self.assertGreater(found["different"], 0)
        self.assertLess(found["max"], 1e-8)
        self.assertGreater(found["max"], 0)

    def test_samples_that_do_not_say_what_top_p_left_are_told(self):
        def change(line):
            if line["schema"] == "rlreplay.sample/1" and line["sample_id"] == 3:
                sizes = [1] * len(line["log_probs"])
                ids = line["tokens"][line["prompt_length"]:]
                line["nucleus"] = {"sizes": sizes, "ids": ids}
        path = self.rewritten("nucleus", change)
        found, = self.lines("mismatch", path)
        samples = sum(line["schema"] == "rlreplay.train/1" for line in self.samples)
        self.assertEqual(found["without_nuclei"], samples - 1)
        self.assertIn("note: the tokens were drawn with top-p",
                      self.run_program("mismatch", path).stdout)
        self.assertNotIn("top-p", self.run_program("mismatch", self.dump).stdout)

    def test_a_tolerance_is_a_distance(self):
        for text in ("nan", "inf", "-1"):
            self.assertEqual(self.run_program("mismatch", self.dump, "--tolerance", text).returncode,
                             2)

    def test_tables_and_plot(self):
        path, _ = self.disturbed("plotted", self.shift)
        plot = self.folder / "plot.svg"
        text = self.run_program("mismatch", path, "--model", "demo", "--plot", plot).stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertIn("#", text)
        worst = text.split("worst tokens\n")[1].splitlines()[1]
        self.assertRegex(worst, r'^ *\d+ +9 .* 1\.5 +".+"$')
        # Numbers that read back: the two of a token may part in the last digit.
        found = self.lines("mismatch", path, "--worst", "3")[0]["worst"]
        rows = [line.split() for line in text.split("worst tokens\n")[1].splitlines()[1:4]]
        self.assertEqual([narrow(*map(float, row[3:5])) for row in rows],
                         [narrow(of["train"], of["rollout"]) for of in found])
        root = xml.etree.ElementTree.parse(plot).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        texts = [node.text for node in root.iter() if node.tag.endswith("text")]
        self.assertTrue(any("position" in t for t in texts))
        self.assertNotIn("nan", plot.read_text())
        # The demo's tokenizer is known from a dump of ours.
        self.assertIn("forward_logp_max_diff  0", self.run_program("mismatch", self.dump).stdout)

    def test_a_plot_that_cannot_be_written_leaves_the_one_of_before(self):
        plot = self.folder / "kept.svg"
        plot.write_text("before")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        full = self.run_program("mismatch", self.dump, "--plot", plot, "--force", preexec_fn=limit)
        self.assertEqual(full.returncode, 5, full.stderr)
        self.assertEqual(plot.read_text(), "before")

    def test_a_plot_that_is_there_is_replaced_where_that_is_asked_for(self):
        plot = self.folder / "there.svg"
        plot.write_text("mine")
        refused = self.run_program("mismatch", self.dump, "--plot", plot)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertEqual(refused.stderr,
                         f"rlreplay: {plot}: it is there already; --force replaces it\n")
        self.assertEqual(plot.read_text(), "mine")
        self.assertEqual(self.run_program("mismatch", self.dump, "--force").returncode, 2)
        forced = self.run_program("mismatch", self.dump, "--plot", plot, "--force")
        self.assertEqual(forced.returncode, 0, forced.stderr)
        self.assertTrue(plot.read_text().startswith("<svg"))


class Colours(Case):
    def test_tokens_are_coloured_by_their_log_probability(self):
        dump, _ = self.capture("coloured", *DEMO, "--steps", "1")
        sample, = self.lines("show", dump, "--sample", "1")
        plain = self.run_program("show", dump, "--sample", "1", "--text").stdout
        shown = self.terminal("stdout", "show", dump, "--sample", "1", "--text")
        bare = re.sub("\033\\[[0-9;]*m", "", shown)
        self.assertTrue(bare.startswith(plain.rstrip("\n")), (plain, shown))
        legend = bare.splitlines()[-1]
        self.assertTrue(legend.startswith("log-probability: "))
        response = shown.split("---\n")[1].rsplit("\n\n", 1)[0]
        for code, low, high in (("32", -2.303, -0.693), ("33", -4.605, -2.303),
                                ("31", -math.inf, -4.605)):
            # The last token ends the response and has no text in it.
            wanted = sum(low <= x < high for x in sample["log_probs"])
            self.assertEqual(len(re.findall(f"\033\\[{code}m", response)), wanted, repr(shown))
        self.assertEqual(self.terminal("stdout", "show", dump, "--sample", "1", "--text", NO_COLOR="1"),
                         plain)
        self.assertNotIn("\033", plain)


if __name__ == "__main__":
    unittest.main(verbosity=1)
