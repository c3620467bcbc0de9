"""Offers a server of its own to Trunkline, and calls tools through it: python3 embedder.py [trunkline [options]]"""
import itertools, json, subprocess, sys
program = sys.argv[1:] or ["trunkline"]
child = subprocess.Popen([program[0], "sdk", *program[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
numbers, answers = itertools.count(1), {}

def send(line):
    child.stdin.write(json.dumps(line).encode() + b"\n")
    child.stdin.flush()

def ask(subtype, **request):  # asks Trunkline, and serves it until the answer is there
    ours = f"ask_{next(numbers)}"
    send({"type": "control_request", "request_id": ours, "request": {"subtype": subtype, **request}})
    while ours not in answers:
        line = json.loads(child.stdout.readline() or sys.exit("trunkline has ended"))
        if line["type"] == "control_response":
            answers[line["response"]["request_id"]] = line["response"]
        elif line["type"] == "control_request":
            serve(line["request_id"], line["request"])
        elif line["type"] == "progress":
            print(f"progress: {line['progress']:g} of {line['total']:g}")
    answer = answers.pop(ours)
    return answer["response"] if answer["subtype"] == "success" else answer["error"]

def serve(theirs, request):  # answers Trunkline: a question for our user, or a message for our server
    if request["subtype"] == "can_use_tool": print("asked about", request["tool_name"])
    answers = {"elicitation": {"action": "accept", "content": {"name": "Ada"}}, "can_use_tool": {"behavior": "allow"}}
    response = answers.get(request["subtype"]) or {"mcp_response": calc(request["message"])}
    send({"type": "control_response", "response": {"subtype": "success", "request_id": theirs, "response": response}})

def calc(message):  # our server: a JSON-RPC message comes in, the answer goes out
    params, outcome = message.get("params"), {"error": {"code": -32601, "message": "no such method"}}
    if message["method"] == "initialize":
        outcome = {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                              "serverInfo": {"name": "calc", "version": "1.0"}}}
    elif message["method"] == "tools/list":
        outcome = {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}}
    elif message["method"] == "tools/call":
        outcome = {"result": {"content": [{"type": "text", "text": tools[params["name"]](params)}]}}
    return {"jsonrpc": "2.0", "id": message.get("id"), **outcome}

def add(params):
    step = {"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 2}
    ask("mcp_message", server_name="calc", message={"method": "notifications/progress", "params": step})
    return str(params["arguments"]["a"] + params["arguments"]["b"])

def greet(params):
    form = {"message": "Who are you?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
    question = {"jsonrpc": "2.0", "id": next(numbers), "method": "elicitation/create", "params": form}
    answer = ask("mcp_message", server_name="calc", message=question)
    return f"Hello, {answer['mcp_response']['result']['content']['name']}!"

tools = {"add": add, "greet": greet}
ask("initialize", sdkMcpServers=["calc"], canUseTool=True)
print([tool["name"] for tool in ask("tools")["tools"]])
print(ask("call_tool", name="mcp__calc__add", arguments={"a": 2, "b": 3})["content"][0]["text"])
print(ask("call_tool", name="mcp__calc__greet")["content"][0]["text"])
print(ask("call_tool", name="mcp__calc__divide"))
child.stdin.close()  # which ends Trunkline and every server that it started
