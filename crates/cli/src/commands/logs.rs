//! `trunkline logs`: shows the logs of servers.

use std::time::Duration;

use serde::Serialize;
use trunkline::log::{LogKind, LogLine, LogStore};
use unicode_width::UnicodeWidthStr;

use super::tools::{NO_SERVERS, unknown_server};
use crate::args::{ConfigArgs, LogsArgs};
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output::{self, Line, Lines, Style, name as shown_name};
use crate::session;
use crate::standing::quoted;

/// The default number of lines.
const DEFAULT_LINES: usize = 100;

/// The polling interval of --follow.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The maximum width of the name column.
const MAX_NAME_WIDTH: usize = 24;

pub(crate) async fn run(config: &ConfigArgs, args: &LogsArgs, as_json: bool) -> Exit {
    let Some(store) = session::logs() else {
        output::error(
            "there are no logs without a home directory",
            Some("set HOME or XDG_STATE_HOME"),
        );
        return Exit::Usage;
    };
    let server = args.server.as_deref();
    if let Some(name) = server
        && !store.has(name)
        && let Err(exit) = known(config, &store, name)
    {
        return exit;
    }
    let printer = LogPrinter::new(&store, server, as_json, args.follow);
    let newest = args.lines.or(args.since.is_none().then_some(DEFAULT_LINES));
    if args.follow {
        let (lines, follow) = store.follow(server, newest, args.since.as_ref());
        printer.show(&lines);
        if lines.is_empty() {
            note_empty(&store, server, "; waiting");
        }
        return tokio::select! {
            exit = follow_logs(follow, &printer) => exit,
            () = interrupted() => Exit::Interrupted,
        };
    }
    let lines = store.read(server, newest, args.since.as_ref());
    if as_json {
        output::json(&lines.iter().map(LineJson::of).collect::<Vec<_>>());
    } else {
        printer.show(&lines);
    }
    if lines.is_empty() {
        note_empty(&store, server, "");
    }
    Exit::Done
}

/// Checks that a server without a log exists. An `Err` has been reported.
fn known(config: &ConfigArgs, store: &LogStore, name: &str) -> Result<(), Exit> {
    let configured = session::configuration(config)?;
    let mut names = configured.names();
    if names.contains(&name) {
        return Ok(());
    }
    let logged = store.servers();
    names.extend(logged.iter().map(String::as_str));
    names.sort_unstable();
    names.dedup();
    Err(unknown_server(name, names.into_iter(), NO_SERVERS))
}

/// Prints new lines until the reader is gone.
async fn follow_logs(mut follow: trunkline::log::Follow, printer: &LogPrinter) -> Exit {
    while !output::gone() {
        tokio::time::sleep(POLL_INTERVAL).await;
        printer.show(&follow.poll());
    }
    Exit::Done
}

/// Notes that there are no logs yet.
fn note_empty(store: &LogStore, server: Option<&str>, more: &str) {
    let logged = match server {
        Some(server) => store.has(server),
        None => !store.servers().is_empty(),
    };
    // There are logs, but none that match.
    if logged {
        return;
    }
    let (what, command) = match server {
        Some(server) => (
            format!("no logs of \"{server}\" yet"),
            format!("`trunkline tools {}`", quoted(server)),
        ),
        None => ("no logs yet".to_owned(), "`trunkline list`".to_owned()),
    };
    let mut lines = Lines::one(format!("{what}{more}"));
    lines.push(format!(
        "  hint: commands that connect, such as {command}, write logs to {}",
        store.dir().display()
    ));
    output::note(lines);
}

/// Prints log lines.
struct LogPrinter {
    /// The width of the name column; `None` for a single server.
    names: Option<usize>,
    json: bool,
    /// Whether more lines will follow.
    follow: bool,
}

impl LogPrinter {
    fn new(store: &LogStore, server: Option<&str>, json: bool, follow: bool) -> Self {
        let widest = || {
            let names = store.servers();
            let widths = names.iter().map(|name| shown_name(name).width());
            widths.max().unwrap_or(0).min(MAX_NAME_WIDTH)
        };
        Self {
            names: server.is_none().then(widest),
            json,
            follow,
        }
    }

    fn show(&self, lines: &[LogLine]) {
        if self.json {
            for line in lines {
                output::json_line(&LineJson::of(line));
            }
            return;
        }
        let mut shown = Lines::new();
        for line in lines {
            self.put(line, &mut shown);
        }
        if shown.is_empty() {
            return;
        }
        if self.follow {
            output::result(shown);
        } else {
            output::paged(shown);
        }
    }

    fn put(&self, line: &LogLine, lines: &mut Lines) {
        let mut shown = Line::new();
        if let Some(width) = self.names {
            shown.push(Style::Name, shown_name(&line.server));
            shown.pad(width.max(shown.width()) + 2);
        }
        let style = match line.kind {
            LogKind::Notice => Style::Attention,
            LogKind::State => Style::Literal,
            _ => Style::Plain,
        };
        shown.push(Style::Dim, &line.time);
        shown.push(Style::Plain, " ");
        shown.push_whole(style, format_args!("{:<6} {}", line.kind.name(), line.text));
        lines.push_line(shown);
    }
}

/// A line for `--json`.
#[derive(Serialize)]
struct LineJson<'a> {
    time: &'a str,
    server: &'a str,
    kind: &'static str,
    text: &'a str,
}

impl<'a> LineJson<'a> {
    fn of(line: &'a LogLine) -> Self {
        Self {
            time: &line.time,
            server: &line.server,
            kind: line.kind.name(),
            text: &line.text,
        }
    }
}
