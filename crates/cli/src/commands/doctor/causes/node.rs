//! A Node.js that is too old for a server.

use super::super::diagnosis::{Diagnosis, Subject};
use super::process::after;

/// The oldest version that current packages run on, if a package does not say.
const CURRENT: u32 = 20;

/// Versions below this one lack the syntax and the modules of current packages.
const TOO_OLD: u32 = 18;

/// What an old Node.js says about new code.
const SYMPTOMS: [&str; 6] = [
    "SyntaxError: ",
    "fetch is not defined",
    "structuredClone is not defined",
    "Cannot find module 'node:",
    "ERR_UNKNOWN_BUILTIN_MODULE",
    "Symbol.dispose",
];

pub(super) fn too_old(subject: &Subject, stderr: &[String]) -> Option<Diagnosis> {
    let running = stderr.iter().find_map(|line| running(line));
    let required = stderr.iter().find_map(|line| required(line));
    let shows = |symptom: &str| stderr.iter().any(|line| line.contains(symptom));
    let is_sure = |symptom: &str| symptom.ends_with("is not defined") && shows(symptom);
    let is_old = match (running, required) {
        (Some(running), Some(required)) => running < required,
        (Some(running), None) => running < TOO_OLD && SYMPTOMS.iter().any(|symptom| shows(symptom)),
        (None, Some(_)) => true,
        (None, None) => SYMPTOMS.iter().any(|symptom| is_sure(symptom)),
    };
    if !is_old {
        return None;
    }
    let wanted = required.unwrap_or(CURRENT);
    let message = match running {
        Some(running) => {
            format!("Node.js {running} is too old for the server, which needs {wanted} or newer")
        }
        None => format!("the server needs Node.js {wanted} or newer"),
    };
    let fix = format!("nvm install {wanted} && {}", subject.command("doctor"));
    Some(Diagnosis::new("node-too-old", message).fix(fix))
}

/// Returns the major version that runs.
fn running(line: &str) -> Option<u32> {
    let of_crash = line.trim().strip_prefix("Node.js v");
    let of_npm = || after(line, "current: { node: 'v");
    let of_text = || after(line, "You are using Node.js ").map(|rest| rest.trim_start_matches('v'));
    major(of_crash.or_else(of_npm).or_else(of_text)?)
}

/// Returns the major version that a package requires.
fn required(line: &str) -> Option<u32> {
    let engines = after(line, "required: { node: '");
    let of_text = || {
        let lower = line.to_ascii_lowercase();
        let at = lower
            .find("requires node")
            .or_else(|| lower.find("node.js version >="))?;
        Some(&line[at..])
    };
    let rest = engines.or_else(of_text)?;
    major(rest.trim_start_matches(|c: char| !c.is_ascii_digit()))
}

fn major(text: &str) -> Option<u32> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use trunkline_config::ServerEntry;

    use super::*;

    #[test]
    fn the_version_is_judged_by_engines_and_by_symptoms() {
        let npm = "npm WARN EBADENGINE   required: { node: '>=20.0.0' },\n\
                   npm WARN EBADENGINE   current: { node: 'v14.21.3', npm: '6.14.18' }";
        for (stderr, expected) in [
            (
                npm,
                Some("Node.js 14 is too old for the server, which needs 20 or newer"),
            ),
            (
                "SyntaxError: Unexpected token '??='\nNode.js v14.21.3",
                Some("Node.js 14 is too old for the server, which needs 20 or newer"),
            ),
            ("SyntaxError: Unexpected token\nNode.js v22.3.0", None),
            (
                "ReferenceError: fetch is not defined",
                Some("the server needs Node.js 20 or newer"),
            ),
            (
                "This package requires Node.js 18 or higher",
                Some("the server needs Node.js 18 or newer"),
            ),
            (
                "npm WARN EBADENGINE   required: { node: '>=20' },\nNode.js v22.1.0",
                None,
            ),
            ("TypeError: x is undefined\nNode.js v16.0.0", None),
            ("", None),
        ] {
            let lines: Vec<String> = stderr.lines().map(str::to_owned).collect();
            let entry = ServerEntry::stdio("s", "npx", ["x"]);
            let found = too_old(&Subject::of_entry(&entry), &lines);
            assert_eq!(
                found.as_ref().map(|found| found.message.as_str()),
                expected,
                "{stderr}"
            );
        }
    }
}
