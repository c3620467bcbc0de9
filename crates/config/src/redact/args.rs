//! Secrets in the arguments of a command.

use std::ops::Range;
use std::path::Path;

use super::classify::{is_path_setting, is_plain, is_random, is_words};
use super::entry::RedactMode;
use super::ranges::{OPEN_HEADERS, command_ranges, value_ranges};
use super::references::has_shell_syntax;
use super::secret_names::is_secret_name;

/// Short flags that take a password, by program. For other programs `-p` is a port, a path or a
/// package.
const PASSWORD_FLAGS: [(&[&str], PasswordFlag); 7] = [
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlsh",
            "mariadb",
            "mariadb-dump",
        ],
        PasswordFlag::attached("-p"),
    ),
    (&["sshpass"], PasswordFlag::either("-p")),
    (
        &["mongo", "mongosh", "mongodump", "cqlsh"],
        PasswordFlag::separate("-p"),
    ),
    (&["redis-cli"], PasswordFlag::separate("-a")),
    (&["sqlcmd", "bcp"], PasswordFlag::either("-P")),
    (&["ldapsearch"], PasswordFlag::either("-w")),
    // `docker login -p password`, but `docker run -p 8080:80`.
    (
        &["docker", "podman"],
        PasswordFlag {
            flag: Flag::Likely,
            ..PasswordFlag::separate("-p")
        },
    ),
];

/// A short flag of a program that takes a password.
#[derive(Clone, Copy)]
struct PasswordFlag {
    name: &'static str,
    /// `-p password`.
    separate: bool,
    /// `-ppassword`.
    attached: bool,
    flag: Flag,
}

impl PasswordFlag {
    const fn separate(name: &'static str) -> Self {
        Self {
            name,
            separate: true,
            attached: false,
            flag: Flag::Password,
        }
    }

    const fn attached(name: &'static str) -> Self {
        Self {
            separate: false,
            attached: true,
            ..Self::separate(name)
        }
    }

    const fn either(name: &'static str) -> Self {
        Self {
            attached: true,
            ..Self::separate(name)
        }
    }

    /// The flag of a program, by the name of its file.
    fn of(program: &str) -> Option<Self> {
        let name = Path::new(program).file_stem()?.to_str()?;
        let mut known = PASSWORD_FLAGS.iter();
        known
            .find(|(programs, _)| programs.contains(&name))
            .map(|(_, flag)| *flag)
    }

    /// Where the password begins in an argument that is this flag.
    fn value_start(self, arg: &str) -> Option<usize> {
        let value = arg.strip_prefix(self.name)?;
        let applies = if value.is_empty() {
            self.separate
        } else {
            self.attached
        };
        applies.then_some(self.name.len())
    }
}

/// The kind of value that a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    /// `NAME=value`.
    Env,
    /// `Name: value`.
    Header,
    /// `user:password`.
    User,
    /// A secret, whatever it looks like.
    Secret,
    /// A secret, unless it is a number, a path or a URL.
    Password,
    /// A secret, unless it looks like a plain value or like words.
    Likely,
    /// Any other flag.
    Plain,
    /// The argument follows no flag.
    None,
}

impl Flag {
    /// The flag that an argument begins with, and where its value begins: at the end of the
    /// argument if the value is the next one.
    fn of(arg: &str) -> Option<(Self, usize)> {
        if !arg.starts_with('-') || arg.len() < 2 {
            return None;
        }
        // `-eNAME=value` and `-HName: value`.
        for (short, flag) in [("-e", Self::Env), ("-H", Self::Header)] {
            if let Some(value) = arg.strip_prefix(short)
                && value.starts_with(|c: char| c.is_ascii_alphabetic())
                && value.contains(['=', ':'])
            {
                return Some((flag, short.len()));
            }
        }
        let end = arg
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(arg.len());
        // `--token:value`, as some programs of Windows and .NET take it.
        let end = match arg[..end].find(':') {
            Some(colon) if is_secret_name(arg[..colon].trim_start_matches('-')) => colon,
            _ => end,
        };
        let flag = match arg[..end].trim_start_matches('-') {
            "e" | "env" | "env-var" | "environment" => Self::Env,
            "H" | "header" | "headers" => Self::Header,
            "u" | "user" | "U" | "proxy-user" | "basic-auth" | "http-basic" => Self::User,
            name if is_secret_name(name) => Self::Secret,
            "pw" if arg.starts_with("--") => Self::Password,
            "key" if arg.starts_with("--") => Self::Likely,
            _ => Self::Plain,
        };
        Some((flag, (end + 1).min(arg.len())))
    }
}

/// Walks through arguments and matches flags with their values.
pub(super) struct ArgScanner {
    /// The flag whose value is the next argument.
    pending: Flag,
    /// The password flag of the program that runs.
    password_flag: Option<PasswordFlag>,
}

impl ArgScanner {
    pub(super) fn new(command: &str) -> Self {
        Self {
            pending: Flag::None,
            password_flag: PasswordFlag::of(command),
        }
    }

    /// Whether an argument that begins with a dash is the value of the flag before it.
    fn takes(&self, arg: &str) -> bool {
        let wants = matches!(self.pending, Flag::Secret | Flag::Password | Flag::Likely);
        let value = arg.trim_start_matches('-');
        wants && value.len() >= 8 && !value.contains('=') && !is_words(value)
    }

    /// The flag whose value this argument is, and the offset of the value; `None` for a flag whose
    /// value is the next argument.
    pub(super) fn next(&mut self, arg: &str) -> Option<(Flag, usize)> {
        let password = self
            .password_flag
            .and_then(|known| Some((known.flag, known.value_start(arg)?)));
        let own = password.or_else(|| Flag::of(arg).filter(|_| !self.takes(arg)));
        let (flag, start) = match own {
            Some(flag) => flag,
            None => (std::mem::replace(&mut self.pending, Flag::None), 0),
        };
        if start == arg.len() {
            self.pending = flag;
            return None;
        }
        self.pending = Flag::None;
        // `npx`, `sudo` and `docker run` start a program that an argument names.
        if flag == Flag::None {
            self.password_flag = PasswordFlag::of(arg).or(self.password_flag);
        }
        Some((flag, start))
    }
}

/// The secrets in an argument whose value begins at `start`.
pub(super) fn arg_ranges(
    text: &str,
    start: usize,
    flag: Flag,
    mode: RedactMode,
) -> Vec<Range<usize>> {
    let value = &text[start..];
    let after = |at: usize| {
        let rest = &value[at..];
        let at = at + rest.len() - rest.trim_start().len();
        let ranges = value_ranges(&value[at..]).into_iter();
        ranges
            .map(|range| range.start + at..range.end + at)
            .collect()
    };
    let by_position: Vec<Range<usize>> = match flag {
        Flag::Password if is_plain(value) => Vec::new(),
        Flag::Likely if is_plain(value) || is_words(value) => Vec::new(),
        Flag::Secret | Flag::Password | Flag::Likely => value_ranges(value),
        Flag::Env | Flag::Plain | Flag::None => match value.split_once('=') {
            Some((name, setting)) => {
                let is_secret = is_secret_name(name) && !is_path_setting(name, setting);
                let hidden = flag == Flag::Env
                    && mode == RedactMode::Display
                    && !is_plain(setting)
                    && !is_words(setting);
                let is_word = flag == Flag::Env && mode == RedactMode::Display;
                let code = !is_word && has_shell_syntax(setting);
                if (is_secret || hidden) && !code && !name.contains(char::is_whitespace) {
                    after(name.len() + 1)
                } else {
                    Vec::new()
                }
            }
            None if flag == Flag::Plain && is_random(value) => value_ranges(value),
            None => Vec::new(),
        },
        Flag::Header => match value.split_once(':') {
            Some((name, _)) if OPEN_HEADERS.contains(&name.trim().to_lowercase().as_str()) => {
                Vec::new()
            }
            Some((name, _)) => after(name.len() + 1),
            None => Vec::new(),
        },
        Flag::User => match value.split_once(':') {
            // `socat -u EXEC:program -`
            Some((name, _)) if mode == RedactMode::Approval && is_start(name) => Vec::new(),
            Some((name, _)) => after(name.len() + 1),
            None => Vec::new(),
        },
    };
    let by_position = by_position.into_iter();
    let mut ranges: Vec<_> = by_position
        .map(|range| range.start + start..range.end + start)
        .collect();
    ranges.extend(command_ranges(text));
    ranges
}

/// Whether the text after a name and a colon is run as a program.
fn is_start(name: &str) -> bool {
    let mut starts = ["exec", "system", "shell"].iter();
    starts.any(|start| name.trim().eq_ignore_ascii_case(start))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::redact::{RedactMode, redact_entry};

    fn check(command: &str, cases: &[(Value, Value)]) {
        for (args, expected) in cases {
            let mut entry = json!({"command": command, "args": args});
            redact_entry(&mut entry, RedactMode::Display);
            assert_eq!(entry["args"], *expected, "{command} {args}");
        }
    }

    #[test]
    fn password_flags_of_known_programs_are_masked() {
        check(
            "sshpass",
            &[(
                json!(["-p", "hunter", "ssh", "h"]),
                json!(["-p", "***", "ssh", "h"]),
            )],
        );
        check(
            "/usr/bin/mysql",
            &[
                (
                    json!(["-u", "root", "-phunter", "db"]),
                    json!(["-u", "root", "-p***", "db"]),
                ),
                (
                    json!(["-p", "db", "-P", "3306"]),
                    json!(["-p", "db", "-P", "3306"]),
                ),
            ],
        );
        check(
            "npx",
            &[(
                json!(["mongosh", "-p", "hunter"]),
                json!(["mongosh", "-p", "***"]),
            )],
        );
        check(
            "redis-cli",
            &[(
                json!(["-a", "hunter", "-p", "6379"]),
                json!(["-a", "***", "-p", "6379"]),
            )],
        );
        check("sqlcmd", &[(json!(["-P", "hunter"]), json!(["-P", "***"]))]);
        check(
            "docker",
            &[
                (
                    json!(["login", "-p", "x9Kq2LmP7"]),
                    json!(["login", "-p", "***"]),
                ),
                (
                    json!(["run", "-p", "8080:80", "img"]),
                    json!(["run", "-p", "8080:80", "img"]),
                ),
            ],
        );
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "one row per spelling")]
    fn keys_and_passwords_are_told_from_plain_values() {
        check(
            "server",
            &[
                (json!(["--key", "x9Kq2LmP7"]), json!(["--key", "***"])),
                (json!(["--key=x9Kq2LmP7"]), json!(["--key=***"])),
                (
                    json!(["--key", "server.pem"]),
                    json!(["--key", "server.pem"]),
                ),
                (
                    json!(["--key", "/etc/tls/key.pem"]),
                    json!(["--key", "/etc/tls/key.pem"]),
                ),
                (json!(["--key", "${KEY}"]), json!(["--key", "${KEY}"])),
                (
                    json!(["--pass", "hunter", "--pwd=hunter"]),
                    json!(["--pass", "***", "--pwd=***"]),
                ),
                (
                    json!(["--token", "-x9Kq2LmP7vN4tR8", "--key", "--x9Kq2LmP7vN4"]),
                    json!(["--token", "***", "--key", "***"]),
                ),
                (
                    json!(["--token", "--oauth2-scopes", "a", "--password", "-v"]),
                    json!(["--token", "--oauth2-scopes", "a", "--password", "-v"]),
                ),
                (
                    json!([
                        "--token:abc",
                        "--token1=abc",
                        "--token_value=abc",
                        "--app-key",
                        "abc"
                    ]),
                    json!([
                        "--token:***",
                        "--token1=***",
                        "--token_value=***",
                        "--app-key",
                        "***"
                    ]),
                ),
                (
                    json!([
                        "--basic-auth",
                        "u:pw",
                        "--keypass",
                        "abc",
                        "--service-role-key",
                        "abc"
                    ]),
                    json!([
                        "--basic-auth",
                        "u:***",
                        "--keypass",
                        "***",
                        "--service-role-key",
                        "***"
                    ]),
                ),
                (
                    json!([
                        "--sas",
                        "sv=2020&sig=x9Kq2LmP7%3D&se=1",
                        "--set",
                        "db.password:x9Kq2LmP7"
                    ]),
                    json!(["--sas", "sv=2020&sig=***&se=1", "--set", "db.password:***"]),
                ),
                (
                    json!([
                        "--key-file",
                        "path",
                        "--sort-key",
                        "name",
                        "--public-key",
                        "abc"
                    ]),
                    json!([
                        "--key-file",
                        "path",
                        "--sort-key",
                        "name",
                        "--public-key",
                        "abc"
                    ]),
                ),
                (
                    json!([
                        "--primary-key",
                        "id",
                        "--target:linux",
                        "-Dcolor:red",
                        "--map",
                        "a:b"
                    ]),
                    json!([
                        "--primary-key",
                        "id",
                        "--target:linux",
                        "-Dcolor:red",
                        "--map",
                        "a:b"
                    ]),
                ),
                (
                    json!(["--pw", "hunter", "-p", "8080"]),
                    json!(["--pw", "***", "-p", "8080"]),
                ),
            ],
        );
        check(
            "npx",
            &[
                (
                    json!(["-p", "typescript@5.4.0-beta.20240215", "tsc"]),
                    json!(["-p", "typescript@5.4.0-beta.20240215", "tsc"]),
                ),
                (
                    json!(["-p", "@scope/pkg", "-p", "./dir"]),
                    json!(["-p", "@scope/pkg", "-p", "./dir"]),
                ),
            ],
        );
    }
}
