"""One operation of a dump is computed again from its recorded inputs: with the record's bits, or what was planted is named.

usage: op_test.py RLBISECT RLREPLAY
"""
import json
import os
import subprocess
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
RLREPLAY = os.path.abspath(sys.argv.pop(1))
FORWARD = ["input_norm/y", "input_norm/r", "qkv/q", "qkv/k", "qkv/v", "o/y", "post_norm/y", "post_norm/r",
           "gate_up/gate", "gate_up/up", "swiglu/y", "down/y"]
BACKWARD = ["down/dx", "swiglu/dgate", "swiglu/dup", "o/dx"]
EVENTS = [f"0.0/forward/{layer}/{name}" for layer in (0, 1) for name in FORWARD] + \
         [f"0.0/backward/{layer}/{name}" for layer in (0, 1) for name in BACKWARD] + \
         ["0.0/forward/-/final_norm/y", "0.0/forward/-/final_norm/r"]


class Operations(Case):
    def rlreplay(self, *arguments, code=0):
        result = subprocess.run([RLREPLAY, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(result.returncode, code, result.stderr)

    def captured(self, *arguments):
        dump = self.folder / "my dump"
        self.rlreplay("capture", "--model", "demo", "--steps", "2", "--rollout-batch-size", "1", "--record",
                      "ops+values", "-o", dump, *arguments)
        return dump

    def asked(self, event, dump, *arguments, code=1):
        result = self.bisect("op", event, "--from", dump, "--json", *arguments)
        self.assertEqual(result.returncode, code, (event, result.stdout, result.stderr))
        return json.loads(result.stdout)

    def test_every_operation_gives_its_record_again(self):
        dump = self.captured()
        for event in EVENTS:
            with self.subTest(event):
                found = self.asked(event, dump)
                self.assertTrue(found["identical"])
                record, fastest, plain = found["sides"]
                self.assertEqual((record["by"], plain["by"]), ("record", "reference"))
                self.assertEqual(fastest["differing"] + plain["differing"], 0)
                self.assertEqual({side["error"] for side in found["sides"]}, {record["error"]})
                # Rounded to binary32 it cannot be exact, and is within the roundings of one operation.
                self.assertGreater(record["error"], 0)
                self.assertLess(record["rms"], 1e-5)

    def test_a_planted_ulp_is_named(self):
        dump = self.captured()
        for event, ulps in (("0.0/forward/0/down/y", 1), ("0.0/backward/1/swiglu/dup", -1), ("0.0/forward/1/qkv/k", 1 << 16)):
            with self.subTest(event):
                planted = self.folder / "planted"
                self.rlreplay("train", dump, "--steps", "0.0", "--inject", f"{event}:77:{ulps}", "-o", planted, "--force",
                              code=1)
                found = self.asked(event, planted, code=0)
                self.assertFalse(found["identical"])
                record, *sets = found["sides"]
                self.assertEqual([(side["differing"], side["first"]) for side in sets], [(1, 77)] * 2)
                if ulps > 1:
                    self.assertEqual(record["at"], 77)
                    self.assertAlmostEqual(record["ulps"] / ulps, 1, delta=0.01)
                    self.assertLess(sets[0]["error"], record["error"])

    def test_what_cannot_be_taken_is_refused(self):
        dump, event = self.captured(), "0.0/forward/0/down/y"
        for code, words, arguments in (
                (128, "no reference in binary64", ["0.0/forward/0/attention/out", "--from", dump]),
                (128, "no reference in binary64", ["0.0/rollout/0/down/y", "--from", dump]),
                (129, "the dump has no step 7.0", ["7.0/forward/0/down/y", "--from", dump]),
                (129, "there is no such event", ["0.0/forward/9/down/y", "--from", dump]),
                (128, "no state before step 1.0", ["1.0/forward/0/down/y", "--from", dump]),
                (129, "torch takes whole steps", [event, "--from", dump, "--kernels", "torch"]),
                (129, "has no kernel set avx9", [event, "--from", dump, "--against", "avx9"]),
                (129, "is missing", [event])):
            result = self.bisect("op", *arguments)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr)
        digests = self.folder / "digests"
        self.rlreplay("capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "1", "-o", digests)
        result = self.bisect("op", event, "--from", digests)
        self.assertEqual(result.returncode, 128)
        self.assertIn("capture it with --record ops+values", result.stderr)


if __name__ == "__main__":
    unittest.main()
