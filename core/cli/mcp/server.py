"""server.py GPUMEM ALLOWED LARGEST SECONDS: the server of the Model Context Protocol, on stdin and stdout.

`gpumem mcp` starts it (core/cli/cmd_mcp.c). tools.py makes the tools, answer.py runs the questions.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUESTIONS_AT_ONCE = 4

try:
    import anyio
    import jsonschema
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError

    if not hasattr(types, "INVALID_PARAMS") or "on_call_tool" not in Server.__init__.__annotations__:
        raise ImportError("it is older than version 2")
except ImportError as error:
    print(
        f"gpumem: mcp: {sys.executable} cannot import the package mcp ({error}): install it with `{sys.executable} -m pip install "
        "'mcp>=2'` (the wheel: pip install 'gpumem-debugger[mcp]'), or name another Python, 3.10 or later, with --python",
        file=sys.stderr,
    )
    sys.exit(4)  # GM_TARGET

import answer
import tools

GUIDE = "gpumem://guide"
SCHEMA = "gpumem://schema/"
PROMPTS = {
    "peak": ("What makes up the peak, and how can it be lowered?", "file", "the recording or snapshot"),
    "out-of-memory": ("Why did the program run out of memory?", "file", "the recording, the snapshot or the core dump"),
    "leak": ("What accumulates from step to step, and who holds it?", "file", "the recording or snapshot"),
    "holder": ("What keeps this memory alive in a running process?", "pid", "the process"),
}


def guide_parts():
    """{heading: text} of guide.md, "" for what stands before the first: the server's instructions."""
    parts, heading = {"": []}, ""
    for line in (HERE / "guide.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
            parts[heading] = []
        else:
            parts[heading].append(line)
    return {name: "\n".join(lines).strip() for name, lines in parts.items()}


class Questions:
    def __init__(self, program, allowed, largest, seconds):
        self.program, self.largest, self.seconds = program, largest, seconds
        folders = [HERE / "schema", *(above / "share/gpumem/schema/v1" for above in HERE.parents)]  # in a build; installed
        folder = next(path for path in folders if path.is_dir())
        self.version, self.tools = tools.load(program, tools.load_schemas(folder), allowed)
        self.validators = {name: jsonschema.Draft202012Validator(tool.input_schema()) for name, tool in self.tools.items()}
        self.limit = anyio.CapacityLimiter(QUESTIONS_AT_ONCE)
        self.guide = guide_parts()

    # ---- tools ----

    async def list_tools(self, context, params):
        return types.ListToolsResult(tools=[self.described(tool) for tool in self.tools.values()])

    def described(self, tool):
        reads = tool.effect == "none"
        return types.Tool(
            name=tool.name,
            title=f"gpumem {tool.name}: {tool.summary}",
            description=f"{tool.summary[:1].upper()}{tool.summary[1:]}.\n\n{tool.text}",
            input_schema=tool.input_schema(),
            output_schema=tool.output_schema(),
            annotations=types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=False),
        )

    def valid(self, tool, given):
        for name in given:
            if name not in tool.arguments:
                raise tools.Refused(f"{tool.name} has no argument {name!r}: it has {', '.join(tool.arguments)}")
        given = {name: tools.as_wanted(tool.arguments[name], value) for name, value in given.items() if value is not None}
        error = jsonschema.exceptions.best_match(self.validators[tool.name].iter_errors(given))
        if error:
            where = ".".join(map(str, error.absolute_path))
            raise tools.Refused(f"{where}: {error.message[:500]}" if where else error.message[:500])
        return given

    async def call_tool(self, context, params):
        tool = self.tools.get(params.name)
        if not tool:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name[:100]!r}: it is one of {', '.join(self.tools)}")
        try:
            given = self.valid(tool, params.arguments or {})
            words, stream = tools.command_line(tool, given)
            async with self.limit:
                return await self.ask(tool, [self.program, *words], stream, given.get("format") == "json")
        except (tools.Refused, answer.Failed) as error:
            return failed(f"gpumem {tool.name}: {error}")
        except OSError as error:
            return failed(f"gpumem {tool.name}: {error.strerror or error}")

    async def ask(self, tool, words, stream, as_json):
        most = answer.READ_MOST if as_json else self.largest
        if as_json and tool.name == "events":
            most = 2 * self.largest
        status, out, goes_on, notes = await answer.run(words, stream, most, self.seconds)
        if status not in (0, 1) and not goes_on:
            return failed(notes or f"gpumem {tool.name}: it ended with status {status}, without a word")
        told = {"status": 0 if goes_on else status}
        if notes:
            told["notes"] = notes
        if as_json and out.strip():
            told["answer"], cut = answer.cut_json(out, self.largest, goes_on, tool)
            text = json.dumps(told["answer"], ensure_ascii=False)
        else:
            told["text"], cut = answer.cut_text(out, self.largest, goes_on, tool)
            text = told["text"]
        if cut:
            told["cut"] = cut
        content = [text, *([notes] if notes else []), *([f"[cut: {'; '.join(cut)}]"] if cut else [])]
        return types.CallToolResult(content=[types.TextContent(type="text", text=one) for one in content], structured_content=told)

    # ---- the guide ----

    async def list_resources(self, context, params):
        guide = types.Resource(uri=GUIDE, name="guide", title="How to ask gpumem", mime_type="text/markdown", description="which tool answers what")
        schemas = [
            types.Resource(uri=SCHEMA + tool.name, name=f"{tool.name}.json", mime_type="application/schema+json", description=f"the JSON of {tool.name}")
            for tool in self.tools.values()
            if tool.answers
        ]
        return types.ListResourcesResult(resources=[guide, *schemas])

    async def read_resource(self, context, params):
        uri = str(params.uri)
        tool = self.tools.get(uri.removeprefix(SCHEMA)) if uri.startswith(SCHEMA) else None
        if tool and tool.answers:
            text, kind = json.dumps(tool.answer_schema()), "application/schema+json"
        elif uri == GUIDE:
            text, kind = (HERE / "guide.md").read_text(), "text/markdown"
        else:
            raise MCPError(types.INVALID_PARAMS, f"unknown resource: there are {GUIDE} and {SCHEMA}TOOL")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)])

    async def list_prompts(self, context, params):
        found = [
            types.Prompt(name=name, description=question, arguments=[types.PromptArgument(name=argument, description=what, required=True)])
            for name, (question, argument, what) in PROMPTS.items()
        ]
        return types.ListPromptsResult(prompts=found)

    async def get_prompt(self, context, params):
        if params.name not in PROMPTS:
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt: it is one of {', '.join(PROMPTS)}")
        question, argument, what = PROMPTS[params.name]
        value = (params.arguments or {}).get(argument)
        if not value:
            raise MCPError(types.INVALID_PARAMS, f"{argument} is missing: {what}")
        text = f"{question} {argument}: {value}\n\n{self.guide[question]}"
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=question, messages=[message])

    async def serve(self):
        server = Server(
            "gpumem",
            version=self.version,
            title="gpumem: a debugger for GPU memory",
            instructions=self.guide[""],
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
        )
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


def failed(text):
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def main(program, allowed, largest, seconds):
    try:
        anyio.run(Questions(program, [word for word in allowed.split(",") if word], int(largest), int(seconds)).serve)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(*sys.argv[1:])
