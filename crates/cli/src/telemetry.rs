//! Prints the library's spans and events to stderr: `RUST_LOG` or `--verbose`.
//!
//! Only targets of Trunkline itself are printed. Dependencies log headers at low levels, which
//! may contain tokens.

use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::prelude::*;
use trunkline_config::env_vars::RUST_LOG;

use crate::output;

/// The prefix of our targets.
const TARGET: &str = "trunkline";

/// Installs the subscriber if `RUST_LOG` or `--verbose` asks for one.
pub(crate) fn init(verbose: bool) {
    let requested = std::env::var(RUST_LOG).unwrap_or_default();
    let Some(targets) = targets(&requested, verbose) else {
        return;
    };
    let ours = filter_fn(move |metadata| {
        metadata.target().starts_with(TARGET)
            && targets.would_enable(metadata.target(), metadata.level())
    });
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_filter(ours);
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

/// Parses the filter; `None` if nothing is to be printed. `--verbose` applies without `RUST_LOG`.
fn targets(requested: &str, verbose: bool) -> Option<Targets> {
    if requested.trim().is_empty() {
        return verbose.then(|| Targets::new().with_default(LevelFilter::INFO));
    }
    match Targets::from_str(requested) {
        Ok(targets) => Some(targets),
        Err(error) => {
            output::warning(&format!("{RUST_LOG} is ignored: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn rust_log_wins_over_verbose_and_nothing_is_printed_without_either() {
        assert!(targets("", false).is_none());
        let enables = |requested: &str, verbose, level| {
            targets(requested, verbose).is_some_and(|found| found.would_enable("trunkline", &level))
        };
        assert!(enables("", true, Level::INFO) && !enables("", true, Level::DEBUG));
        assert!(enables("trunkline=debug", false, Level::DEBUG));
        assert!(!enables("off", true, Level::INFO));
    }
}
