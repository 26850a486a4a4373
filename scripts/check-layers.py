#!/usr/bin/env python3
"""Checks rules of this repository that compilers do not check: which layer may include which, and where files,
threads, random numbers and printing are allowed.

usage: check-layers.py [ROOT]    (default: the repository of this script)

Prints "file:line: problem" for each violation and exits with 1, or exits with 0 if there is none.
"""
import os
import re
import sys
from pathlib import Path

# The layers (folders), and the layers that each may include.
LAYERS = {
    "core/io": {"core", "core/io"},
    "core": {"core"},
    "simulator/io": {"core", "core/io", "simulator", "simulator/io"},
    "simulator": {"core", "simulator"},
    "planner/cost": {"core", "planner/cost"},
    "planner/search": {"core", "planner/cost", "planner/search"},
    "planner/export": {"core", "core/io", "planner/export"},
    "planner/io": {"core", "core/io", "simulator", "planner/cost", "planner/search", "planner/api", "planner/io"},
    "planner/report": {"core", "core/io", "simulator", "planner/io", "planner/api", "planner/report"},
    "planner/request": {"core", "core/io", "simulator", "simulator/io", "planner/export", "planner/io", "planner/api",
                        "planner/request"},
    "planner/api": {"core", "simulator", "planner/cost", "planner/search", "planner/api"},
    "kernels/bench": {"kernels", "kernels/bench"},
    "kernels": {"kernels"},
    "cli": {"core", "core/io", "simulator", "simulator/io", "planner/export", "planner/io", "planner/api",
            "planner/report", "planner/request", "kernels", "cli"},
}
LAYERS["python"] = LAYERS["cli"] - {"cli", "kernels"} | {"python"}
LAYERS["tests"] = set(LAYERS) | {"tests"}
# The namespace in which each layer declares everything. Names of core are visible in all other layers.
NAMESPACES = {
    "core/io": "dtfm::io",
    "core": "dtfm",
    "simulator/io": "dtfm::io",
    "simulator": "dtfm::sim",
    "planner/cost": "dtfm::cost",
    "planner/search": "dtfm::search",
    "planner/export": "dtfm::exporter",
    "planner/io": "dtfm::io",
    "planner/report": "dtfm::report",
    "planner/request": "dtfm::request",
    "planner/api": "dtfm::api",
    "kernels/bench": "dtfm::kernels",
    "kernels": "dtfm::kernels",
    "cli": "dtfm::cli",
    "python": "dtfm::python",
}
TOP_FOLDERS = {"cli", "core", "planner", "simulator", "kernels", "topologies", "configs", "docs", "python",
               "tests", "scripts"}
CPP = {".cpp", ".hpp", ".h", ".cu", ".cuh"}
CODE = CPP | {".py", ".sh", ".cmake", ".js", ".mjs", ".css"}
THE_PARALLEL_FILE = "core/base/parallel.hpp"

PRINTS = {"cli", "kernels/bench", "tests"}  # kernels/bench is a program that is copied to GPU machines without cli

# (header that must not be included, layers with an exception, reason)
HEADERS = [
    (r"yaml-cpp/.*", {"core/io", "cli", "tests"}, "only core/io and cli parse"),
    (r"nlohmann/.*", {"core/io", "planner/export", "planner/io", "planner/report", "planner/request", "simulator/io", "cli", "python",
                      "tests"},
     "only core/io and cli parse"),
    (r"CLI/.*", {"cli", "tests"}, "only cli has a command line"),
    (r"(fstream|filesystem)", {"core/io", "planner/export", "planner/request", "simulator/io", "cli", "kernels/bench", "tests"}, "only core/io and cli touch files"),
    (r"(iostream|print)", PRINTS, "only cli prints"),
    (r"mpi\.h", {"cli", "tests"}, "only cli runs on several machines"),
    (r"random", set(), "random numbers come from core/base/rng.hpp"),
]
NOT_ORDERED = set(LAYERS) - {"planner/cost", "planner/search"}
# (pattern that C++ code must not contain, layers with an exception, reason)
WORDS = [
    (r"\bstd::(cout|cerr|clog)\b|\bfmt::print\b|\bv?f?printf\s*\(|\bf?puts\s*\(|\bputchar\s*\(", PRINTS,
     "only cli prints"),
    (r"\bs?rand\s*\(|\b(random_device|mt19937(_64)?|default_random_engine|\w+_distribution)\b", set(),
     "random numbers come from core/base/rng.hpp"),
    (r"\bstd::(ranges::)?shuffle\b", set(), "random numbers come from core/base/rng.hpp"),
    (r"\b(cost|search)(?=::)", set(LAYERS) - {"cli"}, "cli must use planner/api instead"),
    (r"\bunordered_(multi)?(map|set)\b", NOT_ORDERED, "an unordered container makes results depend on its order"),
]
PRAGMA_OMP = re.compile(r"#\s*pragma\s+omp\b|\b_Pragma\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT_OR_STRING = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])*'""", re.S)
LEFT_FOR_LATER = re.compile(r"\b(TO[D]O|FIX[M]E)\b")


def without_comments(text, strings_too):
    """Returns the text with comments, and on request also string contents, replaced by spaces."""
    def blank(match):
        comment = match.group().startswith("/")
        return re.sub(r"[^\n]", " ", match.group()) if comment or strings_too else match.group()

    return COMMENT_OR_STRING.sub(blank, text)


def layer_of(path):
    return next((layer for layer in LAYERS if path.startswith(layer + "/")), None)


def tree_files(root):
    for folder, names, files in os.walk(root):
        if Path(folder) == root:
            names[:] = [name for name in names if name == ".ci" or not re.match(r"\.|build|out$", name)]
        names[:] = sorted(name for name in names if name != "__pycache__")
        yield from (Path(folder, name).relative_to(root).as_posix() for name in sorted(files))


def included_layer(root, path, name):
    """Returns the layer of the header that `#include name` finds; None for an external header."""
    for candidate in (name, os.path.normpath(os.path.join(os.path.dirname(path), name))):
        if layer_of(candidate) and (candidate == name or (root / candidate).is_file()):
            return layer_of(candidate)
    return None


def include_faults(root, path, line):
    match = INCLUDE.match(line)
    if not match:
        return
    layer, name = layer_of(path), match.group(2)
    target = included_layer(root, path, name)
    if target and target not in LAYERS[layer]:
        yield f"{layer} must not include {target} ({name})"
    if target and not layer_of(name):
        yield f"include {name} by its path from the root"
    for pattern, allowed, why in HEADERS:
        if re.fullmatch(pattern, name) and layer not in allowed:
            yield f"{layer} must not include {name}: {why}"


def cpp_faults(root, path, text):
    layer = layer_of(path)
    if not layer:
        yield 1, "C++ code must be in a layer: " + ", ".join(LAYERS)
        return
    for number, line in enumerate(without_comments(text, strings_too=False).splitlines(), 1):
        yield from ((number, fault) for fault in include_faults(root, path, line))
    for number, line in enumerate(without_comments(text, strings_too=True).splitlines(), 1):
        if PRAGMA_OMP.search(line) and path != THE_PARALLEL_FILE:
            yield number, f"only {THE_PARALLEL_FILE} may create threads"
        if INCLUDE.match(line):
            continue
        for pattern, allowed, why in WORDS:
            found = re.search(pattern, line)
            if found and layer not in allowed:
                yield number, f"{found.group().strip(' (')}: {why}"
        opened = re.match(r"namespace (dtfm[\w:]*)", line)
        if opened and layer in NAMESPACES and layer_namespace(opened.group(1)) != NAMESPACES[layer]:
            yield number, f"{layer} must declare in namespace {NAMESPACES[layer]}, not {opened.group(1)}"


def layer_namespace(namespace):
    """The namespace of a layer that is `namespace` or contains it."""
    return max((it for it in NAMESPACES.values() if f"{namespace}::".startswith(it + "::")), key=len, default="")


SCOPE_TOKEN = re.compile(
    r"\bnamespace\s*(?P<namespace>[\w:]*)\s*\{"
    r"|\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?P<type>\w+(?:::\w+)*)\s*(?:final\s*)?(?::[^:;{}()][^;{}()]*)?\{"
    r"|(?P<open>\{)|(?P<close>\})|(?P<line>\n)")


def types_of(text):
    """Yields (line, qualified name) of each type with external linkage that is defined in C++ code."""
    scopes, number = [], 1
    for token in SCOPE_TOKEN.finditer(without_comments(text, strings_too=True)):
        kind = token.lastgroup
        if kind == "namespace":
            scopes.append(token.group("namespace") or None)
        elif kind == "type":
            scopes.append(token.group("type"))
            if None not in scopes:
                yield number, "::".join(scopes)
        elif kind == "open":
            scopes.append(None)
        elif kind == "close" and scopes:
            scopes.pop()
        number += token.group().count("\n")


def type_faults(root, paths):
    """Two types of one qualified name in one program are undefined behaviour. Every test folder is a program."""
    first = {}
    for path in paths:
        if Path(path).suffix not in CPP or path.startswith(("tests/kernels", "tests/fuzz", "tests/benchmarks")):
            continue
        program = "/".join(path.split("/")[:2]) if path.startswith("tests/") and path.endswith(".cpp") else ""
        for line, name in types_of((root / path).read_text(encoding="utf-8", errors="replace")):
            other = first.setdefault((program, name), f"{path}:{line}")
            if other != f"{path}:{line}":
                yield f"{path}:{line}: {name} is also defined at {other}"


def folder_graph(root, paths):
    """Maps each folder with C++ code to the folders that its files include."""
    graph = {}
    for path in paths:
        if Path(path).suffix not in CPP or not layer_of(path) or path.startswith("tests/"):
            continue
        folder = os.path.dirname(path)
        graph.setdefault(folder, set())
        for line in (root / path).read_text(encoding="utf-8", errors="replace").splitlines():
            match = INCLUDE.match(line)
            target = os.path.dirname(match.group(2)) if match else folder
            if target != folder and layer_of(f"{target}/"):
                graph[folder].add(target)
    return graph


def cycle_faults(root, paths):
    """Folders that include each other, directly or indirectly, cannot be understood one by one."""
    graph = folder_graph(root, paths)
    finished, path = set(), []

    def visit(folder):
        if folder in path:
            yield path[path.index(folder):] + [folder]
        elif folder not in finished:
            path.append(folder)
            for target in sorted(graph.get(folder, ())):
                yield from visit(target)
            finished.add(path.pop())

    for folder in sorted(graph):
        for cycle in visit(folder):
            yield f"{cycle[0]}/: folders include each other: {' -> '.join(cycle)}"


def code_faults(root, path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if LEFT_FOR_LATER.search(line):
            yield number, "code must not contain notes for later"
    if Path(path).suffix in CPP:
        yield from cpp_faults(root, path, text)


def pragma_count_faults(root):
    path = root / THE_PARALLEL_FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    count = len(PRAGMA_OMP.findall(without_comments(text, strings_too=True)))
    if count != 1:
        yield f"{THE_PARALLEL_FILE}:1: has {count} OpenMP pragmas; expected the only one of the repository"


def is_code(root, path):
    suffix = Path(path).suffix
    if suffix or path.endswith("CMakeLists.txt"):
        return suffix in CODE or path.endswith("CMakeLists.txt")
    with open(root / path, "rb") as file:
        return file.read(2) == b"#!"


def folder_faults(paths):
    tops = {path.split("/")[0] for path in paths if "/" in path}
    for top in sorted(tops - TOP_FOLDERS - {".ci"}):
        yield f"{top}/: unknown top-level folder; known: {', '.join(sorted(TOP_FOLDERS))}"


def faults_of_tree(root):
    """Returns the number of files with code, and all violations."""
    paths = list(tree_files(root))
    code = [path for path in paths if is_code(root, path)]
    faults = [*folder_faults(paths), *pragma_count_faults(root)]
    for path in code:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        faults += (f"{path}:{line}: {fault}" for line, fault in code_faults(root, path, text))
    faults += [*type_faults(root, paths), *cycle_faults(root, paths)]
    return len(code), faults


def main(arguments):
    if len(arguments) > 1 or any(a.startswith("-") for a in arguments):
        print(__doc__.strip(), file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    if not (root / "planner").is_dir():
        print(f"{root}: not the root of the repository: it has no folder planner/", file=sys.stderr)
        return 2
    checked, faults = faults_of_tree(root)
    if faults:
        print("\n".join(faults))
        print(f"layers: {len(faults)} violations in {checked} files", file=sys.stderr)
        return 1
    print(f"layers: {checked} files, no violations")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
