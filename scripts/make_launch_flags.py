#!/usr/bin/env python3
"""Writes src/replay/launch/launch_flags.inc: every flag of the argument parsers of slime, Miles,
Megatron-LM and SGLang, with the number of values that it takes and its class of
launch_flag_classes.txt. Their sources are read, never run. A flag of no class or of two is an error.

usage: make_launch_flags.py NAME=VERSION=FOLDER ... > src/replay/launch/launch_flags.inc
NAME: slime, miles, megatron, sglang, router; FOLDER: the one that holds the package.
"""
import ast
import fnmatch
import pathlib
import sys
import textwrap

# Files of each framework below its folder; what stands in braces of an f-string; what goes before
# every name.
FILES = {
    "slime": [("slime/utils/arguments.py", "", ""),
              ("slime/backends/sglang_utils/arguments.py", "", ""),
              ("slime/backends/megatron_utils/server/arguments.py", "", "")],
    "miles": [("miles/utils/arguments.py", "", ""),
              ("miles/utils/ft_utils/health_checker.py", "trainer-heartbeat-checker", ""),
              ("miles/dashboard/args.py", "", ""),
              ("miles/rollout/generate_hub/*.py", "", ""),
              ("miles/backends/sglang_utils/arguments.py", "", ""),
              ("miles/backends/fsdp_utils/arguments.py", "", "")],
    "megatron": [("megatron/training/arguments.py", "", ""),
                 ("megatron/post_training/arguments.py", "", "")],
    "sglang": [("sglang/srt/server_args.py", "", "sglang-"),
               ("sglang/srt/arg_groups/fields/*.py", "", "sglang-")],
    "router": [("sglang_router/router_args.py", "router-", "")],
}
# What launch scripts of slime and Miles hold besides, for older parsers or patched ones.
SCRIPTS = {"post-mlp-layernorm": "0", "post-self-attn-layernorm": "0", "ref-micro-batch-size": "1",
           "rollout-num-nodes": "1", "sglang-cuda-graph-bs": "+", "sglang-cuda-graph-max-bs": "1",
           "sglang-mamba-scheduler-strategy": "1", "sglang-nsa-decode-backend": "1",
           "sglang-nsa-prefill-backend": "1", "use-gated-attention": "0"}
CLASSES = {"own": "kOwn", "numbers": "kNumbers", "nothing": "kNothing"}
ADDERS = ("add_argument", "reset_arg")
ORDER = ["0", "1", "?", "2", "3", "+", "*"]  # numbers of values, fewest first
NO_VALUE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version",
            "DeprecatedStoreTrueAction", "DeprecatedAction")


def name_of(node):
    """The last name of `a.b.c`, a name or a text."""
    return getattr(node, "attr", getattr(node, "id", getattr(node, "value", None)))


def keywords_of(call):
    return {keyword.arg: keyword.value for keyword in call.keywords}


def values_of(keywords):
    """How many values argparse takes for these keywords: "0", "1", "3", "?", "+" or "*"."""
    if name_of(keywords.get("action")) in NO_VALUE + ("BooleanOptionalAction",):
        return "0"
    return str(name_of(keywords.get("nargs")) or "1")


class Flags:
    def __init__(self):
        self.values = {}  # name: the number of its values, as above

    def add(self, name, values):
        """Where parsers differ, the one that takes more words has the flag."""
        name = name.replace("_", "-")
        self.values[name] = max(values, self.values.get(name, "0"), key=ORDER.index)

    def add_call(self, call, braces, prefix):
        keywords = keywords_of(call)
        for argument in call.args:
            if isinstance(argument, ast.JoinedStr):
                parts = [p.value if isinstance(p, ast.Constant) else braces
                         for p in argument.values]
                text = "".join(parts)
            else:
                text = getattr(argument, "value", None)
            if not isinstance(text, str) or not text.startswith("--") or len(text) < 4:
                continue
            self.add(prefix + text[2:], values_of(keywords))
            if name_of(keywords.get("action")) == "BooleanOptionalAction":
                self.add("no-" + prefix + text[2:], "0")


def classes_below(folder):
    """Every class of the sources, by name."""
    out = {}
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                out.setdefault(node.name, node)
    return out


def fields_of(node, classes):
    """The annotated fields of a dataclass, those of its bases first."""
    out = []
    for base in node.bases:
        if name_of(base) in classes:
            out += fields_of(classes[name_of(base)], classes)
    return out + [f for f in node.body
                  if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)]


def is_bool(annotation):
    text = ast.unparse(annotation).replace("Optional[bool]", "bool").replace("bool | None", "bool")
    return text == "bool"


def is_list(annotation):
    text = ast.unparse(annotation).removeprefix("Optional[")
    return text.startswith(("list", "List", "Sequence"))


def add_factories(flags, tree, classes):
    """Megatron's groups: a flag for each field of a dataclass that is not excluded."""
    lists = {a.targets[0].id: a.value for a in ast.walk(tree)
             if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Name)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or name_of(call.func) != "ArgumentGroupFactory":
            continue
        exclude = keywords_of(call).get("exclude", ast.List([]))
        exclude = {e.value for e in lists.get(name_of(exclude), exclude).elts}
        for field in fields_of(classes[name_of(call.args[0])], classes):
            if field.target.id not in exclude:
                add_megatron_field(flags, field)


def add_megatron_field(flags, field):
    dashed = field.target.id.replace("_", "-")
    default = field.value
    if isinstance(default, ast.Call):
        default = keywords_of(default).get("default")
    on = name_of(default) is True
    names, values = [dashed], "+" if is_list(field.annotation) else "1"
    if is_bool(field.annotation):
        names, values = (["no-" + dashed, "disable-" + dashed] if on else [dashed]), "0"
    for inner in ast.walk(field):
        if not isinstance(inner, ast.Dict):
            continue
        meta = {name_of(key): value for key, value in zip(inner.keys, inner.values)}
        if "arg_names" in meta:
            names = [e.value[2:] for e in meta["arg_names"].elts]
        if "nargs" in meta or "action" in meta:
            values = values_of(meta)
    for name in names:
        flags.add(name, values)


def add_annotated(flags, tree, prefix):
    """SGLang's fields: Annotated[type, help or Arg(...)]."""
    for field in ast.walk(tree):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.annotation, ast.Subscript) \
                or name_of(field.annotation.value) not in ("A", "Annotated"):
            continue
        kind, *metas = field.annotation.slice.elts
        meta = next((keywords_of(m) for m in metas
                     if isinstance(m, ast.Call) and name_of(m.func) == "Arg"), {})
        if name_of(meta.get("no_cli")) is True:
            continue
        name = name_of(meta.get("cli_name")) or "--" + field.target.id.replace("_", "-")
        names = [name] + [name_of(a) for a in getattr(meta.get("aliases"), "elts", [])]
        values = values_of(meta)
        if "action" not in meta and is_bool(kind):
            values = "0"
        elif "nargs" not in meta and "type_parser" not in meta and is_list(kind):
            values = "+"
        for name in names:
            flags.add(prefix + name.lstrip("-"), values)


def add_own_dataclass(flags, tree):
    """Miles' FSDP parser: a flag for each field of its one dataclass."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "FSDPArgs":
            for field in fields_of(node, {}):
                name, on_off = field.target.id.replace("_", "-"), is_bool(field.annotation)
                flags.add(name, "0" if on_off else "1")
                if on_off:
                    flags.add("no-" + name, "0")


def read(flags, framework, folder):
    classes = classes_below(pathlib.Path(folder) / "megatron") if framework == "megatron" else {}
    for pattern, braces, prefix in FILES[framework]:
        paths = sorted(pathlib.Path(folder).glob(pattern))
        if not paths:
            sys.exit(f"{framework}: {folder} has no {pattern}")
        for path in paths:
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and name_of(node.func) in ADDERS:
                    flags.add_call(node, braces, prefix)
            if framework == "megatron":
                add_factories(flags, tree, classes)
            if framework == "sglang":
                add_annotated(flags, tree, prefix)
            add_own_dataclass(flags, tree)


def read_classes():
    """The patterns of each class."""
    out, patterns = {}, []
    for line in (pathlib.Path(__file__).parent / "launch_flag_classes.txt").read_text().splitlines():
        if line in CLASSES:
            patterns = out.setdefault(line, [])
        elif not line.startswith("#"):
            patterns += line.split()
    return out


def classes_of(names):
    """The one class of each name; errors name all that have none or several."""
    patterns, out, wrong = read_classes(), {}, []
    for name in names:
        found = [c for c in patterns if any(fnmatch.fnmatchcase(name, p) for p in patterns[c])]
        out[name] = found[0] if found else None
        if len(found) != 1:
            wrong.append(f"{name}: {' and '.join(found) or 'no class'}")
    if wrong:
        sys.exit("launch_flag_classes.txt must give each flag one class:\n" + "\n".join(wrong))
    return out


def main():
    flags, versions = Flags(), []
    for word in sys.argv[1:]:
        framework, version, folder = word.split("=", 2)
        read(flags, framework, folder)
        versions.append(f"{framework} {version}")
    for name, values in SCRIPTS.items():
        flags.add(name, values)
    print("// Made by scripts/make_launch_flags.py of " + ", ".join(versions[:2]) + ",")
    print("// " + ", ".join(versions[2:]) + ": what names begin with, how many values"
          "\n// argparse takes (? is none or one, + at least one, * any), their class, the rest of the "
          "names.\n// clang-format off")
    print_rows(flags.values)


def print_rows(flags):
    classes = classes_of(flags)
    for prefix in ("", "sglang-"):
        for values in ORDER:
            for kind in CLASSES:
                print_row(prefix, values, kind, sorted(
                    name.removeprefix(prefix) for name, v in flags.items()
                    if v == values and classes[name] == kind
                    and name.startswith("sglang-") == bool(prefix)))


def print_row(prefix, values, kind, names):
    if not names:
        return
    lines = textwrap.wrap(" ".join(names), 96, break_on_hyphens=False, break_long_words=False)
    lines = "\n".join(f' " {line}"' for line in lines)
    print(f'{{"{prefix}", "{values}", {CLASSES[kind]},\n{lines} " "}},')


if __name__ == "__main__":
    main()
