"""The benchmark of whole steps prints what it promises. usage: bench_step_test.py PROGRAM"""
import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
KEYS = ["name", "ours", "torch", "ratio", "unit", "processor_ratio", "ours_seconds",
        "torch_seconds", "ours_peak_mib", "torch_peak_mib", "ours_processors", "torch_processors", "threads"]


def bench(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


class BenchStep(unittest.TestCase):
    def test_json_has_both_sides_of_an_item(self):
        result = bench("--json", "--threads", "1", "--filter", "demo generate")
        self.assertEqual(result.returncode, 0, result.stderr)
        item, = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(list(item), KEYS)
        self.assertEqual((item["name"], item["threads"]), ("demo generate", 1))
        self.assertAlmostEqual(item["ratio"], item["ours"] / item["torch"], delta=1e-6)
        used = {side: item[side + "_processors"] * item[side + "_seconds"]
                for side in ("ours", "torch")}
        self.assertAlmostEqual(item["processor_ratio"], used["torch"] / used["ours"], delta=1e-6)
        for side in ("ours", "torch"):
            # 256 responses of 6 tokens.
            self.assertAlmostEqual(item[side] * item[side + "_seconds"], 256 * 6, delta=1e-6)
            self.assertGreater(item[side + "_peak_mib"], 1)
        self.assertGreater(item["torch_peak_mib"], item["ours_peak_mib"])  # libtorch itself

    def test_a_profile_names_the_operations(self):
        result = bench("--side", "portable", "--item", "demo step", "--threads", "1", "--profile")
        self.assertEqual(result.returncode, 0, result.stderr)
        side = json.loads(result.stdout)
        self.assertEqual((len(side["seconds"]), side["tokens"]), (20, 256 * 16))
        for line in ("forward gate_up", "backward down", "optimizer exp_avg", "rest"):
            self.assertIn(line, result.stderr)

    def test_wrong_usage_says_so(self):
        for arguments in (["--fliter", "x"], ["--threads"], ["--threads", "0"],
                          ["--threads", "many"], ["--filter", "no such item"],
                          ["--side", "portable", "--item", "none"],
                          ["--side", "none", "--item", "demo step"]):
            with self.subTest(arguments=arguments):
                result = bench(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertNotEqual(result.stderr, "")
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
