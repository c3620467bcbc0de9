//! Reads a profile as written in a file.

use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use crate::hosts::HostRule;
use crate::profile::{GrantedPath, Limits, Network, Profile};

/// The most elements of a list in a profile.
const MAX_ELEMENTS: usize = 256;

const FIELDS: &str = "profile, read, write, execute, network, env and limits";
const LIMITS: &str = "memoryMB, processes, openFiles and cpuSeconds";

impl Profile {
    /// Parses an object of a profile's fields. Absent fields are those of `base`; relative paths
    /// are refused. See [`Profile::parse_in`].
    pub fn parse(value: &Value, base: &Self) -> Result<Self, String> {
        Self::parse_in(value, base, None)
    }

    /// Parses an object of a profile's fields, whose relative paths start from `dir`. The error
    /// says what to write instead.
    pub fn parse_in(value: &Value, base: &Self, dir: Option<&Path>) -> Result<Self, String> {
        let Value::Object(fields) = value else {
            return Err(format!("expected an object of {FIELDS}"));
        };
        let mut profile = Self {
            name: None,
            ..base.clone()
        };
        for (name, value) in fields {
            match name.as_str() {
                // Its fields are in `base`.
                "profile" => {}
                "read" => profile.read = paths(name, value, dir)?,
                "write" => profile.write = paths(name, value, dir)?,
                "execute" => profile.execute = Some(paths(name, value, dir)?),
                "network" => profile.network = network(value)?,
                "env" => profile.env = env(value)?,
                "limits" => profile.limits = limits(value, base.limits)?,
                _ => {
                    return Err(format!(
                        "unknown field \"{}\"; the fields are {FIELDS}",
                        shown(name)
                    ));
                }
            }
        }
        if profile.write.contains(&GrantedPath::System) {
            return Err("\"write\": the files of the system cannot be written".to_owned());
        }
        Ok(profile)
    }
}

/// Text for a message, without what could pass for other text.
pub(crate) fn shown(text: &str) -> String {
    let is_plain = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(is_plain).take(80).collect()
}

fn texts<'v>(name: &str, value: &'v Value) -> Result<Vec<&'v str>, String> {
    let wrong = || format!("\"{name}\": expected a list of strings");
    let list = value.as_array().ok_or_else(wrong)?;
    if list.len() > MAX_ELEMENTS {
        return Err(format!("\"{name}\": more than {MAX_ELEMENTS} elements"));
    }
    list.iter()
        .map(|element| element.as_str().ok_or_else(wrong))
        .collect()
}

fn paths(name: &str, value: &Value, dir: Option<&Path>) -> Result<Vec<GrantedPath>, String> {
    let texts = texts(name, value)?;
    texts
        .into_iter()
        .map(|text| path(name, text, dir))
        .collect()
}

fn path(name: &str, text: &str, dir: Option<&Path>) -> Result<GrantedPath, String> {
    let wrong = |reason: &str| Err(format!("\"{name}\": \"{}\" {reason}", shown(text)));
    let word = match text {
        "project" => GrantedPath::Project,
        "home" | "~" | "~/" => GrantedPath::Home,
        "tmp" => GrantedPath::Tmp,
        "cache" => GrantedPath::Cache,
        "system" => GrantedPath::System,
        "." | "./" if dir.is_some() => GrantedPath::Relative {
            base: dir.map(Path::to_owned).unwrap_or_default(),
            path: PathBuf::new(),
        },
        _ => return named_path(text, dir).or_else(|reason| wrong(&reason)),
    };
    Ok(word)
}

fn named_path(text: &str, dir: Option<&Path>) -> Result<GrantedPath, String> {
    if text.contains('\0') || text.chars().any(char::is_control) {
        return Err("contains control characters".to_owned());
    }
    let has_parent = Path::new(text)
        .components()
        .any(|part| part == Component::ParentDir);
    if has_parent {
        return Err("contains \"..\"; write the path that it leads to".to_owned());
    }
    let plain = |path: &str| -> PathBuf {
        let parts = Path::new(path).components();
        parts.filter(|part| *part != Component::CurDir).collect()
    };
    if let Some(rest) = text.strip_prefix("~/") {
        return Ok(GrantedPath::InHome(plain(rest)));
    }
    if let Some(rest) = text.strip_prefix("./") {
        return match dir {
            Some(dir) => Ok(GrantedPath::Relative {
                base: dir.to_owned(),
                path: plain(rest),
            }),
            None => Err("is relative, and there is no file that it could start from".to_owned()),
        };
    }
    if !Path::new(text).is_absolute() {
        let words = "project, home, tmp, cache or system";
        return Err(format!(
            "is none of {words}, and begins with none of /, ~/ and ./"
        ));
    }
    match plain(text) {
        path if path == Path::new("/") => {
            Err("is the whole machine; list the directories that are needed".to_owned())
        }
        path if ["/proc", "/dev", "/sys"]
            .iter()
            .any(|own| path.starts_with(own)) =>
        {
            Err("cannot be granted: the sandbox has its own".to_owned())
        }
        path => Ok(GrantedPath::Absolute(path)),
    }
}

fn network(value: &Value) -> Result<Network, String> {
    match value {
        Value::String(word) if word == "none" => Ok(Network::None),
        Value::String(word) if word == "loopback" => Ok(Network::Loopback),
        Value::Array(_) => {
            let hosts = texts("network", value)?;
            let hosts: Result<Vec<_>, _> = hosts.into_iter().map(HostRule::parse).collect();
            let hosts = hosts?;
            if hosts.is_empty() {
                return Ok(Network::None);
            }
            Ok(Network::Hosts(hosts))
        }
        _ => Err("\"network\": expected \"none\", \"loopback\" or a list of hosts".to_owned()),
    }
}

fn env(value: &Value) -> Result<Vec<String>, String> {
    let names = texts("env", value)?;
    let wrong = |name: &&&str| name.is_empty() || name.contains(['=', '\0', ' ']);
    if let Some(name) = names.iter().find(wrong) {
        let name = shown(name);
        return Err(format!("\"env\": \"{name}\" is not the name of a variable"));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

fn limits(value: &Value, base: Limits) -> Result<Limits, String> {
    let Value::Object(fields) = value else {
        return Err(format!("\"limits\": expected an object of {LIMITS}"));
    };
    let mut limits = base;
    for name in fields.keys() {
        let limit = limit(fields, name)?;
        match name.as_str() {
            "memoryMB" => limits.memory_mb = limit,
            "processes" => limits.processes = limit,
            "openFiles" => limits.open_files = limit,
            "cpuSeconds" => limits.cpu_seconds = limit,
            _ => {
                let name = shown(name);
                return Err(format!("\"limits\": unknown \"{name}\"; they are {LIMITS}"));
            }
        }
    }
    Ok(limits)
}

/// A limit; `null` is none.
fn limit(fields: &Map<String, Value>, name: &str) -> Result<Option<u64>, String> {
    match &fields[name] {
        Value::Null => Ok(None),
        value => match value.as_u64() {
            Some(number @ 1..=0xffff_ffff) => Ok(Some(number)),
            _ => Err(format!(
                "\"limits\": \"{}\" is not a number above 0",
                shown(name)
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: &Value) -> Result<Profile, String> {
        Profile::parse_in(value, &Profile::default(), Some(Path::new("/repo")))
    }

    #[test]
    fn fields_replace_those_of_the_base() {
        let profile = parse(&json!({
            "read": ["~/data", "./in", "/opt/x/./y", "home"], "write": ["project", "cache"],
            "network": ["example.com:443"], "env": ["A"], "limits": {"processes": 9, "memoryMB": null},
        }))
        .unwrap();
        let relative = GrantedPath::Relative {
            base: "/repo".into(),
            path: "in".into(),
        };
        let read = [
            GrantedPath::InHome("data".into()),
            relative,
            GrantedPath::Absolute("/opt/x/y".into()),
            GrantedPath::Home,
        ];
        assert_eq!(profile.read, read);
        assert_eq!(profile.write, [GrantedPath::Project, GrantedPath::Cache]);
        assert_eq!(profile.limits.processes, Some(9));
        assert_eq!(profile.limits.memory_mb, None);
        assert_eq!(profile.limits.open_files, Limits::default().open_files);
        assert_eq!(parse(&json!({})).unwrap().write, [GrantedPath::Tmp]);
        assert_eq!(
            parse(&json!({"network": []})).unwrap().network,
            Network::None
        );
    }

    #[test]
    fn mistakes_are_named_with_what_to_write() {
        for (value, told) in [
            (json!([]), "expected an object of"),
            (json!({"reads": []}), "unknown field \"reads\""),
            (json!({"read": "project"}), "expected a list of strings"),
            (json!({"read": [1]}), "expected a list of strings"),
            (json!({"read": ["projects"]}), "is none of project, home"),
            (json!({"read": ["/"]}), "the whole machine"),
            (json!({"read": ["/./"]}), "the whole machine"),
            (json!({"read": ["/home/../etc"]}), "contains \"..\""),
            (json!({"read": ["./../x"]}), "contains \"..\""),
            (json!({"read": ["/proc/1"]}), "the sandbox has its own"),
            (json!({"read": ["/a\nb"]}), "control characters"),
            (json!({"write": ["system"]}), "cannot be written"),
            (json!({"network": "all"}), "expected \"none\", \"loopback\""),
            (json!({"network": true}), "expected \"none\", \"loopback\""),
            (json!({"network": ["http://x"]}), "has no port"),
            (json!({"env": ["A=b"]}), "not the name of a variable"),
            (json!({"limits": {"processes": 0}}), "not a number above 0"),
            (json!({"limits": {"ram": 1}}), "unknown \"ram\""),
            (json!({"limits": 5}), "expected an object of memoryMB"),
        ] {
            let error = parse(&value).unwrap_err();
            assert!(error.contains(told), "{value}: {error}");
        }
        let profile = Profile::default();
        assert!(Profile::parse(&json!({"read": ["./x"]}), &profile).is_err());
    }
}
