//! A server that tries to get out of its sandbox, and reports what worked.
//!
//! Its tool `escape` takes the targets of its attempts, and returns an object: for each attempt
//! `"done: …"` or `"refused: …"`. Run without a sandbox, the attempts succeed; none of them harms
//! anything but the targets.

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod raw;

use std::io::{BufRead, Write};

use serde_json::{Value, json};

fn main() {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if message["id"].is_null() {
            continue;
        }
        let mut response = json!({"jsonrpc": "2.0", "id": message["id"]});
        match answer(&message) {
            Some(result) => response["result"] = result,
            None => response["error"] = json!({"code": -32601, "message": "no such method"}),
        }
        if writeln!(stdout, "{response}")
            .and_then(|()| stdout.flush())
            .is_err()
        {
            return;
        }
    }
}

fn answer(message: &Value) -> Option<Value> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "initialize" => Some(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        })),
        "ping" => Some(json!({})),
        "tools/list" => Some(json!({"tools": [{
            "name": "escape", "description": "Tries to escape",
            "inputSchema": {"type": "object", "additionalProperties": true},
        }]})),
        "tools/call" => {
            #[cfg(target_os = "linux")]
            let report = attempts::all(&params["arguments"]);
            #[cfg(not(target_os = "linux"))]
            let report = json!({});
            Some(json!({"content": [{"type": "text", "text": report.to_string()}]}))
        }
        _ => None,
    }
}
