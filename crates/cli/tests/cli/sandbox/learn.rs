//! `sandbox learn` proposes the smallest profile that covers what a server does.

use serde_json::{Value, json};

use crate::lab::{Lab, Run};

/// A server that reads a file beside it, writes to a directory, asks for a host, and tries what it
/// should not.
const SERVER: &str = r#"
use IO::Socket::INET;
$| = 1;
my ($root, $home) = @ARGV;
open(my $words, '<', "$root/tool/data/words.txt") or die "no words: $!";
open(my $key, '<', "$home/.ssh/id");
my $token = $ENV{OUR_TOKEN};
if (my ($proxy) = ($ENV{http_proxy} // '') =~ m|//([^/]+)|) {
    my $to = IO::Socket::INET->new(PeerAddr => $proxy);
    print $to "GET http://api.example/ HTTP/1.1\r\n\r\n" and <$to> if $to;
}
while (my $line = <STDIN>) {
    my ($id) = $line =~ /"id":\s*(\d+)/ or next;
    my $result = '{}';
    if ($line =~ /"initialize"/) {
        my ($version) = $line =~ /"protocolVersion":\s*"([^"]+)"/;
        $result = qq({"protocolVersion":"$version","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}});
    } elsif ($line =~ /"tools\/list"/) {
        $result = '{"tools":[{"name":"save","inputSchema":{"type":"object"}}]}';
    } elsif ($line =~ /"tools\/call"/) {
        my $done = open(my $log, '>>', "$root/state/log") ? 'saved' : "refused: $!";
        $result = qq({"content":[{"type":"text","text":"$done"}]});
    } elsif ($line !~ /"ping"/) {
        print qq({"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no such method"}}\n);
        next;
    }
    print qq({"jsonrpc":"2.0","id":$id,"result":$result}\n);
}
"#;

fn lab(sandbox: &Value) -> Lab {
    let lab = Lab::new();
    for (file, text) in [
        ("tool/server.pl", SERVER),
        ("tool/data/words.txt", "words"),
        ("state/before", ""),
        ("work/file", ""),
        ("home/.ssh/id", "private"),
    ] {
        lab.scratch.write(file, text);
    }
    let (marker, value) = lab.scratch.marker().env();
    let mut entry = json!({
        "command": "perl", "env": {marker: value},
        "args": [lab.at("tool/server.pl"), lab.at(""), lab.scratch.home()],
    });
    if !sandbox.is_null() {
        entry["sandbox"] = sandbox.clone();
    }
    lab.servers("home/.claude.json", &json!({ "s": entry }));
    lab
}

fn learn(lab: &Lab, flags: &[&str]) -> Run {
    let words = [&["--json", "sandbox", "learn", "s"], flags].concat();
    let mut command = lab.bare(&words);
    command.env("OUR_TOKEN", "x").current_dir(lab.at("work"));
    lab.finish(&mut command)
}

#[test]
fn the_smallest_profile_is_proposed_and_credentials_are_kept() {
    let lab = lab(&json!(null));
    let found = learn(&lab, &["--call", "save"]).json();
    let at = |name: &str| lab.plain(lab.at(name).to_str().unwrap());
    assert_eq!(found["profile"]["read"], json!([at("tool")]), "{found}");
    assert_eq!(found["profile"]["write"], json!([at("state")]), "{found}");
    assert_eq!(
        found["profile"]["network"],
        json!(["api.example:80"]),
        "{found}"
    );
    assert_eq!(found["withheld"], json!([at("home/.ssh/id")]), "{found}");
    assert_eq!(found["mayRead"], json!(["OUR_TOKEN"]), "{found}");
    assert_eq!(found["refused"]["write"], json!([at("state")]), "{found}");
    assert!(!lab.at("state/log").exists(), "it was confined");

    // What is not used is not proposed.
    let found = learn(&lab, &[]).json();
    assert_eq!(found["profile"]["write"], json!([]), "{found}");

    let found = learn(&lab, &["--call", "save={}", "--write"]).json();
    assert_eq!(found["refused"]["write"], json!([]), "{found}");
    assert!(lab.at("state/log").exists());

    // The proposal works.
    let mut profile = found["profile"].clone();
    for list in ["read", "write"] {
        let paths = profile[list].as_array_mut().unwrap();
        for path in paths {
            *path = json!(
                path.as_str()
                    .unwrap()
                    .replace("[DIR]", lab.at("").to_str().unwrap())
            );
        }
    }
    let other = self::lab(&json!({"read": [], "write": []}));
    let run = other.plainly(&["call", "s", "save"]);
    assert_ne!(run.code, Some(0), "{run:#?}");
    let mut global = lab.global();
    global["mcpServers"]["s"]["sandbox"] = profile;
    lab.write_json("home/.claude.json", &global);
    let run = lab.plainly(&["call", "s", "save"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (Some(0), "saved\n"),
        "{run:#?}"
    );
}

#[test]
fn a_ceiling_bounds_what_is_granted_while_learning() {
    let lab = lab(&json!(null));
    let settings = json!({
        "sandboxProfiles": {"ceiling": {"read": [lab.at("tool")], "write": ["tmp"]}},
        "requireSandbox": {"s": "ceiling"},
    });
    lab.write_json("home/.claude/settings.json", &settings);
    let found = learn(&lab, &["--call", "save", "--write"]).json();
    let state = lab.plain(lab.at("state").to_str().unwrap());
    assert_eq!(found["profile"]["write"], json!([state]), "{found}");
    assert!(!lab.at("state/log").exists());
}

#[test]
fn what_cannot_be_learnt_is_said() {
    let lab = lab(&json!(null));
    for (words, told) in [
        (&["sandbox", "learn", "none"][..], "none"),
        (
            &["sandbox", "learn", "s", "--call", "save=1"],
            "no JSON object",
        ),
    ] {
        let run = lab.plainly(words);
        assert_eq!(run.code, Some(2), "{run:#?}");
        assert!(run.err.contains(told), "{run:#?}");
    }
    std::fs::remove_file(lab.at("tool/data/words.txt")).unwrap();
    let run = learn(&lab, &[]);
    assert_eq!(run.code, Some(3), "{run:#?}");
}
