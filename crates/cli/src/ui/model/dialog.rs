//! Dialogs: questions from servers and from the permission rules, and our own confirmations.
//!
//! A question appears at any moment, so it takes no key before the user has stopped typing. The
//! first answer of every dialog is the harmless one, and Enter alone never does harm.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent};
use trunkline::auth::BrowserUrl;
use trunkline::elicit::ElicitAnswer;
use trunkline::permission::PermissionAnswer;
use trunkline_config::{EntryStatus, Server as ConfiguredServer};
use url::Url;

use super::form::FormState;
use crate::output::name;
use crate::scripts::{ScriptChange, ScriptLine};
use crate::standing;
use crate::ui::doc::{Doc, DocLine, Origin, Tone};
use crate::ui::msg::{Answer, Ask, Effect, Question};
use crate::ui::text;

/// How long the user must not have typed before a question takes keys.
pub(in crate::ui) const QUIET: Duration = Duration::from_secs(1);

/// What a button does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ui) enum Choice {
    /// Leave everything as it is.
    Close,
    Send,
    Decline,
    Cancel,
    /// Open the page; the dialog stays until the user has finished there.
    OpenPage,
    /// The user has finished at the page.
    Finished,
    /// Copy the URL; the dialog stays.
    CopyUrl,
    /// Open the sign-in page; the dialog stays.
    OpenLogin,
    Deny,
    Once,
    Always,
    Approve,
    Reject,
    Confirm,
}

impl Choice {
    pub(in crate::ui) fn label(self) -> &'static str {
        match self {
            Self::Close => "Leave it",
            Self::Send => "Send",
            Self::Decline => "Decline",
            Self::Cancel => "Cancel",
            Self::OpenPage => "Open in browser",
            Self::Finished => "Done there",
            Self::CopyUrl => "Copy URL",
            Self::OpenLogin => "Open browser",
            Self::Deny => "Deny",
            Self::Once => "Allow once",
            Self::Always => "Always allow",
            Self::Approve => "Approve this version",
            Self::Reject => "Reject",
            Self::Confirm => "Yes",
        }
    }
}

/// What a dialog is about.
#[derive(Debug)]
pub(in crate::ui) enum Kind {
    Form {
        id: u64,
    },
    Page {
        id: u64,
        url: String,
        /// Whether to answer when the user has finished there, or when the page is open.
        repeats_call: bool,
        /// The effect that is opening the page.
        opening: Option<u64>,
    },
    Permission {
        id: u64,
    },
    /// The approval of exactly this entry.
    Approval {
        entry: Box<trunkline::config::ServerEntry>,
    },
    Login {
        task: u64,
        url: Option<String>,
    },
    /// Runs the effect after a confirmation.
    Confirm {
        effect: Option<Effect>,
    },
}

/// A dialog in front of the screen.
#[derive(Debug)]
pub(in crate::ui) struct Dialog {
    pub(in crate::ui) title: String,
    pub(in crate::ui) doc: Doc,
    pub(in crate::ui) form: Option<FormState>,
    pub(in crate::ui) buttons: Vec<Choice>,
    /// The selected button; `None` while the form has the keys.
    pub(in crate::ui) button: Option<usize>,
    pub(in crate::ui) kind: Kind,
    /// When the dialog begins to take keys.
    pub(in crate::ui) armed_at: Option<Instant>,
    /// The command that does the same.
    pub(in crate::ui) command: Option<String>,
}

/// The outcome of a key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ui) enum Pressed {
    Nothing,
    Chosen(Choice),
}

impl Dialog {
    fn new(title: String, lines: Vec<DocLine>, buttons: &[Choice], kind: Kind) -> Self {
        Self {
            title,
            doc: Doc::new(lines),
            form: None,
            buttons: buttons.to_vec(),
            button: Some(0),
            kind,
            armed_at: None,
            command: None,
        }
    }

    /// The dialog for a question, which shows its server, its call and its client.
    pub(in crate::ui) fn question(question: Question) -> Self {
        let Question {
            id,
            server,
            call,
            client,
            ask,
        } = question;
        let mut title = name(&server);
        if let Some(call) = &call {
            title = format!("{title}, during {}", name(call));
        }
        let mut lines = Vec::new();
        if let Some(client) = &client {
            lines.push(DocLine::field("client", name(client)));
        }
        match ask {
            Ask::Form { message, form } => {
                lines.extend(DocLine::foreign(&message));
                let has_fields = !form.fields.is_empty();
                let buttons = [Choice::Cancel, Choice::Decline, Choice::Send];
                let mut dialog = Self::new(title, lines, &buttons, Kind::Form { id });
                dialog.form = has_fields.then(|| FormState::new(form));
                dialog.button = (!has_fields).then_some(0);
                dialog
            }
            Ask::Url {
                message,
                url,
                repeats_call,
            } => {
                lines.extend(DocLine::foreign(&message));
                lines.push(DocLine::own(""));
                let (host, usable) = host_of(&url);
                let tone = if usable { Tone::Bold } else { Tone::Bad };
                lines.push(DocLine::field("host", host).tone(tone));
                lines.push(DocLine::field("page", text::line(&url)));
                let mut buttons = vec![Choice::Cancel, Choice::Decline];
                if usable {
                    buttons.push(Choice::OpenPage);
                }
                buttons.push(Choice::CopyUrl);
                Self::new(
                    title,
                    lines,
                    &buttons,
                    Kind::Page {
                        id,
                        url,
                        repeats_call,
                        opening: None,
                    },
                )
            }
            Ask::Permission { reason, always } => {
                lines.extend(reason);
                let mut buttons = vec![Choice::Deny, Choice::Once];
                if let Some(rule) = &always {
                    buttons.push(Choice::Always);
                    let rule = format!("\"Always allow\" covers {}", text::line(rule));
                    lines.push(DocLine::own(rule).tone(Tone::Dim));
                }
                Self::new(title, lines, &buttons, Kind::Permission { id })
            }
        }
    }

    /// The dialog that shows all that would run, and what has changed since the last approval.
    pub(in crate::ui) fn approval(server: &ConfiguredServer) -> Self {
        let entry = &server.entry;
        let mut lines = approval_lines(server);
        let title = match &server.status {
            EntryStatus::PendingApproval { before: Some(_) } => "Changed since approval",
            EntryStatus::Rejected { .. } => "Rejected before",
            _ => "Approve a server of the project",
        };
        lines.push(DocLine::own(""));
        let note = "Approval is bound to exactly this content.";
        lines.push(DocLine::own(note).tone(Tone::Dim));
        let buttons = [Choice::Close, Choice::Approve, Choice::Reject];
        let entry = Box::new(entry.clone());
        let shown = name(&entry.name);
        Self::new(
            format!("{title}: {shown}"),
            lines,
            &buttons,
            Kind::Approval { entry },
        )
    }

    /// Adds the differences of files to the dialog that approves this server. They stand at the
    /// end, which is to be seen before the server can be approved.
    pub(in crate::ui) fn set_scripts(&mut self, server: &str, changes: &[ScriptChange]) {
        let is_it = matches!(&self.kind, Kind::Approval { entry } if entry.name == server);
        if !is_it || changes.is_empty() {
            return;
        }
        let mut lines = self.doc.take();
        let note = lines.pop();
        for change in changes {
            let heading = format!("{}: {}", whole(&change.path), change.facts);
            lines.push(DocLine::heading(heading));
            lines.extend(change.lines.iter().map(script_line));
            lines.push(DocLine::own(""));
        }
        lines.extend(note);
        self.doc.replace(lines);
    }

    pub(in crate::ui) fn login(task: u64, server: &str) -> Self {
        let lines = vec![DocLine::own("Asking the server where to sign in…")];
        Self::new(
            format!("Sign in to {}", name(server)),
            lines,
            &[Choice::Cancel],
            Kind::Login { task, url: None },
        )
    }

    /// Shows where to sign in. The browser opens only when the user says so.
    pub(in crate::ui) fn set_login_url(&mut self, found: String) {
        let (host, usable) = host_of(&found);
        let lines = vec![
            DocLine::own("Sign in on this page; this window notices when you are done."),
            DocLine::own(""),
            DocLine::field("host", host).tone(Tone::Bold),
            DocLine::field("page", text::line(&found)),
            DocLine::own(""),
            DocLine::own("If the browser ends on a page that does not load, paste its URL here.")
                .tone(Tone::Dim),
        ];
        self.set_login_page(lines, usable, found);
    }

    /// Shows the code to enter on a page, on any device.
    pub(in crate::ui) fn set_login_code(&mut self, code: &str, found: String) {
        let (host, usable) = host_of(&found);
        let lines = vec![
            DocLine::own("Enter the code on this page, on any device; this window notices when"),
            DocLine::own("you are done."),
            DocLine::own(""),
            DocLine::field("code", text::line(code)).tone(Tone::Bold),
            DocLine::field("host", host).tone(Tone::Bold),
            DocLine::field("page", text::line(&found)),
        ];
        self.set_login_page(lines, usable, found);
    }

    fn set_login_page(&mut self, lines: Vec<DocLine>, usable: bool, found: String) {
        self.doc.replace(lines);
        self.buttons = vec![Choice::Cancel];
        if usable {
            self.buttons.push(Choice::OpenLogin);
        }
        self.buttons.push(Choice::CopyUrl);
        if let Kind::Login { url, .. } = &mut self.kind {
            *url = Some(found);
        }
    }

    pub(in crate::ui) fn confirm(title: String, lines: Vec<DocLine>, effect: Effect) -> Self {
        let kind = Kind::Confirm {
            effect: Some(effect),
        };
        Self::new(title, lines, &[Choice::Close, Choice::Confirm], kind)
    }

    /// Returns whether this effect opens the page of the dialog.
    pub(in crate::ui) fn is_opened_by(&self, task: u64) -> bool {
        matches!(self.kind, Kind::Page { opening: Some(opening), .. } if opening == task)
    }

    /// Waits at the page's dialog until the user says that the visit is over (ELI-3). The page can
    /// be opened again meanwhile.
    pub(in crate::ui) fn wait_for_visit(&mut self) {
        if !self.buttons.contains(&Choice::Finished) {
            self.buttons.insert(2, Choice::Finished);
            let mut lines = self.doc.take();
            lines.push(DocLine::own(""));
            lines.push(DocLine::own("Finish there, then choose \"Done there\"."));
            self.doc = Doc::new(lines);
        }
        self.button = Some(0);
    }

    /// Returns the number of the question, if a caller waits for the answer.
    pub(in crate::ui) fn question_id(&self) -> Option<u64> {
        match self.kind {
            Kind::Form { id } | Kind::Page { id, .. } | Kind::Permission { id } => Some(id),
            _ => None,
        }
    }

    pub(in crate::ui) fn is_armed(&self, now: Instant) -> bool {
        self.armed_at.is_none_or(|at| at <= now)
    }

    /// Returns the choice that Esc makes.
    pub(in crate::ui) fn harmless(&self) -> Choice {
        match self.kind {
            Kind::Form { .. } | Kind::Page { .. } | Kind::Login { .. } => Choice::Cancel,
            Kind::Permission { .. } => Choice::Deny,
            Kind::Approval { .. } | Kind::Confirm { .. } => Choice::Close,
        }
    }

    /// Returns why a button cannot be pressed yet.
    pub(in crate::ui) fn obstacle(&self, choice: Choice) -> Option<&'static str> {
        let needs_end = matches!(choice, Choice::Approve | Choice::Once | Choice::Always);
        match (needs_end, self.doc.has_seen_end(), self.doc.is_cut()) {
            (false, ..) | (_, true, _) => None,
            (true, false, true) => Some("too long to be shown in full"),
            (true, false, false) => Some("scroll to the end first"),
        }
    }

    pub(in crate::ui) fn key(&mut self, key: &KeyEvent, now: Instant) -> Pressed {
        if !self.is_armed(now) {
            self.armed_at = Some(now + QUIET);
            return Pressed::Nothing;
        }
        if key.code == KeyCode::Esc {
            return Pressed::Chosen(self.harmless());
        }
        // As in the form of a call, without a walk through all fields.
        if key.code == KeyCode::F(5) && self.form.is_some() {
            return Pressed::Chosen(Choice::Send);
        }
        match (self.button, &mut self.form) {
            (None, Some(form)) => match key.code {
                KeyCode::Tab | KeyCode::Down | KeyCode::Enter => {
                    if !form.step(1) {
                        self.button = Some(0);
                    }
                }
                KeyCode::BackTab | KeyCode::Up => _ = form.step(-1),
                KeyCode::PageUp => self.doc.scroll(-self.doc.page()),
                KeyCode::PageDown => self.doc.scroll(self.doc.page()),
                _ => _ = form.key(key),
            },
            (button, form) => {
                let at = button.unwrap_or_default();
                let last = self.buttons.len().saturating_sub(1);
                match key.code {
                    KeyCode::Tab | KeyCode::Right => self.button = Some((at + 1).min(last)),
                    KeyCode::BackTab | KeyCode::Left if at > 0 => self.button = Some(at - 1),
                    KeyCode::BackTab | KeyCode::Up if form.is_some() => self.button = None,
                    KeyCode::Up | KeyCode::Char('k') => self.doc.scroll(-1),
                    KeyCode::Down | KeyCode::Char('j') => self.doc.scroll(1),
                    KeyCode::PageUp => self.doc.scroll(-self.doc.page()),
                    KeyCode::PageDown | KeyCode::Char(' ') => self.doc.scroll(self.doc.page()),
                    KeyCode::End => self.doc.to_end(),
                    KeyCode::Home => self.doc.to_start(),
                    KeyCode::Enter => {
                        let choice = self.buttons.get(at).copied().unwrap_or(Choice::Close);
                        if self.obstacle(choice).is_none() {
                            return Pressed::Chosen(choice);
                        }
                    }
                    _ => {}
                }
            }
        }
        Pressed::Nothing
    }
}

/// Returns the answer to a question; `None` if the choice does not answer it.
pub(in crate::ui) fn answer(dialog: &mut Dialog, choice: Choice) -> Option<Answer> {
    let elicit = |answer| Some(Answer::Elicit(answer));
    let permission = |answer| Some(Answer::Permission(answer));
    match choice {
        Choice::Send => {
            let values = match &mut dialog.form {
                Some(form) => form.submit(),
                None => Some(serde_json::Map::new()),
            };
            if values.is_none() {
                dialog.button = None;
            }
            values.and_then(|values| elicit(ElicitAnswer::Accept(values)))
        }
        Choice::Finished => elicit(ElicitAnswer::Accept(serde_json::Map::new())),
        Choice::Decline => elicit(ElicitAnswer::Decline),
        Choice::Cancel => elicit(ElicitAnswer::Cancel),
        Choice::Deny => permission(PermissionAnswer::No("you declined".to_owned())),
        Choice::Once => permission(PermissionAnswer::Once),
        Choice::Always => permission(PermissionAnswer::Always),
        _ => None,
    }
}

/// Returns the host of a URL in full, and whether a browser may open it: https, and http on this
/// machine.
fn host_of(url: &str) -> (String, bool) {
    let Ok(parsed) = Url::parse(url) else {
        return ("not a URL; it cannot be opened".to_owned(), false);
    };
    let scheme = parsed.scheme();
    if !matches!(scheme, "http" | "https") {
        let shown = format!("{}: is not opened", text::line(scheme));
        return (shown, false);
    }
    let host = parsed.host_str().unwrap_or_default();
    let mut shown = text::line(host);
    if let Some(port) = parsed.port() {
        shown = format!("{shown}:{port}");
    }
    let usable = BrowserUrl::new(&parsed).is_ok();
    if !parsed.username().is_empty() || parsed.password().is_some() {
        shown.push_str("  (has a user name or a password; it is not opened)");
    } else if scheme == "http" && usable {
        shown.push_str("  (not encrypted)");
    } else if scheme == "http" {
        shown.push_str("  (not encrypted; it is not opened)");
    } else if !usable {
        shown.push_str("  (it is not opened)");
    }
    (shown, usable)
}

/// Describes everything that would run and all changes. Only secrets are masked: any other field
/// could be the one that matters.
fn approval_lines(server: &ConfiguredServer) -> Vec<DocLine> {
    use trunkline_config::redact::{RedactMode, redact_entry};

    let entry = &server.entry;
    let mut lines = vec![DocLine::field("file", text::line(&entry.source))];
    let changes = standing::difference_lines(&standing::differences(server));
    if !changes.is_empty() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Changed since you approved it"));
        for line in changes {
            let tone = match line.chars().next() {
                Some('-') => Tone::Bad,
                Some('+') => Tone::Good,
                _ => Tone::Warn,
            };
            lines.push(DocLine::own(whole(&line)).tone(tone));
        }
    }
    lines.push(DocLine::own(""));
    lines.push(DocLine::heading("Entry"));
    let mut shown = entry.as_written();
    redact_entry(&mut shown, RedactMode::Approval);
    for (field, value) in shown.as_object().into_iter().flatten() {
        lines.push(DocLine::own(whole(&format!("{}: {value}", name(field)))));
    }
    let argv = entry.transport.argv();
    let command = argv.and_then(|argv| argv.first().copied());
    if let Some(program) = entry.program()
        && command != Some(program.as_str())
    {
        lines.push(DocLine::field("program", whole(&program)));
    }
    if !entry.files.is_empty() {
        lines.push(DocLine::own(""));
        lines.push(DocLine::heading("Files of the repository that will run"));
    }
    for file in &entry.files {
        let hash = file.sha256.get(..12).unwrap_or(&file.sha256);
        let line = format!("{} (sha256 {hash}…)", whole(&file.path));
        lines.push(DocLine::own(line));
    }
    lines
}

fn script_line(line: &ScriptLine) -> DocLine {
    let (tone, mark, text) = match line {
        ScriptLine::Note(text) => return DocLine::own(whole(text)).tone(Tone::Dim),
        ScriptLine::Same(text) => (Tone::Plain, ' ', text),
        ScriptLine::Removed(text) => (Tone::Bad, '-', text),
        ScriptLine::Added(text) => (Tone::Good, '+', text),
    };
    DocLine {
        text: format!("{mark} {}", whole(text)),
        tone,
        origin: Origin::Foreign,
        ..DocLine::default()
    }
}

/// Escapes a text of any length: nothing may hide behind a `…`.
fn whole(text: &str) -> String {
    let escape = |c: char, shown: &mut String| shown.extend(c.escape_unicode());
    trunkline::text::harmless_with(text, escape).replace('\t', " ")
}
