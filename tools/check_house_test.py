#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Self-tests of check_house.py: each rule fires on a tiny tree, and a clean tree passes."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_house  # noqa: E402

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.txt")
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
UNFINISHED = "TO" + "DO"  # in two parts, or the check would find it here


class Tree:
    """A throw-away tree: path -> text. A licence line goes in front unless the text has a `!`."""

    def __init__(self, files):
        self.root = tempfile.mkdtemp(prefix="house-")
        for path, text in files.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as stream:
                spdx = SPDX.replace("//", "#") if path.endswith(".py") else SPDX
                stream.write(text[1:] if text.startswith("!") else spdx + text)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        shutil.rmtree(self.root)


class HouseTest(unittest.TestCase):
    def findings(self, files, with_format=False):
        with Tree(files) as root:
            return check_house.check_tree(root, LAYERS, with_format)[0]

    def assert_clean(self, files):
        self.assertEqual([], self.findings(files))

    def assert_fires(self, rule, path, files, line=None, text=""):
        found = self.findings(files)
        hits = [f for f in found if f.rule == rule and f.path == path]
        self.assertTrue(hits, f"{rule} did not fire at {path}: {found}")
        self.assertEqual({rule}, {f.rule for f in found}, found)
        self.assertIn(text, hits[0].text)
        if line is not None:
            self.assertEqual(line, hits[0].line)


class LayerTest(HouseTest):
    def edge(self, source, name):
        return {source: f'#include "{name}"\n', "src/" + name: "#pragma once\n"}

    def test_lower_rank_is_fine(self):
        self.assert_clean(self.edge("src/env/clock.cc", "base/bytes.h"))
        self.assert_clean(self.edge("src/tier/hot/hot.cc", "tier/tier.h"))
        self.assert_clean(self.edge("src/apps/main.cc", "client/client_impl.h"))

    def test_same_rank(self):
        self.assert_fires("layers", "src/env/clock.cc",
                          self.edge("src/env/clock.cc", "obs/log.h"), 2, "the same rank (1)")

    def test_higher_rank(self):
        for source, name in (("src/base/a.cc", "env/clock.h"), ("src/rpc/a.cc", "route/r.h"),
                             ("src/nvmf/a.cc", "tier/t.h"), ("src/qos/a.cc", "block/b.h"),
                             ("src/node/a.cc", "client/c.h"), ("src/client/a.cc", "apps/a.h")):
            self.assert_fires("layers", source, self.edge(source, name), 2, "a higher rank")

    def test_tests_follow_the_ranks_too(self):
        self.assert_fires("layers", "src/base/a_test.cc",
                          self.edge("src/base/a_test.cc", "node/n.h"))

    def test_generated_header_is_ranked(self):
        self.assert_fires("layers", "src/env/a.cc", {"src/env/a.cc": '#include "wire/x.pb.h"\n'})

    def test_commented_include_is_ignored(self):
        self.assert_clean({
            "src/base/a.cc": '// #include "node/n.h"\n/*\n#include "node/n.h"\n*/\n'})

    def test_unknown_folder(self):
        self.assert_fires("layers", "src/misc/a.cc", {"src/misc/a.cc": "int a;\n"}, 1, "no rank")
        self.assert_fires("layers", "src/a.cc", {"src/a.cc": "int a;\n"}, 1, "no rank")

    def test_relative_include(self):
        self.assert_fires("layers", "src/env/a.cc", {
            "src/env/a.cc": '#include "b.h"\n', "src/env/b.h": "#pragma once\n"}, 2, "env/b.h")

    def test_sim(self):
        self.assert_clean(self.edge("src/sim/world.cc", "client/c.h"))
        self.assert_clean(self.edge("src/sim/world.cc", "sim/net.h"))
        self.assert_clean(self.edge("src/node/a_test.cc", "sim/net.h"))
        self.assert_clean(self.edge("src/apps/simulate.cc", "sim/net.h"))
        self.assert_clean(self.edge("tests/scenario.cc", "sim/net.h"))
        for source, name in (("src/node/a.cc", "sim/net.h"), ("src/apps/main.cc", "sim/net.h"),
                             ("bench/b.cc", "sim/net.h"), ("src/sim/world.cc", "apps/a.h")):
            self.assert_fires("layers", source, self.edge(source, name), 2)

    def test_public_header(self):
        self.assert_fires("layers", "include/larder/x.h", {
            "include/larder/x.h": '#include "base/b.h"\n', "src/base/b.h": "#pragma once\n"},
            2, "public header")
        self.assert_clean({"include/larder/x.h": '#include "larder/y.h"\n',
                           "include/larder/y.h": "#include <vector>\n#include <rpc/rpc.h>\n"})

    def test_cycles(self):
        self.assert_fires("cycle", "src/base/c.h", {
            "src/base/a.h": '#include "base/b.h"\n', "src/base/b.h": '#include "base/c.h"\n',
            "src/base/c.h": '#include "base/a.h"\n'}, 2, "a.h -> src/base/b.h -> src/base/c.h")
        self.assert_fires("cycle", "include/larder/a.h",
                          {"include/larder/a.h": '#include "larder/a.h"\n'})
        self.assert_clean({  # a diamond is no cycle
            "src/base/a.h": '#include "base/b.h"\n#include "base/c.h"\n',
            "src/base/b.h": '#include "base/d.h"\n', "src/base/c.h": '#include "base/d.h"\n',
            "src/base/d.h": "#pragma once\n"})

    def test_broken_layers_file(self):
        for text in ("!zero base\n", "!0\n", "!0 base\n1 base\n", "!beside sim\n"):
            with Tree({"layers.txt": text}) as root:
                with self.assertRaises(check_house.HouseError):
                    check_house.Layers(os.path.join(root, "layers.txt"))


class SizeTest(HouseTest):
    def test_file_sizes(self):
        for path, limit in (("src/base/a.h", 300), ("include/larder/a.h", 400),
                            ("src/base/a.cc", 600), ("src/base/a_test.cc", 800),
                            ("tests/a.cc", 800), ("tools/a.py", 600)):
            self.assert_clean({path: "\n" * (limit - 1)})
            self.assert_fires("file-size", path, {path: "\n" * limit}, limit + 1)

    def test_columns(self):
        self.assert_clean({"src/base/a.cc": "//" + "x" * 98 + "\n//" + "é" * 98 + "\n"})
        self.assert_fires("columns", "src/base/a.cc", {"src/base/a.cc": "//" + "x" * 99 + "\n"}, 2)
        self.assert_fires("columns", "cmake/X.cmake", {"cmake/X.cmake": "#" + "x" * 100 + "\n"})

    def function(self, head, lines, tail="}\n"):
        return head + " {\n" + "  f();\n" * (lines - 2) + tail

    def test_function_size(self):
        for head in ("void f()", "int A::f(int a = {}) const noexcept", "TEST(A, B)",
                     "A::A(int a) : a_{a}, b_{a}", "template <class T, class = X<T>>\nT f(T t)",
                     "struct stat f()", "static auto f = [](char c)"):
            lines = 70 - head.count("\n")
            self.assert_clean({"src/base/a.cc": self.function(head, lines)})
            self.assert_fires("function-size", "src/base/a.cc", {
                "src/base/a.cc": "// what it does\n" + self.function(head, lines + 1)}, 3)

    def test_function_in_class_and_namespace(self):
        text = ("namespace larder {\nclass A final : public B {\n public:\n"
                + self.function("  int f()", 71) + "  int a_{0};\n};\n}  // namespace\n")
        self.assert_fires("function-size", "src/base/a.cc", {"src/base/a.cc": text}, 5)

    def test_braces_in_literals_and_comments(self):
        tricky = ("const char* a() { return \"}{\"; }  // }\nchar b() { return '{'; }\n"
                  'auto c() { return R"x(}"{)x"; }\nint d() { return 1\'000; } /* { */\n')
        self.assert_clean({"src/base/a.cc": tricky + self.function("void f()", 70)})
        self.assert_fires("function-size", "src/base/a.cc",
                          {"src/base/a.cc": tricky + self.function("void f()", 71)}, 6)

    def test_data_and_classes_may_be_long(self):
        self.assert_clean({
            "src/base/a.cc": "constexpr A kTable[] = {\n" + "  {1, f(2)},\n" * 100 + "};\n"
            "class A {\n" + "  int f();\n" * 100 + "};\nenum class E : int {\n"
            + "  kA,\n" * 100 + "};\n"})

    def test_marker_for_tables(self):
        text = self.function("void f()", 99)
        self.assert_clean({"src/base/a.cc": "// house: table\n" + text})
        self.assert_fires("function-size", "src/base/a.cc",
                          {"src/base/a.cc": "// house: table\n\n" + text})

    def test_python_function(self):
        self.assert_clean({"tools/a.py": "def f():\n" + "    f()\n" * 69})
        self.assert_fires("function-size", "tools/a.py",
                          {"tools/a.py": "def f():\n" + "    f()\n" * 70}, 2)


class WordTest(HouseTest):
    def test_sleeps_in_tests(self):
        for call in ("std::this_thread::sleep_for(x);", "std::this_thread::sleep_until(x);",
                     "usleep(1);", "nanosleep(&a, &b);", "::sleep(1);", "sleep(1);"):
            for path in ("src/env/a_test.cc", "src/node/a_test.cc", "tests/a.cc"):
                self.assert_fires("test-sleep", path,
                                  {path: "void f() {\n  " + call + "\n}\n"}, 3)

    def test_python_sleep(self):
        self.assert_fires("test-sleep", "tests/a.py",
                          {"tests/a.py": "import time\ntime.sleep(1)\n"}, 3)

    def test_clocks(self):
        for call in ("std::chrono::system_clock::now()", "std::chrono::steady_clock::now()",
                     "clock_gettime(CLOCK_MONOTONIC, &t)", "time(nullptr)",
                     "std::this_thread::sleep_for(x)", "usleep(3)"):
            body = "auto f() { return " + call + "; }\n"
            self.assert_fires("clock", "src/node/a.cc", {"src/node/a.cc": body}, 2)
            self.assert_clean({"src/env/a.cc": body, "bench/b.cc": body})
        self.assert_clean({"src/node/a.cc": 'const char* f() { return "usleep("; }  // usleep(\n'})

    def test_getenv(self):
        body = 'auto f() { return std::getenv("X"); }\n'
        self.assert_fires("getenv", "src/node/a.cc", {"src/node/a.cc": body}, 2)
        self.assert_fires("getenv", "include/larder/a.h", {"include/larder/a.h": body}, 2)
        self.assert_clean({"src/apps/a.cc": body, "src/env/a.cc": body, "tests/a.cc": body})

    def test_throw(self):
        body = "void f() { throw 1; }\n"
        self.assert_fires("throw", "src/env/a.cc", {"src/env/a.cc": body}, 2)
        self.assert_clean({"src/env/a_test.cc": body, "tests/a.cc": body,
                           "src/node/a.cc": "void f() { EXPECT_THROW(new (std::nothrow) A); }\n"})

    def test_unfinished_words(self):
        self.assert_fires("unfinished", "docs/a.md", {"docs/a.md": f"!a\n{UNFINISHED}: b\n"}, 2)
        self.assert_fires("unfinished", "src/base/a.cc", {"src/base/a.cc": f"// {UNFINISHED}\n"})
        self.assert_clean({"docs/a.md": f"!the two {UNFINISHED}s\n"})

    def test_licence(self):
        self.assert_fires("licence", "src/base/a.h", {"src/base/a.h": "!pragma\n"}, 1)
        self.assert_fires("licence", "tools/a.sh", {"tools/a.sh": "!#!/bin/bash\ntrue\n"}, 1)
        self.assert_clean({"docs/a.md": "!words\n"})


class RunTest(HouseTest):
    def test_format(self):
        if not shutil.which("clang-format"):
            self.skipTest("clang-format is not installed")
        found = self.findings({
            ".clang-format": "!BasedOnStyle: Google\n", "src/base/b.cc": "int b;\n",
            "src/base/a.cc": "int  a;\nint  b;\n"}, with_format=True)
        self.assertEqual([("src/base/a.cc", 2, "format")], [f[:3] for f in found])

    def test_git_lists_new_files_but_not_ignored_ones(self):
        if not shutil.which("git"):
            self.skipTest("git is not installed")
        with Tree({"src/base/a.cc": "int a;\n", "src/base/gen.cc": "int b;\n",
                   ".gitignore": "!gen.cc\n"}) as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            self.assertEqual([".gitignore", "src/base/a.cc"], check_house.list_paths(root))

    def test_exit_status_and_output(self):
        for body, status in (("int a;\n", 0), ("auto f() { return time(nullptr); }\n", 1)):
            with Tree({"src/base/a.cc": body}) as root:
                os.makedirs(os.path.join(root, "tools"))
                shutil.copy(LAYERS, os.path.join(root, "tools"))
                out = io.StringIO()
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                    got = check_house.main(["--root", root, "--no-format"])
            self.assertEqual(status, got)
            self.assertEqual(status == 1, "src/base/a.cc:2: clock: `time(nullptr)`" in
                             out.getvalue())

    def test_missing_layers_is_an_error_of_its_own(self):
        with Tree({}) as root, contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(2, check_house.main(["--root", root]))
        self.assertIn("layers", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
