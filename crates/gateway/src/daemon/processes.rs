//! The processes of the daemon, and their memory, from `/proc`.

use std::fs;
use std::path::Path;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    /// Its memory, without what it has in common with other processes, in bytes.
    pub(super) memory: u64,
    pub(super) argv: Vec<String>,
}

impl Process {
    /// Whether it runs this command line, directly or as the argument of an interpreter.
    pub(super) fn runs(&self, command: &str, args: &[String]) -> bool {
        let Some(rest) = self.argv.strip_suffix(args) else {
            return false;
        };
        let name = |path: &str| Path::new(path).file_name().map(ToOwned::to_owned);
        rest.iter()
            .any(|word| word == command || name(word) == name(command))
    }
}

/// The process `root` and all below it. Empty without `/proc`.
pub(super) fn processes_below(root: u32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter_map(read).collect();
    below(root, all)
}

fn below(root: u32, mut all: Vec<Process>) -> Vec<Process> {
    let mut found: Vec<Process> = all.extract_if(.., |one| one.pid == root).collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).map(|one| one.pid) {
        found.extend(all.extract_if(.., |one| one.parent == parent));
        at += 1;
    }
    found
}

fn read(pid: u32) -> Option<Process> {
    let file = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let (parent, group) = parent_and_group(&file("stat")?)?;
    let argv = file("cmdline").unwrap_or_default();
    Some(Process {
        pid,
        parent,
        group,
        memory: file("status")
            .and_then(|status| own_memory(&status))
            .unwrap_or(0),
        argv: argv.split_terminator('\0').map(str::to_owned).collect(),
    })
}

/// The parent and the group in `/proc/<pid>/stat`. The name in parentheses may contain anything.
fn parent_and_group(stat: &str) -> Option<(u32, u32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The anonymous memory in `/proc/<pid>/status`; a zombie has none.
fn own_memory(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, argv: &[&str]) -> Process {
        Process {
            pid,
            parent,
            group: pid,
            memory: 1,
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    #[test]
    fn the_files_of_proc_are_read_whatever_the_name_of_the_process() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194304";
        assert_eq!(parent_and_group(stat), Some((7, 42)));
        assert_eq!(parent_and_group("42"), None);
        let status = "Name:\tx\nRssAnon:\t     200 kB\nRssFile:\t 1 kB\n";
        assert_eq!(own_memory(status), Some(200 << 10));
        assert_eq!(own_memory("State:\tZ (zombie)\n"), None);
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let all = [(3, 2), (1, 0), (2, 1), (9, 0), (4, 3)].map(|(pid, up)| process(pid, up, &[]));
        let mut pids: Vec<u32> = below(1, all.to_vec()).iter().map(|one| one.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [1, 2, 3, 4]);
    }

    #[test]
    fn a_server_is_recognised_by_its_command_line() {
        let args = ["--x".to_owned()];
        for (argv, expected) in [
            (&["/bin/server", "--x"][..], true),
            (&["server", "--x"], true),
            (&["/usr/bin/python3", "/bin/server", "--x"], true),
            (&["/bin/server"], false),
            (&["/bin/other", "--x"], false),
        ] {
            let found = process(1, 0, argv).runs("/bin/server", &args);
            assert_eq!(found, expected, "{argv:?}");
        }
    }
}
