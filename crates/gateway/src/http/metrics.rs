//! Metrics in the text format of Prometheus (GW-4).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trunkline::Host;
use trunkline::server::State;

/// The maximum number of tools with series of their own. Calls of further ones count as `other`.
const MAX_TOOLS: usize = 500;

/// The label of tools without a series of their own.
const OTHER: &str = "other";

/// The upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 120.0,
];

/// A limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Rate,
    Concurrency,
    Sessions,
    Connections,
    Body,
    Time,
    Unauthorized,
    Host,
    Origin,
}

const LIMITS: [(Limit, &str); 9] = [
    (Limit::Rate, "rate"),
    (Limit::Concurrency, "concurrency"),
    (Limit::Sessions, "sessions"),
    (Limit::Connections, "connections"),
    (Limit::Body, "body"),
    (Limit::Time, "time"),
    (Limit::Unauthorized, "unauthorized"),
    (Limit::Host, "host"),
    (Limit::Origin, "origin"),
];

/// Whether a call succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    Ok,
    /// The result says that the tool failed.
    ToolError,
    /// There is no result.
    Error,
    /// The client cancelled it, or left.
    Cancelled,
}

/// The metrics of an endpoint.
#[derive(Default)]
pub(super) struct Metrics {
    limits: [AtomicU64; LIMITS.len()],
    /// By status class: 1xx to 5xx.
    responses: [AtomicU64; 5],
    pub(super) requests: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) refreshes: AtomicU64,
    calls: Mutex<BTreeMap<(String, String), Calls>>,
}

#[derive(Default)]
struct Calls {
    outcomes: [u64; 4],
    buckets: [u64; BUCKETS.len()],
    seconds: f64,
}

impl Metrics {
    pub(super) fn hit(&self, limit: Limit) {
        let at = LIMITS.iter().position(|(known, _)| *known == limit);
        if let Some(counter) = at.and_then(|at| self.limits.get(at)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn responded(&self, status: http::StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.responses.get(class) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a call of a tool.
    pub(super) fn called(&self, server: &str, tool: &str, outcome: CallOutcome, time: Duration) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (server.to_owned(), tool.to_owned());
        if !calls.contains_key(&key) && calls.len() >= MAX_TOOLS {
            key = (OTHER.to_owned(), OTHER.to_owned());
        }
        let series = calls.entry(key).or_default();
        series.outcomes[outcome as usize] += 1;
        let seconds = time.as_secs_f64();
        series.seconds += seconds;
        if let Some(at) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            series.buckets[at] += 1;
        }
    }

    /// Writes all metrics.
    pub(super) fn render(&self, host: &Host, sessions: usize) -> String {
        let mut text = String::with_capacity(4096);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        gauge(
            &mut text,
            "trunkline_http_connections",
            "Open connections",
            get(&self.connections),
        );
        gauge(
            &mut text,
            "trunkline_http_requests_in_flight",
            "Requests that are being handled",
            get(&self.requests),
        );
        gauge(
            &mut text,
            "trunkline_http_sessions",
            "Open sessions of legacy clients",
            sessions as u64,
        );
        let name = "trunkline_http_responses_total";
        head(&mut text, name, "counter", "Responses by status class");
        for (class, counter) in self.responses.iter().enumerate() {
            let _ = writeln!(text, "{name}{{class=\"{}xx\"}} {}", class + 1, get(counter));
        }
        let name = "trunkline_http_refused_total";
        head(
            &mut text,
            name,
            "counter",
            "Refused requests and connections",
        );
        for ((_, limit), counter) in LIMITS.iter().zip(&self.limits) {
            let _ = writeln!(text, "{name}{{reason=\"{limit}\"}} {}", get(counter));
        }
        self.render_calls(&mut text);
        render_servers(&mut text, host);
        let name = "trunkline_server_changes_total";
        head(&mut text, name, "counter", "Changes of states and catalogs");
        let _ = writeln!(text, "{name} {}", get(&self.refreshes));
        text
    }

    fn render_calls(&self, text: &mut String) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "trunkline_calls_total";
        head(text, name, "counter", "Calls of tools");
        for ((server, tool), series) in &*calls {
            let labels = labels(server, tool);
            let outcomes = ["ok", "tool_error", "error", "cancelled"];
            for (outcome, count) in outcomes.iter().zip(series.outcomes) {
                if count > 0 {
                    let _ = writeln!(text, "{name}{{{labels},outcome=\"{outcome}\"}} {count}");
                }
            }
        }
        let name = "trunkline_call_duration_seconds";
        head(text, name, "histogram", "Durations of calls");
        for ((server, tool), series) in &*calls {
            let labels = labels(server, tool);
            let mut sum = 0;
            for (bound, count) in BUCKETS.iter().zip(series.buckets) {
                sum += count;
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {sum}");
            }
            let total: u64 = series.outcomes.iter().sum();
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {}", series.seconds);
            let _ = writeln!(text, "{name}_count{{{labels}}} {total}");
        }
    }
}

fn render_servers(text: &mut String, host: &Host) {
    let name = "trunkline_server_state";
    head(text, name, "gauge", "The state of each server");
    for server in host.servers() {
        let state = match &server.state {
            State::Pending { .. } => "pending",
            State::Connected(_) => "connected",
            State::NeedsAuth(_) => "needs_auth",
            State::Failed(_) => "failed",
            State::Disabled => "disabled",
            _ => "other",
        };
        let server = escape(&server.name);
        let _ = writeln!(text, "{name}{{server=\"{server}\",state=\"{state}\"}} 1");
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn gauge(text: &mut String, name: &str, help: &str, value: u64) {
    head(text, name, "gauge", help);
    let _ = writeln!(text, "{name} {value}");
}

fn labels(server: &str, tool: &str) -> String {
    format!("server=\"{}\",tool=\"{}\"", escape(server), escape(tool))
}

/// Escapes the value of a label. Names come from servers.
fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_tool_within_a_bounded_number_of_series() {
        let metrics = Metrics::default();
        let took = Duration::from_millis(7);
        metrics.called("git\"hub", "search\n", CallOutcome::Ok, took);
        metrics.called("git\"hub", "search\n", CallOutcome::ToolError, took * 1000);
        for tool in 0..2 * MAX_TOOLS {
            metrics.called("flood", &tool.to_string(), CallOutcome::Ok, took);
        }
        let mut text = String::new();
        metrics.render_calls(&mut text);
        let labels = r#"server="git\"hub",tool="search\n""#;
        for line in [
            format!(r#"trunkline_calls_total{{{labels},outcome="ok"}} 1"#),
            format!(r#"trunkline_calls_total{{{labels},outcome="tool_error"}} 1"#),
            format!(r#"trunkline_call_duration_seconds_bucket{{{labels},le="0.005"}} 0"#),
            format!(r#"trunkline_call_duration_seconds_bucket{{{labels},le="0.01"}} 1"#),
            format!(r#"trunkline_call_duration_seconds_bucket{{{labels},le="+Inf"}} 2"#),
            format!(r"trunkline_call_duration_seconds_count{{{labels}}} 2"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let other = format!(
            r#"trunkline_calls_total{{server="other",tool="other",outcome="ok"}} {}"#,
            MAX_TOOLS + 1
        );
        assert!(text.contains(&other));
        assert_eq!(metrics.calls.lock().unwrap().len(), MAX_TOOLS + 1);
    }
}
