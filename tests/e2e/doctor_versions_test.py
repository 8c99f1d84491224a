"""doctor --ref: a checkpoint against the weights of a dump, and against earlier ones where they are not those.

usage: doctor_versions_test.py RLREPLAY
"""
import json
import os
import pathlib
import shutil
import struct
import sys
import unittest

import support

Case = support.Case
Case.program = os.path.abspath(sys.argv.pop(1))

RUN = ("--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2")
FACT = "tensors are those of earlier weights"


def read(path):
    """Header and elements of a file of safetensors."""
    raw = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (one["dtype"], one["shape"], raw[8 + size:][slice(*one["data_offsets"])])
            for name, one in header.items()}


def cut(tensor):
    """A tensor of F32 in BF16, by its upper halves."""
    _, shape, data = tensor
    return "BF16", shape, b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


def padded(tensor, rows):
    """A matrix with rows of zeros below it."""
    dtype, (high, wide), data = tensor
    return dtype, [high + rows, wide], data + bytes(len(data) // high * rows)


def rounded(tensor):
    """A tensor of F32 in BF16, to nearest and ties to even, worked out apart from the program."""
    dtype, shape, data = tensor
    assert dtype == "F32"
    out = b""
    for bits, in struct.iter_unpack("<I", data):
        low, high = bits & 0xffff, bits >> 16
        high += low > 0x8000 or (low == 0x8000 and high % 2 == 1)
        out += struct.pack("<H", high)
    return "BF16", shape, out


class Versions(Case):
    made = 0

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.after = {}
        for steps in (1, 2, 3):
            folder = cls.folder / f"after {steps}"
            cls.lines("train", *RUN, "--steps", steps, "--save", folder)
            cls.after[steps] = folder
        cls.dump, _ = cls.capture("dump", *RUN, "--weights", "all", "--steps", 4)
        cls.without, _ = cls.capture("without", *RUN, "--weights", "none", "--steps", 1)
        cls.names = sorted(read(cls.after[3] / "model.safetensors"))

    def write(self, tensors):
        """A checkpoint of these, with the model's own config.json."""
        Versions.made += 1
        folder = self.folder / f"model {Versions.made}"
        folder.mkdir()
        (folder / "config.json").write_bytes((self.after[3] / "config.json").read_bytes())
        header, data = {}, b""
        for name, (dtype, shape, content) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return folder

    def found(self, path, *words, code=0):
        """(fact, severity, places) of what RD809 finds."""
        said, = self.lines("doctor", path, *words, code=code)
        return [(one["fact"], one["severity"], one["places"]) for one in said["findings"] if one["id"] == "RD809"]

    def tensors(self, steps):
        return read(self.after[steps] / "model.safetensors")

    def test_what_was_saved_before_a_step(self):
        self.assertEqual(self.found(self.after[3], "--ref", self.dump), [])
        said, = self.lines("doctor", self.after[3], "--ref", self.dump)
        self.assertEqual((said["reference"], said["reference_step"]), (str(self.dump), "3.0"))
        for steps in (1, 2):
            self.assertEqual(self.found(self.after[steps], "--ref", self.dump, "--step", f"{steps}.0"), [])

    def test_weights_of_an_earlier_step(self):
        for steps in (1, 2):
            (fact, severity, places), = self.found(self.after[steps], "--ref", self.dump, code=1)
            self.assertEqual((fact, severity), (FACT, "error"))
            now, then = self.tensors(3), self.tensors(steps)
            self.assertEqual(places, [f"{name}: before step {steps}.0" for name in self.names
                                      if now[name] != then[name]])

    def test_a_bucket_that_was_not_synced(self):
        mixed = self.tensors(3)
        for name, steps in ((self.names[0], 1), (self.names[4], 2)):
            mixed[name] = self.tensors(steps)[name]
        (fact, _, places), = self.found(self.write(mixed), "--ref", self.dump, code=1)
        self.assertEqual((fact, places), (FACT, [self.names[0] + ": before step 1.0",
                                                 self.names[4] + ": before step 2.0"]))
        said = self.run_program("doctor", self.write(mixed), "--ref", self.dump).stdout
        self.assertIn(f"2 of {len(mixed)} tensors; the reference's are before step 3.0", said)
        self.assertIn(f"--ref '{self.dump}' --step 3.0\n", said)

    def test_rounded_ones(self):
        """They are near to those of every step, and are of the one whose numbers they round."""
        now, then = ({name: rounded(one) for name, one in self.tensors(steps).items()} for steps in (3, 2))
        (fact, severity, places), = self.found(self.write(now), "--ref", self.dump)
        self.assertEqual((fact, severity), ("tensors are those of the reference, rounded", "note"))
        self.assertEqual(places, self.names)
        found = {fact: places for fact, _, places in self.found(self.write(then), "--ref", self.dump, code=1)}
        self.assertEqual(found[FACT], [f"{name}: before step 2.0" for name in self.names if now[name] != then[name]])
        self.assertEqual(found.get("tensors are those of the reference, rounded", []),
                         [name for name in self.names if now[name] == then[name]])
        self.assertNotIn("tensors hold other numbers", found)

    def test_near_and_not_rounded(self):
        now, then = ({name: rounded(one) for name, one in self.tensors(steps).items()} for steps in (3, 2))
        found = {fact: (severity, places) for fact, severity, places
                 in self.found(self.write(then), "--ref", self.after[3], code=1)}
        severity, places = found["tensors are near what the reference's round to"]
        self.assertEqual(severity, "error")
        others = found["tensors hold other numbers"][1]
        self.assertEqual(sorted(place.split(":")[0] for place in places + others),
                         [name for name in self.names if now[name] != then[name]])
        halves = {name: cut(one) for name, one in self.tensors(3).items()}
        self.assertNotEqual(halves, now)
        (fact, severity, places), = self.found(self.write(halves), "--ref", self.dump)
        self.assertEqual((fact, severity, places), ("tensors are those of the reference, rounded", "note", self.names))

    def test_kinds_in_a_narrower_type(self):
        tensors = {name: rounded(one) for name, one in self.tensors(3).items()}
        gate, up = (f"model.layers.1.mlp.{word}_proj.weight" for word in ("gate", "up"))
        tensors[gate], tensors[up] = tensors[up], tensors[gate]
        found = self.found(self.write(tensors), "--ref", self.dump, code=1)
        self.assertIn(("gate and up stand in each other's place", "error", [gate, up]), found)
        embedding = "model.embed_tokens.weight"
        for steps, told in ((3, "the vocabulary is padded on one side"), (2, FACT)):
            tensors = {name: rounded(one) for name, one in self.tensors(steps).items()}
            tensors[embedding] = padded(tensors[embedding], 4)
            said = json.loads(self.run_program("doctor", self.write(tensors), "--ref", self.dump, "--json").stdout)
            of = [one["fact"] for one in said["findings"] if any(place.startswith(embedding) for place in one["places"])
                  and one["id"] == "RD809"]
            self.assertEqual(of, [told])

    def test_an_earlier_step_that_is_damaged(self):
        torn = self.folder / "torn"
        shutil.copytree(self.dump, torn)
        unit, = torn.glob("weights/2-0/*.h5")
        data = bytearray(unit.read_bytes())
        data[len(data) // 2] ^= 1
        unit.write_bytes(data)
        found = self.found(self.after[1], "--ref", torn, code=1)
        self.assertEqual([fact for fact, _, _ in found], [FACT, "earlier weights cannot be read"])

    def test_earlier_checkpoints(self):
        words = ["--ref", self.after[3], "--earlier", self.after[2], "--earlier", self.after[1]]
        self.assertEqual(self.found(self.after[3], *words), [])
        (_, _, places), = self.found(self.after[1], *words, code=1)
        self.assertTrue(all(place.endswith(f": {self.after[1]}") for place in places))
        (fact, _, _), = self.found(self.after[1], *words[:4], code=1)
        self.assertEqual(fact, "tensors hold other numbers")
        said = self.run_program("doctor", self.after[1], *words).stdout
        self.assertIn(f"--earlier '{self.after[2]}' --earlier '{self.after[1]}'\n", said)

    def test_numbers_of_no_step(self):
        name, changed = self.names[2], self.tensors(3)
        dtype, shape, data = changed[name]
        changed[name] = dtype, shape, struct.pack("<f", 3.0) + data[4:]
        (fact, _, _), = self.found(self.write(changed), "--ref", self.dump, code=1)
        self.assertEqual(fact, "tensors hold other numbers")

    def test_what_is_refused(self):
        for words, code, told in (
                (["--step", "1.0"], 2, "--step and --earlier say more of --ref, which is missing"),
                (["--earlier", self.after[1]], 2, "which is missing"),
                (["--ref", self.after[3], "--step", "1.0"], 2, "--ref is none"),
                (["--ref", self.dump, "--step", "x"], 2, "a step has a name as 3.0, found x"),
                (["--ref", self.dump, "--step", "9.0"], 3, "no weights before step 9.0, but before 0.0 to 3.0"),
                (["--ref", self.without], 3, "the dump holds no weights to compare with; capture with --weights all"),
                (["--ref", self.dump, "--earlier", self.folder / "none"], 3, "there is no such checkpoint")):
            done = self.run_program("doctor", self.after[1], *words)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertIn(told, done.stderr)

    def test_nothing_is_left(self):
        own = self.folder / "temporary"
        own.mkdir()
        done = self.run_program("doctor", self.after[1], "--ref", self.dump, env={**os.environ, "TMPDIR": str(own)})
        self.assertEqual((done.returncode, list(own.iterdir())), (1, []))


if __name__ == "__main__":
    unittest.main()
