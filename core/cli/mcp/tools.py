"""The tools, made from what `gpumem COMMAND --help --json` says and from the schemas of the answers.

A tool has one argument for each operand of the command (FILE: `file`, FILE...: `files`) and one for each option. What a client
sends becomes single words of the command line, `--option=value` and operands that do not begin with '-': no value becomes an
option, and there is no shell.
"""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

NOT_ARGUMENTS = {"json", "help"}
# They start any program that they are told to: a client that may do that has a shell.
NEVER = {"mcp", "run", "gdb", "fit"}
WHOLE_NUMBERS = {"N", "PID", "TID", "SECONDS"}
LISTS = {"events"}  # their JSON is one object a line
# `top` is asked once, as its screen is none of a client's; what `attach` serves has no end.
NOT_OFFERED = {"once", "delay", "export", "textfile", "interval"}
STREAMS = "standard-input"


class Refused(Exception):
    """An argument that is not taken; its text is for the client."""


@dataclass
class Tool:
    name: str
    summary: str
    text: str
    effect: str
    # Of each argument its schema, in the order of the command line.
    arguments: dict = field(default_factory=dict)
    required: list = field(default_factory=list)
    operands: list = field(default_factory=list)  # names; a literal word is "=word"
    repeated: set = field(default_factory=set)
    stream_options: list = field(default_factory=list)  # that go with standard input
    answers: dict = None  # the schema of the answer as JSON; None: there is only text

    def input_schema(self):
        return {"type": "object", "properties": self.arguments, "required": self.required, "additionalProperties": False}

    def output_schema(self):
        """Of the answer as JSON only the fields at the top: the list of the tools goes into a model's context. The whole schema is a
        resource."""
        properties = {
            "status": {"type": "integer", "description": "0: answered; 1: a negative answer, such as leaks that were found"},
            "text": {"type": "string"},
            "notes": {"type": "string", "description": "what gpumem said beside the answer, such as how complete it is"},
            "cut": {"type": "array", "items": {"type": "string"}, "description": "what was left out, as the answer was too long"},
        }
        schema = {"type": "object", "properties": properties, "required": ["status"]}
        if self.answers:
            if self.name in LISTS:
                properties["answer"] = {"type": "array"}
            else:
                fields = self.answers["one"].get("properties", {})
                properties["answer"] = {"type": "object", "properties": {name: {} for name in fields}}
        return schema

    def answer_schema(self):
        one, definitions = self.answers["one"], self.answers["$defs"]
        return {**({"type": "array", "items": one} if self.name in LISTS else one), "$defs": definitions}


# ---- what the command says ----


def ask_help(program, *words):
    """The JSON of a command's help; None: it has none."""
    done = subprocess.run([program, *words, "--help", "--json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def load(program, schemas, allowed):
    """(version, {name: Tool}) of the commands that only answer, and of those whose effect is allowed."""
    table = ask_help(program)
    names = [one["name"] for one in table["commands"] if one["shell"] and one["name"] not in NEVER and one["effect"] in {"none", *allowed}]
    with ThreadPoolExecutor(4) as workers:
        helps = list(workers.map(lambda name: ask_help(program, name), names))
    return table["version"], {name: make_tool(one, schemas, allowed) for name, one in zip(names, helps)}


def operands_of(usage, options):
    """[(word, how deep in brackets, repeated)] of the operands, and {option: (deep, repeated)}, of one line of a usage."""
    letters = {option["letter"]: option["name"] for option in options if option["letter"]}
    takes = {option["name"] for option in options if option["value"]}
    operands, named = [], {}
    deep, value_follows = 0, False
    for piece in re.findall(r"\[|\]…?|(?<= )\|(?= )|[^\s\[\]]+", usage):
        if piece in ("[", "|"):
            deep += piece == "["
            continue
        if piece[0] == "]":
            deep -= 1
            if piece != "]" and named:
                last = list(named)[-1]
                named[last] = (named[last][0], True)
            continue
        word = re.sub(r"(\.\.\.|…)$", "", piece)
        again = word != piece
        if word.startswith("-") and word != "-":
            name, _, value = word.lstrip("-").partition("=")
            name = letters.get(name, name)
            named[name] = (deep, again)
            value_follows = not value and name in takes
        elif value_follows:
            named[name] = (deep, again)
            value_follows = False
        elif word and word[0] != "=":  # "[=LIMIT]"
            operands.append((word, deep, again))
    return operands, named


def make_tool(said, schemas, allowed):
    text = re.split(r"\n+ *Example:", said["text"])[0]  # of the shell
    tool = Tool(said["name"], said["summary"], text.strip(), said["effect"], answers=schemas.get(said["name"]))
    options = {option["name"]: option for option in said["options"] if option["name"] not in NOT_ARGUMENTS}
    usage = {}
    for number, line in enumerate(said["usage"]):
        operands, named = operands_of(line, said["options"])
        for name, (deep, again) in named.items():
            usage.setdefault(name, (deep if number == 0 else 1, again))  # the first line is the usual one
        for word, deep, again in operands:
            if word == "-":
                tool.stream_options = [name for name, (outside, _) in named.items() if outside == 0]
            add_operand(tool, word, again, required=number == 0 and deep == 0, options=options)
    for name, option in options.items():
        if option["effect"] not in {"none", *allowed} or name in NOT_OFFERED:
            continue
        deep, again = usage.get(name, (1, False))
        again = again or "several times" in option["text"]
        tool.arguments[name] = option_schema(option, again)
        if again and option["value"]:
            tool.repeated.add(name)
        if deep == 0:
            tool.required.append(name)
    if tool.answers:
        tool.arguments["format"] = {
            "type": "string",
            "enum": ["text", "json"],
            "description": "text (the default): as people read it; json: all fields, longer",
        }
    return tool


def add_operand(tool, word, again, required, options):
    name = word.lower()
    if word == "-":
        tool.arguments[STREAMS] = {"type": "string", "description": f"the text itself, instead of {tool.operands[-1]}"}
        return
    if word in ("…", "--", "PROG", "ARGS") or name in options:
        return
    if name == word and name.isalpha():  # as in `sim list`
        tool.operands.append(f"={word}")
        return
    name += "s" if again and word != "MORE" else ""
    if not name.isidentifier() or name in tool.arguments:
        return
    tool.operands.append(name)
    described = {"type": "string", "minLength": 1, "description": f"{word}, as in the description"}
    if name == "pid":
        described = {"type": "integer", "minimum": 1, "description": "the process"}
    if again:
        described = {"type": "array", "items": described, "minItems": 1}
        tool.repeated.add(name)
    tool.arguments[name] = described
    if required:
        tool.required.append(name)


def option_schema(option, again):
    value, text = option["value"], option["text"]
    if not value:
        return {"type": "boolean", "description": text}
    if value in WHOLE_NUMBERS:
        schema = {"type": "integer", "minimum": 0}
    elif re.fullmatch(r"[a-z_]+(\|[a-z_]+)+", value):
        schema = {"type": "string", "enum": value.split("|")}
    else:
        schema, text = {"type": "string"}, f"{value}: {text}"
        if option["value_optional"]:
            schema, text = {"type": ["string", "boolean"]}, f"true, or {text}"
    return {"type": "array", "items": schema, "description": text} if again else {**schema, "description": text}


# ---- what a client sends ----


def as_wanted(schema, value):
    """A number where text is wanted and the like, as models mix them up."""
    kind = schema.get("type")
    if kind == "array":
        values = value if isinstance(value, list) else [value]
        return [as_wanted(schema["items"], one) for one in values]
    if kind == "string" and type(value) in (int, float):
        return str(value)
    if kind == "integer" and isinstance(value, str) and re.fullmatch(r"\d{1,18}", value):
        return int(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


def clean(name, value):
    text = str(value)
    if "\0" in text:
        raise Refused(f"{name}: it has a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{name}: it is not Unicode text") from None
    return text


def command_line(tool, given):
    """(words, standard input or None). The arguments are valid by the schema."""
    words, operands = [], []
    for name, schema in tool.arguments.items():
        if name not in given or name in (STREAMS, "format") or name in tool.operands:
            continue
        if schema["type"] == "boolean" or isinstance(given[name], bool):
            words += [f"--{name}"] if given[name] else []
            continue
        for value in given[name] if name in tool.repeated else [given[name]]:
            words.append(f"--{name}={clean(name, value)}")
    for name in tool.operands:
        if name.startswith("="):
            operands.append(name[1:])
            continue
        values = given.get(name, [])
        for value in values if name in tool.repeated else [given[name]] if name in given else []:
            text = clean(name, value)
            if text.startswith("-"):
                raise Refused(f"{name}: {text!r} begins with '-': write a file of this name as './{text}'")
            operands.append(text)
    stream = given.get(STREAMS)
    if stream is not None:
        operands.append("-")
        words += [f"--{name}" for name in tool.stream_options if not given.get(name)]
    if given.get("format") == "json":
        words.append("--json")
    if tool.name == "top":
        words.append("--once")
    return [tool.name, *words, *operands], stream if stream is None else clean(STREAMS, stream)


# ---- the schemas of the answers ----


def load_schemas(folder):
    """{command: its schema in one piece}: what it takes of common.json is in its own $defs."""
    files = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    common = files.pop("common", {"$defs": {}})["$defs"]
    return {name: in_one_piece(schema, common) for name, schema in files.items()}


def in_one_piece(schema, common):
    found = {}

    def follow(value, place):
        if isinstance(value, list):
            return [follow(one, place) for one in value]
        if not isinstance(value, dict):
            return value
        copy = {key: follow(one, place) for key, one in value.items()}
        name = re.fullmatch(r"(common\.json)?#/\$defs/(\w+)", value.get("$ref", "") if isinstance(value.get("$ref", ""), str) else "")
        if name and (name[1] or place == "common"):
            copy["$ref"] = f"#/$defs/common_{name[2]}"
            if f"common_{name[2]}" not in found:
                found[f"common_{name[2]}"] = None  # it may refer to itself
                found[f"common_{name[2]}"] = follow(common[name[2]], "common")
        return copy

    own = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "title", "$defs")}
    one = follow(own, "own")
    definitions = follow(schema.get("$defs", {}), "own")
    return {"one": one, "$defs": {**definitions, **found}}
