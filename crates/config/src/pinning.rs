//! Whether a command runs only packages of pinned versions. A command in which some word names a
//! known runner of packages has one form whose options are all known, or it is unclear. Pure
//! functions.

use crate::packages::{
    DOCKER_FLAGS, NPM_VALUES, PYTHON_VALUES, Package, are_short_flags, program_name,
};

/// What a command says about the versions that it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// It fetches no package, as far as can be told.
    NoPackage,
    /// Every package has a pinned version.
    Pinned,
    /// This package, or one beside it, has none.
    Unpinned(Package),
    /// It names this runner of packages in a way that is not understood.
    Unclear(String),
}

/// Programs that fetch and run packages.
const RUNNERS: [&str; 8] = [
    "npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman", "nerdctl",
];

/// Programs that do so with one of these words behind them.
const MANAGERS: [(&str, &[&str]); 6] = [
    ("npm", &["exec", "exe", "x", "create", "init", "innit"]),
    ("pnpm", &["exec", "x", "dlx", "create", "init"]),
    ("yarn", &["exec", "x", "dlx", "create", "init"]),
    ("bun", &["x", "create", "init"]),
    ("uv", &["tool", "x", "--with", "--with-editable", "--from"]),
    ("deno", &["npm:", "jsr:", "http:", "https:"]),
];

/// Options without a value that change nothing about what is fetched.
const NPM_FLAGS: &[&str] = &[
    "-y",
    "--yes",
    "-q",
    "--quiet",
    "--silent",
    "--offline",
    "--prefer-offline",
    "--ignore-scripts",
];
const PYTHON_FLAGS: &[&str] = &[
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "--offline",
    "--isolated",
    "-n",
    "--no-cache",
    "--no-config",
    "--native-tls",
    "--no-progress",
    "--no-python-downloads",
    "--managed-python",
];

/// Options of `docker run` that take the next word.
const DOCKER_VALUES: &[&str] = &[
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--tmpfs",
    "-p",
    "--publish",
    "--name",
    "--network",
    "--net",
    "--add-host",
    "--dns",
    "-h",
    "--hostname",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "--entrypoint",
    "-l",
    "--label",
    "--cap-add",
    "--cap-drop",
    "--security-opt",
    "-m",
    "--memory",
    "--memory-swap",
    "--cpus",
    "--pids-limit",
    "--shm-size",
    "--ulimit",
    "--device",
    "--gpus",
    "--platform",
    "--pull",
    "--restart",
    "--log-driver",
    "--log-opt",
    "--stop-timeout",
];

impl Pinning {
    /// Returns what the command of a local server says.
    pub fn of_command(argv: &[&str]) -> Self {
        let package = Package::of_command(argv);
        match package {
            Some(package) if !package.is_pinned => Self::Unpinned(package),
            Some(_) if is_understood(argv) => Self::Pinned,
            _ => named_runner(argv).map_or(Self::NoPackage, Self::Unclear),
        }
    }
}

/// Whether every word before the package is known, so that the package is what runs.
fn is_understood(argv: &[&str]) -> bool {
    let Some((program, words)) = argv.split_first() else {
        return false;
    };
    // `--call` runs a command line.
    let npm_values = || {
        let named = ["-p", "--package"].into_iter();
        let values = NPM_VALUES.iter().copied();
        values
            .filter(|value| !matches!(*value, "-c" | "--call"))
            .chain(named)
            .collect::<Vec<_>>()
    };
    let python_values = || [PYTHON_VALUES, &["--from", "--spec"]].concat();
    match program_name(program).as_str() {
        "npx" | "bunx" | "pnpx" => are_known(words, one_of(NPM_FLAGS), &npm_values()),
        "npm" | "pnpm" | "yarn" | "bun" => are_known(&words[1..], one_of(NPM_FLAGS), &npm_values()),
        "uvx" => are_known(words, one_of(PYTHON_FLAGS), &python_values()),
        "uv" => are_known(&words[2..], one_of(PYTHON_FLAGS), &python_values()),
        "pipx" => are_known(&words[1..], one_of(PYTHON_FLAGS), &python_values()),
        "docker" | "podman" | "nerdctl" => {
            let run = if words[0] == "container" { 2 } else { 1 };
            let is_flag = |arg: &str| DOCKER_FLAGS.contains(&arg) || are_short_flags(arg);
            are_known(&words[run..], is_flag, DOCKER_VALUES)
        }
        "env" => {
            let is_variable = |word: &&&str| !word.starts_with('-') && word.contains('=');
            is_understood(&words[words.iter().take_while(is_variable).count()..])
        }
        "cmd" => is_understood(&words[1..]),
        _ => false,
    }
}

fn one_of(flags: &'static [&str]) -> impl Fn(&str) -> bool {
    move |arg| flags.contains(&arg)
}

/// Whether the options at the beginning are all known.
fn are_known(args: &[&str], is_flag: impl Fn(&str) -> bool, values: &[&str]) -> bool {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if *arg == "--" || !arg.starts_with('-') {
            return true;
        }
        let name = arg.split_once('=').map_or(*arg, |(name, _)| name);
        if is_flag(arg) || (name != *arg && values.contains(&name)) {
            continue;
        }
        if !values.contains(arg) || args.next().is_none() {
            return false;
        }
    }
    true
}

/// The runner that a word of a command names: as a program, behind others that start it, or within
/// a shell's command line.
fn named_runner(argv: &[&str]) -> Option<String> {
    let is_between = |c: char| c.is_whitespace() || ";&|()`'\"{}<>=\\$,![]".contains(c);
    // A shell drops quotes and escapes within a word.
    let bare = argv.iter().map(|arg| arg.replace(['\\', '\'', '"'], ""));
    let texts: Vec<String> = argv.iter().map(ToString::to_string).chain(bare).collect();
    let words: Vec<String> = texts
        .iter()
        .flat_map(|arg| [arg.as_str()].into_iter().chain(arg.split(is_between)))
        .map(program_name)
        .collect();
    if let Some(runner) = words.iter().find(|word| RUNNERS.contains(&word.as_str())) {
        return Some(runner.clone());
    }
    words.iter().enumerate().find_map(|(at, word)| {
        let (manager, verbs) = MANAGERS.iter().find(|(name, _)| word == name)?;
        let does = |later: &String| {
            verbs
                .iter()
                .any(|verb| later == verb || (verb.ends_with(':') && later.starts_with(verb)))
        };
        let fetches = words[at + 1..].iter().any(does)
            // A URL is cut to its last part.
            || texts.iter().any(does);
        fetches.then(|| (*manager).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_understood_and_pinned_counts_as_pinned() {
        let image = format!("x@sha256:{}", "a".repeat(64));
        for argv in [
            &["npx", "-y", "a@1.2.3", "--tag", "x"][..],
            &["npx", "--yes", "--package=a@1.2.3", "run"],
            &["npx", "--registry", "https://r.example", "a@1.2.3"],
            &["env", "A=1", "npx", "-y", "a@1.2.3"],
            &["npm", "exec", "--", "a@1.2.3"],
            &["uvx", "--python", "3.12", "--from", "a==1.0", "run"],
            &["uv", "tool", "run", "a==1.0"],
            &[
                "docker", "run", "-it", "--rm", "-e", "A", "-v", "a:b", &image,
            ],
            &["docker", "container", "run", "--env=A", &image],
        ] {
            assert_eq!(Pinning::of_command(argv), Pinning::Pinned, "{argv:?}");
        }
        for argv in [
            &["npx", "-y", "evil"][..],
            &["npx", "-p", "a@1.2.3", "-p", "evil", "evil"],
            &["uvx", "--with", "evil", "a==1.0"],
            &["docker", "run", "-dit", "evil", &image],
            &["docker", "run", "-i", "evil"],
        ] {
            let found = Pinning::of_command(argv);
            assert!(
                matches!(found, Pinning::Unpinned(_) | Pinning::Unclear(_)),
                "{argv:?}: {found:?}"
            );
        }
        for argv in [
            &["npx", "--tag", "a@1.2.3", "evil"][..],
            &["npx", "-c", "evil", "a@1.2.3"],
            &["npm", "--yes", "exec", "evil"],
            &["uv", "--quiet", "tool", "run", "evil"],
            &["uv", "run", "--with", "evil", "x.py"],
            &["docker", "--log-level", "error", "run", "-i", "evil"],
            &["docker", "run", "--unknown", "x", &image],
            &["env", "-u", "X", "npx", "-y", "a@1.2.3"],
            &["timeout", "9", "npx", "-y", "evil"],
            &["busybox", "sh", "-c", "exec npx -y x"],
            &["sh", "-c", "npm exec evil"],
            &["sh", "-c", "bun x evil"],
            &["sh", "-c", "A=1 /usr/bin/uvx y"],
            &["sh", "-c", "n\\px evil"],
            &["sh", "-c", "n'p'x evil"],
            &["deno", "run", "-A", "npm:evil"],
            &["pnpm", "--silent", "dlx", "evil"],
            &["pipx", "--quiet", "run", "evil"],
        ] {
            let found = Pinning::of_command(argv);
            assert!(matches!(found, Pinning::Unclear(_)), "{argv:?}: {found:?}");
        }
        for argv in [
            &["node", "server.js"][..],
            &["npm", "start"],
            &["uv", "run", "server.py"],
            &["python", "-m", "server", "--data", "./x"],
            &[],
        ] {
            assert_eq!(Pinning::of_command(argv), Pinning::NoPackage, "{argv:?}");
        }
    }
}
