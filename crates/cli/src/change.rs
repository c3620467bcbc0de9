//! What commands that change configuration have in common: telling what was written where, or why not.

use std::path::Path;

use serde_json::{Value, json};
use trunkline_config::{ChangeError, Written};

use crate::exit::Exit;
use crate::output::{self, Lines, inline};

/// The file that was written, for `--json`, where every name must be text.
pub(crate) fn path(written: &Written) -> String {
    written.file.to_string_lossy().into_owned()
}

/// Tells what was done and which file was changed.
pub(crate) fn tell(what: &str, written: &Written, document: Value, as_json: bool) -> Exit {
    tell_lines(Lines::one(inline(what)), written, document, as_json)
}

/// As [`tell`], where several lines say what was done.
pub(crate) fn tell_lines(
    mut lines: Lines,
    written: &Written,
    mut document: Value,
    as_json: bool,
) -> Exit {
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
        "nothing to change in"
    };
    lines.push(format!("  {done} {place}"));
    output::result(lines);
    Exit::Done
}

/// Explains why nothing was changed.
pub(crate) fn fail(error: &ChangeError, hint: Option<&str>) -> Exit {
    output::error(&error.to_string(), hint);
    exit(error)
}

/// How the program ends where nothing was changed.
pub(crate) fn exit(error: &ChangeError) -> Exit {
    if error.is_refused() {
        Exit::Refused
    } else {
        Exit::Usage
    }
}

/// Explains that a company's file decides.
pub(crate) fn refuse_exclusive(file: &Path) -> Exit {
    fail(
        &ChangeError::Exclusive(file.to_owned()),
        Some("ask whoever manages this machine"),
    )
}
