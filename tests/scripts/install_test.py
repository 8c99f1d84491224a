"""cmake --install: what it installs runs from there. usage: install_test.py CMAKE BUILD"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("LD_LIBRARY_PATH", "HDF5_PLUGIN_PATH")}


def run(*arguments, **options):
    return subprocess.run([str(a) for a in arguments], capture_output=True, text=True,
                          env={**ENVIRONMENT, **options.pop("env", {})}, **options)


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rlreplay install ")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = self.folder / "prefix"
        result = run(CMAKE, "--install", BUILD, "--prefix", self.prefix)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def program(self, *arguments, code=0, **options):
        result = run(self.prefix / "bin" / arguments[0], *arguments[1:], cwd=self.folder, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout

    def test_it_runs(self):
        self.program("rlreplay", "capture", "--model", "demo", "--steps", "1",
                     "--rollout-batch-size", "2", "-o", "dump")
        self.assertIn("identical", self.program("rlreplay", "train", "--from", "dump"))
        self.assertIn("identical", self.program("rlbisect", "dump", "dump", code=1))

    def test_the_torch_library_is_found(self):
        built = (BUILD / "lib/librlreplay_torch.so").exists()
        self.assertEqual((self.prefix / "lib/librlreplay_torch.so").exists(), built)
        self.program("rlreplay", "capture", "--model", "demo", "--steps", "1",
                     "--rollout-batch-size", "2", "-o", "dump")
        said = run(self.prefix / "bin/rlreplay", "train", "--from", "dump", "--kernels", "torch",
                   cwd=self.folder)
        self.assertIn(said.returncode, (0, 1) if built else (5,), said.stderr)
        if built:
            self.assertIn("0.0", said.stdout)

    def test_nothing_points_into_the_build(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                dynamic = run("readelf", "-d", path)
                self.assertEqual(dynamic.returncode, 0, dynamic.stderr)
                self.assertNotIn(str(BUILD), dynamic.stdout, path)

    def test_plugin_and_documents(self):
        for name in ("lib/rlreplay/hdf5-plugin/librlreplay_h5zstd.so", "share/rlreplay/rlreplay_h5.py",
                     "share/doc/rlreplay/README.md", "share/doc/rlreplay/LICENSE",
                     "share/doc/rlreplay/SPEC.md", "share/doc/rlreplay/docs/bisect.md",
                     "share/doc/rlreplay/docs/json/diff.schema.json",
                     "share/man/man1/rlreplay-capture.1", "share/man/man1/rlbisect.1",
                     "share/bash-completion/completions/rlreplay",
                     "share/zsh/site-functions/_rlreplay",
                     "share/fish/vendor_completions.d/rlbisect.fish"):
            self.assertTrue((self.prefix / name).is_file(), name)
        self.program("rlreplay", "capture", "--model", "demo", "--steps", "1",
                     "--rollout-batch-size", "2", "-o", "dump")
        try:
            shown = run("h5dump", "-d", "/0/tokens", self.folder / "dump/rollout/0.h5",
                        env={"HDF5_PLUGIN_PATH": str(self.prefix / "lib/rlreplay/hdf5-plugin")})
        except FileNotFoundError:
            print("SKIPPED: h5dump with the plugin, as there is no h5dump", file=sys.stderr)
            return
        self.assertIn("(0): ", shown.stdout)


if __name__ == "__main__":
    unittest.main()
