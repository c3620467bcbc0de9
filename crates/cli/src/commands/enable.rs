//! `trunkline enable` and `disable`, for this project (CFG-10).

use serde_json::json;
use trunkline_config::CONNECTOR_PREFIX;

use crate::args::ConfigArgs;
use crate::change;
use crate::exit::Exit;
use crate::output;
use crate::session;
use crate::standing;

pub(crate) fn run(config: &ConfigArgs, name: &str, on: bool, as_json: bool) -> Exit {
    let configured = match session::configuration(config) {
        Ok(configured) => configured,
        Err(exit) => return exit,
    };
    let word = if on { "enabled" } else { "disabled" };
    let Some(server) = configured.foremost(name) else {
        // No file lists connectors, but the choice is stored all the same.
        if name.starts_with(CONNECTOR_PREFIX) {
            let entry = trunkline::ServerEntry::stdio(name, "", [""; 0]);
            return report(
                &configured.editor().set_enabled(&entry, on),
                name,
                word,
                as_json,
            );
        }
        return configured.unknown(name);
    };
    let exit = report(
        &configured.editor().set_enabled(&server.entry, on),
        name,
        word,
        as_json,
    );
    let runs = server.status.may_run();
    if let (Exit::Done, true, false, Some((reason, hint))) =
        (exit, on, runs, standing::reason(server))
    {
        output::warning(&format!("\"{name}\" still does not run: {reason}"));
        if let Some(hint) = hint {
            output::hint(&hint);
        }
    }
    exit
}

fn report(
    outcome: &Result<trunkline_config::WriteOutcome, trunkline_config::ChangeError>,
    name: &str,
    word: &str,
    as_json: bool,
) -> Exit {
    match outcome {
        Ok(written) => {
            let what = format!("{word} \"{name}\" in this project");
            let document = json!({word: name, "file": change::path(written)});
            change::report(&what, written, document, as_json)
        }
        Err(error) => change::fail(error, None),
    }
}
