//! `trunkline install` and `uninstall`: put the gateway into the configuration of other clients.

use serde_json::{Value, json};
use trunkline_config::import::{ClientDirs, Os};
use trunkline_config::install::{
    DiffLine, GatewayEntry, InstallClient, InstallError, InstallPlan, Installer,
};
use trunkline_config::{check_new_name, is_exclusive};

use crate::change;
use crate::exit::Exit;
use crate::output::{self, Column, Line, Lines, Stream, Style, Table, name};
use crate::session;

pub(crate) const INSTALL_HELP: &str = "\
Examples:
  trunkline install                      which clients are on this machine?
  trunkline install cursor --dry-run
  trunkline install claude-desktop --yes
  trunkline install zed --http http://127.0.0.1:8080/mcp
  trunkline install codex -- --profile work

The client starts `trunkline serve` and sees all of your servers as one. The change is shown before
it is written; `trunkline uninstall` takes it back. Restart the client afterwards.";

#[derive(clap::Args)]
pub(crate) struct InstallArgs {
    /// The client: claude-code, claude-desktop, cursor, vscode, codex, gemini or zed [default: list
    /// those on this machine]
    client: Option<String>,

    /// Let the client connect to a running gateway instead of starting one
    #[arg(long, value_name = "URL", requires = "client")]
    http: Option<String>,

    /// The name of the gateway in the client
    #[arg(long = "as", value_name = "NAME", default_value = "trunkline")]
    name: String,

    /// Only show the change
    #[arg(long)]
    dry_run: bool,

    /// Only print the entry, for pasting
    #[arg(long, requires = "client")]
    print: bool,

    /// Skip the prompt
    #[arg(short, long)]
    yes: bool,

    /// Options of `trunkline serve`
    #[arg(last = true, value_name = "OPTIONS", conflicts_with = "http")]
    serve: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct UninstallArgs {
    /// The client
    client: String,

    /// The name of the gateway in the client
    #[arg(long = "as", value_name = "NAME", default_value = "trunkline")]
    name: String,

    /// Only show the change
    #[arg(long)]
    dry_run: bool,

    /// Skip the prompt
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn install(args: &InstallArgs, as_json: bool) -> Exit {
    let installer = match installer() {
        Ok(installer) => installer,
        Err(exit) => return exit,
    };
    let Some(client) = &args.client else {
        return list(&installer, as_json);
    };
    let (client, gateway) = match client_named(client).and_then(|client| {
        check_name(&args.name)?;
        Ok((client, gateway(args)?))
    }) {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    if args.print {
        return match installer.snippet(client, &args.name, &gateway) {
            Ok(text) => {
                output::result_bytes(text.as_bytes());
                Exit::Done
            }
            Err(error) => fail(&error, client),
        };
    }
    let layout = session::layout();
    if client == InstallClient::ClaudeCode && is_exclusive(&layout) {
        return change::refuse_exclusive(&layout.managed_servers());
    }
    let plan = match installer.plan_install(client, &args.name, &gateway) {
        Ok(plan) => plan,
        Err(error) => return fail(&error, client),
    };
    let consent = Consent::new(args.yes, args.dry_run);
    write(&installer, &plan, Change::Install, consent, as_json)
}

pub(crate) fn uninstall(args: &UninstallArgs, as_json: bool) -> Exit {
    let wanted = installer().and_then(|installer| Ok((installer, client_named(&args.client)?)));
    let (installer, client) = match wanted {
        Ok(wanted) => wanted,
        Err(exit) => return exit,
    };
    let plan = match installer.plan_uninstall(client, &args.name) {
        Ok(plan) => plan,
        Err(error) => return fail(&error, client),
    };
    let consent = Consent::new(args.yes, args.dry_run);
    write(&installer, &plan, Change::Uninstall, consent, as_json)
}

/// Whether the user agrees to the change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    Ask,
    /// Only show the change.
    Withheld,
}

impl Consent {
    fn new(yes: bool, dry_run: bool) -> Self {
        match (dry_run, yes) {
            (true, _) => Self::Withheld,
            (false, true) => Self::Given,
            (false, false) => Self::Ask,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Install,
    Uninstall,
}

fn installer() -> Result<Installer, Exit> {
    let Some(home) = std::env::home_dir() else {
        output::error("there is no home directory", Some("set HOME"));
        return Err(Exit::Usage);
    };
    let cwd = session::cwd()?;
    let variable = |name: &str| std::env::var_os(name);
    let dirs = ClientDirs::from_env(Os::current(), home, cwd, variable);
    let own = std::env::current_exe().ok();
    Ok(Installer::new(dirs, session::layout()).own_program(own))
}

fn client_named(wanted: &str) -> Result<InstallClient, Exit> {
    let known = InstallClient::ALL.into_iter();
    known
        .clone()
        .find(|client| client.id() == wanted)
        .ok_or_else(|| {
            let ids = InstallClient::ALL.map(InstallClient::id);
            let hint = match trunkline::text::nearest(wanted, ids) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("available: {}", ids.join(", ")),
            };
            output::error(&format!("there is no client \"{wanted}\""), Some(&hint));
            Exit::Usage
        })
}

fn check_name(name: &str) -> Result<(), Exit> {
    check_new_name(name).map_err(|problem| {
        output::error(&format!("--as: {problem}"), None);
        Exit::Usage
    })
}

/// Returns how the client reaches the gateway. A client started from a desktop has another `PATH`,
/// so the program is named by its path.
fn gateway(args: &InstallArgs) -> Result<GatewayEntry, Exit> {
    if let Some(url) = &args.http {
        let is_web = |url: &url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !url::Url::parse(url).is_ok_and(|url| is_web(&url)) {
            output::error(
                &format!("--http: \"{url}\" is not a URL"),
                Some("give the URL of the endpoint, for example http://127.0.0.1:8080/mcp"),
            );
            return Err(Exit::Usage);
        }
        return Ok(GatewayEntry::Http { url: url.clone() });
    }
    let program = std::env::current_exe().map(std::path::PathBuf::into_os_string);
    let Some(command) = program.ok().and_then(|program| program.into_string().ok()) else {
        output::error("the path of this program is unknown or not UTF-8", None);
        return Err(Exit::Usage);
    };
    let args = std::iter::once("serve".to_owned()).chain(args.serve.iter().cloned());
    Ok(GatewayEntry::Stdio {
        command,
        args: args.collect(),
    })
}

/// Lists the clients on this machine.
fn list(installer: &Installer, as_json: bool) -> Exit {
    let clients = InstallClient::ALL.map(|client| installer.status(client));
    if as_json {
        let documents = clients.iter().map(|status| {
            let mut document = json!({
                "client": status.client.id(),
                "title": status.client.title(),
                "file": status.file.to_string_lossy(),
                "found": status.found,
                "installedAs": status.installed_as,
            });
            if let Some(problem) = &status.problem {
                document["error"] = json!(problem);
            }
            document
        });
        output::json(&documents.collect::<Vec<Value>>());
        return Exit::Done;
    }
    let found: Vec<_> = clients.iter().filter(|status| status.found).collect();
    if found.is_empty() {
        output::result("no client found on this machine");
        let ids = InstallClient::ALL.map(InstallClient::id).join(", ");
        output::hint(&format!("`trunkline install CLIENT` takes {ids}"));
        return Exit::Done;
    }
    let mut table = Table::new([Column::Keep, Column::Keep, Column::Flexible]);
    for status in found {
        let state = match (&status.installed_as, &status.problem) {
            (Some(own), _) => format!("installed as {}", name(own)),
            (None, Some(_)) => "unreadable".to_owned(),
            (None, None) => "not installed".to_owned(),
        };
        table.row([
            Line::plain(status.client.id()),
            Line::plain(state),
            Line::of(Style::Dim, status.file.display()),
        ]);
    }
    output::result(table.lines(output::width(Stream::Out)));
    Exit::Done
}

fn write(
    installer: &Installer,
    plan: &InstallPlan,
    change: Change,
    consent: Consent,
    as_json: bool,
) -> Exit {
    let mut document = json!({
        "client": plan.client.id(),
        "name": plan.name,
        "file": plan.file.to_string_lossy(),
        "diff": plan.diff.iter().map(diff_text).collect::<Vec<_>>(),
        "deletesFile": plan.deletes_file,
        "written": false,
    });
    if !plan.is_change() {
        if as_json {
            output::json(&document);
        } else {
            let (client, file) = (plan.client, plan.file.display());
            let own = name(&plan.name);
            output::result(Lines::one(match change {
                Change::Install => format!("{client} has \"{own}\" already ({file})"),
                Change::Uninstall => format!("{client} has no \"{own}\" ({file})"),
            }));
        }
        return Exit::Done;
    }
    if !as_json {
        output::result(diff_lines(plan));
    }
    let question = match change {
        Change::Install => format!("install the gateway in {}?", plan.client),
        Change::Uninstall => format!("remove the gateway from {}?", plan.client),
    };
    let agreed = match consent {
        Consent::Given => true,
        Consent::Withheld => false,
        Consent::Ask => !as_json && output::can_ask() && output::ask(&question),
    };
    if agreed {
        match installer.apply(plan) {
            Ok(written) => document["written"] = json!(written),
            Err(error) => return fail(&error, plan.client),
        }
    }
    if as_json {
        output::json(&document);
    } else if agreed {
        let done = match (change, plan.deletes_file) {
            (_, true) => "deleted",
            (Change::Install, _) => "written to",
            (Change::Uninstall, _) => "removed from",
        };
        output::note(Lines::one(format!("{done} {}", plan.file.display())));
        output::note(Lines::one(format!("next: restart {}", plan.client)));
    } else if consent == Consent::Ask {
        output::note(if output::can_ask() {
            "nothing written"
        } else {
            "nothing written; pass --yes to write"
        });
    }
    Exit::Done
}

fn diff_lines(plan: &InstallPlan) -> Lines {
    let mut lines = Lines::new();
    lines.push(format!("{}: {}", plan.client, plan.file.display()));
    for line in &plan.diff {
        let style = match line {
            DiffLine::Added(_) => Style::Done,
            DiffLine::Removed(_) => Style::Failed,
            DiffLine::Context(_) => Style::Dim,
        };
        lines.push_line(Line::of(style, format!("  {}", diff_text(line))).verbatim());
    }
    lines
}

fn diff_text(line: &DiffLine) -> String {
    match line {
        DiffLine::Context(text) => format!("  {text}"),
        DiffLine::Removed(text) => format!("- {text}"),
        DiffLine::Added(text) => format!("+ {text}"),
    }
}

fn fail(error: &InstallError, client: InstallClient) -> Exit {
    let hint = match error {
        InstallError::Unsupported(_) => Some("leave --http out".to_owned()),
        InstallError::Taken { .. } => {
            let id = client.id();
            Some(format!(
                "use another name: `trunkline install {id} --as NAME`"
            ))
        }
        InstallError::BadFile { .. } => Some("fix the file first".to_owned()),
        _ => None,
    };
    output::error(&error.to_string(), hint.as_deref());
    Exit::Usage
}
