//! Servers that need a sign-in (AUTH-6, AUTH-7, AUTH-8, LIF-13).

use std::sync::Arc;

use serde_json::json;
use trunkline::auth::{Auth, TransportClient, Vault};
use trunkline::call::CallErrorKind;
use trunkline::permission::Rules;
use trunkline::server::State;
use trunkline::storage::CatalogStore;
use trunkline::transport::Dialer;
use trunkline::{AgentScope, CallOptions, Host, HostBuilder, ServerEntry};
use trunkline_testkit::net::{OAuthServer, follow_redirect};

use crate::lab::{Lab, eventually, in_time};

const AUTHENTICATE: &str = "mcp__s__authenticate";
const GREET: &str = "mcp__s__greet";

/// A host with a server that a test issuer protects.
fn protected(lab: &Lab, issuer: &OAuthServer) -> HostBuilder {
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .catalogs(CatalogStore::at(lab.at("catalogs")))
        .server(ServerEntry::http("s", issuer.resource()))
        .auth(auth(lab))
}

/// The sign-ins of a lab.
fn auth(lab: &Lab) -> Auth {
    let vault = Vault::without_keychain(lab.at("secrets.json"));
    let http = TransportClient::new(Dialer::with_vars(|_| None));
    Auth::builder(Arc::new(vault), lab.at("auth"), Arc::new(http)).build()
}

fn names(host: &Host) -> Vec<String> {
    let pool = host.pool();
    pool.offered().map(|tool| tool.name.clone()).collect()
}

/// Calls the tool that starts the sign-in, and returns the URL for the user.
async fn start_sign_in(host: &Host) -> String {
    let output = host.call(AUTHENTICATE, json!({}), CallOptions::new()).await;
    let text = output.unwrap().text();
    let url = text.lines().find(|line| line.contains("/authorize?"));
    url.unwrap_or_else(|| panic!("no URL in {text}")).to_owned()
}

/// Signs in as a user does in a browser.
async fn visit(issuer: &OAuthServer, url: &str) {
    let redirect = issuer.authorize(url);
    let page = tokio::task::spawn_blocking(move || follow_redirect(&redirect));
    let page = page.await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
}

async fn sign_in(host: &Host, issuer: &OAuthServer) {
    let url = start_sign_in(host).await;
    visit(issuer, &url).await;
    eventually("the tools", || names(host) == [GREET]).await;
}

#[tokio::test]
async fn a_tool_stands_in_for_a_server_that_needs_a_sign_in() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let host = lab.ready(protected(&lab, &issuer)).await;
    assert!(matches!(
        host.server("s").unwrap().state,
        State::NeedsAuth(_)
    ));
    assert_eq!(names(&host), [AUTHENTICATE]);
    let error = host.call(GREET, json!({}), CallOptions::new()).await;
    assert_eq!(error.unwrap_err().kind(), CallErrorKind::AuthRequired);

    // Two agents at once get one flow.
    let agents = [
        host.agent(AgentScope::all()),
        host.agent(AgentScope::all().rules(Rules::default())),
    ];
    let [one, other] = agents.each_ref();
    let (one, other) = tokio::join!(start_sign_in(one), start_sign_in(other));
    assert_eq!(one, other);
    assert_eq!(issuer.count("/register"), 1);
    visit(&issuer, &one).await;

    for host in [&host, &agents[0], &agents[1]] {
        eventually("the tools", || names(host) == [GREET]).await;
        let output = host.call(GREET, json!({}), CallOptions::new()).await;
        assert_eq!(output.unwrap().text(), "hello");
    }
    lab.end(host).await;
}

#[tokio::test]
async fn hooks_run_before_and_after_a_sign_in() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let command = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let ask = r#"echo '{"hookSpecificOutput": {"permissionDecision": "ask"}}'"#;
    let run = |hooks: serde_json::Value| {
        let settings = json!({"hooks": hooks}).to_string();
        lab.scratch.write("home/.claude/settings.json", settings);
        let project = lab.scratch.write("project/x", "");
        let layout = trunkline::config::Layout::under(lab.at("home"));
        lab.ready(protected(&lab, &issuer).discover(layout, project.parent().unwrap()))
    };
    // Nobody can be asked.
    let host = run(json!({"PreToolUse": command(ask)})).await;
    let refused = host.call(AUTHENTICATE, json!({}), CallOptions::new()).await;
    assert_eq!(refused.unwrap_err().kind(), CallErrorKind::Refused);
    assert_eq!(issuer.count("/register"), 0);
    lab.end(host).await;

    let host = run(json!({"PostToolUse": command("echo seen >&2; exit 2")})).await;
    let output = host.call(AUTHENTICATE, json!({}), CallOptions::new()).await;
    assert!(output.unwrap().text().ends_with("[hook] seen"));
    lab.end(host).await;
}

#[tokio::test]
async fn an_agent_or_a_rule_without_the_server_cannot_sign_in_to_it() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let rules = Rules::default().deny("mcp__s");
    let host = lab.ready(protected(&lab, &issuer).rules(rules)).await;
    let denied = host.call(AUTHENTICATE, json!({}), CallOptions::new()).await;
    assert_eq!(denied.unwrap_err().kind(), CallErrorKind::Refused);
    let agent = host.agent(AgentScope::none());
    assert_eq!(names(&agent), Vec::<String>::new());
    let unknown = agent
        .call(AUTHENTICATE, json!({}), CallOptions::new())
        .await;
    assert_eq!(unknown.unwrap_err().kind(), CallErrorKind::UnknownTool);
    assert_eq!(issuer.count("/register"), 0);
    lab.end(host).await;

    let host = lab
        .ready(protected(&lab, &issuer).sign_in_tools(false))
        .await;
    assert_eq!(names(&host), Vec::<String>::new());
    lab.end(host).await;
}

#[tokio::test]
async fn a_server_that_asked_for_a_sign_in_is_not_probed_again() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let host = lab.ready(protected(&lab, &issuer)).await;
    lab.end(host).await;
    let probes = issuer.count("/mcp");
    assert!(probes > 0);

    let host = lab.ready(protected(&lab, &issuer)).await;
    assert!(matches!(
        host.server("s").unwrap().state,
        State::NeedsAuth(_)
    ));
    assert_eq!(issuer.count("/mcp"), probes);
    // Somebody may ask for it all the same.
    host.reconnect("s").await.unwrap();
    in_time("ready", host.ready_for("s")).await.unwrap();
    assert!(issuer.count("/mcp") > probes);
    // The challenge of the first run is still known.
    sign_in(&host, &issuer).await;
    lab.end(host).await;

    let host = lab.ready(protected(&lab, &issuer)).await;
    assert!(matches!(
        host.server("s").unwrap().state,
        State::Connected(_)
    ));
    lab.end(host).await;
}

#[tokio::test]
async fn a_catalog_belongs_to_the_sign_in_that_it_was_fetched_with() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let host = lab.ready(protected(&lab, &issuer)).await;
    sign_in(&host, &issuer).await;
    lab.end(host).await;

    let host = protected(&lab, &issuer).start();
    assert_eq!(names(&host), [GREET], "the stored catalog");
    in_time("ready", host.ready()).await;
    host.server_auth("s").unwrap().logout().await.unwrap();
    lab.end(host).await;

    let host = protected(&lab, &issuer).start();
    assert_eq!(names(&host), Vec::<String>::new(), "the catalog of another");
    in_time("ready", host.ready()).await;
    assert_eq!(names(&host), [AUTHENTICATE]);
    lab.end(host).await;
}

/// A process that still has the token of an earlier sign-in stores nothing for the next one.
#[tokio::test]
async fn a_catalog_of_an_earlier_sign_in_is_not_stored_for_the_next() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let host = lab.ready(protected(&lab, &issuer)).await;
    sign_in(&host, &issuer).await;
    eventually("the catalog", || !stored(&lab).is_empty()).await;
    let before = stored(&lab);
    // Another process signs in a second later, as the list of accounts tells.
    let accounts = lab.at("auth/accounts.json");
    let text = std::fs::read_to_string(&accounts).unwrap();
    let mut list: serde_json::Value = serde_json::from_str(&text).unwrap();
    for account in list.as_object_mut().unwrap().values_mut() {
        account["signedInAt"] = json!(account["signedInAt"].as_u64().unwrap() + 1);
    }
    std::fs::write(&accounts, list.to_string()).unwrap();
    host.reconnect("s").await.unwrap();
    in_time("ready", host.ready_for("s")).await.unwrap();
    assert_eq!(names(&host), [GREET]);
    lab.end(host).await;
    assert_eq!(stored(&lab), before);
}

/// The files of stored catalogs.
fn stored(lab: &Lab) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(lab.at("catalogs")).into_iter().flatten();
    let files = files.map(|file| file.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension() == Some("json".as_ref()))
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn missing_scopes_are_asked_for_beside_the_tools() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let host = lab.ready(protected(&lab, &issuer)).await;
    sign_in(&host, &issuer).await;
    issuer.configure(|options| options.required_scopes = vec!["admin".to_owned()]);
    let error = host.call(GREET, json!({}), CallOptions::new()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), CallErrorKind::AuthRequired);
    assert!(error.to_string().contains("admin"), "{error}");
    assert!(!error.may_have_run());
    assert_eq!(names(&host), [AUTHENTICATE, GREET]);

    let url = start_sign_in(&host).await;
    assert!(url.contains("admin"), "{url}");
    visit(&issuer, &url).await;
    eventually("the tools", || names(&host) == [GREET]).await;
    let output = host.call(GREET, json!({}), CallOptions::new()).await;
    assert_eq!(output.unwrap().text(), "hello");
    lab.end(host).await;
}

/// A changed entry takes effect with the reload, also for a sign-in that is under way.
#[tokio::test]
async fn changed_sign_in_settings_apply_after_a_reload() {
    let (lab, issuer) = (Lab::new(), OAuthServer::start());
    let write = |oauth: serde_json::Value| {
        let entry = json!({"type": "http", "url": issuer.resource(), "oauth": oauth});
        let config = json!({"mcpServers": {"s": entry}}).to_string();
        std::fs::write(lab.at("home/.claude.json"), config).unwrap();
    };
    for folder in ["home", "repo"] {
        std::fs::create_dir_all(lab.at(folder)).unwrap();
    }
    write(json!({"scopes": "read"}));
    let layout = trunkline_config::Layout::under(lab.at("home"));
    let builder = Host::builder()
        .permit(trunkline::permission::AllowAll)
        .discover(layout, &lab.at("repo"))
        .auth(auth(&lab));
    let host = lab.ready(builder).await;
    let first = start_sign_in(&host).await;
    assert!(first.contains("scope=read&"), "{first}");

    // Scopes and the port are not part of the identity under which tokens are stored.
    let port = free_port();
    write(json!({"scopes": "read write", "callbackPort": port}));
    host.reload().await;
    in_time("ready", host.ready()).await;
    let second = start_sign_in(&host).await;
    assert!(second.contains("scope=read+write"), "{second}");
    let redirect = format!("redirect_uri=http%3A%2F%2F127.0.0.1%3A{port}%2F");
    assert!(second.contains(&redirect), "{second}");

    issuer.add_client("mine", None);
    write(json!({"scopes": "admin", "clientId": "mine"}));
    host.reload().await;
    in_time("ready", host.ready()).await;
    let third = start_sign_in(&host).await;
    assert!(third.contains("client_id=mine&"), "{third}");
    visit(&issuer, &third).await;
    eventually("the tools", || names(&host) == [GREET]).await;

    // The same identity, so the stored tokens stay; another sign-in would add the new scope.
    write(json!({"scopes": "admin audit", "clientId": "mine"}));
    host.reload().await;
    in_time("ready", host.ready()).await;
    eventually("the tools", || names(&host) == [GREET]).await;
    let auth = host.server_auth("s").unwrap();
    assert_eq!(auth.missing_scopes().await.unwrap(), ["audit"]);
    lab.end(host).await;
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
