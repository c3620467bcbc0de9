//! Opens an entry in the user's editor.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::Value;
use tempfile::TempDir;
use trunkline_config::{ChangeError, EntryChange, EntryEdit, EntryText, Scope};

use crate::change;
use crate::exit::Exit;
use crate::interrupt::interrupted;
use crate::output;
use crate::program;
use crate::session::Configured;

/// Opens the entry in the editor and writes the result once it is valid; `None` if unchanged. If it
/// cannot be written, the user may continue editing; otherwise the text is kept in a file.
pub(super) async fn edit(
    configured: &Configured,
    scope: Scope,
    name: &str,
    seen: &EntryText,
) -> Result<Option<EntryChange>, Exit> {
    let before: Option<Value> = serde_json::from_str(&seen.text).ok();
    let pretty = before.as_ref().map(serde_json::to_string_pretty);
    let shown = match pretty {
        Some(Ok(pretty)) => pretty + "\n",
        _ => seen.text.clone(),
    };
    let mut draft = Draft::new(name, &shown).map_err(|error| {
        output::error(&format!("cannot write a temporary file: {error}"), None);
        Exit::Failed
    })?;
    loop {
        draft.open().await?;
        let text = match draft.read() {
            Ok(text) => text,
            Err(error) => {
                let what = format!("cannot read the edited file: {error}");
                draft.keep();
                output::error(&what, Some(&draft.place()));
                return Err(Exit::Usage);
            }
        };
        if text == shown {
            return Ok(None);
        }
        let after: Value = match serde_json::from_str(&text) {
            Ok(after) => after,
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let what = format!("the entry is not valid JSON (line {line}, column {column})");
                if draft.edit_again(&what, true) {
                    continue;
                }
                return Err(Exit::Usage);
            }
        };
        let edits = match &before {
            Some(before) => EntryEdit::between(before, &after),
            None => vec![EntryEdit::set(&[], after)],
        };
        if edits.is_empty() {
            return Ok(None);
        }
        let policy = &configured.set.policy;
        let editor = configured.editor();
        match editor.edit_entry(scope, name, seen, &edits, policy) {
            Ok(changed) => return Ok(Some(changed)),
            Err(error) => {
                // Editing can fix only a bad or blocked entry.
                let is_fixable = matches!(
                    error,
                    ChangeError::BadEntry { .. } | ChangeError::Blocked { .. }
                );
                if !draft.edit_again(&error.to_string(), is_fixable) {
                    return Err(change::exit(&error));
                }
            }
        }
    }
}

/// The text being edited, in a private directory. Deleted on drop unless kept.
struct Draft {
    dir: TempDir,
    file: PathBuf,
}

impl Draft {
    fn new(name: &str, text: &str) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("trunkline-edit-");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let dir = builder.tempdir()?;
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let name: String = name.chars().take(60).map(safe).collect();
        let file = dir.path().join(format!("{name}.json"));
        private(&file)?.write_all(text.as_bytes())?;
        Ok(Self { dir, file })
    }

    /// Runs the editor and waits for it.
    async fn open(&self) -> Result<(), Exit> {
        let mut command = editor(&self.file);
        let mut running = tokio::task::spawn_blocking(move || command.status());
        let status = loop {
            tokio::select! {
                status = &mut running => break status,
                // Ctrl-C belongs to the editor.
                () = interrupted() => {}
            }
        };
        let problem = match status {
            Ok(Ok(status)) if status.success() => return Ok(()),
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => format!("could not start: {error}"),
            Err(error) => error.to_string(),
        };
        let what = format!("nothing changed: the editor failed ({problem})");
        output::error(&what, Some("set VISUAL or EDITOR to an editor"));
        Err(Exit::Failed)
    }

    fn read(&self) -> io::Result<String> {
        std::fs::read_to_string(&self.file)
    }

    /// Reports a problem and returns whether the user continues editing. Otherwise keeps the text.
    fn edit_again(&mut self, what: &str, is_fixable: bool) -> bool {
        if !(is_fixable && output::can_ask()) {
            self.keep();
            output::error(what, Some(&self.place()));
            return false;
        }
        output::error(what, None);
        let again = output::ask("edit again?");
        if !again {
            self.keep();
            output::note(output::Lines::one(self.place()));
        }
        again
    }

    /// Keeps the file.
    fn keep(&mut self) {
        self.dir.disable_cleanup(true);
    }

    /// Returns a hint to the kept file.
    fn place(&self) -> String {
        let file = self.file.display();
        format!("nothing changed; your text is in {file}")
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "killed by a signal".to_owned(),
    }
}

/// Returns the user's editor, which may be a command line.
fn editor(file: &Path) -> Command {
    let wanted = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let fallback = if cfg!(windows) { "notepad" } else { "vi" };
    let line = wanted("VISUAL").or_else(|| wanted("EDITOR"));
    let mut line = line.unwrap_or_else(|| OsString::from(fallback));
    if cfg!(windows) {
        let mut command = program::command(line);
        command.arg(file);
        return command;
    }
    line.push(" \"$@\"");
    let mut command = program::command("sh");
    command.arg("-c").arg(line).arg("sh").arg(file);
    command
}

#[cfg(unix)]
fn private(file: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(file)
}

#[cfg(not(unix))]
fn private(file: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(file)
}
