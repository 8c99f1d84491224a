"""What doctor finds in checkpoints: of each rule a broken one, a sound one and one that cannot be asked.

usage: doctor_test.py RLREPLAY
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import unittest

import checkpoints
import support
import weights

Case = support.Case
Case.program = os.path.abspath(sys.argv.pop(1))

MIB = 1 << 20
RULES = ["RD801", "RD802", "RD803", "RD811", "RD604", "RD807", "RD805", "RD804", "RD808", "RD809"]
REFERENCE = os.environ.get("RLREPLAY_REFERENCE")


class Doctor(Case):
    made = 0

    def place(self):
        Doctor.made += 1
        return self.folder / f"model {Doctor.made}"

    def model(self, *arguments, **options):
        return weights.write(self.place(), *arguments, **options)

    def asked(self, path, code=0):
        return self.lines("doctor", path, code=code)[0]

    def found(self, path, code=0):
        """(rule, severity) of every finding, in their order."""
        return [(one["id"], one["severity"]) for one in self.asked(path, code)["findings"]]

    def finding(self, path, rule, code=1):
        """The one finding of a rule."""
        of = [one for one in self.asked(path, code)["findings"] if one["id"] == rule]
        self.assertEqual(len(of), 1, of)
        return of[0]

    def reasons(self, path, code=0):
        """Why rules could not be asked."""
        return {one["id"]: one["reason"] for one in self.asked(path, code)["rules"]
                if one["status"] == "not applicable"}

    def said(self, *arguments, code=0):
        result = self.run_program("doctor", *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def test_sound_ones(self):
        for path in (self.model(weights.dense(), checkpoints.config()),
                     self.model(weights.dense(), checkpoints.config(), shards=3),
                     self.model(weights.with_experts(), weights.experts_config(), shards=2)):
            with self.subTest(path=path.name):
                self.assertEqual(self.found(path), [])
        whole = self.asked(path)
        self.assertEqual([rule["id"] for rule in whole["rules"]], RULES)
        self.assertEqual((whole["passed"], whole["failed"], whole["not_applicable"]), (len(RULES) - 1, 0, 1))
        self.assertIn("sound: ", self.said(path))

    def test_a_file_alone(self):
        path = self.model(weights.dense()) / "model.safetensors"
        self.assertEqual(self.found(path), [])
        reasons = self.reasons(path)
        self.assertEqual(reasons["RD802"], "one file without an index")
        self.assertEqual(reasons["RD804"], "nothing says tie_word_embeddings")
        shard = self.model(weights.dense(), checkpoints.config(), shards=2) / "model-00001-of-00002.safetensors"
        self.assertEqual(self.found(shard), [])
        self.assertEqual(self.reasons(shard)["RD803"], "one shard of several")


class Files(Doctor):
    def sharded(self, shards=3):
        return self.model(weights.dense(), checkpoints.config(), shards=shards)

    def test_a_shard_that_is_missing(self):
        path = self.sharded()
        (path / "model-00002-of-00003.safetensors").unlink()
        said = self.asked(path, 3)["findings"]
        self.assertEqual([one["id"] for one in said], ["RD801", "RD802", "RD803"])
        self.assertEqual(said[0]["where"], "model-00002-of-00003.safetensors")
        self.assertEqual([one["symptom_of"] for one in said], [None, "RD801", "RD801"])

    def test_no_shard_of_the_index(self):
        """None is there, those there are of another total, or some of both: each is named, with what to do."""
        for kept, others in ((0, 0), (0, 2), (1, 2)):
            with self.subTest(kept=kept, others=others):
                path = self.sharded()
                names = sorted(file.name for file in path.glob("*.safetensors"))
                for name in names[kept:]:
                    (path / name).unlink()
                for file in self.sharded(2).glob("*.safetensors") if others else ():
                    shutil.copy(file, path)
                first = self.asked(path, 3)["findings"][0]
                self.assertEqual((first["id"], first["symptom_of"], first["places"][-2:]), ("RD801", None, names[-2:]))
                self.assertIn("  fix  ", self.said(path, code=3))
        path, stray = self.sharded(), "model-00001-of-00002.safetensors"
        weights.change_index(path, lambda names: names.update({"model.extra.weight": stray}))
        self.assertEqual(self.finding(path, "RD801", 3)["where"], stray)

    def test_numbers_of_shards(self):
        path = self.model(weights.dense(), checkpoints.config(), shards=3, index=False)
        beyond = "model-00007-of-00003.safetensors"
        (path / beyond).write_bytes(weights.file_bytes({"model.layers.0.rotary_emb.inv_freq": weights.drawn((4,), 1)}))
        found = self.finding(path, "RD801")
        self.assertEqual((found["fact"], found["places"]), ("shards have numbers beyond their total", [beyond]))
        path = self.model(weights.dense(), checkpoints.config(), shards=3, index=False)
        for i in (1, 3):
            (path / f"model-{i:05}-of-00003.safetensors").rename(path / f"model-{i:05}-of-000003.safetensors")
        (path / "model-00002-of-00003.safetensors").unlink()
        found = self.finding(path, "RD801", 3)
        self.assertEqual((found["where"], found["observed"]), ("model-00002-of-000003.safetensors", "2 of 3 files"))

    def test_a_name_that_no_file_can_have(self):
        path, name = self.sharded(), "m" * 300 + ".safetensors"
        weights.change_index(path, lambda names: names.update({"model.extra.weight": name}))
        self.assertEqual(self.finding(path, "RD801", 3)["where"], name)
        self.assertIn("there is no such checkpoint", self.said(self.folder / name, code=3))

    def test_files_without_a_tensor(self):
        path = self.model({}, checkpoints.config())
        self.assertIn("the files hold no tensor", self.said(path, code=3))
        self.assertIn("the files hold no tensor", self.said(path / "model.safetensors", code=3))

    def test_files_that_are_damaged(self):
        file = "model-00001-of-00003.safetensors"
        whole = (self.sharded() / file).read_bytes()
        for name, content, words in weights.damaged(whole):
            with self.subTest(name):
                path = self.sharded()
                (path / file).write_bytes(content)
                said = self.asked(path, 3)["findings"]
                self.assertEqual((said[0]["id"], said[0]["where"]), ("RD801", file))
                self.assertIn(words, said[0]["observed"])

    def test_bombs_are_refused_in_bounded_memory(self):
        for name, content in weights.bombs():
            with self.subTest(name):
                path = self.place().with_suffix(".safetensors")
                path.write_bytes(content)
                result = subprocess.run(
                    [self.program, "doctor", path], capture_output=True, text=True, timeout=300,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (256 * MIB, 256 * MIB)))
                self.assertIn(result.returncode, (0, 3), result.stderr)
                self.assertLessEqual(len(result.stdout.splitlines()), 20)

    def test_conversions_that_are_mixed(self):
        path = self.model(weights.dense(), checkpoints.config(), shards=2, index=False)
        (path / "model-00001-of-00003.safetensors").write_bytes(weights.file_bytes({}))
        self.assertEqual(self.finding(path, "RD801")["observed"], "totals 2 and 3")

    def test_an_index_and_its_files(self):
        path = self.sharded()
        weights.change_index(path, lambda names: names.pop("model.norm.weight"))
        self.assertIn("model.norm.weight in ", self.finding(path, "RD802")["where"])
        path = self.sharded()
        weights.change_index(path, lambda names: names.update({"model.extra.weight": "model-00001-of-00003.safetensors"}))
        self.assertIn("model.extra.weight", self.finding(path, "RD802", 3)["where"])
        path = self.sharded()
        (path / "model.safetensors").write_bytes(weights.file_bytes(weights.dense()))
        self.assertEqual(self.finding(path, "RD802")["places"], ["model.safetensors"])
        path = self.sharded()
        (path / "model.safetensors.index.json").write_text("{")
        self.assertEqual(self.finding(path, "RD802", 3)["fact"], "the index cannot be read")
        path = self.model(weights.dense(), checkpoints.config(), shards=2, index=False)
        self.assertEqual(self.found(path), [("RD802", "warning")])

    def test_a_tensor_in_two_files(self):
        tensors = weights.dense()
        path = self.model(tensors, checkpoints.config(), shards=2)
        first = path / "model-00001-of-00002.safetensors"
        names = list(tensors)
        held = {name: tensors[name] for name in names[:len(names) // 2] + names[-1:]}
        first.write_bytes(weights.file_bytes(held))
        facts = [one["fact"] for one in self.asked(path, 1)["findings"]]
        self.assertIn("tensors lie in several files", facts)

    def test_a_size_that_the_index_says(self):
        path = self.sharded()
        index = path / "model.safetensors.index.json"
        index.write_text(index.read_text().replace('"total_size": ', '"total_size": 9'))
        self.assertEqual(self.found(path), [("RD802", "note")])

    def test_what_is_no_checkpoint(self):
        folder = self.place()
        self.assertIn("there is no such checkpoint", self.said(folder, code=3))
        folder.mkdir()
        self.assertIn("there are none in this folder", self.said(folder, code=3))
        (folder / "pytorch_model.bin").write_bytes(b"")
        self.assertIn("the weights are pickled", self.said(folder, code=4))
        note = folder / "note.txt"
        note.write_text("mine")
        self.assertIn("a folder, or a file that ends with .safetensors", self.said(note, code=2))
        path = self.model(weights.dense(), checkpoints.config())
        (path / "config.json").write_text("[]")
        self.assertIn("a configuration is an object", self.said(path, code=3))


class Layers(Doctor):
    def test_a_known_model_lacks_tensors(self):
        tensors = weights.dense()
        del tensors["model.layers.1.self_attn.k_norm.weight"], tensors["model.norm.weight"]
        found = self.finding(self.model(tensors, checkpoints.config()), "RD803")
        self.assertEqual(sorted(found["places"]), ["model.layers.1.self_attn.k_norm.weight", "model.norm.weight"])
        self.assertEqual(found["observed"], "2 names without a tensor, in 1 layer")

    def test_a_head_of_which_nothing_is_said(self):
        config = checkpoints.config()
        del config["tie_word_embeddings"]
        self.assertEqual(self.finding(self.model(weights.dense(), config), "RD803")["places"], ["lm_head.weight"])
        head = {"lm_head.weight": weights.drawn((258, 32), 77)}
        self.assertEqual(self.found(self.model(weights.dense() | head, config)), [])

    def test_an_index_that_takes_no_tensor_away(self):
        """A tensor is missing because of the index only where that says where it would lie."""
        tensors, name = weights.dense(), "model.layers.1.mlp.up_proj.weight"
        del tensors[name]
        path = self.model(tensors, checkpoints.config(), shards=2)
        (path / "model.safetensors").write_bytes(weights.file_bytes(tensors))
        self.assertIsNone(self.finding(path, "RD803")["symptom_of"])
        weights.change_index(path, lambda names: names.update({name: "model-00002-of-00002.safetensors"}))
        self.assertEqual(self.finding(path, "RD803", 3)["symptom_of"], "RD802")

    def test_a_known_model_has_more(self):
        tensors = weights.dense() | {"model.layers.2.mlp.up_proj.weight": weights.drawn((48, 32), 9)}
        found = self.finding(self.model(tensors, checkpoints.config()), "RD803")
        self.assertEqual(found["places"], ["model.layers.2.mlp.up_proj.weight"])

    def test_layers_and_experts_of_any_model(self):
        config = weights.experts_config()

        def without(*ends):
            kept = {name: tensor for name, tensor in weights.with_experts().items() if not name.endswith(ends)}
            return self.finding(self.model(kept, config), "RD803")["places"]

        self.assertEqual(without("layers.1.mlp.experts.2.up_proj.weight"), ["model.layers.1.mlp.experts.2.up_proj.weight"])
        self.assertEqual(without("layers.2.mlp.gate.weight"), ["model.layers.2.mlp.gate.weight"])
        last = tuple(name for name in weights.with_experts() if ".layers.2." in name)
        self.assertEqual(without(*last), ["model.layers.2.*"])
        fourth = tuple(name for name in weights.with_experts() if ".experts.3." in name)
        self.assertEqual(len(without(*fourth)), 6)

    def test_layers_of_other_kinds_are_no_mistake(self):
        """A first layer without experts, and a last one that predicts tokens."""
        tensors = {name: tensor for name, tensor in weights.with_experts().items()
                   if not name.startswith("model.layers.0.mlp.")}
        tensors["model.layers.0.mlp.up_proj.weight"] = weights.drawn((8, 16), 5)
        tensors["model.layers.3.eh_proj.weight"] = weights.drawn((16, 32), 6)
        path = self.model(tensors, weights.experts_config(num_nextn_predict_layers=1))
        self.assertEqual(self.found(path), [])

    def test_without_layers(self):
        path = self.model({"a.weight": weights.drawn((4, 4), 1)})
        reasons = self.reasons(path)
        self.assertIn("no tensor has a layer's number", reasons["RD803"])
        self.assertIn("neither a known model nor layers", reasons["RD811"])
        self.assertIn("no tensor has the name of an embedding", reasons["RD604"])

    def test_shapes(self):
        name = "model.layers.1.mlp.up_proj.weight"
        path = self.model(weights.dense() | {name: weights.drawn((32, 48), 9)}, checkpoints.config())
        found = self.finding(path, "RD811")
        self.assertEqual(found["observed"], "[32, 48] instead of [48, 32], transposed")
        config = weights.experts_config(num_hidden_layers=6)
        tensors = weights.with_experts(config)
        tensors["model.layers.4.self_attn.o_proj.weight"] = weights.drawn((16, 8), 9)
        self.assertEqual(self.found(self.model(tensors, config)), [("RD811", "warning")])


class Vocabulary(Doctor):
    def sized(self, rows, said=258, **options):
        config = checkpoints.config(vocab_size=said)
        tensors = weights.dense() | {"model.embed_tokens.weight": weights.drawn((rows, 32), 3)}
        return self.model(tensors, config, **options)

    def test_rows(self):
        self.assertEqual(self.found(self.sized(258)), [])
        self.assertEqual(self.found(self.sized(320)), [("RD604", "warning")])
        self.assertEqual(self.found(self.sized(321), 1), [("RD604", "error")])
        found = self.finding(self.sized(200), "RD604")
        self.assertEqual(found["observed"], "200 rows, vocab_size 258")

    def test_a_tokenizer(self):
        path = self.sized(258)
        tokenizer = checkpoints.tokenizer()
        (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assertEqual(self.found(path), [])
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "id": 258, "content": "<|new|>"})
        (path / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.assertEqual(self.finding(path, "RD604")["observed"], "258 rows, highest id 258")
        (path / "tokenizer.json").write_text("{\"model\": {")
        self.assertIn("not valid JSON", self.said(path, code=3))

    def test_a_head(self):
        embedding = weights.dense()["model.embed_tokens.weight"]
        tied, untied = checkpoints.config(), checkpoints.config(tie_word_embeddings=False)
        head = weights.drawn((258, 32), 77)
        for name, config, tensor, expected, code in (
                ("tied, the same", tied, embedding, [], 0), ("tied, another", tied, head, [("RD804", "error")], 1),
                ("its own", untied, head, [], 0), ("not tied, the same", untied, embedding, [("RD804", "warning")], 0),
                ("none", untied, None, [("RD804", "error")], 1)):
            with self.subTest(name):
                tensors = weights.dense() | ({"lm_head.weight": tensor} if tensor else {})
                self.assertEqual(self.found(self.model(tensors, config), code), expected)


class Values(Doctor):
    def changed(self, name, tensor, base=weights.dense):
        config = checkpoints.config() if base == weights.dense else weights.experts_config()
        return self.model(base() | {name: tensor}, config)

    def test_a_router_of_zeros(self):
        name = "model.layers.1.mlp.gate.weight"
        found = self.finding(self.changed(name, weights.filled((4, 16), 0), weights.with_experts), "RD805")
        self.assertEqual((found["fact"], found["places"]), ("a matrix holds one value alone, a router's", [name + ": 0"]))
        self.assertIn("ignore list", found["fix"])

    def test_one_value(self):
        name = "model.layers.0.mlp.up_proj.weight"
        for value, dtype, text in ((0.5, "F32", "0.5"), (0, "F16", "0")):
            found = self.finding(self.changed(name, weights.filled((48, 32), value, dtype)), "RD805")
            self.assertEqual(found["observed"], f"all elements are {text}")
        almost = weights.filled((48, 32), 0).put(48 * 32 - 1, 1e-30)
        self.assertEqual(self.found(self.changed(name, almost)), [])

    def test_what_may_be_constant(self):
        tensors = {"base.layers.0.q_proj.lora_B.weight": weights.filled((4, 4), 0),
                   "base.layers.0.norm.weight": weights.filled((4,), 1),
                   "base.layers.0.q_proj.weight_scale": weights.filled((4, 4), 1)}
        self.assertEqual(self.found(self.model(tensors)), [])

    def test_an_expert_in_one_tensor_with_others(self):
        stacked = weights.drawn((4, 8, 16), 3)
        size = 8 * 16 * 4
        stacked.data = stacked.data[:2 * size] + bytes(size) + stacked.data[3 * size:]
        path = self.model({"model.layers.0.mlp.experts.gate_up_proj": stacked})
        self.assertEqual(self.finding(path, "RD805")["where"], "model.layers.0.mlp.experts.gate_up_proj[2]: 0")

    def test_a_channel_of_a_convolution(self):
        for shape in ((8, 1, 4), (8, 4, 1)):
            tensor = weights.drawn(shape, 3)
            tensor.data = tensor.data[:32] + bytes(16) + tensor.data[48:]
            self.assertEqual(self.found(self.model({"model.layers.0.linear_attn.conv1d.weight": tensor})), [])

    def test_numbers_that_are_not_finite(self):
        name = "model.layers.1.mlp.up_proj.weight"
        for dtype, value, text in (("F32", float("nan"), "NaN"), ("BF16", float("inf"), "infinite"),
                                   ("F16", float("-inf"), "infinite"), ("F64", float("nan"), "NaN"),
                                   ("F8_E4M3", 0x7F, "NaN")):
            with self.subTest(dtype):
                tensor = weights.drawn((48, 32), 3, dtype).put(7 * 32 + 5, value)
                found = self.finding(self.changed(name, tensor), "RD807")
                self.assertEqual(found["where"], f"{name}[7, 5] is {text}")

    def test_integers_say_nothing(self):
        tensor = weights.filled((4, 4), 0)
        tensor.dtype = "I32"
        path = self.model({"model.layers.0.q_proj.qweight": tensor})
        self.assertIn("no tensor of numbers with fractions", self.reasons(path)["RD805"])

    def test_element_types(self):
        self.assertEqual(self.found(self.model(weights.dense(dtype="BF16"), checkpoints.config())), [("RD808", "note")])
        path = self.changed("model.layers.1.mlp.up_proj.weight", weights.drawn((48, 32), 3, "F16"))
        self.assertEqual(self.found(path), [("RD808", "warning")])
        path = self.model(weights.dense(dtype="BF16"), checkpoints.config(torch_dtype="bfloat16"))
        self.assertEqual(self.found(path), [])


class Reference(Doctor):
    """Two checkpoints, tensor by tensor, whatever names they have."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config = checkpoints.config(num_hidden_layers=4, head_dim=8)
        cls.sound = weights.write(cls.folder / "sound", weights.dense(cls.config), cls.config)

    def compared(self, tensors, code=1, config=None, reference=None, **options):
        """(fact, severity, places) of what RD809 finds."""
        path = self.model(tensors, config or self.config, **options)
        found = self.lines("doctor", path, "--ref", reference or self.sound, code=code)[0]["findings"]
        return [(one["fact"], one["severity"], one["places"]) for one in found if one["id"] == "RD809"]

    def changed(self, changes, code=1):
        """What is found where `changes` are made to the sound tensors."""
        return self.compared(weights.dense(self.config) | changes, code)

    def test_the_same(self):
        tensors = weights.dense(self.config)
        self.assertEqual(self.compared(tensors, 0), [])
        self.assertEqual(self.compared(tensors, 0, shards=3), [])
        self.assertEqual(self.compared(weights.fused(tensors), 0), [])
        self.assertEqual(self.compared(weights.megatron(tensors, self.config), 0), [])
        self.assertEqual(self.reasons(self.sound)["RD809"], "no --ref")
        for tensors in (weights.fused(tensors), weights.megatron(tensors, self.config)):  # the reference says the heads
            self.assertEqual(self.compared(tensors, 0, {"vocab_size": 258}), [])

    def test_values(self):
        name = "model.layers.2.mlp.up_proj.weight"
        changed = weights.dense(self.config)[name].put(7 * 32 + 5, 3)
        (fact, severity, places), = self.changed({name: changed})
        self.assertEqual((fact, severity), ("tensors hold other numbers", "error"))
        self.assertRegex(places[0], r"up_proj.weight: relative distance [0-9.]+, first at \[7, 5\]$")

    def test_a_cast(self):
        config = {**self.config, "torch_dtype": "bfloat16"}
        (fact, severity, places), = self.compared(weights.dense(self.config, "BF16"), 0, config)
        self.assertEqual((fact, severity), ("tensors are those of the reference, rounded", "note"))
        self.assertEqual(len(places), len(weights.dense(self.config)))

    def test_a_cast_of_numbers_that_are_not_finite(self):
        name, sound = "model.layers.2.mlp.up_proj.weight", weights.dense(self.config)
        short = weights.drawn((48, 32), 3, "BF16").put(5, float("inf")).put(41, float("nan"))
        long = weights.widened(short)
        reference = self.model(sound | {name: long}, self.config)
        self.assertEqual(self.compared(sound | {name: short}, reference=reference),
                         [("tensors are those of the reference, rounded", "note", [name])])
        (_, _, places), = self.compared(sound | {name: long.put(9, 7)}, reference=reference)
        self.assertRegex(places[0], r": relative distance [0-9.]+, first at \[0, 9\]$")
        (_, _, places), = self.compared(sound | {name: long.put(5, 7)}, reference=reference)
        self.assertEqual(places, [name + ": numbers that are not finite, first at [0, 5]"])

    def test_orders(self):
        sound = weights.dense(self.config)
        query = "model.layers.1.self_attn.q_proj.weight"
        up, gate = "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.gate_proj.weight"
        output = "model.layers.1.self_attn.o_proj.weight"
        heads = [h * 8 + i for h in (2, 0, 3, 1) for i in range(8)]
        rotary = [h * 8 + i for h in range(4) for i in (0, 4, 1, 5, 2, 6, 3, 7)]
        for changes, fact in (
                ({query: weights.rows(sound[query], heads)}, "heads stand in another order"),
                ({query: weights.rows(sound[query], rotary)}, "rows stand in another order within each head"),
                ({up: weights.rows(sound[up], range(47, -1, -1))}, "the same rows stand in another order"),
                ({up: weights.rows(sound[up], [*range(8, 48), *range(8)])}, "the same rows stand in another order"),
                ({up: sound[gate], gate: sound[up]}, "gate and up stand in each other's place"),
                ({output: weights.turned(sound[output])}, "tensors are transposed")):
            with self.subTest(fact):
                found = self.changed(changes)
                self.assertEqual([(said, sorted(places)) for said, _, places in found], [(fact, sorted(changes))])

    def test_a_vocabulary_that_is_padded(self):
        name = "model.embed_tokens.weight"
        sound = weights.dense(self.config)[name]
        padded = weights.Tensor((320, 32), [])
        padded.data = sound.data + bytes((320 - 258) * 32 * 4)
        self.assertEqual([one[:2] for one in self.changed({name: padded}, 0)],
                         [("the vocabulary is padded on one side", "warning")])

    def test_shapes(self):
        name = "model.layers.0.mlp.down_proj.weight"
        found = self.changed({name: weights.drawn((32, 24), 3)})
        self.assertEqual(found, [("tensors have other shapes than in the reference", "error", [name])])
        name, tensor = "model.layers.0.experts.weight", weights.drawn((2, 3, 4), 1)
        reference, tensor.shape = self.model({name: tensor}), (6, 4)
        self.assertEqual(self.compared({name: tensor}, config={}, reference=reference), [(*found[0][:2], [name])])

    def test_layers_of_other_numbers(self):
        """A second pipeline stage that counts its layers anew: layers 2 and 3 stand as 0 and 1."""
        sound = weights.dense(self.config)
        moved = {name.replace(f".layers.{layer + 2}.", f".layers.{layer}."): tensor for layer in (0, 1)
                 for name, tensor in sound.items() if f".layers.{layer + 2}." in name}
        facts = [fact for fact, _, _ in self.changed(moved)]
        self.assertEqual(facts, ["layers are those of other numbers of the reference"])

    def test_a_product_of_another_layer(self):
        """What else differs in that layer is told all the same."""
        query, up, norm = (f"model.layers.1.{role}.weight" for role in ("self_attn.q_proj", "mlp.up_proj", "input_layernorm"))
        moved = weights.dense(self.config)[query.replace(".1.", ".2.")]
        found = self.changed({query: moved, up: weights.drawn((48, 32), 99), norm: weights.drawn((32,), 98)})
        self.assertEqual([fact for fact, _, _ in found],
                         ["layers are those of other numbers of the reference", "tensors hold other numbers"])
        self.assertEqual([[place.split(":")[0] for place in places] for _, _, places in found], [[query], [norm, up]])

    def test_names(self):
        kept = {name: tensor for name, tensor in weights.dense(self.config).items() if ".layers.3." not in name}
        (fact, _, places), = self.compared(kept)
        self.assertEqual((fact, len(places)), ("tensors of the reference are missing", 11))
        tensors = weights.dense(self.config)
        found = self.changed({"lm_head.weight": tensors["model.embed_tokens.weight"]}, 0)
        self.assertEqual(found, [("one side alone has a head of its own", "note", ["lm_head.weight"])])
        (fact, _, _), = self.compared({"other.weight": weights.drawn((4, 4), 1)})
        self.assertEqual(fact, "no tensor has the name of one of the reference")

    def test_a_reference_that_is_none(self):
        self.assertIn("there is no such checkpoint", self.said(self.sound, "--ref", self.folder / "no", code=3))
        broken = self.model(weights.dense(self.config), self.config, shards=2)
        (broken / "model-00002-of-00002.safetensors").write_bytes(b"no")
        self.assertIn("the reference cannot be read", self.said(self.sound, "--ref", broken, code=3))
        tensors = weights.dense(self.config)
        lacking = self.model(tensors, self.config, shards=2, index=False)
        (lacking / "model-00002-of-00002.safetensors").unlink()
        self.assertIn("model-00002-of-00002.safetensors: 1 of 2 files", self.said(self.sound, "--ref", lacking, code=3))
        stale = self.model(tensors, self.config, shards=2)
        (stale / "model-00001-of-00002.safetensors").write_bytes(weights.file_bytes(dict(list(tensors.items())[:3])))
        self.assertIn("the reference cannot be read", self.said(self.sound, "--ref", stale, code=3))
        self.assertEqual(self.compared(tensors, 0, reference=self.model(tensors, shards=2, index=False)), [])


class Many(Doctor):
    """More places than are kept are counted all the same."""
    count = 20 * 512

    def test_values(self):
        found = self.finding(self.model(weights.experts(self.count, float("nan"), 1)), "RD807")
        self.assertEqual((found["observed"], len(found["places"])), (f"{self.count} tensors", 10000))
        path = self.model(weights.experts(self.count, 0, 0))
        self.assertIn(f", and {self.count - 1} more", self.said(path, code=1))
        whole = self.said(path, "--all", code=1)
        self.assertEqual(whole.count("up_proj.weight: 0"), 10000)
        self.assertIn(f"and {self.count - 10000} more, of which no place is kept", whole)

    def test_files(self):
        path = self.model({"a.weight": weights.drawn((2, 2), 1)})
        (path / "model.safetensors").rename(path / "model-00001-of-20000.safetensors")
        found = self.finding(path, "RD801", 3)
        self.assertEqual((found["fact"], found["observed"]), ("19999 shards of 20000 are not there", "1 of 20000 files"))
        path = self.model({name: weights.drawn((2, 2), 1) for name in ("a.weight", "b.weight")}, shards=2)
        more = {name: "model-00002-of-00002.safetensors" for name in weights.experts(self.count)}
        weights.change_index(path, lambda names: names.update(more))
        self.assertEqual(self.finding(path, "RD802", 3)["observed"], f"{self.count} tensors")

    def test_a_reference(self):
        """Each that differs is looked for in the other layers, by its name."""
        reference = self.model(weights.experts(self.count))
        others = {name: tensor.put(1, 2) for name, tensor in weights.experts(self.count).items()}
        result = subprocess.run([self.program, "doctor", self.model(others), "--ref", reference],
                                capture_output=True, text=True, timeout=300)
        self.assertIn(f"observed  {self.count} of {self.count} tensors", result.stdout)
        first = self.model(dict(list(others.items())[:1]))
        self.assertIn(f"observed  {self.count - 1} tensors", self.said(first, "--ref", reference, code=1))


class Report(Doctor):
    def broken(self):
        tensors = {name: weights.filled(tensor.shape, 0) for name, tensor in weights.dense().items()}
        path = self.model(tensors, checkpoints.config(vocab_size=300), shards=4)
        (path / "model-00003-of-00004.safetensors").unlink()
        return path

    def test_at_most_twenty_lines_and_all_of_them(self):
        path = self.broken()
        short, whole = self.said(path, code=3), self.said(path, "--all", code=3)
        self.assertLessEqual(len(short.splitlines()), 20)
        self.assertIn("more finding", short)
        self.assertGreater(len(whole.splitlines()), 20)
        self.assertNotIn("more finding", whole)
        self.assertTrue(all(len(line) <= 80 for line in short.splitlines()[1:-1]), short)
        self.assertLess(short.index("RD801"), short.index("RD604"))
        self.assertIn("rlreplay doctor", short.splitlines()[-1])

    def test_the_same_input_gives_the_same_bytes(self):
        path = self.broken()
        self.assertEqual(self.said(path, "--json", code=3), self.said(path, "--json", code=3))

    def test_rules(self):
        listed = self.said("--list")
        self.assertEqual([line.split()[0] for line in listed.splitlines() if line.startswith("RD")], RULES)
        rules = self.lines("doctor", "--list")[0]["rules"]
        self.assertEqual([rule["id"] for rule in rules], RULES)
        for rule in rules:
            self.assertIn(rule["limit"].split()[0], self.said("--explain", rule["id"]))
        self.assertEqual(self.lines("doctor", "--explain", "RD805")[0]["rules"], [rules[6]])
        self.assertIn("there is no rule 'RD999'", self.said("--explain", "RD999", code=2))
        self.assertIn("leave the path out", self.said(self.folder, "--list", code=2))
        self.assertIn("CKPT is missing", self.said(code=2))

    def test_names_cannot_write_to_a_terminal(self):
        tensors = weights.dense() | {"model.layers.0.\x1b[31mmlp.weight": weights.filled((2, 2), 0)}
        self.assertNotIn("\x1b", self.said(self.model(tensors, checkpoints.config()), "--all", code=1))


@unittest.skipUnless(REFERENCE, "RLREPLAY_REFERENCE names no folder of models")
class ReferenceModels(Doctor):
    def test_they_are_sound(self):
        """Random weights are weights; which rule could not be asked is known of each."""
        for name, reasons in (("tiny-llama", {"RD809"}), ("tiny-qwen2", {"RD802", "RD809"}),
                              ("tiny-qwen3", {"RD802", "RD809"}), ("tiny-qwen3-moe", {"RD802", "RD809"})):
            with self.subTest(name):
                path = pathlib.Path(REFERENCE, "models", name)
                self.assertEqual(self.found(path), [])
                self.assertEqual(set(self.reasons(path)), reasons)

    def test_a_shard_less(self):
        path = self.place()
        shutil.copytree(pathlib.Path(REFERENCE, "models", "tiny-llama"), path)
        (path / "model-00002-of-00002.safetensors").unlink()
        self.assertEqual(self.asked(path, 3)["findings"][0]["id"], "RD801")


if __name__ == "__main__":
    unittest.main()
