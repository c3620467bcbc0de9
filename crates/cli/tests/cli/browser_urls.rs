//! The URLs that reach the user's browser (AUTH-11).

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;
use trunkline_testkit::net::follow_redirect;
use trunkline_testkit::wait_for;

use crate::lab::{Lab, SOON};
use crate::sign_in::{printed_url, protected};

/// Writes a browser that stores its arguments, one per line, in the file `opened`.
fn install_browser(lab: &Lab) {
    let file = lab.at("opened");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\n", file.display());
    write_browser(lab, &script);
}

fn write_browser(lab: &Lab, script: &str) {
    let browser = lab.scratch.write("browser", script);
    std::fs::set_permissions(browser, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn urls_that_are_no_web_pages_never_reach_the_browser() {
    for endpoint in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "-oProxyCommand=id",
        "--help",
        "ssh://-oProxyCommand=id/",
        "http://as.example/authorize",
        "https://user:password@as.example/authorize",
        "https://169.254.169.254/authorize",
    ] {
        let (lab, issuer) = protected();
        install_browser(&lab);
        issuer.configure(|options| options.set_metadata("authorization_endpoint", json!(endpoint)));
        let mut command = lab.command(&["login", "s"]);
        let run = lab.finish(command.env("BROWSER", lab.at("browser")));
        assert_eq!(run.code, Some(4), "{endpoint}: {run:#?}");
        assert!(run.err.contains("authorization endpoint"), "{run:#?}");
        assert!(!lab.at("opened").exists(), "{endpoint}");
        assert_eq!(issuer.count("/register"), 0, "{endpoint}");
    }
}

#[test]
fn the_browser_does_not_inherit_our_secrets() {
    let (lab, issuer) = protected();
    let file = lab.at("environment");
    let script = format!(
        "#!/bin/sh\nenv > '{0}.part'; mv '{0}.part' '{0}'\n",
        file.display()
    );
    write_browser(&lab, &script);
    let mut command = lab.command(&["login", "s"]);
    command.env("BROWSER", lab.at("browser"));
    for name in [
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_API_KEY",
        "MCP_CLIENT_SECRET",
    ] {
        command.env(name, "leaked");
    }
    let running = lab.start(&mut command);
    follow_redirect(&issuer.authorize(&printed_url(&lab)));
    let run = running.end();
    assert_eq!(run.code, Some(0), "{run:#?}");
    let seen = wait_for(SOON, "the browser", || std::fs::read_to_string(&file).ok());
    assert!(
        seen.contains("BROWSER=") && !seen.contains("leaked"),
        "{seen}"
    );
}

#[test]
fn a_url_reaches_the_browser_as_one_argument_that_no_shell_interprets() {
    let (lab, issuer) = protected();
    install_browser(&lab);
    let endpoint = format!(
        "{}/authorize?a=$(touch pwned)&b=`touch pwned`&c=;'\"|<>\\{{}}*!",
        issuer.issuer()
    );
    issuer.configure(|options| options.set_metadata("authorization_endpoint", json!(endpoint)));
    let mut command = lab.command(&["login", "s"]);
    let running = lab.start(command.env("BROWSER", lab.at("browser")));
    let printed = printed_url(&lab);
    follow_redirect(&issuer.authorize(&printed));
    let run = running.end();
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!(lab.scratch.read("opened"), format!("{printed}\n"));
    let is_inert = |c: char| c.is_ascii_alphanumeric() || "-._~:/?&+,=%".contains(c);
    assert!(printed.chars().all(is_inert), "{printed}");
    assert!(!lab.at("pwned").exists());
}
