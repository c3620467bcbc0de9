//! Reports of commands that change the configuration.

use std::path::Path;

use serde_json::{Value, json};
use trunkline_config::{ChangeError, WriteOutcome};

use crate::audit;
use crate::exit::Exit;
use crate::output::{self, Lines, inline};

/// Returns the written file as text, for `--json`.
pub(crate) fn path(written: &WriteOutcome) -> String {
    written.file.to_string_lossy().into_owned()
}

/// Reports a change and the file that it was written to.
pub(crate) fn report(what: &str, written: &WriteOutcome, document: Value, as_json: bool) -> Exit {
    report_lines(Lines::one(inline(what)), written, document, as_json)
}

/// Reports a change that takes several lines.
pub(crate) fn report_lines(
    mut lines: Lines,
    written: &WriteOutcome,
    mut document: Value,
    as_json: bool,
) -> Exit {
    audit::record_change(written, &document);
    if as_json {
        if let Some(project) = &written.project {
            document["project"] = json!(project);
        }
        if !written.changed {
            document["changed"] = json!(false);
        }
        output::json(&document);
        return Exit::Done;
    }
    let file = written.file.display().to_string();
    let place = match &written.project {
        Some(project) => format!("{file} (project {project})"),
        None => file,
    };
    let done = if written.changed {
        "written to"
    } else {
        "no change in"
    };
    lines.push(format!("  {done} {place}"));
    output::result(lines);
    Exit::Done
}

/// Reports that nothing was changed.
pub(crate) fn fail(error: &ChangeError, hint: Option<&str>) -> Exit {
    output::error(&error.to_string(), hint);
    exit(error)
}

/// Returns the exit code for a failed change.
pub(crate) fn exit(error: &ChangeError) -> Exit {
    if error.is_refused() {
        Exit::Refused
    } else {
        Exit::Usage
    }
}

/// Reports that the enterprise configuration is exclusive.
pub(crate) fn refuse_exclusive(file: &Path) -> Exit {
    fail(
        &ChangeError::Exclusive(file.to_owned()),
        Some("ask the administrator of this machine"),
    )
}
