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
    /// Further packages that the command installs beside it, as it names them.
    pub also: Vec<String>,
    /// The registries that the command or the entry's `env` names, as `--option=value` and
    /// `VARIABLE=value`; without any, the package manager chooses.
    pub registries: Vec<String>,
}

/// Options of npx and its kin that take the next word.
pub(crate) const NPM_VALUES: &[&str] = &[
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
pub(crate) const PYTHON_VALUES: &[&str] = &[
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
pub(crate) const DOCKER_FLAGS: &[&str] = &[
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

/// Options of npx and its kin that choose where packages come from.
const NPM_REGISTRIES: &[&str] = &["--registry", "--userconfig"];

/// Options of uvx and pipx that choose where packages come from, and their short forms.
const PYTHON_REGISTRIES: &[&str] = &[
    "--index-url",
    "--index",
    "--default-index",
    "--extra-index-url",
    "--find-links",
    "--config-file",
];
const PYTHON_SHORT: &[(&str, &str)] = &[("-i", "--index-url"), ("-f", "--find-links")];

/// Options of uvx that add a package.
const PYTHON_ALSO: &[&str] = &["--with", "--with-editable", "--with-requirements"];

/// Variables that choose where packages come from, in lower case.
const REGISTRY_VARIABLES: &[&str] = &[
    "npm_config_registry",
    "npm_config_userconfig",
    "pip_extra_index_url",
    "pip_find_links",
    "pip_index_url",
    "uv_config_file",
    "uv_default_index",
    "uv_extra_index_url",
    "uv_find_links",
    "uv_index",
    "uv_index_url",
    "yarn_npm_registry_server",
];

impl Package {
    /// Returns the package that an entry's command fetches; `None` for other commands.
    pub fn of(entry: &ServerEntry) -> Option<Self> {
        let mut package = Self::of_command(&entry.transport.argv()?)?;
        let env = entry.transport.stdio().map(|stdio| &stdio.env);
        for (name, value) in env.into_iter().flatten() {
            if REGISTRY_VARIABLES.contains(&name.to_ascii_lowercase().as_str()) {
                package
                    .registries
                    .push(format!("{name}={}", value.expose()));
            }
        }
        package.registries.sort();
        Some(package)
    }

    /// The registries without credentials, for a file that others read.
    pub fn shown_registries(&self) -> Vec<String> {
        let shown = self.registries.iter().map(|text| {
            let Some((before, rest)) = text.split_once("://") else {
                return text.clone();
            };
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
            format!("{before}://{}", &rest[host..])
        });
        shown.collect()
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
                let mut package = Self::of_command(&args[at..])?;
                let chooses = |word: &&&str| {
                    let (name, _) = word.split_once('=').unwrap_or_default();
                    REGISTRY_VARIABLES.contains(&name.to_ascii_lowercase().as_str())
                };
                let chosen = args[..at].iter().filter(chooses);
                package.registries.extend(chosen.map(ToString::to_string));
                Some(package)
            }
            "cmd" if first.eq_ignore_ascii_case("/c") => Self::of_command(rest),
            _ => None,
        }
    }
}

/// The name of a program without its directory and extension.
pub(crate) fn program_name(program: &str) -> String {
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

/// The values of options before the package's own words, as `--option=value`.
fn options(args: &[&str], names: &[&str], takes_word: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut args, mut found) = (args.iter(), Vec::new());
    while let Some(arg) = args.next() {
        if *arg == "--" || !arg.starts_with('-') {
            break;
        }
        let (option, value) = match arg.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None if takes_word(arg) || names.contains(arg) => (*arg, args.next().copied()),
            None => (*arg, None),
        };
        if let (true, Some(value)) = (names.contains(&option), value) {
            found.push(format!("{option}={value}"));
        }
    }
    found
}

fn npm(args: &[&str]) -> Option<Package> {
    let named_by = ["-p", "--package"];
    let takes_word = |arg: &str| NPM_VALUES.contains(&arg);
    let spec = subject(args, &named_by, takes_word)?;
    let package = npm_spec(spec);
    let others = options(args, &named_by, takes_word).into_iter().skip(1);
    let also: Vec<String> = others
        .filter_map(|option| Some(option.split_once('=')?.1.to_owned()))
        .collect();
    Some(Package {
        is_pinned: package.is_pinned && also.iter().all(|spec| npm_spec(spec).is_pinned),
        also,
        registries: options(args, NPM_REGISTRIES, |arg| {
            takes_word(arg) || named_by.contains(&arg)
        }),
        ..package
    })
}

fn npm_spec(spec: &str) -> Package {
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
    Package {
        registry: Registry::Npm,
        name: name.to_owned(),
        requested: version.map(str::to_owned),
        is_pinned,
        also: Vec::new(),
        registries: Vec::new(),
    }
}

fn python(args: &[&str], named_by: &str) -> Option<Package> {
    let takes_word = |arg: &str| arg == named_by || PYTHON_VALUES.contains(&arg);
    let spec = subject(args, &[named_by], takes_word)?;
    let package = python_spec(spec);
    // Files of requirements and directories stand for no one content.
    let mut are_pinned = true;
    let mut also = Vec::new();
    for option in options(args, &[PYTHON_ALSO, &[named_by]].concat(), takes_word) {
        match option.split_once('=') {
            Some((name, value)) if name == named_by && value == spec => {}
            Some((name, value)) if name == "--with" || name == named_by => {
                for value in value.split(',') {
                    are_pinned &= python_spec(value).is_pinned;
                    also.push(value.to_owned());
                }
            }
            _ => {
                are_pinned = false;
                also.push(option);
            }
        }
    }
    let short = PYTHON_SHORT.iter().map(|(short, _)| *short);
    let names: Vec<&str> = PYTHON_REGISTRIES.iter().copied().chain(short).collect();
    let registries = options(args, &names, takes_word).into_iter().map(|option| {
        let long = PYTHON_SHORT.iter().find_map(|(short, long)| {
            let value = option.strip_prefix(short)?.strip_prefix('=')?;
            Some(format!("{long}={value}"))
        });
        long.unwrap_or(option)
    });
    Some(Package {
        is_pinned: package.is_pinned && are_pinned,
        also,
        registries: registries.collect(),
        ..package
    })
}

fn python_spec(spec: &str) -> Package {
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
    Package {
        registry: Registry::Pypi,
        name: name.trim().to_owned(),
        requested: requested.map(|version| version.trim().to_owned()),
        is_pinned,
        also: Vec::new(),
        registries: Vec::new(),
    }
}

fn image(args: &[&str]) -> Option<Package> {
    let takes_word =
        |arg: &str| !arg.contains('=') && !DOCKER_FLAGS.contains(&arg) && !are_short_flags(arg);
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
        also: Vec::new(),
        registries: Vec::new(),
    })
}

/// Flags of `docker run` in one word, such as `-dit`.
pub(crate) fn are_short_flags(arg: &str) -> bool {
    arg.strip_prefix('-')
        .is_some_and(|flags| !flags.is_empty() && flags.chars().all(|flag| "diPqt".contains(flag)))
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
    fn further_packages_and_registries_are_seen() {
        for (argv, also, registries, is_pinned) in [
            (
                &["npx", "-p", "a@1.2.3", "-p", "b@1.2.3", "a"][..],
                &["b@1.2.3"][..],
                &[][..],
                true,
            ),
            (
                &["npx", "--package=a@1.2.3", "--package", "b", "a"],
                &["b"],
                &[],
                false,
            ),
            (
                &[
                    "npx",
                    "-y",
                    "--registry",
                    "https://r.example",
                    "a@1.2.3",
                    "--registry=x",
                ],
                &[],
                &["--registry=https://r.example"],
                true,
            ),
            (
                &[
                    "uvx",
                    "-i",
                    "https://r.example/simple",
                    "--with",
                    "b==1,c",
                    "a==1",
                ],
                &["b==1", "c"],
                &["--index-url=https://r.example/simple"],
                false,
            ),
            (
                &["uvx", "--from", "a==1", "--from", "b==2", "run"],
                &["b==2"],
                &[],
                true,
            ),
            (
                &["uvx", "--with-requirements", "r.txt", "a==1"],
                &["--with-requirements=r.txt"],
                &[],
                false,
            ),
            (
                &[
                    "env",
                    "NPM_CONFIG_REGISTRY=https://r.example",
                    "npx",
                    "a@1.2.3",
                ],
                &[],
                &["NPM_CONFIG_REGISTRY=https://r.example"],
                true,
            ),
        ] {
            let found = Package::of_command(argv).unwrap();
            let also: Vec<String> = also.iter().map(ToString::to_string).collect();
            let registries: Vec<String> = registries.iter().map(ToString::to_string).collect();
            let expected = (&also, &registries, is_pinned);
            assert_eq!(
                (&found.also, &found.registries, found.is_pinned),
                expected,
                "{argv:?}"
            );
        }
        let argv = [
            "npx",
            "--registry=https://me:secret@r.example/x@y",
            "a@1.2.3",
        ];
        let shown = Package::of_command(&argv).unwrap().shown_registries();
        assert_eq!(shown, ["--registry=https://r.example/x@y"]);
    }
}
