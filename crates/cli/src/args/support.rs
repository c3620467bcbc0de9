//! Options of the commands that explain and support the program.

use std::path::PathBuf;

use trunkline::log::Since;

#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// The servers [default: all]
    pub(crate) names: Vec<String>,

    /// Mend what can be mended safely in your own files
    #[arg(long)]
    pub(crate) fix: bool,

    /// Only show what --fix would change
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write an archive without secrets for a bug report
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the file is optional")]
    pub(crate) bundle: Option<Option<PathBuf>>,

    /// Replace an existing archive
    #[arg(long, requires = "bundle")]
    pub(crate) force: bool,
}

#[derive(clap::Args)]
pub(crate) struct LogsArgs {
    /// Show only the log of this server
    pub(crate) server: Option<String>,

    /// Follow the log
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// The number of newest lines [default: 100, or all with --since]
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,

    /// Show only newer lines: 90s, 10m, 2h, 7d, or a time such as 2026-11-16T02:03Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<Since>,
}

fn since(text: &str) -> Result<Since, &'static str> {
    Since::parse(text)
        .ok_or("expected a duration such as 10m, or a UTC time such as 2026-11-16T02:03Z")
}

#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell [default with --install: that of $SHELL]
    #[arg(required_unless_present_any = ["install", "uninstall"])]
    pub(crate) shell: Option<clap_complete::Shell>,

    /// Write the script to where the shell looks for it
    #[arg(long)]
    pub(crate) install: bool,

    /// Remove the script again
    #[arg(long, conflicts_with = "install")]
    pub(crate) uninstall: bool,
}
