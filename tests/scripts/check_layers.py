"""Every rule of scripts/check-layers.py fails on exactly the trees that violate it."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check-layers.py"

PARALLEL = "#pragma once\n#include <vector>\n#pragma omp parallel for\n"
GOOD = {
    "core/base/parallel.hpp": PARALLEL,
    "core/base/units.hpp": "// rand() and printf() are words in a comment, std::cout too\n/* #pragma omp */\n",
    "core/base/error.cpp": '#include "core/base/units.hpp"\nauto text = "printf(no) #pragma omp"; long n = 1\'000\'000;\n',
    "planner/cost/cost.hpp": '#include "core/base/units.hpp"\nvoid f(char* p) { snprintf(p, 1, "x"); }\n',
    "planner/search/search.cpp": '#include "planner/cost/cost.hpp"\nvoid g() { rng.shuffle(x); operand(1); }\n',
    "core/io/io.cpp": '#include <yaml-cpp/yaml.h>\n#include <nlohmann/json.hpp>\n#include <fstream>\n'
                         '#include "core/base/units.hpp"\nstd::unordered_map<int, int> seen;\n',
    "planner/cost/y/b.hpp": '#include "planner/cost/x/a.hpp"\n#include "planner/cost/a.hpp"\n',
    "simulator/a.hpp": "namespace dtfm::sim {\nstruct Move {\n  enum class Kind { a };\n};\nstruct Other;\n}\n",
    "simulator/a.cpp": "namespace dtfm::sim {\nnamespace {\nstruct Move {};\n}\nstruct Move::Rest { int i; };\nvoid f() { struct Move {}; }\n}\n",
    "simulator/engine.cpp": '#include "core/base/units.hpp"\n',
    "planner/api/plan.cpp": '#include "planner/search/search.hpp"\n#include "simulator/engine.hpp"\n',
    "planner/io/plan_json.cpp": '#include <nlohmann/json.hpp>\n#include "planner/api/plan.hpp"\n'
                                    '#include "core/io/io.hpp"\n',
    "simulator/io/reader.cpp": '#include "core/io/io.hpp"\n#include "simulator/engine.hpp"\n',
    "kernels/device_info.cu": "#include <cuda_runtime_api.h>\n",
    "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include <iostream>\n#include "planner/api/plan.hpp"\n'
                    '#include "core/io/io.hpp"\n#include "simulator/engine.hpp"\nint main() { std::cout << 1; }\n',
    "tests/core/a.cpp": '#include "core/base/units.hpp"\n#include "tests/support/catch.hpp"\nvoid f() { puts(""); }\n',
    "scripts/run.sh": "#!/bin/bash\n",
    ".ci/run": "#!/bin/bash\n",
    "topologies/a.yaml": "version: 1\n",
    "build/generated/odd.cpp": "#pragma omp parallel\n",
    "README.md": "x\n" * 500,
}
# (file, its text, line of the error, part of the error message)
BAD = [
    ("core/a.hpp", '#include "planner/cost/cost.hpp"\n', 1, "core must not include planner/cost"),
    ("core/a.hpp", '#include "cli/args.hpp"\n', 1, "core must not include cli"),
    ("core/a.cpp", "\n#include <yaml-cpp/yaml.h>\n", 2, "only core/io and cli parse"),
    ("core/a.cpp", "#include <fstream>\n", 1, "only core/io and cli touch files"),
    ("planner/cost/a.hpp", '#include "planner/search/search.hpp"\n', 1, "planner/cost must not include planner/search"),
    ("planner/cost/a.hpp", '#include "core/io/io.hpp"\n', 1, "planner/cost must not include core/io"),
    ("planner/cost/a.hpp", "#include <nlohmann/json_fwd.hpp>\n", 1, "only core/io and cli parse"),
    ("planner/cost/a.hpp", "std::unordered_map<int, int> m;\n", 1, "an unordered container"),
    ("planner/search/a.hpp", "std::unordered_set<int> m;\n", 1, "an unordered container"),
    ("planner/search/a.hpp", '#include "core/io/io.hpp"\n', 1, "planner/search must not include core/io"),
    ("planner/search/a.hpp", '#include "simulator/engine.hpp"\n', 1, "planner/search must not include simulator"),
    ("core/io/a.hpp", '#include <planner/cost/cost.hpp>\n', 1, "core/io must not include planner/cost"),
    ("core/io/a.hpp", "#include <CLI/CLI.hpp>\n", 1, "only cli has a command line"),
    ("simulator/a.hpp", '  #  include "planner/cost/cost.hpp"\n', 1, "simulator must not include planner/cost"),
    ("simulator/a.hpp", '#include "../planner/cost/cost.hpp"\n', 1, "simulator must not include planner/cost"),
    ("simulator/a.hpp", '#include "planner/search/search.hpp"\n', 1, "simulator must not include planner/search"),
    ("simulator/a.hpp", '#include "core/io/io.hpp"\n', 1, "simulator must not include core/io"),
    ("simulator/a.hpp", '#include "simulator/io/reader.hpp"\n', 1, "simulator must not include simulator/io"),
    ("simulator/io/a.hpp", '#include "planner/cost/cost.hpp"\n', 1, "simulator/io must not include planner/cost"),
    ("simulator/io/a.hpp", "#include <yaml-cpp/yaml.h>\n", 1, "only core/io and cli parse"),
    ("planner/api/a.hpp", '#include "planner/io/plan_json.hpp"\n', 1, "planner/api must not include planner/io"),
    ("planner/io/a.hpp", "#include <fstream>\n", 1, "only core/io and cli touch files"),
    ("kernels/a.cu", '#include "core/base/units.hpp"\n', 1, "kernels must not include core"),
    ("cli/a.cpp", '#include "tests/support/catch.hpp"\n', 1, "cli must not include tests"),
    ("cli/a.cpp", '#include "planner/search/search.hpp"\n', 1, "cli must not include planner/search"),
    ("cli/a.cpp", '#include "planner/cost/cost.hpp"\n', 1, "cli must not include planner/cost"),
    ("cli/a.cpp", "search::Strategy s;\n", 1, "search: cli must use planner/api instead"),
    ("cli/a.cpp", "double s = cost::seconds();\n", 1, "cost: cli must use planner/api instead"),
    ("planner/cost/a.hpp", '#include "cost.hpp"\n', 1, "by its path from the root"),
    ("core/a.cpp", "#pragma omp parallel for\n", 1, "may create threads"),
    ("cli/a.cpp", "# pragma  omp critical\n", 1, "may create threads"),
    ("core/base/parallel.hpp", "#pragma once\n", 1, "has 0 OpenMP pragmas"),
    ("core/base/parallel.hpp", PARALLEL + "#pragma omp atomic\n", 1, "has 2 OpenMP pragmas"),
    ("core/a.cpp", "#include <random>\n", 1, "random numbers come from"),
    ("tests/core/b.cpp", "std::mt19937 r;\n", 1, "random numbers come from"),
    ("tests/core/b.cpp", "int i = std::rand();\n", 1, "random numbers come from"),
    ("core/a.cpp", "std::random_device d;\n", 1, "random numbers come from"),
    ("core/a.cpp", "std::shuffle(a, b, r);\n", 1, "random numbers come from"),
    ("core/a.cpp", "std::uniform_int_distribution<int> d;\n", 1, "random numbers come from"),
    ("core/a.cpp", "\n\nvoid f() { std::cout << 1; }\n", 3, "only cli prints"),
    ("core/a.cpp", "void f() { std::cerr << 1; }\n", 1, "only cli prints"),
    ("planner/search/a.cpp", 'void f() { printf("x"); }\n', 1, "only cli prints"),
    ("core/io/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n', 1, "only cli prints"),
    ("kernels/a.cu", 'void f() { puts("x"); }\n', 1, "only cli prints"),
    ("simulator/a.cpp", 'void f() { fmt::print("x"); }\n', 1, "only cli prints"),
    ("core/a.cpp", "#include <iostream>\n", 1, "only cli prints"),
    ("core/a.cpp", "int i;  // TO" "DO: more\n", 1, "code must not contain notes for later"),
    ("scripts/a.sh", "# FIX" "ME\n", 1, "code must not contain notes for later"),
    ("planner/CMakeLists.txt", "# TO" "DO\n", 1, "code must not contain notes for later"),
    ("planner/cost/a.hpp", "namespace dtfm {\n", 1, "planner/cost must declare in namespace dtfm::cost, not dtfm"),
    ("core/io/a.hpp", "namespace dtfm::cost {\n", 1, "core/io must declare in namespace dtfm::io, not dtfm::cost"),
    ("core/a.hpp", "namespace dtfm::cost {\n", 1, "core must declare in namespace dtfm, not dtfm::cost"),
    ("simulator/b.hpp", "namespace dtfm::sim {\nstruct Move {\n};\n", 2, "dtfm::sim::Move is also defined at simulator/a.hpp:2"),
    ("simulator/b.cpp", "namespace dtfm::sim {\nclass Move : public Step {\n};\n", 2, "dtfm::sim::Move is also defined at simulator/a.hpp:2"),
    ("planner/cost/x/b.hpp", '#include "planner/cost/y/b.hpp"\n', None, "folders include each other: planner/cost/x -> planner/cost/y -> planner/cost/x"),
    ("planner/cost/b.hpp", '#include "planner/cost/y/b.hpp"\n', None, "folders include each other: planner/cost -> planner/cost/y -> planner/cost"),
    ("planner/util/a.cpp", "int i;\n", 1, "C++ code must be in a layer"),
]


def check(root):
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)


def write(root, files):
    for path, text in files.items():
        file = Path(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtfm layers ")
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        write(self.root, GOOD)

    def test_good_tree_passes(self):
        result = check(self.root)
        self.assertEqual((result.returncode, result.stdout), (0, "layers: 18 files, no violations\n"))

    def test_every_rule_fails_on_a_tree_that_breaks_it(self):
        for path, text, line, words in BAD:
            with self.subTest(path=path, text=text[:60]):
                write(self.root, {path: text})
                result = check(self.root)
                Path(self.root, path).unlink()
                write(self.root, GOOD)
                self.assertEqual(result.returncode, 1)
                first = result.stdout.splitlines()[0]
                where = f"{path}:{line}: " if line else f"{Path(path).parent}/: "
                self.assertTrue(first.startswith(where), result.stdout)
                self.assertIn(words, first)

    def test_odd_folder_at_the_top(self):
        write(self.root, {"util/notes.txt": "x\n"})
        result = check(self.root)
        self.assertEqual(result.returncode, 1)
        self.assertIn("util/: unknown top-level folder", result.stdout)

    def test_a_folder_that_is_no_repository_is_bad_usage(self):
        self.assertEqual(check(Path(self.root, "cli")).returncode, 2)


if __name__ == "__main__":
    unittest.main()
