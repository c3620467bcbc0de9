//! `trunkline list`: connects to all servers and shows their status.

mod plain;
mod row;
mod summary;
mod view;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trunkline::Host;
use trunkline::server::State;
use trunkline_config::{CONNECTOR_PREFIX, Diagnostic, Server};

use crate::args::{ConfigArgs, ListArgs};
use crate::exit::Exit;
use crate::output::{self, Lines, Live, Stream, inline, name};
use crate::session;

pub(crate) use plain::{Detail, table};
pub(crate) use row::{Row, rows};
pub(crate) use summary::{resource_count, status_of};
pub(crate) use view::{card, overview};

/// The time between two frames, while seconds pass.
const TICK: Duration = Duration::from_secs(1);

/// How long each server took to connect or to fail.
pub(crate) type Timings = BTreeMap<Arc<str>, Duration>;

/// What is printed.
struct Listing<'a> {
    args: &'a ListArgs,
    /// Why there are no servers.
    nothing: Option<String>,
    verbose: bool,
    as_json: bool,
    started: Instant,
    timings: RefCell<Timings>,
    screen: RefCell<Live>,
}

pub(crate) async fn run(
    config: &ConfigArgs,
    args: &ListArgs,
    verbose: bool,
    as_json: bool,
) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let connectors = session::connectors(configured.loader.layout());
    for name in &args.names {
        let may_be_connector = connectors.is_some() && name.starts_with(CONNECTOR_PREFIX);
        let is_broken = || configured.set.diagnostics_for(name).next().is_some();
        if configured.foremost(name).is_none() && !may_be_connector && !is_broken() {
            return configured.unknown(name);
        }
    }
    let loader = &configured.loader;
    let above = session::project_above(loader.layout(), &loader.project().cwd);
    let above = above.map(|above| format!("no servers are configured here; {above}"));
    let listing = Listing {
        args,
        nothing: configured.left_out().map(str::to_owned).or(above),
        verbose,
        as_json,
        started: Instant::now(),
        timings: RefCell::default(),
        screen: RefCell::new(Live::new()),
    };
    let mut builder = configured.host();
    if !args.names.is_empty() {
        let names = args.names.clone();
        builder = builder.only(move |name| names.iter().any(|wanted| wanted == name));
    }
    if let Some(connectors) = connectors {
        builder = builder.connectors(connectors);
    }
    let listing = &listing;
    let work = |host: Host| async move {
        listing.wait(&host).await;
        listing.show(&host, false);
        Exit::Done
    };
    // On an interrupt, show the servers that are known so far.
    session::with_host_or(builder, work, |host| listing.show(host, true)).await
}

impl Listing<'_> {
    /// Waits for all servers. On a terminal, their rows change as they answer.
    async fn wait(&self, host: &Host) {
        let is_live = !self.as_json && output::is_animated(Stream::Out);
        if !is_live && output::is_animated(Stream::Err) {
            return session::ready(host).await;
        }
        let mut events = host.events();
        let mut ready = std::pin::pin!(host.ready());
        loop {
            self.record(host);
            if is_live {
                self.draw(host);
            }
            tokio::select! {
                () = &mut ready => break,
                _ = events.next() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
        self.record(host);
    }

    /// Notes which servers have connected or failed.
    fn record(&self, host: &Host) {
        let mut timings = self.timings.borrow_mut();
        for server in host.servers() {
            let is_settled = !matches!(
                server.state,
                State::Pending {
                    last_failure: None,
                    attempt: 1..
                }
            );
            if is_settled && !timings.contains_key(&server.name) {
                timings.insert(Arc::clone(&server.name), self.started.elapsed());
            }
        }
    }

    fn draw(&self, host: &Host) {
        let set = host.config();
        let rows = self.chosen(rows(host, &set));
        let width = output::width(Stream::Out).unwrap_or(80);
        let elapsed = self.started.elapsed();
        // Rows that have scrolled away cannot be changed, and some terminals keep what is erased
        // from their first row on.
        let room = output::height(Stream::Out).unwrap_or(0).saturating_sub(2);
        let mut shown = view::screen(&rows, elapsed, None, width).rows(Some(width));
        if shown.len() > room {
            shown = view::unsettled(&rows, elapsed, width).rows(Some(width));
        }
        let first = shown.len().saturating_sub(room);
        let mut visible = Lines::new();
        for row in shown.into_iter().skip(first) {
            visible.push_line(row);
        }
        self.screen.borrow_mut().draw(&visible);
    }

    /// Returns the rows that were asked for.
    fn chosen<'r>(&self, mut rows: Vec<Row<'r>>) -> Vec<Row<'r>> {
        let names = &self.args.names;
        if !names.is_empty() {
            rows.retain(|row| names.iter().any(|name| name == row.name()));
        }
        if self.args.failed {
            rows.retain(summary::needs_care);
        }
        rows
    }

    /// Prints the servers; `is_over` means that waiting was interrupted.
    fn show(&self, host: &Host, is_over: bool) {
        self.screen.borrow_mut().clear();
        let set = host.config();
        let mut rows = rows(host, &set);
        for row in &mut rows {
            row.is_over = is_over;
        }
        let is_empty = rows.is_empty();
        let rows = self.chosen(rows);
        if self.as_json {
            let is_shown = |about: &str| rows.iter().any(|row| row.name() == about);
            for problem in &set.diagnostics {
                if !problem.server.as_deref().is_some_and(is_shown) {
                    output::warning(&problem.to_string());
                }
            }
            output::json(&rows.iter().map(Row::as_value).collect::<Vec<_>>());
            return;
        }
        if let (true, Some(file)) = (is_empty, &set.exclusive) {
            output::result(Lines::one(format!(
                "the enterprise configuration has exclusive control and no servers ({})",
                file.display()
            )));
        } else if is_empty && !set.diagnostics.is_empty() {
            output::result("no servers could be loaded");
        } else if let (true, Some(nothing)) = (is_empty, &self.nothing) {
            output::result(Lines::one(nothing));
        } else if is_empty {
            output::result(table(&[], Detail::Short));
        } else if rows.is_empty() {
            output::note("no server has failed");
        } else {
            output::result(self.lines(&rows));
        }
        if self.args.names.is_empty() && !self.args.failed {
            output::result(problems(host, &rows, &set.diagnostics));
        }
        let of_project = |server: &Server| server.entry.needs_approval();
        if let Some(all) = &set.approve_all
            && set.servers.iter().any(of_project)
        {
            output::note(Lines::one(format!("note: {all}")));
        }
    }

    fn lines(&self, rows: &[Row]) -> Lines {
        let timings = self.timings.borrow();
        let timings = self.verbose.then_some(&*timings);
        match output::width(Stream::Out) {
            Some(width) => view::screen(rows, self.started.elapsed(), timings, width),
            None if self.verbose => plain::table_with(rows, timings),
            None => table(rows, Detail::Short),
        }
    }
}

/// Formats a count with its noun.
pub(crate) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Formats the problems of the configuration and of catalogs.
fn problems(host: &Host, rows: &[Row], diagnostics: &[Diagnostic]) -> Lines {
    // The row of an invalid entry has its problem already.
    let is_told = |problem: &&Diagnostic| {
        let mut invalid = rows.iter().filter(|row| row.is_invalid());
        invalid.any(|row| row.diagnostics.first() == Some(problem))
    };
    let untold = diagnostics.iter().filter(|problem| !is_told(problem));
    let mut problems: Vec<String> = untold.map(ToString::to_string).collect();
    for server in host.servers() {
        let of_server = server.catalog.diagnostics.iter();
        problems.extend(of_server.map(|problem| format!("{}: {problem}", name(&server.name))));
    }
    problems.extend(host.pool().diagnostics().iter().cloned());
    let mut lines = Lines::new();
    if !problems.is_empty() {
        lines.push_gap();
        lines.push_heading("problems:");
    }
    for problem in problems {
        lines.push(format!("  {}", inline(&problem)));
    }
    lines
}
