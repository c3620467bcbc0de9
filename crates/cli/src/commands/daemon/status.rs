//! `trunkline daemon status`.

use serde_json::{Value, json};
use trunkline_gateway::daemon::request_status;
use trunkline_gateway::socket::{ConnectFailure, SocketPlace};

use crate::exit::Exit;
use crate::output::{self, Column, Line, Lines, Stream, Style, Table, name};

pub(super) async fn run(place: &SocketPlace, as_json: bool) -> Exit {
    match request_status(place).await {
        Ok(status) => {
            if as_json {
                output::json(&status);
            } else {
                output::result(lines(&status));
            }
            Exit::Done
        }
        Err(ConnectFailure::NotRunning) => {
            if as_json {
                output::json(&json!({"running": false, "socket": place.socket}));
            }
            output::error(
                "no daemon is running",
                Some("start it with `trunkline daemon start`"),
            );
            Exit::NotConnected
        }
        Err(error) => super::fail(&error),
    }
}

fn lines(status: &Value) -> Lines {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = Lines::one(format!(
        "daemon {} (pid {}), {}; {} with its servers",
        name(&text(&status["version"])),
        status["pid"],
        megabytes(&status["memoryBytes"]),
        megabytes(&status["totalMemoryBytes"]),
    ));
    lines.push(format!("  {}", text(&status["socket"])));
    let servers = status["servers"].as_array().map_or(&[][..], Vec::as_slice);
    if servers.is_empty() {
        lines.push("no servers");
        return lines;
    }
    let mut table = Table::new([Column::Keep, Column::Keep, Column::Keep, Column::Flexible]);
    for server in servers {
        let clients = match server["clients"].as_u64() {
            Some(1) => "1 client".to_owned(),
            clients => format!("{} clients", clients.unwrap_or_default()),
        };
        table.row([
            Line::of(Style::Name, name(&text(&server["name"]))),
            Line::plain(format!("{}, {clients}", text(&server["state"]))),
            Line::plain(megabytes(&server["memoryBytes"])),
            Line::of(Style::Dim, text(&server["project"])),
        ]);
    }
    lines.append(table.lines(output::width(Stream::Out)));
    lines
}

fn megabytes(bytes: &Value) -> String {
    match bytes.as_u64() {
        Some(bytes) => format!("{}.{} MB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20),
        None => "memory unknown".to_owned(),
    }
}
