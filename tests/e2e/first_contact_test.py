"""What a newcomer types first: bare names, other frameworks' words, steps and dumps as they are
called elsewhere.
usage: first_contact_test.py RLREPLAY RLBISECT
"""
import json
import os
import sys
import unittest

import checkpoints
import support


class Case(support.Case):
    @classmethod
    def said(cls, *arguments, code=0, **options):
        """What is printed, both streams together; the exit code must be `code`."""
        result = cls.run_program(*arguments, **options)
        text = result.stdout + result.stderr
        if result.returncode != code:
            raise AssertionError(f"{arguments}: exit {result.returncode}, not {code}\n{text}")
        return text


class Names(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", "--model", "demo", "--steps", "2",
                                  "--rollout-batch-size", "2", "--n-samples-per-prompt", "4")
        cls.said("export", cls.dump, "--to", "slime", "-o", cls.folder / "slime")
        cls.rollouts = cls.folder / "slime" / "rollout_data"
        cls.trained = cls.folder / "slime" / "train_data"

    def test_a_dump_that_is_imported_is_said_to_be_one(self):
        said = self.said("import", self.dump, "-o", self.folder / "again", code=2)
        self.assertIn("this is a dump of rlreplay already", said)
        self.assertIn("rlreplay show ", said)

    def test_a_bare_file_name(self):
        for words, folder, code in ((["show", "0.pt"], self.rollouts, 0),
                                    (["verify", "0.pt"], self.rollouts, 0),
                                    (["diff", "0.pt", "1.pt"], self.rollouts, 1),
                                    (["diff", "0.pt", "0.pt"], self.rollouts, 0),
                                    (["import", "0.pt", "-o", self.folder / "bare"],
                                     self.rollouts, 0)):
            self.said(*words, code=code, cwd=folder)
        self.assertIn("import the rollout dump together",
                      self.said("objective", "--from", "0.pt", code=3, cwd=self.trained))
        self.assertIn("no token has log-probabilities",
                      self.said("mismatch", "0.pt", code=3, cwd=self.rollouts))

    def test_a_file_that_would_not_be_read(self):
        other = self.folder / "note.txt"
        other.write_text("mine")
        made = self.folder / "with others"
        self.assertIn("note.txt", self.said("import", self.rollouts / "0.pt", other, "-o", made,
                                            code=2))
        self.assertFalse(made.exists())

    def test_the_folder_itself(self):
        """A folder by whatever name gives the same dump."""
        roots = set()
        for i, (name, cwd) in enumerate(((self.rollouts, None), (".", self.rollouts),
                                         (f"{self.rollouts}/", None),
                                         ("rollout_data", self.folder / "slime"))):
            self.said("import", name, "-o", self.folder / f"same {i}", cwd=cwd)
            exported = self.folder / f"again {i}"
            self.said("export", self.folder / f"same {i}", "--to", "slime", "-o", exported)
            roots.add(tuple(sorted(str(p.relative_to(exported)) for p in exported.rglob("*.pt"))))
        self.assertEqual(roots, {("rollout_data/0.pt", "rollout_data/1.pt")})


    def test_a_dump_is_an_argument_and_a_step_is_3_0(self):
        whole = self.said("objective", self.dump)
        self.assertEqual(whole, self.said("objective", "--from", self.dump))
        for verb in ("verify", "mismatch", "show"):
            self.assertEqual(self.said(verb, self.dump), self.said(verb, "--from", self.dump))
        second = self.lines("train", self.dump, "--steps", "1.0")
        self.assertEqual([(s["rollout_id"], s["step_id"]) for s in second], [(1, 0)])
        again = self.lines("train", "--from", self.dump, "--steps", "0.0..1")
        self.assertEqual(len(again), 2)
        self.assertIn("the dump has no step 7.0",
                      self.said("train", self.dump, "--steps", "7.0", code=2))
        self.assertIn("A..B, each a step as 3.0",
                      self.said("objective", self.dump, "--steps", "x", code=2))
        shown = self.said("show", self.dump, "--step", "1.0")
        self.assertEqual(shown, self.said("show", self.dump, "--step", "1-0"))
        self.assertRegex(shown, r"(?m)^grad_norm  [0-9.e+-]+$")
        self.assertIn("--step takes a step as 3.0", self.said("show", self.dump, "--step", "0", code=2))
        self.assertIn("identical", self.said("rollout", self.dump))

    def test_what_is_shown(self):
        shown = self.said("show", self.dump)
        self.assertRegex(shown, r"(?m)^run    .*model demo")
        self.assertIn(" MB\n", shown)
        lines = self.lines("show", self.dump, "--samples", "--sort", "length")
        lengths = [line["response_length"] for line in lines]
        self.assertEqual(len(lengths), 16)
        self.assertEqual(lengths, sorted(lengths, reverse=True))
        rewards = [line["reward"] for line in self.lines("show", self.dump, "--samples", "--sort",
                                                         "reward")]
        self.assertEqual(rewards, sorted(rewards))
        text = self.said("show", self.dump, "--rollout", "0", "--tensor", "response_text")
        self.assertRegex(text.splitlines()[1], r"^[0-9+]+$")
        for path in (self.dump / "manifest.json", self.dump / "rollout" / "0.h5"):
            self.assertIn("name the dump's folder", self.said("show", path, code=2))
        evaluation = self.folder / "eval_3.pt"
        evaluation.write_bytes((self.rollouts / "0.pt").read_bytes())
        said = self.said("show", "eval_3.pt", cwd=self.folder)
        self.assertRegex(said, r"(?m)^eval  samples ")
        self.assertRegex(said, r"(?m)^ +0        8 ")

    def test_files_of_others_are_trained_on(self):
        said = self.said("train", self.folder / "slime", "--model", "demo", "--steps", "0.0",
                         "--lr", "5e-4")
        self.assertIn("taken from the record: advantages of 8 of 8 samples", said)
        self.assertIn("give --model", self.said("train", self.folder / "slime", code=2))

    def test_a_tokenizer_needs_no_model(self):
        folder = self.folder / "tokenizer"
        folder.mkdir()
        made = checkpoints.write(self.folder / "model", checkpoints.config())
        (folder / "tokenizer.json").write_bytes((made / "tokenizer.json").read_bytes())
        for name in (folder, folder / "tokenizer.json"):
            ids = json.loads(self.said("tokenize", "--model", name, input='{"text": "12"}'))["ids"]
            back = self.said("tokenize", "--model", name, "--decode", input=json.dumps({"ids": ids}))
            self.assertEqual(json.loads(back), {"text": "12"})
        self.assertIn("no token 99999", self.said("tokenize", "--model", folder, "--decode", code=3,
                                                  input='{"ids": [99999]}'))

    def test_lines_of_json(self):
        lines = self.folder / "lines.jsonl"
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "tokens": [1, 2],
               "prompt_length": 1, "reward": 1}
        out = ["-o", self.folder / "from lines"]
        for change, text, code in (({"rewards": 1}, 'did you mean "reward"?', 3),
                                   ({"nobody": 1}, 'no key "nobody"', 3),
                                   ({"schema": None}, 'has no "schema"', 4)):
            made = {key: value for key, value in {**row, **change}.items() if value is not None}
            lines.write_text(json.dumps(row) + "\n" + json.dumps({**made, "sample_id": 1}) + "\n")
            said = self.said("import", lines, *out, code=code)
            self.assertIn(text, said)
            self.assertIn("lines.jsonl:2", said)
            self.assertFalse(out[1].exists())
        lines.write_text('{"input": "a", "output": "b", "score": 1, "step": 1}\n')
        self.assertIn("verl's rollout data", self.said("import", lines, *out, code=4))
        only = self.folder / "only"
        only.mkdir()
        (only / "x.jsonl").write_text("")
        self.assertIn("of JSONL name the one file", self.said("import", only, *out, code=2))
        (only / "x.parquet").write_text("")
        self.assertIn("Parquet files", self.said("import", only, *out, code=2))
        for name in ("x.json", "x.txt", "x.JSONL", "x"):
            (only / name).write_text(' {"schema":"rlreplay.sample/1"}\n')
            for verb in ("show", "verify", "objective", "mismatch", "import"):
                said = self.said(verb, only / name, *(out if verb == "import" else ()), code=2)
                self.assertIn(f"rlreplay: {only / name}: the file begins as lines of JSON do, which are "
                              "known by a name that ends in .jsonl", said)
        (only / "x.csv").write_text("a,b\n")
        self.assertIn("lines of JSON in .jsonl", self.said("objective", only / "x.csv", code=2))
        for lines_of in ("rlreplay.sample/1", "rlreplay.train/1"):
            self.assertIn(lines_of, self.said("import", "--help"))

    def test_keys_are_named(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text('{"question": "1+1=", "answer": "2"}\n')
        model = checkpoints.write(self.folder / "keys", checkpoints.config())
        said = self.said("capture", "--model", model, "--prompts", prompts, "--input-key", "q", "-o",
                         self.folder / "none", code=3)
        self.assertIn('no key "q"; there are answer, question', said)
        settings = self.folder / "run.yaml"
        settings.write_text("lr: 1e-5\n\nlrr: 2\n")
        said = self.said("train", "--model", "demo", "--config", settings, code=2)
        self.assertIn("run.yaml:3: there is no option --lrr, did you mean --lr?", said)
        self.assertIn("lr: ", self.said("capture", "--model", "demo", "--print-config"))
        self.assertIn("name the dump", self.said("capture", "--model", "demo", code=2))

    def test_what_makes_no_sense(self):
        self.assertIn("at least 0", self.said("mismatch", self.dump, "--worst", "-1", code=2))
        self.assertIn("ends with .svg", self.said("mismatch", self.dump, "--plot", "x.png", code=2))
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("there are no .pt files here", self.said("show", empty, code=3))
        spaced, _ = self.capture("sp ace", "--model", "demo", "--steps", "1",
                                 "--rollout-batch-size", "1", "--n-samples-per-prompt", "2")
        said = self.said("capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "1",
                         "--n-samples-per-prompt", "2", "--force", "-o", spaced)
        self.assertIn(f"replay it: rlreplay train '{spaced}'", said)


# The words of a launch script as its shell hands them on.
SCRIPT = """
  --swiglu --num-layers 2 --hidden-size 64 --ffn-hidden-size 128 --num-attention-heads 4
  --group-query-attention --num-query-groups 2 --use-rotary-position-embeddings
  --disable-bias-linear --normalization RMSNorm --norm-epsilon 1e-6 --rotary-base 1000000
  --vocab-size 16 --kv-channels 16 --qk-layernorm --load /nowhere --save-interval 20
  --rollout-shuffle --balance-data --eval-interval 20 --eval-prompt-data first a.jsonl second b.jsonl
  --n-samples-per-eval-prompt 16 --eval-max-response-len 64 --eval-top-p 1 --eval-top-k -1
  --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 1
  --context-parallel-size 1 --expert-model-parallel-size 1 --expert-tensor-parallel-size 1
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
  --use-dynamic-batch-size --max-tokens-per-gpu 9216 --optimizer adam --use-wandb
  --wandb-project p --wandb-group g --wandb-key hush --wandb-host h --wandb-team t
  --rollout-num-gpus-per-engine 2 --sglang-mem-fraction-static 0.7 --sglang-cuda-graph-bs 1 2 4 8
  --sglang-attention-backend flashinfer --attention-dropout 0.0 --hidden-dropout=0.0
  --accumulate-allreduce-grads-in-fp32 --attention-softmax-in-fp32 --attention-backend flash
  --actor-num-nodes 1 --actor-num-gpus-per-node 8 --colocate --loss-mask-type qwen
  --megatron-to-hf-mode bridge --train-backend megatron --true-on-policy-mode --qkv-format bshd
""".split()
FOLLOWED = """
  --global-batch-size 16 --advantage-estimator grpo --use-kl-loss --kl-loss-coef 0.00
  --kl-loss-type low_var_kl --entropy-coef 0.00 --eps-clip 0.2 --eps-clip-high 0.28 --lr 1e-6
  --lr-decay-style constant --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.98
  --rollout-temperature 1
""".split()
OF_RUN = """
  --num-rollout 1 --rollout-batch-size 2 --n-samples-per-prompt 8 --rollout-max-response-len 4
  --rollout-stop-token-ids 5 6
""".split()
JUDGED = "--rm-type math --custom-rm-path some.module".split()


class LaunchScripts(Case):
    def names(self, words):
        return {word.split("=")[0] for word in words if word.startswith("--")}

    def listed(self, text, said):
        line = next(line for line in text.splitlines() if said in line)
        return set(line.split(": ")[-1].split(", "))

    def ignored(self, text):
        return self.listed(text, "ignored: ")

    def numbers(self, text):
        return self.listed(text, "numbers of the launch script's run, not followed")

    def test_a_script_runs_as_it_is(self):
        dump = self.folder / "captured"
        said = self.said("capture", "--hf-checkpoint", "demo", *SCRIPT, *FOLLOWED, *OF_RUN, *JUDGED,
                         "--reward", "exact", "-o", dump)
        self.assertEqual(self.ignored(said) | self.numbers(said), self.names(SCRIPT + JUDGED))
        self.assertEqual(self.ignored(said) & self.numbers(said), set())
        shown = self.said("capture", "--resume", "--print-config", "-o", dump)
        for line in ('model: "demo"', 'rollout-stop-token-ids: "5,6"', "adam-beta2: 0.98",
                     "global-batch-size: 16"):
            self.assertIn(line + "\n", shown)
        # A record's own numbers need no judge, and no batch to be cut.
        said = self.said("objective", "--from", dump, *SCRIPT, *JUDGED, "--global-batch-size", "48")
        self.assertIn("--num-layers", self.numbers(said))
        self.assertIn("--use-wandb", self.ignored(said))
        self.assertIn("--optimizer", self.ignored(said))  # adam is what is done

    def test_what_the_launchers_run_computed_is_named_apart(self):
        dump, _ = self.capture("apart", "--model", "demo", "--steps", "1", "--rollout-batch-size",
                               "1", "--n-samples-per-prompt", "2")
        words = ["--fp8-format", "e4m3", "--grad-reduce-in-bf16", "--init-method-std", "0.02"]
        said = self.said("train", dump, *words, "--use-wandb")
        self.assertEqual(self.numbers(said), self.names(words))
        self.assertEqual(self.ignored(said), {"--use-wandb"})

    def test_what_would_give_other_numbers_is_refused_at_once(self):
        words = ["--optimizer", "muon", "--attention-dropout", "0.1", "--loss-type", "sft_loss",
                 "--dynamic-sampling-filter-path", "some.filter", "--partial-rollout"]
        said = self.said("capture", "--model", "demo", *SCRIPT, *JUDGED, *words, "-o",
                         self.folder / "never", code=2)
        for text in ("--optimizer muon: AdamW", "--attention-dropout 0.1: there is no dropout",
                     "--loss-type sft_loss", "--dynamic-sampling-filter-path some.filter",
                     "--partial-rollout", "--rm-type math", "--reward exact, gsm8k or command"):
            self.assertIn(text, said)
        self.assertFalse((self.folder / "never").exists())

    def test_words_that_nobody_knows(self):
        said = self.said("train", "--model", "demo", "--swiglu", "--rollout-batch-siez", "2",
                         "--zzz", code=2)
        self.assertIn("no option --rollout-batch-siez, did you mean --rollout-batch-size?", said)
        self.assertIn("there is no option --zzz", said)
        self.assertNotIn("--swiglu", said)
        self.assertIn('unexpected argument "7"',
                      self.said("capture", "--model", "demo", "--swiglu", "7", "-o", "x", code=2))


class Voice(Case):
    VERBS = ["capture", "train", "rollout", "layouts", "why", "score", "show", "verify", "diff", "doctor", "objective",
             "mismatch", "import", "export", "seal", "upgrade", "strip", "pack", "golden", "golden record",
             "golden check", "tokenize"]

    def test_help_fits(self):
        helps = [(self.program, ["help"])] + [(self.program, v.split() + ["--help"])
                                              for v in self.VERBS]
        helps += [(self.rlbisect, ["--help"]), (self.rlbisect, ["verdict", "--help"]), (self.rlbisect, ["op", "--help"])]
        for columns in (80, 60):
            for program, words in helps:
                said = self.said(*words, program=program,
                                 env={**os.environ, "COLUMNS": str(columns)})
                self.assertNotIn("\n\n\n", said)
                lines = [line for line in said.splitlines() if not line.startswith("  ")
                         or columns == 80]  # examples stay as they are typed
                self.assertEqual([line for line in lines if len(line) > columns], [], words)

    def test_helps_are_found(self):
        whole = self.said("train", "--help")
        self.assertEqual(whole, self.said("help", "train"))
        self.assertIn("  --lr X ", whole)
        self.assertIn("  --steps N", self.said("help", "golden", "record"))
        brief = self.said("train", "-h")
        self.assertNotIn("--lr X", brief)
        self.assertLess(len(brief.splitlines()), 60)
        self.assertEqual(self.said("version"), self.said("-V"))
        self.assertEqual(self.said("help", "verdict", program=self.rlbisect),
                         self.said("verdict", "--help", program=self.rlbisect))

    def test_one_voice(self):
        for words, text in (
                (["captur"], "there is no verb captur, did you mean capture?"),
                (["golden", "recrod"], "did you mean record?"),
                (["golden"], "give a verb after rlreplay golden: record, check"),
                (["mismatch", "x", "--tolerance", "x"], '--tolerance takes a number, not "x"'),
                (["mismatch", "x", "--worst", "1.5"], '--worst takes a whole number, not "1.5"'),
                (["score", "--model", "demo", "--threads", "-1"],
                 '--threads takes a number of at least 0, not "-1"'),
                (["export", "x", "--to", "pt", "-o", "y"], "--to takes one of slime, miles"),
                (["show"], "DUMP is missing"),
                (["show", "a", "--sample", "1", "--sample", "2"], "--sample is given more than"),
                (["show", "a", "--smaple", "2"], "did you mean --sample?"),
                (["diff", "a", "b", "c"], 'unexpected argument "c"')):
            said = self.said(*words, code=2)
            self.assertIn(text, said)
            self.assertTrue(said.startswith("rlreplay: "), said)
            self.assertEqual(len(said.splitlines()), 1)
        for words, text in ((["a..b", "--metrics", "x"], "did you mean --metric?"),
                            (["a", "b", "c"], "more than 2"), ([], "is missing"),
                            (["verdict", "--tolerance", "x"], '--tolerance takes a number')):
            said = self.said(*words, code=129, program=self.rlbisect)
            self.assertIn(text, said)
            self.assertTrue(said.startswith("rlbisect"), said)
            result = self.run_program(*words, "--json", program=self.rlbisect)
            self.assertIn(text, json.loads(result.stdout)["error"]["message"])


if __name__ == "__main__":
    Case.program, Case.rlbisect = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main(verbosity=1)
