#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of docs/style.md that a script can check.

Prints one line per finding, `file:line: rule: what and how to mend`, and exits 1 if there are any
(2 when the check itself could not run). Only the standard library is needed, and clang-format
unless --no-format is given. The folder ranks come from tools/layers.txt; there is no list of
exceptions on purpose.
"""

import argparse
import ast
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70
HEADER_LINES_MAX = 300
PUBLIC_HEADER_LINES_MAX = 400
SOURCE_LINES_MAX = 600
TEST_LINES_MAX = 800
FORMAT_BATCH = 12
TABLE_MARKER = "// house: table"
SPDX = "SPDX-License-Identifier: Apache-2.0"

CPP = (".h", ".cc", ".c")
CODE = CPP + (".proto", ".py", ".sh", ".lua")
WIDTH_CHECKED = CODE + (".cmake", "CMakeLists.txt", "Makefile")
SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__"}

Finding = namedtuple("Finding", "path line rule text")


class HouseError(Exception):
    """The check cannot run (a broken layers file, no clang-format): exit status 2."""


# ---------------------------------------------------------------------------------- the files

class SourceFile:
    """One file of the tree. `code` is the text with comments and literals blanked, same length."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        self.is_cpp = path.endswith(CPP)
        self.code = blank_cpp(text) if self.is_cpp else text
        self.in_src = path.startswith("src/")
        self.is_public = path.startswith("include/")
        self.is_test = (path.startswith("tests/") or path.endswith(("_test.cc", "_test.py")))
        parts = path.split("/")
        self.folder = parts[1] if self.in_src and len(parts) > 2 else None

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1


LITERAL = re.compile(
    r'''//[^\n]*|/\*.*?\*/|R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'''
    r"""|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'""", re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
NOT_NEWLINE = re.compile(r"[^\n]")


def blank_cpp(text):
    def blank(match):
        found = match.group(0)
        if found[0] == "/":
            return NOT_NEWLINE.sub(" ", found)
        quote = found[-1]
        return quote + NOT_NEWLINE.sub(" ", found[1:-1]) + quote
    return LITERAL.sub(blank, text)


def list_paths(root):
    """Tracked and new files that git does not ignore; without git, everything but build output."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")
        return sorted({p for p in listed.split("\0") if p and os.path.isfile(
            os.path.join(root, p)) and not os.path.islink(os.path.join(root, p))})
    except (OSError, subprocess.CalledProcessError):
        paths = []
        for folder, below, names in os.walk(root):
            below[:] = [b for b in below if b not in SKIPPED_FOLDERS]
            paths += [os.path.relpath(os.path.join(folder, n), root) for n in names]
        return sorted(p for p in paths if not os.path.islink(os.path.join(root, p)))


def read_files(root):
    files = []
    for path in list_paths(root):
        with open(os.path.join(root, path), "rb") as stream:
            raw = stream.read()
        if b"\0" in raw[:8192]:
            continue  # binary: corpora, pictures
        files.append(SourceFile(path, raw.decode("utf-8", "replace")))
    return files


# --------------------------------------------------------------------------------- the layers

class Layers:
    def __init__(self, path):
        self.rank = {}
        self.beside = set()
        try:
            with open(path, encoding="utf-8") as stream:
                for number, line in enumerate(stream, 1):
                    self._read(line.split("#")[0].split(), f"{path}:{number}")
        except OSError as error:
            raise HouseError(f"cannot read the layers: {error}") from error

    def _read(self, words, where):
        if not words:
            return
        beside = words[0] == "beside"
        rank, folders = (words[1:2], words[2:]) if beside else (words[0:1], words[1:])
        if not rank or not rank[0].isdigit() or not folders:
            raise HouseError(f"{where}: write `RANK FOLDER...` or `beside RANK FOLDER...`")
        for folder in folders:
            if folder in self.rank:
                raise HouseError(f"{where}: folder {folder} has a rank already")
            self.rank[folder] = int(rank[0])
            if beside:
                self.beside.add(folder)


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]*)[>"]', re.M)


class Includes:
    """Who includes what: `edges[path]` lists (line, target path, src folder, name as written);
    target and folder are None where they are not ours."""

    def __init__(self, files, layers):
        self.paths = {f.path for f in files}
        self.layers = layers
        self.edges = {f.path: list(self._of(f)) for f in files if f.is_cpp}

    def _of(self, file):
        # Blanked code finds the directives that are not in comments; the text has the names.
        for match in INCLUDE.finditer(file.code):
            named = INCLUDE.match(file.text, match.start())
            if named:
                target, folder = self._resolve(file, named.group(1), named.group(2))
                yield file.line_of(match.start()), target, folder, named.group(2)

    def _resolve(self, file, quote, name):
        if name.startswith("larder/"):
            return "include/" + name, None
        head = name.split("/")[0] if "/" in name else None
        if "src/" + name in self.paths:
            return "src/" + name, head
        if quote == '"' and head in self.layers.rank:
            return None, head  # generated at build time: ranked all the same
        sibling = os.path.normpath(os.path.join(os.path.dirname(file.path), name))
        for candidate in (sibling, name):
            if quote == '"' and candidate in self.paths:
                parts = candidate.split("/")
                inside = candidate.startswith("src/") and len(parts) > 2
                return candidate, parts[1] if inside else None
        return None, None


def check_ranks(files, includes, layers):
    for file in files:
        if not file.is_cpp:
            continue
        if file.in_src and file.folder not in layers.rank:
            yield Finding(file.path, 1, "layers", f"folder '{file.folder or 'src'}' has no rank; "
                          "add it to tools/layers.txt (and to the table in the design)")
            continue
        for line, target, folder, name in includes.edges[file.path]:
            text = judge_edge(file, target, folder, name, layers)
            if text:
                yield Finding(file.path, line, "layers", text)


def judge_edge(file, target, folder, name, layers):
    """What is wrong with one include, or None."""
    if file.is_public:
        if folder is not None:
            return f'a public header includes "{name}" from src; move what it needs to include/'
        return None
    if folder is None:
        return None
    if file.in_src and target is not None and target != "src/" + name:
        return f'"{name}" is relative; write it from the src root: "{target[4:]}"'
    if folder in layers.beside and file.folder != folder:
        if file.is_test or file.path.startswith("src/apps/simulate"):
            return None
        return f'only tests and src/apps/simulate* include {folder}/; move or invert "{name}"'
    if not file.in_src or folder == file.folder:
        return None
    if folder not in layers.rank:
        return f'"{name}" is in a folder without a rank; add it to tools/layers.txt'
    mine, theirs = layers.rank[file.folder], layers.rank[folder]
    if theirs < mine:
        return None
    how = "the same rank" if theirs == mine else "a higher rank"
    return (f'{file.folder}/ (rank {mine}) includes "{name}" of {how} ({theirs}); '
            "move the shared part to a lower folder or pass an interface in")


def check_cycles(includes):
    """Depth-first search with an explicit stack; each cycle is reported where it closes."""
    done, on_path = set(), {}
    for start in sorted(includes.edges):
        if start in done:
            continue
        stack = [(start, iter(includes.edges[start]))]
        on_path = {start: 0}
        while stack:
            path, edges = stack[-1]
            edge = next(edges, None)
            if edge is None:
                done.add(path)
                del on_path[path]
                stack.pop()
                continue
            line, target = edge[0], edge[1]
            if target in on_path:
                loop = [p for p, _ in stack[on_path[target]:]] + [target]
                yield Finding(path, line, "cycle", "include cycle " + " -> ".join(loop) +
                              "; take the shared part into a file of its own")
            elif target in includes.edges and target not in done:
                on_path[target] = len(stack)
                stack.append((target, iter(includes.edges[target])))


# ---------------------------------------------------------------------------- sizes and widths

def check_size(file):
    count = len(file.lines)
    if file.is_test:
        kind, limit = "test", TEST_LINES_MAX
    elif file.path.endswith(".h"):
        kind, limit = ("public header", PUBLIC_HEADER_LINES_MAX) if file.is_public else (
            "header", HEADER_LINES_MAX)
    else:
        kind, limit = "source", SOURCE_LINES_MAX
    if file.path.endswith(CODE) and count > limit:
        yield Finding(file.path, limit + 1, "file-size",
                      f"{kind} of {count} lines, limit {limit}; split it by what it does")


def check_width(file):
    if not file.path.endswith(WIDTH_CHECKED):
        return
    for number, line in enumerate(file.lines, 1):
        if len(line) > COLUMNS_MAX:
            yield Finding(file.path, number, "columns",
                          f"{len(line)} columns, limit {COLUMNS_MAX}; break the line")


ACCESS = re.compile(r"\s*(?:(?:public|private|protected)\s*:)?\s*")
TOKEN = re.compile(r"[{}();]")
GOES_ON = re.compile(r"\s*[,{]")
SCOPE = re.compile(r"(?:(?:inline|static|typedef|const|constexpr|export)\s+)*"
                   r"(namespace|class|struct|union|extern\s*\"\s*\")")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]|alignas\s*\([^)]*\)", re.S)


def strip_template(head):
    """Takes `template <...>` (nested brackets and all) off the front of a declaration."""
    while head.startswith("template"):
        depth, at = 0, head.find("<")
        for at in range(max(at, 0), len(head)):
            depth += {"<": 1, ">": -1}.get(head[at], 0)
            if depth == 0:
                break
        head = head[at + 1:].lstrip()
    return head


def classify(head):
    """What an opening brace at declaration level begins: 'scope', 'function' or 'data'."""
    head = ATTRIBUTE.sub("", strip_template(head.strip())).strip()
    scope = SCOPE.match(head)
    if scope and (scope.group(1) not in ("class", "struct", "union") or "(" not in head):
        return "scope"
    if head.endswith("=") or head.startswith("enum"):
        return "data"
    return "function" if "(" in head or head.endswith("]") else "data"


def functions_of(code):
    """Yields (begin, end) offsets of every function body with its declaration, brace-matched."""
    code = PREPROCESSOR.sub(lambda m: NOT_NEWLINE.sub(" ", m.group(0)), code)
    begin = parens = depth = 0  # begin of this declaration; depth inside a function or data brace
    kind = None
    for token in TOKEN.finditer(code):
        at, char = token.start(), token.group(0)
        if depth:
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth:
                continue
            if kind == "nested":  # a brace inside parentheses: the declaration goes on
                continue
            # `: a_{1}, b_{2} {` is a constructor that goes on after the brace.
            if GOES_ON.match(code, at + 1):
                continue
            if kind == "function":
                yield ACCESS.match(code, begin).end(), at
            begin = at + 1
        elif char == "(":
            parens += 1
        elif char == ")":
            parens = max(0, parens - 1)
        elif char == "{":
            kind = "nested" if parens else classify(code[ACCESS.match(code, begin).end():at])
            if kind == "scope":
                begin = at + 1
            else:
                depth = 1
        elif parens == 0:  # `;` ends a declaration, `}` a scope
            begin = at + 1


def check_functions(file):
    if file.path.endswith(".py"):
        yield from check_python_functions(file)
    if not file.is_cpp:
        return
    for begin, end in functions_of(file.code):
        first, last = file.line_of(begin), file.line_of(end)
        marked = first > 1 and file.lines[first - 2].strip() == TABLE_MARKER
        if last - first + 1 > FUNCTION_LINES_MAX and not marked:
            yield Finding(file.path, first, "function-size",
                          f"function of {last - first + 1} lines, limit {FUNCTION_LINES_MAX}; "
                          f"split it (a table or codec may carry `{TABLE_MARKER}` above it)")


def check_python_functions(file):
    try:
        tree = ast.parse(file.text)
    except SyntaxError as error:
        yield Finding(file.path, error.lineno or 1, "python", f"does not parse: {error.msg}")
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = node.end_lineno - node.lineno + 1
            if count > FUNCTION_LINES_MAX:
                yield Finding(file.path, node.lineno, "function-size",
                              f"function of {count} lines, limit {FUNCTION_LINES_MAX}; split it")


# -------------------------------------------------------------------------- words and licences

SLEEP = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep)\b"
                   r"|\btime\.sleep\b|(?<![\w.>:])(?:::)?sleep\s*\(")
CLOCK = re.compile(r"\b(?:system|steady|high_resolution)_clock::now\b|\bclock_gettime\b"
                   r"|\bgettimeofday\b|\btime\s*\(\s*(?:nullptr|NULL|0)\s*\)")
GETENV = re.compile(r"\b(?:secure_)?getenv\b")
THROW = re.compile(r"\bthrow\b")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME)\b")


def matches(file, pattern, rule, text):
    for match in pattern.finditer(file.code):
        yield Finding(file.path, file.line_of(match.start()), rule,
                      f"`{match.group(0).strip()}` {text}")


def check_words(file):
    sleeper = file.path.startswith("tests/") or file.path.endswith("_test.cc")
    if sleeper and file.path.endswith(CODE):
        yield from matches(file, SLEEP, "test-sleep", "in a test; drive a manual clock, or wait "
                           "for the event itself with a deadline")
    elif file.is_cpp and file.in_src and file.folder != "env":
        yield from matches(file, SLEEP, "clock", "outside src/env; take an env clock")
    if not file.is_cpp:
        return
    if file.in_src and file.folder != "env":
        yield from matches(file, CLOCK, "clock", "outside src/env; take an env clock")
    if (file.in_src or file.is_public) and file.folder not in ("env", "apps"):
        yield from matches(file, GETENV, "getenv", "outside src/apps and src/env; pass the "
                           "value down as configuration")
    if file.in_src and not file.is_test:
        yield from matches(file, THROW, "throw", "in src; return a Result instead")


def check_unfinished(file):
    for number, line in enumerate(file.lines, 1):
        found = UNFINISHED.search(line)
        if found:
            yield Finding(file.path, number, "unfinished", f"the word {found.group(0)}; finish "
                          "it, or say in the issue tracker what is missing")


def check_licence(file):
    named = file.path.endswith(CODE)
    if not named or not file.text.strip():
        return
    first = 1 if file.lines[0].startswith("#!") and len(file.lines) > 1 else 0
    if SPDX not in file.lines[first]:
        comment = {".py": "#", ".sh": "#", ".lua": "--"}.get(
            os.path.splitext(file.path)[1], "//")
        yield Finding(file.path, 1, "licence", f"begin the file with `{comment} {SPDX}`")


# ---------------------------------------------------------------------------------- formatting

VIOLATION = re.compile(r"^(.*?):(\d+):\d+: error: code should be clang-formatted", re.M)


def check_format(root, files):
    paths = [f.path for f in files if f.is_cpp]
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not paths:
        return
    if tool is None:
        raise HouseError("clang-format is not installed: run tools/install_deps.sh --test")
    batches = [paths[i:i + FORMAT_BATCH] for i in range(0, len(paths), FORMAT_BATCH)]

    def run(batch):
        return batch, subprocess.run(
            [tool, "--dry-run", "-Werror", "--style=file", *batch], cwd=root,
            capture_output=True, text=True, errors="replace", check=False)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for batch, done in pool.map(run, batches):
            first = {}
            for path, line in VIOLATION.findall(done.stderr):
                first.setdefault(path, int(line))
            for path, line in first.items():
                yield Finding(path, line, "format", "not formatted; run `make format`")
            if done.returncode != 0 and not first:
                raise HouseError(f"clang-format failed on {batch}: {done.stderr.strip()}")


# ------------------------------------------------------------------------------------- running

PER_FILE = (check_size, check_width, check_functions, check_words, check_unfinished,
            check_licence)


def check_tree(root, layers_path=None, with_format=True):
    """All findings of the tree under `root`, in the order of files and lines."""
    layers = Layers(layers_path or os.path.join(root, "tools", "layers.txt"))
    files = read_files(root)
    includes = Includes(files, layers)
    findings = list(check_ranks(files, includes, layers))
    findings += check_cycles(includes)
    for file in files:
        for check in PER_FILE:
            findings += check(file)
    if with_format:
        findings += check_format(root, files)
    return sorted(set(findings)), len(files)


def main(argv=None):
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description="checks the rules of docs/style.md")
    parser.add_argument("--root", default=here, help="the tree to check (default: this one)")
    parser.add_argument("--no-format", action="store_true", help="do not run clang-format")
    options = parser.parse_args(argv)
    try:
        findings, count = check_tree(options.root, with_format=not options.no_format)
    except HouseError as error:
        print(f"check_house: {error}", file=sys.stderr)
        return 2
    for found in findings:
        print(f"{found.path}:{found.line}: {found.rule}: {found.text}", flush=True)
    if findings:
        print(f"check_house: {len(findings)} findings in {count} files", file=sys.stderr)
        return 1
    print(f"check_house: {count} files, nothing to mend")
    return 0


if __name__ == "__main__":
    sys.exit(main())
