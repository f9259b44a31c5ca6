"""`gpumem mcp`, asked by the client of the protocol's own SDK: its tools are the commands, and say what the commands say."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, EXAMPLES, PYTHON, ROOT, note_of_set_up, run_process, wait_until

FOLDER = ROOT / "build" / "clients"
GPUMEM = BUILD / "bin" / "gpumem"
SERVER = BUILD / "lib" / "gpumem-mcp" / "server.py"
CHANGES = {"attach", "detach", "core", "export", "view", "replay", "learn"}
STARTS_ANYTHING = {"run", "gdb", "fit", "mcp"}

if not FOLDER.exists():
    pytest.skip(f"no SDK of the protocol ({note_of_set_up('no-clients')})", allow_module_level=True)
sys.path.append(str(FOLDER))

import anyio  # noqa: E402
import jsonschema  # noqa: E402
from anyio.from_thread import start_blocking_portal  # noqa: E402
from mcp.client.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(FOLDER)}


def started(*words, cwd=None, command=None):
    command = command or [str(GPUMEM), "mcp", "--python", sys.executable]
    return Client(stdio_client(StdioServerParameters(command=command[0], args=[*command[1:], *words], env=ENVIRONMENT, cwd=cwd)))


class Asked:
    """A client; `call(tool, …)` is the answer."""

    def __init__(self, portal, client):
        self.portal, self.client = portal, client

    def run(self, method, *words):
        return self.portal.call(getattr(self.client, method), *words)

    def call(self, tool, **arguments):
        return self.run("call_tool", tool, {name.replace("_", "-"): value for name, value in arguments.items()})

    def tools(self):
        return {tool.name: tool for tool in self.run("list_tools").tools}

    def refusal(self, tool, **arguments):
        answer = self.call(tool, **arguments)
        assert answer.is_error, answer
        return answer.content[0].text


@pytest.fixture(scope="module")
def connect():
    with start_blocking_portal() as portal:

        def connect(*words, **keys):
            return portal.wrap_async_context_manager(started(*words, **keys))

        connect.portal = portal
        yield connect


@pytest.fixture(scope="module")
def client(connect, recording):
    """A client of a server that was started with the defaults, in the folder of the recording."""
    with connect(cwd=recording.parent) as client:
        yield Asked(connect.portal, client)


@pytest.fixture(scope="module")
def everything(connect):
    """A client of a server that may do everything, and whose answers are cut short."""
    with connect("--allow=files,processes,programs", "--max-answer=8000") as client:
        yield Asked(connect.portal, client)


@pytest.fixture(scope="module")
def recording(tmp_path_factory, run_gpumem):
    path = tmp_path_factory.mktemp("recording") / "leak.gpumem"
    run_gpumem("run", "--sim", "-o", path, "--", PYTHON, EXAMPLES / "leak.py").check()
    return path


# ---- tools ----


def test_each_command_is_a_tool_with_its_options(client, run_gpumem):
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", run_gpumem("--help").check().out, re.M)
    tools = client.tools()
    assert set(tools) == set(commands) - CHANGES - STARTS_ANYTHING
    for name, tool in tools.items():
        options = set(re.findall(r"^  --([a-z-]+)", run_gpumem(name, "--help").check().out, re.M)) - {"json", "help"}
        missing = options - set(tool.input_schema["properties"])
        assert missing <= {"save", "once", "delay"} | ({"python"} if name == "estimate" else set()), name
        assert tool.annotations.read_only_hint


def test_a_tool_says_what_the_command_says(client, recording, run_gpumem):
    for question in ("info", "blocks", "peak", "steps", "phases", "leaks", "segments", "timeline", "advise", "amp", "zero", "events"):
        operand = "files" if question in ("info", "peak") else "file"
        answer = client.call(question, **{operand: str(recording)})
        shell = run_gpumem(question, recording, cwd=recording.parent)  # paths are relative
        assert answer.structured_content["status"] == shell.status, question
        assert answer.structured_content["text"] == shell.out == answer.content[0].text


def whole_schema(client, tool):
    (found,) = client.run("read_resource", f"gpumem://schema/{tool}").contents
    return json.loads(found.text)


def test_the_list_of_tools_leaves_room_in_a_models_context(client):
    listed = client.run("list_tools")
    assert len(listed.tools) > 20 and len(listed.model_dump_json(exclude_none=True)) < 60_000
    resources = {str(one.uri) for one in client.run("list_resources").resources}
    assert {f"gpumem://schema/{name}" for name in ("peak", "events", "who-holds")} <= resources


def test_a_tool_says_as_json_what_its_schema_says(client, recording, run_gpumem):
    """The client compares each answer with the tool's schema."""
    for question, more in {"info": {}, "blocks": {"at-peak": True}, "peak": {"tree": True}, "leaks": {}, "why": {"block": "#1"}, "doctor": {}}.items():
        arguments = {} if question == "doctor" else {"files" if question in ("info", "peak") else "file": str(recording)}
        answer = client.run("call_tool", question, {**arguments, **more, "format": "json"})
        assert not answer.is_error, answer
        words = [f"--{name}" if value is True else value for name, value in more.items()]
        shell = run_gpumem(question, *arguments.values(), *words, "--json").json()
        jsonschema.validate(answer.structured_content["answer"], whole_schema(client, question))
        if question != "doctor":
            assert answer.structured_content["answer"] == shell, question
    events = client.call("events", file=str(recording), to=3, format="json").structured_content["answer"]
    jsonschema.validate(events, whole_schema(client, "events"))
    assert events == run_gpumem("events", recording, "--to=3", "--json").json_lines()
    compared = client.call("diff", a=str(recording), b=str(recording), format="json")
    assert not compared.is_error and compared.structured_content["status"] == 0


def test_a_message_of_pytorch_is_explained_without_a_file(client):
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which 2.00 MiB is "
        "free. Including non-PyTorch memory, this process has 79.00 GiB memory in use. Of the allocated memory 78.44 GiB is allocated by "
        "PyTorch, and 17.88 MiB is reserved by PyTorch but unallocated.\n"
    )
    assert "verdict: capacity" in client.call("oom", standard_input=text).content[0].text


def test_numbers_may_be_texts_and_texts_numbers(client, recording):
    assert client.call("events", file=str(recording), to="2").content[0].text == client.call("events", file=str(recording), to=2).content[0].text
    assert not client.call("peak", files=str(recording), tree="true").is_error


def test_an_error_is_what_the_command_says(client, tmp_path):
    missing = str(tmp_path / "missing.gpumem")
    assert client.refusal("peak", files=missing) == run_process([GPUMEM, "peak", missing]).err.strip()


# ---- what must not happen ----


@pytest.mark.parametrize("value", ["--help", "-h", "--json", "-", "--sysroot=/"])
def test_no_operand_becomes_an_option(client, value):
    assert "begins with '-'" in client.refusal("why", file=value, block="#1")
    assert "begins with '-'" in client.refusal("who-holds", block=value)


@pytest.mark.parametrize("value", ["--help", "x; touch made", "$(touch made)", "`touch made`", "a\nb", "| touch made", "%s%n"])
def test_no_value_becomes_an_option_or_is_run(client, recording, value):
    refused = client.refusal("blocks", file=str(recording), where=value)
    assert refused.startswith("gpumem: ") and "Usage" not in refused
    refused = client.refusal("info", files=f"./{value}")
    assert refused.startswith("gpumem: ") and not Path("made").exists()


def test_a_file_whose_name_begins_with_a_hyphen_can_be_asked(client, recording):
    copy = recording.parent / "--help"
    copy.write_bytes(recording.read_bytes())
    assert "at the peak" in client.call("peak", files="./--help").content[0].text
    copy.unlink()  # other tests ask for a file of that name in this folder, which is not there


def test_invalid_arguments_are_refused_by_name(client, recording):
    file = str(recording)
    assert "no argument 'fil'" in client.refusal("peak", fil=file)
    assert "'block' is a required property" in client.refusal("why", file=file)
    assert "NUL" in client.refusal("peak", files=f"{file}\0")
    assert "format" in client.refusal("peak", files=file, format="xml")
    assert "device" in client.refusal("peak", files=file, device={"a": 1})
    assert "file" in client.refusal("leaks", file=[])
    assert "no argument 'json'" in client.refusal("peak", files=file, json=True)
    with pytest.raises(MCPError, match="unknown tool"):
        client.call("run", file=file)
    assert "no argument 'save'" in client.refusal("retained", save="x")
    assert "at the peak" in client.call("peak", files=file).content[0].text


NONSENSE = [
    "", "no JSON", "{", "[]", "null", "1", '"', "[" * 20000, "\0\0", '{"jsonrpc":"2.0"}', '{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
    '{"jsonrpc":"2.0","id":null,"method":"tools/list"}', '{"jsonrpc":"2.0","id":2,"method":"no/such"}', '{"jsonrpc":"2.0","id":3,"method":7}',
    '{"jsonrpc":"2.0","id":4,"method":"tools/call"}', '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}',
    '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":5,"arguments":"x"}}',
    '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"peak","arguments":{"files":{"a":[1]}}}}',
    '{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"peak","arguments":{"files":"\\ud800"}}}',
    '{"jsonrpc":"2.0","id":9,"result":{}}', '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}',
    '{"jsonrpc":"2.0","method":"notifications/no","params":{}}', '{"jsonrpc":"2.0","id":10,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
    '{"jsonrpc":"2.0","id":11,"method":"prompts/get","params":{"name":"peak"}}', "x" * 100000,
]  # fmt: skip


def test_malformed_messages_do_not_stop_the_server():
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    lines = [json.dumps({"jsonrpc": "2.0", "id": 100, "method": "initialize", "params": hello}), *NONSENSE]
    lines += ['{"jsonrpc":"2.0","method":"notifications/initialized"}', *NONSENSE]
    lines.append('{"jsonrpc":"2.0","id":200,"method":"tools/call","params":{"name":"sim","arguments":{}}}')
    words = [GPUMEM, "mcp", "--python", sys.executable]
    with subprocess.Popen(words, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            server.stdin.write("\n".join([*lines, ""]).encode() + b"\xff\xfe\n")
            server.stdin.flush()
            told = {}
            while 200 not in told:
                line = server.stdout.readline()
                assert line, server.stderr.read().decode()
                answer = json.loads(line)
                told[answer.get("id")] = answer
        finally:
            server.kill()
    assert "a100-80gb" in told[200]["result"]["content"][0]["text"]
    for number in (2, 4, 6, 10, 11):
        assert "error" in told[number], told[number]
    assert told[7]["result"]["isError"]
    assert not any("root:" in json.dumps(answer) for answer in told.values())


def test_what_changes_something_is_offered_only_when_allowed(client, everything, recording, tmp_path):
    with pytest.raises(MCPError, match="unknown tool"):
        client.call("view", file=str(recording))
    tools = everything.tools()
    assert set(tools) - set(client.tools()) == CHANGES and not any(tools[name].annotations.read_only_hint for name in CHANGES)
    assert {"save", "diff"} <= set(tools["retained"].input_schema["properties"])
    words = (GPUMEM, {}, {"files"})
    _, some = modules("tools").load(*words)
    assert set(some) & CHANGES == {"core", "export", "view"} and "python" not in some["estimate"].arguments
    assert not everything.call("export", file=str(recording), to="csv", output=str(tmp_path / "out.csv")).is_error
    assert (tmp_path / "out.csv").read_text().count("\n") > 10


# ---- bounds ----


def test_long_answers_are_cut_with_a_statement(everything, recording):
    text = everything.call("events", file=str(recording))
    (cut,) = text.structured_content["cut"]
    assert "only the first" in cut and "from" in cut and cut in text.content[-1].text
    assert len(text.content[0].text) <= 8000 and text.content[0].text.endswith("\n")
    # The client has compared this with the schema.
    blocks = everything.call("blocks", file=str(recording), at_peak=True, format="json")
    assert any(re.fullmatch(r"blocks: \d+ of \d+ are here", one) for one in blocks.structured_content["cut"]), blocks.structured_content["cut"]
    assert len(json.dumps(blocks.structured_content["answer"])) <= 8000
    assert "cut" not in everything.call("sim").structured_content


def modules(name):
    """A module of the server's, without the server."""
    spec = importlib.util.spec_from_file_location(f"gpumem_mcp_{name}", SERVER.with_name(f"{name}.py"))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_cut_leaves_whole_objects():
    answer, tools = modules("answer"), modules("tools")
    events = tools.Tool("events", "", "", "none", arguments={"from": {}})
    lines = "".join(json.dumps({"n": number}) + "\n" for number in range(100))
    assert answer.cut_json(lines, 10000, False, events) == ([{"n": number} for number in range(100)], [])
    found, (cut,) = answer.cut_json(lines[:-3], 10000, True, events)
    assert found == [{"n": number} for number in range(99)] and cut == "only the first 99 objects are here: ask for less with from"
    found, (cut,) = answer.cut_json(lines, 100, False, events)
    assert found == [{"n": number} for number in range(len(found))] and 0 < len(found) < 100
    with pytest.raises(answer.Failed, match="one object alone"):
        answer.cut_json(lines, 3, False, events)
    blocks = tools.Tool("blocks", "", "", "none", arguments={"top": {}})
    value = {"blocks": [{"sizes": list(range(50))} for _ in range(40)], "pair": [1, 2]}
    found, cut = answer.cut_json(json.dumps(value), 2000, False, blocks)
    kept = len(found["blocks"])
    assert 8 <= kept < 40 and found["pair"] == [1, 2] and len(found["blocks"][0]["sizes"]) == kept
    assert cut == [f"blocks: {kept} of 40 are here", f"blocks[].sizes: {kept * kept:,} of {kept * 50:,} are here", "the answer was too long: ask for less with top"]
    with pytest.raises(answer.Failed, match="even with 8 items of each list: ask for less with top"):
        answer.cut_json(json.dumps(value), 100, False, blocks)
    with pytest.raises(answer.Failed, match="not JSON"):
        answer.cut_json("{", 100, False, blocks)


SLOW = """#!/bin/sh
case $* in
timeline*--help*|*--help*) exec {gpumem} "$@" ;;
timeline*) sleep 1000 & echo $$ $! >{told}.new; mv {told}.new {told}; wait ;;
*) exec {gpumem} "$@" ;;
esac
"""


@pytest.fixture
def slow(tmp_path):
    """(the arguments of a server whose `timeline` takes long, the file with that command's process ids)"""
    program, told = tmp_path / "slow", tmp_path / "told"
    program.write_text(SLOW.format(gpumem=GPUMEM, told=told))
    program.chmod(0o755)
    return [sys.executable, str(SERVER), str(program), "", "60000"], told


def gone(told):
    return not any(Path(f"/proc/{pid}").exists() and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() for pid in told.read_text().split())


def test_a_question_that_takes_long_is_ended_when_it_is_cancelled(connect, slow):
    command, told = slow

    async def cancelled(client):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "timeline", {"file": "x"})
            while not told.exists():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    with connect("600", command=command) as client:
        connect.portal.call(cancelled, client)
        wait_until(lambda: gone(told))
        assert not Asked(connect.portal, client).call("sim").is_error


def test_a_question_ends_with_its_client_and_with_its_time(connect, slow):
    command, told = slow
    with connect("1", command=command) as client:
        assert "no answer in 1 s" in Asked(connect.portal, client).refusal("timeline", file="x")
        wait_until(lambda: gone(told))
    told.unlink()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    lines = [{"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    lines.append({"id": 2, "method": "tools/call", "params": {"name": "timeline", "arguments": {"file": "x"}}})
    with subprocess.Popen([*command, "600"], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        server.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines).encode())
        server.stdin.flush()
        wait_until(told.exists)
        server.stdin.close()
        assert server.wait(60) == 0
        wait_until(lambda: gone(told))


# ---- the guide ----


def test_the_guide_names_only_existing_tools_and_arguments(client, everything):
    tools = everything.tools()
    known = set(tools) | {name for tool in tools.values() for name in tool.input_schema["properties"]}
    (resource,) = [one for one in client.run("list_resources").resources if one.name == "guide"]
    text = client.run("read_resource", resource.uri).contents[0].text
    assert client.client.instructions in text
    named = [word.split(":")[0] for word in re.findall(r"`([a-z_-]+(?:: [^`]*)?)`", text)]
    assert len(named) > 20 and set(named) <= known, set(named) - known
    for prompt in client.run("list_prompts").prompts:
        (argument,) = prompt.arguments
        told = client.run("get_prompt", prompt.name, {argument.name: "4711"}).messages[0].content.text
        assert "4711" in told and "1. `" in told


# ---- the command ----


def test_a_python_without_the_package_is_one_line_that_says_how_to_get_it():
    answer = run_process([GPUMEM, "mcp", "--python", sys.executable], env={**os.environ, "PYTHONPATH": ""})
    assert (answer.status, answer.out) == (4, "")
    assert answer.err.count("\n") == 1 and "pip install 'mcp>=2'" in answer.err and "gpumem-debugger[mcp]" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--python", "/no/such"], "cannot be started"),
        (["--allow", "file"], "unknown word 'file': did you mean files?"),
        (["--max-answer", "3"], "give 1000 at least"),
        (["--timeout", "0"], "out of range"),
        (["x"], "unexpected argument 'x'"),
        (["--json"], "the protocol is JSON already"),
    ],
)
def test_wrong_words_are_refused(words, said):
    answer = run_process([GPUMEM, "mcp", *words])
    assert answer.status in (2, 4) and answer.out == "" and said in answer.err
