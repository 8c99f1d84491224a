"""The .deb of scripts/package, from what is built: unpacked, its programs run; it holds what it should.

usage: package_test.py BUILD"""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1))
TOOLS = ("cpack", "dpkg-deb", "dpkg-shlibdeps")
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("LD_LIBRARY_PATH", "HDF5_PLUGIN_PATH")}


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          env={**ENVIRONMENT, **options.pop("env", {})}, **options)


def done(*words, **options):
    result = run(*words, **options)
    if result.returncode != 0:
        raise AssertionError(f"{words}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="rlreplay package ")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.package = pathlib.Path(done(ROOT / "scripts/package", BUILD, cls.folder / "made").strip())
        cls.root = cls.folder / "root"
        done("dpkg-deb", "-x", cls.package, cls.root)
        cls.files = {str(path.relative_to(cls.root)) for path in cls.root.rglob("*") if path.is_file()}

    def test_the_programs_run(self):
        program = self.root / "usr/bin/rlreplay"
        self.assertRegex(done(program, "--version"), r"^rlreplay \d+\.\d+\.\d+ ")
        self.assertRegex(done(self.root / "usr/bin/rlbisect", "--version"), r"^rlbisect ")
        dump = self.folder / "dump"
        done(program, "capture", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2", "-o", dump)
        self.assertRegex(done(program, "verify", "--deep", dump), r"\Acomplete\b")
        self.assertIn("identical", done(program, "train", dump))
        if shutil.which("h5dump"):
            plugin = next(file for file in self.files if file.endswith("/librlreplay_h5zstd.so"))
            self.assertIn("(0): ", done("h5dump", "-d", "/0/tokens", dump / "rollout/0.h5",
                                        env={"HDF5_PLUGIN_PATH": str((self.root / plugin).parent)}))

    def test_what_it_holds(self):
        for file in ("share/doc/rlreplay/copyright", "share/doc/rlreplay/changelog.Debian.gz",
                     "share/doc/rlreplay/docs/bisect.md", "share/doc/rlreplay/SPEC.md",
                     "share/man/man1/rlreplay.1.gz", "share/man/man1/rlreplay-capture.1.gz",
                     "share/man/man1/rlbisect.1.gz", "share/bash-completion/completions/rlreplay",
                     "share/bash-completion/completions/rlbisect",
                     "share/zsh/vendor-completions/_rlreplay",
                     "share/fish/vendor_completions.d/rlreplay.fish", "share/rlreplay/rlreplay_h5.py"):
            self.assertIn("usr/" + file, self.files)
        self.assertEqual([file for file in self.files if "torch" in file or "LICENSE" in file], [])
        plugins = [file for file in self.files if "plugin" in file]
        self.assertEqual(len(plugins), 1)
        self.assertRegex(plugins[0], r"^usr/lib/[\w-]+/hdf5/serial/plugins/librlreplay_h5zstd\.so$")
        with gzip.open(self.root / "usr/share/doc/rlreplay/changelog.gz", "rt") as file:
            self.assertEqual(file.read(), (ROOT / "CHANGELOG.md").read_text())

    def test_nothing_of_the_build_is_left(self):
        for file in self.files:
            path = self.root / file
            if path.read_bytes()[:4] == b"\x7fELF":
                self.assertNotIn(str(BUILD), done("readelf", "-d", path), file)
                self.assertNotIn(".symtab", done("readelf", "-SW", path), file)

    def test_the_control_file(self):
        def field(name):
            return done("dpkg-deb", "-f", self.package, name).strip()
        for library in ("libc6", "libhdf5-103", "libzstd1", "libhwy1", "libyaml-cpp0"):
            self.assertIn(library, field("Depends"))
        self.assertNotIn("torch", field("Depends"))
        self.assertRegex(field("Version"), r"^\d+\.\d+\.\d+-1$")
        summary, *description = field("Description").splitlines()
        self.assertLess(len(summary), 80)
        self.assertGreater(len(description), 4)
        for line in description:
            self.assertRegex(line, r"^ (\.|\S.*)$")
        owners = {" ".join(line.split()[:2]) for line in
                  done("dpkg-deb", "-c", self.package).splitlines()}
        self.assertEqual(owners, {"drwxr-xr-x root/root", "-rwxr-xr-x root/root", "-rw-r--r-- root/root"})

    def test_lintian(self):
        if not shutil.which("lintian"):
            print("SKIPPED: lintian, as it is not installed", file=sys.stderr)
            return
        said = run("lintian", "--no-cfg", "--tag-display-limit", "0", self.package).stdout
        findings = [line for line in said.splitlines() if re.match(r"[EW]: ", line)]
        # No bug of Debian's asks for the package.
        self.assertEqual([line for line in findings if "initial-upload-closes-no-bugs" not in line], [])


if __name__ == "__main__":
    for tool in TOOLS:
        if not shutil.which(tool):
            print(f"SKIPPED: there is no {tool}", file=sys.stderr)
            sys.exit(77)
    unittest.main()
