//! `cargo xtask pictures`: runs the program in tmux and draws its screens as the SVGs in the
//! README.

mod screen;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{interop, sh};
use screen::Screen;

/// Where the pictures go, from the root of the workspace.
const FOLDER: &str = "docs/images";

/// The time limit for a command on screen: servers on Node start slowly on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// Options of `cargo xtask pictures`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Draw only this picture (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// A picture of a terminal.
struct Scene {
    name: &'static str,
    /// Columns and rows. Empty rows at the end are not drawn, except for the terminal UI.
    size: (usize, usize),
    action: Action,
}

enum Action {
    /// Types these commands at a prompt, each when the one before has ended.
    Commands(&'static [&'static str]),
    /// Opens the terminal UI and presses keys, each when the text before it is on screen.
    Keys(&'static [(&'static str, &'static str)]),
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "demo",
        size: (92, 60),
        action: Action::Commands(&["trunkline demo"]),
    },
    Scene {
        name: "list",
        size: (92, 30),
        action: Action::Commands(&["trunkline list"]),
    },
    Scene {
        name: "call",
        size: (92, 40),
        action: Action::Commands(&[
            "trunkline tools everything get-sum",
            "trunkline call everything get-sum a:=2 b:=3",
            "trunkline call everything get-structured-content location=Chicago",
        ]),
    },
    Scene {
        name: "ui",
        size: (120, 28),
        action: Action::Keys(&[("✓4", "Down"), ("▸", "Down"), ("▸", "")]),
    },
];

/// Draws the pictures.
pub(crate) fn run(options: &Options) -> Result<()> {
    let program = if let Some(program) = &options.program {
        fs::canonicalize(program)?
    } else {
        let build = ["build", "--quiet", "--workspace", "--bin", "trunkline"];
        sh::run(&mut sh::cargo(&build), Duration::from_mins(30))?;
        sh::root().join("target/debug/trunkline")
    };
    let servers = interop::install_servers()?;
    for scene in &SCENES {
        let is_chosen = options.only.iter().any(|only| only == scene.name);
        if !options.only.is_empty() && !is_chosen {
            continue;
        }
        let home = Home::new(&program, &servers)?;
        let text = scene.play(&home)?;
        let file = format!("{FOLDER}/{}.svg", scene.name);
        let picture = svg::draw(&text, scene.size.0);
        fs::write(sh::root().join(&file), picture)
            .with_context(|| format!("could not write {file}"))?;
        println!("wrote {file}");
    }
    Ok(())
}

impl Scene {
    /// Returns the screen at the end, with its colours as escape sequences.
    fn play(&self, home: &Home) -> Result<String> {
        let screen = Screen::open(self.size, &home.shell())?;
        screen.wait_for(LIMIT, "a prompt", |text| text.trim_end().ends_with('$'))?;
        match self.action {
            Action::Commands(commands) => {
                for (index, command) in commands.iter().enumerate() {
                    screen.type_line(command)?;
                    let prompts = index + 2;
                    screen.wait_for(LIMIT, command, |text| {
                        let prompt = |line: &&str| line.trim_end() == "$" || line.starts_with("$ ");
                        text.lines().filter(prompt).count() == prompts
                            && text.trim_end().ends_with('$')
                    })?;
                }
                let mut text = screen.colours()?;
                // The prompt of the command that nobody types.
                let end = text.trim_end().rfind('\n').unwrap_or(0);
                text.truncate(end);
                Ok(text)
            }
            Action::Keys(keys) => {
                screen.type_line("clear; trunkline")?;
                for (shown, key) in keys {
                    screen.wait_for(LIMIT, shown, |text| text.contains(shown))?;
                    if !key.is_empty() {
                        screen.press(key)?;
                    }
                }
                screen.wait_until_still(LIMIT)?;
                screen.colours()
            }
        }
    }
}

/// A scratch home with a project and servers, some of which fail.
struct Home {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Home {
    fn new(program: &Path, servers: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let project = folder.path().join("shop");
        fs::create_dir_all(&project)?;
        let bin = folder.path().join("bin");
        fs::create_dir_all(&bin)?;
        std::os::unix::fs::symlink(program, bin.join("trunkline"))?;
        let modules = servers.join("node_modules");
        ensure!(modules.is_dir(), "{} is missing", modules.display());
        let node = |script: &str, args: &[&str]| {
            let mut words = vec![modules.join(script).display().to_string()];
            words.extend(args.iter().map(ToString::to_string));
            json!({ "command": modules.join("node/bin/node"), "args": words })
        };
        let reference = |name: &str| format!("@modelcontextprotocol/server-{name}/dist/index.js");
        let python = servers.join("venv/bin/python");
        let user = json!({ "mcpServers": {
            "everything": node(&reference("everything"), &["stdio"]),
            "memory": node(&reference("memory"), &[]),
            "time": { "command": python, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"] },
            "tracker": { "type": "http", "url": "http://127.0.0.1:9/mcp" },
            "brave": { "command": "sh", "args": ["-c", "echo 'Error: BRAVE_API_KEY is not set' >&2; exit 1"] },
        }});
        fs::write(folder.path().join(".claude.json"), user.to_string())?;
        let files = node(&reference("filesystem"), &[&project.display().to_string()]);
        let own =
            json!({ "mcpServers": { "files": files, "deploy": { "command": "./deploy.sh" } } });
        fs::write(project.join(".mcp.json"), own.to_string())?;
        fs::write(project.join("deploy.sh"), "#!/bin/sh\n")?;
        let home = Self {
            folder,
            program: program.to_owned(),
        };
        let approve = home
            .command()
            .args(["approve", "files", "--yes"])
            .output()?;
        ensure!(approve.status.success(), "could not approve: {approve:?}");
        Ok(home)
    }

    /// Returns the program in the project.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.folder.path().join("shop"))
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// Returns a shell for the project, as words for `env`.
    fn shell(&self) -> Vec<String> {
        let folder = self.folder.path().display();
        let path = std::env::var("PATH").unwrap_or_default();
        [
            "env".to_owned(),
            "-i".to_owned(),
            format!("--chdir={folder}/shop"),
            format!("HOME={folder}"),
            format!("PATH={folder}/bin:{path}"),
            "PS1=$ ".to_owned(),
            "TERM=screen-256color".to_owned(),
            "LANG=C.UTF-8".to_owned(),
            "PAGER=cat".to_owned(),
            "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent".to_owned(),
            "bash".to_owned(),
            "--norc".to_owned(),
            "--noprofile".to_owned(),
        ]
        .into()
    }
}
