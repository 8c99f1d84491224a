"""The reader that knows format/SPEC.md alone says of every golden dump what the program says: root, content
root, and of a bad one the rule. Of a captured run too, whose recorded values have their digests.
usage: spec_reader_test.py RLREPLAY GOLDEN_FOLDER
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py  # noqa: F401
    import numpy  # noqa: F401
    import xxhash  # noqa: F401
    import zstandard  # noqa: F401
except ImportError:
    sys.exit(77)

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import spec_joins  # noqa: E402

RLREPLAY, GOLDEN = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
READER = pathlib.Path(__file__).with_name("spec_reader.py")
# Bad dumps whose rule h5py cannot tell, with what it says instead, and why. Empty: of the golden ones it
# tells all. What it never can: a flag that is not defined, the order of B-tree records, gaps, counts of a
# fractal heap, the version of a message (rule `container`, section 3 "HDF5 forms").
UNTOLD = {}


def read(dump):
    done = subprocess.run([sys.executable, READER, dump], capture_output=True, text=True)
    if done.returncode not in (0, 1) or done.stderr:
        raise AssertionError(done.stderr)
    return done.returncode, done.stdout.splitlines()


def verify(dump, *more):
    done = subprocess.run([RLREPLAY, "verify", dump, "--json", *more], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


class Spec(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_whole(self, dump):
        said = verify(dump)
        self.assertEqual(said["verdict"], "complete", dump)
        want = ["whole", f"root {said['root']}", f"content root {said['content']}"]
        self.assertEqual(read(dump), (0, want), dump)

    def bad(self, name):
        """The sound dump with what the bad one has otherwise; an empty file there is none here."""
        dump = self.folder / name
        shutil.copytree(GOLDEN / "bad/sound", dump)
        for path in filter(pathlib.Path.is_file, (GOLDEN / "bad" / name).rglob("*")):
            target = dump / path.relative_to(GOLDEN / "bad" / name)
            if path.stat().st_size:
                shutil.copyfile(path, target)
            else:
                target.unlink()
        return dump

    def test_golden(self):
        dumps = [path for path in (GOLDEN / "dumps").iterdir() if path.is_dir()]
        self.assertGreaterEqual(len(dumps), 2)
        for dump in [*dumps, GOLDEN / "bad/sound"]:
            self.assert_whole(dump)

    def test_bad(self):
        texts = sorted((GOLDEN / "bad").glob("*.txt"))
        self.assertGreater(len(texts), 30)
        for text in texts:
            code, lines = read(self.bad(text.stem))
            want = [line.split("\t")[:3] for line in text.read_text().splitlines()][0]
            want = UNTOLD.get(text.stem, want)
            want[1] = want[1].split(":")[0]  # the line of a journal is ours alone
            self.assertEqual((code, lines[0].split("\t")[:4]), (1, ["broken", *want]), text.stem)

    def capture(self):
        dump = self.folder / "dump"
        subprocess.run([RLREPLAY, "capture", "--model", "demo", "--steps", "3", "--rollout-batch-size", "2",
                        "--num-steps-per-rollout", "2", "--record", "ops+values", "--weights", "all",
                        "-o", dump],
                       check=True, capture_output=True)
        return dump

    def test_captured(self):
        dump = self.capture()
        self.assert_whole(dump)
        unsealed = self.folder / "unsealed"
        shutil.copytree(dump, unsealed)
        (unsealed / "manifest.json").unlink()
        (unsealed / "units.index").unlink()
        (unsealed / "INCOMPLETE").touch()
        self.assertEqual(read(unsealed), read(dump))

    def test_digests(self):
        """What the reader checks beyond hashes: another seed, name or cut gives another digest."""
        sys.path.insert(0, str(READER.parent))
        import spec_joins
        import spec_reader
        dump = spec_reader.Dump(self.capture())
        dump.check()
        unit = dump.unit("train/0-0/rank0.h5")
        model = json.loads(dump.meta["model"])
        self.assertGreater(len(spec_joins.check_events(model, unit, unit.group("0-0"))), 50)
        dump.meta["model"] = json.dumps({**model, "num_attention_heads": 4})
        with self.assertRaisesRegex(spec_reader.Broken, "digest\t.*self_attn|digest\t.*qkv/q"):
            spec_joins.check_digests(dump)


class Example(unittest.TestCase):
    def test_the_digest_of_the_text_is_that_of_the_example(self):
        text = (pathlib.Path(__file__).parents[2] / "format/SPEC.md").read_text()
        values = numpy.array([1, 2], "<f4")
        digest, = spec_joins.row_digests({}, "model.norm.weight", "f32", (2,), values, None)
        self.assertIn(f"the digest is `{digest:032x}`", text)
        self.assertIn(f"`{' '.join(f'{byte:02x}' for byte in values.tobytes())}`", text)
        seed = struct.pack("<3Q", xxhash.xxh3_64_intdigest(b"model.norm.weight|f32|2"), 0, 0)
        self.assertIn(f"`{xxhash.xxh3_64_intdigest(seed):016x}`", text)


if __name__ == "__main__":
    unittest.main()
