//! `doctor` for servers on the network: addresses, certificates, protocols and sign-ins.

use std::io::Write;

use serde_json::json;
use trunkline_testkit::net::{
    HttpProxy, HttpServer, OAuthServer, RawHttp, SseServer, TestCa, TlsOptions,
};

use crate::doctor::{is_diagnosed, report, user_servers};
use crate::lab::{Lab, echo};

#[test]
fn addresses_and_ports_are_checked() {
    let lab = Lab::new();
    // As servers without TLS do with whatever is no request.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    user_servers(
        &lab,
        &json!({
            "closed": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
            "name": {"type": "http", "url": "http://no-such-host.invalid/mcp"},
            "nottls": {"type": "http", "url": plain.replace("http:", "https:")},
            "url": {"type": "http", "url": "ftp://h.test/"},
            "ws": {"type": "ws", "url": "ws://127.0.0.1:9/"},
        }),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(
        &run,
        "closed",
        "connect",
        "port-closed",
        "trunkline edit closed --url URL",
    );
    is_diagnosed(
        &run,
        "ws",
        "connect",
        "port-closed",
        "trunkline edit ws --url URL",
    );
    is_diagnosed(
        &run,
        "name",
        "dns",
        "name-not-found",
        "trunkline edit name --url URL",
    );
    let fix = format!("trunkline edit nottls --url {plain}");
    is_diagnosed(&run, "nottls", "tls", "tls-on-plain-port", &fix);
    assert_eq!(report(&run, "url")["status"], "failed");
    assert_eq!(run.code, Some(3));
    let tried = report(&run, "closed")["steps"].to_string();
    assert!(tried.contains("tried 127.0.0.1:9"), "{tried}");
}

#[test]
fn certificates_are_explained() {
    let lab = Lab::new();
    let ca = TestCa::new();
    let file = ca.write(&lab.scratch);
    let tls = |identity| {
        HttpServer::builder(echo())
            .tls(TlsOptions::with(identity))
            .start()
    };
    let (good, expired, other) = (
        tls(ca.server()),
        tls(ca.expired_server()),
        tls(ca.server_for(&["other.test"])),
    );
    let trusted = json!({"ca": file});
    user_servers(
        &lab,
        &json!({
            "good": {"type": "http", "url": good.url(), "tls": trusted},
            "unknown": {"type": "http", "url": good.url()},
            "expired": {"type": "http", "url": expired.url(), "tls": trusted},
            "other": {"type": "http", "url": other.url(), "tls": trusted},
            "plain": {"type": "http", "url": good.url().replace("https:", "http:"), "tls": trusted},
        }),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    assert_eq!(report(&run, "good")["status"], "ok", "{run:#?}");
    is_diagnosed(
        &run,
        "unknown",
        "tls",
        "unknown-authority",
        "NODE_EXTRA_CA_CERTS",
    );
    is_diagnosed(&run, "unknown", "tls", "unknown-authority", "\"ca\"");
    is_diagnosed(&run, "expired", "tls", "certificate-expired", "renew");
    is_diagnosed(
        &run,
        "other",
        "tls",
        "certificate-name",
        "trunkline edit other --url URL",
    );
    let fix = format!("trunkline edit plain --url {}", good.url());
    is_diagnosed(&run, "plain", "handshake", "plain-on-tls-port", &fix);
}

#[test]
fn wrong_protocols_paths_and_pages_are_recognised() {
    let lab = Lab::new();
    let (http, sse) = (HttpServer::start(echo()), SseServer::start(echo()));
    let page = RawHttp::start(|_, reply| {
        reply.respond(
            200,
            &[("content-type", "text/html")],
            "<!doctype html><h1>Hello</h1>",
        );
    });
    let broken = RawHttp::start(|_, reply| {
        reply.respond(502, &[("content-type", "text/plain")], "upstream is down");
    });
    let at_root = |url: String| {
        let mut url = url::Url::parse(&url).unwrap();
        url.set_path("/");
        url.to_string()
    };
    user_servers(
        &lab,
        &json!({
            "sse": {"type": "http", "url": sse.url()},
            "http": {"type": "sse", "url": http.url()},
            "page": {"type": "http", "url": page.url()},
            "broken": {"type": "http", "url": broken.url()},
            "root": {"type": "http", "url": at_root(http.url())},
        }),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(
        &run,
        "sse",
        "handshake",
        "wrong-transport",
        "trunkline edit sse --set type=sse",
    );
    is_diagnosed(
        &run,
        "http",
        "handshake",
        "wrong-transport",
        "trunkline edit http --set type=http",
    );
    is_diagnosed(
        &run,
        "page",
        "handshake",
        "not-mcp",
        "trunkline edit page --url URL",
    );
    is_diagnosed(
        &run,
        "broken",
        "handshake",
        "server-error",
        "log of the server",
    );
    let fix = format!("trunkline edit root --url {}", http.url());
    is_diagnosed(&run, "root", "handshake", "wrong-path", &fix);
    let evidence = report(&run, "broken")["steps"].to_string();
    assert!(
        evidence.contains("status 502") && evidence.contains("upstream is down"),
        "{evidence}"
    );
}

#[test]
fn a_fix_corrects_the_type_and_the_path() {
    let lab = Lab::new();
    let (http, sse) = (HttpServer::start(echo()), SseServer::start(echo()));
    let root = url::Url::parse(&http.url()).unwrap().join("/").unwrap();
    user_servers(
        &lab,
        &json!({"sse": {"type": "http", "url": sse.url()}, "root": {"type": "http", "url": root.as_str()}}),
    );
    let before = lab.scratch.read("home/.claude.json");
    let run = lab.plainly(&["doctor", "--dry-run"]);
    assert_eq!(run.code, Some(3), "{run:#?}");
    assert!(
        run.out.contains("would fix sse: set \"type\" to \"sse\""),
        "{run:#?}"
    );
    assert_eq!(lab.scratch.read("home/.claude.json"), before);
    let run = lab.plainly(&["doctor", "--fix"]);
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert!(run.out.contains("fixed root: set \"url\" to"), "{run:#?}");
    let servers = lab.global()["mcpServers"].clone();
    assert_eq!(servers["sse"]["type"], "sse");
    assert_eq!(servers["root"]["url"], http.url());
}

#[test]
fn proxies_and_clocks_are_suspected() {
    let lab = Lab::new();
    let proxy = HttpProxy::start_auth("me", "secret");
    user_servers(
        &lab,
        &json!({"s": {"type": "http", "url": "https://mcp.test/mcp"}}),
    );
    let run = lab.finish(
        lab.bare(&["doctor", "--json"])
            .env("HTTPS_PROXY", proxy.url()),
    );
    is_diagnosed(
        &run,
        "s",
        "connect",
        "proxy-credentials",
        "export HTTPS_PROXY=http://USER",
    );
    let run = lab.finish(
        lab.bare(&["doctor", "--json"])
            .env("HTTPS_PROXY", "http://127.0.0.1:9"),
    );
    is_diagnosed(
        &run,
        "s",
        "connect",
        "proxy-failed",
        "export NO_PROXY=mcp.test",
    );
    lab.scratch
        .write("home/.npmrc", "https-proxy=http://proxy.corp:3128\n");
    user_servers(
        &lab,
        &json!({"s": {"type": "http", "url": "https://no-such.invalid/mcp"}}),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(&run, "s", "dns", "proxy-needed", "export HTTPS_PROXY=");

    let skewed = RawHttp::start(|_, reply| {
        let headers = [
            ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
            ("www-authenticate", "Bearer error=\"invalid_token\""),
        ];
        reply.respond(401, &headers, "");
    });
    user_servers(
        &lab,
        &json!({"s": {"type": "http", "url": skewed.url(), "headers": {"Authorization": "Bearer abcdefgh"}}}),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(&run, "s", "auth", "clock-skew", "timedatectl set-ntp true");
    assert_eq!(run.code, Some(4));
}

#[test]
fn sign_ins_are_told_apart_from_tokens() {
    let lab = Lab::new();
    let issuer = OAuthServer::start();
    let token = HttpServer::builder(echo()).token("right").start();
    // {"exp":1000000000}
    let old = "Bearer e30.eyJleHAiOjEwMDAwMDAwMDB9.c2ln";
    user_servers(
        &lab,
        &json!({
            "oauth": {"type": "http", "url": issuer.resource()},
            "wrong": {"type": "http", "url": token.url(), "headers": {"Authorization": "Bearer wrong-token"}},
            "expired": {"type": "http", "url": token.url(), "headers": {"Authorization": old}},
            "unset": {"type": "http", "url": token.url(), "headers": {"Authorization": "Bearer ${NO_SUCH_TOKEN}"}},
        }),
    );
    let run = lab.plainly(&["doctor", "--json"]);
    is_diagnosed(
        &run,
        "oauth",
        "auth",
        "needs-sign-in",
        "trunkline login oauth",
    );
    let header = "-H 'Authorization: Bearer TOKEN'";
    is_diagnosed(&run, "wrong", "auth", "token-refused", header);
    is_diagnosed(&run, "expired", "auth", "token-expired", header);
    is_diagnosed(
        &run,
        "unset",
        "auth",
        "variable-not-set",
        "export NO_SUCH_TOKEN=VALUE",
    );
    assert_eq!(run.code, Some(4));
    run.never_says("wrong-token");
    run.never_says("eyJleHAiOjEwMDAwMDAwMDB9");
}
