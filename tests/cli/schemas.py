#!/usr/bin/env python3
"""The JSON Schemas of configs/schemas agree with the readers: on shipped files, on what the programs
write, and on thousands of documents with one error each. The reference in docs/files agrees with the
schemas.

usage: schemas.py SOURCE_FOLDER DTFM_PLAN DTFM_SIM DTFM_PROFILE DTFM_COMPARE

Skipped (77) without python3-jsonschema and python3-yaml.
"""
import copy
import json
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import yaml
    warnings.simplefilter("ignore", DeprecationWarning)  # from RefResolver, which all distributions have
    from jsonschema import Draft202012Validator, RefResolver
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT, PLAN, SIM, PROFILE, COMPARE = Path(sys.argv[1]), *sys.argv[2:6]
SCHEMAS = {path.name.split(".")[0]: path for path in (ROOT / "configs/schemas").glob("*.schema.json")}
CORPUS = ROOT / "tests/fuzz/corpus"

# What a schema cannot express, with the readers' messages for it.
BEYOND_A_SCHEMA = {
    "names refer to what is elsewhere in the file, in the topology, or in the catalogue":
        r"unknown (GPU|site|host|device)|is not in `sites`|expected `host`, a site",
    "a name is given once": r"is given twice|has the name of a site",
    "links cover all pairs, once": r"no entry matches|equally specific|missing key `links` or `measured`",
    "sizes fit each other": r"do not divide|does not divide|are too few for|of which it is a part|must be at most `activation_memory`|at least twice the smallest|duplicate size|do not grow with the size|no latency and bandwidth fit|too small to determine",
    "files that are named are there, below the folder, and hold what they should": r"cannot be opened|outside|\.csv:",
    "quantities have limits": r"out of range",
    "a text has so many bytes, whatever its characters": r"is longer than \d+ bytes",
    "events make sense in their order": r"but it (is already available|has already left)|by two availability traces|cannot have `leave` or `join`",
    "a covariance is one": r"not symmetric|beyond the product of their standard deviations|negative variance",
}


def validator(name):
    schema = json.loads(SCHEMAS[name].read_text())
    return Draft202012Validator(schema, resolver=RefResolver(SCHEMAS[name].as_uri(), schema))


VALIDATORS = {name: validator(name) for name in SCHEMAS}


def faults(name, document):
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in VALIDATORS[name].iter_errors(document)]


class Loader(yaml.SafeLoader):
    """Reads 5e3 as a number, as YAML 1.2 and our readers do; PyYAML implements 1.1."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^-?[0-9]+(\.[0-9]+)?[eE][-+]?[0-9]+$"), list("-0123456789"))


def loaded(path):
    return yaml.load(path.read_text(), Loader)


def kind_of(document):
    """Returns the kind of an example in the documentation that is a complete file, else None."""
    if not isinstance(document, dict) or document.get("version") != 1:
        return None
    return next((kind for key, kind in {"devices": "topology", "model": "job", "gpus": "gpus", "compute_scale": "calibration",
                                        "events": "scenario", "availability": "scenario", "bandwidth": "scenario",
                                        "compute_jitter": "scenario", "recovery": "scenario"}.items() if key in document), None)


def pages():
    """Yields the pages of the documentation: docs/**/*.md and every README."""
    for path in sorted({*ROOT.glob("**/README.md"), *ROOT.glob("docs/**/*.md")}):
        if "build" not in path.relative_to(ROOT).parts:
            yield path


def examples():
    for path in pages():
        for text in re.findall(r"^```ya?ml\n(.*?)^```", path.read_text(), re.M | re.S):
            try:
                document = yaml.load(text, Loader)
            except yaml.YAMLError:
                continue
            if kind_of(document):
                yield path, document


# The sections of docs/files whose keys are those of another schema than the one that the page is named for.
SECTIONS = {"The GPU catalogue": "gpus", "Plan": "plan", "Model": "model", "Simulation result": "simulation", "Comparison": "comparison"}


def property_names(schema):
    """Yields the keys that a schema names at any depth."""
    parts = schema
    if isinstance(schema, dict):
        parts = schema.values()
        yield from schema.get("properties", {})
    for part in parts if isinstance(schema, (dict, list)) else ():
        yield from property_names(part)


def documented_keys():
    """Yields (schema, words of a key) for every key in the first column of a table of keys in docs/files."""
    for path in sorted(ROOT.glob("docs/files/*.md")):
        for section in re.split(r"^##+ ", path.read_text(), flags=re.M):
            name = SECTIONS.get(section.partition("\n")[0], path.stem)
            for table in re.findall(r"^\| (?:key|field)\b.*\n\|[-|: ]+\n((?:\|.*\n)+)", section, re.M):
                for key in re.findall("`([^`]+)`", "".join(re.findall(r"^\| ([^|]*) \|", table, re.M))):
                    if name in SCHEMAS:
                        yield name, re.sub(r"\[\w*\]", "", key).split(".")


def words_in_code(page):
    """Returns the words of a page that are in code blocks or between back quotes."""
    blocks = re.findall(r"^```.*?^```", page, re.M | re.S)
    return set(re.findall(r"\w+", " ".join(re.findall("`([^`]+)`", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)) + blocks)))


def at(document, path):
    for step in path:
        document = document[step]
    return document


def paths_of(document, path=()):
    yield path
    if isinstance(document, dict):
        steps = document
    else:
        steps = range(min(len(document), 2)) if isinstance(document, list) else ()
    for step in steps:
        yield from paths_of(document[step], (*path, step))


REPLACEMENTS = [None, 7, 0, -1, 1.5, "words", "", "12", "12 parsec", "3 ms", "0 Gbps", "-4 GB", True, [], {}, {"words": 1},
                "x" * 200, "é" * 100, "bell\a", "a\u202e"]


def mutations(document, part):
    """Yields (change, changed document) with one error each in the part at path `part`."""
    for path in paths_of(at(document, part), part):
        old = at(document, path)
        if path:
            for new in REPLACEMENTS:
                changed = copy.deepcopy(document)
                at(changed, path[:-1])[path[-1]] = new
                yield f"{path} = {new!r}", changed
            changed = copy.deepcopy(document)
            del at(changed, path[:-1])[path[-1]]
            yield f"{path} is gone", changed
        if isinstance(old, dict):
            changed = copy.deepcopy(document)
            at(changed, path)["zzz"] = 1
            yield f"{path} has zzz", changed


def keys_of(document, reader):
    """Yields maps of the document, each with a key that the reader lists when it rejects an unknown
    key."""
    for path in paths_of(document):
        if isinstance(at(document, path), dict) and path[:1] != ("model",):  # its keys depend on its kind
            changed = copy.deepcopy(document)
            at(changed, path)["zzz"] = 1
            known = reader(json.dumps(changed)).partition("unknown key `zzz`; known:")[2]
            for key in re.findall("`([^`]+)`", known):
                yield path, key


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.net = cls.folder / "net.yaml"
        cls.net.write_text("version: 1\nname: net\ndevices: [{site: oregon, count: 4, gpu: T4}, {site: ohio, hosts: 1, gpus_per_host: 2, gpu: T4},"
                           " {site: berlin, count: 2, gpu: T4}]\nlinks:\n  - {within: host, latency: 5 us, bandwidth: 300 Gbps}\n"
                           "  - {between: ['*', '*'], latency: 5 ms, bandwidth: 2 Gbps}\n")
        cls.job = cls.folder / "small.yaml"
        cls.job.write_text("version: 1\nname: small\nmodel: {kind: transformer, layers: 6, hidden: 64, heads: 4, sequence: 128, vocabulary: 1000}\n"
                           "training: {global_batch: 8, micro_batch: auto}\n")
        cls.plan = cls.folder / "plan.json"
        cls.run_program(PLAN, cls.net, "--job", cls.job, "-o", cls.plan)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def run_program(cls, program, *arguments):
        more = ["--threads", "1"] if program != PROFILE else []
        more += ["--evaluations", "200"] if program == PLAN and "--score" not in arguments else []
        return subprocess.run([program, *arguments, "--quiet", *more], cwd=cls.folder, capture_output=True, text=True, check=False)

    def check(self, name, document, where):
        self.assertEqual(faults(name, document), [], where)

    def test_schemas_are_valid_and_described(self):
        for path in SCHEMAS.values():
            schema = json.loads(path.read_text())
            Draft202012Validator.check_schema(schema)
            self.assertTrue(schema["title"] and schema["description"], path)

    def test_shipped_files(self):
        for path in sorted(ROOT.glob("topologies/*.yaml")):
            self.check("topology", loaded(path), path)
        for path in [*sorted(CORPUS.glob("job/*.yaml")), *(ROOT / f"configs/{name}.yaml" for name in ("gpt3-xl", "llama-3-8b", "resnet-50"))]:
            self.check("job", loaded(path), path)
        for name, pattern in {"gpus": "configs/gpus.yaml", "calibration": "configs/calibrations/*.yaml", "profile": "configs/profiles/*.json"}.items():
            for path in sorted(ROOT.glob(pattern)):
                self.check(name, loaded(path), path)
        for name in ("topology", "scenario", "profile", "calibration"):
            for path in sorted((CORPUS / name).iterdir()):
                self.check(name, loaded(path), path)

    def test_examples_in_documentation(self):
        found = list(examples())
        self.assertGreaterEqual(len(found), 4)
        for path, document in found:
            self.check(kind_of(document), document, path)

    def test_keys_in_documentation(self):
        names = {name: set(property_names(json.loads(path.read_text()))) for name, path in SCHEMAS.items()}
        for name in ("job", "plan"):
            names[name] |= names["settings"] | names["transformer"]
        found = list(documented_keys())
        self.assertGreaterEqual(len(found), 100)
        for name, words in found:
            self.assertEqual([word for word in words if word not in names[name]], [], f"{name}: {words}")
        pages_of = {"gpus": "job", "transformer": "job", "model": "results", "plan": "results", "simulation": "results", "comparison": "results"}
        for name, path in SCHEMAS.items():
            if name in ("quantities", "settings"):
                continue
            words = words_in_code((ROOT / f"docs/files/{pages_of.get(name, name)}.md").read_text())
            self.assertEqual([key for key in json.loads(path.read_text())["properties"] if key not in words], [], name)

    def test_plans(self):
        for options in ([], ["--objective", "comm-cost", "--pipeline", "2"], ["--explain"], ["--score", self.plan, "--advise"],
                        ["--warm-start", self.plan], ["--objective", "cost-per-token"], ["--uniform-pipelines"],
                        ["--target", "deepspeed"], ["--target", "pytorch"]):
            done = self.run_program(PLAN, self.net, "--job", self.job, *options, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check("plan", json.loads(done.stdout), options)

    def test_models(self):
        for model in ("llama-3-8b", "bert-base", "vgg-16", "mlp"):
            done = self.run_program(PLAN, "--describe-model", "--model", model, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check("model", json.loads(done.stdout), model)

    def test_results_count_tokens_or_images(self):
        images = self.folder / "images.yaml"
        images.write_text("version: 1\nname: images\nmodel: {preset: resnet-50}\ntraining: {global_batch: 8}\n")
        for job, counted, other in ((self.job, "tokens", "images"), (images, "images", "tokens")):
            plan = json.loads(self.run_program(PLAN, self.net, "--job", job, "--explain", "-o", "counted.json", "--format", "json").stdout)
            results = {"plan": plan, "simulation": json.loads(self.run_program(SIM, self.net, "counted.json", "--format", "json").stdout),
                       "comparison": json.loads(self.run_program(COMPARE, self.net, "--job", job, "--scheme", "megatron", "--format", "json").stdout)}
            for name, result in results.items():
                self.check(name, result, counted)
                self.assertIn(f'"{counted}_per_s"', json.dumps(result))
                self.assertNotIn(f'"{other}_per_s"', json.dumps(result))
            both = results["simulation"] | {f"{other}_per_s": 1}
            self.assertTrue(faults("simulation", both))
            self.assertTrue(faults("plan", plan | {"estimate": plan["estimate"] | {f"{other}_per_s": 1}}))
            [row] = results["comparison"]["schemes"]
            run = row["runs"][0] | {f"{other}_per_s": 1}
            self.assertTrue(faults("comparison", results["comparison"] | {"schemes": [row | {"runs": [run]}]}))

    def test_every_key_of_a_plan_is_required(self):
        plan = json.loads(self.plan.read_text())
        for key in plan:
            if key not in ("lower_bound", "search", "targets", "warnings"):
                self.assertTrue(faults("plan", {other: value for other, value in plan.items() if other != key}), key)

    def test_results_of_simulations(self):
        (self.folder / "leaves.yaml").write_text("version: 1\ncompute_jitter: {kind: lognormal, cv: 0.1}\nevents:\n"
                                                 "  - {at: 10 ms, device: oregon/0, leave: true}\n  - {at: 20 ms, device: oregon/0, join: true}\n")
        self.run_program(SIM, self.net, self.plan, "--trace", "trace.json", "--quiet")
        for options in ([], ["--measured", "trace.json"], ["--scenario", "leaves.yaml"], ["--scenario", "leaves.yaml", "--samples", "3"]):
            done = self.run_program(SIM, self.net, self.plan, *options, "--format", "json")
            self.assertIn(done.returncode, (0, 3), done.stderr)
            self.check("simulation", json.loads(done.stdout), options)

    def test_results_of_swarms(self):
        (self.folder / "goes.yaml").write_text("version: 1\nhorizon: 600 s\nevents: [{at: 10 ms, device: oregon/0, leave: true}]\n")
        for options in ([], ["--scenario", "goes.yaml"], ["--verify", "0.5", "--faulty-peers", "0.2", "--iterations", "10"]):
            done = self.run_program(SIM, self.net, "--scheme", "swarm", "--job", self.job, *options, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(done.stdout)
            self.check("simulation", document, options)
            for key in document["swarm"]:
                lacking = {k: v for k, v in document["swarm"].items() if k != key}
                self.assertTrue(faults("simulation", document | {"swarm": lacking}), key)

    def test_comparisons(self):
        (self.folder / "slow.yaml").write_text("version: 1\nevents: [{at: 0 s, device: oregon/0, speed: 0.5}]\n")
        done = self.run_program(COMPARE, self.net, "--job", self.job, "--scenario", "slow.yaml", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.check("comparison", document, "all schemes")
        for row in document["schemes"]:
            for key in row:
                self.assertTrue(faults("comparison", document | {"schemes": [{k: v for k, v in row.items() if k != key}]}), key)

    def test_profiles_that_are_written(self):
        for options in (["--estimate", "T4"], ["--estimate", "V100-16GB", "--job", self.job, "--tensor", "1,2"]):
            self.check("profile", json.loads(self.run_program(PROFILE, *options, "--format", "json").stdout), options)

    def test_units_are_those_of_the_readers(self):
        source = (ROOT / "core/io/text/units.cpp").read_text()
        tables = {name: re.findall(r'\{"([^"]+)", ', body) for name, body in re.findall(r"constexpr Unit (\w+)_units\[\] = \{(.*?)\};", source, re.S)}
        defs = json.loads(SCHEMAS["quantities"].read_text())["$defs"]
        for name, table in {"time": "time", "positive_time": "time", "rate": "rate", "size": "byte", "positive_size": "byte", "flops": "flop",
                            "flop_rate": "flop_rate", "price": "price", "data_price": "data_price"}.items():
            listed = re.search(r"\[ \\t\]\*\(([^()]*)\)\[ \\t\]\*\$$", defs[name]["pattern"]).group(1)
            self.assertEqual(listed.split("|"), tables[table], name)
        self.assertEqual(defs["time_unit"]["enum"], tables["time"])
        self.assertEqual(defs["rate_unit"]["enum"], tables["rate"])

    def test_names_of_presets_and_policies(self):
        job = json.loads(SCHEMAS["job"].read_text())["properties"]["model"]["oneOf"]
        models = [model["name"] for model in loaded(ROOT / "configs/models.yaml")["models"]]
        self.assertEqual(job[0]["properties"]["preset"]["enum"], models)
        known = self.run_program(PROFILE, "--model", "no-such").stderr
        for name in [name for kind in job[:3] for name in kind["properties"]["preset"]["enum"]]:
            self.assertIn(name, known)
        policies = json.loads(SCHEMAS["scenario"].read_text())["properties"]["recovery"]["properties"]["policy"]["enum"]
        (self.folder / "policy.yaml").write_text("version: 1\nrecovery: {policy: 'no such at all'}\n")
        refused = self.run_program(SIM, self.net, self.plan, "--scenario", "policy.yaml").stderr
        self.assertEqual(re.findall(r"`([\w-]+)`", refused.split("known:")[1]), policies)

    def reader_says(self, name, text, number):
        """Returns the error for a file, which the programs read before or after others, or none if it
        was accepted."""
        file = f"bad{number}.yaml"
        (self.folder / file).write_text(text)
        arguments = {"topology": [PLAN, file, "--score", "none.json"],
                     "job": [PLAN, self.net, "--job", file, "--score", self.plan],
                     "scenario": [SIM, self.net, self.plan, "--iterations", "1", "--scenario", file],
                     "calibration": [SIM, self.net, self.plan, "--iterations", "1", "--calibration", file],
                     "profile": [PROFILE, file]}[name]
        done = self.run_program(*arguments)
        (self.folder / file).unlink()
        self.assertIn(done.returncode, (0, 2, 3), text)
        return done.stderr if re.search(rf"^\S+: ({re.escape(file)}|\S+\.csv):", done.stderr) else ""

    def check_agreement(self, name, document, part=()):
        self.check(name, document, "before")
        disagree, agreed = [], {True: 0, False: 0}

        def judge(numbered):
            number, (what, changed) = numbered
            return what, faults(name, changed), self.reader_says(name, json.dumps(changed, indent=1), number)

        with ThreadPoolExecutor(2) as pool:
            for what, schema, reader in pool.map(judge, enumerate(mutations(document, part))):
                if bool(schema) == bool(reader):
                    agreed[bool(reader)] += 1
                elif not (reader and any(re.search(why, reader) for why in BEYOND_A_SCHEMA.values())):
                    disagree.append(f"{what}\n  schema: {schema[:1]}\n  reader: {reader.strip()}")
        for path, key in keys_of(document, lambda text: self.reader_says(name, text, 0)):
            changed = copy.deepcopy(document)
            at(changed, path)[key] = None
            self.assertFalse([fault for fault in faults(name, changed) if f"'{key}' was unexpected" in fault], (path, key))
        self.assertEqual(disagree, [], "\n" + "\n".join(disagree[:40]) + f"\n{len(disagree)} in all")
        self.assertGreater(agreed[True], 3 * agreed[False] // 10)

    def test_agreement_on_topologies(self):
        self.check_agreement("topology", {
            "version": 1, "name": "lab", "fairness": "rtt", "gpus": [{"name": "Own", "memory": "16 GB", "peak": "125 TFLOP/s", "memory_bandwidth": "900 GB/s", "price": "1 USD/h"}],
            "sites": {"oregon": {"uplink": "10 Gbps"}, "ohio": {}},
            "devices": [{"site": "oregon", "count": 2, "gpu": "T4", "speed": 0.5, "uplink": "1 Gbps", "price": "2 USD/h"}, {"site": "ohio", "hosts": 1, "gpus_per_host": 2},
                        {"name": "desk", "site": "ohio", "host_uplink": "1 Gbps"}, {"site": "ohio", "host": "dgx-h100", "gpus_per_host": 2, "downlink": "100 Gbps"}],
            "links": [{"within": "host", "latency": "5 us", "bandwidth": "300 Gbps"}, {"between": ["*", "*"], "rtt": "5 ms", "bandwidth": "2 Gbps", "egress": "0.09 USD/GB", "shared": "sender"},
                      {"from": "oregon", "to": "ohio", "latency": "5 ms", "bandwidth": "1 Gbps", "capacity": "2 Gbps"},
                      {"from": "ohio", "to": "oregon", "bandwidth": [{"size": "1 MB", "rate": "1 Gbps"}, {"size": "1 GB", "rate": "2 Gbps"}]}]})

    def test_agreement_on_jobs(self):
        training = {"global_batch": 8, "micro_batch": 1, "precision": "fp16", "optimizer": "adam-16", "recompute": "full"}
        models = [{"kind": "transformer", "layers": 6, "hidden": 64, "heads": 4, "sequence": 128, "vocabulary": 1000, "kv_heads": 2, "head_dim": 32, "gated": True, "norm": "rms", "qk_norm": True, "attention": "flash", "positions": "rotary"},
                  {"preset": "gpt2", "sequence": 512}, {"preset": "vgg-16", "image": 224}, {"preset": "mlp", "widths": [784, 300, 10]},
                  {"kind": "layers", "sequence": 4, "layers": [{"name": "one", "parameters": 1e6, "forward_flops": "1 GFLOP", "output": "1 MB", "activation_memory": "2 MB", "replicated_memory": "1 MB", "repeat": 6}]},
                  {"kind": "layers", "input": "images", "input_size": "300 kB", "sequence": 1, "layers": [{"parameters": 1e6, "forward_flops": "1 GFLOP", "output": "1 MB", "activation_memory": "2 MB"}]}]
        for model in models:
            self.check_agreement("job", {"version": 1, "name": "small", "model": model, "training": {"global_batch": 8}}, ("model",))
        self.check_agreement("job", {"version": 1, "name": "small", "model": models[1], "training": training,
                                     "parallelism": {"pipeline": "auto", "data": "auto", "tensor": 1, "schedule": "interleaved", "chunks": 2, "gradient_sync": "ring", "overlap": True, "uniform_pipelines": True, "sequence_parallel": False, "scatter_gather": True},
                                     "compression": {"activations": 0.5, "gradients": "auto", "throughput": "10 GB/s", "bandwidth_threshold": "1 Gbps"}, "profile": [{"analytic": True, "efficiency": 0.4}],
                                     "comm_cost": {"gradient": "1 GB", "activation": "1 MB", "stages": 2}})
        for gradients in ("4-bit", "top-0.5%", "rank-4"):
            self.check_agreement("job", {"version": 1, "name": "small", "model": models[0], "training": training, "compression": {"activations": "8-bit", "gradients": gradients}})

    def test_agreement_on_scenarios(self):
        (self.folder / "trace.csv").write_text("0,1\n1,0.5\n")
        (self.folder / "alive.csv").write_text("0,2\n100,1\n")
        self.check_agreement("scenario", {
            "version": 1, "name": "evening", "seed": 7, "bandwidth": [{"from": "oregon", "to": "*", "trace": {"file": "trace.csv", "kind": "relative", "repeat": True}}],
            "latency": [{"between": ["oregon", "ohio"], "trace": {"file": "trace.csv", "kind": "absolute", "unit": "ms", "time_unit": "h", "repeat": "3 h"}}],
            "availability": [{"file": "alive.csv", "format": "count", "time_unit": "h", "devices": "berlin", "warning": "30 s"}],
            "events": [{"at": "1 ms", "device": "oregon/3", "leave": True, "warning": "2 min"}, {"at": "2 ms", "device": "oregon/3", "join": True}, {"at": "1 ms", "site": "ohio", "speed": 0.5}],
            "compute_jitter": {"kind": "lognormal", "cv": 0.05}, "recovery": {"policy": "wait", "detection": "1 s", "spare": ["berlin"], "exclude_slower_than": 0.5, "checkpoint": {"period": "10 min", "bandwidth": "1 Gbps"}}})
        self.check_agreement("scenario", {"version": 1, "recovery": {"checkpoint": {"period": "auto", "device": "oregon/3"}}})

    def test_agreement_on_profiles_and_calibrations(self):
        self.check_agreement("profile", {
            "schema": "dtfm-profile/1", "gpu": "T4", "source": "measured", "derivation": "by hand", "precision": "fp16", "model": "small", "software": {"driver": "1.2"},
            "shape": {"hidden": 64, "heads": 4, "sequence": 128, "vocabulary": 1000},
            "layers": [{"kind": "block", "micro_batch": 1, "tensor": 1, "forward_s": 0.001, "forward_spread_s": 0.0001, "backward_s": 0.002, "update_s": 0.001, "activation_bytes": 1000}]})
        self.check_agreement("calibration", loaded(CORPUS / "calibration/shipped.yaml"))
        self.check_agreement("calibration", loaded(CORPUS / "calibration/fitted.json"), ("spread", "covariance", "compute_scale"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
