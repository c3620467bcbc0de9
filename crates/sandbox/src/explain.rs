//! Describes rules to a person.

use crate::profile::Network;
use crate::rules::{Access, Grant, Rules};

/// Describes rules, one fact per line: what it is about, and what is allowed.
pub fn explain(rules: &Rules) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let own = |access: Access| {
        let grants = rules.grants.iter();
        grants.filter(move |grant| grant.access == access && grant.word != "system")
    };
    lines.push((
        "read",
        "system (programs, libraries, certificates)".to_owned(),
    ));
    lines.extend(own(Access::Read).map(|grant| ("read", describe(grant))));
    lines.extend(own(Access::Write).map(|grant| ("write", describe(grant))));
    if rules.tmp {
        let no_programs = no_programs(rules.own_execute.tmp);
        let text = format!("/tmp, which is private and ends with the server{no_programs}");
        lines.push(("write", text));
    }
    if let Some(cache) = &rules.cache {
        let no_programs = no_programs(rules.own_execute.cache);
        let cache = cache.display();
        let text = format!("/tmp/.cache, which is kept in {cache}{no_programs}");
        lines.push(("write", text));
    }
    for hidden in &rules.hidden {
        lines.push(("hidden", hidden.display().to_string()));
    }
    match &rules.network {
        Network::None => lines.push(("network", "none".to_owned())),
        Network::Loopback => lines.push(("network", "a loopback interface of its own".to_owned())),
        Network::Hosts(hosts) => {
            let hosts = hosts.iter();
            lines.extend(hosts.map(|host| ("network", format!("{host}, through a proxy"))));
        }
    }
    let mut names = crate::launch::INHERITED_VARIABLES.join(", ");
    for name in &rules.env {
        names.push_str(", ");
        names.push_str(name);
    }
    lines.push(("env", format!("{names}, HOME=/tmp, and the entry's own")));
    let limits = &rules.limits;
    for (limit, unit) in [
        (limits.memory_mb, "MB of memory for each process"),
        (limits.processes, "processes and threads"),
        (limits.open_files, "open files for each process"),
        (limits.cpu_seconds, "seconds of CPU time for each process"),
    ] {
        if let Some(limit) = limit {
            lines.push(("limit", format!("{limit} {unit}")));
        }
    }
    lines
}

fn no_programs(execute: bool) -> &'static str {
    if execute { "" } else { ", no programs" }
}

fn describe(grant: &Grant) -> String {
    let path = grant.path.display().to_string();
    let mut text = if grant.word == path {
        path
    } else {
        format!("{path} ({})", grant.word)
    };
    text.push_str(no_programs(grant.execute));
    if !grant.except.is_empty() {
        text.push_str(", without credentials and start-up files");
    }
    text
}
