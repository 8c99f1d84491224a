"""The KL estimates of tests/golden/kl.txt: slime's and Miles' own formulas in NumPy's binary64, one rounding to
binary32 at the end, of log-probabilities that are finite, infinite or NaN.

usage: kl_golden.py [--write]    without --write: fails unless the file holds these numbers
"""
import itertools
import pathlib
import struct
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: needs the Python package numpy (scripts/requirements.txt)")
    sys.exit(77)

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/kl.txt"
NUMBERS = ["-0.75", "-100", "-inf", "inf", "nan"]
OLD = np.float64(-0.5)  # of the ratio that makes an estimate unbiased


def bounded(log_ratio):
    """Miles' _safe_clamp_log_ratio."""
    return np.clip(np.nan_to_num(log_ratio, nan=0.0, posinf=20.0, neginf=-20.0), -20.0, 20.0)


def estimate(kind, miles, log_prob, ref, ratio):
    """compute_approx_kl of both frameworks."""
    log_ratio = log_prob - ref
    if kind == "k1":
        kl = log_ratio
    elif kind == "k2":
        kl = log_ratio**2 / 2
    else:
        x = bounded(-log_ratio) if miles and kind == "low_var_kl" else -log_ratio
        kl = np.expm1(x) - x
    kl = kl if ratio is None else ratio * kl
    return np.clip(kl, -10.0, 10.0) if kind == "low_var_kl" else kl


def value(kind, dialect, path, log_prob, ref):
    """`path`: in the reward, or in the loss, where Miles takes what is not finite as 0."""
    miles = dialect == "miles"
    ratio = np.exp(log_prob - OLD) if path == "unbiased" else None
    kl = np.float32(estimate(kind, miles, log_prob, ref, ratio))
    return np.nan_to_num(kl, nan=0.0, posinf=0.0, neginf=0.0) if miles and path != "reward" else kl


def main():
    lines = []
    with np.errstate(all="ignore"):
        for case in itertools.product(("k1", "k2", "k3", "low_var_kl"), ("slime", "miles"),
                                      ("reward", "loss", "unbiased"), NUMBERS, NUMBERS):
            kl = value(*case[:3], *map(np.float64, case[3:]))
            bits = "nan" if np.isnan(kl) else struct.pack(">f", kl).hex()
            lines.append(" ".join(case) + " " + bits + "\n")
    lines = ["# rlreplay golden 1\n", "# made by: tests/engine/kl_golden.py --write\n", *sorted(lines)]
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text("".join(lines))
    elif GOLDEN.read_text().splitlines(keepends=True) != lines:
        sys.exit(f"{GOLDEN} does not hold the estimates that this script computes")


if __name__ == "__main__":
    main()
