//! The packages that commands such as `npx`, `uvx` and `docker run` fetch, and whether their
//! versions are pinned. Pure functions.

use serde::{Deserialize, Serialize};

use crate::entry::ServerEntry;

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Registry {
    /// npm.
    Npm,
    /// The Python Package Index.
    Pypi,
    /// A registry of container images.
    Image,
}

/// A package that a command fetches and runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Package {
    /// Its registry.
    pub registry: Registry,
    /// Its name.
    pub name: String,
    /// The version, tag, range or digest that the command asks for.
    pub requested: Option<String>,
    /// Whether that stands for one content, now and later.
    pub is_pinned: bool,
}

/// Options of npx and its kin that take the next word.
const NPM_VALUES: &[&str] = &[
    "-c",
    "--call",
    "--cache",
    "--prefix",
    "--registry",
    "--userconfig",
    "-w",
    "--workspace",
    "--shell",
    "--node-options",
];

/// Options of uvx and pipx that take the next word.
const PYTHON_VALUES: &[&str] = &[
    "--with",
    "--with-editable",
    "--with-requirements",
    "-p",
    "--python",
    "-i",
    "--index-url",
    "--index",
    "--default-index",
    "--extra-index-url",
    "-f",
    "--find-links",
    "--directory",
    "--project",
    "--env-file",
    "-c",
    "--constraints",
    "-b",
    "--build-constraints",
    "--overrides",
    "--refresh-package",
    "--cache-dir",
    "--config-file",
    "--pip-args",
    "--torch-backend",
    "--exclude-newer",
    "--link-mode",
    "--index-strategy",
    "--keyring-provider",
    "-P",
    "--upgrade-package",
    "--reinstall-package",
    "--prerelease",
    "--resolution",
    "-C",
    "--config-setting",
    "--no-build-package",
    "--no-binary-package",
    "--color",
    "--allow-insecure-host",
];

/// Options of `docker run` that take no word.
const DOCKER_FLAGS: &[&str] = &[
    "-d",
    "--detach",
    "--init",
    "-i",
    "--interactive",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--privileged",
    "-P",
    "--publish-all",
    "-q",
    "--quiet",
    "--read-only",
    "--rm",
    "--sig-proxy",
    "-t",
    "--tty",
    "-it",
    "-ti",
    "--use-api-socket",
    "--disable-content-trust",
    "--replace",
    "--help",
];

impl Package {
    /// Returns the package that an entry's command fetches; `None` for other commands.
    pub fn of(entry: &ServerEntry) -> Option<Self> {
        Self::of_command(&entry.transport.argv()?)
    }

    /// Returns the package that a command fetches.
    pub fn of_command(command: &[&str]) -> Option<Self> {
        let (program, args) = command.split_first()?;
        let (first, rest) = match args.split_first() {
            Some((first, rest)) => (*first, rest),
            None => ("", args),
        };
        match program_name(program).as_str() {
            "npx" | "bunx" | "pnpx" => npm(args),
            "npm" if matches!(first, "exec" | "x") => npm(rest),
            "pnpm" | "yarn" if first == "dlx" => npm(rest),
            "bun" if first == "x" => npm(rest),
            "uvx" => python(args, "--from"),
            "uv" if args.starts_with(&["tool", "run"]) => python(&args[2..], "--from"),
            "pipx" if first == "run" => python(rest, "--spec"),
            "docker" | "podman" | "nerdctl" if first == "run" => image(rest),
            "docker" | "podman" | "nerdctl" if args.starts_with(&["container", "run"]) => {
                image(&args[2..])
            }
            // Starters that run the rest.
            "env" => {
                let is_word = |arg: &&&str| !arg.starts_with('-') && !arg.contains('=');
                let at = args.iter().position(|arg| is_word(&arg))?;
                Self::of_command(&args[at..])
            }
            "cmd" if first.eq_ignore_ascii_case("/c") => Self::of_command(rest),
            _ => None,
        }
    }

    /// Returns the runner of packages that a shell starts: what it fetches cannot be told.
    pub(crate) fn runner_in_shell(command: &[&str]) -> Option<&'static str> {
        let (program, args) = command.split_first()?;
        let is_shell = matches!(
            program_name(program).as_str(),
            "sh" | "bash" | "zsh" | "dash" | "ksh" | "fish" | "cmd" | "powershell" | "pwsh"
        );
        let runners = [
            "npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "nerdctl",
        ];
        let words = args
            .iter()
            .flat_map(|arg| arg.split(|c: char| c.is_whitespace() || ";&|()`'\"".contains(c)));
        let mut words = words.map(program_name).filter(|_| is_shell);
        words.find_map(|word| runners.into_iter().find(|runner| *runner == word))
    }
}

/// The name of a program without its directory and extension.
fn program_name(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.to_ascii_lowercase();
    let cut = [".cmd", ".exe", ".bat", ".ps1"];
    let cut = cut.into_iter().find_map(|end| name.strip_suffix(end));
    cut.unwrap_or(&name).to_owned()
}

/// The first word that is no option, or the value of an option that names the package.
fn subject<'a>(
    args: &[&'a str],
    named_by: &[&str],
    takes_word: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let mut args = args.iter();
    let mut found = None;
    while let Some(arg) = args.next() {
        if let Some((option, value)) = arg.split_once('=')
            && named_by.contains(&option)
        {
            return Some(value);
        }
        if named_by.contains(arg) {
            return args.next().copied();
        }
        match arg.strip_prefix('-') {
            // The rest belongs to the package, except that its name may follow.
            Some("-") => return found.or_else(|| args.next().copied()),
            Some(_) if takes_word(arg) => _ = args.next(),
            Some(_) => {}
            None => {
                found = found.or(Some(arg));
                break;
            }
        }
    }
    found
}

fn npm(args: &[&str]) -> Option<Package> {
    let spec = subject(args, &["-p", "--package"], |arg| NPM_VALUES.contains(&arg))?;
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@');
    let (name, version) = match at {
        Some((at, _)) => (&spec[..at], Some(&spec[at + 1..])),
        None => (spec, None),
    };
    let is_remote = spec.contains("://") || spec.contains(':') || is_path(name);
    let is_pinned = if is_remote {
        let commit = spec.rsplit_once('#').map(|(_, commit)| commit);
        commit.is_some_and(is_commit)
    } else {
        version.is_some_and(is_exact_version)
    };
    Some(Package {
        registry: Registry::Npm,
        name: name.to_owned(),
        requested: version.map(str::to_owned),
        is_pinned,
    })
}

fn python(args: &[&str], named_by: &str) -> Option<Package> {
    let spec = subject(args, &[named_by], |arg| PYTHON_VALUES.contains(&arg))?;
    let (name, requested, is_pinned) = if spec.contains("://") {
        let commit = spec.rsplit_once('@').map(|(_, commit)| commit);
        let commit = commit.map(|commit| commit.split('#').next().unwrap_or(commit));
        (spec, commit, commit.is_some_and(is_commit))
    } else if let Some((name, version)) = spec.split_once("==") {
        let version = version.trim_start_matches('=');
        let is_exact = !version.is_empty() && !version.contains(['*', ',', ';', '<', '>']);
        (
            name,
            Some(version),
            is_exact && !name.contains(['<', '>', ',']),
        )
    } else if let Some((name, version)) = spec.split_once('@') {
        (
            name,
            Some(version),
            version.starts_with(|c: char| c.is_ascii_digit()),
        )
    } else {
        let end = spec.find(['<', '>', '~', '!']).unwrap_or(spec.len());
        let (name, range) = spec.split_at(end);
        (name, Some(range).filter(|range| !range.is_empty()), false)
    };
    let name = name.split('[').next().unwrap_or(name);
    Some(Package {
        registry: Registry::Pypi,
        name: name.trim().to_owned(),
        requested: requested.map(|version| version.trim().to_owned()),
        is_pinned,
    })
}

fn image(args: &[&str]) -> Option<Package> {
    let takes_word = |arg: &str| !arg.contains('=') && !DOCKER_FLAGS.contains(&arg);
    let spec = subject(args, &[], takes_word)?;
    let (name, requested, is_pinned) = match spec.split_once('@') {
        Some((name, digest)) => {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            (name, Some(digest), hex.len() == 64 && is_hex(hex))
        }
        // A port is before a slash, a tag after all of them.
        None => match spec.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) {
            Some((name, tag)) => (name, Some(tag), false),
            None => (spec, None, false),
        },
    };
    Some(Package {
        registry: Registry::Image,
        name: name.to_owned(),
        requested: requested.map(str::to_owned),
        is_pinned,
    })
}

/// `1.2.3`, with a pre-release or build. A range or a tag is none.
fn is_exact_version(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<_> = core.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 3
        && parts.iter().all(is_number)
        && version
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-+.".contains(&b))
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_path(name: &str) -> bool {
    name.starts_with(['.', '/', '~']) || (!name.starts_with('@') && name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::too_many_lines, reason = "one row per command")]
    fn packages_are_found_behind_their_runners() {
        let digest = "a".repeat(64);
        let image = format!("ghcr.io/x/y@sha256:{digest}");
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let git = format!("git+https://h/x@{commit}");
        for (argv, name, requested, is_pinned) in [
            (
                &["npx", "-y", "@x/y@1.2.3", "/tmp"][..],
                "@x/y",
                Some("1.2.3"),
                true,
            ),
            (&["npx", "@x/y"], "@x/y", None, false),
            (&["npx", "-y", "y@latest"], "y", Some("latest"), false),
            (&["npx", "y@^1.2.3"], "y", Some("^1.2.3"), false),
            (&["npx", "y@1.2"], "y", Some("1.2"), false),
            (&["npx", "y@1.2.3-rc.1"], "y", Some("1.2.3-rc.1"), true),
            (&["npx", "-p", "y@1.2.3", "run-y"], "y", Some("1.2.3"), true),
            (
                &["npx", "--package=y@1.2.3", "run-y"],
                "y",
                Some("1.2.3"),
                true,
            ),
            (&["npx", "--cache", "/c", "--", "y"], "y", None, false),
            (&["npx", "github:x/y"], "github:x/y", None, false),
            (&["/usr/bin/npx", "y@1.0.0"], "y", Some("1.0.0"), true),
            (&["C:\\n\\npx.cmd", "y"], "y", None, false),
            (&["cmd", "/c", "npx", "y"], "y", None, false),
            (&["env", "A=1", "npx", "y"], "y", None, false),
            (&["npm", "exec", "--", "y@1.0.0"], "y", Some("1.0.0"), true),
            (&["pnpm", "dlx", "y"], "y", None, false),
            (&["uvx", "mcp-server-git"], "mcp-server-git", None, false),
            (
                &["uvx", "mcp-server-git@2025.1.14"],
                "mcp-server-git",
                Some("2025.1.14"),
                true,
            ),
            (
                &["uvx", "mcp-server-git@latest"],
                "mcp-server-git",
                Some("latest"),
                false,
            ),
            (
                &["uvx", "--from", "x[cli]==1.2", "run"],
                "x",
                Some("1.2"),
                true,
            ),
            (&["uvx", "--from=x>=1.2", "run"], "x", Some(">=1.2"), false),
            (&["uvx", "--from", "x==1.*", "run"], "x", Some("1.*"), false),
            (&["uvx", "--python", "3.12", "x"], "x", None, false),
            (&["uvx", "--from", &git, "run"], &git, Some(commit), true),
            (
                &["uvx", "--from", "git+https://h/x@main", "r"],
                "git+https://h/x@main",
                Some("main"),
                false,
            ),
            (&["uv", "tool", "run", "x"], "x", None, false),
            (
                &["pipx", "run", "--spec", "x==1", "r"],
                "x",
                Some("1"),
                true,
            ),
            (
                &["docker", "run", "-i", "--rm", "-e", "A", "mcp/x"],
                "mcp/x",
                None,
                false,
            ),
            (
                &["docker", "run", "-i", "--env=A", "h:5000/x:1.2"],
                "h:5000/x",
                Some("1.2"),
                false,
            ),
            (
                &["podman", "run", "-v", "a:b", &image],
                "ghcr.io/x/y",
                image.split_once('@').map(|(_, d)| d),
                true,
            ),
        ] {
            let found = Package::of_command(argv).unwrap_or_else(|| panic!("{argv:?}"));
            let found = (
                found.name.as_str(),
                found.requested.as_deref(),
                found.is_pinned,
            );
            assert_eq!(found, (name, requested, is_pinned), "{argv:?}");
        }
        for argv in [
            &["node", "server.js"][..],
            &["docker", "ps"],
            &["npm", "start"],
            &["npx"],
            &[],
        ] {
            assert_eq!(Package::of_command(argv), None, "{argv:?}");
        }
    }

    #[test]
    fn a_runner_behind_a_shell_is_seen() {
        for (argv, runner) in [
            (&["sh", "-c", "exec npx -y x"][..], Some("npx")),
            (&["/bin/bash", "-lc", "cd x; /usr/bin/uvx y"], Some("uvx")),
            (&["bash", "-c", "$(docker run x)"], Some("docker")),
            (&["sh", "run.sh"], None),
            (&["node", "npx"], None),
        ] {
            assert_eq!(Package::runner_in_shell(argv), runner, "{argv:?}");
        }
    }
}
