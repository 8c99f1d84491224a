"""The benchmark program prints what docs/measurements.md says. usage: bench_test.py PROGRAM"""
import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
QUICK = ["--repetitions", "1", "--seconds", "1e-6", "--threads", "1", "--filter"]
KEYS = ["name", "ours", "torch", "ratio", "ours_best", "torch_best", "unit", "share_of_peak", "peak",
        "threads"]


def bench(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


class Bench(unittest.TestCase):
    def test_json_is_one_object_a_line(self):
        result = bench("--json", *QUICK, "gemm M=(1|8) K=896 N=4864 forward")
        self.assertEqual(result.returncode, 0, result.stderr)
        items = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([item["name"] for item in items],
                         ["gemm M=8 K=896 N=4864 forward", "gemm M=1 K=896 N=4864 forward"])
        self.assertEqual([item["unit"] for item in items], ["GFLOP/s", "GB/s"])
        for item in items:
            self.assertEqual(list(item), KEYS)
            self.assertEqual(item["threads"], 1)
            self.assertAlmostEqual(item["ratio"], item["ours"] / item["torch"], delta=1e-4)
            self.assertAlmostEqual(item["share_of_peak"], item["ours"] / item["peak"], delta=1e-4)
            self.assertGreater(min(item["ours"], item["torch"], item["peak"]), 0)

    def test_the_table_fits_100_columns(self):
        result = bench(*QUICK, "gemm M=8 .* backward dw$")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("gemm M=8 K=896 N=4864 backward dw", lines[2])
        self.assertTrue(all(len(line) <= 100 for line in lines), lines)

    def test_wrong_usage_says_so(self):
        for arguments in (["--fliter", "x"], ["--threads"], ["--repetitions", "0"],
                          ["--threads", "many"], ["--filter", "no such item"]):
            with self.subTest(arguments=arguments):
                result = bench(*arguments)
                self.assertEqual(result.returncode, 2)
                self.assertNotEqual(result.stderr, "")
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
