#!/usr/bin/env python3
"""Tests known_tests in a small repository with three tests: `own` reads only data, `guide` also reads a guide, and `script`
is a script."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
NINJA = """rule make
  command = cp $in $out && chmod +x $out && echo $out: $in >$out.d
  depfile = $out.d
  deps = gcc
build tests/CMakeFiles/own.dir/own.o: make ../tests/own.cc
build tests/CMakeFiles/guide.dir/guide.o: make ../tests/guide.cc
build bin/own: make ../own.sh
build bin/guide: make ../guide.sh
"""
CTEST = """add_test(own "{root}/build/bin/own")
set_tests_properties(own PROPERTIES ENVIRONMENT "A={a}" LABELS "{label}")
add_test(guide "{root}/build/bin/guide")
add_test(script "/bin/sh" "{root}/tests/script")
"""
HEADER = "build/parallel/commit/parallel/exchange/commit.h"
ALL = {"own", "guide", "script"}


class KnownTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "root").resolve()
        self.environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder.name, "cache")}
        self.write(".gitignore", "/build/\n__pycache__/\n")
        for name in ("known_tests", "stamps.py"):
            self.write(f".ci/{name}", "")
            shutil.copy(HERE / name, self.root / ".ci" / name)
        for name, text in {"tests/own.cc": "", "tests/guide.cc": 'TP_TEST_DATA "/../README.md"', "tests/data/x": "1",
                           "own.sh": "commit 111111111", "guide.sh": "guide", "README.md": "1", "tests/script": "exit 0",
                           "build/build.ninja": NINJA, HEADER: 'kCommit = "111111111";'}.items():
            self.write(name, text)
        self.write_tests()
        subprocess.run(["git", "init", "-q", self.root], check=True)
        self.build()
        self.assertEqual(self.known(), set())
        self.passed("own", "guide", "script")
        self.assertEqual(self.known(), ALL)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_tests(self, a="1", label="unit"):
        self.write("build/CTestTestfile.cmake", CTEST.format(root=self.root, a=a, label=label))

    def build(self):
        subprocess.run(["ninja", "-C", self.root / "build"], check=True, stdout=subprocess.DEVNULL)

    def run_script(self, *arguments, **variables):
        return subprocess.run([self.root / ".ci/known_tests", self.root / "build", *arguments], check=True, text=True,
                              env={**self.environment, **variables}, stdout=subprocess.PIPE).stdout

    def known(self, *arguments, **variables):
        return set(self.run_script(*arguments, **variables).split())

    def passed(self, *lines):
        self.write("build/passed-tests", "\n".join(["sources", *lines]) + "\n")
        self.run_script("--passed", self.root / "build/passed-tests")

    def test_changed_data(self):
        self.write("tests/data/x", "2")
        self.assertEqual(self.known(), set())
        self.write("tests/data/x", "1")
        self.assertEqual(self.known(), ALL)
        self.write("tests/data/new", "")
        self.assertEqual(self.known(), set())

    def test_changed_program(self):
        self.write("own.sh", "commit 111111111, other code")
        self.build()
        self.assertEqual(self.known(), set())  # own.sh is a file that the others could read

    def test_changed_code(self):
        self.write("tests/own.cc", "// a comment")
        self.build()
        self.assertEqual(self.known(), {"own", "guide"})

    def test_changed_guide(self):
        self.write("README.md", "2")
        self.assertEqual(self.known(), {"own"})

    def test_source_that_begins_to_leave_the_data(self):
        self.write("tests/own.cc", 'TP_TEST_DATA "/../README.md"')
        self.build()
        self.assertEqual(self.known(), {"guide"})

    def test_program_that_begins_to_start_another(self):
        self.write("own.sh", f"{self.root}/build/bin/guide")
        self.build()
        self.known()
        self.passed("own")
        self.assertEqual(self.known(), {"own"})
        self.write("guide.sh", "other code")
        self.build()
        self.assertEqual(self.known(), set())

    def test_another_commit(self):
        self.write("own.sh", "commit 222222222")
        self.write(HEADER, 'kCommit = "222222222";')
        self.build()
        self.assertEqual(self.known(), {"own"})

    def test_changed_command_or_environment(self):
        self.write_tests(a="2")
        self.assertEqual(self.known(), {"guide", "script"})
        self.write_tests()
        self.assertEqual(self.known(TP_ISA="portable"), set())
        self.assertEqual(self.known(TP_KNOWN_TESTS="x"), ALL)

    def test_failures(self):
        self.write("tests/data/x", "2")
        self.known()
        self.passed("own failed", "guide failed", "guide", "script")  # the guide's second try passed
        self.assertEqual(self.known(), {"script"})

    def test_inputs_that_change_while_tests_run(self):
        self.write("tests/data/x", "2")
        self.known()
        self.write("tests/data/x", "3")
        self.passed("own", "guide", "script")
        self.assertEqual(self.known(), set())
        self.write("tests/data/x", "2")
        self.assertEqual(self.known(), set())

    def test_log_of_the_tests_stays(self):
        log = "build/Testing/Temporary/LastTest.log"
        self.write(log, "outputs")
        self.passed("own")
        self.assertEqual((self.root / log).read_text(), "outputs")

    def test_external_programs(self):
        self.write_tests(label="npm")
        self.known()
        self.passed("own")
        self.assertEqual(self.known(), {"guide", "script"})

    def test_all(self):
        self.assertEqual(self.known("--all"), set())
        self.passed("own")
        self.assertEqual(self.known(), ALL)


if __name__ == "__main__":
    unittest.main()
