//! Why a program cannot be started: from its file, and from the folders of version managers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::super::diagnosis::{Diagnosis, Repair, Subject};
use crate::standing::quoted;

/// A command that is not on `PATH`.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Missing<'a> {
    pub(in super::super) command: &'a str,
    /// The program of that name in the folder of a version manager.
    pub(in super::super) elsewhere: Option<Elsewhere>,
    /// An installed program with a similar name.
    pub(in super::super) similar: Option<&'a str>,
}

/// A program outside of `PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Elsewhere {
    pub(in super::super) path: PathBuf,
    /// The name of the version manager or the package manager.
    pub(in super::super) manager: &'static str,
    /// Whether its interpreter is only in the same directory.
    pub(in super::super) needs_directory: bool,
}

pub(in super::super) fn missing(subject: &Subject, missing: &Missing) -> Diagnosis {
    let command = missing.command;
    if let Some(found) = &missing.elsewhere {
        return elsewhere(subject, command, found);
    }
    let cause = "program-not-found";
    if let Some(rest) = command.strip_prefix('~') {
        let message = format!("\"{command}\" does not exist: only a shell expands \"~\"");
        let path = format!("\"$HOME\"{}", quoted(rest));
        let fix = subject.edit(
            &format!("--command {path}"),
            "write the full path of \"command\"",
        );
        return Diagnosis::new(cause, message).fix(fix);
    }
    if command.contains("${") || command.starts_with('$') {
        let message = format!("a variable in the command is not set: {command}");
        return Diagnosis::new("variable-not-set", message)
            .fix("set the variable, then run this again");
    }
    if let Some(words) = trunkline_config::split_command(command) {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let options = format!("-- {}", words.join(" "));
        let message = "the \"command\" holds arguments, which belong into \"args\"";
        let fix = subject.edit(
            &options,
            "split the \"command\" into \"command\" and \"args\"",
        );
        return Diagnosis::new("command-line", message).fix(fix);
    }
    let message = if command.contains('/') {
        format!("there is no file {command}")
    } else {
        format!("\"{command}\" is neither on PATH nor in the folder of a version manager")
    };
    let install = match command {
        "npx" | "npm" | "node" => Some("install Node.js: nvm install --lts"),
        "uvx" | "uv" => Some("install uv: pipx install uv"),
        "docker" => Some("install Docker"),
        "python" => Some("use python3: most systems have no \"python\""),
        "bun" | "bunx" => Some("install Bun: npm install -g bun"),
        "deno" => Some("install Deno: npm install -g deno"),
        _ => None,
    };
    let fix = match (missing.similar, install) {
        (Some(similar), _) => subject.edit(
            &format!("--command {similar}"),
            &format!("set \"command\" to \"{similar}\""),
        ),
        (None, Some(install)) => install.to_owned(),
        (None, None) => subject.edit("--command PATH", "correct the \"command\""),
    };
    Diagnosis::new(cause, message).fix(fix)
}

fn elsewhere(subject: &Subject, command: &str, found: &Elsewhere) -> Diagnosis {
    let path = found.path.display().to_string();
    let message = format!(
        "\"{command}\" is not on PATH, but {} has it: {path}",
        found.manager
    );
    let directory = found.path.parent().filter(|_| found.needs_directory);
    let search = directory.map(|directory| format!("{}:${{PATH}}", directory.display()));
    let mut options = format!("--command {}", quoted(&path));
    let mut what = format!("set \"command\" to \"{path}\"");
    if let Some(search) = &search {
        let _ = write!(options, " -e {}", quoted(&format!("PATH={search}")));
        let _ = write!(what, " and \"PATH\" under \"env\" to \"{search}\"");
    }
    Diagnosis::new("program-elsewhere", message)
        .fix(subject.edit(&options, &what))
        .repair(Repair::SetCommand {
            from: command.to_owned(),
            to: found.path.clone(),
            search: directory.map(Path::to_owned),
        })
}

/// A file that is to be run.
#[derive(Clone, Debug)]
pub(in super::super) struct ProgramFile<'a> {
    pub(in super::super) path: &'a Path,
    pub(in super::super) kind: FileKind,
    pub(in super::super) is_executable: bool,
    /// Whether it belongs to the user.
    pub(in super::super) is_own: bool,
    /// The arguments of the entry.
    pub(in super::super) args: &'a [String],
}

/// What the first bytes of a file say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum FileKind {
    Directory,
    /// A program of the machine.
    Binary,
    /// A script with the interpreter of its first line, and whether that exists.
    Script {
        interpreter: String,
        exists: bool,
    },
    /// Anything else.
    Text,
}

impl FileKind {
    /// Reads the kind from the first bytes. `exists` looks up an interpreter.
    pub(in super::super) fn of(head: &[u8], exists: impl Fn(&str) -> bool) -> Self {
        const BINARIES: [&[u8]; 7] = [
            b"\x7fELF",
            b"MZ",
            b"\xcf\xfa\xed\xfe",
            b"\xce\xfa\xed\xfe",
            b"\xca\xfe\xba\xbe",
            b"\xfe\xed\xfa\xcf",
            b"\xfe\xed\xfa\xce",
        ];
        if BINARIES.iter().any(|magic| head.starts_with(magic)) {
            return Self::Binary;
        }
        let Some(rest) = head.strip_prefix(b"#!") else {
            return Self::Text;
        };
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        // `env -S node --flag` and `env node` name the program last.
        let by_env = words.find(|word| !word.starts_with('-') && !word.contains('='));
        let interpreter = match by_env {
            Some(program) if first.ends_with("/env") => program,
            _ => first,
        };
        // A line that ends in a carriage return names no program.
        let is_dos = rest
            .iter()
            .take_while(|byte| **byte != b'\n')
            .any(|byte| *byte == b'\r');
        Self::Script {
            exists: !is_dos && exists(interpreter),
            interpreter: if is_dos {
                format!("{interpreter}\\r")
            } else {
                interpreter.to_owned()
            },
        }
    }
}

/// Returns why a file cannot be run.
pub(in super::super) fn file(subject: &Subject, file: &ProgramFile) -> Option<Diagnosis> {
    let path = file.path.display().to_string();
    let words: Vec<String> = file.args.iter().map(|word| quoted(word)).collect();
    let through = |interpreter: &str| {
        let line = format!("-- {interpreter} {} {}", quoted(&path), words.join(" "));
        let what = format!("start it through \"{interpreter}\"");
        subject.edit(line.trim_end(), &what)
    };
    match &file.kind {
        FileKind::Directory => {
            let message = format!("{path} is a directory");
            let fix = subject.edit("--command PROGRAM", "correct the \"command\"");
            Some(Diagnosis::new("program-is-directory", message).fix(fix))
        }
        FileKind::Script {
            interpreter,
            exists: false,
        } => {
            let message = format!("the interpreter of {path} is missing: {interpreter}");
            let fix = match interpreter.strip_suffix("\\r") {
                Some(_) => format!(
                    "its lines end as on Windows: sed -i 's/\\r$//' {}",
                    quoted(&path)
                ),
                None => format!(
                    "install {interpreter}, or correct the first line of {}",
                    quoted(&path)
                ),
            };
            Some(Diagnosis::new("interpreter-missing", message).fix(fix))
        }
        FileKind::Text if interpreter_of(file.path).is_some() || file.is_executable => {
            let message =
                format!("{path} has no first line with \"#!\" that names its interpreter");
            let interpreter = interpreter_of(file.path).unwrap_or("sh");
            Some(Diagnosis::new("no-shebang", message).fix(through(interpreter)))
        }
        _ if !file.is_executable => {
            let message = format!("{path} is not executable");
            let fix = format!("chmod u+x {}", quoted(&path));
            let diagnosis = Diagnosis::new("not-executable", message).fix(fix);
            // A file without a known start may not be a program at all.
            let is_program = file.kind != FileKind::Text;
            Some(if file.is_own && is_program {
                diagnosis.repair(Repair::MakeExecutable(file.path.to_owned()))
            } else {
                diagnosis
            })
        }
        _ => None,
    }
}

/// Returns the interpreter for a file's extension.
fn interpreter_of(path: &Path) -> Option<&'static str> {
    match path.extension()?.to_str()? {
        "js" | "mjs" | "cjs" => Some("node"),
        "ts" | "mts" => Some("npx -y tsx"),
        "py" => Some("python3"),
        "sh" => Some("sh"),
        "rb" => Some("ruby"),
        "php" => Some("php"),
        "jar" => Some("java -jar"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use trunkline_config::{Scope, ServerEntry};

    use super::*;

    fn user() -> ServerEntry {
        let mut entry = ServerEntry::stdio("s", "c", [""; 0]);
        entry.scope = Scope::User;
        entry
    }

    #[test]
    fn a_missing_program_is_found_elsewhere_or_explained() {
        let entry = user();
        let subject = Subject::of_entry(&entry);
        let nvm = |needs_directory| Elsewhere {
            path: "/h/.nvm/versions/node/v22.1.0/bin/npx".into(),
            manager: "nvm",
            needs_directory,
        };
        for (command, elsewhere, similar, cause, fix) in [
            (
                "npx",
                Some(nvm(false)),
                None,
                "program-elsewhere",
                "trunkline edit s --command /h/.nvm/versions/node/v22.1.0/bin/npx",
            ),
            (
                "npx",
                Some(nvm(true)),
                None,
                "program-elsewhere",
                "trunkline edit s --command /h/.nvm/versions/node/v22.1.0/bin/npx \
                 -e 'PATH=/h/.nvm/versions/node/v22.1.0/bin:${PATH}'",
            ),
            (
                "npx",
                None,
                None,
                "program-not-found",
                "install Node.js: nvm install --lts",
            ),
            (
                "nxp",
                None,
                Some("npx"),
                "program-not-found",
                "trunkline edit s --command npx",
            ),
            (
                "/no/x",
                None,
                None,
                "program-not-found",
                "trunkline edit s --command PATH",
            ),
            (
                "~/x",
                None,
                None,
                "program-not-found",
                "trunkline edit s --command \"$HOME\"/x",
            ),
            (
                "~/$(x)",
                None,
                None,
                "program-not-found",
                "trunkline edit s --command \"$HOME\"'/$(x)'",
            ),
            (
                "npx -y pkg",
                None,
                None,
                "command-line",
                "trunkline edit s -- npx -y pkg",
            ),
            (
                "${X}/run",
                None,
                None,
                "variable-not-set",
                "set the variable, then run this again",
            ),
        ] {
            let found = missing(
                &subject,
                &Missing {
                    command,
                    elsewhere,
                    similar,
                },
            );
            assert_eq!(
                (found.cause, found.fix.as_deref()),
                (cause, Some(fix)),
                "{command}"
            );
        }
    }

    #[test]
    fn the_kind_of_a_file_is_read_from_its_start() {
        let script = |interpreter: &str, exists| FileKind::Script {
            interpreter: interpreter.to_owned(),
            exists,
        };
        for (head, expected) in [
            (&b"\x7fELF\x02"[..], FileKind::Binary),
            (b"#!/bin/sh\necho", script("/bin/sh", true)),
            (b"#!/usr/bin/env node\n", script("node", true)),
            (b"#!/usr/bin/env -S A=1 node --x\n", script("node", true)),
            (b"#!/no/such\n", script("/no/such", false)),
            (b"#!/bin/sh\r\nx", script("/bin/sh\\r", false)),
            (b"console.log(1)", FileKind::Text),
            (b"", FileKind::Text),
        ] {
            let exists = |name: &str| name != "/no/such";
            assert_eq!(FileKind::of(head, exists), expected);
        }
    }

    #[test]
    fn a_file_that_cannot_run_is_explained() {
        let entry = user();
        let subject = Subject::of_entry(&entry);
        let args = ["a b".to_owned()];
        let script = |exists| FileKind::Script {
            interpreter: "node".to_owned(),
            exists,
        };
        for (path, kind, is_executable, expected) in [
            (
                "/d",
                FileKind::Directory,
                true,
                Some(("program-is-directory", "trunkline edit s --command PROGRAM")),
            ),
            (
                "/x",
                script(false),
                true,
                Some((
                    "interpreter-missing",
                    "install node, or correct the first line of /x",
                )),
            ),
            (
                "/x",
                script(true),
                false,
                Some(("not-executable", "chmod u+x /x")),
            ),
            ("/x", script(true), true, None),
            ("/x", FileKind::Binary, true, None),
            (
                "/x.py",
                FileKind::Text,
                true,
                Some(("no-shebang", "trunkline edit s -- python3 /x.py 'a b'")),
            ),
            (
                "/x.js",
                FileKind::Text,
                false,
                Some(("no-shebang", "trunkline edit s -- node /x.js 'a b'")),
            ),
            (
                "/x",
                FileKind::Text,
                false,
                Some(("not-executable", "chmod u+x /x")),
            ),
        ] {
            let found = file(
                &subject,
                &ProgramFile {
                    path: Path::new(path),
                    kind,
                    is_executable,
                    is_own: true,
                    args: &args,
                },
            );
            let found = found.map(|found| (found.cause, found.fix.unwrap_or_default()));
            assert_eq!(
                found.as_ref().map(|(cause, fix)| (*cause, fix.as_str())),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn only_programs_of_the_user_are_made_executable() {
        let entry = user();
        let subject = Subject::of_entry(&entry);
        for (kind, is_own, expected) in [
            (FileKind::Binary, true, true),
            (FileKind::Binary, false, false),
            (FileKind::Text, true, false),
        ] {
            let made = file(
                &subject,
                &ProgramFile {
                    path: Path::new("/x"),
                    kind,
                    is_executable: false,
                    is_own,
                    args: &[],
                },
            );
            assert_eq!(made.unwrap().repair.is_some(), expected);
        }
    }
}
