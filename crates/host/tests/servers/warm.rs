//! Catalogs stored between runs (LIF-13).

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use trunkline::server::{Catalog, State};
use trunkline::storage::CatalogStore;
use trunkline::{Builtin, Host, HostBuilder, ServerEntry};
use trunkline_testkit::{Era, Script};

use crate::lab::{
    LONGEST_PAUSE, Lab, call, eventually, in_time, pass, until_connected, until_failed,
};

fn offering(tools: &[&str]) -> Script {
    let script = Script {
        instructions: Some("be kind".to_owned()),
        ..Script::default()
    };
    let script = script
        .prompt(json!({"name": "p"}))
        .resource("file:///r", "r");
    tools.iter().fold(script, |script, name| {
        script.tool_with(
            json!({"name": name, "description": format!("{name} of the first run"), "x": 1.50}),
        )
    })
}

/// A host that stores its catalogs in the lab.
fn keeping(lab: &Lab, servers: impl IntoIterator<Item = ServerEntry>) -> HostBuilder {
    let store = CatalogStore::at(lab.at("cache/catalogs"));
    Host::builder()
        .permit(trunkline::permission::AllowAll)
        .servers(servers)
        .catalogs(store)
}

/// One complete run of a host with these servers.
async fn run(lab: &Lab, servers: impl IntoIterator<Item = ServerEntry>) {
    let host = lab.ready(keeping(lab, servers)).await;
    lab.end(host).await;
}

fn kept(lab: &Lab) -> Vec<PathBuf> {
    let files = fs::read_dir(lab.at("cache/catalogs")).into_iter().flatten();
    files.map(|file| file.unwrap().path()).collect()
}

fn catalog(host: &Host) -> Arc<Catalog> {
    Arc::clone(&host.server("s").unwrap().catalog)
}

fn names(host: &Host) -> Vec<String> {
    let pool = host.pool();
    pool.tools().iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn second_run_has_all_tools_immediately_and_calls_wait() {
    for era in [Era::Modern, Era::Legacy] {
        let lab = Lab::new();
        let servers = [
            lab.server("s", offering(&["a", "b"]).era(era)),
            lab.server("t", offering(&["c"]).era(era)),
        ];
        let host = lab.ready(keeping(&lab, servers.clone())).await;
        let fresh = catalog(&host);
        assert!(!fresh.cached);
        lab.end(host).await;
        assert_eq!(kept(&lab).len(), 2);

        let host = keeping(&lab, servers).start();
        assert_eq!(names(&host), ["mcp__s__a", "mcp__s__b", "mcp__t__c"]);
        let status = host.server("s").unwrap();
        assert!(matches!(status.state, State::Pending { attempt: 1, .. }));
        let warm = &status.catalog;
        assert!(warm.cached && warm.diagnostics.is_empty());
        assert_eq!((warm.prompts.len(), warm.resources.len()), (1, 1));
        for (warm, fresh) in warm.tools().iter().zip(fresh.tools()) {
            assert_eq!(warm.tool.raw.as_str(), fresh.tool.raw.as_str());
        }
        let identity = warm.identity.as_ref().unwrap();
        assert_eq!(identity.instructions.as_deref(), Some("be kind"));
        assert_eq!(identity.info.as_ref().unwrap().name, "testkit");

        assert_eq!(
            call(&host, "mcp__s__a", json!({"n": 1})).await.unwrap(),
            r#"{"n":1}"#
        );
        assert!(!catalog(&host).cached);
        in_time("the host to be ready", host.ready()).await;
        assert_eq!(names(&host), ["mcp__s__a", "mcp__s__b", "mcp__t__c"]);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn fresh_lists_replace_stored_ones_and_are_stored() {
    let lab = Lab::new();
    let entry = lab.server("s", offering(&["stays", "goes"]));
    run(&lab, [entry.clone()]).await;

    let changed = Script::default()
        .tool_with(json!({"name": "stays", "description": "another"}))
        .tool_with(json!({"name": "comes"}));
    assert!(lab.server("s", changed) == entry, "the entry is the same");
    let host = keeping(&lab, [entry.clone()]).start();
    assert_eq!(names(&host), ["mcp__s__goes", "mcp__s__stays"]);
    let before = Arc::clone(host.pool().get("mcp__s__stays").unwrap());
    in_time("the host to be ready", host.ready()).await;
    assert_eq!(names(&host), ["mcp__s__comes", "mcp__s__stays"]);
    let after = Arc::clone(host.pool().get("mcp__s__stays").unwrap());
    assert_ne!(before.tool.raw.as_str(), after.tool.raw.as_str());
    assert!(catalog(&host).prompts.is_empty());
    lab.end(host).await;

    let host = keeping(&lab, [entry]).start();
    assert_eq!(names(&host), ["mcp__s__comes", "mcp__s__stays"]);
    lab.end(host).await;
}

#[tokio::test]
async fn change_during_a_run_is_stored() {
    let lab = Lab::new();
    let grow = json!([{"addTool": {"name": "new"}}, {"replyText": ""}]);
    let entry = lab.server("s", Script::default().tool("grow", grow));
    let host = lab.ready(keeping(&lab, [entry.clone()])).await;
    call(&host, "mcp__s__grow", json!({})).await.unwrap();
    eventually("the new tool", || host.pool().get("mcp__s__new").is_some()).await;
    lab.end(host).await;
    let host = keeping(&lab, [entry]).start();
    assert_eq!(names(&host), ["mcp__s__grow", "mcp__s__new"]);
    lab.end(host).await;
}

#[tokio::test]
async fn broken_stored_catalog_is_ignored_and_replaced() {
    let lab = Lab::new();
    let entry = lab.server("s", offering(&["a"]));
    run(&lab, [entry.clone()]).await;
    let [file] = &kept(&lab)[..] else {
        panic!("one file");
    };
    let good = fs::read(file).unwrap();
    for broken in [
        &b""[..],
        b"{",
        &good[..good.len() - 9],
        b"\xff\x00",
        b"[[[[",
    ] {
        fs::write(file, broken).unwrap();
        let host = keeping(&lab, [entry.clone()]).start();
        assert!(names(&host).is_empty() && !catalog(&host).cached);
        in_time("the host to be ready", host.ready()).await;
        assert_eq!(names(&host), ["mcp__s__a"]);
        lab.end(host).await;
        let host = keeping(&lab, [entry.clone()]).start();
        assert_eq!(names(&host), ["mcp__s__a"]);
        lab.end(host).await;
    }
}

#[tokio::test]
async fn unwritable_store_is_harmless() {
    let lab = Lab::new();
    let entry = lab.server("s", offering(&["a"]));
    lab.scratch.write("file", "");
    let read_only = lab.at("read-only");
    fs::create_dir(&read_only).unwrap();
    let mut permissions = fs::metadata(&read_only).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&read_only, permissions).unwrap();
    for place in [
        lab.at("file"),
        lab.at("file").join("catalogs"),
        read_only.join("catalogs"),
        "/proc/nowhere/catalogs".into(),
    ] {
        for _ in 0..2 {
            let builder = Host::builder()
                .permit(trunkline::permission::AllowAll)
                .server(entry.clone());
            let host = lab.ready(builder.catalogs(CatalogStore::at(&place))).await;
            assert_eq!(call(&host, "mcp__s__a", json!({})).await.unwrap(), "{}");
            assert!(!catalog(&host).cached);
            lab.end(host).await;
        }
    }
}

#[tokio::test]
async fn catalog_belongs_to_its_entry() {
    let lab = Lab::new();
    let entry = lab.server("s", offering(&["a"]));
    run(&lab, [entry.clone()]).await;
    let other = ServerEntry {
        always_load: true,
        ..entry.clone()
    };
    let renamed = ServerEntry {
        name: "renamed".to_owned(),
        ..entry.clone()
    };
    let disabled = ServerEntry {
        disabled: true,
        ..entry
    };
    for entry in [other, renamed, disabled] {
        let host = keeping(&lab, [entry]).start();
        assert!(names(&host).is_empty());
        lab.end(host).await;
    }
}

#[tokio::test]
async fn embedded_server_is_not_stored() {
    let lab = Lab::new();
    let schema = json!({"type": "object"});
    let builtin = || {
        let builtin = Builtin::new("b");
        builtin.tool("t", "", &schema, |_| async { Ok(String::new().into()) })
    };
    let host = lab.ready(keeping(&lab, []).builtin(builtin())).await;
    assert_eq!(names(&host), ["mcp__b__t"]);
    lab.end(host).await;
    assert!(kept(&lab).is_empty());
}

#[tokio::test]
async fn unreachable_server_keeps_its_stored_catalog() {
    let lab = Lab::new();
    let entry = lab.breakable("s", offering(&["a"]));
    run(&lab, [entry.clone()]).await;
    lab.scratch.write("s.broken", "");
    let host = lab.ready(keeping(&lab, [entry])).await;
    until_failed(&host, "s").await;
    assert_eq!(names(&host), ["mcp__s__a"]);
    assert!(catalog(&host).cached);
    let error = call(&host, "mcp__s__a", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("status 7"), "{error}");
    fs::remove_file(lab.at("s.broken")).unwrap();
    assert_eq!(call(&host, "mcp__s__a", json!({})).await.unwrap(), "{}");
    lab.end(host).await;
}

#[tokio::test]
async fn failed_list_keeps_its_stored_items_marked_as_cached() {
    let lab = Lab::new();
    let waiting = json!([{"waitForFile": lab.at("answers")}, {"default": true}]);
    let mut script = offering(&["a"]).on("tools/list", waiting);
    script.received_log = Some(lab.at("received"));
    let entry = lab.server("s", script);
    lab.scratch.write("answers", "");
    run(&lab, [entry.clone()]).await;
    let [file] = &kept(&lab)[..] else {
        panic!("one file");
    };
    let before = fs::read(file).unwrap();
    fs::remove_file(lab.at("answers")).unwrap();
    fs::remove_file(lab.at("received")).unwrap();

    let host = keeping(&lab, [entry]).start();
    eventually("the fetch", || {
        lab.scratch.read("received").contains("tools/list")
    })
    .await;
    pass(LONGEST_PAUSE).await;
    until_connected(&host, "s").await;
    let catalog = catalog(&host);
    assert!(catalog.cached);
    assert_eq!(names(&host), ["mcp__s__a"]);
    assert!(catalog.diagnostics[0].starts_with("tools/list failed"));
    lab.end(host).await;
    assert_eq!(fs::read(file).unwrap(), before);
}

#[tokio::test]
async fn failed_lists_do_not_prevent_storing_a_catalog() {
    let unknown = json!({"code": -32601, "message": "Method not found"});
    let broken = json!({"code": -32603, "message": "the database is down"});
    for (error, is_note) in [(unknown, true), (broken, false)] {
        let lab = Lab::new();
        let script = || {
            let refusal = json!([{"replyError": error.clone()}]);
            offering(&["t"]).on("resources/list", refusal)
        };
        let host = lab.ready(keeping(&lab, [lab.server("s", script())])).await;
        let now = catalog(&host);
        assert_eq!(
            (now.notes.len(), now.diagnostics.len()),
            (usize::from(is_note), usize::from(!is_note)),
            "{now:?}"
        );
        lab.end(host).await;
        assert_eq!((kept(&lab).len(), lab.starts("s")), (1, 1));

        let lazy = keeping(&lab, [lab.server("s", script())]).lazy(true);
        let host = lab.ready(lazy).await;
        let warm = catalog(&host);
        assert_eq!((names(&host).len(), lab.starts("s")), (1, 1));
        assert_eq!((warm.notes.len(), warm.diagnostics.len()), (1, 0));
        lab.end(host).await;
    }
}

#[tokio::test]
async fn catalog_without_tools_is_not_stored() {
    let lab = Lab::new();
    let refusal = json!([{"replyError": {"code": -32601, "message": "Method not found"}}]);
    let script = offering(&["t"]).on("tools/list", refusal);
    let host = lab.ready(keeping(&lab, [lab.server("s", script)])).await;
    assert_eq!(catalog(&host).diagnostics.len(), 1);
    lab.end(host).await;
    assert_eq!(kept(&lab), [] as [PathBuf; 0]);
}
