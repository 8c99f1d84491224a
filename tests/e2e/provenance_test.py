"""A dump says what made it, and of the environment only what the documented list allows.
usage: provenance_test.py RLREPLAY SOURCE
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from support import Case, root

Case.program = os.path.abspath(sys.argv.pop(1))
SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
DEMO = ["--model", "demo", "--steps", "1", "--rollout-batch-size", "2"]


def documented():
    """The variables of the table in docs/provenance.md."""
    text = (SOURCE / "docs/provenance.md").read_text().split("## Variables")[1]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return set(re.findall("`([A-Z0-9_*]+)`", " ".join(cells)))


class Provenance(Case):
    def made(self, name, environment):
        path = self.folder / name
        result = self.run_program("capture", *DEMO, "-o", path, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        return path, self.lines("show", path)[0]["unstable"]

    def test_what_a_dump_says(self):
        names = documented()
        self.assertIn("OMP_NUM_THREADS", names)
        kept = {name.replace("*", "ANYTHING"): "1" for name in names}
        kept.update({name: "0" for name in ("RANK", "LOCAL_RANK") if name in kept})
        secret = {"AWS_SECRET_ACCESS_KEY": "swordfish", "HF_TOKEN": "swordfish",
                  "NCCL_DEBUG_FILE": "swordfish", "XRLREPLAY_A": "swordfish"}
        path, said = self.made("full", {"PATH": os.environ["PATH"], **kept, **secret})
        self.assertEqual(said["environment"], kept)
        self.assertNotIn("swordfish", (path / "manifest.json").read_text())
        self.assertIn(f"capture --model demo --steps 1 --rollout-batch-size 2 -o '{path}'",
                      said["command"])
        for library in ("hdf5", "zstd", "xxhash", "pcre2", "utf8proc"):
            self.assertRegex(said["libraries"][library], r"^\d+\.\d+")
        self.assertGreaterEqual(said["machine"]["processors"], 1)
        self.assertRegex(said["program"]["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(said["program"]["compiler"], r"\d+\.\d+")
        self.assertLessEqual(said["began"], said["ended"])
        shown = self.run_program("show", path).stdout
        for words in ("environment", "OMP_NUM_THREADS 1", "hdf5 ", "capture --model demo",
                      said["program"]["revision"]):
            self.assertIn(words, shown)

    def test_none_of_it_is_compared(self):
        here, said = self.made("here", {"PATH": os.environ["PATH"]})
        there, other = self.made("there", {"PATH": os.environ["PATH"], "TZ": "Asia/Tokyo",
                                           "LANG": "\udcff"})
        self.assertNotEqual(said["environment"], other["environment"])
        self.assertEqual(other["environment"]["LANG"], "\\xff")
        self.assertEqual(root(self.program, here), root(self.program, there))

    def test_flags_of_verbs_hide_nothing_behind_them(self):
        first, _ = self.made("first", None)
        again = self.folder / "again"
        result = self.run_program("train", "--all", first, "-o", again)
        self.assertEqual(result.returncode, 0, result.stderr)
        command = self.lines("show", again)[0]["unstable"]["command"]
        self.assertIn(f"train --all '{first}' -o '{again}'", command)

    def test_every_option_of_the_verbs_is_known(self):
        """The table of recorded commands has what the helps have."""
        source = (SOURCE / "src/replay/launch/recorded_command.cpp").read_text()
        known = [set(re.findall(r'"(-[-\w]+)"', source.split(f"{table}[]")[1].split(";")[0]))
                 for table in ("kOwnOptions", "kOwnFlags")]
        printed = self.run_program("capture", "--model", "demo", "--print-config").stdout
        run = {"--" + name for name in re.findall(r"^([\w-]+):", printed, re.M)}
        run |= {"--hf-checkpoint", "--prompt-data", "--rollouts", "-h", "--help"}
        verbs = re.findall(r"^  ([a-z]+)  ", self.run_program("--help").stdout, re.M)
        self.assertGreater(len(verbs), 12)
        for verb in [[verb] for verb in verbs] + [["golden", "record"], ["golden", "check"]]:
            text = self.run_program(*verb, "--help").stdout
            for names, value in re.findall(r"^  (-[-\w]+(?:, ?-[-\w]+)*)( [A-Z]\S*)?(?:  |$)", text, re.M):
                # A command of golden is in no dump.
                elsewhere = {"--samples", *(["--run"] if verb[0] == "golden" else [])}
                for name in set(names.replace(" ", "").split(",")) - run - elsewhere:
                    self.assertIn(name, known[0 if value else 1], verb)

    def test_the_revision(self):
        """That of the checkout when the program was built; it may have moved on since."""
        _, said = self.made("revision", None)
        revision = said["program"]["revision"]
        inside = subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "--show-toplevel"],
                                capture_output=True, text=True)
        if inside.returncode != 0 or pathlib.Path(inside.stdout.strip()) != SOURCE:
            self.assertEqual(revision, "unknown")
            return
        known = subprocess.run(["git", "-C", str(SOURCE), "cat-file", "-e", revision + "^{commit}"])
        self.assertEqual(known.returncode, 0, revision)
        version = self.run_program("--version").stdout
        self.assertIn(revision[:12], version)


class Revision(unittest.TestCase):
    """The file that names the revision, as the build writes it."""

    def write(self, source, output, *flags):
        subprocess.run(["cmake", f"-DSOURCE={source}", f"-DOUTPUT={output}", *flags, "-P",
                        SOURCE / "cmake/revision.cmake"], check=True)
        return output.read_text()

    def test_checkouts(self):
        import tempfile
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            repository, output = folder / "repository", folder / "revision.cpp"
            git = ["git", "-C", str(repository), "-c", "user.name=A", "-c", "user.email=a@b"]
            repository.mkdir()
            self.assertIn('"unknown"', self.write(repository, output))
            subprocess.run([*git[:3], "init", "-q"], check=True)
            (repository / "file").write_text("1")
            subprocess.run([*git, "add", "file"], check=True)
            self.assertIn('"unknown"', self.write(repository, output))
            subprocess.run([*git, "commit", "-qm", "One"], check=True)
            head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True,
                                  text=True).stdout.strip()
            text = self.write(repository, output)
            self.assertIn(f'"{head}"', text)
            self.assertIn("kModified = false", text)
            before = output.stat().st_mtime_ns
            self.write(repository, output)
            self.assertEqual(output.stat().st_mtime_ns, before)
            (repository / "file").write_text("2")
            self.assertIn("kModified = true", self.write(repository, output))
            (repository / "inner").mkdir()
            self.assertIn('"unknown"', self.write(repository / "inner", output))
            self.assertIn('"1.0-2"', self.write(repository, output, "-DREVISION=1.0-2"))


if __name__ == "__main__":
    unittest.main()
