"""scripts/quickstart and scripts/check_dockerfile before they do anything: they touch nothing of the user's, and
the Dockerfile names what is there."""
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words, **options):
    return subprocess.run([str(word) for word in words], text=True, capture_output=True, timeout=300, **options)


class Quickstart(unittest.TestCase):
    def test_a_folder_with_something_else_is_left_alone(self):
        with tempfile.TemporaryDirectory(prefix="rlreplay quickstart ") as folder:
            mine = pathlib.Path(folder) / "mine/history/notes"
            mine.parent.mkdir(parents=True)
            mine.write_text("mine")
            result = run(ROOT / "scripts/quickstart", "mine", cwd=folder)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("name a new folder", result.stderr)
            self.assertEqual([path for path in pathlib.Path(folder).rglob("*") if path.is_file()], [mine])
            self.assertEqual(mine.read_text(), "mine")

    def test_no_other_words(self):
        for script in ("quickstart", "check_dockerfile", "package"):
            result = run(ROOT / "scripts" / script, "--help")
            self.assertEqual(result.returncode, 2, script)
            self.assertRegex(result.stdout, rf"^usage: scripts/{script} ")


class Dockerfile(unittest.TestCase):
    def test_its_commands_are_there(self):
        lines = re.sub(r"\\\n *", "", (ROOT / "Dockerfile").read_text()).splitlines()
        lines = [line for line in lines if line and not line.startswith("#")]
        self.assertLessEqual({line.split()[0] for line in lines},
                             {"FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", "CMD"})  # check_dockerfile's
        scripts = re.findall(r"\bscripts/\w+", "\n".join(lines))
        self.assertEqual(scripts, ["scripts/setup", "scripts/package"])
        for script in scripts:
            self.assertTrue((ROOT / script).is_file(), script)
        presets = (ROOT / "CMakePresets.json").read_text()
        for preset in re.findall(r"--preset (\w+)", "\n".join(lines)):
            self.assertIn(f'"name": "{preset}"', presets)
        images = [line.split()[1] for line in lines if line.startswith("FROM")]
        self.assertEqual(images, ["debian:bookworm-slim"] * 2)


if __name__ == "__main__":
    unittest.main()
