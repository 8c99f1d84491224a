"""The schemas of docs/json/: a strict validator of the keywords that they use, and their shapes as text.

    schemas = Schemas(ROOT / "docs/json")
    schemas.check("diff", value)      # raises Mismatch; remembers which properties it saw
    check_output(["rlreplay", "diff", "a/", "b/", "--json"], text)
"""
import collections
import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/json"
ENDING = ".schema.json"
ANNOTATIONS = {"$schema", "title", "description", "$defs"}
KEYWORDS = {"$ref", "oneOf", "type", "const", "enum", "pattern", "minimum", "items", "properties", "required",
            "additionalProperties"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
         "null": type(None)}
Node = collections.namedtuple("Node", "file pointer schema")  # a schema and where it stands


class Mismatch(AssertionError):
    """A value that is not as its schema says."""


def read(text):
    """JSON as its standard has it: no NaN, no key twice. Errors: ValueError."""
    def constant(name):
        raise ValueError(f"{name} is not JSON")

    def members(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"a key stands twice among {[key for key, _ in pairs]}")
        return found

    return json.loads(text, parse_constant=constant, object_pairs_hook=members)


def types_of(schema):
    named = schema["type"]
    return [named] if isinstance(named, str) else named


def is_type(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def show(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


class Schemas:
    def __init__(self, folder=FOLDER):
        self.files = {path.name: read(path.read_text()) for path in sorted(folder.glob("*" + ENDING))}
        self.seen = set()  # (file, pointer) of properties that a value had

    def root(self, name):
        return Node(name + ENDING, "#", self.files[name + ENDING])

    def child(self, node, *steps):
        schema = node.schema
        for step in steps:
            schema = schema[step]
        return Node(node.file, "/".join([node.pointer, *map(str, steps)]), schema)

    def target(self, node):
        """What a reference refers to, which may have a description beside it."""
        file, _, pointer = node.schema["$ref"].partition("#/")
        root = Node(file or node.file, "#", self.files[file or node.file])
        return self.child(root, *pointer.split("/"))

    def nodes(self):
        """Every schema of every file, each once."""
        waiting = [self.root(file.removesuffix(ENDING)) for file in self.files]
        while waiting:
            node = waiting.pop()
            yield node
            for key in ("properties", "$defs"):
                waiting += [self.child(node, key, name) for name in node.schema.get(key, {})]
            waiting += [self.child(node, "oneOf", i) for i in range(len(node.schema.get("oneOf", [])))]
            for key in ("items", "additionalProperties"):
                if isinstance(node.schema.get(key), dict):
                    waiting.append(self.child(node, key))

    def check(self, name, value):
        """Holds a value to the file of this name. Errors: Mismatch."""
        errors, seen = self.errors(self.root(name), value, "")
        if errors:
            raise Mismatch(f"{name}{ENDING} does not say so:\n  " + "\n  ".join(errors) + f"\n  {show(value)}")
        self.seen |= seen

    def errors(self, node, value, at):
        """What is not as the schema says, and the properties that were seen."""
        schema, errors, seen = node.schema, [], set()
        unknown = set(schema) - ANNOTATIONS - KEYWORDS
        if unknown:
            raise ValueError(f"{node.file}{node.pointer}: {sorted(unknown)} is no keyword of the subset")
        if "$ref" in schema:
            return self.errors(self.target(node), value, at)
        if "oneOf" in schema:
            return self.one_of(node, value, at)
        if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
            errors.append(f"{at or '/'}: expected {show(schema['const'])}, found {show(value)}")
        if "enum" in schema and value not in schema["enum"]:
            errors.append(f"{at or '/'}: {show(value)} is none of {schema['enum']}")
        if "type" in schema and not any(is_type(value, name) for name in types_of(schema)):
            return [f"{at or '/'}: expected {schema['type']}, found {show(value)}"], seen
        if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
            errors.append(f"{at}: {show(value)} is not of {schema['pattern']}")
        if "minimum" in schema and is_type(value, "number") and value < schema["minimum"]:
            errors.append(f"{at}: {value} is below {schema['minimum']}")
        if "items" in schema and isinstance(value, list):
            for i, item in enumerate(value):
                self.add(errors, seen, self.child(node, "items"), item, f"{at}/{i}")
        if schema.get("type") == "object":
            self.members(node, value, at, errors, seen)
        return errors, seen

    def add(self, errors, seen, node, value, at):
        found, saw = self.errors(node, value, at)
        errors += found
        seen |= saw

    def members(self, node, value, at, errors, seen):
        known, more = node.schema.get("properties", {}), node.schema["additionalProperties"]
        errors += [f"{at}/{key}: is required and missing"
                   for key in node.schema.get("required", []) if key not in value]
        for key, member in value.items():
            if key in known:
                inner = self.child(node, "properties", key)
                seen.add((inner.file, inner.pointer))
                self.add(errors, seen, inner, member, f"{at}/{key}")
            elif more is False:
                errors.append(f"{at}/{key}: is not described")
            else:
                self.add(errors, seen, self.child(node, "additionalProperties"), member, f"{at}/{key}")

    def one_of(self, node, value, at):
        tried = [self.errors(self.child(node, "oneOf", i), value, at)
                 for i in range(len(node.schema["oneOf"]))]
        fitting = [found for found in tried if not found[0]]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            return [f"{at or '/'}: fits {len(fitting)} alternatives"], set()
        # The alternative that is meant: of its name, or at least of its type.
        own = (f"{at}/schema:", f"{at or '/'}: expected")
        meant = [errors for errors, _ in tried if not any(error.startswith(own) for error in errors)]
        return (meant or [[f"{at or '/'}: fits no alternative: {show(value)}"]])[0], set()

    def lines(self):
        """The schema of every line that is printed, by its name and version: rlreplay.diff/1."""
        found = {}
        for node in self.nodes():
            name = node.schema.get("properties", {}).get("schema", {}).get("const")
            if name:
                if name in found:
                    raise ValueError(f"{name} is described twice")
                found[name] = node
        return found

    def shape(self, node, path="", within=()):
        """What a reader relies on, a line each: `origin.event string`. `?` behind a key: it may be absent."""
        schema = node.schema
        if "$ref" in schema:
            inner = self.target(node)
            if inner.pointer in within:
                return [f"{path} = {inner.pointer.rpartition('/')[2]}"]
            return self.shape(inner, path, (*within, inner.pointer))
        if "oneOf" in schema:
            kinds = [self.shape(self.child(node, "oneOf", i), path, within)
                     for i in range(len(schema["oneOf"]))]
            return sorted({f"{first} | ..." if len(kinds) > 1 else first for first, *_ in kinds}
                          | {line for _, *rest in kinds for line in rest})
        out = [f"{path} {own_text(schema)}".strip()]
        for key in schema.get("properties", {}):
            name = key if key in schema["required"] else key + "?"
            out += self.shape(self.child(node, "properties", key), f"{path}.{name}".lstrip("."), within)
        if isinstance(schema.get("additionalProperties"), dict):
            out += self.shape(self.child(node, "additionalProperties"), f"{path}.*".lstrip("."), within)
        if "items" in schema:
            out += self.shape(self.child(node, "items"), path + "[]", within)
        return out


def own_text(schema):
    """The keywords of a schema that stand for itself, as text."""
    words = ["|".join(types_of(schema))] if "type" in schema else []
    words += [f"{key}={json.dumps(schema[key])}" for key in ("const", "enum", "pattern", "minimum") if key in schema]
    return " ".join(words) or "any"


def file_of(arguments):
    """The file of docs/json/ that describes what a command line prints."""
    program, *words = map(str, arguments)
    if "--help-json" in words:
        return "help"
    verb = words[0] if words and words[0].isalpha() else ""
    if pathlib.Path(program).name.startswith("rlbisect"):
        return verb if verb in ("verdict", "changes", "op") else "rlbisect"
    return verb if verb + ENDING in SCHEMAS.files else "error"


def check_output(arguments, text):
    """Holds what a command printed with --json to its schema. Errors: Mismatch."""
    lines = text.splitlines()
    for line in lines[-1:] if "--" in arguments else lines:  # before it stands what the launcher printed
        try:
            value = read(line)
        except ValueError as error:
            raise Mismatch(f"{arguments} prints with --json what is no JSON: {error}: {line[:200]}")
        SCHEMAS.check(file_of(arguments), value)


SCHEMAS = Schemas()
