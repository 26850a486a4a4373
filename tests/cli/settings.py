#!/usr/bin/env python3
"""The JSON Schema of the settings of jobs and plans, configs/schemas/settings.schema.json, and their tables in
docs/files/job.md are those that follow from the rows of core/plan/settings.cpp; docs/exported-settings.md has how
every exporter of a trainer accounts for every setting.

usage: settings.py [--update] SOURCE_FOLDER PRINT_SETTINGS

PRINT_SETTINGS is the program dtfm_print_settings. --update writes the files instead of comparing them.
"""
import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

MAX_COUNT = 1_000_000_000  # as in core/io/readers/job_reader.cpp
AUTO = {"const": "auto"}
DESCRIPTIONS = {"training": "batch sizes, precision, optimizer, recomputation", "parallelism": "parallelism and schedule",
                "compression": "compression of messages"}
PARAMETERS = {"none": "", "share": r"([0-9]+\.?[0-9]*|\.[0-9]+)", "whole": "[1-9][0-9]*"}


def quantity(name):
    return {"$ref": f"quantities.schema.json#/$defs/{name}"}


def plain(markdown):
    """Returns the text without links."""
    return re.sub(r"\[`?([^]`]*)`?\]\([^)]*\)", r"\1", markdown)


def default_of(row):
    """Returns the default as text; empty if there is none."""
    return "auto" if row["none_is_open"] and row["may_be_auto"] else row["default"]


def description(row):
    default = default_of(row)
    return plain(row["meaning"]) + (f" (default {default})" if default and not row["is_required"] else "")


def values(row, is_plan):
    """Returns the schema of the values of a setting in jobs, or in plans, which also have what only schemes use."""
    if row["type"] == "flag":
        return {"type": "boolean"}
    if row["type"] == "count":
        return {"type": "integer", "minimum": row["min"], "maximum": MAX_COUNT}
    if row["type"] == "factor":
        return {"type": "number", "minimum": 1, "maximum": MAX_COUNT}
    if row["type"] == "rate":
        return quantity("rate")
    if row["type"] == "name":
        return {"type": "string"} if is_plan else {"enum": row["names"]}
    methods = "|".join(it["name"] + PARAMETERS[it["parameter"]] + it["suffix"] for it in row["methods"])
    return {"anyOf": [quantity("ratio"), {"description": "a method of compression", "type": "string", "pattern": f"^({methods})$"}]}


def job_property(row):
    allowed = values(row, False)
    if row["may_be_auto"]:
        options = allowed.get("anyOf", [allowed])
        if row["may_be_list"]:
            options = [*options, {"type": "array", "minItems": 1, "items": allowed}]
        allowed = {"anyOf": [*options, AUTO]}
    return {"description": description(row), **allowed}


def map_of(rows, of_row, is_required, text):
    schema = {"description": text, "type": "object", "properties": {row["key"]: of_row(row) for row in rows}, "additionalProperties": False}
    required = [row["key"] for row in rows if is_required(row)]
    return {**schema, "required": required} if required else schema


def plan_map(rows, text):
    return map_of(rows, lambda row: {"description": description(row), **values(row, True)}, lambda row: row["is_always_in_plans"], text)


def schema_of(rows):
    sections = {name: [row for row in rows if row["section"] == name] for name in DESCRIPTIONS}
    definitions = {name: map_of(of, job_property, lambda row: row["is_required"], DESCRIPTIONS[name]) for name, of in sections.items()}
    in_plans = [row for row in rows if row["is_in_plans"]]
    execution = plan_map([row for row in in_plans if row["section"] != "compression"], "the settings with which the plan is executed, as in jobs")
    execution["properties"]["compression"] = plan_map([row for row in in_plans if row["section"] == "compression"], DESCRIPTIONS["compression"])
    execution["required"].append("compression")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Settings of jobs and plans of dtfm",
            "description": "What the schemas of jobs and plans share. Written by tests/cli/settings.py --update",
            "$defs": {**definitions, "execution": execution}}


def documented_values(row):
    """Returns the values of a setting, the default first."""
    default = default_of(row)
    if row["type"] == "name":
        options = [default, *(name for name in row["names"] if name != default)]
    elif row["type"] == "flag":
        options = [default, "true" if default == "false" else "false"]
    elif row["type"] == "count":
        options = ([default] if default and not row["is_required"] else []) + [f"integer ≥ {row['min']}"]
    elif row["type"] == "factor":
        options = [default, "number ≥ 1"]
    elif row["type"] == "ratio":
        options = [default, "ratio", "method"]
    else:
        options = ["rate"]
    if row["may_be_auto"] and "auto" not in options:
        options.append("auto")
    if row["may_be_list"]:
        options.append("list")
    return ", ".join(options)


def table_of(rows):
    lines = ["| key | values, the default first | meaning |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{row['key']}` | {documented_values(row)} | {row['meaning']} |" for row in rows)]) + "\n"


def page_with_tables(page, rows):
    for section in DESCRIPTIONS:
        table = table_of([row for row in rows if row["section"] == section])
        begin = f"<!-- settings of {section}: written by tests/cli/settings.py --update -->\n"
        end = "<!-- end of settings -->\n"
        before, found, rest = page.partition(begin)
        if not found or end not in rest:
            sys.exit(f"docs/files/job.md has no {begin.strip()}")
        page = before + begin + table + rest[rest.index(end):]
    return page


def exported_page(settings, trainers):
    """A table per trainer; every trainer has a row for every setting."""
    keys = [row["key"] for row in settings]
    text = """# How do settings reach a trainer?

Every export to a trainer for which plans are made accounts for every setting of a plan. A test writes this
page from the tables in `planner/export/`. A setting reaches the trainer in one of these forms:

- **file**: the exported files contain the setting. The export reads them back and compares the value
  with the plan's.
- **layout**: it follows from the number of ranks, their layers and their messages, which are read back.
- **built in**: the trainer has only the value with which it runs plans (`dtfm-plan --list-targets`).
- **note**: the README of the exported folder says what to set.
"""
    for trainer in trainers:
        rows = trainer["settings"]
        if [row["key"] for row in rows] != keys:
            raise SystemExit(f"{trainer['name']} does not account for {set(keys) - {row['key'] for row in rows}}")
        text += f"\n## {trainer['name']}\n\n{trainer['version']}: {trainer['evidence']}.\n\n| setting | form | how |\n|---|---|---|\n"
        text += "".join(f"| `{row['key']}` | {row['form']} | {row['as']} |\n" for row in rows)
    return text


def main(arguments):
    is_update = arguments[:1] == ["--update"]
    root, program = arguments[is_update:]
    tables = json.loads(subprocess.run([program], capture_output=True, text=True, check=True).stdout)
    rows = tables["settings"]
    schema, page = Path(root) / "configs/schemas/settings.schema.json", Path(root) / "docs/files/job.md"
    exported = Path(root) / "docs/exported-settings.md"
    is_current = True
    for path, text in ((schema, json.dumps(schema_of(rows), indent=2, ensure_ascii=False) + "\n"), (page, page_with_tables(page.read_text(), rows)),
                       (exported, exported_page(rows, tables["trainers"]))):
        old = path.read_text() if path.exists() else ""
        if is_update:
            path.write_text(text)
        elif text != old:
            is_current = False
            print(f"{path} is not what the tables in core/plan/settings.cpp and planner/export say; run: python3 tests/cli/settings.py --update . {program}")
            print("".join(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "file", "table")))
    return 0 if is_current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
