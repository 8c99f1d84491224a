"""Two captured dumps, changed with every hash repaired, and what verify says of them."""
import copy

from dump_patch import Patched
from support import Case

FINDING, CORRUPT, UNSUPPORTED = 1, 3, 4
SMALL = ("--model", "demo", "--steps", "3", "--rollout-batch-size", "2", "--n-samples-per-prompt",
         "2")


class VerifyCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.good, _ = cls.capture("good", *SMALL, "--weights", "all", "--record",
                                  "tensors+stats+values")
        cls.plain, _ = cls.capture("plain", *SMALL)

        cls.loaded = {path: Patched(path) for path in (cls.good, cls.plain)}

    def found(self, path, *flags, code):
        """The codes of the problems, and what is said of the whole."""
        report, = self.lines("verify", path, *flags, code=code)
        return {p["code"] for p in report["problems"]}, report

    def patched(self, change, of=None, **options):
        dump = copy.deepcopy(self.loaded[of or self.good])
        change(dump)
        return dump.write(self.folder / "patched", **options)

    def finds(self, codes, change, code=FINDING, deep=True, of=None, **options):
        path = self.patched(change, of, **options)
        found, report = self.found(path, *(["--deep"] if deep else []), code=code)
        self.assertEqual(found & codes, codes, report["problems"])
        return report
