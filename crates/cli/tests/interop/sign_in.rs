//! Real authorization servers: sign-in, calls, refresh and sign-out (AUTH-2, AUTH-4, AUTH-10).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_testkit::wait_for;

use crate::headless::{Headless, send};
use crate::lab::{Lab, Ran};
use crate::service::{Service, free_port};

/// The time limit of a run, on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// The call of our own servers, and its result.
const GREETING: (&[&str], &str) = (&["s", "greet"], "hello\n");

/// A lab with one protected server, and a browser that stores the URL which it is to open.
struct Protected {
    lab: Lab,
    url: String,
    browser: PathBuf,
    /// A call, and its result.
    call: (&'static [&'static str], &'static str),
}

impl Protected {
    fn new(url: String, call: (&'static [&'static str], &'static str)) -> Self {
        let lab = Lab::with(&[]);
        lab.write_servers(&json!({"s": {"type": "http", "url": url}}));
        let browser = lab.project.join("browser");
        let script = "#!/bin/sh\nprintf %s \"$1\" > \"$0.new\" && mv \"$0.new\" \"$0.url\"\n";
        fs::write(&browser, script).unwrap();
        fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            lab,
            url,
            browser,
            call,
        }
    }

    /// Signs in with the browser.
    fn login(&self) -> Ran {
        let mut command = self.lab.program(&["login", "s"]);
        let running = self.lab.start(command.env("BROWSER", &self.browser));
        let opened = self.browser.with_extension("url");
        let url = wait_for(SOON, "the browser", || fs::read_to_string(&opened).ok());
        fs::remove_file(opened).unwrap();
        let page = Headless::new().visit(&url);
        assert!(page.contains("You are signed in"), "{page}");
        running.end().done()
    }

    /// Signs in on another device.
    fn login_with_device(&self) -> Ran {
        let mut command = self.lab.program(&["login", "s", "--device"]);
        let running = self.lab.start(&mut command);
        let (code, url) = wait_for(SOON, "the code", || {
            let text = running.stderr();
            let mut lines = text.lines();
            let line = lines.find(|line| line.contains("Enter the code"))?;
            let code = line.split(' ').nth(3)?.to_owned();
            Some((code, lines.next()?.trim().to_owned()))
        });
        Headless::new().enter("user_code", &code).visit(&url);
        running.end().done()
    }

    #[track_caller]
    fn check_call(&self) {
        let (call, expected) = self.call;
        assert_eq!(self.lab.call(call), expected);
    }

    /// The stored tokens.
    fn tokens(&self) -> Value {
        let file = self.lab.home().join(".claude/trunkline/secrets.json");
        let secrets: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        let mut records = secrets["trunkline OAuth"].as_object().unwrap().values();
        let record = records.next().unwrap().as_str().unwrap();
        serde_json::from_str::<Value>(record).unwrap()["tokens"].take()
    }

    /// Calls until the token has been refreshed; every call must succeed.
    fn wait_for_refresh(&self) {
        let before = self.tokens();
        let after = wait_for(SOON, "a refresh", || {
            self.check_call();
            Some(self.tokens()).filter(|now| now["access"] != before["access"])
        });
        assert_ne!(after["refresh"], before["refresh"], "no rotation");
    }

    /// Whether the server accepts a token.
    fn is_accepted(&self, token: &Value) -> bool {
        let token = token.as_str().unwrap();
        let headers = format!(
            "authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n"
        );
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        send(&self.url, Some(&ping), &headers).status != 401
    }

    /// Signs out, and returns whether the tokens were revoked.
    fn logout(&self) -> Value {
        let logout = self.lab.run(&["logout", "s", "--json"]).done().json();
        assert_eq!(logout["signedOut"], true, "{logout}");
        let call = self.lab.run(&["call", "s", "greet"]);
        assert_eq!(call.code, Some(4), "{call:#?}");
        logout["revocation"].clone()
    }
}

/// `oidc-provider` and the MCP server behind it.
fn oidc_provider() -> (Service, String, Protected) {
    let auth_port = free_port();
    let service = Service::oidc_provider(auth_port);
    let protected = Protected::new(service.url("http", "/mcp"), GREETING);
    (
        service,
        format!("http://127.0.0.1:{auth_port}/grants"),
        protected,
    )
}

#[test]
fn oidc_provider_signs_in_refreshes_and_revokes() {
    let (_service, grants, protected) = oidc_provider();
    let refused = protected.lab.run(&["call", "s", "greet"]);
    assert_eq!(refused.code, Some(4), "{refused:#?}");
    let login = protected.login();
    assert!(login.stdout.contains("connected: 1 tool"), "{login:#?}");
    protected.check_call();
    protected.wait_for_refresh();
    let grants: Value = serde_json::from_str(&send(&grants, None, "").body).unwrap();
    assert_eq!(grants["authorization_code"], 1, "{grants}");
    assert!(grants["refresh_token"].as_u64() >= Some(1), "{grants}");
    let tokens = protected.tokens();
    assert!(protected.is_accepted(&tokens["access"]));
    assert_eq!(protected.logout(), "revoked");
    assert!(!protected.is_accepted(&tokens["access"]));
}

#[test]
fn oidc_provider_signs_in_on_another_device() {
    let (_service, grants, protected) = oidc_provider();
    protected.login_with_device();
    protected.check_call();
    protected.wait_for_refresh();
    let grants: Value = serde_json::from_str(&send(&grants, None, "").body).unwrap();
    let device = &grants["urn:ietf:params:oauth:grant-type:device_code"];
    assert_eq!(*device, 1, "{grants}");
}

/// Its tokens live for an hour, and it has neither refresh tokens nor revocation. `--oauth-strict`
/// accepts only tokens for this resource.
#[test]
fn the_typescript_sdks_example_signs_in() {
    let service = Service::sdk_example_with_oauth(free_port());
    let url = format!("http://localhost:{}/mcp", service.port());
    let protected = Protected::new(url, (&["s", "greet", "name=Ada"], "Hello, Ada!\n"));
    protected.login();
    protected.check_call();
    let tokens = protected.tokens();
    assert!(tokens["refresh"].is_null(), "{tokens}");
    assert_eq!(protected.logout(), "unsupported");
    // The client is registered anew, and the sign-in works as the first did.
    protected.login();
    protected.check_call();
}

#[test]
fn fastmcp_signs_in_refreshes_and_revokes() {
    let service = Service::python("venv", "fastmcp_oauth.py");
    let protected = Protected::new(service.url("http", "/mcp"), GREETING);
    protected.login();
    protected.check_call();
    protected.wait_for_refresh();
    let tokens = protected.tokens();
    assert!(protected.is_accepted(&tokens["access"]));
    assert_eq!(protected.logout(), "revoked");
    assert!(!protected.is_accepted(&tokens["access"]));
}
